"""Firmament's policies TRIVIAL and OCTOPUS: min-cost flow in terms of one resource, solved by OR-Tools."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tvwrl.checks import one_of
from tvwrl.names import choice, word
from tvwrl.packing import fits, replicas_that_fit
from tvwrl.planning.base import BASELINE, UNCONSTRAINED, Options, register
from tvwrl.planning.flow.tetris_graphene import NO_ROOM
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import NOWHERE, PlanningProblem
from tvwrl.plotting import people_call
from tvwrl.types import Float, InputError, Int

STEP = 1.25  # demands in one network differ by less than this factor
SCALE = 1000  # costs are integers: shares in 1/1000
DEPTH = 16  # replicas that OCTOPUS adds to a machine in one solution, by arcs of increasing cost
SAME = 1e-9  # steps by which equal demands may differ, as logarithms are rounded
LEAST = 1e-9  # share of the largest machine; smaller demands count as this much


@dataclass(frozen=True)
class Firmament:
    """Flow from replicas via an aggregator and machines to a sink (Gog et al. 2016); ignores constraints.

    Each network holds replicas of similar demand, the largest first; a machine's capacity is the number of the largest
    of them that fit. TRIVIAL uses few machines: flow through a used machine is free, through an idle one it costs the
    share of it that a replica takes. OCTOPUS balances load: each further replica costs the machine's utilisation with
    it. Replicas that do not fit because of another resource return to the next network, without that machine.
    """

    policy: Literal["TRIVIAL", "OCTOPUS"] = "TRIVIAL"
    resource: str = "cpu"

    def __post_init__(self) -> None:
        one_of(("TRIVIAL", "OCTOPUS"), policy=self.policy)

    def __call__(self, problem: PlanningProblem, options: Options | None = None) -> Plan:
        """Place all replicas for which there is room. Raises InputError if the resource is not one of the problem's."""
        one_of(problem.instance.resources, resource=self.resource)
        begun = time.process_time()
        at = problem.instance.resources.index(self.resource)
        state = _State(problem, at)
        need = np.maximum(problem.instance.peak[:, at], LEAST * problem.fleet.capacity[:, at].max())[
            problem.application
        ]
        order = np.argsort(-need, kind="stable")
        kind = np.floor(np.log(need[order]) / math.log(STEP) + SAME)
        counts = {"networks": 0, "sent_back": 0}
        for todo in np.split(order, np.flatnonzero(np.diff(kind)) + 1):
            before = -1
            while 0 < len(todo) != before:  # until nothing more is placed
                before = len(todo)
                todo = self._pass(state, todo, need, counts)
        left = np.unique(problem.application[state.machine == NOWHERE]).tolist()
        seconds = time.process_time() - begun
        facts = {"reasons": dict.fromkeys(left, NO_ROOM), "details": counts}
        return Plan.of_replicas(self.policy, problem.application, state.machine, seconds, **facts)

    def _pass(self, state: _State, todo: Int, need: Float, counts: dict[str, int]) -> Int:
        """Place replicas of `todo` by a sequence of networks; returns those that remain.

        A machine that lacks another resource is left out of the following networks.
        """
        closed = np.zeros(len(state.capacity), dtype=bool)
        while len(todo):
            largest = float(need[todo].max())
            slots = np.where(closed, 0, state.slots(largest, len(todo)))
            if not slots.any():
                break
            flow = self._solve(len(todo), slots, state.used(), state.capacity[:, state.at], largest)
            rest = state.put(todo, flow, closed)
            counts["networks"] += 1
            counts["sent_back"] += len(rest) - (len(todo) - int(flow.sum()))
            todo = rest
        return todo

    def _solve(self, replicas: int, slots: Int, used: Float, capacity: Float, need: float) -> Int:
        """(M,) replicas that a maximum flow of minimal cost sends to each machine."""
        try:
            from ortools.graph.python import min_cost_flow
        except ImportError:
            raise InputError("Firmament needs OR-Tools: pip install '.[flow]'") from None
        open_ = np.flatnonzero(slots)
        room = np.minimum(slots[open_], DEPTH if self.policy == "OCTOPUS" else replicas)
        if self.policy == "OCTOPUS":
            owner = np.repeat(np.arange(len(open_)), room)
            turn = np.arange(len(owner)) - np.repeat(np.cumsum(room) - room, room) + 1
            cost = SCALE * (used[open_][owner] + turn * need) / capacity[open_][owner]
            width = np.ones(len(owner))
        else:
            owner, width = np.arange(len(open_)), room
            cost = np.where(used[open_] > 0, 0.0, np.maximum(SCALE / slots[open_], 1.0))
        network: Any = min_cost_flow.SimpleMinCostFlow()
        sink, none = len(open_) + 1, np.zeros(len(open_), np.int64)
        into = network.add_arcs_with_capacity_and_unit_cost(
            np.zeros(len(owner), np.int32),
            (owner + 1).astype(np.int32),
            width.astype(np.int64),
            np.rint(cost).astype(int),
        )
        ends = np.arange(1, sink, dtype=np.int32)
        network.add_arcs_with_capacity_and_unit_cost(ends, np.full(len(open_), sink, np.int32), room.astype(int), none)
        network.set_nodes_supplies(np.array([0, sink], np.int32), np.array([replicas, -replicas], np.int64))
        status = network.solve_max_flow_with_min_cost()
        if status != network.OPTIMAL:
            raise RuntimeError(f"the min-cost flow ended with {status}")
        sent = np.bincount(owner, weights=network.flows(into), minlength=len(open_))
        flow = np.zeros(len(slots), dtype=np.int64)
        flow[open_] = np.rint(sent).astype(np.int64)
        return flow


_POLICIES = ("TRIVIAL", "OCTOPUS")
register(
    "{policy}-{resource}",
    "{policy}, {resource}",
    UNCONSTRAINED,
    BASELINE,
    "Gog et al. 2016",
    Firmament,
    policy=choice({name: name for name in _POLICIES}, listed=_POLICIES),
    resource=word(people_call, "cpu", "mem"),
)


class _State:
    """Machines of replicas, and residuals of machines."""

    def __init__(self, problem: PlanningProblem, at: int) -> None:
        self.capacity = problem.fleet.capacity
        self.machine = np.full(len(problem.application), NOWHERE)
        self._residual = np.repeat(self.capacity[:, None], problem.instance.demand.shape[1], axis=1)  # (M, H, D)
        self._problem, self.at = problem, at

    def slots(self, need: float, most: int) -> Int:
        """(M,) replicas with demand `need` of the resource that fit each machine, at most `most`."""
        free = self._residual[:, :, self.at].min(axis=1)
        room = replicas_that_fit(np.array([need]), free[:, None], self.capacity[:, self.at, None])
        slots: Int = np.minimum(room, most).astype(np.int64)
        return slots

    def used(self) -> Float:
        """(M,) amount of the resource in use."""
        used: Float = self.capacity[:, self.at] - self._residual[:, :, self.at].min(axis=1)
        return used

    def put(self, todo: Int, flow: Int, closed: Any) -> Int:
        """Place `todo` according to `flow` (M,); returns those that do not fit and marks their machines in `closed`."""
        target = np.repeat(np.arange(len(flow)), flow)
        back = [todo[len(target) :]]
        for r, m in zip(todo.tolist(), target.tolist(), strict=False):
            demand = self._problem.instance.demand[self._problem.application[r]]
            if not fits(demand, self._residual[m], self.capacity[m]).all():
                closed[m] = True
                back.append(np.array([r]))
            else:
                self._residual[m] -= demand
                self.machine[r] = m
        return np.concatenate(back)
