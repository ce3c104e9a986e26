"""Wraps an entrant's scheduler: reports its errors with sequence and slot, and limits its time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvwrl.benchmark.functions import whole_number
from tvwrl.schedulers.base import Opinion, Scheduler
from tvwrl.schedulers.planning.continuation import Continuation
from tvwrl.schedulers.runner import Runner, position_in_queue
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.state import SEQUENCE
from tvwrl.types import InputError, Int, Placement, Workload

FIRST = 10  # decisions that do not count, since they compile and load code
JUDGED = 20  # while fewer were timed, together they may take as long as this many
HANGING_SECONDS = 60.0  # `stopping_hangs` stops a single decision after this long
TERMINATED = 128 + signal.SIGTERM  # exit code of a program that was terminated from outside (`tvwrl.commands.door`)


class _Hanging(BaseException):
    """A decision hangs. Not an Exception, since a scheduler may catch those."""


class Guarded(Scheduler):
    """Decides as `inner` does, under another name.

    Raises an InputError that names sequence and slot if `inner` raises an exception (which becomes the cause), tries
    to exit the program, or takes more than `milliseconds` per decision on average. `failure` is the last such error.
    """

    def __init__(self, name: str, inner: Scheduler, milliseconds: float) -> None:
        self.name, self._inner, self._limit = name, inner, milliseconds
        self.knowledge = inner.knowledge
        self.failure: InputError | None = None
        self.looks_at_grid, self.needs_forecasts = inner.looks_at_grid, inner.needs_forecasts
        self.leader = inner.leader
        self._calls, self._seconds = 0, 0.0

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """See `Scheduler.reset`."""
        with self._named(cluster):
            self._inner.reset(cluster, rng)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        placements: Iterator[Placement] | None = None
        placed = 0
        while True:
            started = time.perf_counter()
            with self._named(cluster), _alarm():
                placements = iter(self._inner.schedule(cluster, pending)) if placements is None else placements
                placement = next(placements, None)
            seconds = time.perf_counter() - started
            with self._named(cluster):
                # The call that ends the slot after a placement takes no time: counting it would halve the mean
                if placement is not None or not placed or 1000.0 * seconds > self._limit:
                    self._judge(seconds)
                if placement is not None:
                    placement = Placement(placement.workload, _machine(placement.machine, len(cluster.machines)))
                    # Refuses an impossible choice, so that the error names sequence and slot
                    position_in_queue(cluster.simulation, placement.workload, placement.machine, self.name)
            if placement is None:
                return
            placed += 1
            yield placement

    def alternatives(self, cluster: Cluster, waiting: Sequence[Workload], choice: Placement, count: int) -> Int:
        """See `Scheduler.alternatives`."""
        return self._inner.alternatives(cluster, waiting, choice, count)

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion | None:
        """See `Scheduler.opinion`."""
        return self._inner.opinion(cluster, workload)

    def fork(self) -> Scheduler:
        """See `Scheduler.fork`: a fork is not timed."""
        return self._inner.fork()

    def continuation(self, runner: Runner, actions: int) -> Continuation:
        """See `Scheduler.continuation`."""
        return self._inner.continuation(runner, actions)

    def _judge(self, seconds: float) -> None:
        """Count a decision. Raises InputError if the mean time per decision is too long."""
        self._calls += 1
        self._seconds += seconds if self._calls > FIRST else 0.0
        judged = self._calls - FIRST
        if 1000.0 * self._seconds > max(judged, JUDGED) * self._limit:
            raise InputError(
                f"a decision took {_plain(1000.0 * self._seconds / judged)} ms on average of {judged}, the task allows "
                f"{_plain(self._limit)} ms: the scheduler was stopped"
            )

    @contextmanager
    def _named(self, cluster: Cluster) -> Iterator[None]:
        """Turn an exception in the block into an InputError that names sequence and slot."""
        try:
            yield
        except (Exception, SystemExit, _Hanging) as error:
            if isinstance(error, SystemExit) and error.code == TERMINATED:
                raise
            sequence = int(cluster.simulation.state.counters[cluster.b, SEQUENCE])
            what = str(error) if isinstance(error, InputError | _Hanging) else f"{type(error).__name__}: {error}"
            self.failure = InputError(f"'{self.name}', sequence {sequence}, slot {cluster.slot}: {what}")
            raise self.failure from error


def _machine(choice: Any, machines: int) -> int:
    """The chosen machine as an integer. Raises InputError for what is no whole number."""
    try:
        return whole_number(choice)
    except (TypeError, ValueError):
        shown = choice if isinstance(choice, float) else repr(choice)
        limit = f"must be a whole number from 0 to {machines - 1}, or None to wait"
        raise InputError(f"chose machine {shown}: {limit}") from None


def _plain(number: float) -> str:
    """Three digits, without an exponent.

    >>> _plain(1098.6), _plain(8.1)
    ('1,100', '8.1')
    """
    return f"{float(f'{number:.3g}'):,.12g}"


@contextmanager
def stopping_hangs() -> Iterator[None]:
    """In this block, stop every decision of a `Guarded` scheduler that lasts longer than HANGING_SECONDS.

    It uses the alarm signal, so it does nothing outside the main thread or where other code handles that signal. The
    alarm repeats, because a scheduler that catches everything may carry on.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGALRM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGALRM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _stop(number: int, frame: Any) -> None:
    raise _Hanging(f"a decision lasted longer than {HANGING_SECONDS:g} s: it was stopped")


@contextmanager
def _alarm() -> Iterator[None]:
    """Set the alarm of `stopping_hangs`, if that is active."""
    watched = signal.getsignal(signal.SIGALRM) is _stop
    if watched:
        signal.setitimer(signal.ITIMER_REAL, HANGING_SECONDS, HANGING_SECONDS)
    try:
        yield
    finally:
        if watched:
            signal.setitimer(signal.ITIMER_REAL, 0)
