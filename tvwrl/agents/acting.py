"""What a policy does, however its logits are computed: its action if none is drawn, and what follows an action if the
policy goes on in the same recorded future. Needs no PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.envs import action_masks
from tvwrl.penalties import TERMS
from tvwrl.schedulers import MAX_IDLE_SLOTS, NONE, WAIT, Continuation, Runner, Scheduler, check_costs
from tvwrl.simulation import (
    ARRIVAL,
    ARRIVED,
    GOING,
    IDLE,
    OVER,
    SEQUENCE,
    SLOT,
    SLOTS,
    TRUNCATED,
    WAITING,
    Mask,
    Simulation,
)
from tvwrl.types import Float, Int, Workload

Seen = dict[str, npt.NDArray[Any]]  # a batched observation; see `PlacementEnv`
Logits = npt.NDArray[np.floating[Any]]  # (n, actions)
LogitsOf = Callable[[Seen, Mask], Logits]  # of observations (n, ...) and their masks (n, actions)

TIE = 1e-5  # logits that differ by less are equal, in absolute terms near 0 and else in relative ones


def probabilities(logits: Logits) -> Float:
    """(n, actions) in double precision, from logits (n, actions)."""
    odds = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    chances: Float = odds / odds.sum(axis=1, keepdims=True)
    return chances


class DeterministicActions:
    """Deterministic actions for B environments: the most probable placement, after the median waiting time.

    Of placements that are equally probable up to rounding, the first is taken: how a matrix product is rounded depends
    on the processor and on how many states are evaluated together.

    A policy decides anew in every slot whether to hold. If it holds with probability 0.6, it waits about two slots when
    actions are drawn, but its most probable action would be to hold for good. Here a workload is held only while the
    probability of having held it for so long is at least one half.

    `batch`: B
    `placements`: actions below this place a workload (`Simulation.placements`)

    Attribute: `held` (B,), the probability of having held what waits for as long as it has been.
    """

    def __init__(self, batch: int, placements: int) -> None:
        self._placements, self.held = placements, np.ones(batch)

    def choose(
        self,
        logits: Logits,
        alive: Mask | Int | None = None,
        placed: Mask | None = None,
    ) -> npt.NDArray[np.int64]:
        """(n,) actions for logits (n, placements), or one more with holding, of environments `alive` (B,) or (n,).

        `placed` (n,): if not these actions were taken but others, whether the last of them placed a workload
        """
        placing = logits[:, : self._placements]
        best = placing.max(axis=1, keepdims=True)
        chosen: npt.NDArray[np.int64] = (placing >= best - TIE * (1 + np.abs(best))).argmax(axis=1)
        if logits.shape[1] == self._placements:
            return chosen
        alive = np.ones(len(self.held), np.bool_) if alive is None else alive
        before = self.held[alive] if placed is None else np.where(placed, 1.0, self.held[alive])
        held = before * probabilities(logits)[:, -1]
        hold = held >= 0.5
        self.held[alive] = np.where(hold, held, 1.0) if placed is None else held
        return np.where(hold, self._placements, chosen)


BRANCHES = 2048  # played side by side


class PolicyReplay:
    """`schedulers.Replay` with a policy in place of a rule: rolls out actions from simulation states.

    The policy evaluates all rollouts in one batch, but is a hundred times slower than a compiled rule. Therefore only
    the `candidates` most probable placements are rolled out. Rollouts end with the episode, or at the first arrival at
    least `horizon` slots later, where all of them have a decision to take.
    """

    def __init__(
        self,
        simulation: Simulation,
        logits_of: LogitsOf,
        horizon: int,
        candidates: int,
        branches: int = BRANCHES,
    ) -> None:
        self._source, self._logits_of = simulation, logits_of
        self._horizon, self._candidates = horizon, candidates
        drawn, scenario = simulation.sequences, simulation.scenario
        self._branches = Simulation(drawn, simulation.machines, scenario, branches, max_slots=0)
        self._deterministic = DeterministicActions(simulation.batch, simulation.placements)
        self._started = np.zeros(simulation.batch, np.int64)  # workloads, at the last decision

    def choices(self, rows: Int) -> Int:
        """(n,) what the policy would do in environments `rows` (n,), which have been held for as long as they have.

        To be asked once at every decision of an episode: it remembers for how long nothing has been placed.
        """
        counters = self._source.state.counters[rows]
        started = counters[:, ARRIVED] - counters[:, WAITING]
        placed, self._started[rows] = started != self._started[rows], started
        return self._deterministic.choose(self._logits(self._source, rows), rows, placed)

    def costs(self, rows: Int, allowed: npt.NDArray[np.bool_]) -> tuple[Float, Int]:
        """(n, placements + 1, 5) penalties (`penalties.TERMS`) by action in environments `rows` (n,), and (n,) its
        own actions if it has not held before.

        `allowed` (n, actions): penalties are NaN for actions that are not allowed or not among the candidates.
        """
        placements = self._source.placements
        logits = self._logits(self._source, rows)
        own = DeterministicActions(len(rows), placements).choose(logits)
        # Of equals the first, as in `own`
        ranked = np.argsort(-logits[:, :placements], axis=1, kind="stable")
        wanted = np.zeros((len(rows), placements + 1), np.bool_)
        np.put_along_axis(wanted, ranked[:, : self._candidates], True, axis=1)
        wanted[:, : allowed.shape[1]] &= allowed[:, : placements + 1]
        wanted[:, allowed.shape[1] :] = False
        costs = np.full((*wanted.shape, len(TERMS)), np.nan)
        states, actions = np.nonzero(wanted)
        costs[states, actions] = self.play_on(rows[states], actions)
        check_costs(costs[wanted])
        return costs, own

    def play_on(self, rows: Int, actions: Int, held: Float | None = None) -> Float:
        """(n, 5) penalties of rollouts in environments `rows` (n,) that begin with `actions` (n,).

        `held` (n,): what the policy remembers of having held (`DeterministicActions`); default: nothing
        """
        held = np.ones(len(rows)) if held is None else held
        most = self._branches.batch
        parts = [slice(first, first + most) for first in range(0, len(rows), most)]
        found = [self._play(rows[part], actions[part], held[part]) for part in parts]
        return np.concatenate([np.zeros((0, len(TERMS))), *found])

    def _logits(self, simulation: Simulation, rows: npt.NDArray[Any]) -> Logits:
        """(n, actions) of the policy in environments `rows`, (n,) or a mask."""
        seen = {name: part[rows] for name, part in simulation.observation().items()}
        return self._logits_of(seen, action_masks(simulation)[rows])

    def _play(self, rows: Int, actions: Int, held: Float) -> Float:
        """See `play_on`, of at most as many as are played side by side."""
        simulation, count = self._branches, len(rows)
        state, placements = simulation.state, simulation.placements
        simulation.copy(self._source, rows, np.arange(count))
        over, clock = state.counters[:, OVER], state.counters[:, SLOT]
        over[count:] = TRUNCATED
        # Each ends at its first arrival after the horizon, or never
        arrivals = state.timing[state.counters[:count, SEQUENCE], :, ARRIVAL].astype(np.float64)
        later = arrivals >= (clock[:count] + self._horizon)[:, None]
        ends = np.where(later, arrivals, np.inf).min(axis=1)
        costs, chosen = np.zeros((simulation.batch, len(TERMS))), np.zeros(simulation.batch, np.int64)
        chosen[:count] = actions
        deterministic = DeterministicActions(simulation.batch, placements)
        deterministic.held[:count] = np.where(actions < placements, 1.0, held)
        going = over == GOING
        while going.any():
            simulation.step(chosen)
            costs[going] += state.totals[going, :SLOTS]
            done = (clock[:count] >= ends) | (state.counters[:count, IDLE] >= MAX_IDLE_SLOTS)
            over[:count][(over[:count] == GOING) & done] = TRUNCATED
            going = over == GOING
            if going.any():
                chosen[going] = deterministic.choose(self._logits(simulation, going), going)
        return costs[:count]


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
