"""Rollouts with a learnt base policy: what each action costs if the policy continues in the same recorded future."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tvwrl.agents.episodes import DeterministicActions, logits_of
from tvwrl.agents.networks import Policy
from tvwrl.envs import base
from tvwrl.penalties import TERMS
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import ARRIVAL, GOING, OVER, SEQUENCE, SLOT, SLOTS, TRUNCATED
from tvwrl.types import Float, Int

BRANCHES = 2048  # played side by side


class PolicyReplay:
    """`schedulers.planning.replay.Replay` with a policy in place of a rule: rolls out actions from simulation states.

    The policy evaluates all rollouts in one batch, but is a hundred times slower than a compiled rule. Therefore only
    the `candidates` most probable placements are rolled out. Rollouts end with the episode, or at the first arrival at
    least `horizon` slots later, where all of them have a decision to take.
    """

    def __init__(
        self, simulation: Simulation, policy: Policy, horizon: int, candidates: int, device: str = "cpu"
    ) -> None:
        self._source, self._policy, self._device = simulation, policy, device
        self._horizon, self._candidates = horizon, candidates
        drawn, scenario = simulation.sequences, simulation.scenario
        self._branches = Simulation(drawn, simulation.machines, scenario, BRANCHES, max_slots=0)

    def choices(self, rows: Int) -> Int:
        """(n,) the policy's most probable actions in environments `rows` (n,), ignoring how long it has held."""
        chosen: Int = self._likeliest(rows, 1)[0][:, 0]
        return chosen

    def costs(self, rows: Int, allowed: npt.NDArray[np.bool_]) -> tuple[Float, Int]:
        """(n, placements + 1, 4) penalties (`penalties.TERMS`) by action in environments `rows` (n,), and (n,) the
        policy's own actions.

        `allowed` (n, actions): penalties are NaN for actions that are not allowed or not among the candidates.
        """
        placements = self._source.placements
        own, likeliest = self._likeliest(rows, self._candidates)
        wanted = np.zeros((len(rows), placements + 1), np.bool_)
        np.put_along_axis(wanted, likeliest, True, axis=1)
        wanted[:, : allowed.shape[1]] &= allowed[:, : placements + 1]
        wanted[:, allowed.shape[1] :] = False
        costs = np.full((*wanted.shape, len(TERMS)), np.nan)
        states, actions = np.nonzero(wanted)
        for first in range(0, len(states), BRANCHES):
            state, action = states[first : first + BRANCHES], actions[first : first + BRANCHES]
            costs[state, action] = self._play(rows[state], action)
        return costs, own[:, 0]

    def _likeliest(self, rows: Int, count: int) -> tuple[Int, Int]:
        """(n, 1) the likeliest action, and (n, up to `count`) the likeliest placements."""
        simulation = self._source
        seen = {name: part[rows] for name, part in simulation.observation().items()}
        logits, _ = logits_of(self._policy, seen, base.action_masks(simulation)[rows], self._device)
        placements = simulation.placements
        best = DeterministicActions(len(rows), placements).choose(logits)
        ranked = logits[:, :placements].argsort(dim=1, descending=True, stable=True)  # the first of equals, as above
        return best[:, None], ranked[:, :count].cpu().numpy()

    def _play(self, rows: Int, actions: Int) -> Float:
        """(n, 4) penalties of branches that begin with `actions` (n,)."""
        simulation, count = self._branches, len(rows)
        state, placements = simulation.state, simulation.placements
        simulation.copy(self._source, rows, np.arange(count))
        over, clock = state.counters[:, OVER], state.counters[:, SLOT]
        over[count:] = TRUNCATED
        ends = self._ends(state.counters[:count, SEQUENCE], clock[:count])
        costs, chosen = np.zeros((BRANCHES, len(TERMS))), np.zeros(BRANCHES, np.int64)
        chosen[:count] = actions
        deterministic = DeterministicActions(BRANCHES, placements)
        going = over == GOING
        while going.any():
            simulation.step(chosen)
            costs[going] += state.totals[going, :SLOTS]
            over[:count][(over[:count] == GOING) & (clock[:count] >= ends)] = TRUNCATED
            going = over == GOING
            if going.any():
                seen = {name: part[going] for name, part in simulation.observation().items()}
                logits, _ = logits_of(self._policy, seen, base.action_masks(simulation)[going], self._device)
                chosen[going] = deterministic.choose(logits, going)
        return costs[:count]

    def _ends(self, sequence: Int, now: Int) -> Float:
        """(n,) slots of the first arrivals at or after the horizon; infinite if nothing arrives then."""
        arrivals = self._branches.state.timing[sequence, :, ARRIVAL].astype(np.float64)
        later = np.where(arrivals >= (now + self._horizon)[:, None], arrivals, np.inf)
        first: Float = later.min(axis=1)
        return first
