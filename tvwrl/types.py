"""What everything else speaks of: traces, workloads, machines, placements and episodes, with shape and unit per field.

Letters: N workloads, M machines, D resources, L slots of the longest window, R usage rows.
Units: a *unit* is the quantum of demand of one resource (a machine of the paper has 8 of each);
a *slot* is one time step; "fraction" means a fraction of the trace's reference machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]
Byte = npt.NDArray[np.uint8]
Word = npt.NDArray[np.uint64]
Strings = npt.NDArray[np.object_]


class InputError(ValueError):
    """Input from outside that cannot be used; the message names file, row, field and limit.

    Examples
    --------
    >>> Machines.homogeneous(0, 8, ["cpu"])
    Traceback (most recent call last):
    tvwrl.types.InputError: zero machines: a cluster needs at least one machine
    """


def summary(thing: object, **facts: object) -> str:
    """What `repr` shows of an object whose arrays would fill the screen.

    >>> summary(InputError(), rows=3, name="spread")
    "<InputError rows=3, name='spread'>"
    """
    return f"<{type(thing).__name__} {', '.join(f'{name}={value!r}' for name, value in facts.items())}>"


def size_of(capacity: Float) -> dict[str, object]:
    """How many machines have these capacities (M, D), and their capacity, or of how many kinds they are."""
    kinds = np.unique(capacity, axis=0).tolist()
    return {"machines": len(capacity), **({"capacity": kinds[0]} if len(kinds) == 1 else {"kinds": len(kinds)})}


@dataclass(frozen=True)
class Trace:
    """Recorded resource usage of a population of workloads, one row per workload and slot.

    The rows of workload `i` are `offsets[i]:offsets[i + 1]`, in rising `slot`; a slot may be missing (a gap).

    Parameters
    ----------
    name : str
        Name of the trace.
    resources : tuple of str
        (D,) names of the resources, such as ("cpu", "mem").
    slot_seconds : int
        Length of one slot, seconds, > 0.
    workload_id : array of str
        (N,) unique names of the workloads.
    offsets : array of int
        (N + 1,) first usage row of each workload; the last is R.
    slot : array of int
        (R,) slot number from the trace's start, strictly rising within a workload.
    usage : array of float
        (R, D) usage, fraction of the reference machine, >= 0.
    application : array of str
        (N,) application of each workload; those of one application are replicas, and "" is unknown.
    arrival : array of int
        (N,) slot in which each workload arrives.
    priority : array of float
        (N,) priority, NaN if unknown.
    scheduling_class : array of float
        (N,) column `class` of the trace (not the equivalence class), NaN if unknown.
    request : array of float
        (N, D) declared request, fraction of the reference machine, >= 0, NaN if unknown.
    reference_machine : any
        What 1.0 means, as written in trace.json.
    source : {"real", "synthetic"}
        Whether usage was recorded or generated.

    Examples
    --------
    >>> import tvwrl
    >>> trace = tvwrl.open_trace("synthetic:google")
    >>> len(trace), trace.resources, trace.slot_seconds
    (400, ('cpu', 'mem'), 300)
    """

    name: str
    resources: tuple[str, ...]
    slot_seconds: int
    workload_id: Strings
    offsets: Int
    slot: Int
    usage: Float
    application: Strings
    arrival: Int
    priority: Float
    scheduling_class: Float
    request: Float
    reference_machine: Any = None
    source: str = "real"

    def __len__(self) -> int:
        return len(self.workload_id)

    def __repr__(self) -> str:
        slots = int(self.slot.max(initial=-1)) + 1
        sizes = {"workloads": len(self), "rows": len(self.slot), "slots": slots, "slot_seconds": self.slot_seconds}
        return summary(self, name=self.name, **sizes, resources=self.resources, source=self.source)

    def series(self, i: int) -> Float:
        """Usage of one workload, shape (its rows, D), fraction of the reference machine.

        Parameters
        ----------
        i : int
            Number of the workload, 0..N - 1.
        """
        return self.usage[self.offsets[i] : self.offsets[i + 1]]

    def select(self, index: Sequence[int] | Int) -> Trace:
        """The same trace with some of its workloads only.

        Parameters
        ----------
        index : sequence of int
            (n,) numbers of the workloads, 0..N - 1, in the order that they are to have.
        """
        index = np.asarray(index, dtype=np.int64)
        rows = [np.arange(self.offsets[i], self.offsets[i + 1]) for i in index]
        row = np.concatenate([np.empty(0, np.int64), *rows])
        by_workload = ("workload_id", "application", "arrival", "priority", "scheduling_class", "request")
        return replace(
            self,
            offsets=np.cumsum([0, *map(len, rows)]),
            slot=self.slot[row],
            usage=self.usage[row],
            **{name: getattr(self, name)[index] for name in by_workload},
        )


@dataclass(frozen=True, eq=False)
class Workload:
    """One workload of an arrival sequence, as a scheduler is handed it.

    `demand` is the future: only schedulers whose name says so (`peak`, `clairvoyant`) may read past its first slot.
    """

    index: int  # position in the arrival sequence, 0..N-1
    workload_id: str  # unique within the sequence
    arrival: int  # slot
    demand: Float  # (length, D) units, > 0
    request: Float  # (D,) units, NaN = not declared

    def __repr__(self) -> str:
        return summary(self, workload_id=self.workload_id, arrival=self.arrival, length=self.length)

    @property
    def length(self) -> int:
        """Slots it runs once placed."""
        return len(self.demand)

    @property
    def first_demand(self) -> Float:
        """(D,) units: demand in its first slot."""
        first: Float = self.demand[0]
        return first

    @property
    def peak(self) -> Float:
        """(D,) units: largest demand of its life."""
        peak: Float = self.demand.max(axis=0)
        return peak


class Placement(NamedTuple):
    """A scheduler's decision: the waiting workload goes to the machine, from the current slot on."""

    workload: Workload
    machine: int  # 0..M-1


