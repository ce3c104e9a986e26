"""Wraps an entrant's scheduler: reports its errors with sequence and slot, and limits its time."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tvwrl.benchmark.models import checked_machine
from tvwrl.schedulers import Continuation, Opinion, Runner, Scheduler, position_in_queue
from tvwrl.simulation import SEQUENCE, Cluster
from tvwrl.types import InputError, Int, Placement, Workload

FIRST = 10  # decisions that do not count, since they compile and load code
JUDGED = 20  # while fewer were timed, together they may take as long as this many
TERMINATED = 128 + signal.SIGTERM  # exit code of a program that was terminated from outside (`tvwrl.commands.door`)


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
            with self._named(cluster):
                placements = iter(self._inner.schedule(cluster, pending)) if placements is None else placements
                placement = next(placements, None)
            seconds = time.perf_counter() - started
            with self._named(cluster):
                # The call that ends the slot after a placement takes no time: counting it would halve the mean
                if placement is not None or not placed or 1000.0 * seconds > self._limit:
                    self._judge(seconds)
                if placement is not None:
                    placement = Placement(placement.workload, checked_machine(placement.machine, len(cluster.machines)))
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
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and error.code == TERMINATED:
                raise
            sequence = int(cluster.simulation.state.counters[cluster.b, SEQUENCE])
            what = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            self.failure = InputError(f"'{self.name}', sequence {sequence}, slot {cluster.slot}: {what}")
            for note in getattr(error, "__notes__", ()):
                self.failure.add_note(note)  # where in its own process an entry failed
            raise self.failure from error


def _plain(number: float) -> str:
    """Three digits, without an exponent.

    >>> _plain(1098.6), _plain(8.1)
    ('1,100', '8.1')
    """
    return f"{float(f'{number:.3g}'):,.12g}"
