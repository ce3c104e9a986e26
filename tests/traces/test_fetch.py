"""Fetching published traces from a server that drops, delays, refuses, truncates and changes what it serves."""

import contextlib
import email.utils
import errno
import hashlib
import io
import re
import runpy
import subprocess
import sys
import threading
import time
from base64 import b64encode
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

import pytest

from tvwrl.traces import download as downloading
from tvwrl.traces.download import Patience
from tvwrl.traces.fetch import PUBLISHERS, fetch, source_folder, split_cell
from tvwrl.types import InputError

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "fetch_trace.py"
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


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # the client closed the connection first


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    site = Site(files={ZIP: BODY, "gwa_t_12_rnd.zip": b"rnd"})
    server = Server(("127.0.0.1", 0), type("MyHandler", (Handler,), {"site": site}))
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def waits():
    """Seconds that were waited between attempts, or would have been."""
    return []


@pytest.fixture
def said():
    return []


@pytest.fixture
def get(site, tmp_path, waits, said):
    """Fetches one table of bitbrains from the site; options as for `fetch`."""

    def get(name="bitbrains", tables=("fastStorage",), **options):
        patience = Patience(attempts=4, timeout=0.3, sleep=waits.append)
        options = {"base_url": site.url, "report": said.append, "patience": patience} | options
        return fetch(name, tmp_path / "raw", tables=tables, **options)

    return get


def part_of(tmp_path):
    return tmp_path / "raw" / f"{ZIP}.part"


def checksums(**sums):
    return "".join(f"{value}  {name}\n" for name, value in sums.items()).encode()


def files_in(tmp_path):
    return sorted(path.name for path in (tmp_path / "raw").rglob("*") if path.is_file())


def test_a_file_appears_whole_and_is_not_fetched_again(get, site, tmp_path, said):
    assert get() == [tmp_path / "raw" / ZIP]
    assert (tmp_path / "raw" / ZIP).read_bytes() == BODY
    assert files_in(tmp_path) == [ZIP]
    written = (tmp_path / "raw" / ZIP).stat().st_mtime_ns
    get()
    assert (tmp_path / "raw" / ZIP).stat().st_mtime_ns == written
    assert any("already there" in line for line in said)


def test_a_file_of_another_size_is_fetched_anew(get, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / ZIP).write_bytes(b"short")
    get()
    assert (tmp_path / "raw" / ZIP).read_bytes() == BODY


@pytest.mark.parametrize("states_length", [True, False])
def test_without_a_stated_length_the_body_is_taken_as_it_ends(get, site, tmp_path, states_length):
    site.states_length = states_length
    get()
    get()
    assert (tmp_path / "raw" / ZIP).read_bytes() == BODY


def test_dropped_connections_are_resumed_where_they_broke(get, site, tmp_path, waits):
    site.faults[ZIP] = [("drop", 300_000), ("drop", 300_000), ("drop", 0), ("drop", 10)]
    get()
    assert (tmp_path / "raw" / ZIP).read_bytes() == BODY
    assert site.asked(ZIP) == [None, "bytes=300000-", "bytes=600000-", "bytes=600000-", "bytes=600010-"]
    assert waits == [1, 1, 2, 1], "only failures without a new byte lengthen the wait"


def test_a_server_without_ranges_is_begun_anew(get, site, tmp_path):
    site.ranges = False
    site.faults[ZIP] = [("drop", 300_000)]
    get()
    assert (tmp_path / "raw" / ZIP).read_bytes() == BODY


def test_a_server_without_ranges_that_always_drops_is_given_up(get, site):
    site.ranges = False
    site.faults[ZIP] = [("drop", 1000)] * 9
    with pytest.raises(InputError, match=r"closed after 1000 of 1048576 bytes, 4 times in a row"):
        get()


@pytest.mark.parametrize("heeds_if_range", [True, False])
@pytest.mark.parametrize("other", [BODY[::-1], b"short"])
def test_a_file_that_changes_between_tries_is_begun_anew(get, site, tmp_path, waits, heeds_if_range, other):
    site.heeds_if_range = heeds_if_range
    site.faults[ZIP] = [("drop", 300_000)]
    patience = Patience(sleep=lambda _: site.files.update({ZIP: other}))
    get(patience=patience)
    assert (tmp_path / "raw" / ZIP).read_bytes() == other


def test_without_a_validator_nothing_is_resumed(get, site, tmp_path):
    site.tags = False
    site.faults[ZIP] = [("drop", 300_000)]
    get()
    assert site.asked(ZIP) == [None, None]
    assert (tmp_path / "raw" / ZIP).read_bytes() == BODY


