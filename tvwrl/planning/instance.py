"""A provisioning problem: applications, their replicas, what each needs, and which must not crowd one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.checks import at_least, below
from tvwrl.compiled import njit
from tvwrl.types import Byte, Float, InputError, Int, Int32, Strings, size_of, summary


@njit
def first_twice(start: Int, to: Int32) -> int:
    """First arc that points where another one of its row did before, or -1."""
    seen = np.full(len(start) - 1, -1, np.int32)
    for i in range(len(start) - 1):
        for arc in range(start[i], start[i + 1]):
            if seen[to[arc]] == i:
                return arc
            seen[to[arc]] = i
    return -1


@njit
def pairs(text: Byte, count: int) -> tuple[Int32, bool]:
    """(count, 2) whole numbers of "[(8, 2), (13, 0)]", and whether `text` (bytes) is exactly that; blanks do not count.

    Numbers of more than 9 digits are not read.
    """
    found = np.zeros((count, 2), np.int32)
    at, pair, side, digits, good = 0, 0, -1, 0, True  # side: -1 outside of brackets, 0 and 1 in a pair
    separated = True  # by a comma from the pair before
    for byte in text:
        if byte == 32:
            good = good and digits == 0
        elif 48 <= byte <= 57:  # a digit
            good = good and side >= 0 and pair < count and digits < 9
            if not good:
                break
            found[pair, side] = found[pair, side] * 10 + (byte - 48)
            digits += 1
        elif byte == 91:  # [
            good = good and at == 0
            at = 1
        elif byte == 40:  # (
            good = good and at == 1 and side == -1 and separated
            side, digits = 0, 0
        elif byte == 44 and side == -1:  # a comma between pairs
            good = good and not separated
            separated = True
        elif byte == 44:  # one inside of a pair
            good = good and side == 0 and digits > 0
            side, digits = 1, 0
        elif byte == 41:  # )
            good = good and side == 1 and digits > 0
            pair, side, digits, separated = pair + 1, -1, 0, False
        elif byte == 93:  # ]
            good = good and at == 1 and side == -1 and (not separated or pair == 0)
            at = 2
        else:
            good = False
        if not good:
            break
    return found, good and at == 2 and pair == count


NO_LIMIT = np.iinfo(np.int32).max  # replicas per machine where no affinity limits them
MOST_MACHINES = 1_000_000  # of a fleet that is given by kinds
MOST_REPLICAS = 10_000_000  # of an instance
MOST_NUMBERS = 1_000_000_000  # that say what is left on all machines of a plan, at all times, of all resources: 8 GB
SMALLEST, LARGEST = 1e-15, 1e18  # of capacities and costs above 0: products of these stay numbers
NO_ARCS = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class Affinity:
    """Affinity limits a_ij of ordered pairs of A applications, as compressed sparse rows in both directions.

    On a machine that holds any replica of i there are at most a_ij replicas of j (Eq. 2). Both directions
    bind: what is on a machine limits what comes, and what comes must allow what is there. An arc from i to itself is
    the same rule with j = i, a *self limit*: at most a_ii >= 1 replicas of i on any machine. `Affinity.of` makes the
    rows from pairs.

    Parameters
    ----------
    start : Int
        (A + 1,) The arcs of i are ``start[i] .. start[i + 1] - 1`` of the next two, in order of input.
    to : Int32
        (E,) j of each arc.
    limit : Int32
        (E,) a_ij >= 0, and a_ii >= 1.
    into_start : Int
        (A + 1,) The same arcs by j.
    into : Int32
        (E,) i of each of these.
    into_limit : Int32
        (E,) a_ij.

    Examples
    --------
    At most one replica of application 1 beside those of application 0:

    >>> Affinity.of(2, np.array([0]), np.array([1]), np.array([1]))
    <Affinity applications=2, limits=1>
    """

    start: Int
    to: Int32
    limit: Int32
    into_start: Int
    into: Int32
    into_limit: Int32

    @classmethod
    def of(
        cls,
        applications: int,
        i: npt.NDArray[np.integer[Any]] = NO_ARCS,
        j: npt.NDArray[np.integer[Any]] = NO_ARCS,
        limit: npt.NDArray[np.integer[Any]] = NO_ARCS,
        place: Callable[[int], str] = "affinity {}".format,
    ) -> Affinity:
        """Make limits from E arcs (i, j, a_ij).

        Parameters
        ----------
        applications : int
            A, how many there are.
        i, j : array of int
            (E,) The pairs, 0 to A - 1, each once.
        limit : array of int
            (E,) a_ij >= 0, and a_ii >= 1.
        place : callable
            Says in messages where the arc of a number was found.

        Raises
        ------
        InputError
            An unknown application, a negative limit, a self limit of 0, or a pair given twice.
        """

        for what, ends in (("i", i), ("j", j)):
            wrong = np.flatnonzero((ends < 0) | (ends >= applications))
            if wrong.size:
                raise InputError(f"{place(int(wrong[0]))}: {what} is {ends[wrong[0]]}: must be 0 to {applications - 1}")
        low = (limit < 0) | (limit >= NO_LIMIT) | (limit == 0) & (i == j)
        if low.any():
            arc = int(np.argmax(low))
            least = "1 for an application and itself" if i[arc] == j[arc] else "0"
            most = f" and at most {NO_LIMIT - 1}" if limit[arc] >= NO_LIMIT else ""
            raise InputError(f"{place(arc)}: limit is {limit[arc]}: must be at least {least}{most}")
        order = np.argsort(i, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=applications))])
        to = j[order].astype(np.int32, copy=False)
        if (twice := first_twice(start, to)) >= 0:
            raise InputError(f"{place(int(order[twice]))}: the limit of these two applications is given a second time")
        return cls.of_rows(start, to, limit[order].astype(np.int32, copy=False))

    @classmethod
    def of_rows(cls, start: Int, to: Int32, limit: Int32) -> Affinity:
        """Make limits from compressed sparse rows that are known to be good: nothing is checked, nothing copied.

        Parameters
        ----------
        start, to, limit
            As of the class.
        """
        from scipy.sparse import csr_array

        into = csr_array((limit, to, start.astype(np.int32)), shape=(len(start) - 1,) * 2).tocsc()
        return cls(start, to, limit, into.indptr.astype(np.int64), into.indices, into.data)

    def __len__(self) -> int:
        return len(self.to)

    def __repr__(self) -> str:
        return summary(self, applications=len(self.start) - 1, limits=len(self))

    @property
    def origin(self) -> Int32:
        """(E,) i of each arc, as `to` is its j."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))

    @cached_property
    def own(self) -> Int32:
        """(A,) most replicas of each application on one machine by its self limit; NO_LIMIT without one."""
        from tvwrl.packing import own_limits

        own: Int32 = own_limits(self.start, self.to, self.limit)
        return own


