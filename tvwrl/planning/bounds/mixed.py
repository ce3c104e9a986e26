"""Lower bounds on the machines that a placement of all replicas needs, where machines are of many kinds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.planning.problem import PlacementProblem, Vertices
from tvwrl.packing.bounds import up
from tvwrl.planning.bounds.counting import by_self_limits
from tvwrl.planning.bounds.exclusion import by_exclusion
from tvwrl.types import Float, InputError, Int


@dataclass(frozen=True)
class AssignmentBound:
    """The largest of several bounds, and each of them."""

    machines: int  # no placement of all replicas without violations uses fewer
    each: dict[str, int]  # volume, self_limits, exclusion


def lower_bound(problem: PlacementProblem) -> AssignmentBound:
    """The number of machines that every placement of all replicas without violations needs at least.

    - volume: a linear programme that divides copies of applications (or affinity groups) among the kinds of machines
      that they fit, with no more machines of a kind than exist;
    - self_limits and exclusion: as in `planning.bounds.lower_bound`, for a machine with the largest capacity of
      each resource.

    Raises InputError if some replica fits no machine, or the machines are too few even for fractions.
    """
    vertices = Vertices.of(problem)
    if vertices.refused:
        v, why = next(iter(vertices.refused.items()))
        raise InputError(f"not all replicas can be placed: '{vertices.instance.application[v]}': {why}")
    each = {"volume": by_volume(vertices, problem.fleet.capacity)}
    each["self_limits"] = by_self_limits(vertices.instance, problem.fleet)
    each["exclusion"], _ = by_exclusion(vertices.instance, problem.fleet)
    return AssignmentBound(max(each.values()), each)


def bound_or_nan(problem: PlacementProblem) -> tuple[float, str]:
    """The lower bound and a sentence on what it means; NaN and the reason if no placement holds all replicas."""
    try:
        bound = lower_bound(problem).machines
    except InputError as error:
        return float("nan"), str(error)
    if bound > (available := len(problem.fleet.capacity)):
        return bound, (
            f"no placement holds all replicas without a violation: that takes at least {bound:,} machines, and there "
            f"are {available:,}"
        )
    return bound, f"no placement of all replicas without a violation uses fewer than {bound:,} machines"


def by_volume(vertices: Vertices, capacity: Float) -> int:
    """Solve min sum_t y_t subject to sum_v d_v x_vt <= C_t y_t, sum_t x_vt = n_v, 0 <= y_t <= count_t; rounded up.

    x_vt exists only if a copy of v fits an empty machine of kind t; vertices with equal demand are merged. Raises
    InputError if there is no solution.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    from tvwrl.packing.fit import enlarged

    kinds, machines = np.unique(capacity, axis=0, return_counts=True)
    sizes, which = np.unique(vertices.instance.demand.reshape(len(vertices.instance), -1), axis=0, return_inverse=True)
    copies = np.bincount(which.ravel(), weights=vertices.instance.replicas, minlength=len(sizes))
    times = vertices.instance.demand.shape[1]
    room = np.tile(enlarged(kinds), times)  # (T, K)
    v, t = np.nonzero((sizes[:, None] <= room[None]).all(axis=2))
    x, dimensions, count = np.arange(len(v)), room.shape[1], len(kinds)
    rows: list[Int] = [t * dimensions + k for k in range(dimensions)]
    loads = np.concatenate([*(sizes[v, k] for k in range(dimensions)), -room.ravel()])
    places = np.concatenate([*rows, np.arange(count * dimensions)])
    columns = np.concatenate([*[x] * dimensions, len(v) + np.repeat(np.arange(count), dimensions)])
    width = len(v) + count
    found = linprog(
        np.concatenate([np.zeros(len(v)), np.ones(count)]),
        A_ub=coo_array((loads, (places, columns)), shape=(count * dimensions, width)).tocsr(),
        b_ub=np.zeros(count * dimensions),
        A_eq=coo_array((np.ones(len(v)), (v, x)), shape=(len(sizes), width)).tocsr(),
        b_eq=copies,
        bounds=[(0, None)] * len(v) + [(0, int(n)) for n in machines],
        method="highs",
    )
    if found.status == 2:
        raise InputError("not all replicas can be placed: together they demand more than the machines have")
    if not found.success:
        raise RuntimeError(f"the linear programme of the bound ended with: {found.message}")
    return up(float(found.fun))