def test_an_interruption_leaves_a_part_to_resume_from(get, site, tmp_path):
    site.faults[ZIP] = [("drop", 300_000)]

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(patience=Patience(sleep=interrupt))
    assert part_of(tmp_path).stat().st_size == 300_000
    assert not (tmp_path / "raw" / ZIP).exists()
    get()
    assert site.asked(ZIP) == [None, "bytes=300000-"]
    assert (tmp_path / "raw" / ZIP).read_bytes() == BODY
    assert files_in(tmp_path) == [ZIP]


def test_a_part_that_was_complete_already_is_finished(get, site, tmp_path):
    site.faults[ZIP] = [("drop", 300_000), ("status", 404)]
    with pytest.raises(InputError):
        get()
    part_of(tmp_path).write_bytes(BODY)
    get()
    assert (tmp_path / "raw" / ZIP).read_bytes() == BODY


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_errors_of_the_server_are_tried_again(get, site, waits, status):
    site.faults[ZIP] = [("status", status)] * 3
    get()
    assert waits == [1, 2, 4]


def test_lasting_errors_of_the_server_are_given_up_with_the_url(get, site, tmp_path):
    site.faults[ZIP] = [("status", 500)] * 9
    with pytest.raises(InputError, match=rf"{site.url}/{ZIP}: HTTP 500 .*, 4 times in a row; try again later"):
        get()
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("status", [400, 403, 404, 410])
def test_a_refusal_is_not_tried_again(get, site, waits, status):
    site.faults[ZIP] = [("status", status)] * 2
    with pytest.raises(InputError, match=rf"{site.url}/{ZIP}: HTTP {status} .*--base-url"):
        get()
    assert waits == []


@pytest.mark.parametrize("as_date", [False, True])
def test_the_wait_that_the_server_asks_for_is_kept(get, site, waits, as_date):
    asked = email.utils.formatdate(time.time() + 120, usegmt=True) if as_date else "120"
    site.faults[ZIP] = [("status", 503, {"Retry-After": asked})]
    get()
    assert waits == [pytest.approx(120, abs=3)]


def test_a_wait_that_is_too_long_ends_it(get, site, waits):
    site.faults[ZIP] = [("status", 429, {"Retry-After": "86400"})]
    with pytest.raises(InputError, match="come back in 86400 s"):
        get()
    assert waits == []


def test_a_server_that_hangs_times_out(get, site, tmp_path):
    site.faults[ZIP] = [("hang",)]
    get()
    assert (tmp_path / "raw" / ZIP).read_bytes() == BODY
    site.faults["gwa_t_12_rnd.zip"] = [("hang",)] * 2
    with pytest.raises(InputError, match=r"gwa_t_12_rnd.zip: timed out, 2 times in a row"):
        get(tables=["rnd"], patience=Patience(attempts=2, timeout=0.1, sleep=lambda _: None))


def test_nobody_there(get, tmp_path):
    with pytest.raises(InputError, match=r"http://127.0.0.1:9/SHA256SUM: .*refused.*--base-url"):
        get(base_url="http://127.0.0.1:9")
    assert not (tmp_path / "raw").exists()


@pytest.mark.parametrize("prefix", ["", "*", "./", "bitbrains/"])
def test_a_published_checksum_is_verified(get, site, said, prefix):
    site.files["SHA256SUM"] = checksums(**{prefix + ZIP: hashlib.sha256(BODY).hexdigest()})
    get()
    assert any("sha256 as published" in line for line in said)


def test_a_finished_file_with_another_checksum_is_fetched_anew(get, site, tmp_path):
    site.files["SHA256SUM"] = checksums(**{ZIP: hashlib.sha256(BODY).hexdigest()})
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / ZIP).write_bytes(BODY[::-1])
    get()
    assert (tmp_path / "raw" / ZIP).read_bytes() == BODY
    get()
    assert len(site.asked(ZIP)) == 1


def test_a_wrong_checksum_is_tried_once_more_and_then_named(get, site, tmp_path):
    found, stated = hashlib.sha256(BODY).hexdigest(), "0" * 64
    site.files["SHA256SUM"] = checksums(**{ZIP: stated})
    with pytest.raises(InputError, match=rf"{site.url}/{ZIP}: sha256 is {found} where {stated} is published"):
        get()
    assert len(site.asked(ZIP)) == 2
    assert files_in(tmp_path) == []


def test_a_body_that_was_wrong_once_is_repaired(get, site, tmp_path, said):
    site.files["SHA256SUM"] = checksums(**{ZIP: hashlib.sha256(BODY).hexdigest()})
    site.files[ZIP] = BODY[::-1]
    get(report=lambda line: site.files.update({ZIP: BODY}) if "published is" in line else None)
    assert (tmp_path / "raw" / ZIP).read_bytes() == BODY