@dataclass(frozen=True)
class Machines:
    """The machines of a cluster; rows may differ (heterogeneous capacities)."""

    capacity: Float  # (M, D) units, > 0; a row of zeros: the machine is switched off
    resources: tuple[str, ...]  # (D,)

    @classmethod
    def homogeneous(cls, count: int, capacity: float | Sequence[float], resources: Sequence[str]) -> Machines:
        """`count` equal machines; `capacity` in units, one number or one per resource."""
        row = np.broadcast_to(np.asarray(capacity, dtype=np.float64), (len(resources),))
        return cls(np.tile(row, (count, 1)), tuple(resources))

    def __post_init__(self) -> None:
        if len(self.capacity) == 0:
            raise InputError("zero machines: a cluster needs at least one machine")
        off = (self.capacity == 0).all(axis=1)
        if off.all():
            raise InputError("all machines are switched off (capacity 0): a cluster needs at least one that is on")
        good = np.isfinite(self.capacity) & (self.capacity > 0) | off[:, None]
        if not good.all():
            machine, resource = np.argwhere(~good)[0]
            raise InputError(
                f"capacity of machine {machine}, {self.resources[resource]} is "
                f"{self.capacity[machine, resource]}: must be a finite number > 0, or all 0 (switched off)"
            )

    def __len__(self) -> int:
        return len(self.capacity)

    def __repr__(self) -> str:
        return summary(self, **size_of(self.capacity), resources=self.resources)

    def as_dicts(self) -> list[dict[str, float]]:
        """One `{resource: units}` per machine, as written to run.json."""
        return [dict(zip(self.resources, map(float, row), strict=True)) for row in self.capacity]


