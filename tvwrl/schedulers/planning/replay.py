"""Rollouts in the recorded future: what every action of a state costs if a rule, the base policy, continues.

Arrivals and demand do not depend on decisions, so all actions can be compared in the same future.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tvwrl.checks import at_least, one_of
from tvwrl.penalties import TERMS
from tvwrl.schedulers.expected_cost import ACCEPTED_OVERSHOOT
from tvwrl.schedulers.planning.replay_kernels import replay
from tvwrl.schedulers.planning.replay_rules import (
    BASES,
    CLAIRVOYANT,
    EXPECTED_COST_PEAK,
    KNOWN_PEAK,
    WORST_FIT_PEAK,
    Branches,
    Rule,
)
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import WAITING
from tvwrl.types import Float, InputError, Int

HORIZON = 128  # slots


class Replay:
    """Rolls out every action of states of a simulation with the rule `base`, for `horizon` slots or to the end.

    In a scenario with `choose_from_queue` the rule places the first of the visible workloads that it can (`Backfill`).

    Raises InputError for a base that has no compiled rule or needs forecasts that the sequences lack, and for a horizon
    below 1.

    >>> replay = Replay(envs.simulation, "best-fit-peak")  # doctest: +SKIP
    >>> costs = replay.costs(np.arange(envs.num_envs), envs.action_masks())  # doctest: +SKIP
    """

    def __init__(self, simulation: Simulation, base: str, horizon: int = HORIZON) -> None:
        one_of(BASES, base=base)
        at_least(1, horizon=horizon)
        table, scenario = simulation.sequences.forecast, simulation.scenario
        number, capacity = BASES.index(base), simulation.state.capacity
        if number > EXPECTED_COST_PEAK:
            table = None
        elif table is None:
            raise InputError(f"base is {base}: it needs sequences that were drawn with forecasts")
        self._simulation, self._horizon = simulation, horizon
        self._rule = Rule(
            number=number,
            forecast=np.zeros((1, 1, 1, 0), np.uint8) if table is None else table.values,
            steps=np.zeros(0, np.float32) if table is None else table.steps,
            peaks=table.peaks if table is not None and number == KNOWN_PEAK else np.zeros((3, 0), np.int64),
            peak=simulation.peak if EXPECTED_COST_PEAK <= number <= WORST_FIT_PEAK else np.zeros((1, 1, 0)),
            sizes=capacity / scenario.peak_units,
            largest=capacity.max(axis=0),
            units=float(scenario.peak_units),
            whole=scenario.quantise,
            limit=ACCEPTED_OVERSHOOT * scenario.K_w if number <= KNOWN_PEAK else np.inf,
        )
        self._branches = self._scratch(len(self._rule.steps))

    def _scratch(self, columns: int) -> Branches:
        state = self._simulation.state
        (machines, resources), (_, count, longest, _) = state.capacity.shape, state.demand.shape
        places = self._simulation.scenario.places
        actions, ahead = self._simulation.placements + 1, self._horizon + longest * (self._rule.number == CLAIRVOYANT)
        pool = machines * actions + 1  # each branch may have contents of its own, and one is being made
        booked = (pool, ahead, resources)
        return Branches(
            facts=np.zeros((pool, 6), np.int64),
            who=np.zeros((pool, count, 3), np.int32),
            load=np.zeros(booked, state.load.dtype),
            square=np.zeros(booked, state.load.dtype),
            charges=np.zeros((pool, 3)),
            asked=np.zeros((pool, places), np.int64),
            scores=np.zeros((pool, places, 3)),
            content=np.zeros((actions, machines), np.int64),
            queue=np.zeros((actions, count), np.int32),
            waiting=np.zeros(actions, np.int64),
            placed=np.zeros(actions, np.int64),
            free=np.zeros(pool, np.int64),
            fresh=np.zeros(actions * count, np.int64),
            counts=np.zeros(3, np.int64),
            summed=np.zeros(columns, np.float32),
            own=np.zeros(columns, np.float32),
            known=np.zeros(resources),
        )

    def choices(self, rows: Int) -> Int:
        """(n,) the base's own actions in environments `rows` (n,)."""
        return self.costs(rows, np.zeros((len(rows), 0), np.bool_))[1]

    def costs(self, rows: Int, allowed: npt.NDArray[np.bool_]) -> tuple[Float, Int]:
        """(n, placements + 1, 4) penalties (`penalties.TERMS`) from the current slot on, by action, of environments
        `rows` (n,), and (n,) the base's own action.

        Actions are those of `Simulation.step`, the last to let the slot pass. NaN where `allowed` (n, actions) forbids
        one or has no column for it, and where nothing waits at the place that it names. A decision must be due. Raises
        InputError if a cost is not a number.
        """
        actions, machines = self._branches.content.shape
        wanted = np.zeros((len(rows), actions), np.bool_)
        wanted[:, : allowed.shape[1]] = allowed
        waiting = self._simulation.state.counters[rows, WAITING]
        wanted[:, :-1] &= np.arange(actions - 1) // machines < waiting[:, None]
        out = np.where(wanted[..., None], np.zeros(len(TERMS)), np.nan)
        choice = np.zeros(len(rows), np.int64)
        replay(self._simulation.state, self._rule, self._branches, rows, wanted, self._horizon, out, choice)
        check_costs(out[wanted])
        return out, choice


def check_costs(costs: Float) -> None:
    """Raise InputError if a cost is not a number, which a learner would take for one that is not known."""
    if not np.isfinite(costs).all():
        raise InputError("an action costs nan or inf: demand and the sum of all penalties must be finite")
