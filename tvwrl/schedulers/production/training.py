"""Training workloads, from which rules learn how workloads behave, and what they have learnt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from tvwrl.simulation import Simulation, requests_of
from tvwrl.types import Float, Int, SequenceSet

T = TypeVar("T")


class TrainingWorkloads(NamedTuple):
    """W workloads of training sequences, which no test sequence contains."""

    length: Int  # (W,) slots that each ran
    request: Float  # (W, D) units, see `requests_of`
    demand: Float  # (W, L, D) units, 0 from `length` on


class Learnt(Generic[T]):
    """What `learn` makes of the training workloads, once for each set of them."""

    def __init__(self, learn: Callable[[TrainingWorkloads], T]) -> None:
        self._learn = learn
        self._made: tuple[SequenceSet, T] | None = None

    def of(self, simulation: Simulation) -> T | None:
        """What was learnt from the training workloads of the simulation's sequences; None if they have none."""
        if simulation.sequences.training is None:
            return None
        training = simulation.sequences.training()
        if self._made is None or self._made[0] is not training:
            resources = len(training.resources)
            request = requests_of(training, simulation.machines).reshape(-1, resources)
            demand = training.demand.reshape(len(request), -1, resources)
            self._made = training, self._learn(TrainingWorkloads(training.length.ravel(), request, demand))
        return self._made[1]

    def __deepcopy__(self, memo: dict[int, Any]) -> Learnt[T]:
        """Itself: forks of a scheduler share what it has learnt, which never changes."""
        return self