class MoveRules(NamedTuple):
    """When running workloads may move, and how long it takes: the fields of a `Scenario` in short."""

    per_slot: int  # most moves that are decided in a slot
    slots: int = 1  # from the decision to the first slot on the new machine, >= 1
    overlap: int = 0  # slots, from that one on, in which the old machine is booked too
    rest: int = 0  # slots, from that one on, in which the workload is not moved again
    immovable: float = 0.0  # share of the trace's workloads that never move

    def pinned(self, source_workload: Strings) -> Bool:
        """Which workloads never move (same shape), from the names of their series in the trace.

        >>> MoveRules(1, immovable=0.5).pinned(np.array(["a", "b", "c", "d"], dtype=object)).tolist()
        [False, False, True, True]
        """
        limit = self.immovable * 2**32
        known = {name: zlib.crc32(str(name).encode()) < limit for name in set(source_workload.ravel().tolist())}
        found = [known[name] for name in source_workload.ravel().tolist()]
        return np.array(found, np.bool_).reshape(source_workload.shape)


class Move(NamedTuple):
    """A scheduler's decision: the running workload goes to another machine, `move_slots` after the current slot."""

    workload: int  # its position in the arrival sequence, 0..N-1
    machine: int  # 0..M-1


@dataclass(frozen=True)
class Moves:
    """The n moves of an episode in the order in which they were decided, and the rules that they were decided under.

    A workload that has finished by `slot` ends where it was; its move was decided and is paid for all the same.
    """

    workload: Int  # (n,) position in the episode, 0..N-1
    slot: Int  # (n,) first slot on the new machine
    source: Int  # (n,) 0..M-1
    target: Int  # (n,) 0..M-1
    rules: MoveRules

    def __len__(self) -> int:
        return len(self.workload)


class Stays(NamedTuple):
    """Where workloads ran: one entry for each machine that one of them came to, in slots `begin <= t < end`."""

    workload: Int  # (k,) position in the episode
    machine: Int  # (k,)
    begin: Int  # (k,) slot
    end: Int  # (k,) slot, exclusive


@dataclass(frozen=True)
class Episode:
    """What was placed where and when: the record that every metric is recomputed from.

    Slots count from the episode's start; workload i runs in slots `start[i] <= t < finish[i]`, on `machine[i]` until it
    is moved.
    """

    workload_id: Strings  # (N,)
    source_workload: Strings  # (N,) series of the trace that the window was cut from
    source_slot: Int  # (N,) first input slot of the window
    arrival: Int  # (N,) slot
    start: Int  # (N,) slot, -1 = never placed
    finish: Int  # (N,) slot, exclusive, -1 = never placed
    machine: Int  # (N,) 0..M-1, the first one, -1 = never placed
    demand: tuple[Float, ...]  # N of (length, D) units
    scheduler: str = ""
    load: float = 0.0  # requested offered load
    sequence: int = 0
    decision_ms: float = 0.0  # mean wall-clock time of one decision, milliseconds
    resources: tuple[str, ...] = field(default=("cpu", "mem"))
    background: npt.NDArray[np.uint8] | None = None  # (P, M, D) as of a SequenceSet
    moves: Moves | None = None  # None: nothing may be moved

    def stays(self) -> Stays:
        """Where what was placed ran, and when; in the order of workloads, and of slots for each of them.

        >>> episode.stays().machine  # doctest: +SKIP
        """
        workload = np.flatnonzero(self.start >= 0)
        machine, begin = self.machine[workload], self.start[workload]
        moves = self.moves
        if moves is None or not len(moves):
            return Stays(workload, machine, begin, self.finish[workload])
        took_effect = moves.slot < self.finish[moves.workload]
        workload = np.concatenate([workload, moves.workload[took_effect]])
        machine = np.concatenate([machine, moves.target[took_effect]])
        begin = np.concatenate([begin, moves.slot[took_effect]])
        order = np.lexsort((begin, workload))
        workload, machine, begin = workload[order], machine[order], begin[order]
        end = self.finish[workload]
        moved_on = np.flatnonzero(workload[1:] == workload[:-1])
        end[moved_on] = np.minimum(end[moved_on], begin[moved_on + 1] + moves.rules.overlap)
        return Stays(workload, machine, begin, end)

    def __repr__(self) -> str:
        played = {"scheduler": self.scheduler, "load": self.load, "sequence": self.sequence}
        placed = int((self.start >= 0).sum())
        return summary(self, **played, workloads=len(self.start), placed=placed, slots=int(self.finish.max(initial=0)))


