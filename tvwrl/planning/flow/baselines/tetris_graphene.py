"""Tetris and Graphene: packing by alignment that ignores constraints, with a few reschedulings where one is broken."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tvwrl.checks import at_least
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import NOWHERE, PlanningProblem
from tvwrl.types import Float, Int

NO_ROOM = "no machine has room left for a replica of it"


@dataclass(frozen=True)
class Tetris:
    """Places large demands first, each replica where it aligns best (Grandl et al. 2014, without durations).

    Ignores constraints (Section 4.2). A replica that breaks one is rescheduled at most `reschedules` times, and then
    stays where it aligned best.
    """

    reschedules: int = 1

    def __post_init__(self) -> None:
        at_least(0, reschedules=self.reschedules)

    @property
    def name(self) -> str:
        """Its name in Figure 10."""
        return f"{type(self).__name__}.{self.reschedules}"

    def order(self, problem: PlanningProblem) -> Int:
        """(R,) replicas by decreasing demand, those of an application next to each other."""
        order: Int = np.argsort(-size_of(problem)[problem.application], kind="stable")
        return order

    def __call__(self, problem: PlanningProblem) -> Plan:
        """Place all replicas for which there is room."""
        _compile()
        begun = time.process_time()
        machine, moves = self._place(problem)
        seconds = time.process_time() - begun
        left = np.unique(problem.application[machine == NOWHERE]).tolist()
        facts = {"reasons": dict.fromkeys(left, NO_ROOM), "migrations": moves}
        return Plan.of_replicas(self.name, problem.application, machine, seconds, **facts)

    def _place(self, problem: PlanningProblem) -> tuple[Int, int]:
        """(R,) machines, and the number of reschedulings."""
        from tvwrl.packing import Applications, needed
        from tvwrl.planning.flow.baselines.alignment_kernels import place_aligned

        instance, times = problem.instance, problem.instance.demand.shape[1]
        demand = np.ascontiguousarray(instance.demand.reshape(len(instance), -1))
        capacity = np.ascontiguousarray(np.tile(problem.fleet.capacity, times))
        a = instance.affinity
        limits = (a.own, a.start, a.to, a.limit, a.into_start, a.into, a.into_limit)
        apps = Applications(demand, needed(demand, capacity), instance.replicas, *limits)
        order, copies = self.order(problem), copy_of(problem)
        machine, moves = place_aligned(apps, order, problem.application, copies, capacity, self.reschedules)
        return machine, int(moves)


@lru_cache(maxsize=1)
def _compile() -> None:
    """Compile the kernels, or load them from the cache, so that measured seconds are those of placing."""
    from tvwrl.planning.sources.generated_cluster import generate_cluster

    Tetris()._place(generate_cluster(23, 62, demand=0.3))


@dataclass(frozen=True)
class Graphene(Tetris):
    """Tetris with a subset of troublesome replicas placed first (Grandl et al. 2016).

    Paper: does not say which. Here: replicas with a constraint, or larger than `large` of a mean machine in a resource.
    """

    large: float = 0.5

    def order(self, problem: PlanningProblem) -> Int:
        """(R,) troublesome replicas first, both parts by decreasing demand."""
        instance = problem.instance
        troublesome = (instance.peak / problem.fleet.capacity.mean(axis=0)).max(axis=1) > self.large
        troublesome |= np.diff(instance.affinity.start) + np.diff(instance.affinity.into_start) > 0
        troublesome[problem.bundles.member] = True
        order: Int = np.lexsort((-size_of(problem)[problem.application], ~troublesome[problem.application]))
        return order


def size_of(problem: PlanningProblem) -> Float:
    """(A,) demand of a replica as a share of a mean machine, summed over resources."""
    size: Float = (problem.instance.peak / problem.fleet.capacity.mean(axis=0)).sum(axis=1)
    return size


def copy_of(problem: PlanningProblem) -> Int:
    """(R,) number of the bundle copy that each replica belongs to, counted over all bundles, or NOWHERE."""
    bundles, replicas = problem.bundles, problem.instance.replicas
    copy = np.full(len(problem.application), NOWHERE)
    copies = replicas[bundles.member[bundles.start[:-1]]] // bundles.count[bundles.start[:-1]]
    begin = np.concatenate([[0], np.cumsum(copies)])
    for row, i in enumerate(bundles.member.tolist()):
        own = np.arange(replicas[i]) // bundles.count[row]
        copy[problem.first[i] : problem.first[i + 1]] = begin[bundles.owner[row]] + own
    return copy