@dataclass(frozen=True, eq=False)
class Instance:
    """A applications of several replicas each. Demand is of one replica, at H times (H = 1: its maximum).

    Parameters
    ----------
    name : str
        What files and messages call it.
    application : Strings
        (A,) Names, unique.
    replicas : Int
        (A,) At least 1, and at most `MOST_REPLICAS` together.
    demand : Float
        (A, H, D) Of one replica, in the units of capacity (cores, GiB), 0 to `LARGEST`.
    resources : tuple of str
        (D,) Their names.
    affinity : Affinity
        Limits on replicas that share a machine.

    Raises
    ------
    InputError
        A value out of range, a name given twice, or no application at all.

    Examples
    --------
    Two replicas of 4 cores and 8 GiB, and one of twice that:

    >>> demand = np.array([[[4.0, 8.0]], [[8.0, 16.0]]])
    >>> names = np.array(["web", "db"], dtype=object)
    >>> Instance("mine", names, np.array([2, 1]), demand, ("cpu", "mem"), Affinity.of(2)).replicas.sum()
    np.int64(3)
    """

    name: str
    application: Strings
    replicas: Int
    demand: Float
    resources: tuple[str, ...]
    affinity: Affinity

    def __post_init__(self) -> None:
        if len(self.application) == 0:
            raise InputError(f"instance '{self.name}' has no applications")
        self._need(self.replicas >= 1, "replicas", self.replicas, "at least 1")
        if (total := float(self.replicas.sum(dtype=np.float64))) > MOST_REPLICAS:
            raise InputError(
                f"instance '{self.name}' has {total:,.0f} replicas: must be at most {MOST_REPLICAS:,} together"
            )
        good = np.isfinite(self.demand) & (self.demand >= 0) & (self.demand <= LARGEST)
        if not good.all():
            i, h, d = (int(place[0]) for place in np.nonzero(~good))
            raise InputError(
                f"{self.resources[d]} of application '{self.application[i]}' is {self.demand[i, h, d]}: must be a "
                f"number from 0 to {LARGEST:g}"
            )
        names, counts = np.unique(self.application.astype(str), return_counts=True)
        if (counts > 1).any():
            raise InputError(f"application '{names[np.argmax(counts)]}' is given {counts.max()} times")

    def _need(self, good: npt.NDArray[np.bool_], field: str, values: npt.NDArray[Any], limit: str) -> None:
        if not good.all():
            wrong = int(np.argmin(good))
            raise InputError(f"{field} of application '{self.application[wrong]}' is {values[wrong]}: must be {limit}")

    def __len__(self) -> int:
        return len(self.application)

    def __repr__(self) -> str:
        sizes = {"applications": len(self), "replicas": int(self.replicas.sum()), "limits": len(self.affinity)}
        return summary(self, name=self.name, **sizes, times=self.demand.shape[1], resources=self.resources)

    def only(self, which: Int) -> Instance:
        """Keep some applications, with the limits among them.

        Parameters
        ----------
        which : Int
            (n,) Their numbers.
        """
        place = np.full(len(self), -1)
        place[which] = np.arange(len(which))
        i, j = place[self.affinity.origin], place[self.affinity.to]
        both = (i >= 0) & (j >= 0)
        return replace(
            self,
            application=self.application[which],
            replicas=self.replicas[which],
            demand=self.demand[which],
            affinity=Affinity.of(len(which), i[both], j[both], self.affinity.limit[both]),
        )

    @property
    def density(self) -> float:
        """Affinity limits by ordered pairs of different applications, 0 to 1 (a little more with self limits)."""
        pairs = len(self) * (len(self) - 1)
        return len(self.affinity) / pairs if pairs else 0.0

    @cached_property
    def peak(self) -> Float:
        """(A, D) largest demand of one replica."""
        peak: Float = self.demand.max(axis=1)
        return peak

    @cached_property
    def total(self) -> Float:
        """(H, D) demand of all replicas together."""
        total: Float = np.einsum("a,ahd->hd", self.replicas.astype(np.float64), self.demand)
        return total


