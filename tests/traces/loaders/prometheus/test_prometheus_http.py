"""The HTTP client of Prometheus: every way in which a server can fail or refuse."""

from __future__ import annotations

import gzip
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.traces.conftest import series
from tests.traces.loaders.prometheus.conftest import T0, hours, run
from tvwrl.traces.loaders.prometheus import CPU, MEMORY, Prometheus
from tvwrl.traces.loaders.prometheus_server import HEADER, RetryPolicy, Server
from tvwrl.types import InputError


def error_of(code: int, text: str) -> tuple[int, bytes]:
    return code, json.dumps({"status": "error", "errorType": "x", "error": text}).encode()


@pytest.mark.parametrize(
    "text",
    [
        "query processing would load too many samples into memory in query execution",
        "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution",
    ],
)
def test_chunk_that_is_too_much_is_halved(site: Any, tmp_path: Path, text: str) -> None:
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
def test_refusals_are_not_retried(site: Any, tmp_path: Path, fault: Any, message: str, when: str) -> None:
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
        ((200, b'{"status": "success", "isPartial": true, "data": {}}'), "the answer is partial"),
        (("hang",), "no answer within 0.2 seconds"),
        (("truncate", True), "the answer is truncated or damaged: IncompleteRead"),
        (("truncate", False), "the answer is truncated: 33 bytes"),
        ((200, b""), "the answer is truncated: 0 bytes"),
        (
            (200, gzip.compress(b"{}" * 99, mtime=0)[:-9], {"Content-Encoding": "gzip"}),
            "the answer is truncated or damaged",
        ),
        ((200, b"{}", {"Content-Encoding": "gzip"}), "the answer is truncated or damaged"),
    ],
)
def test_failures_are_retried_and_then_named(site: Any, tmp_path: Path, fault: Any, message: str) -> None:
    failures = [fault] * 2
    site.fault = lambda path, query: failures.pop() if failures and MEMORY in query.get("query", "") else None
    trace, _ = run(site.url, tmp_path / "out", hours(1, timeout=0.2))
    assert len(trace.slot) == 12

    asked = len(site.asked(CPU))
    site.fault = lambda path, query: fault if CPU in query.get("query", "") else None
    with pytest.raises(InputError, match=message) as raised:
        run(site.url, tmp_path / "never", hours(1, timeout=0.2))
    assert f"{site.url}/api/v1/query_range?query=" in str(raised.value)
    assert "3 times in a row; try more --retries" in str(raised.value)
    assert len(site.asked(CPU)) == asked + 3
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("result", [None, [1], [{"metric": {}}], [{"metric": {}, "values": [[T0, "much"]]}]])
def test_matrix_that_is_none(site: Any, result: Any) -> None:
    body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
    site.fault = lambda path, query: (200, body) if path == "query_range" else None
    with pytest.raises(InputError, match=f"{site.url}/api/v1/query_range: not a Prometheus server: .* no matrix"):
        hours(1).at(site.url)


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(InputError, match=rf"{url}/api/v1/label.*: the connection is refused"):
        hours(1).at(url)
    waits: list[float] = []
    server = Server(url, RetryPolicy(3, 1.0, waits.append))
    server.answered.add(url)  # it was there, and may come again
    with pytest.raises(InputError, match=r"cannot be reached: .*refused, 3 times in a row"):
        server.clock()
    assert waits == [1.0, 2.0]


def test_header_is_sent_and_not_recorded(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HEADER, "Authorization: Bearer s3cret\nX-Scope-OrgID: me")
    run(site.url, tmp_path / "out", hours(1))
    assert {(h["Authorization"], h["X-Scope-OrgID"]) for h in site.headers} == {("Bearer s3cret", "me")}
    assert not any(b"s3cret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    monkeypatch.setenv(HEADER, "Bearer s3cret")
    with pytest.raises(InputError, match="TVWRL_PROMETHEUS_HEADER: line 1: needed: 'Name: value'") as raised:
        hours(1).at(site.url)
    assert "s3cret" not in str(raised.value)


def test_header_does_not_go_where_the_server_redirects_to(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HEADER, "Authorization: Bearer s3cret")
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


def test_warnings_of_the_server_are_passed_on(site: Any) -> None:
    body = json.dumps({"status": "success", "data": ["x"], "warnings": ["a store is down"]}).encode()
    site.fault = lambda path, query: (200, body) if path.startswith("label") else None
    with pytest.warns(UserWarning, match="a store is down"):
        hours(1).at(site.url).parts(site.url)
