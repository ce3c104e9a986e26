"""Runs the calls of a preparation: here on all cores, or on many machines through Ray."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from tvwrl.types import InputError

Call = tuple[Callable[..., dict[str, Any]], tuple[Any, ...]]


def run_calls(calls: Sequence[Call], workers: int, ray: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Position and result of every call, as they finish: in `workers` threads, or on the Ray cluster at `ray`."""
    yield from (_on_ray(calls, ray) if ray else _here(calls, workers))


def _here(calls: Sequence[Call], workers: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """In threads: what takes long is compiled code that runs side by side."""
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


def _ended(waiting: dict[Future[dict[str, Any]], int]) -> Iterator[tuple[int, dict[str, Any]]]:
    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
        yield waiting.pop(future), future.result()


def _on_ray(calls: Sequence[Call], address: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """On a cluster; input and work folder have to be the same for all its machines."""
    try:
        import ray
    except ImportError:
        raise InputError("--ray needs Ray: pip install 'tvwrl[ray]'") from None

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
                yield waiting.pop(reference), ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise InputError(str(error.cause)) from None
        raise
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
