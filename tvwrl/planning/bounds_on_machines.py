"""Lower bounds on the number of machines that a plan of all replicas needs, and on their cost.

Each bound holds by itself; the largest counts. Those of number replace different machines by one with the largest
capacity of every resource.

- `volume`: total demand in each resource at each time, Eq. 4 of the provisioning paper; where machines are of several
  kinds, the linear programme of `cheapest_by_volume`;
- `sizes`: dual feasible functions of the sizes, in each resource at each time: large replicas leave room that nothing
  fills (Martello and Toth 1990; Fekete and Schepers 2001);
- `self_limits`: an application alone, with no more replicas on a machine than fit and its self limit allows;
- `exclusion`: applications of which no two share a machine (an affinity limit of 0, or one replica of each is too much)
  need machines of their own, each as many as it needs alone;
- `patterns`: given time, the linear programme over all fillings of a machine (Gilmore and Gomory 1961) in which at most
  one of these applications occurs.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.checks import at_least
from tvwrl.compiled import njit
from tvwrl.packing import machines_that_hold, up
from tvwrl.planning.instance import Fleet, Instance, counted
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.problem import PlanningProblem
from tvwrl.types import Float, InputError, Int

FUNCTIONS = 12  # dual feasible functions u^(k) per resource and time


def largest(fleet: Fleet) -> Float:
    """(D,) the largest capacity of each resource, enlarged by the tolerance of fits."""
    from tvwrl.packing import enlarged

    return enlarged(fleet.capacity.max(axis=0))


def most_per_machine(instance: Instance, fleet: Fleet) -> Int:
    """(A,) most replicas of each application on one machine: by room, self limit and number (Eq. 1, with floors)."""
    with np.errstate(divide="ignore"):
        room = np.floor(largest(fleet) / instance.peak).min(axis=1)
    limits = np.minimum(instance.affinity.own, instance.replicas)
    most: Int = np.minimum(room, limits).astype(np.int64)
    return most


def machines_if_alone(instance: Instance, fleet: Fleet) -> Int:
    """(A,) fewest machines that each application would need if there were no others."""
    machines: Int = -(-instance.replicas // most_per_machine(instance, fleet))
    return machines


def by_volume(instance: Instance, fleet: Fleet) -> int:
    """Eq. 4 at every time, with different machines counted in the order in which they are opened."""
    columns = zip(instance.total.max(axis=0), fleet.capacity.T, strict=True)
    return max(1, *(machines_that_hold(peak, capacity, -1) for peak, capacity in columns))


def by_sizes(instance: Instance, fleet: Fleet, least: int = 1, deadline: float = math.inf) -> tuple[int, bool]:
    """Dual feasible functions; resources and times that cannot exceed `least` are skipped.

    The second value says whether all were tried before `deadline`, a reading of time.monotonic().
    """
    from tvwrl.packing import fewest_bins

    capacity, count = largest(fleet), instance.replicas
    best = float(least)
    for d in range(len(capacity)):
        for h in range(instance.demand.shape[1]):
            if time.monotonic() > deadline:
                return up(best), False
            share = instance.demand[:, h, d] / capacity[d]
            if not count[share > 0.5].any() or count @ np.where(share > 0.5, 1.0, share) <= best:
                pass  # without large replicas `fewest_bins` gives no more than the volume
            else:
                order = np.argsort(share)
                best = max(best, fewest_bins(np.repeat(share[order], count[order])))
            for k in range(1, FUNCTIONS + 1):
                # u^(k) of Fekete and Schepers (2001): no k + 1 shares above 1 / (k + 1) fit a machine. A share within
                # rounding of a multiple of 1 / (k + 1) counts as that multiple.
                times = share * (k + 1)
                near = np.abs(times - np.rint(times)) < 1e-9
                best = max(best, float(count @ np.where(near, share, np.floor(times) / k)))
    return up(best), True


SEEDS = 50  # cliques that are grown, from the applications that need most machines
NUMBERS = 20_000_000  # most demand values compared at once


def by_exclusion(instance: Instance, fleet: Fleet, deadline: float = math.inf) -> tuple[int, Int, bool]:
    """Machines that the heaviest clique found needs, its members, and whether all seeds were tried before `deadline`.

    Cliques are grown greedily: to each seed the application that needs most machines and conflicts with all members.
    """
    weight = machines_if_alone(instance, fleet)
    heaviest = np.argsort(-weight, kind="stable")
    conflicts = _Conflicts(instance, fleet)
    best, apart = 0, heaviest[:1]
    for number, seed in enumerate(heaviest[:SEEDS]):
        if number and time.monotonic() > deadline:
            return best, apart, False
        members, rest = [seed], heaviest[conflicts.among(seed, heaviest)]
        while len(rest):
            members.append(rest[0])
            rest = rest[1:][conflicts.among(rest[0], rest[1:])]
        if (total := int(weight[members].sum())) > best:
            best, apart = total, np.array(members)
    return best, apart, True


class _Conflicts:
    """Which applications cannot share a machine."""

    def __init__(self, instance: Instance, fleet: Fleet) -> None:
        self._affinity = instance.affinity
        self._share: Float = instance.demand / largest(fleet)
        self._peak: Float = self._share.max(axis=1)
        self._step = max(1, NUMBERS // self._share[0].size)

    def among(self, i: int, others: Int) -> npt.NDArray[np.bool_]:
        """(n,) which of `others` conflict with i; i itself does not."""
        excluded = np.zeros(len(self._share), np.bool_)
        a = self._affinity
        for start, ends, limits in ((a.start, a.to, a.limit), (a.into_start, a.into, a.into_limit)):
            row = slice(start[i], start[i + 1])
            excluded[ends[row][limits[row] == 0]] = True
        found = excluded[others]
        open_ = np.flatnonzero(~found & ((self._peak[others] + self._peak[i]) > 1).any(axis=1))
        for begin in range(0, len(open_), self._step):
            some = open_[begin : begin + self._step]
            found[some] = ((self._share[others[some]] + self._share[i]) > 1).any(axis=(1, 2))
        result: npt.NDArray[np.bool_] = found & (others != i)
        return result


TOO_MUCH = "not all replicas can be placed: together they demand more than the machines that may hold them have"
LARGEST = 2_000_000  # coefficients of the linear programme; beyond them, all replicas count as one volume


def cheapest_by_volume(instance: Instance, fleet: Fleet, deadline: float = math.inf) -> tuple[float, bool]:
    """Least cost of machines for the volume of all replicas, each on machines of kinds that it fits.

    min sum_t c_t y_t subject to sum_v d_v x_vt <= C_t y_t, sum_t x_vt = n_v, 0 <= y_t <= count_t. x_vt exists only if a
    copy of v fits an empty machine of kind t; applications with equal demand are one. If that takes until `deadline`, a
    reading of time.monotonic(), all replicas count as one volume; the second value says whether they do not. Raises
    InputError if there is no solution.
    """
    from tvwrl.packing import enlarged

    kinds, unit = Kinds.among(fleet), float(fleet.costs.min())
    kinds = replace(kinds, cost=kinds.cost / unit)  # the solver's tolerances are absolute
    rows, which = np.unique(instance.demand.reshape(len(instance), -1), axis=0, return_inverse=True)
    copies: Any = np.bincount(which.ravel(), weights=instance.replicas, minlength=len(rows))
    room = np.tile(enlarged(kinds.capacity), instance.demand.shape[1])  # (T, K)
    fitting: Any = (rows[:, None] <= room[None]).all(axis=2)
    if fitting.sum() * room.shape[1] <= LARGEST:
        found = _solve(rows, copies, fitting, room, kinds, deadline - time.monotonic())
        if found is not None:
            return found * unit, True
    whole = _solve((copies @ rows)[None], np.ones(1), np.ones((1, len(room)), dtype=bool), room, kinds, math.inf)
    if whole is None:
        return 0.0, False
    return whole * unit, fitting.sum() * room.shape[1] > LARGEST


def _solve(sizes: Float, copies: Float, fitting: Any, room: Float, kinds: Kinds, seconds: float) -> float | None:
    """The value of the linear programme; None if `seconds` were not enough."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    v, t = np.nonzero(fitting)
    x, dimensions, count = np.arange(len(v)), room.shape[1], len(room)
    rows: list[Int] = [t * dimensions + k for k in range(dimensions)]
    loads = np.concatenate([*(sizes[v, k] for k in range(dimensions)), -room.ravel()])
    places = np.concatenate([*rows, np.arange(count * dimensions)])
    columns = np.concatenate([*[x] * dimensions, len(v) + np.repeat(np.arange(count), dimensions)])
    width = len(v) + count
    found = linprog(
        np.concatenate([np.zeros(len(v)), kinds.cost]),
        A_ub=coo_array((loads, (places, columns)), shape=(count * dimensions, width)).tocsr(),
        b_ub=np.zeros(count * dimensions),
        A_eq=coo_array((np.ones(len(v)), (v, x)), shape=(len(sizes), width)).tocsr(),
        b_eq=copies,
        bounds=[(0, None)] * len(v) + [(0, None if np.isinf(n) else n) for n in kinds.most],
        method="highs",
        options={"time_limit": max(seconds, 0.05)} if math.isfinite(seconds) else {},
    )
    if found.status == 2:
        raise InputError(TOO_MUCH)
    if not found.success:  # out of time, or numbers too far apart for the solver
        return None
    return float(found.fun)


