"""Clients that dawdle, or come in crowds, do not keep the server from others: it closes their connections."""

import asyncio
import contextlib
import shutil
import socket
import ssl
import threading
import time

import pytest

from tests.serve.asking import BINDING, CACHED, TOKEN, WHOLE, Asked, in_json
from tests.serve.running import certificate, free_port, one_answer, wait_for
from tvwrl.serve import http_server
from tvwrl.serve.extender import Limits

CLOSED = 30.0  # seconds; the limits of these servers are far below one
FILTER = b"POST /filter HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" % (
    TOKEN.encode(),
    len(in_json(CACHED)),
)
ALIVE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@contextlib.contextmanager
def serving(tls=None, limits=None, **asked_of):
    """A server, and its port, that gives 0.3 s for bodies."""
    asked, found = Asked(limits or Limits(body_seconds=0.3, deadline=60.0), **asked_of), free_port()
    server = http_server.make_server(asked.application, "127.0.0.1", found, tls)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started, "a server")
        yield server, found
    finally:
        server.should_exit = True
        thread.join()
        asked.close()


@pytest.fixture
def running(monkeypatch):
    """One that also gives 0.3 s for heads, and has room for 12 connections."""
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 0.3)
    monkeypatch.setattr(http_server, "CONNECTIONS", 12)
    with serving() as both:
        yield both


@pytest.fixture
def port(running):
    return running[1]


@contextlib.contextmanager
def connected(port, *data):
    with socket.create_connection(("127.0.0.1", port), timeout=CLOSED) as connection:
        for one in data:
            connection.sendall(one)
        yield connection


