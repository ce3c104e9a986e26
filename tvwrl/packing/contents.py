"""What is on each machine, listed by machine: for searches that remove and move replicas.

`packing.affinity.Packing` lists the same by application, which suits planners that only add.
`planning.flow.network_kernels` has the same fields for machines of a network, so the functions here serve both.
Arguments and sizes as in `packing.affinity`. W: most applications on one machine; entry w of a machine: one of them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import UNLIMITED, Applications
from tvwrl.types import Float, Int, Int32

Rows = tuple[Int, Int, Int]  # applications, machines, replicas there

INITIAL_WEIGHT = 1.0  # weight of an application whose replicas never had to eject others


class Limits(Protocol):
    """Scratch that says what the limits of the application at hand are beside others; a NamedTuple."""

    @property
    def allows(self) -> Int32:
        """See `Contents`."""

    @property
    def bears(self) -> Int32:
        """See `Contents`."""


class Listed(Protocol):
    """Machines with their entries; a NamedTuple."""

    @property
    def residual(self) -> Float:
        """See `Contents`."""

    @property
    def kinds(self) -> Int32:
        """See `Contents`."""

    @property
    def application(self) -> Int32:
        """See `Contents`."""

    @property
    def count(self) -> Int32:
        """See `Contents`."""


class Contents(NamedTuple):
    """Machines with their entries, and the replicas that are on none; changed in place.

    Open machines come first, so machines change places here; `number` is what each is called in the fleet. A replica is
    *at home* where the plan to start from has it.
    """

    capacity: Float  # (T, K) float64, by kind of machine
    kind: Int32  # (M,) int32: row of `capacity`
    number: Int  # (M,) int64: machine in the fleet
    place: Int  # (M,) int64: where each machine of the fleet is here; the inverse of `number`
    residual: Float  # (M, K) float64
    open: Int  # (1,) int64: machines 0 .. open - 1 are open, the others empty
    kinds: Int32  # (M,) int32 entries of the machine
    application: Int32  # (M, W) int32 application of each entry
    count: Int32  # type: ignore[assignment]  # (M, W) int32 replicas of each entry
    pool: Int32  # (R,) int32: stack of unplaced replicas, by application
    unplaced: Int  # (1,) int64: height of the stack
    weight: Float  # (A,) float64: penalty for ejecting a replica of the application
    allows: Int32  # (A,) int32, scratch: a_ki, how many of the current application i k allows; UNLIMITED otherwise
    bears: Int32  # (A,) int32, scratch: a_ik, how many of k the current application i allows; UNLIMITED otherwise
    out: Int32  # (2, W) int32, scratch: entries and replicas to eject from the best machine
    trial: Int32  # (2, W) int32, scratch: the same for the machine under test
    room: Float  # (K,) float64, scratch
    home_start: Int  # (A + 1,) int64: homes of i are `home_start[i] .. home_start[i + 1] - 1` of the next two
    home: Int  # (n,) int64: machine in the fleet
    stay: Int32  # (n,) int32 replicas that are at home there


@inner
def set_limits(a: Applications, s: Limits, i: int) -> None:
    """Write the affinity limits between i and its neighbours to `s.allows` and `s.bears`."""
    for e in range(a.into_start[i], a.into_start[i + 1]):
        s.allows[a.into[e]] = a.into_limit[e]
    for e in range(a.start[i], a.start[i + 1]):
        s.bears[a.to[e]] = a.limit[e]


@inner
def clear_limits(a: Applications, s: Limits, i: int) -> None:
    """Undo `set_limits`."""
    for e in range(a.into_start[i], a.into_start[i + 1]):
        s.allows[a.into[e]] = UNLIMITED
    for e in range(a.start[i], a.start[i + 1]):
        s.bears[a.to[e]] = UNLIMITED


@inner
def remove(a: Applications, s: Listed, m: int, w: int, replicas: int) -> None:
    """Remove replicas from entry w of machine m. An entry that becomes empty stays until `drop_empty_entries`."""
    i = s.application[m, w]
    s.count[m, w] -= replicas
    for k in range(a.demand.shape[1]):
        s.residual[m, k] += replicas * a.demand[i, k]


@inner
def drop_empty_entries(s: Listed, m: int) -> None:
    """Close the gaps that `remove` left on machine m."""
    kept = 0
    for w in range(s.kinds[m]):
        if s.count[m, w] > 0:
            s.application[m, kept], s.count[m, kept] = s.application[m, w], s.count[m, w]
            kept += 1
    s.kinds[m] = kept


@inner
def add(a: Applications, s: Listed, i: int, m: int, replicas: int) -> bool:
    """Add replicas of i to machine m. Returns False, and changes nothing, if it has no free entry for i."""
    at = -1
    for w in range(s.kinds[m]):
        if s.application[m, w] == i:
            at = w
    if at < 0:
        at = s.kinds[m]
        if at == s.application.shape[1]:
            return False
        s.application[m, at], s.count[m, at] = i, 0
        s.kinds[m] += 1
    s.count[m, at] += replicas
    for k in range(a.demand.shape[1]):
        s.residual[m, k] -= replicas * a.demand[i, k]
    return True


@inner
def unplace(a: Applications, s: Contents, m: int, w: int, replicas: int) -> None:
    """Move replicas of entry w of machine m to the stack of unplaced ones; see `remove` for what else it does."""
    for _ in range(replicas):
        s.pool[s.unplaced[0]] = s.application[m, w]
        s.unplaced[0] += 1
    remove(a, s, m, w, replicas)


@inner
def swap_machines(s: Contents, x: int, y: int) -> None:
    """Exchange the places of two machines."""
    s.room[:] = s.residual[x]
    s.residual[x], s.residual[y] = s.residual[y], s.room
    for w in range(max(s.kinds[x], s.kinds[y])):
        s.application[x, w], s.application[y, w] = s.application[y, w], s.application[x, w]
        s.count[x, w], s.count[y, w] = s.count[y, w], s.count[x, w]
    s.kinds[x], s.kinds[y] = s.kinds[y], s.kinds[x]
    s.kind[x], s.kind[y] = s.kind[y], s.kind[x]
    s.number[x], s.number[y] = s.number[y], s.number[x]
    s.place[s.number[x]], s.place[s.number[y]] = x, y


def contents_of(
    a: Applications, capacity: Float, kind: Int, number: Int, rows: Rows, spare: int, homes: Rows | None = None
) -> Contents:
    """Machines of a fleet, of which those in `number` (n,) are open, with replicas on them; the rest is unplaced.

    `capacity` (T, K): of each kind, in the dimensions of the applications `a`; `kind` (M,): of each machine;
    `rows`: applications, positions in `number`, and replicas there, all (R,); `spare`: free entries on the machine
    with the most applications; `homes`: applications, in order, machines and replicas of the plan to start from.
    """
    applications, rest = len(a.replicas), np.setdiff1d(np.arange(len(kind)), number)
    machines, number = len(kind), np.concatenate([number, rest]).astype(np.int64)
    application, home, stay = homes or (np.zeros(0, np.int64),) * 3
    width = max(int(np.bincount(where).max(initial=0)) for where in (rows[1], home)) + spare
    contents = Contents(
        capacity=np.ascontiguousarray(capacity),
        kind=kind[number].astype(np.int32),
        number=number,
        place=np.argsort(number),
        residual=capacity[kind[number]],
        open=np.array([machines - len(rest)]),
        kinds=np.zeros(machines, np.int32),
        application=np.zeros((machines, width), np.int32),
        count=np.zeros((machines, width), np.int32),
        pool=np.empty(int(a.replicas.sum()), np.int32),
        unplaced=np.zeros(1, np.int64),
        weight=np.full(applications, INITIAL_WEIGHT),
        allows=np.full(applications, UNLIMITED, np.int32),
        bears=np.full(applications, UNLIMITED, np.int32),
        out=np.zeros((2, width), np.int32),
        trial=np.zeros((2, width), np.int32),
        room=np.zeros(a.demand.shape[1]),
        home_start=np.searchsorted(application, np.arange(applications + 1)),
        home=home.astype(np.int64),
        stay=stay.astype(np.int32),
    )
    _fill_in(a, contents, *rows)
    return contents


@njit
def _fill_in(a: Applications, s: Contents, application: Int, machine: Int, replicas: Int) -> None:
    """Put what is packed where it is, and the rest on the stack of unplaced replicas."""
    left = a.replicas.copy()
    for r in range(len(application)):
        add(a, s, application[r], machine[r], replicas[r])
        left[application[r]] -= replicas[r]
    for i in range(len(left)):
        for _ in range(left[i]):
            s.pool[s.unplaced[0]] = i
            s.unplaced[0] += 1