@pytest.mark.parametrize("header", ["Content-MD5", "x-goog-hash"])
@pytest.mark.parametrize("good", [True, False])
def test_a_checksum_in_the_headers_is_verified(get, site, header, good):
    md5 = b64encode(hashlib.md5(BODY if good else b"").digest()).decode()
    site.headers[header] = md5 if header == "Content-MD5" else f"crc32c=AAAAAA==,md5={md5}"
    with contextlib.nullcontext() if good else pytest.raises(InputError, match=r"md5 is .* where .* is published"):
        get()


def test_digests_of_a_release_are_read_from_its_description(site, said):
    site.files["tags/v1"] = b'{"assets": [{"name": "a", "digest": "sha256:12"}, {"name": "b", "digest": null}]}'
    client = downloading.Client(said.append, Patience())
    assert client.read_sums(f"{site.url}/tags/v1") == {"a": "12"}


def test_too_little_space_is_found_before_writing(get, monkeypatch, tmp_path):
    monkeypatch.setattr(downloading.shutil, "disk_usage", lambda _: mock.Mock(free=48_576))
    with pytest.raises(InputError, match=r"needs 1\.05MB and 48\.6kB are free: make room for 1\.00MB"):
        get()
    assert not (tmp_path / "raw" / ZIP).exists()


def test_a_disk_that_fills_up_is_reported_with_what_is_missing(get, site, monkeypatch, tmp_path):
    opened = Path.open

    class Full(io.FileIO):
        def write(self, data):
            if self.tell() > 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    def open_full(path, mode="r", **options):
        return Full(path, mode) if mode == "ab" else opened(path, mode, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_full)
        with pytest.raises(InputError, match=rf"{ZIP}.part: disk full, 786kB of 1\.05MB are missing; make room"):
            get()
    assert not (tmp_path / "raw" / ZIP).exists()
    get()
    assert site.asked(ZIP) == [None, "bytes=262144-"]
    assert (tmp_path / "raw" / ZIP).read_bytes() == BODY


def test_a_folder_that_cannot_be_made(get, tmp_path):
    (tmp_path / "raw").write_text("a file")
    with pytest.raises(InputError, match=r"raw.*--out"):
        get()


def test_only_the_first_part_unless_more_are_asked_for(get, site, tmp_path, said):
    usage = [f"task_usage/part-{part:05d}-of-00500.csv.gz" for part in range(4)]
    machines = "machine_events/part-00000-of-00001.csv.gz"
    site.files |= dict.fromkeys([machines, *usage], b"rows")
    tables = ["machine_events", "task_usage"]
    assert get("google2011", tables) == [tmp_path / "raw" / path for path in (machines, usage[0])]
    assert any("only the first part of task_usage; give --parts" in line for line in said)
    wanted = [tmp_path / "raw" / path for path in (machines, usage[0], usage[2], usage[3])]
    assert get("google2011", tables, parts="2-3, 0") == wanted


