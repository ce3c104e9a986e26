"""Clients that dawdle, or come in crowds, do not keep the server from others: it closes their connections."""

import contextlib
import shutil
import socket
import threading
import time

import pytest

from tests.serve.asking import CACHED, TOKEN, Asked, in_json
from tests.serve.running import certificate, free_port, one_answer, wait_for
from tvwrl.serve import http_server
from tvwrl.serve.application import Limits

CLOSED = 3.0  # seconds; the limits of these servers are far below one
FILTER = b"POST /filter HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" % (
    TOKEN.encode(),
    len(in_json(CACHED)),
)
ALIVE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@contextlib.contextmanager
def serving(tls=None):
    """A server, and its port, that gives 0.3 s for bodies."""
    asked, found = Asked(Limits(body_seconds=0.3, deadline=60.0)), free_port()
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
