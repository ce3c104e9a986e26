"""What the rest of an episode costs when a policy makes all later decisions: many actions in one batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvwrl.agents.deterministic import LogitsOf
from tvwrl.agents.policy_replay import BRANCHES, PolicyReplay
from tvwrl.penalties import TERMS
from tvwrl.schedulers import NONE, WAIT, Continuation, Runner, Scheduler
from tvwrl.simulation import Simulation
from tvwrl.types import Float, Int, Workload

MOST_MEMORY = 2**30  # bytes, of the branches that are played side by side
STATES = 8  # branches for each state that is kept
TO_THE_END = 2**60  # slots


class ByPolicy(Continuation):
    """A policy plays on. States are kept until there are enough for a batch."""

    def __init__(self, runner: Runner, logits_of: LogitsOf) -> None:
        self.decisions = 20_000_000 // max(10, len(runner.machines))
        one = Simulation(runner.sequences, runner.machines, runner.scenario, max_slots=0)
        branches = int(np.clip(MOST_MEMORY // one.bytes_of_state, 16, BRANCHES))
        states = max(1, branches // STATES)
        self._states = Simulation(runner.sequences, runner.machines, runner.scenario, states, max_slots=0)
        self._replay = PolicyReplay(self._states, logits_of, TO_THE_END, 1, branches)
        self._asked: list[tuple[Int, float]] = []  # actions, and what the policy remembers of having held
        self._answers: list[Float] = []

    def ask(
        self, simulation: Simulation, scheduler: Scheduler, shown: Sequence[Workload], place: int, machines: Int
    ) -> None:
        """See `Continuation.ask`."""
        actions = np.where(machines == WAIT, simulation.placements, place * len(simulation.machines) + machines)
        self._states.copy(simulation, np.zeros(1, np.int64), np.array([len(self._asked)]))
        self._asked.append((np.where(machines == NONE, NONE, actions), getattr(scheduler, "held", 1.0)))
        if len(self._asked) == self._states.batch:
            self._play()

    def answers(self) -> list[Float]:
        """See `Continuation.answers`."""
        self._play()
        found, self._answers = self._answers, []
        return found

    def _play(self) -> None:
        if not self._asked:
            return
        actions = np.array([some for some, _ in self._asked])
        states, columns = np.nonzero(actions != NONE)
        held = np.array([one for _, one in self._asked])[states]
        costs = np.full((*actions.shape, len(TERMS)), np.nan)
        costs[states, columns] = self._replay.play_on(states, actions[states, columns], held)
        self._answers += list(costs)
        self._asked = []
