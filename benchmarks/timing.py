"""How long a call takes on a machine that others use too, and how much memory it needs."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple


class Measured(NamedTuple):
    """What a call returned and took."""

    result: Any
    wall: float  # seconds
    cpu: float  # seconds of the processor, those of child processes included
    peak: float  # GiB that this process, or the largest of its children, has held at most since it began


def measure(call: Callable[..., Any], *arguments: Any) -> Measured:
    """Make the call and measure it."""
    begun, before = time.perf_counter(), _processor_seconds()
    result = call(*arguments)
    return Measured(result, time.perf_counter() - begun, _processor_seconds() - before, peak())


def _processor_seconds() -> float:
    return time.process_time() + sum(os.times()[2:4])


def peak() -> float:
    """GiB that this process, or the largest of its children, has held at most so far."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 2**20


def in_own_process(call: Callable[..., Any], *arguments: Any) -> Any:
    """What `call(*arguments)` returns in a fresh process, whose peak of memory is its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(call, *arguments).result()


def least_seconds(call: Callable[[], Any], repeats: int) -> float:
    """Processor time of the quickest of `repeats` >= 1 calls: what else runs can only add to it."""
    return min(measure(call).cpu for _ in range(repeats))
