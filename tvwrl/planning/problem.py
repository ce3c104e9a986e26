"""A placement problem of Aladdin+H, with affinity, anti-affinity and machines of many kinds, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tvwrl.planning.instance import Affinity, Fleet, Instance
from tvwrl.types import InputError, Int, summary

NOWHERE = -1  # instead of a machine: the replica is not placed


@dataclass(frozen=True, eq=False)
class Bundles:
    """B groups of replicas that must share a machine, all of them or none (affinity, Section 3.4).

    The replicas of the members are divided into copies of the bundle: counts (2, 1) of applications with 6 and 3
    replicas make 3 copies. Copy k holds replicas `k * count .. (k + 1) * count - 1` of each member. An application is
    in one bundle at most.
    """

    start: Int  # (B + 1,) bundle b has the members `start[b] .. start[b + 1] - 1`
    member: Int  # (E,) applications
    count: Int  # (E,) >= 1, replicas of the member in one copy

    @classmethod
    def of(cls, groups: Sequence[Mapping[int, int]]) -> Bundles:
        """From a mapping application -> replicas in a copy for each bundle."""
        sizes = [len(group) for group in groups]
        rows = [row for group in groups for row in group.items()]
        table = np.array(rows, dtype=np.int64).reshape(-1, 2)
        return cls(np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]), table[:, 0], table[:, 1])

    def __len__(self) -> int:
        return len(self.start) - 1

    def __repr__(self) -> str:
        return summary(self, groups=len(self), members=len(self.member))

    @cached_property
    def owner(self) -> Int:
        """(E,) bundle of each member."""
        owner: Int = np.repeat(np.arange(len(self)), np.diff(self.start))
        return owner


def check_bundles(instance: Instance, bundles: Bundles, place: Callable[[int], str] = lambda _: "affinity") -> None:
    """Raise InputError for unknown applications, or members whose replicas do not make the same whole number of copies.

    `place` returns where the bundle of an application was found, for messages.
    """
    members, counts, applications = bundles.member, bundles.count, len(instance)
    if (wrong := (members < 0) | (members >= applications)).any():
        raise InputError(f"affinity: application {members[wrong][0]}: must be 0 to {applications - 1}")
    seen, times = np.unique(members, return_counts=True)
    if (times > 1).any():
        i = int(seen[np.argmax(times)])
        raise InputError(f"{place(i)}: application '{instance.application[i]}' is in several groups")
    if (wrong := counts < 1).any():
        i = int(members[np.argmax(wrong)])
        raise InputError(f"{place(i)}: application '{instance.application[i]}': count must be >= 1")
    copies = instance.replicas[members] / counts
    leading = bundles.start[bundles.owner]  # row of the first member of the same bundle
    if (uneven := (copies != copies[leading]) | (copies % 1 > 0)).any():
        row = int(np.argmax(uneven))
        i, other = int(members[row]), instance.application[members[leading[row]]]
        same = "" if leading[row] == row else f", and as many as of '{other}', {copies[leading[row]]:g}"
        raise InputError(
            f"{place(i)}: {instance.replicas[i]} replicas of '{instance.application[i]}', {counts[row]} in each, make "
            f"{copies[row]:g} groups: must be a whole number{same}"
        )


@dataclass(frozen=True, eq=False)
class PlacementProblem:
    """Applications and the machines to place them on. Anti-affinity is a limit of 0 (`planning.instance.Affinity`).

    Replicas are numbered by application: those of i are `first[i] .. first[i + 1] - 1`. Raises InputError for a fleet
    without end or with other resources, and for invalid bundles (see `check_bundles`).
    """

    instance: Instance
    fleet: Fleet  # fixed: no further machines can be opened
    bundles: Bundles

    def __post_init__(self) -> None:
        if not self.fleet.fixed:
            raise InputError("the fleet is unlimited: placement by flow needs a fixed number of machines")
        resources = len(self.instance.resources)
        if self.fleet.capacity.shape[1] != resources:
            raise InputError(f"machines have {self.fleet.capacity.shape[1]} resources, applications {resources}")
        check_bundles(self.instance, self.bundles)

    @cached_property
    def first(self) -> Int:
        """(A + 1,) first replica of each application."""
        return np.concatenate([[0], np.cumsum(self.instance.replicas, dtype=np.int64)])

    @cached_property
    def application(self) -> Int:
        """(R,) application of each replica."""
        application: Int = np.repeat(np.arange(len(self.instance)), self.instance.replicas)
        return application


@dataclass(frozen=True, eq=False)
class Assignment:
    """Machines of all replicas, and what it took to find them; `planning.flow.referee.validate` checks and measures it."""

    planner: str
    machine: Int  # (R,) machine of each replica, or NOWHERE
    migrations: int = 0  # moves of replicas that already had a machine
    seconds: float = 0.0  # processor time without compilation
    reasons: dict[int, str] = field(default_factory=dict)  # application -> why some of its replicas have no machine
    details: dict[str, Any] = field(default_factory=dict)  # planner-specific facts, for the rows

    def __repr__(self) -> str:
        placed = int((self.machine != NOWHERE).sum())
        return summary(self, planner=self.planner, replicas=len(self.machine), placed=placed, seconds=self.seconds)


Planner = Callable[[PlacementProblem], Assignment]  # Aladdin+H or a baseline


@dataclass(frozen=True, eq=False)
class Vertices:
    """Applications with each bundle merged into one: the task vertices and virtual vertices V_j of Figure 9 (a).

    For a bundle with n replicas of an application, a limit of k of these is one of k // n copies.
    """

    instance: Instance  # V vertices; their replicas are copies
    vertex: Int  # (A,) vertex of each application
    count: Int  # (A,) replicas of each application in a copy of its vertex
    refused: dict[int, str]  # vertices that no machine can hold -> the reason

    @classmethod
    def of(cls, problem: PlacementProblem) -> Vertices:
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
        refused |= _too_large(merged, problem.fleet, len(bundles))
        return cls(merged, vertex, count, refused)

    def expand(self, problem: PlacementProblem, first: Int, machine: Int) -> Int:
        """(R,) machine of each replica, from `machine` of each copy; those of vertex v begin at `first[v]`."""
        application = problem.application
        copy = (np.arange(len(application)) - problem.first[application]) // self.count[application]
        placed: Int = machine[first[self.vertex[application]] + copy]
        return placed


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


def _too_large(merged: Instance, fleet: Fleet, bundles: int) -> dict[int, str]:
    """Vertices that do not fit any empty machine -> the reason."""
    from tvwrl.packing.fit import fits

    kinds = np.unique(fleet.capacity, axis=0)
    large_enough = fits(merged.peak[:, None], kinds, kinds).any(axis=1)
    largest = ", ".join(f"{value:g}" for value in kinds.max(axis=0))
    return {
        v: f"{'the affinity group' if v < bundles else 'it'} needs {', '.join(f'{x:g}' for x in merged.peak[v])} "
        f"({', '.join(merged.resources)}): larger than every machine ({largest} at most)"
        for v in np.flatnonzero(~large_enough).tolist()
    }
