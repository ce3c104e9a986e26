"""Instances with a drawn affinity graph, as in Table 5 of the provisioning paper: arbitrary, threshold and normal.

The laws of drawing are those of the paper's Section 5.1 and of the generators published with it; the numbers drawn are
other ones. Density is the number of arcs by that of ordered pairs of different applications.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tvwrl.checks import at_least, one_of, within
from tvwrl.planning.instance import Affinity, Instance, Int32
from tvwrl.types import InputError, Int

Graph = Callable[[int, float, np.random.Generator], tuple[Int, Int32]]  # (A + 1,) starts of rows, (E,) ends of arcs


def generate_instance(
    base: Instance, graph: str = "arbitrary", density: float = 0.01, applications: int | None = None, seed: int = 0
) -> Instance:
    """An instance like `base` with a drawn affinity graph.

    Limits are drawn from those of `base` between different applications; self limits are left out, as in the published
    instances.

    Args:
        base: gives demand, replicas and limits.
        graph: one of `GRAPHS`: arbitrary, threshold or normal.
        density: expected arcs by ordered pairs of different applications, 0 to 1.
        applications: how many, at least 2, each with the demand of one of `base` and, drawn independently, the replicas
            of one; by default the applications of `base`.
        seed: of all draws.

    Raises InputError for arguments out of range, and if `base` has no limits to draw from.

    >>> generate(base, "threshold", density=0.05, applications=20_000, seed=3)  # doctest: +SKIP
    """
    one_of(GRAPHS, graph=graph)
    within(0, 1, density=density)
    at_least(2, applications=applications)
    limits = base.affinity.limit[base.affinity.to != base.affinity.origin]
    if not len(limits) and density:
        raise InputError(f"instance '{base.name}' has no affinity limits to draw from")
    rng = np.random.default_rng(seed)
    if applications is not None:
        base = _more(base, applications, rng)
    start, to = GRAPHS[graph](len(base), density, rng)
    limit = limits[rng.integers(len(limits), size=len(to), dtype=np.int32)] if len(to) else np.empty(0, np.int32)
    name = f"{graph}_{len(base)}_d{100 * density:g}_s{seed}"
    return replace(base, name=name, affinity=Affinity.of_rows(start, to, limit))


def _more(base: Instance, applications: int, rng: np.random.Generator) -> Instance:
    """So many applications, named 1, 2, 3, ..., with demand and replicas drawn from those of `base`; no limits."""
    sizes, replicas = (rng.integers(len(base), size=applications) for _ in range(2))
    names = np.arange(1, applications + 1).astype(str).astype(object)
    return replace(
        base,
        application=names,
        replicas=base.replicas[replicas],
        demand=base.demand[sizes],
        affinity=Affinity.of(applications),
    )


def arbitrary(applications: int, density: float, rng: np.random.Generator) -> tuple[Int, Int32]:
    """Any set of that many ordered pairs, each as likely as the others (Sadykov and Vanderbeck 2013)."""
    others = applications - 1
    possible = applications * others  # pair i * others + n is of i and the nth application other than i
    arcs = int(density * possible)
    pairs = np.sort(rng.permutation(possible)[:arcs]) if 4 * arcs > possible else _distinct(arcs, possible, rng)
    start = np.searchsorted(pairs, np.arange(applications + 1) * others)
    to = np.empty(arcs, np.int32)
    for i in range(applications):  # row by row: no second array of 8 bytes per arc
        row = slice(start[i], start[i + 1])
        end = pairs[row] - i * others
        to[row] = end + (end >= i)
    return start.astype(np.int64), to


def _distinct(count: int, below: int, rng: np.random.Generator) -> Int:
    """(count,) different numbers of 0 .. below - 1, rising: some more are drawn, repeated and surplus ones dropped."""
    if not count:
        return np.empty(0, np.int64)
    draws = int(-below * math.log1p(-count / below) * 1.001) + 100
    while True:
        found = rng.integers(below, size=draws)
        found.sort()
        found = found[np.concatenate([[True], found[1:] != found[:-1]])]
        if len(found) >= count:
            return np.delete(found, rng.choice(len(found), len(found) - count, replace=False))
        draws += draws // 1000 + 100


def normal(applications: int, density: float, rng: np.random.Generator) -> tuple[Int, Int32]:
    """Out-degrees around density * A with half of that as standard deviation, ends drawn at random."""
    others, mean = applications - 1, density * applications
    degree = np.clip(np.rint(rng.normal(mean, mean / 2, applications)), 0, others).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(degree)])
    to = np.empty(start[-1], np.int32)
    for i in range(applications):
        end = rng.choice(others, degree[i], replace=False, shuffle=False)
        to[start[i] : start[i + 1]] = end + (end >= i)
    return start, to


def threshold(applications: int, density: float, rng: np.random.Generator) -> tuple[Int, Int32]:
    """Arcs i -> j where (out_i + in_j) / 2 <= t for uniform random numbers (Gendreau et al. 2004).

    t makes the expected density right (Bacci and Nicoloso 2017).
    """
    pairs = applications * (applications - 1)
    low = (1 + math.sqrt(1 + 8 * pairs * density)) / (4 * applications)
    high = 1 + (1 - math.sqrt(1 + 8 * pairs * (1 - density))) / (4 * applications)
    most = 2 * (low if density <= 0.5 else high)
    inward, outward = rng.random(applications), rng.random(applications)
    order = np.argsort(inward).astype(np.int32)
    reach = np.searchsorted(inward[order], most - outward, side="right")
    itself = inward <= most - outward  # it is among those that it reaches
    start = np.concatenate([[0], np.cumsum(reach - itself)])
    to = np.empty(start[-1], np.int32)
    for i in range(applications):
        end = order[: reach[i]]
        to[start[i] : start[i + 1]] = end[end != i] if itself[i] else end
    return start, to


GRAPHS: dict[str, Graph] = {"arbitrary": arbitrary, "threshold": threshold, "normal": normal}