@njit
def best_pattern(value: Float, size: Int, start: Int, room: Int) -> tuple[float, Int]:
    """Largest total value of options that fit `room` (2,), at most one of each group, and (n,) options that reach it.

    Options of group g are `start[g] .. start[g + 1] - 1`, with `value` (O,) and `size` (O, 2), whole units >= 0.
    """
    groups, wide, high = len(start) - 1, room[0] + 1, room[1] + 1
    best = np.zeros((wide, high))
    before = np.zeros((wide, high))
    choice = np.full((groups, wide, high), -1, np.int32)
    for g in range(groups):
        before[:] = best
        for option in range(start[g], start[g + 1]):
            a, b, worth = size[option, 0], size[option, 1], value[option]
            if worth <= 0:
                continue
            for x in range(a, wide):
                for y in range(b, high):
                    reached = before[x - a, y - b] + worth
                    if reached > best[x, y]:
                        best[x, y], choice[g, x, y] = reached, option
    x, y, taken = room[0], room[1], np.zeros(groups, np.int64)
    count = 0
    for back in range(groups):
        option = choice[groups - 1 - back, x, y]
        if option >= 0:
            taken[count] = option
            count += 1
            x -= size[option, 0]
            y -= size[option, 1]
    return best[room[0], room[1]], taken[:count]


