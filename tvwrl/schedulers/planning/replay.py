"""Rollouts in the recorded future: what every action of a state costs if a rule, the base policy, continues.

Arrivals and demand do not depend on decisions, so all actions can be compared in the same future.
"""

from __future__ import annotations

import math

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
    NOWHERE,
    WORST_FIT_PEAK,
    Branches,
    Rule,
)
from tvwrl.simulation import WAITING, Mask, Scenario, Simulation
from tvwrl.types import Float, InputError, Int, Machines

HORIZON = 128  # slots
MOST_MEMORY = 2 * 2**30  # bytes, of scratch that is written to in every state


class CompiledRule:
    """What the rule `base` does in states of a simulation.

    In a scenario with `choose_from_queue` it places the first of the visible workloads that it can (`Backfill`).

    Raises InputError for a base that has no compiled rule, or needs forecasts that the sequences lack.
    """

    def __init__(self, simulation: Simulation, base: str) -> None:
        one_of(BASES, base=base)
        table, scenario = simulation.sequences.forecast, simulation.scenario
        number, capacity = BASES.index(base), simulation.state.capacity
        if number > EXPECTED_COST_PEAK:
            table = None
        elif table is None:
            raise InputError(f"base is {base}: it needs sequences that were drawn with forecasts")
        self._simulation = simulation
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
        self._present = self._scratch(1, 1)

    def _scratch(self, branches: int, slots: int) -> Branches:
        state = self._simulation.state
        (machines, resources), (_, workloads, longest, _) = state.capacity.shape, state.demand.shape
        scenario = self._simulation.scenario
        rows = scenario.usage_delay + slots + longest * (self._rule.number == CLAIRVOYANT)
        made = _arrays(branches, machines, scenario.places, workloads, rows, resources)
        made |= {name: (shape, state.load.dtype) for name, (shape, _) in made.items() if name in ("load", "square")}
        forecast = ((len(self._rule.steps),), np.float32)
        return Branches(
            **{name: np.zeros(*like) for name, like in (made | {"summed": forecast, "own": forecast}).items()}
        )

    def choices(self, rows: Int) -> Int:
        """(n,) its actions, those of `Simulation.step`, in environments `rows` (n,), where a decision is due."""
        return self._play(self._present, rows, np.full((len(rows), 1), NOWHERE), 1)[1]

    def _play(self, branches: Branches, rows: Int, acts: Int, horizon: int) -> tuple[Float, Int, Mask]:
        """See `replay_kernels.replay`: `out`, NaN for branches that are not played, `choice` and `ended`."""
        out = np.where(acts[..., None] == NOWHERE, np.nan, np.zeros(len(TERMS)))
        choice, ended = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        replay(self._simulation.state, self._rule, branches, rows, acts, horizon, out, choice, ended)
        return out, choice, ended


class Replay(CompiledRule):
    """Rolls out actions of states of a simulation with the rule `base`, for `horizon` slots or to the end.

    `branches`: the most actions of a state that are rolled out; default: all

    Raises InputError as `CompiledRule` and `check_memory` do, and for a horizon below 1.

    >>> replay = Replay(envs.simulation, "best-fit-peak")  # doctest: +SKIP
    >>> costs = replay.costs(np.arange(envs.num_envs), envs.action_masks())  # doctest: +SKIP
    """

    def __init__(self, simulation: Simulation, base: str, horizon: int = HORIZON, branches: int | None = None) -> None:
        super().__init__(simulation, base)
        at_least(1, horizon=horizon)
        check_memory(simulation.scenario, simulation.machines, simulation.state.demand.shape[1], horizon, branches)
        self._horizon = horizon
        self._branches = self._scratch(branches or simulation.placements + 1, horizon)

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
        out, choice, _ = self.played(rows, np.where(wanted, np.arange(actions), NOWHERE))
        return out, choice

    def played(self, rows: Int, acts: Int) -> tuple[Float, Int, Mask]:
        """(n, A, 4) penalties of the actions `acts` (n, A), and the base's own action as in `costs`; (n,) whether all
        of them came to the end of the episode within the horizon.

        -1 in `acts`: none, and NaN. Others must be possible. Raises InputError if a cost is not a number.
        """
        out, choice, ended = self._play(self._branches, rows, acts, self._horizon)
        check_costs(out[acts != NOWHERE])
        return out, choice, ended


def check_costs(costs: Float) -> None:
    """Raise InputError if a cost is not a number, which a learner would take for one that is not known."""
    if not np.isfinite(costs).all():
        raise InputError("an action costs nan or inf: demand and the sum of all penalties must be finite")


def check_memory(
    scenario: Scenario, machines: Machines, workloads: int, horizon: int, branches: int | None = None
) -> None:
    """Raise InputError if a `Replay` would take more than `MOST_MEMORY`, which grows with machines squared.

    The arguments are those of `memory_of`.
    """

    def needed(count: int) -> int:
        return memory_of(scenario, machines, workloads, horizon, branches, count)

    count = len(machines)
    if needed(count) > MOST_MEMORY:
        most = next((fewer for fewer in range(count, 0, -1) if needed(fewer) <= MOST_MEMORY), 0)
        raise InputError(
            f"machines is {count}: rolling out all actions of a state would take {needed(count) / 2**30:.0f} GiB of "
            f"memory, more than the limit of {MOST_MEMORY / 2**30:.0f}; use at most {most} machines: a shared policy "
            "trained on them plays on any number"
        )


def memory_of(
    scenario: Scenario,
    machines: Machines,
    workloads: int,
    horizon: int,
    branches: int | None = None,
    count: int | None = None,
) -> int:
    """Bytes that a `Replay` takes.

    `workloads`: in a sequence
    `branches`: actions rolled out side by side; default: all of a state
    `count`: how many machines, if not all of them
    """
    count = count or len(machines)
    actions = branches or scenario.places * count + 1
    rows, resources = scenario.usage_delay + horizon, machines.capacity.shape[1]
    made = _arrays(actions, count, scenario.places, workloads, rows, resources)
    return sum(math.prod(shape) * np.dtype(kind).itemsize for shape, kind in made.values())


def _arrays(
    branches: int, machines: int, places: int, workloads: int, rows: int, resources: int
) -> dict[str, tuple[tuple[int, ...], npt.DTypeLike]]:
    """Shapes and types of `Branches`, for booked load that is not whole and rules without forecasts."""
    pool = machines * branches + 1  # each branch may have contents of its own, and one is being made
    return {
        "facts": ((pool, 6), np.int64),
        "who": ((pool, workloads, 3), np.int32),
        "load": ((pool, rows, resources), np.float64),
        "square": ((pool, rows, resources), np.float64),
        "charges": ((pool, 3), np.float64),
        "asked": ((pool, places), np.int64),
        "scores": ((pool, places, 3), np.float64),
        "content": ((branches, machines), np.int64),
        "queue": ((branches, workloads), np.int32),
        "waiting": ((branches,), np.int64),
        "placed": ((branches,), np.int64),
        "free": ((pool,), np.int64),
        "fresh": ((branches * workloads,), np.int64),
        "counts": ((3,), np.int64),
        "summed": ((0,), np.float32),
        "own": ((0,), np.float32),
        "known": ((resources,), np.float64),
    }