def test_all_parts_of_a_table_of_unknown_length_end_where_the_server_ends(get, site, tmp_path):
    shards = [f"clusterdata_2019_b/instance_usage-{part:012d}.json.gz" for part in range(3)]
    site.files |= dict.fromkeys(shards, b"rows")
    paths = get("google2019", ["instance_usage"], parts="all", cell="b")
    assert paths == [tmp_path / "raw" / path for path in shards]
    assert paths[0].parent == source_folder("google2019", tmp_path / "raw", "b")
    with pytest.raises(InputError, match=r"instance_usage-000000000003.json.gz: HTTP 404"):
        get("google2019", ["instance_usage"], parts="0-3", cell="b")
    with pytest.raises(InputError, match=r"instance_events-000000000000.json.gz: HTTP 404"):
        get("google2019", ["instance_events"], parts="all", cell="b")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("borg", {}, "unknown trace 'borg': .*google2011.*bitbrains, tianchi"),
        ("tianchi", {}, "with an account.*prepare_trace.py tianchi --source FILE"),
        ("google2011", {"tables": ["usage"]}, "no table 'usage': .*task_usage"),
        ("google2011", {"parts": "500"}, "parts 0-499, counted from 0: there is no part 500"),
        ("google2019", {"parts": "0-99999999999"}, "there is no part 99999999999"),
        ("google2011", {"parts": "3-1"}, "must be like 0-9"),
        ("google2011", {"parts": "1-"}, "must be like 0-9"),
        ("google2011", {"parts": ""}, "must be like 0-9"),
        ("google2011", {"parts": "-1"}, "must be like 0-9"),
        ("bitbrains", {"parts": "0-3"}, "not published in parts"),
        ("google2019", {"cell": "z"}, "cell is 'z': must be one of a, b"),
        ("google2011", {"cell": "a"}, "cell is 'a': must be left out"),
        ("bitbrains", {"base_url": "ftp://host"}, "base URL is 'ftp://host'"),
        ("bitbrains", {"base_url": "http://host:port"}, "must be like https://host/folder"),
        ("bitbrains", {"base_url": "mirror"}, "must be like https://host/folder"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_asked(get, site, tmp_path, name, options, message):
    with pytest.raises(InputError, match=message):
        get(name, **({"tables": None} | options))
    assert site.requests == []
    assert not (tmp_path / "raw").exists()


@pytest.mark.parametrize("name", PUBLISHERS)
def test_publishers_are_well_formed(name):
    publisher = PUBLISHERS[name]
    assert publisher.base.startswith("https://")
    assert publisher.base.endswith("/")
    for table in publisher.tables.values():
        names = [table.names(part, "a") for part in range(table.parts or 2)]
        assert len(set(names)) == len(names)
        assert not any("{" in path or path.startswith("/") for pair in names for path in pair)
    assert set(publisher.sha256) <= {table.names(0, "")[1] for table in publisher.tables.values()}


def test_azure_files_are_named_as_the_release_has_them():
    tables = PUBLISHERS["azure2019"].tables
    assert tables["vm_cpu_readings"].names(194, "") == (
        "vm_cpu_readings/vm_cpu_readings-file-195-of-195.csv.gz",
        "trace_data_vm_cpu_readings_vm_cpu_readings-file-195-of-195.csv.gz",
    )
    assert tables["vmtable"].names(0, "") == ("vmtable/vmtable.csv.gz", "trace_data_vmtable_vmtable.csv.gz")


def test_the_publishers_own_address_has_the_publishers_names(get, site, tmp_path, monkeypatch):
    own = replace(PUBLISHERS["azure2019"], base=f"{site.url}/", checksums="")
    monkeypatch.setitem(PUBLISHERS, "azure2019", own)
    site.files["trace_data_vmtable_vmtable.csv.gz"] = b"vms"
    get("azure2019", ["vmtable"], base_url=site.url)
    assert (tmp_path / "raw" / "vmtable" / "vmtable.csv.gz").read_bytes() == b"vms"


def test_the_address_of_a_cell():
    assert split_cell("google2019", "https://x.org/a/clusterdata_2019_c") == ("https://x.org/a/", "c")
    assert split_cell("google2019", "https://x.org/a") == ("https://x.org/a", None)
    assert split_cell("azure2019", "https://x.org/a") == ("https://x.org/a", None)


def call(*arguments):
    out = io.StringIO()
    with (
        mock.patch.object(sys, "argv", [str(SCRIPT), *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        pytest.raises(SystemExit) as end,
    ):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    return end.value.code, out.getvalue()


def test_the_script_fetches_and_says_how_to_go_on(site, tmp_path, monkeypatch):
    monkeypatch.setenv("TVWRL_DATA", str(tmp_path))
    code, out = call("bitbrains", "--base-url", site.url)
    assert code == 0
    folder = tmp_path / "raw" / "bitbrains"
    assert sorted(path.name for path in folder.iterdir()) == [ZIP, "gwa_t_12_rnd.zip"]
    assert out.endswith(f"python scripts/prepare_trace.py bitbrains --source {folder}\n")


def test_the_script_ends_with_code_2_and_one_clear_line(site, tmp_path):
    site.files.clear()
    command = [sys.executable, SCRIPT, "bitbrains", "--base-url", site.url, "--out", tmp_path / "raw"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {site.url}/{ZIP}: HTTP 404")
    assert len(done.stderr.splitlines()) == 1
    assert files_in(tmp_path) == []


def test_a_mirror_without_checksums_is_said_to_have_none(get, site, said):
    get()
    assert f"{site.url}/SHA256SUM: no checksums there (HTTP 404): sizes are checked only" in said
    assert not any("--base-url" in line for line in said)


def test_an_interrupted_script_says_how_to_go_on(site, tmp_path, monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(downloading.Client, "fetch_file", stop)
    code, _ = call("bitbrains", "--base-url", site.url, "--out", tmp_path / "raw")
    assert code == 130
    hint = f"the same command goes on where it stopped; what was fetched is in {tmp_path / 'raw'}\n"
    assert capsys.readouterr().err.endswith(hint + "interrupted\n")


def test_the_documentation_lists_the_files_that_are_asked_for():
    page = (SCRIPT.parents[1] / "docs" / "traces.md").read_text()
    for name, publisher in PUBLISHERS.items():
        for table in publisher.tables.values():
            local, _ = table.names(0, publisher.cells[:1])
            assert f"`{local}`" in page, (name, local)