@dataclass(frozen=True)
class ForecastTable:
    """Forecasts of demand ahead of an episode, in K columns as of `tvwrl.forecasting.segments.Forecast`, and in D more
    columns the lifetime peaks, for those who may know them."""

    values: npt.NDArray[np.uint8] | npt.NDArray[np.uint16]  # (S, N, L + 1, K + D) whole steps, after that many slots
    # seen (0 = waiting)
    steps: npt.NDArray[np.float32]  # (K + D,) what 1 stands for: shares of peak_units (variances: squared), or of 1
    peaks: Int  # (3, D) columns of the forecast peak of the rest of a life, its variance, and the lifetime peak

    def __repr__(self) -> str:
        sequences, workloads, _, columns = self.values.shape
        return summary(self, sequences=sequences, workloads=workloads, columns=columns)

    def told(self, forecasts: bool = True, peaks: bool = True) -> Int:
        """(K,) which column of `values` to read for each of a forecast, if one is told `forecasts`, `peaks`, or both.

        A known peak takes the place of its forecast and has no variance. -1: none; `take` reads 0.
        """
        width = len(self.steps) - self.peaks.shape[1]
        found = np.arange(width) if forecasts else np.full(width, -1)
        if peaks:
            expected, variance, lifetime = self.peaks
            found[expected], found[variance] = lifetime, -1
        return found


def take(values: npt.NDArray[Any], columns: Int) -> npt.NDArray[Any]:
    """(..., K) the columns (K,) of `values`, 0 for column -1."""
    taken: npt.NDArray[Any] = np.take(values, columns, axis=-1)
    taken[..., columns < 0] = 0
    return taken


@dataclass(frozen=True)
class SequenceSet:
    """S arrival sequences of N workloads each: what an episode is played on.

    Windows shorter than L slots are padded with zero demand; arrivals rise within a sequence.
    """

    resources: tuple[str, ...]  # (D,)
    workload_id: Strings  # (S, N) unique within a sequence
    source_workload: Strings  # (S, N) series of the trace that the window was cut from
    source_slot: Int  # (S, N) first input slot of the window
    arrival: Int  # (S, N) slot, rising
    length: Int  # (S, N) slots, 1..L
    demand: Float  # (S, N, L, D) units, > 0 while it runs, 0 after
    request: Float  # (S, N, D) units, NaN = not declared: what stands in is demand in the first slot x `request_factor`
    label: npt.NDArray[np.uint8]  # (S, N, L + 1) class 1..G predicted after that many slots seen (0 = waiting)
    classes: int  # G
    load: float  # requested offered load
    forecast: ForecastTable | None = None  # of every workload's demand, where somebody asks for it
    background: npt.NDArray[np.uint8] | None = None  # (S, P, M, D) units of unknown load; slot t has row t % P
    training: Callable[[], SequenceSet] | None = None  # draws training sequences of the same problem, to sample futures
    request_factor: Float | None = None  # (D,) 1 or more; None: 1

    def __len__(self) -> int:
        return len(self.arrival)

    def __repr__(self) -> str:
        sizes = dict(zip(("sequences", "workloads", "slots"), self.demand.shape, strict=False))
        return summary(self, **sizes, load=self.load, classes=self.classes, resources=self.resources)

    def workload(self, sequence: int, i: int) -> Workload:
        """Workload `i` of a sequence."""
        return Workload(
            index=i,
            workload_id=self.workload_id[sequence, i],
            arrival=int(self.arrival[sequence, i]),
            demand=self.demand[sequence, i, : self.length[sequence, i]],
            request=self.request[sequence, i],
        )
