"""A planning problem as planners see it: without groups and blacklists, which become applications and resources."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tvwrl.planning.instance import Affinity, Fleet, Instance
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.types import InputError, Int

BLACKLIST = "blacklist"  # begins the names of the resources that stand for one


@dataclass(frozen=True, eq=False)
class Merged:
    """A problem without bundles and blacklists: each bundle is one application, a *vertex*, whose replicas are copies.

    These are the task vertices and virtual vertices V_j of Figure 9 (a). For a bundle with n replicas of an
    application, a limit of k of these is one of k // n copies. A blacklist is a resource that only other machines have.
    """

    instance: Instance  # V vertices; their replicas are copies
    vertex: Int  # (A,) vertex of each application
    count: Int  # (A,) replicas of each application in a copy of its vertex
    refused: dict[int, str]  # vertices that no machine can hold -> the reason
    fleet: Fleet

    @classmethod
    def of(cls, problem: PlanningProblem) -> Merged:
        """Merge bundles; those that contradict themselves or exceed every machine are refused."""
        instance, bundles = problem.instance, problem.bundles
        vertex, count = np.full(len(instance), -1), np.ones(len(instance), dtype=np.int64)
        count[bundles.member] = bundles.count
        vertex[bundles.member] = bundles.owner
        alone = np.flatnonzero(vertex < 0)
        vertex[alone] = len(bundles) + np.arange(len(alone))
        vertices = len(bundles) + len(alone)
        demand = np.zeros((vertices, *instance.demand.shape[1:]))
        np.add.at(demand, vertex, count[:, None, None] * instance.demand)
        replicas = np.zeros(vertices, dtype=np.int64)
        replicas[vertex] = instance.replicas // count
        names = np.array(["" for _ in range(vertices)], dtype=object)
        for i, v in enumerate(vertex.tolist()):
            names[v] = f"{names[v]} + {instance.application[i]}" if names[v] else str(instance.application[i])
        affinity, refused = _merged_limits(instance, vertex, count, vertices)
        merged = Instance(instance.name, names, replicas, demand, instance.resources, affinity)
        merged, fleet = _barred_by_resources(merged, problem.fleet, vertex, problem.barred)
        refused |= _too_large(merged, fleet, problem.fleet, len(bundles))
        return cls(merged, vertex, count, refused, fleet)

    def expand(self, vertex: Int, machine: Int, copies: Int) -> tuple[Int, Int, Int]:
        """Applications, machines and replicas there, from those of vertices: each (R,) to (S,)."""
        order = np.argsort(self.vertex, kind="stable")
        start = np.searchsorted(self.vertex[order], np.arange(len(self.instance) + 1))
        members = (start[1:] - start[:-1])[vertex]
        row = np.repeat(np.arange(len(vertex)), members)
        turn = np.arange(len(row)) - np.repeat(np.cumsum(members) - members, members)
        application: Int = order[start[vertex[row]] + turn]
        return application, machine[row], copies[row] * self.count[application]

    def check_all_fit(self) -> None:
        """Raise InputError, with the reason, if a vertex is refused."""
        for v, why in self.refused.items():
            raise InputError(f"not all replicas can be placed: '{self.instance.application[v]}': {why}")

    @cached_property
    def kept(self) -> Int:
        """(n,) vertices that are not refused."""
        return np.setdiff1d(np.arange(len(self.instance)), np.fromiter(self.refused, dtype=np.int64))

    @cached_property
    def packing_problem(self) -> PackingProblem:
        """The vertices that are not refused, by their place in `kept`, and the fleet, for the packing core."""
        return PackingProblem(self.instance.only(self.kept) if self.refused else self.instance, self.fleet)

    def plan(self, algorithm: str, rows: tuple[Int, Int, Int], seconds: float, tried: str, **more: Any) -> Plan:
        """The plan of a `packing_problem` with these rows; see `reasons` for `tried`."""
        vertex, machine, copies = self.kept[rows[0]], rows[1], rows[2]
        left = self.instance.replicas - np.bincount(vertex, weights=copies, minlength=len(self.instance))
        reasons = self.reasons(left, f"no machine with room allows it, {tried}") if self.fleet.fixed else {}
        return Plan.of(algorithm, *self.expand(vertex, machine, copies), seconds, reasons=reasons, **more)

    def plan_of(self, plan: Plan) -> Plan:
        """A plan of the applications as one of the vertices."""
        return Plan.of(plan.algorithm, *self.merge(plan), plan.seconds)

    def expanded(self, plan: Plan) -> Plan:
        """A plan of the vertices as one of the applications."""
        return Plan.of(plan.algorithm, *self.expand(plan.application, plan.machine, plan.replicas), plan.seconds)

    def reasons(self, left: Int, otherwise: str) -> dict[int, str]:
        """Application -> why it has replicas without a machine, where `left` (V,) copies of vertices have none.

        `otherwise`: the reason of those that could have one in another plan
        """
        found = {v: self.refused.get(v) or self._reason(v) or otherwise for v in np.flatnonzero(left).tolist()}
        return {i: found[v] for i, v in enumerate(self.vertex.tolist()) if v in found}

    def _reason(self, v: int) -> str:
        """Why no plan places all copies of a vertex, or of all of them; empty if nothing says so."""
        from tvwrl.packing import fits

        instance, fleet = self.instance, self.fleet
        own = int(instance.affinity.own[v])
        large = int(fits(instance.peak[v], fleet.capacity, fleet.capacity).sum())
        if instance.replicas[v] > own * large:
            return (
                f"anti-affinity with itself: {instance.replicas[v]} replicas, {own} at most on a machine, and {large} "
                f"machines are large enough"
            )
        counted = instance.replicas.astype(np.float64)
        counted[list(self.refused)] = 0.0
        asked, there = np.einsum("v,vhd->hd", counted, instance.demand).max(axis=0), fleet.capacity.sum(axis=0)
        if (asked > there).any():
            d = int(np.argmax(asked / there))
            return f"the machines are full: {asked[d]:g} {instance.resources[d]} are asked for, they have {there[d]:g}"
        return ""

    def merge(self, plan: Plan) -> tuple[Int, Int, Int]:
        """Vertices, machines and copies there, of a plan of the applications; what is no whole copy is left out."""
        copies = plan.replicas // self.count[plan.application]
        vertex = self.vertex[plan.application]
        size = np.bincount(self.vertex, minlength=len(self.instance))
        key, of = np.unique(np.column_stack([vertex, plan.machine]), axis=0, return_inverse=True)
        least = np.full(len(key), np.iinfo(np.int64).max)
        np.minimum.at(least, of.ravel(), copies)
        whole = (np.bincount(of.ravel(), minlength=len(key)) == size[key[:, 0]]) & (least > 0)
        return key[whole, 0], key[whole, 1], least[whole]


def _merged_limits(instance: Instance, vertex: Int, count: Int, vertices: int) -> tuple[Affinity, dict[int, str]]:
    """Limits between vertices, and the vertices whose members exclude each other."""
    arcs, refused = instance.affinity, {}
    i = np.repeat(np.arange(len(instance)), np.diff(arcs.start))
    j, copies = arcs.to, arcs.limit // count[arcs.to]
    inside = vertex[i] == vertex[j]
    for row in np.flatnonzero(inside & (copies < 1)).tolist():
        pair = f"'{instance.application[i[row]]}' and '{instance.application[j[row]]}'"
        refused[int(vertex[j[row]])] = (
            f"affinity and anti-affinity contradict each other: {pair} have to share a machine, with "
            f"{count[j[row]]} of the latter, where {arcs.limit[row]} are allowed"
        )
    copies = np.where(inside, np.maximum(copies, 1), copies)
    return least_limits(vertices, vertex[i], vertex[j], copies), refused


def least_limits(applications: int, i: Int, j: Int, limit: Int) -> Affinity:
    """Limits from arcs (i, j, a_ij) in which pairs may occur several times: the lowest limit of each pair counts."""
    key = i * applications + j
    order = np.lexsort((limit, key))
    pairs, first = np.unique(key[order], return_index=True)
    return Affinity.of(applications, pairs // applications, pairs % applications, limit[order][first])


def _barred_by_resources(merged: Instance, fleet: Fleet, vertex: Int, barred: Int) -> tuple[Instance, Fleet]:
    """A resource for each different blacklist: of it a replica needs 1, and barred machines have half of one."""
    if not len(barred):
        return merged, fleet
    lists: dict[int, set[int]] = {}
    for application, machine in barred.tolist():
        lists.setdefault(int(vertex[application]), set()).add(machine)
    kinds = sorted({tuple(sorted(one)) for one in lists.values()})
    need = np.zeros((len(merged), merged.demand.shape[1], len(kinds)))
    have = np.full((len(fleet.capacity), len(kinds)), 1.0 + merged.replicas.sum())
    for number, machines in enumerate(kinds):
        have[list(machines), number] = 0.5
        need[[v for v, one in lists.items() if tuple(sorted(one)) == machines], :, number] = 1.0
    names = (*merged.resources, *(f"{BLACKLIST} {number + 1}" for number in range(len(kinds))))
    return (
        replace(merged, demand=np.concatenate([merged.demand, need], axis=2), resources=names),
        replace(fleet, capacity=np.concatenate([fleet.capacity, have], axis=1)),
    )


def _too_large(merged: Instance, fleet: Fleet, given: Fleet, bundles: int) -> dict[int, str]:
    """Vertices that do not fit any empty machine -> the reason."""
    from tvwrl.packing import fits

    resources = given.capacity.shape[1]
    kinds = np.unique(fleet.capacity, axis=0)
    free: Any = fits(merged.peak[:, None], kinds, kinds).any(axis=1)
    large: Any = fits(merged.peak[:, None, :resources], kinds[:, :resources], kinds[:, :resources]).any(axis=1)
    largest = ", ".join(f"{value:g}" for value in given.capacity.max(axis=0))
    found = {}
    for v in np.flatnonzero(~free).tolist():
        who = "the affinity group" if v < bundles else "it"
        needs = ", ".join(f"{x:g}" for x in merged.peak[v, :resources])
        found[v] = (
            f"{who} is on the blacklist of every machine that is large enough"
            if large[v]
            else f"{who} needs {needs} ({', '.join(merged.resources[:resources])}): larger than every machine "
            f"({largest} at most)"
        )
    return found