SMALL = 1e-7  # machines by which bounds differ at least
CELLS = 60_000_000  # of the tables of the dynamic programme
STILL = 40  # steps without a better bound after which the duals are no longer smoothed
SMOOTH = 0.8  # share of the best duals so far in the next ones (Wentges 1997)


@dataclass(frozen=True)
class _Options:
    """What a machine may hold: so many replicas of a kind, at most one option of each group."""

    replicas: Float  # (K,) of each kind
    value: Float  # (K,) duals to begin with: what shares of a machine a replica takes, in the scarcest resource
    kind: Int  # (O,)
    count: Int  # (O,) replicas of the kind
    size: Int  # (O, 2)
    start: Int  # (G + 1,) options of each group
    room: Int  # (2,)


def _options(instance: Instance, fleet: Fleet, apart: Int) -> _Options | None:
    """None where sizes are not whole numbers of at most two resources, or tables would be too large.

    `apart` (n,): applications of which no two can share a machine.
    """
    times, resources = instance.demand.shape[1:]
    size = instance.demand[:, 0]
    if times > 1 or resources > 2 or (size != np.rint(size)).any():
        return None
    size = np.concatenate([size, np.zeros((len(size), 2 - resources))], axis=1).astype(np.int64)
    room = np.zeros(2, np.int64)
    room[:resources] = np.floor(largest(fleet))
    inside = np.isin(np.arange(len(size)), apart) & size.any(axis=1)
    outside = np.flatnonzero(~inside & size.any(axis=1))
    kinds, of = np.unique(size[outside], axis=0, return_inverse=True)
    most = most_per_machine(instance, fleet)
    with np.errstate(divide="ignore", invalid="ignore"):
        fit = np.where(kinds > 0, room // kinds, room.max() + 1).min(axis=1)
    together = np.bincount(of, weights=most[outside], minlength=len(kinds))
    alone = np.flatnonzero(inside)
    if (room + 1).prod() * (len(kinds) + 1) > CELLS:
        return None
    each = np.concatenate([np.minimum(fit, together).astype(np.int64), most[alone]])
    unit = np.concatenate([kinds, size[alone]])
    kind = np.repeat(np.arange(len(each)), each)
    count = np.arange(len(kind)) - np.repeat(np.cumsum(each) - each, each) + 1
    begin = np.concatenate([[0], np.cumsum(each[: len(kinds)])])
    start = np.append(begin, len(kind)) if len(alone) else begin
    replicas = np.concatenate(
        [np.bincount(of, weights=instance.replicas[outside], minlength=len(kinds)), instance.replicas[alone]]
    )
    share = unit / np.maximum(room, 1)
    scarcest = int(np.argmax(replicas @ share))
    return _Options(replicas, share[:, scarcest], kind, count, unit[kind] * count[:, None], start, room)


def _bound(options: _Options, seconds: float) -> float:
    """Column generation until the time has passed or the programme is solved; its best bound.

    The clock starts after the first filling, whose kernel may have to be compiled.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csc_array

    if not len(options.kind):
        return 1.0
    alone = np.zeros((len(options.replicas),) * 2)  # each kind alone, as many as a machine may hold:
    alone[options.kind, options.kind] = options.count  # the last, the largest, stays
    columns = list(alone)
    best, best_duals, duals, still = 0.0, options.value, options.value, 0
    until = math.inf
    while True:
        worth, taken = best_pattern(duals[options.kind] * options.count, options.size, options.start, options.room)
        bound = float(options.replicas @ duals) / worth
        still = 0 if bound > best + SMALL else still + 1
        if bound > best:
            best, best_duals = bound, duals / worth
        column = np.zeros(len(options.replicas))
        np.add.at(column, options.kind[taken], options.count[taken])
        columns.append(column)
        now = time.monotonic()
        until = min(until, now + seconds)
        if now >= until:
            return best
        covered = csc_array(np.array(columns).T)
        found = linprog(np.ones(len(columns)), A_ub=-covered, b_ub=-options.replicas, method="highs")
        total, exact = (
            float(found.fun),
            np.maximum(-found.ineqlin.marginals, 0.0),
        )  # fewest machines, worth of each kind
        if total <= best + SMALL or up(total) <= up(best):
            return best
        smooth = SMOOTH if still < STILL else 0.0
        duals = smooth * best_duals + (1 - smooth) * exact


@dataclass(frozen=True)
class PlanBound:
    """The largest of several bounds, and each of them."""

    machines: int  # no plan of all replicas uses fewer
    cost: float  # nor machines that cost less in all: `machines`, unless the fleet says what they cost
    each: dict[str, int]  # on machines, by name, see the module; `patterns` is missing where it does not apply
    unfinished: tuple[str, ...] = ()  # those of `each` that time was too short for: they may be too low


def lower_bound(problem: PlanningProblem, seconds: float = 0.0, deadline: float = math.inf) -> PlanBound:
    """Machines, and their cost, that any plan of all replicas of a problem needs.

    Parameters
    ----------
    problem : PlanningProblem
        Applications and machines.
    seconds : float
        Of the linear programme over fillings, >= 0; 0 leaves it out.
    deadline : float
        Reading of `time.monotonic()` after which bounds that take long are left out; `unfinished` names these.

    Returns
    -------
    PlanBound
        The largest of several bounds (see the module), and each of them.

    Raises
    ------
    InputError
        No plan places all replicas, with the first reason that is found.

    Examples
    --------
    >>> from tvwrl.planning import Affinity, Fleet, Instance
    >>> names, demand = np.array(["web"], dtype=object), np.full((1, 1, 1), 2.0)
    >>> web = Instance("mine", names, np.array([5]), demand, ("cpu",), Affinity.of(1))
    >>> lower_bound(PlanningProblem(web, Fleet.of([4.0]))).machines
    3
    """
    at_least(0, seconds=seconds)
    merged = problem.merged
    merged.check_all_fit()
    instance, fleet, alike = merged.instance, merged.fleet, replace(merged.fleet, cost=None)
    kinds, cut = Kinds.among(fleet), list[str]()

    def volume(of: Fleet) -> float:
        value, whole = cheapest_by_volume(instance, of, deadline)
        cut.extend([] if whole or "volume" in cut else ["volume"])
        return value

    one = len(Kinds.among(alike)) == 1
    each = {"volume": by_volume(instance, fleet) if one else up(volume(alike))}
    if fleet.fixed and one and each["volume"] > len(fleet.capacity):
        raise InputError(TOO_MUCH)
    each["sizes"], whole = by_sizes(instance, fleet, max(each.values()), deadline)
    cut += [] if whole else ["sizes"]
    each["self_limits"] = int(machines_if_alone(instance, fleet).max())
    each["exclusion"], apart, whole = by_exclusion(instance, fleet, deadline)
    cut += [] if whole else ["exclusion"]
    if seconds and (options := _options(instance, fleet, apart)) is not None:
        each["patterns"] = up(_bound(options, seconds))
    machines = max(each.values())
    if fleet.cost is None:
        return PlanBound(machines, machines, each, tuple(cut))
    cost = max(_cheapest(kinds, machines), volume(fleet))
    return PlanBound(machines, up(cost) if (kinds.cost % 1 == 0).all() else cost, each, tuple(cut))


def _cheapest(kinds: Kinds, machines: int) -> float:
    """Cost of so many of the cheapest machines."""
    cost, left = 0.0, float(machines)
    for t in np.argsort(kinds.cost, kind="stable"):
        taken = min(left, kinds.most[t])
        cost, left = cost + taken * kinds.cost[t], left - taken
    return float(cost)


def bound_or_reason(
    problem: PlanningProblem, seconds: float = 0.0, deadline: float = math.inf
) -> tuple[PlanBound | None, str]:
    """The lower bound and a sentence on what it means; None and the reason if no plan places all replicas.

    `seconds`, `deadline`: see `lower_bound`
    """
    try:
        bound = lower_bound(problem, seconds, deadline)
    except InputError as error:
        return None, str(error)
    available = len(problem.fleet.capacity)
    if problem.fleet.fixed and bound.machines > available:
        return None, (
            "not all replicas can be placed: without a violation that takes at least "
            f"{counted(bound.machines, 'machine')}, and there {'is' if available == 1 else 'are'} {available:,}"
        )
    return bound, about(problem, bound)


def exceeds_fleet(problem: PlanningProblem, cost: float) -> bool:
    """Whether plans of all replicas would cost more than a fixed fleet does: then there are none.

    A bound may be that high because what proves it counts replicas without a machine as dear machines.
    """
    return problem.fleet.fixed and cost > float(problem.fleet.costs.sum())


def about(problem: PlanningProblem, bound: PlanBound) -> str:
    """What a bound says, in a sentence."""
    least = f"needs at least {counted(bound.machines, 'machine')}"
    if problem.fleet.cost is not None:
        least = f"costs at least {bound.cost:,.6g} and {least}"
    cut = f" (not finished in time: {', '.join(bound.unfinished)})" if bound.unfinished else ""
    return f"a plan that places all replicas without a violation {least}{cut}"
