"""The Prometheus loader: cases by hand against a real server, and every way in which a server can fail."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import numpy as np
import pytest

from tvwrl.traces import read_trace
from tvwrl.traces.loaders import prometheus_api
from tvwrl.traces.loaders.prometheus import CPU, MEMORY, OWNER, REQUESTS, Prometheus
from tvwrl.traces.preparation.prepare import prepare
from tvwrl.traces.preparation.series import SeriesRules
from tvwrl.types import InputError

HOUR, DAY, MIB, GIB = 3600, 86400, 2**20, 2**30
T0 = 1767571200  # 2026-01-05T00:00:00Z, a Monday
FEW = SeriesRules(300, gaps="drop", min_records=1)
Series = dict[str, tuple[list[int], list[list[float]]]]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv(prometheus_api.HEADER, raising=False)
    monkeypatch.setattr(prometheus_api, "FIRST_WAIT", 0.001)


def run(source: Any, out: Path, loader: Prometheus, rules: SeriesRules = FEW, **options: Any) -> Any:
    report = prepare(loader, source, out, rules, plots=False, workers=1, **options)
    return read_trace(out), report


def series(trace: Any) -> Series:
    """Slots and usage by workload."""
    return {
        str(name): (
            trace.slot[trace.offsets[i] : trace.offsets[i + 1]].tolist(),
            np.round(trace.series(i), 9).tolist(),
        )
        for i, name in enumerate(trace.workload_id)
    }


def facts(trace: Any) -> dict[str, tuple[str, list[float]]]:
    """Application and request by workload."""
    return {
        str(name): (str(trace.application[i]), np.round(trace.request[i], 9).tolist())
        for i, name in enumerate(trace.workload_id)
    }


# --- a server of our own, which fails as asked ---


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
        if query["query"].startswith("count("):
            return {"resultType": "matrix", "result": [{"metric": {}, "values": [[T0, "2"]]}]}
        times = range(int(query["start"]), int(query["end"]) + 1, int(query["step"]))
        result = []
        for labels, value in self.metrics[named[0]] if named else []:
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


POD = {"namespace": "prod", "pod": "web-5d4f8c7b9d-aaaaa"}


@pytest.fixture
def site() -> Iterator[Site]:
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
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("MyHandler", (Handler,), {"site": site}))
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


def hours(count: float, **options: Any) -> Prometheus:
    """The loader for the first hours after T0."""
    return Prometheus(**{"start": str(T0), "end": str(T0 + int(count * HOUR)), "retries": 2} | options)


def test_one_pod_by_hand(site: Site, tmp_path: Path) -> None:
    trace, report = run(site.url, tmp_path / "out", hours(0.25))
    quarter = [0.25, 0.125]  # 1 of 4 cores, 2 of 16 GiB
    assert series(trace) == {"prod/web-5d4f8c7b9d-aaaaa": ([0, 1, 2], [quarter] * 3)}
    assert trace.application.tolist() == ["prod/deployment/web"]
    np.testing.assert_array_equal(trace.request, [[0.5, np.nan]])
    assert trace.reference_machine == {"cpu_cores": 4.0, "mem_gib": 16.0}
    assert report["time"] == {"first": T0 * 10**6, "last": (T0 + 900) * 10**6}
    assert report["rows"]["read"]["cadvisor"] == 3


def test_what_is_asked(site: Site, tmp_path: Path) -> None:
    run(site.url, tmp_path / "out", hours(1, step=600, chunk=0.5, selector='{namespace="prod"}'))
    rates = site.asked(CPU)
    assert [(int(q["start"]) - T0, int(q["end"]) - T0, q["step"]) for q in rates] == [
        (600, 1800, "600"),
        (2400, 3600, "600"),
    ]
    containers = 'namespace!="",pod!="",container!="",container!="POD",namespace="prod"'
    assert rates[0]["query"] == f"sum by (namespace, pod) (rate({CPU}{{{containers}}}[600s]))"
    assert site.asked(MEMORY)[-1]["query"] == f"sum by (namespace, pod) ({MEMORY}{{{containers}}})"


@pytest.mark.parametrize("mangle", [str, Path, lambda url: f"{url}/"])
def test_address_that_went_through_a_path(site: Site, tmp_path: Path, mangle: Callable[[str], Any]) -> None:
    parts = hours(1).at(mangle(site.url)).parts(mangle(site.url))
    assert {part.source for part in parts} == {site.url}


def test_default_range_ends_at_midnight_and_resumes(site: Site) -> None:
    first = Prometheus().at(site.url)
    site.now += 3 * HOUR
    assert Prometheus().at(site.url) == first
    assert (first.start, first.end) == (str(T0 + 3 * DAY), str(T0 + 10 * DAY))
    stamps = [part.stamp for part in first.parts(site.url)]
    assert len(stamps) == 2 * 7 * 4
    assert stamps == [part.stamp for part in first.parts(site.url)]


def test_times_may_be_iso(site: Site) -> None:
    loader = Prometheus(start="2026-01-05T01:02:03+01:00", end="2026-01-06").at(site.url)
    assert (loader.start, loader.end) == (str(T0), str(T0 + DAY))  # in whole steps


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"end": "9999-01-01"}, "--end 9999-01-01: must not be in the future"),
        ({"start": str(T0 + 2 * HOUR), "end": str(T0)}, "--start 2026-01-05T02:00:00Z: not before --end"),
        ({"start": "yesterday"}, "--start yesterday: needed: 2026"),
        ({"start": "nan"}, "--start nan: needed: 2026"),
        ({"start": f"{T0}000"}, f"--start {T0}000: needed: .* seconds since 1970"),  # milliseconds
        ({"start": "0001-01-01T00:00+23:00"}, "needed: 2026"),  # in the year 0 of UTC
        ({"step": 0}, "--step 0: must be at least 1"),
        ({"chunk": 0.0}, "--chunk 0.0: must be a finite number > 0"),
        ({"reference_mem": -1.0}, "--reference-mem -1.0: must be a finite number > 0"),
    ],
)
def test_options_refused(site: Site, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hours(1, **options).at(site.url)


@pytest.mark.parametrize(
    "source",
    [
        *("host:9090", "ftp://host", "http://", "http://host:x", "http://h/graph?g0.expr=up"),
        *("http://a..b:9090", "http://h o", "http://h/ä"),
    ],
)
def test_not_an_address(source: str) -> None:
    with pytest.raises(InputError, match=r"not the address of a Prometheus server; needed is e.g. http://host:9090"):
        Prometheus().at(source)


def test_reference_machine_from_options_or_nodes(site: Site, tmp_path: Path) -> None:
    site.metrics |= {"machine_cpu_cores": [({}, lambda t: 8)], "machine_memory_bytes": [({}, lambda t: 32 * GIB)]}
    for name in [name for name in site.metrics if name.startswith("kube_node")]:
        del site.metrics[name]
    assert hours(1).at(site.url).reference_machine == {"cpu_cores": 8.0, "mem_gib": 32.0}
    del site.metrics["machine_memory_bytes"]
    with pytest.raises(InputError, match=r"neither kube_node_status_capacity.*machine_memory_bytes.*--reference-cpu"):
        hours(1).at(site.url)
    trace, _ = run(site.url, tmp_path / "out", hours(1, reference_mem=2.0))
    assert trace.series(0)[0].tolist() == [0.125, 1.0]


def test_rows_without_one_of_the_two_and_bad_rows_are_counted(site: Site, tmp_path: Path) -> None:
    cpu = {T0 + 300: None, T0 + 600: "NaN", T0 + 900: "+Inf", T0 + 1200: -0.5}
    site.metrics[CPU] = [(POD, lambda t: cpu.get(t, 1.0))]
    site.metrics[MEMORY] = [(POD, lambda t: None if t in (T0 + 1500, T0 + 1800) else GIB)]
    trace, report = run(site.url, tmp_path / "out", hours(1), max_bad_fraction=0.3)
    assert trace.slot.tolist() == list(range(6))  # slots 6 to 11 of the hour
    assert report["rows"]["dropped"] == {
        f"rows without a rate of {CPU} over --step": 1,
        f"rows without {MEMORY}": 2,
    }
    assert report["rows"]["bad"] == {"cadvisor: cpu is not finite": 2, "cadvisor: cpu is negative": 1}
    pod = "prod/web-5d4f8c7b9d-aaaaa"
    assert f"{site.url}: pod {pod} at 2026-01-05T00:10:00Z: cpu is not finite: nan" in report["examples"]
    with pytest.raises(InputError, match=r"3 of 12 rows of cadvisor are bad .* more than --max-bad-fraction 0.01"):
        run(site.url, tmp_path / "again", hours(1))
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("kind", "name", "owner"),
    [
        ("ReplicaSet", "web-5d4f8c7b9d", "deployment/web"),
        ("ReplicaSet", "my-back-end", "replicaset/my-back-end"),  # not a hash: made by hand
        ("StatefulSet", "db", "statefulset/db"),
        ("<none>", "<none>", "pod/web-5d4f8c7b9d-aaaaa"),
        ("Node", "n1", "pod/web-5d4f8c7b9d-aaaaa"),  # a static pod
    ],
)
def test_owners(site: Site, tmp_path: Path, kind: str, name: str, owner: str) -> None:
    site.metrics[OWNER] = [(POD | {"owner_kind": kind, "owner_name": name}, lambda t: 1)]
    trace, _ = run(site.url, tmp_path / "out", hours(1, per="owner"))
    assert facts(trace)[f"prod/{owner}"][0] == f"prod/{owner}"


def test_pods_without_an_owner_row(site: Site, tmp_path: Path) -> None:
    other = {"namespace": "prod", "pod": "other"}
    site.metrics[CPU].append((other, lambda t: 1.0))
    site.metrics[MEMORY].append((other, lambda t: GIB))
    trace, report = run(site.url, tmp_path / "owner", hours(1, per="owner"))
    assert trace.workload_id.tolist() == ["prod/deployment/web"]
    assert report["rows"]["dropped"] == {f"rows of pods without {OWNER}": 12}
    trace, _ = run(site.url, tmp_path / "pod", hours(1))
    assert sorted(trace.application) == ["", "prod/deployment/web"]


def error_of(code: int, text: str) -> tuple[int, bytes]:
    return code, json.dumps({"status": "error", "errorType": "x", "error": text}).encode()


@pytest.mark.parametrize(
    "text",
    [
        "query processing would load too many samples into memory in query execution",
        "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution",
    ],
)
def test_chunk_that_is_too_much_is_halved(site: Site, tmp_path: Path, text: str) -> None:
    def fault(path: str, query: dict[str, str]) -> tuple[Any, ...] | None:
        many = CPU in query.get("query", "") and int(query["end"]) - int(query["start"]) > 3 * 300
        return error_of(422, text) if many else None

    whole, _ = run(site.url, tmp_path / "whole", hours(1))
    site.fault = fault
    trace, _ = run(site.url, tmp_path / "halved", hours(1))
    assert series(trace) == series(whole)
    site.fault = lambda path, query: error_of(422, text) if CPU in query.get("query", "") else None
    with pytest.raises(InputError, match="a single step is too much for the server, narrow it down with --selector"):
        run(site.url, tmp_path / "never", hours(1))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (error_of(400, "parse error: unexpected <by>"), "HTTP 400 Bad Request: parse error: unexpected <by>"),
        ((401, b"no"), "HTTP 401 Unauthorized; put the header it wants into TVWRL_PROMETHEUS_HEADER"),
        ((404, b"<html>"), "not a Prometheus server: HTTP 404"),
        ((200, b"<html>hello</html>"), "not a Prometheus server: the answer is not JSON"),
        ((200, b"\xff\xfe\x00"), "not a Prometheus server: the answer is not JSON"),
        ((200, b'{"ok": true}'), "not a Prometheus server: the answer has no status 'success'"),
        ((200, b"[1, 2]"), "not a Prometheus server: the answer has no status 'success'"),
        ((200, b'{"status": "success", "data": {"resultType": "x"}}'), "not a Prometheus server: "),
    ],
)
@pytest.mark.parametrize("when", ["query", "query_range"])  # of the time, which is the first; of values
def test_refusals_are_not_retried(site: Site, tmp_path: Path, fault: Any, message: str, when: str) -> None:
    site.fault = lambda path, query: fault if path == when else None
    with pytest.raises(InputError, match=message) as raised:
        run(site.url, tmp_path / "out", Prometheus())
    assert f"{site.url}/api/v1/{when}" in str(raised.value)
    assert sum(path == when for path, _ in site.requests) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (error_of(503, "query timed out"), "HTTP 503 Service Unavailable: query timed out"),
        ((502, b"<html>"), "HTTP 502 Bad Gateway"),
        ((429, b""), "HTTP 429 Too Many Requests"),
        (("hang",), "no answer within 0.2 seconds"),
        (("truncate", True), "the answer is truncated or damaged: IncompleteRead"),
        (("truncate", False), "the answer is truncated: 33 bytes"),
        ((200, b""), "the answer is truncated: 0 bytes"),
        ((200, gzip.compress(b"{}" * 99)[:-9], {"Content-Encoding": "gzip"}), "the answer is truncated or damaged"),
        ((200, b"{}", {"Content-Encoding": "gzip"}), "the answer is truncated or damaged"),
    ],
)
def test_failures_are_retried_and_then_named(site: Site, tmp_path: Path, fault: Any, message: str) -> None:
    failures = [fault] * 2
    site.fault = lambda path, query: failures.pop() if failures and MEMORY in query.get("query", "") else None
    trace, _ = run(site.url, tmp_path / "out", hours(1, timeout=0.2))
    assert len(trace.slot) == 12

    asked = len(site.asked(CPU))
    site.fault = lambda path, query: fault if CPU in query.get("query", "") else None
    with pytest.raises(InputError, match=message) as raised:
        run(site.url, tmp_path / "never", hours(1, timeout=0.2))
    assert f"{site.url}/api/v1/query_range?query=" in str(raised.value)
    assert "given up after 3 attempts" in str(raised.value)
    assert len(site.asked(CPU)) == asked + 3
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("result", [None, [1], [{"metric": {}}], [{"metric": {}, "values": [[T0, "much"]]}]])
def test_matrix_that_is_none(site: Site, result: Any) -> None:
    body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
    site.fault = lambda path, query: (200, body) if path == "query_range" else None
    with pytest.raises(InputError, match=f"{site.url}/api/v1/query_range: not a Prometheus server: .* no matrix"):
        hours(1).at(site.url)


def test_waits_do_not_grow_forever(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(prometheus_api.time, "sleep", waits.append)
    monkeypatch.setattr(prometheus_api, "FIRST_WAIT", 1.0)
    site.fault = lambda path, query: (503, b"")
    with pytest.raises(InputError, match="given up after 1101 attempts"):
        hours(1, retries=1100).at(site.url)
    assert waits[:6] == [1, 2, 4, 8, 16, 30]
    assert waits[-1] == 30


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(InputError, match=rf"{url}/api/v1/label.*cannot be reached: .*refused; given up after 3"):
        hours(1).at(url)


@pytest.mark.parametrize("metric", [CPU, MEMORY, OWNER])
def test_metric_that_was_never_recorded(site: Site, tmp_path: Path, metric: str) -> None:
    del site.metrics[metric]
    with pytest.raises(
        InputError, match=f"empty: nothing recorded of {metric}.* from 2026-01-05T00:00:00Z to"
    ) as error:
        run(site.url, tmp_path / "out", hours(1, per="owner"))
    assert f"to check it, open {site.url}/api/v1/query?query=count" in str(error.value)


def test_metric_with_nothing_in_the_range(site: Site, tmp_path: Path) -> None:
    site.metrics[CPU] = [(POD, lambda t: None)]
    with pytest.raises(InputError, match=f"no usable row of usage.*rows without a rate of {CPU}"):
        run(site.url, tmp_path / "cpu", hours(1))
    site.metrics[MEMORY] = [(POD, lambda t: None)]
    with pytest.raises(InputError, match=f"no usable row of usage.*chunks without {CPU} and {MEMORY}"):
        run(site.url, tmp_path / "both", hours(1))


def test_requests_may_be_unknown(site: Site, tmp_path: Path) -> None:
    del site.metrics[REQUESTS], site.metrics[OWNER]
    trace, _ = run(site.url, tmp_path / "out", hours(1))
    assert np.isnan(trace.request).all()
    assert trace.application.tolist() == [""]


def test_header_is_sent_and_not_recorded(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(prometheus_api.HEADER, "Authorization: Bearer s3cret\nX-Scope-OrgID: me")
    run(site.url, tmp_path / "out", hours(1))
    assert {(h["Authorization"], h["X-Scope-OrgID"]) for h in site.headers} == {("Bearer s3cret", "me")}
    assert not any(b"s3cret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    monkeypatch.setenv(prometheus_api.HEADER, "Bearer s3cret")
    with pytest.raises(InputError, match="TVWRL_PROMETHEUS_HEADER: line 1: needed: 'Name: value'") as raised:
        hours(1).at(site.url)
    assert "s3cret" not in str(raised.value)


def test_header_does_not_go_where_the_server_redirects_to(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(prometheus_api.HEADER, "Authorization: Bearer s3cret")
    elsewhere = site.url.replace("127.0.0.1", "localhost")
    site.fault = lambda path, query: (
        (302, b"", {"Location": f"{elsewhere}/api/v1/query?query=time()&x=1"})
        if path == "query" and "x" not in query
        else None
    )
    Prometheus().at(site.url)
    assert [headers["Authorization"] for headers in site.headers[:2]] == ["Bearer s3cret", None]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("http://me:s3cret@host:9090", "host:9090: no user and password in the address"),
        ("http://me:s3cret@host:x", "host:x: not the address"),
        ("me:s3cret@host:9090", "host:9090: not the address"),
    ],
)
def test_no_password_in_the_address(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        Prometheus().at(source)
    assert "s3cret" not in str(raised.value)


def test_warnings_of_the_server_are_passed_on(site: Site) -> None:
    body = json.dumps({"status": "success", "data": ["x"], "warnings": ["a store is down"]}).encode()
    site.fault = lambda path, query: (200, body) if path.startswith("label") else None
    with pytest.warns(UserWarning, match="a store is down"):
        hours(1).at(site.url).parts(site.url)


# --- a real server ---

MAX_SAMPLES = 2000  # of a query, for the real server: more than 6 hours of these few pods, less than a day
MINUTE = 60


@dataclass
class Recorded:
    """A made-up pod: when its samples are (seconds after T0, both included) and who owns it."""

    namespace: str
    name: str
    kind: str
    owner: str
    first: int = 0
    last: int = 2 * DAY


PODS = [
    Recorded("prod", "web-5d4f8c7b9d-aaaaa", "ReplicaSet", "web-5d4f8c7b9d", last=DAY),
    Recorded("prod", "web-7c9f6b8d54-bbbbb", "ReplicaSet", "web-7c9f6b8d54", first=DAY + 600),
    Recorded("prod", "web-7c9f6b8d54-ccccc", "ReplicaSet", "web-7c9f6b8d54", first=DAY // 2),
    Recorded("prod", "db-0", "StatefulSet", "db"),
    Recorded("dev", "toolbox", "<none>", "<none>"),
]
RESTART = 20 * HOUR + 7 * MINUTE  # of the containers of db-0: their counters begin again


def cores(hour: int) -> float:
    """Of the container "app"; "sidecar" has 0.1 always."""
    return 0.5 + 0.25 * (hour % 2)


def memory(hour: int) -> int:
    """MiB of "app"; "sidecar" has 32 always."""
    return 256 + 64 * (hour % 4)


def open_metrics() -> Iterator[str]:
    """What cAdvisor and kube-state-metrics would have told of PODS and two nodes, one sample a line."""
    for node, size in (("n1", 8), ("n2", 16)):
        for t in range(T0, T0 + 2 * DAY + 1, 2 * MINUTE):
            yield f'kube_node_status_capacity{{node="{node}",resource="cpu",unit="core"}} {size} {t}'
            yield f'kube_node_status_capacity{{node="{node}",resource="memory",unit="byte"}} {4 * size * GIB} {t}'
    for pod in PODS:
        labels = f'namespace="{pod.namespace}",pod="{pod.name}"'
        owner = f'{labels},owner_kind="{pod.kind}",owner_name="{pod.owner}",owner_is_controller="true"'
        for t in range(pod.first, pod.last + 1, 2 * MINUTE):
            yield f"kube_pod_owner{{{owner}}} 1 {T0 + t}"
            app = 1 if pod.name == "db-0" and t > DAY else 0.5  # db-0 was made larger
            for container, request, mib in (("app", app, 512), ("sidecar", 0.25, 64)):
                where = f'{{{labels},container="{container}",resource='
                yield f'{REQUESTS}{where}"cpu",unit="core"}} {request} {T0 + t}'
                yield f'{REQUESTS}{where}"memory",unit="byte"}} {mib * MIB} {T0 + t}'
        yield from cadvisor(pod, labels)


def cadvisor(pod: Recorded, labels: str) -> Iterator[str]:
    used = 0.0
    for t in range(pod.first, pod.last + 1, MINUTE):
        hour = (t - 1) // HOUR  # the interval (t - 60, t] is in it
        used += cores(hour) * MINUTE if t > pod.first else 0.0
        if pod.name == "db-0" and t == RESTART:
            used = cores(hour) * MINUTE
        other = 0.1 * (t - pod.first)
        seconds = {"app": used, "sidecar": other, "POD": 7 * used, "": 8 * used + other}
        mib = {"app": memory(hour), "sidecar": 32, "POD": 1, "": memory(hour) + 33}
        for container in seconds:
            named = f'{{{labels},container="{container}"}}' if container else f"{{{labels}}}"
            yield f"{CPU}{named} {seconds[container]!r} {T0 + t}"
            yield f"{MEMORY}{named} {mib[container] * MIB} {T0 + t}"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Prometheus server that holds `open_metrics`."""
    programs = shutil.which("prometheus"), shutil.which("promtool")
    if None in programs:
        pytest.skip("no prometheus and promtool here (Debian: apt install prometheus)")
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "samples").write_text("\n".join([*open_metrics(), "# EOF", ""]))
    (folder / "prometheus.yml").write_text("")
    command = [
        programs[1],
        "tsdb",
        "create-blocks-from",
        "--max-block-duration=48h",
    ]  # few blocks: it reads all for each
    command += ["openmetrics", folder / "samples", folder / "data"]
    subprocess.run([*map(str, command)], check=True, capture_output=True, timeout=60)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = [f"--config.file={folder}/prometheus.yml", f"--web.listen-address={address}"]
    flags += [f"--storage.tsdb.path={folder}/data", "--storage.tsdb.retention.time=10y"]
    flags += [f"--query.max-samples={MAX_SAMPLES}"]
    with (folder / "log").open("wb") as log, subprocess.Popen([str(programs[0]), *flags], stderr=log) as server:
        try:
            wait_until_ready(f"http://{address}/-/ready", server, folder / "log")
            yield f"http://{address}"
        finally:
            server.terminate()
            server.wait(10)


