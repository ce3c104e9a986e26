"""A Prometheus server of our own that fails as asked, and how prepared traces are looked at."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import numpy as np
import pytest

from tests.traces.conftest import prepared
from tvwrl.traces.loaders import prometheus
from tvwrl.traces.loaders.prometheus import Prometheus
from tvwrl.traces.loaders.prometheus_server import CPU, HEADER, MEMORY, OWNER, REQUESTS, RetryPolicy
from tvwrl.traces.preparation.series import SeriesRules

HOUR, DAY, MIB, GIB = 3600, 86400, 2**20, 2**30
T0 = 1767571200  # 2026-01-05T00:00:00Z, a Monday
FEW = SeriesRules(300, gaps="drop", min_records=1)
POD = {"namespace": "prod", "pod": "web-5d4f8c7b9d-aaaaa"}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv(HEADER, raising=False)
    monkeypatch.setattr(prometheus, "RetryPolicy", partial(RetryPolicy, sleep=lambda seconds: None))


def run(source: str, out: Path, loader: Prometheus, rules: SeriesRules = FEW, **options: Any) -> Any:
    """The trace of what a server holds, and its report."""
    return prepared(loader, source, out, rules, readers=1, **options)


def facts(trace: Any) -> dict[str, tuple[str, list[float]]]:
    """Application and request by workload."""
    return {
        str(name): (str(trace.application[i]), np.round(trace.request[i], 9).tolist())
        for i, name in enumerate(trace.workload_id)
    }


@dataclass
class Site:
    """What the fake server has: by metric, label sets and their value as a function of time (None: no sample)."""

    url: str = ""
    now: float = T0 + 10 * DAY + 5 * HOUR
    metrics: dict[str, list[tuple[dict[str, str], Callable[[int], Any]]]] = field(default_factory=dict)
    fault: Callable[[str, dict[str, str]], tuple[Any, ...] | None] = lambda path, query: None
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    headers: list[Any] = field(default_factory=list)

    def asked(self, text: str) -> list[dict[str, str]]:
        return [query for path, query in self.requests if text in query.get("query", "") and path == "query_range"]

    def answer(self, path: str, query: dict[str, str]) -> Any:
        if path == "query":
            return {"resultType": "scalar", "result": [self.now, str(self.now)]}
        named = [name for name in self.metrics if name in query.get("match[]", query.get("query", ""))]
        if path == "label/__name__/values":
            return named
        if path in ("labels", "series"):
            return []
        if "exported_pod!=" in query["query"] or query["query"].startswith("count by"):
            return {"resultType": "matrix", "result": []}
        if query["query"].startswith("count("):
            return {"resultType": "matrix", "result": [{"metric": {}, "values": [[T0, "2"]]}]}
        times = range(int(query["start"]), int(query["end"]) + 1, int(query["step"]))
        parts = '"part"' in query["query"]  # of what pods request: here of containers alone
        result = []
        for labels, value in self.metrics.get(REQUESTS if parts else named[0], []) if named else []:
            labels = labels | ({"part": "containers"} if parts else {})
            values = [[t, str(value(t))] for t in times if value(t) is not None]
            result += [{"metric": labels, "values": values}] if values else []
        return {"resultType": "matrix", "result": result}


class Handler(BaseHTTPRequestHandler):
    site: Site

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        path = split.path.removeprefix("/api/v1/")
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        self.site.requests.append((path, query))
        self.site.headers.append(self.headers)
        fault = self.site.fault(path, query)
        if fault is None:
            body = gzip.compress(json.dumps({"status": "success", "data": self.site.answer(path, query)}).encode())
            return self.send(200, body, {"Content-Encoding": "gzip"})
        if fault[0] == "hang":
            time.sleep(0.4)
            return None
        if fault[0] == "truncate":  # in the middle of the body; the length is stated, or not
            headers = {"Content-Length": "1000"} if fault[1] else {"Connection": "close"}
            return self.send(200, b'{"status":"success","data":{"resu', headers)
        return self.send(*fault)

    def send(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def site(serve: Callable[..., Any]) -> Iterator[Site]:
    """One pod of a Deployment: 1 core and 2 GiB on nodes of 4 cores and 16 GiB; it has asked for 2 cores."""
    owner = {"owner_kind": "ReplicaSet", "owner_name": "web-5d4f8c7b9d"}
    site = Site(
        metrics={
            CPU: [(POD, lambda t: 1.0)],
            MEMORY: [(POD, lambda t: 2 * GIB)],
            REQUESTS: [(POD | {"resource": "cpu"}, lambda t: 2)],
            OWNER: [(POD | owner, lambda t: 1)],
            'kube_node_status_capacity{resource="cpu"}': [({}, lambda t: 4)],
            'kube_node_status_capacity{resource="memory"}': [({}, lambda t: 16 * GIB)],
        }
    )
    with serve(Handler, site):
        yield site


def hours(count: float, **options: Any) -> Prometheus:
    """The loader for the first hours after T0."""
    return Prometheus(**{"start": str(T0), "end": str(T0 + int(count * HOUR)), "retries": 2} | options)


@contextmanager
def prometheus_with(lines: Iterable[str], folder: Path, max_samples: int = 50_000_000) -> Iterator[str]:
    """Address of a real Prometheus server that holds samples in the OpenMetrics format, one a line."""
    programs = shutil.which("prometheus"), shutil.which("promtool")
    if None in programs:
        pytest.skip("no prometheus and promtool here (Debian: apt install prometheus)")
    (folder / "samples").write_text("\n".join([*lines, "# EOF", ""]))
    (folder / "prometheus.yml").write_text("")
    blocks = ["create-blocks-from", "--max-block-duration=48h", "openmetrics"]  # few blocks: it reads all for each
    command = [programs[1], "tsdb", *blocks, folder / "samples", folder / "data"]
    subprocess.run([*map(str, command)], check=True, capture_output=True, timeout=600)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = [f"--config.file={folder}/prometheus.yml", f"--web.listen-address={address}"]
    flags += [f"--storage.tsdb.path={folder}/data", "--storage.tsdb.retention.time=10y"]
    flags += [f"--query.max-samples={max_samples}"]
    with (folder / "log").open("wb") as log, subprocess.Popen([str(programs[0]), *flags], stderr=log) as server:
        try:
            _wait_until_ready(f"http://{address}/-/ready", server, folder / "log")
            yield f"http://{address}"
        finally:
            server.terminate()
            server.wait(10)


def _wait_until_ready(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and server.poll() is None:
        try:
            with urlopen(url, timeout=1):
                return
        except (URLError, OSError):
            time.sleep(0.05)
    pytest.fail(f"the server did not become ready: {log.read_text()[-1000:]}")