def closes(connection):
    """Whether the server closes the connection, however many bytes it sends before, while we send more."""
    end = time.monotonic() + CLOSED
    connection.settimeout(0.1)
    while time.monotonic() < end:
        try:
            connection.sendall(b"x")
            if not connection.recv(65536):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.mark.parametrize("head", [b"", b"G", b"POST /filter HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_half_a_head(port, head):
    with connected(port, head) as connection:
        assert closes(connection)


def test_half_a_body(port):
    with connected(port, FILTER, b"{") as connection:
        assert one_answer(connection)[0] == 408


def test_half_a_head_after_a_request(port):
    with connected(port, ALIVE) as connection:
        assert one_answer(connection)[0] == 200
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        assert closes(connection)


def test_half_a_body_that_trickles_on(port):
    with connected(port, FILTER.replace(b"Content-Length: ", b"Content-Length: 9"), b"{") as connection:
        assert one_answer(connection)[0] == 408
        assert closes(connection)


def test_a_body_of_a_client_without_the_token(port):
    with connected(port, b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n") as connection:
        assert one_answer(connection)[0] == 401
        assert closes(connection)


@pytest.mark.parametrize("line", [b"X-Long: " + b"x" * 1000 + b"\r\n", b"x" * 1000], ids=["lines", "one line"])
def test_endless_heads(port, line, monkeypatch):
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 60.0)
    with connected(port, b"GET /healthz HTTP/1.1\r\nX: ") as connection:
        try:
            for _ in range(4000):
                connection.sendall(line)
            connection.settimeout(0.5)
            refused = connection.recv(100)
        except TimeoutError:
            refused = None
        except OSError:
            refused = b""
        assert refused is not None


def test_who_was_there_first_is_answered_in_a_crowd(running, monkeypatch):
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 60.0)
    server, port = running
    with contextlib.ExitStack() as crowd:
        first = crowd.enter_context(connected(port, ALIVE))
        assert one_answer(first)[0] == 200
        for _ in range(20):
            crowd.enter_context(connected(port, b"GET"))
        wait_for(lambda: len(server.server_state.connections) >= 12, "the crowd")
        first.sendall(FILTER + in_json(CACHED))
        assert one_answer(first)[0] == 200


def test_the_crowd_is_gone_after_a_while(port):
    with contextlib.ExitStack() as crowd:
        for _ in range(20):
            crowd.enter_context(connected(port, b"GET"))

        def answered():
            with contextlib.suppress(ConnectionError), connected(port, FILTER, in_json(CACHED)) as connection:
                return one_answer(connection)[0] == 200

        wait_for(answered, "an answer")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make certificates")
def test_who_never_begins_with_tls(monkeypatch, tmp_path):
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 0.3)
    with serving(http_server.Tls(*certificate(tmp_path, "server"))) as (_, port), connected(port) as connection:
        connection.settimeout(CLOSED)
        try:
            closed = connection.recv(1) == b""
        except TimeoutError:
            closed = False
    assert closed


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make certificates")
def test_probes_are_answered_among_400_that_never_begin_with_tls(tmp_path):
    """They hold a file each; the server allows itself more than the usual number, here 256."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("may not open as many files")
    made = certificate(tmp_path, "server")
    trust = ssl.create_default_context(cafile=made[0])
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with serving(http_server.Tls(*made)) as (_, port), contextlib.ExitStack() as crowd:
            for _ in range(400):
                crowd.enter_context(connected(port))
            with connected(port) as plain, trust.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                connection.sendall(ALIVE)
                assert one_answer(connection)[0] == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Crowds


def request(method, path, body=b""):
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def asked_anew(port, *data):
    """Status of the answer to a request on a connection of its own."""
    with connected(port, *data) as connection:
        return one_answer(connection)[0]


CROWDS = {
    "silent": b"",
    "half a head": b"POST /filter HTTP/1.1\r\nHost: x\r\n",
    "half a body": FILTER + b"{",
    "kept alive": ALIVE,
    "alive, then half a head": ALIVE + b"GET",
}


@pytest.mark.parametrize("data", CROWDS.values(), ids=CROWDS.keys())
def test_probes_are_answered_among_300_open_connections(data, monkeypatch):
    """With the limits as they are: kubelet would end the pod otherwise."""
    monkeypatch.setattr(http_server, "ACTIVE_SECONDS", 0.2)
    with serving(limits=Limits(body_seconds=60.0, deadline=60.0)) as (_, port), contextlib.ExitStack() as crowd:
        for i in range(300):
            one = crowd.enter_context(connected(port, data))
            if data.startswith(ALIVE):
                assert one_answer(one)[0] == 200, i
        for path in ("/healthz", "/readyz", "/metrics") * 3:
            assert asked_anew(port, request("GET", path)) == 200
        wait_for(lambda: asked_anew(port, FILTER, in_json(CACHED)) == 200, "a place of one that is not active")
        assert asked_anew(port, ALIVE) == 200


def test_silent_connections_go_before_those_that_were_answered(running, monkeypatch):
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 60.0)
    monkeypatch.setattr(http_server, "ACTIVE_SECONDS", 0.0)
    _, port = running
    with contextlib.ExitStack() as crowd:
        kept = [crowd.enter_context(connected(port, ALIVE)) for _ in range(6)]
        assert [one_answer(one)[0] for one in kept] == [200] * 6
        for _ in range(40):
            crowd.enter_context(connected(port))
        assert asked_anew(port, ALIVE) == 200
        for one in kept:
            one.sendall(ALIVE)
        assert [one_answer(one)[0] for one in kept] == [200] * 6


def test_who_just_came_is_heard_although_others_stay_and_more_come(running, monkeypatch):
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 60.0)
    _, port = running
    with contextlib.ExitStack() as crowd:
        for _ in range(12):
            assert one_answer(crowd.enter_context(connected(port, ALIVE)))[0] == 200
        probe = crowd.enter_context(connected(port))
        for _ in range(4):
            crowd.enter_context(connected(port))
        assert asked_anew(port, ALIVE) == 200  # the server has seen them all
        probe.sendall(ALIVE)
        assert one_answer(probe)[0] == 200


def test_where_all_are_being_served_only_probes_are_let_in(monkeypatch):
    monkeypatch.setattr(http_server, "CONNECTIONS", 12)
    done = threading.Event()
    with (
        serving(limits=Limits(), bind=lambda binding: done.wait(60)) as (server, port),
        contextlib.ExitStack() as crowd,
    ):
        binding = [crowd.enter_context(connected(port, request("POST", "/bind", in_json(BINDING)))) for _ in range(12)]
        wait_for(lambda: len(server.server_state.tasks) >= 12, "requests that are being served")
        try:
            for path in ("/healthz", "/readyz", "/metrics"):
                assert asked_anew(port, request("GET", path)) == 200
            assert asked_anew(port, request("POST", "/filter", in_json(CACHED))) == 503
        finally:
            done.set()
        assert [one_answer(one)[0] for one in binding] == [200] * 12
        monkeypatch.setattr(http_server, "ACTIVE_SECONDS", 0.0)
        assert asked_anew(port, request("POST", "/filter", in_json(CACHED))) == 200


def test_probes_are_answered_while_more_clients_ask_than_may(monkeypatch):
    """Each on a new connection, as fast as it is answered or refused."""
    monkeypatch.setattr(http_server, "CONNECTIONS", 16)
    stop = threading.Event()

    def ask(port):
        while not stop.is_set():
            with contextlib.suppress(OSError):
                asked_anew(port, FILTER, in_json(CACHED))

    with serving(limits=Limits()) as (_, port):
        clients = [threading.Thread(target=ask, args=(port,)) for _ in range(40)]
        for one in clients:
            one.start()
        try:
            assert [asked_anew(port, ALIVE) for _ in range(10)] == [200] * 10
        finally:
            stop.set()
            for one in clients:
                one.join()


def large(mebibytes):
    """A request whose answer is as large as it."""
    node = {"metadata": {"name": "a"}, "status": "x" * (mebibytes * 2**20)}
    return request("POST", "/filter", in_json({**WHOLE, "Nodes": {"items": [node]}}))


def test_who_reads_no_answer_is_closed(monkeypatch):
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 0.3)
    limits = Limits(body_seconds=60.0, deadline=60.0)
    asked = large(16)  # before the connection is open, which has 0.3 s to send the head
    with serving(limits=limits) as (server, port), connected(port) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.sendall(asked)
        wait_for(lambda: server.server_state.total_requests or not server.server_state.connections, "the end")
        wait_for(lambda: not server.server_state.connections, "the end of the connection")


def test_answers_that_nobody_reads_count_as_memory():
    """The third is refused while the first two, of 3 MiB, wait to be read: a body may have 4 MiB, all together 8."""
    limits = Limits(body=4 * 2**20, body_seconds=60.0, deadline=60.0)
    asked = Asked(limits)

    async def unread(statuses, more):
        parts = [large(3).partition(b"\r\n\r\n")[2]]

        async def receive():
            return {"type": "http.request", "body": parts.pop(), "more_body": False}

        async def send(message):
            statuses.append(message.get("status", 200))
            if message["type"] == "http.response.body":
                await more.wait()

        scope = {"type": "http", "method": "POST", "path": "/filter", "query_string": b""}
        await asked.application({**scope, "headers": [(b"authorization", f"Bearer {TOKEN}".encode())]}, receive, send)

    async def three():
        more, statuses = asyncio.Event(), [[], [], []]
        tasks = []
        for one in statuses:
            tasks.append(asyncio.create_task(unread(one, more)))
            while not one:
                await asyncio.sleep(0.01)
        probed = []
        scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": [], "query_string": b""}
        empty = asyncio.Queue()
        empty.put_nowait({"type": "http.request", "body": b"", "more_body": False})

        async def send(message):
            probed.append(message)

        await asked.application(scope, empty.get, send)
        assert probed[0]["status"] == 200  # probes are answered all the same
        more.set()
        await asyncio.gather(*tasks)
        return [one[0] for one in statuses]

    try:
        assert asked.runner.run(three()) == [200, 200, 503]
    finally:
        asked.close()
