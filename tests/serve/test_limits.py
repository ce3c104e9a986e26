"""What no request and no failure may do to the application: take its memory or its time, or keep it from answering."""

import asyncio
import contextlib
import gc
import multiprocessing
import os
import struct
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.serve.asking import BEARER, CACHED, POD, WHOLE, Asked, check, in_json
from tests.serve.clusters import decider, observed, pod
from tvwrl.serve import watching
from tvwrl.serve.deciding import NotReady
from tvwrl.serve.extender import Limits
from tvwrl.serve.extender_messages import read_arguments
from tvwrl.serve.monitoring import Log
from tvwrl.types import InputError

MIB = 2**20
SCOPE = {"type": "http", "method": "POST", "path": "/filter", "headers": [BEARER], "query_string": b""}


@pytest.fixture
def asked():
    made = Asked()
    yield made
    made.close()


@contextlib.contextmanager
def traced():
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings("error")
def test_huge_requests_overflow_nothing(asked):
    check(asked, "/filter", in_json(CACHED).replace(b'"250m"', b'"1e308"'), statuses=(200,))


@pytest.mark.parametrize("levels", [300, 1000])
def test_deep_nodes_are_answered(asked, levels):
    nodes = {"items": [{"metadata": {"name": "a"}, "status": 0}]}
    deep = b'"status": ' + b"[" * levels + b"]" * levels
    check(asked, "/filter", in_json({**WHOLE, "Nodes": nodes}).replace(b'"status": 0', deep))


def test_an_endless_content_length(asked):
    assert asked("/filter", in_json(CACHED), headers=[BEARER, (b"content-length", b"9" * 5000)])[0] in (400, 413)


def test_two_tokens_are_no_token(asked):
    wrong = (b"authorization", b"Bearer wrong")
    assert asked("/filter", in_json(CACHED), headers=[wrong, BEARER])[0] == 401
    assert asked("/filter", in_json(CACHED), headers=[BEARER, wrong])[0] == 401


@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_no_pod_has_thousands_of_containers(field):
    """Kubernetes stores no object of more than 1.5 MB."""
    with pytest.raises(InputError, match=field):
        read_arguments(in_json({**CACHED, "Pod": {**POD, "spec": {field: [{}] * 20_000}}}))


def test_values_are_counted_before_they_are_made():
    """A whole node has some 200; two million are no cluster."""
    with pytest.raises(InputError, match="values"):
        read_arguments(in_json({**CACHED, "Surprise": []}).replace(b"[]", b"[%s[]]" % (b"[]," * 2_000_000)))


def test_bodies_together_are_bounded():
    """64 clients send a MiB each, one that may be larger, and then wait: the server holds at most a quarter of it."""
    asked = Asked(Limits(body=2 * MIB, body_seconds=60.0, deadline=60.0))

    async def half(done):
        parts = [MIB]

        async def receive():
            if parts:
                return {"type": "http.request", "body": bytes(parts.pop()), "more_body": True}
            await done.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            pass

        await asked.application(SCOPE, receive, send)

    async def all_of_them():
        done = asyncio.Event()
        tasks = [asyncio.create_task(half(done)) for _ in range(64)]
        for _ in range(20):
            await asyncio.sleep(0)
        held = tracemalloc.get_traced_memory()[0]
        done.set()
        await asyncio.gather(*tasks)
        return held

    with traced():
        held = asked.runner.run(all_of_them())
    asked.close()
    assert held < 16 * MIB


def test_remembered_decisions_are_bounded(asked):
    """4,096 pods of a cluster of 1,000 nodes: 128 MiB at most, so 32 KiB each."""
    names = ["a", "b", *(f"node-{i:04d}.example" for i in range(998))]

    def ask(uid):
        named = {**POD, "metadata": {**POD["metadata"], "uid": uid, "name": uid}}
        assert asked("/filter", in_json({**CACHED, "Pod": named, "NodeNames": names}))[0] == 200

    for i in range(5):
        ask(f"before-{i}")
    with traced():
        for i in range(50):
            ask(f"pod-{i}")
        asked.errors()  # empties the log
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    assert held / 50 < 32 * 1024


def test_a_client_that_reads_nothing_is_given_up():
    asked = Asked(Limits(body_seconds=0.1, deadline=0.1))

    async def receive():
        return {"type": "http.request", "body": in_json(CACHED), "more_body": False}

    async def send(message):
        await asyncio.Event().wait()

    async def unread():
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(asked.application(SCOPE, receive, send), 3.0)

    try:
        asked.runner.run(unread())
    finally:
        asked.close()


def test_a_full_disk_does_not_stop_answers():
    asked = Asked(file=Path("/dev/full"))
    try:
        assert asked("/filter", in_json(CACHED))[0] == 200
        assert asked("/prioritize", in_json(CACHED))[0] == 200
    finally:
        asked.close()


def test_samples_of_an_unknown_moment_are_not_fresh():
    """Prometheus may say NaN."""
    asked = decider()
    asked.renew(replace(observed({"a": (8, 32)}, []), sample_age=np.nan))
    assert not asked.ready
    with pytest.raises(NotReady, match="stale_metrics"):
        asked.decide(pod(), ["a"])


def test_a_log_without_stderr(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    Log()("serving")


def test_a_log_whose_reader_has_gone():
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        log = Log(stream)
        log("first")
        os.close(reader)
        log("second")
        log("third")
        with contextlib.suppress(BrokenPipeError):
            stream.close()


def test_a_log_that_nobody_reads():
    """The pipe has room for some 64 KiB."""
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w")
    log, done = Log(stream), threading.Event()

    def write():
        for i in range(3000):
            log("decision", pod=f"default/pod-{i}", reason="x" * 80)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    went_on = done.wait(3.0)
    os.close(reader)
    thread.join()
    with contextlib.suppress(BrokenPipeError):
        stream.close()
    assert went_on


class _DiesHalfway:
    """Stands in for processes: each sends the first bytes of a long message, and is gone."""

    exitcode = -9

    def __init__(self, target, args, daemon):
        self.pipe = args[-2]

    def start(self):
        os.write(self.pipe.fileno(), struct.pack("!i", 1000) + b"abc")

    def kill(self):
        pass

    def join(self):
        pass


class _Context:
    Process = _DiesHalfway

    def Pipe(self, duplex):
        return multiprocessing.Pipe(duplex)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reader_that_dies_while_it_sends_comes_back(monkeypatch):
    monkeypatch.setattr(watching, "RESTART_SECONDS", 0.01)
    monkeypatch.setattr(watching.multiprocessing, "get_context", lambda kind: _Context())
    failures, twice = [], threading.Event()

    def failed(why):
        failures.append(why)
        if len(failures) == 2:
            twice.set()

    watched = watching.Polling({}, lambda seen: seen, 1.0, lambda found: None, failed)
    watched.start()
    came = twice.wait(3.0)
    watched.stop()
    assert came
