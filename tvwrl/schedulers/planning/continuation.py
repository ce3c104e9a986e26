"""What the rest of an episode costs after an action, when a given scheduler makes all later decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from tvwrl.metrics import penalties_by_slot
from tvwrl.penalties import TERMS
from tvwrl.schedulers.base import Scheduler, is_registered
from tvwrl.schedulers.head_of_queue import BACKFILL, Backfill
from tvwrl.schedulers.planning.replay import BASES, MOST_MEMORY, NOWHERE, Replay, memory_of
from tvwrl.schedulers.runner import Runner, play_on
from tvwrl.simulation import PLACED, SEQUENCE, SLOT, WAITING, Simulation
from tvwrl.types import Float, Int, Workload

WAIT, NONE = -1, -2  # in place of a machine: the slot passes; no action
LIVES = 4  # of the longest workload, after the last arrival: how long compiled rules play on


class Continuation(ABC):
    """Finds the penalties from a slot on for actions taken in it. The answers come in the order of the questions."""

    by: str | None = None  # name of the scheduler that goes on after the action; None: the one that plays the episode
    decisions: int  # how many it simulates in about a minute

    @abstractmethod
    def ask(
        self, simulation: Simulation, scheduler: Scheduler, shown: Sequence[Workload], place: int, machines: Int
    ) -> None:
        """Ask what it costs to put the workload at `place` of the queue on each of `machines` (A,), `WAIT` or `NONE`.

        `simulation`: a batch of 1 where a decision is due
        `scheduler`: as it is after its own decision, which the action replaces
        `shown`: the other workloads that it was shown and that wait still
        """

    @abstractmethod
    def answers(self) -> list[Float]:
        """(A, 5) penalties (`penalties.TERMS`) from the current slot to the end, by action, for every question since
        the last call; NaN for `NONE`."""


class ByScheduler(Continuation):
    """Any scheduler plays on, a fork of it for each action.

    `own`: the scheduler that does, reset for the episode, if it is not the one that plays it
    """

    def __init__(self, runner: Runner, scheduler: Scheduler, own: Scheduler | None = None) -> None:
        self.by = None if own is None else own.name
        self.decisions = int(500_000 / (1 + len(runner.machines) / 1000))
        self._runner, self._branch, self._own = runner, runner.simulation(scheduler), own
        self._answers: list[Float] = []

    def ask(
        self, simulation: Simulation, scheduler: Scheduler, shown: Sequence[Workload], place: int, machines: Int
    ) -> None:
        """See `Continuation.ask`."""
        costs = np.full((len(machines), len(TERMS)), np.nan)
        for a in np.flatnonzero(machines != NONE):
            costs[a] = self._cost(simulation, (self._own or scheduler).fork(), shown, place, int(machines[a]))
        self._answers.append(costs)

    def answers(self) -> list[Float]:
        """See `Continuation.answers`."""
        found, self._answers = self._answers, []
        return found

    def _cost(
        self, simulation: Simulation, scheduler: Scheduler, shown: Sequence[Workload], place: int, machine: int
    ) -> Float:
        branch, every = self._branch, np.zeros(1, np.int64)
        branch.copy(simulation, every, every)
        counters, scenario = branch.state.counters[0], branch.scenario
        now, limit, passes = int(counters[SLOT]), scenario.placements_per_slot, False
        if machine != WAIT:
            branch.place(place, machine)
        if machine == WAIT or not counters[WAITING] or (limit is not None and counters[PLACED] >= limit):
            shown, passes = (), True
        workloads = self._runner.workloads(int(counters[SEQUENCE]))
        cost = play_on(branch, scheduler, workloads, shown=shown, placed=passes).penalties
        if not counters[WAITING]:
            return cost
        # It was stopped with workloads that never start: the referee counts until the last that ran has finished
        weights = scenario.penalty_weights()
        found: Float = penalties_by_slot(branch.record(), branch.machines, weights, scenario.overshoot_per)[now:].sum(0)
        return found


class ByRule(ByScheduler):
    """A rule that is compiled plays on, with all actions of a decision side by side."""

    def __init__(self, runner: Runner, rule: Scheduler, actions: int, own: Scheduler | None = None) -> None:
        super().__init__(runner, rule, own)
        work = 10 if rule.needs_forecasts else 1  # for each machine
        self.decisions = int(70_000_000 / (1 + work * len(runner.machines) / 100))
        self._rule, self._actions = rule.name.removesuffix(BACKFILL), actions
        self._replay: tuple[Simulation | None, Replay | None] = (None, None)

    def ask(
        self, simulation: Simulation, scheduler: Scheduler, shown: Sequence[Workload], place: int, machines: Int
    ) -> None:
        """See `Continuation.ask`."""
        if self._replay[0] is not simulation:
            self._replay = simulation, Replay(simulation, self._rule, _slots(self._runner), self._actions)
        assert self._replay[1] is not None
        count, here = len(simulation.machines), np.zeros(1, np.int64)
        acts = np.where(machines == WAIT, simulation.placements, place * count + machines)
        costs, _, ended = self._replay[1].played(here, np.where(machines == NONE, NOWHERE, acts)[None])
        if ended[0]:
            self._answers.append(costs[0])
        else:  # somebody waits for very long
            super().ask(simulation, scheduler, shown, place, machines)


def continuation_of(scheduler: Scheduler, runner: Runner, actions: int, own: Scheduler | None = None) -> Continuation:
    """`ByRule` where the scheduler is a compiled rule, otherwise `ByScheduler`; see there for `own`.

    `actions`: the most of a decision
    """
    scenario, backfills = runner.scenario, isinstance(scheduler, Backfill)
    served = scheduler.served if isinstance(scheduler, Backfill) else scheduler
    compiled = served.name in BASES and is_registered(served) and not scenario.moves_per_slot
    # A compiled rule backfills exactly where a policy may choose from the queue
    if compiled and backfills == (scenario.places > 1):
        workloads = runner.sequences.arrival.shape[1]
        if memory_of(scenario, runner.machines, workloads, _slots(runner), actions) <= MOST_MEMORY:
            return ByRule(runner, scheduler, actions, own)
    return ByScheduler(runner, scheduler, own)


def _slots(runner: Runner) -> int:
    """The length of rollouts by compiled rules: those that take longer are left to the scheduler itself."""
    sequences = runner.sequences
    return int(sequences.arrival.max() + LIVES * sequences.length.max())
