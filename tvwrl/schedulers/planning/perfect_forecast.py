"""References that play a rule with perfect forecasts: what the rule would be worth if it knew what comes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from tvwrl.forecasting import with_perfect_forecasts
from tvwrl.schedulers.base import Opinion, Scheduler
from tvwrl.schedulers.knowledge import FUTURE
from tvwrl.schedulers.planning.rollout import ALSO_KNOWN
from tvwrl.simulation import Cluster, Simulation
from tvwrl.types import InputError, Move, Placement, SequenceSet, Workload

PERFECT = "perfect-forecast"
Item = TypeVar("Item", Placement, Move)


class PerfectForecast(Scheduler):
    """A scheduler that is shown what really comes in place of forecasts. A reference: it knows the future.

    It decides as `scheduler` does, so it is no bound: with the same knowledge another rule may do better.

    Parameters
    ----------
    scheduler : Scheduler
        One that looks at forecasts, perhaps with a rule that moves.

    Raises
    ------
    InputError
        For a scheduler that looks at no forecasts, or plans in sampled futures, which are not the one that comes.

    Examples
    --------
    >>> from tvwrl.schedulers import make_scheduler
    >>> make_scheduler("perfect-forecast(expected-cost + greedy(threshold=5000))").knowledge.group
    'the whole future'
    """

    knowledge, needs_forecasts = FUTURE, True

    def __init__(self, scheduler: Scheduler) -> None:
        self.name = f"{PERFECT}({scheduler.name})"
        if not scheduler.needs_forecasts:
            raise InputError(f"scheduler is '{self.name}': {scheduler.name} looks at no forecasts")
        if ALSO_KNOWN in scheduler.knowledge.note:
            raise InputError(
                f"scheduler is '{self.name}': {scheduler.name} plans in sampled futures, not in what comes"
            )
        self.scheduler, self.looks_at_grid = scheduler, scheduler.looks_at_grid
        self._drawn: tuple[SequenceSet | None, SequenceSet | None] = None, None
        self._made: tuple[Simulation | None, Simulation | None] = None, None

    @property
    def moves_what_runs(self) -> bool:
        """Whether the rule does."""
        return self.scheduler.moves_what_runs

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare the rule for a new episode."""
        self.scheduler.reset(self._knowing(cluster), rng)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        yield from self._knowingly(self.scheduler.schedule(self._knowing(cluster), pending))

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `Scheduler.moves`."""
        yield from self._knowingly(self.scheduler.moves(self._knowing(cluster)))

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion | None:
        """See `Scheduler.opinion`."""
        return self.scheduler.opinion(self._knowing(cluster), workload)

    def fork(self) -> PerfectForecast:
        """See `Scheduler.fork`."""
        other = copy.copy(self)
        other.scheduler = self.scheduler.fork()
        return other

    def _knowing(self, cluster: Cluster) -> Cluster:
        """The same cluster, in which forecasts are perfect."""
        real = cluster.simulation
        if self._drawn[0] is not real.sequences:
            self._drawn = real.sequences, with_perfect_forecasts(real.sequences, real.scenario.peak_units)
        if self._made[0] is not real:
            twin = copy.copy(real)
            assert self._drawn[1] is not None
            twin.sequences = self._drawn[1]
            self._made = real, twin
        seen = copy.copy(cluster)
        assert self._made[1] is not None
        seen.simulation = self._made[1]
        self._look()
        return seen

    def _look(self) -> None:
        """Let the twin be in the state of the simulation, but with its own forecasts of what runs."""
        real, twin = self._made
        assert real is not None
        assert twin is not None
        table = twin.sequences.forecast
        assert table is not None
        own = {name: np.zeros_like(getattr(real.state, name)) for name in ("seen_forecast", "seen_running")}
        twin.state = real.state._replace(forecast=table.values, **own)
        twin.look()

    def _knowingly(self, decisions: Iterable[Item]) -> Iterator[Item]:
        """The decisions of a rule, which sees what has become of each before it takes the next."""
        for decision in decisions:
            yield decision
            self._look()
