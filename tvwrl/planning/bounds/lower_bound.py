"""Lower bounds on the number of machines that a plan of all replicas needs, and on their cost.

Each bound holds by itself; the largest counts. Those of number replace different machines by one with the largest
capacity of every resource.

- `volume`: total demand in each resource at each time, Eq. 4 of the provisioning paper; where machines are of several
  kinds, the linear programme of `mixed.by_volume`;
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
from dataclasses import dataclass, replace

import numpy as np

from tvwrl.checks import at_least
from tvwrl.packing import up
from tvwrl.planning.bounds import mixed
from tvwrl.planning.bounds.counting import by_self_limits, by_sizes, by_volume
from tvwrl.planning.bounds.exclusion import by_exclusion
from tvwrl.planning.bounds.patterns import by_patterns
from tvwrl.planning.instance import Fleet
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.words import counted
from tvwrl.types import InputError


@dataclass(frozen=True)
class PlanBound:
    """The largest of several bounds, and each of them."""

    machines: int  # no plan of all replicas uses fewer
    cost: float  # nor machines that cost less in all: `machines`, unless the fleet says what they cost
    each: dict[str, int]  # on machines, by name, see the module; `patterns` is missing where it does not apply
    unfinished: tuple[str, ...] = ()  # those of `each` that time was too short for: they may be too low


def lower_bound(problem: PlanningProblem, seconds: float = 0.0, deadline: float = math.inf) -> PlanBound:
    """Machines, and their cost, that any plan of all replicas of `problem` needs.

    `seconds` >= 0 for the linear programme over fillings; 0 leaves it out. After `deadline`, a reading of
    time.monotonic(), bounds that take long are left out, and `unfinished` says so. Raises InputError if no plan places
    all replicas, for the first reason that is found.
    """
    at_least(0, seconds=seconds)
    merged = problem.merged
    merged.check_all_fit()
    instance, fleet, alike = merged.instance, merged.fleet, replace(merged.fleet, cost=None)
    kinds, cut = Kinds.among(fleet), list[str]()

    def volume(of: Fleet) -> float:
        value, whole = mixed.by_volume(instance, of, deadline)
        cut.extend([] if whole or "volume" in cut else ["volume"])
        return value

    one = len(Kinds.among(alike)) == 1
    each = {"volume": by_volume(instance, fleet) if one else up(volume(alike))}
    if fleet.fixed and one and each["volume"] > len(fleet.capacity):
        raise InputError(mixed.TOO_MUCH)
    each["sizes"], whole = by_sizes(instance, fleet, max(each.values()), deadline)
    cut += [] if whole else ["sizes"]
    each["self_limits"] = by_self_limits(instance, fleet)
    each["exclusion"], apart, whole = by_exclusion(instance, fleet, deadline)
    cut += [] if whole else ["exclusion"]
    patterns = by_patterns(instance, fleet, apart, seconds) if seconds else None
    if patterns is not None:
        each["patterns"] = patterns
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
    least = f"uses fewer than {counted(bound.machines, 'machine')}"
    if problem.fleet.cost is not None:
        least = f"costs less than {bound.cost:,.6g}, or {least}"
    cut = f" (not finished in time: {', '.join(bound.unfinished)})" if bound.unfinished else ""
    return f"no plan that places all replicas without a violation {least}{cut}"