@dataclass(frozen=True)
class Fleet:
    """Machines to plan with, in the order in which they are opened.

    Machines beyond the last row are like the last one, without end, unless `fixed`: then there are no others, and
    planners place as many replicas as they can (Section 7). Arrays count machines from 0; files and messages give their
    names, which are numbers from 1 where there are no others (see `names_of`).

    Parameters
    ----------
    capacity : Float
        (F, D) In the units of demand (cores, GiB), `SMALLEST` to `LARGEST`.
    fixed : bool
        There are no machines but these.
    cost : Float or None
        (F,) Of each machine that is used, > 0; None: 1 each.
    name : Strings or None
        (F,) Unique names.
    row : Strings or None
        (F,) Name that machines of one row of a table share; None: as `name`.

    Raises
    ------
    InputError
        A capacity or cost out of range, names that are too few or not unique, or no machine at all.

    Examples
    --------
    >>> Fleet.of_kinds([[8.0, 16.0], [64.0, 128.0]], [10, 2], fixed=True)
    <Fleet machines=12, kinds=2, fixed=True>
    """

    capacity: Float
    fixed: bool = False
    cost: Float | None = None
    name: Strings | None = None
    row: Strings | None = None

    @classmethod
    def of(cls, capacity: Sequence[float]) -> Fleet:
        """As many machines of one kind as it takes.

        Parameters
        ----------
        capacity : sequence of float
            (D,) Of a machine, > 0.
        """
        return cls(np.array([capacity], dtype=np.float64))

    @classmethod
    def of_kinds(
        cls,
        kinds: Sequence[Sequence[float]],
        count: Sequence[int] = (),
        fixed: bool = False,
        slack: float = 0.0,
        cost: Sequence[float] | None = None,
        name: Sequence[str] | None = None,
        place: Callable[[int], str] = lambda kind: f"kind {kind + 1}",
    ) -> Fleet:
        """Machines of several kinds in turn.

        Parameters
        ----------
        kinds : sequence of sequence of float
            Capacity of a machine of each kind, one number per resource, > 0.
        count : sequence of int
            How many there are of each kind, at least 1 each and `MOST_MACHINES` together at most; default: one each.
        fixed : bool
            There are no machines but these.
        slack : float
            Share of every machine to keep free, 0 to below 1.
        cost : sequence of float or None
            Of one machine of each kind, > 0; default: 1 each.
        name : sequence of str or None
            One for each kind: several machines of a kind are called NAME-1, NAME-2, ...
        place : callable
            Says in messages where the kind of a number was found.

        Raises
        ------
        InputError
            Kinds of different resources, too few counts, costs or names, values out of range, or names that are not
            unique.

        Examples
        --------
        >>> Fleet.of_kinds([[8.0], [16.0]], [2, 1], name=["small", "large"]).names_of(np.arange(3))
        ['small-1', 'small-2', 'large']
        """
        if not kinds:
            raise InputError("no machine is given: give its capacity, one number per resource, as in 64 128")
        if len({len(kind) for kind in kinds}) > 1:
            raise InputError(f"machine: {', '.join(map(str, kinds))}: must all have the same resources")
        if count and len(count) != len(kinds):
            raise InputError(f"count has {len(count)} numbers: must be {len(kinds)}, one for each machine given")
        at_least(1, count=count)
        if sum(count) > MOST_MACHINES:
            given = ", ".join(map(str, count))
            raise InputError(f"count is {given}: must be at most {MOST_MACHINES:,} machines together")
        below(1, slack=slack)
        rows = np.array(kinds, dtype=np.float64) * (1.0 - slack)
        if cost is not None and len(cost) != len(kinds):
            raise InputError(f"cost has {len(cost)} numbers: must be {len(kinds)}, one for each machine given")
        if name is not None and len(name) != len(kinds):
            raise InputError(f"name has {len(name)} names: must be {len(kinds)}, one for each machine given")
        many = [count[k] if count else 1 for k in range(len(kinds))]
        costs = None if cost is None else np.repeat(np.array(cost, dtype=np.float64), many)
        row = None if name is None else np.repeat(np.array(name, dtype=object), many)
        names = None if name is None else _machine_names(name, many, place)
        return cls(np.repeat(rows, many, axis=0), fixed, costs, names, row)

    def __post_init__(self) -> None:
        if self.capacity.ndim != 2 or not self.capacity.size:
            raise InputError("a fleet needs at least one machine")
        for what, values in (("capacity", self.capacity), ("cost", self.cost)):
            if values is not None and (wrong := ~((values >= SMALLEST) & (values <= LARGEST))).any():
                raise InputError(
                    f"{what} is {values[wrong][0]:g}: must be numbers > 0, from {SMALLEST:g} to {LARGEST:g}"
                )
        if self.name is not None:
            self._check_names(self.name)

    def __repr__(self) -> str:
        return summary(self, **size_of(self.capacity), fixed=self.fixed)

    def _check_names(self, name: Strings) -> None:
        if len(name) != len(self.capacity):
            raise InputError(f"the fleet has {len(name)} names: must be {len(self.capacity)}, one for each machine")
        if len(set(name.tolist())) < len(name):
            names, times = np.unique(name.astype(str), return_counts=True)
            raise InputError(f"machine '{names[np.argmax(times)]}' is given {times.max()} times")
        like = f"{name[-1]}+"
        if not self.fixed and (taken := [one for one in name.tolist() if one.startswith(like)]):
            raise InputError(f"machine '{taken[0]}' is called as one that is added, like '{name[-1]}': rename it")

    @cached_property
    def costs(self) -> Float:
        """(F,) of each machine that is used."""
        return np.ones(len(self.capacity)) if self.cost is None else self.cost

    def first(self, machines: int) -> Fleet:
        """Keep the first of those listed, and no others.

        Parameters
        ----------
        machines : int
            How many.
        """
        return self.select(np.arange(machines))

    def select(self, which: Int) -> Fleet:
        """Keep some of those listed, and no others.

        Parameters
        ----------
        which : Int
            (n,) Their numbers.
        """
        cost = None if self.cost is None else self.cost[which]
        name, row = (None if one is None else one[which] for one in (self.name, self.row))
        return Fleet(self.capacity[which], True, cost, name, row)

    def names_of(self, machines: Int) -> list[str]:
        """Names of machines: their own, or else numbers from 1.

        Those beyond the last listed are called after it, as they are like it: NAME+1, NAME+2, ...

        Parameters
        ----------
        machines : Int
            (n,) Numbers, >= 0.

        Examples
        --------
        >>> Fleet.of([64.0, 128.0]).names_of(np.array([0, 2]))
        ['1', '3']
        """
        if self.name is None:
            return [str(m + 1) for m in machines.tolist()]
        listed = len(self.name)
        return [str(self.name[m]) if m < listed else f"{self.name[-1]}+{m - listed + 1}" for m in machines.tolist()]

    def rows(self, machines: int) -> Float:
        """(machines, D) capacities of the first so many, beyond those listed too.

        Parameters
        ----------
        machines : int
            How many.
        """
        rows: Float = self.capacity[np.minimum(np.arange(machines), len(self.capacity) - 1)]
        return rows


