"""A server that drops, delays, refuses, truncates and changes what it serves."""

import hashlib
import re
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

import pytest

from tvwrl.traces.fetch_trace import FetchOptions, fetch
from tvwrl.traces.http_requests import RetryPolicy

ZIP = "gwa_t_12_fastStorage.zip"
BODY = bytes(range(256)) * 4096  # 1 MiB: several reads


@dataclass
class Site:
    """What the server holds and how it misbehaves; `faults` are used up, one a request of that path."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list] = field(default_factory=dict)  # ("drop", n), ("status", code, headers), ("hang",)
    ranges: bool = True
    heeds_if_range: bool = True
    states_length: bool = True
    tags: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)  # path, Range

    def asked(self, path):
        return [begin for asked, begin in self.requests if asked == path]


class Handler(BaseHTTPRequestHandler):
    site: Site

    def log_message(self, *_):
        pass

    def do_GET(self):
        site, path = self.site, self.path.lstrip("/")
        site.requests.append((path, self.headers["Range"]))
        fault = site.faults[path].pop(0) if site.faults.get(path) else None
        if fault and fault[0] == "status":
            return self.head(fault[1], {"Content-Length": "0", **(fault[2] if len(fault) > 2 else {})})
        if path not in site.files:
            return self.head(404, {"Content-Length": "0"})
        if fault and fault[0] == "hang":
            time.sleep(0.6)
            return None
        self.serve(site.files[path], fault[1] if fault else None)

    def serve(self, body, drop_after):
        site, begin = self.site, 0
        tag = f'"{hashlib.md5(body).hexdigest()}"'
        headers = {"ETag": tag} if site.tags else {}
        fits = self.headers["If-Range"] in (None, tag) or not site.heeds_if_range
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        if asked and site.ranges and fits:
            begin = int(asked[1])
            if begin >= len(body):
                return self.head(416, {"Content-Range": f"bytes */{len(body)}", "Content-Length": "0"})
            headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
        if site.states_length:
            headers["Content-Length"] = str(len(body) - begin)
        self.head(206 if "Content-Range" in headers else 200, headers | site.headers)
        self.wfile.write(body[begin:][:drop_after])  # the connection closes after it, as with HTTP/1.0

    def head(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


@pytest.fixture
def site(monkeypatch, serve):
    monkeypatch.setenv("no_proxy", "*")
    site = Site(files={ZIP: BODY, "gwa_t_12_rnd.zip": b"rnd"})
    with serve(Handler, site):
        yield site


@pytest.fixture
def waits():
    """Seconds that were waited between attempts, or would have been."""
    return []


@pytest.fixture
def messages():
    return []


@pytest.fixture
def get(site, tmp_path, waits, messages):
    """Fetches one table of bitbrains from the site; `retry` changes the policy, other options are those of a fetch."""

    def get(name="bitbrains", tables=("fastStorage",), report=messages.append, retry=(), **options):
        policy = RetryPolicy(**{"attempts": 4, "timeout": 0.3, "sleep": waits.append} | dict(retry))
        options = {"base_url": site.url, "out": tmp_path / "raw"} | options
        return fetch(FetchOptions(name, tables=tables, **options), report, policy)

    return get


@pytest.fixture
def fetched(tmp_path):
    """Names and content of what lies in the folder of the download."""
    folder = tmp_path / "raw"
    return lambda: {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
