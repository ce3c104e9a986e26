"""Runs many calls at once: in threads or processes of this machine, or on many machines through Ray."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from typing import Any

from tvwrl.types import InputError

GRACE = 5.0  # seconds that a process has to end after SIGTERM

Call = tuple[Callable[..., dict[str, Any]], tuple[Any, ...]]


def run_calls(
    calls: Iterable[Call], workers: int, ray: str | None, processes: bool = False, keep_going: bool = False
) -> Generator[tuple[int, Any], None, None]:
    """Position and result of every call, as they finish: `workers` at a time here, or on the Ray cluster at `ray`.

    Here they run in threads, which suits compiled code, or each in a process of its own. An exception in a call, or the
    death of its process, is raised; with `keep_going` (processes and Ray) it is the call's result instead. Leaving the
    iteration early ends what is running; a process gets SIGTERM.
    """
    here = _in_processes if processes else _in_threads
    results = _on_ray(calls, ray) if ray else here(calls, workers)
    with contextlib.closing(results):
        for position, result in results:
            if isinstance(result, Exception) and not keep_going:
                raise result
            yield position, result


def _in_threads(calls: Iterable[Call], workers: int) -> Generator[tuple[int, Any], None, None]:
    with ThreadPoolExecutor(workers) as pool:
        waiting: dict[Future[dict[str, Any]], int] = {}
        todo = iter(enumerate(calls))
        try:
            for position, (function, arguments) in todo:
                waiting[pool.submit(function, *arguments)] = position
                if len(waiting) >= 2 * workers:  # the rest is handed out as these finish
                    yield from _ended(waiting)
            while waiting:
                yield from _ended(waiting)
        finally:
            pool.shutdown(cancel_futures=True)


def _ended(waiting: dict[Future[dict[str, Any]], int]) -> Generator[tuple[int, Any], None, None]:
    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
        yield waiting.pop(future), future.result()


def _in_processes(calls: Iterable[Call], workers: int) -> Generator[tuple[int, Any], None, None]:
    """A single worker is this process itself."""
    todo = iter(enumerate(calls))
    if workers == 1:
        for position, (function, arguments) in todo:
            try:
                result: Any = function(*arguments)
            except Exception as error:
                result = error
            yield position, result
        return
    spawn = multiprocessing.get_context("spawn")
    running: dict[Any, tuple[int, Any]] = {}  # the end of a pipe -> position of the call, process
    try:
        while True:
            for position, call in islice(todo, workers - len(running)):
                ours, theirs = spawn.Pipe(duplex=False)
                process = spawn.Process(target=_serve, args=(theirs, *call))
                process.start()
                theirs.close()
                running[ours] = position, process
            if not running:
                return
            for ready in wait_for(list(running)):
                position, process = running.pop(ready)
                yield position, _received(ready, process)
    finally:
        for _, process in running.values():
            process.terminate()
        until = time.monotonic() + GRACE
        for _, process in running.values():
            process.join(max(until - time.monotonic(), 0.0))
            if process.is_alive():  # compilation swallows the exception by which a signal ends Python
                process.kill()
                process.join()


def _received(ready: Any, process: Any) -> Any:
    """The result of a process, or the exception that it ended with."""
    try:
        result = ready.recv()
    except EOFError:
        process.join()
        return RuntimeError(f"its process died (exit code {process.exitcode})")
    process.join()
    return result


def _serve(answer: Connection, function: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> None:
    """One call in a new process, which prints no errors, ignores the terminal's Ctrl-C and ends with its parent."""
    os.setpgrp()
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 for as long as the process lives
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        answer.send(_apply(function, arguments))
    except Exception as error:
        answer.send(error)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _on_ray(calls: Iterable[Call], address: str) -> Generator[tuple[int, Any], None, None]:
    """On a cluster; the files that calls read and write have to be the same for all its machines."""
    try:
        import ray
    except ImportError:
        raise InputError("--ray needs Ray: pip install '.[ray]'") from None

    if not ray.is_initialized():
        _check_cluster(address)
        options = {"include_dashboard": False} if address == "local" else {"address": address}
        try:
            ray.init(log_to_driver=False, configure_logging=False, **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(f"--ray {address}: no Ray cluster there: {error}") from None
    remote = ray.remote(num_cpus=1, max_retries=3)(_apply)
    waiting = {remote.remote(function, arguments): i for i, (function, arguments) in enumerate(calls)}
    try:
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                try:
                    result = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    result = InputError(str(error.cause)) if isinstance(error.cause, InputError) else error
                except ray.exceptions.RayError as error:  # the machine or its worker died
                    result = error
                yield waiting.pop(reference), result
    finally:
        for reference in waiting:
            ray.cancel(reference)


def _check_cluster(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address in ("local", "auto"):
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError) as error:
        needed = 'needed: HOST:PORT of a running cluster, "auto" or "local"'
        raise InputError(f"--ray {address}: no Ray cluster there ({error}); {needed}") from None


def _apply(function: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> dict[str, Any]:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # one call is one core of the cluster
    return function(*arguments)
