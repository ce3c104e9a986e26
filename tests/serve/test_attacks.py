"""A real server, attacked and let down from all sides, goes on answering; what it is sent is never done or told on."""

import base64
import contextlib
import os
import re
import resource
import signal
import socket
import threading

import pytest

from tests.serve.fake_prometheus import DAMAGED, RunningPod
from tests.serve.running import (
    NAMES,
    PATIENCE,
    Server,
    arguments,
    at_once,
    command_of,
    free_port,
    has_proc,
    largest_memory,
    one_answer,
    sent,
    until_closed,
    wait_for,
)

TOKEN = "opensesame-91"
BEARER = b"Authorization: Bearer %s\r\n" % TOKEN.encode()
NEUTRAL = [{"Host": name, "Score": 0} for name in NAMES]


@pytest.fixture(scope="module")
def server(prometheus, tmp_path_factory):
    """With a token, and bodies of at most 2 MiB."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "token").write_text(f"{TOKEN}\n")
    running = Server(folder, prometheus, "--token-file", folder / "token", "--max-body-mib", 2, "--stale-seconds", 600)
    running.token = TOKEN
    yield running.wait_until_ready()
    running.end()


@pytest.fixture(autouse=True)
def unharmed(request):
    """After each attack the server is alive, answers, and has logged no exception."""
    yield
    if "server" in request.fixturenames:
        server = request.getfixturevalue("server")
        assert server.ask("GET", "/healthz") == (200, b"ok")
        assert server.events("error") == []
        assert TOKEN not in server.text()


@pytest.fixture
def moody(prometheus):
    """The same Prometheus, which is itself again afterwards."""
    before = dict(prometheus.nodes), list(prometheus.pods)
    yield prometheus
    prometheus.mood, prometheus.ahead = "normal", 0.0
    prometheus.nodes, prometheus.pods = before


# What is sent


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/filter", 405), ("PUT", "/filter", 405), ("DELETE", "/prioritize", 405), ("POST", "/metrics", 405),
        ("HEAD", "/healthz", 200), ("HEAD", "/metrics", 200), ("POST", "/", 404), ("POST", "/bind", 404),
        ("POST", "/filter/", 404), ("GET", "/../../etc/passwd", 404), ("GET", "/%2e%2e/%00", 404),
        ("GET", "//healthz", 404), ("TRACE", "/filter", 405), ("GET", "/healthz?x=1", 200), ("BREW", "/filter", 400),
    ],
)  # fmt: skip
def test_verbs_and_paths(server, method, path, status):
    found, body = server.ask(method, path, arguments() if method == "POST" else None)
    assert found == status
    assert b"Traceback" not in body


FILTER = arguments()
LENGTH = b"Content-Length: %d\r\n" % len(FILTER)
HIDDEN = b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + BEARER + b"\r\n"


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"Content-Length: 0\r\n" + LENGTH, FILTER),
        (LENGTH + b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n" + HIDDEN),
        (b"Transfer-Encoding: chunked\r\n" + LENGTH, b"0\r\n\r\n" + HIDDEN),
        (b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + HIDDEN),
        (b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n" + HIDDEN),
        (b"Content-Length: +5\r\n", b"12345" + HIDDEN),
        (b"Content-Length: -1\r\n", HIDDEN),
        (b"Content-Length: 0x10\r\n", HIDDEN),
        (b"Content-Length: 99999999999999999999999\r\n", HIDDEN),
        (b"Content-Length : 5\r\n", b"12345" + HIDDEN),
        (b"X: a\0b\r\n", HIDDEN),
        (b"X: a\r\n Content-Length: 5\r\n", HIDDEN),
        (b"Transfer-Encoding: chunked\r\n", b"FFFFFFFFFFFFFFFFF\r\n" + HIDDEN),
        (b"Transfer-Encoding: chunked\r\n", b"-5\r\n" + HIDDEN),
        (b"Transfer-Encoding: chunked\r\n", b"5\r\n123" + HIDDEN),
    ],
)
def test_smuggling(server, head, body):
    """A request of doubtful length is refused, or is one request at most: what hides in its body is not answered."""
    with server.connect() as connection:
        answer = sent(connection, b"POST /filter HTTP/1.1\r\nHost: x\r\n" + BEARER + head + b"\r\n" + body)
    assert b"tvwrl_decisions" not in answer
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert not answer.startswith(b"HTTP/1.1 2")


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0" * 1000, b"\r\n" * 9,
        b"GET /metrics\r\n\r\n", b"GET http://[::1 HTTP/1.1\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\n\r\n", b"GET \xff\xfe HTTP/1.1\r\n\r\n", b"GET /healthz HTTP/9.9\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_request(server, garbage):
    with server.connect() as connection:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(PATIENCE)
        assert not until_closed(connection).startswith(b"HTTP/1.1 2")


@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c"])
def test_no_other_protocol(server, upgrade):
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: " + upgrade + b"\r\n"
    with server.connect() as connection:
        connection.sendall(head + BEARER + LENGTH + b"\r\n" + FILTER)
        assert one_answer(connection)[0] in (200, 400, 408, 426)


def test_requests_in_one_go_are_answered_in_order(server):
    one = b"POST /filter HTTP/1.1\r\nHost: x\r\n" + BEARER
    both = one + LENGTH + b"\r\n" + FILTER + one + b"Content-Length: 1\r\n\r\n{"
    last = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(both * 20 + last)
        found = re.findall(rb"HTTP/1.1 (\d+)", until_closed(connection))
    assert found == [b"200", b"400"] * 20 + [b"200"]


def test_chunks(server):
    """A body may come in chunks of one byte."""
    body = b"".join(b"1;x=y\r\n%c\r\n" % byte for byte in FILTER) + b"0\r\nTrailer: x\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(b"POST /filter HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + BEARER + b"\r\n" + body)
        assert one_answer(connection)[0] == 200


def test_bodies_that_are_too_large(server):
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\n" + BEARER
    with server.connect() as connection:
        connection.sendall(head + b"Content-Length: 999999999\r\n\r\n")
        assert one_answer(connection)[0] == 413
    with server.connect() as connection:  # undeclared
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        with contextlib.suppress(OSError):  # refused before all of it was sent
            connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 64)
        with contextlib.suppress(OSError):
            assert one_answer(connection)[0] == 413


def test_a_body_that_ends_halfway(server):
    for data in (b"", b"{", FILTER[:-1]):
        with server.connect() as connection:
            connection.sendall(b"POST /filter HTTP/1.1\r\n" + BEARER + LENGTH + b"\r\n" + data)


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": ""}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Cookie": f"token={TOKEN}"},
     {"X-Forwarded-Authorization": f"Bearer {TOKEN}"}, {"Authorization": "Basic OnB3"}],
)  # fmt: skip
def test_without_the_token(server, headers):
    given = {"Authorization": "none", **headers}
    for method, path in (
        ("POST", "/filter"),
        ("POST", f"/prioritize?token={TOKEN}"),
        ("GET", "/metrics"),
        ("GET", "/x"),
    ):
        status, body = server.ask(method, path, FILTER if method == "POST" else None, **given)
        assert status == 401
        assert TOKEN.encode() not in body
    assert server.ask("GET", "/readyz", **given)[0] == 200


def test_the_token_as_a_password(server):
    basic = base64.b64encode(f"any:{TOKEN}".encode()).decode()
    assert server.ask("POST", "/filter", FILTER, Authorization=f"Basic {basic}")[0] == 200


def test_slow_clients_do_not_delay_others(server):
    head = b"POST /filter HTTP/1.1\r\n" + BEARER + LENGTH
    with contextlib.ExitStack() as slow:
        for i in range(60):
            connection = slow.enter_context(server.connect())
            connection.sendall((head, head + b"\r\n{", b"P")[i % 3])
        for _ in range(20):
            assert server.decide()["NodeNames"] == NAMES


def test_many_at_once(server):
    answers = at_once(60, lambda i: server.decide(name=f"pod-{i}"))
    assert all(answer["NodeNames"] == NAMES for answer in answers)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit, which Linux has")
def test_more_connections_than_files(server):
    """2,000 connections come at once to a server that may open 1,024 files, and say nothing."""
    before = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    ours = resource.getrlimit(resource.RLIMIT_NOFILE)
    if ours[1] != resource.RLIM_INFINITY and ours[1] < 4096:
        pytest.skip("needs to open 2,000 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(ours[0], 4096), ours[1]))
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (1024, before[1]))
    try:
        with contextlib.ExitStack() as crowd:
            server.process.send_signal(signal.SIGSTOP)
            for _ in range(2000):
                one = crowd.enter_context(socket.socket())
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", server.port))
            server.process.send_signal(signal.SIGCONT)
            assert server.ask("GET", "/healthz") == (200, b"ok")
            assert server.ask("GET", "/readyz")[0] == 200
            wait_for(lambda: server.ask("POST", "/filter", FILTER)[0] == 200, "a place among those that say nothing")
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, before)
        resource.setrlimit(resource.RLIMIT_NOFILE, ours)
    assert "out of system resource" not in server.text()


# What is behind


def test_lies_and_silence(server, moody):
    """In every mood of Prometheus: all nodes, or what can be decided by the metrics before; and it is left behind."""
    for mood in (*DAMAGED, "gone", "empty", "nan", "negative", "infinite", "huge", "usage nan", "usage negative",
                 "usage infinite", "usage huge", "future"):  # fmt: skip
        moody.mood = mood
        server.wait_for_polls()
        assert server.decide()["NodeNames"] == NAMES, mood
        assert [one["Host"] for one in server.decide("/prioritize")] == NAMES, mood
    moody.mood = "normal"
    before = server.counted('tvwrl_polls_total{result="ok"}')
    wait_for(lambda: server.counted('tvwrl_polls_total{result="ok"}') > before, "metrics after all that")
    wait_for(lambda: max(one["Score"] for one in server.decide("/prioritize")) == 10, "decisions after all that")


def test_old_samples(server, moody):
    moody.mood = "old"
    wait_for(lambda: server.ask("GET", "/readyz")[0] == 503, "a server that has no fresh metrics")
    before = server.counted('tvwrl_fallbacks_total{reason="stale_metrics"}')
    assert server.decide(name="late")["NodeNames"] == NAMES
    assert server.decide("/prioritize", name="late") == NEUTRAL
    assert server.counted('tvwrl_fallbacks_total{reason="stale_metrics"}') == before + 1
    moody.mood = "normal"
    server.wait_until_ready()


def test_a_slow_prometheus_delays_nobody(server, moody):
    asked = moody.asked
    moody.mood = "slow"
    wait_for(lambda: moody.asked > asked, "a question to Prometheus")
    for i in range(30):
        assert server.decide(name=f"slow-{i}")["NodeNames"] == NAMES
    moody.mood = "normal"
    server.wait_for_polls()


@pytest.mark.parametrize("ahead", [-7200.0, 7200.0, 86400.0 * 400])
def test_clocks_that_differ(server, moody, ahead):
    moody.ahead = ahead
    server.wait_for_polls()
    assert server.ask("GET", "/readyz")[0] == 200
    assert server.decide()["NodeNames"] == NAMES


def test_another_cluster(server, moody):
    """Its nodes are the only ones that are decided about; those that are unknown are all answered."""
    moody.nodes = {"x": (4, 16), "y/../z\n": (4, 16), "": (1, 1)}
    moody.pods = [RunningPod("p\n", "x"), RunningPod("q", "nowhere"), RunningPod("", "x", namespace="")]
    unknown = 'tvwrl_fallbacks_total{reason="unknown_nodes"}'
    before = server.counted(unknown)

    def left():
        assert server.decide(name="other")["NodeNames"] == NAMES
        return server.counted(unknown) > before

    wait_for(left, "the other cluster")
    assert server.decide("/prioritize", name="else", names=["x", "new"])[0] == {"Host": "x", "Score": 10}


@pytest.mark.skipif(not has_proc(), reason="needs /proc")
def test_the_reader_of_metrics_is_killed(server):
    (reader,) = wait_for(server.readers, "a process that reads metrics")
    os.kill(reader, signal.SIGKILL)
    wait_for(lambda: server.readers() - {reader}, "another process that reads metrics")
    before = server.counted('tvwrl_polls_total{result="ok"}')
    assert server.decide()["NodeNames"] == NAMES
    wait_for(lambda: server.counted('tvwrl_polls_total{result="ok"}') > before, "metrics")


@pytest.mark.skipif(not has_proc(), reason="needs /proc")
def test_memory_after_all_that(server):
    assert largest_memory(server.process.pid) < 600


def test_a_second_server_on_the_port(server, prometheus, tmp_path):
    second = Server(tmp_path, prometheus, port=server.port)
    assert second.process.wait(PATIENCE) == 2
    assert second.text().splitlines()[-1].startswith(f"error: listen is 127.0.0.1:{server.port}: ")
    second.end()


# Ends


def test_ends_and_beginnings(prometheus, tmp_path):
    """The reader of its log goes away, SIGTERM comes while a body is sent, and SIGKILL while others ask."""
    reader, writer = os.pipe()
    port = free_port()
    first = Server(tmp_path, prometheus, port=port, stderr=writer)
    os.close(writer)
    first.wait_until_ready()
    os.close(reader)
    assert first.decide()["NodeNames"] == NAMES
    first.wait_for_polls()
    with first.connect() as connection:
        connection.sendall(b"POST /filter HTTP/1.1\r\n" + LENGTH + b"\r\n" + FILTER[:20])
        first.ask("GET", "/healthz")  # the one before has been read
        first.process.send_signal(signal.SIGTERM)
        connection.sendall(FILTER[20:])
        assert one_answer(connection)[0] == 200
    assert first.end() == 143

    second = Server(tmp_path, prometheus, port=port).wait_until_ready()
    stop, answered = threading.Event(), []

    def ask():
        while not stop.is_set():
            with contextlib.suppress(OSError):
                answered.append(second.ask("POST", "/filter", FILTER)[0])

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for one in clients:
        one.start()
    wait_for(lambda: len(answered) > 20, "answers")
    readers = second.readers() if has_proc() else set()
    second.end(signal.SIGKILL)
    third = Server(tmp_path, prometheus, port=port).wait_until_ready()
    before = len(answered)
    wait_for(lambda: len(answered) > before + 20, "answers")
    stop.set()
    for one in clients:
        one.join(PATIENCE)
    assert set(answered) == {200}
    wait_for(lambda: not any(command_of(pid) for pid in readers), "the end of the orphan that reads metrics")
    assert third.end(signal.SIGINT) in (0, 130)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(prometheus, tmp_path):
    full = Server(tmp_path, prometheus, "--record", "/dev/full").wait_until_ready()
    try:
        assert full.decide(name="app-0")["NodeNames"] == NAMES
        full.wait_for_polls()
        assert full.decide(name="app-0")["NodeNames"] == NAMES
    finally:
        full.process.kill()
        full.process.wait()


def test_a_file_that_cannot_be_written(prometheus, tmp_path):
    one = Server(tmp_path, prometheus, "--record", tmp_path)
    assert one.process.wait(PATIENCE) == 2
    assert one.text().splitlines()[-1] == f"error: {tmp_path}: Is a directory"
