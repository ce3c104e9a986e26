"""A planning problem: applications and machines, groups kept whole, machines that are barred, and what runs already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tvwrl.planning.instance import MOST_NUMBERS, Fleet, Instance, counted
from tvwrl.planning.plan import Plan
from tvwrl.types import InputError, Int, summary

if TYPE_CHECKING:
    from tvwrl.planning.merged import Merged

NOWHERE = -1  # instead of a machine: the replica is not placed


@dataclass(frozen=True, eq=False)
class Bundles:
    """B groups of replicas that must share a machine, all of them or none (affinity, Section 3.4).

    The replicas of the members are divided into copies of the bundle: counts (2, 1) of applications with 6 and 3
    replicas make 3 copies. Copy k holds replicas ``k * count .. (k + 1) * count - 1`` of each member. An application is
    in one bundle at most. `Bundles.of` makes them from dictionaries.

    Parameters
    ----------
    start : Int
        (B + 1,) Bundle b has the members ``start[b] .. start[b + 1] - 1``.
    member : Int
        (E,) Applications.
    count : Int
        (E,) Replicas of the member in one copy, >= 1.

    Examples
    --------
    >>> Bundles.of([{0: 2, 1: 1}, {4: 1, 5: 1}])
    <Bundles groups=2, members=4>
    """

    start: Int
    member: Int
    count: Int

    @classmethod
    def of(cls, groups: Sequence[Mapping[int, int]]) -> Bundles:
        """Make bundles from dictionaries.

        Parameters
        ----------
        groups : sequence of dict of int to int
            Of each bundle: application -> its replicas in a copy.
        """
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
        has, groups = counted(int(instance.replicas[i]), "replica"), "group" if copies[row] == 1 else "groups"
        raise InputError(
            f"{place(i)}: {has} of '{instance.application[i]}', {counts[row]} in each, make {copies[row]:g} {groups}: "
            f"must be a whole number{same}"
        )


NO_BUNDLES = Bundles.of([])


@dataclass(frozen=True, eq=False)
class PlanningProblem:
    """Applications with replicas, and the machines to place them on.

    Parameters
    ----------
    instance : Instance
        The applications.
    fleet : Fleet
        The machines, with the same resources.
    bundles : Bundles
        Groups that share a machine.
    barred : Int
        (B, 2) A blacklist: pairs (application, machine of the fleet) that must not come together; of an open fleet, a
        pair with the last machine counts for all that follow it.
    running : Plan or None
        Where replicas are now.
    pinned : array of bool or None
        (A,) Applications whose running replicas have to stay; None: all may move.

    Raises
    ------
    InputError
        A fleet with other resources, invalid bundles (see `check_bundles`), unknown applications or machines, pins
        without a running plan, or more than memory holds.

    Examples
    --------
    >>> from tvwrl.planning import Affinity, Fleet, Instance
    >>> names, demand = np.array(["web"], dtype=object), np.full((1, 1, 1), 2.0)
    >>> web = Instance("mine", names, np.array([5]), demand, ("cpu",), Affinity.of(1))
    >>> PlanningProblem(web, Fleet.of([4.0])).most_machines
    6
    """

    instance: Instance
    fleet: Fleet
    bundles: Bundles = NO_BUNDLES
    barred: Int = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    running: Plan | None = None
    pinned: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        resources, machines = self.instance.resources, len(self.fleet.capacity)
        if self.fleet.capacity.shape[1] != len(resources):
            given = self.fleet.capacity.shape[1]
            raise InputError(
                f"machine has {given} number{'s' * (given != 1)}: must be {len(resources)} ({', '.join(resources)})"
            )
        times, most = self.instance.demand.shape[1], self.most_machines
        if (numbers := most * times * len(resources)) > MOST_NUMBERS:
            raise InputError(
                f"up to {most:,} machines, {times} times and {len(resources)} resources make {numbers:,} numbers: must "
                f"be at most {MOST_NUMBERS:,}: plan for fewer times, or for fewer replicas"
            )
        check_bundles(self.instance, self.bundles)
        for what, found, most in (
            ("application", self.barred[:, 0], len(self.instance)),
            ("machine", self.barred[:, 1], machines),
        ):
            if (wrong := (found < 0) | (found >= most)).any():
                raise InputError(f"blacklist: {what} {found[wrong][0]}: must be 0 to {most - 1}")
        if self.pinned is not None and self.pinned.any() and self.running is None:
            raise InputError("replicas are pinned where they run, but no running replicas are given")

    @property
    def most_machines(self) -> int:
        """Machines that a plan can name: no plan needs more."""
        return len(self.fleet.capacity) + (0 if self.fleet.fixed else int(self.instance.replicas.sum()))

    @cached_property
    def first(self) -> Int:
        """(A + 1,) first replica of each application, which are numbered by application."""
        return np.concatenate([[0], np.cumsum(self.instance.replicas, dtype=np.int64)])

    @cached_property
    def application(self) -> Int:
        """(R,) application of each replica."""
        application: Int = np.repeat(np.arange(len(self.instance)), self.instance.replicas)
        return application

    @cached_property
    def merged(self) -> Merged:
        """What planners place."""
        from tvwrl.planning.merged import Merged

        return Merged.of(self)
