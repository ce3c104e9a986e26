"""Tetris and Graphene: packing by alignment that ignores constraints, with a few reschedulings where one is broken."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tvwrl.checks import at_least
from tvwrl.compiled import inner, njit
from tvwrl.names import whole
from tvwrl.packing import UNLIMITED, Applications, clear_limits, has_room, lacks, set_limits
from tvwrl.planning.base import BASELINE, UNCONSTRAINED, Options, register
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import NOWHERE, PlanningProblem
from tvwrl.types import Float, Int, Int32

NOBODY = -1  # end of a chain; no machine; no copy


class State(NamedTuple):
    """The replicas on each machine, as a chain that starts at `head[m]` and continues with `following[r]`."""

    application: Int  # (R,) int64 application of each replica
    residual: Float  # (M, K) float64
    head: Int  # (M,) int64 last replica placed on the machine, or NOBODY
    following: Int  # (R,) int64 next replica on the same machine, or NOBODY
    allows: Int32  # (A,) int32, scratch: a_ki for the current application i; UNLIMITED otherwise
    bears: Int32  # (A,) int32, scratch: a_ik, likewise
    count: Int32  # type: ignore[assignment]  # (A,) int32, scratch: zeros


@inner
def most_aligned(demand: Float, capacity: Float, residual: Float, best: Int, score: Float) -> None:
    """Write the n machines where `demand` (K,) fits and aligns best to `best` (n,), filled up with NOBODY.

    Alignment (Grandl et al. 2014) is the inner product of demand and residual, both as shares of the machine's
    capacity. Ties go to the first machine. `score` (n,) is scratch.
    """
    best[:], score[:] = NOBODY, -1.0
    last = len(best) - 1
    for m in range(len(capacity)):
        aligned = 0.0
        for k in range(len(demand)):
            if lacks(demand[k], residual[m, k], capacity[m, k]):
                aligned = -1.0
                break
            aligned += demand[k] / capacity[m, k] * (residual[m, k] / capacity[m, k])
        if aligned <= score[last]:
            continue
        place = last
        while place > 0 and score[place - 1] < aligned:
            best[place], score[place] = best[place - 1], score[place - 1]
            place -= 1
        best[place], score[place] = m, aligned


@inner
def breaks_limit(state: State, i: int, m: int) -> bool:
    """Whether one more replica of i on machine m exceeds a limit of i or of an application there."""
    application, following, count = state.application, state.following, state.count
    r = state.head[m]
    while r != NOBODY:
        count[application[r]] += 1
        r = following[r]
    more, broken, r = count[i] + 1, False, state.head[m]
    while r != NOBODY:
        other = application[r]
        if more > state.allows[other] or (other != i and count[other] > state.bears[other]):
            broken = True
        r = following[r]
    r = state.head[m]
    while r != NOBODY:
        count[application[r]] = 0
        r = following[r]
    return broken


@inner
def _first_allowed(apps: Applications, state: State, i: int, best: Int, mate: int) -> tuple[int, int]:
    """The first machine that breaks no constraint of i, or NOBODY, and the number of reschedulings up to there.

    Tries the machine `best[0]`; then `mate`, where the rest of the bundle copy is, if there is one with room; then the
    other machines of `best` (tries + 1,).
    """
    moves = 0
    for turn in range(len(best)):
        m = best[turn]
        if turn and mate != NOBODY:
            m = best[turn - 1]
            if turn == 1 and has_room(apps.needed, i, state.residual, mate):
                m = mate
        if m == NOBODY:
            break
        moves += turn > 0
        if (mate == NOBODY or m == mate) and not breaks_limit(state, i, m):
            return m, moves
    return NOBODY, moves


@njit
def place_aligned(
    apps: Applications, order: Int, application: Int, copy: Int, capacity: Float, tries: int
) -> tuple[Int, int]:
    """Place every replica where it aligns best; reschedule one that breaks a constraint at most `tries` times.

    A replica for which no machine in these tries breaks no constraint stays where it aligns best.
    order: (R,) replicas in the order of placement
    application: (R,) application of each replica
    copy: (R,) bundle copy of each replica, or NOBODY
    capacity: (M, K)
    Returns (R,) machines, NOBODY for a replica without room, and the number of reschedulings.
    """
    replicas, applications = len(application), len(apps.demand)
    limits = np.full((2, applications), UNLIMITED, np.int32)
    chains = np.full(len(capacity), NOBODY, np.int64), np.full(replicas, NOBODY, np.int64)
    count = np.zeros(applications, np.int32)
    state = State(application, capacity.copy(), chains[0], chains[1], limits[0], limits[1], count)
    machine = np.full(replicas, NOBODY, np.int64)
    mates = np.full(max(1, copy.max() + 1), NOBODY, np.int64)  # machine of the first replica of each copy
    best, score, current, moves = np.empty(tries + 1, np.int64), np.empty(tries + 1), NOBODY, 0
    for r in order:
        i = application[r]
        if i != current:
            if current != NOBODY:
                clear_limits(apps, state, current)
            set_limits(apps, state, i)
            current = i
        most_aligned(apps.demand[i], capacity, state.residual, best, score)
        if best[0] == NOBODY:
            continue
        mate = mates[copy[r]] if copy[r] != NOBODY else NOBODY
        m, more = _first_allowed(apps, state, i, best, mate)
        moves += more
        if m == NOBODY:
            m = best[0]
        if copy[r] != NOBODY and mate == NOBODY:
            mates[copy[r]] = m
        machine[r], state.following[r], state.head[m] = m, state.head[m], r
        for k in range(apps.demand.shape[1]):
            state.residual[m, k] -= apps.demand[i, k]
    return machine, moves


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

    def order(self, problem: PlanningProblem) -> Int:
        """(R,) replicas by decreasing demand, those of an application next to each other."""
        order: Int = np.argsort(-size_of(problem)[problem.application], kind="stable")
        return order

    def __call__(self, problem: PlanningProblem, options: Options | None = None) -> Plan:
        """Place all replicas for which there is room."""
        _compile()
        begun = time.process_time()
        machine, moves = self._place(problem)
        seconds = time.process_time() - begun
        left = np.unique(problem.application[machine == NOWHERE]).tolist()
        facts = {"reasons": dict.fromkeys(left, NO_ROOM), "migrations": moves}
        return Plan.of_replicas(type(self).__name__, problem.application, machine, seconds, **facts)

    def _place(self, problem: PlanningProblem) -> tuple[Int, int]:
        """(R,) machines, and the number of reschedulings."""
        from tvwrl.packing import Applications, needed

        instance, times = problem.instance, problem.instance.demand.shape[1]
        demand = np.ascontiguousarray(instance.demand.reshape(len(instance), -1))
        capacity = np.ascontiguousarray(np.tile(problem.fleet.capacity, times))
        a = instance.affinity
        limits = (a.own, a.start, a.to, a.limit, a.into_start, a.into, a.into_limit)
        replicas = instance.replicas.astype(np.int32)
        apps = Applications(demand, needed(demand, capacity), replicas, *limits)
        order, copies = self.order(problem), copy_of(problem)
        machine, moves = place_aligned(apps, order, problem.application, copies, capacity, self.reschedules)
        return machine, int(moves)


@lru_cache(maxsize=1)
def _compile() -> None:
    """Compile the kernels, or load them from the cache, so that measured seconds are those of placing."""
    from tvwrl.planning.sources.generated import generate_cluster

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


for _made, _source in ((Tetris, "Grandl et al. 2014"), (Graphene, "Grandl et al. 2016")):
    register(
        f"{_made.__name__}.{{reschedules}}",
        f"{_made.__name__}, {{reschedules}}",
        UNCONSTRAINED,
        BASELINE,
        _source,
        _made,
        reschedules=whole("rescheduling", 1, 4, least=0),
    )