def wait_until_ready(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until and server.poll() is None:
        try:
            with urlopen(url, timeout=1):
                return
        except (URLError, OSError):
            time.sleep(0.05)
    pytest.fail(f"the server did not become ready: {log.read_text()[-1000:]}")


TWO_DAYS = {"start": "2026-01-05", "end": "2026-01-07"}


def expected(first: int, last: int) -> tuple[list[int], list[list[float]]]:
    """Slots and usage of a pod with samples from `first` to `last`, on nodes of 16 cores and 64 GiB."""
    slots = list(range(first // 300, last // 300))
    used = [(cores(s // 12) + 0.1, memory(s // 12) + 32) for s in slots]
    return slots, [[round(cpu / 16, 9), round(mem / 65536, 9)] for cpu, mem in used]


def test_real_server_per_pod(real: str, tmp_path: Path) -> None:
    trace, report = run(real, tmp_path / "out", Prometheus(**TWO_DAYS))
    assert series(trace) == {f"{pod.namespace}/{pod.name}": expected(pod.first, pod.last) for pod in PODS}
    web, memory_request = ("prod/deployment/web", [0.75 / 16, 576 / 65536])
    assert facts(trace) == {
        **{f"prod/{pod.name}": (web, pytest.approx(memory_request)) for pod in PODS[:3]},
        "prod/db-0": ("prod/statefulset/db", pytest.approx([1.25 / 16, 576 / 65536])),  # the largest of two
        "dev/toolbox": ("dev/pod/toolbox", pytest.approx(memory_request)),
    }
    assert trace.reference_machine == {"cpu_cores": 16.0, "mem_gib": 64.0}
    assert report["time"] == {"first": T0 * 10**6, "last": (T0 + 2 * DAY) * 10**6}
    assert report["rows"]["bad"] == {}


def test_real_server_per_owner(real: str, tmp_path: Path) -> None:
    trace, _ = run(real, tmp_path / "out", Prometheus(per="owner", selector='namespace="prod"', **TWO_DAYS))
    got = series(trace)
    assert set(got) == {"prod/deployment/web", "prod/statefulset/db"}
    assert got["prod/statefulset/db"] == expected(0, 2 * DAY)
    slots, one = expected(0, 2 * DAY)
    replicas = [1] * 144 + [2] * 144 + [1] * 2 + [2] * 286  # aaaaa; with ccccc; ccccc alone for 10 minutes; with bbbbb
    assert got["prod/deployment/web"][0] == slots
    np.testing.assert_allclose(got["prod/deployment/web"][1], np.multiply(one, np.array(replicas)[:, None]), atol=1e-8)
    web = facts(trace)["prod/deployment/web"]
    assert web == ("prod/deployment/web", pytest.approx([1.5 / 16, 1152 / 65536]))  # two at a time, three in all


def test_real_server_refuses_what_is_too_much(real: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = watch(monkeypatch)
    whole, _ = run(real, tmp_path / "whole", Prometheus(**TWO_DAYS))
    small = len(asked)
    halved, _ = run(real, tmp_path / "halved", Prometheus(chunk=48, **TWO_DAYS))
    assert series(halved) == series(whole)
    assert facts(halved) == facts(whole)
    assert len(asked) > small + 2 * 8  # it was asked in vain, and then for smaller chunks


def test_real_server_run_that_was_stopped_goes_on(real: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = Prometheus(per="owner", **TWO_DAYS)
    run(real, tmp_path / "undisturbed", loader)
    with monkeypatch.context() as patch:
        watch(patch, fail_from=T0 + 6 * HOUR)
        with pytest.raises(KeyboardInterrupt):
            run(real, tmp_path / "out", loader)
    asked = watch(monkeypatch)
    run(real, tmp_path / "out", loader)
    starts = sorted(int(query["start"]) - T0 for query in asked if CPU in query.get("query", ""))
    assert starts == [hour * HOUR + 300 for hour in range(6, 48, 6)]  # not the first six hours again
    for name in ("usage.parquet", "workloads.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()


def watch(monkeypatch: pytest.MonkeyPatch, fail_from: int | None = None) -> list[dict[str, str]]:
    """The queries asked from now on; those for a rate that start from `fail_from` on are interrupted."""
    asked: list[dict[str, str]] = []
    fetch = prometheus_api.Server._fetch

    def watched(server: prometheus_api.Server, url: str) -> bytes:
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        asked.append(query)
        if fail_from is not None and CPU in query.get("query", "") and int(query["start"]) >= fail_from:
            raise KeyboardInterrupt
        return fetch(server, url)

    monkeypatch.setattr(prometheus_api.Server, "_fetch", watched)
    return asked


def test_real_server_explains_a_wrong_selector(real: str) -> None:
    with pytest.raises(InputError, match=r"HTTP 400 Bad Request: .*parse error"):
        Prometheus(selector="namespace=prod", **TWO_DAYS).at(real)
    with pytest.raises(InputError, match=f'empty: nothing recorded of {CPU}.*namespace="none"'):
        Prometheus(selector='namespace="none"', **TWO_DAYS).at(real)
    with pytest.raises(InputError, match=f"empty: nothing recorded of {CPU}"):  # rather than of nodes
        Prometheus(start="2026-02-01", end="2026-02-02").at(real)