def _machine_names(name: Sequence[str], count: Sequence[int], place: Callable[[int], str]) -> Strings:
    """(F,) names of machines, `count` of each of the kinds `name`: NAME, or NAME-1, NAME-2, ... of several.

    Raises InputError, beginning with the `place` of a kind, for one whose name is empty or is another's.
    """
    kinds: dict[str, int] = {}
    for k, one in enumerate(name):
        if not one.isprintable() or one != one.strip() or not one:
            raise InputError(f"{place(k)}: machine is {one!r}: must be a name in one line, without blanks at its ends")
        if kinds.setdefault(one, k) != k:
            raise InputError(f"{place(k)}: machine '{one}' is given a second time")
    for k, one in enumerate(name):
        stem, _, number = one.rpartition("-")
        of = kinds.get(stem, k)
        if of != k and count[of] > 1 and number.isdecimal() and number == f"{int(number)}" and int(number) <= count[of]:
            raise InputError(
                f"{place(k)}: machine '{one}' is given a second time: the {count[of]} machines of '{stem}' are called "
                f"{stem}-1, {stem}-2, ..."
            )
    named = (
        (one,) if n == 1 else (f"{one}-{turn}" for turn in range(1, n + 1)) for one, n in zip(name, count, strict=True)
    )
    return np.array([one for names in named for one in names], dtype=object)


def check_fits(instance: Instance, fleet: Fleet, source: str = "") -> None:
    """Raise InputError, naming the first (and its `source`), if an application is larger than every machine."""
    from tvwrl.packing import fits

    resources = ", ".join(instance.resources)
    if fleet.capacity.shape[1] != len(instance.resources):
        given, needed = fleet.capacity.shape[1], len(instance.resources)
        raise InputError(f"machine has {given} number{'s' * (given != 1)}: must be {needed} ({resources})")
    room = fits(instance.peak[:, None], fleet.capacity, fleet.capacity).any(axis=1)
    if not room.all():
        wrong = int(np.argmin(room))
        peak = ", ".join(f"{value:g}" for value in instance.peak[wrong])
        largest = ", ".join(f"{value:g}" for value in fleet.capacity.max(axis=0))
        raise InputError(
            f"{source or instance.name}, row {wrong + 1}: application '{instance.application[wrong]}' needs {peak} "
            f"({resources}) per replica: larger than every machine ({largest})"
        )


def counted(count: int, what: str) -> str:
    """So many of a thing, whose plural ends in s.

    >>> counted(1, "replica"), counted(2000, "replica")
    ('1 replica', '2,000 replicas')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"
