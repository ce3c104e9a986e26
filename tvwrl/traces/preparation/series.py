"""Makes series of slots out of usage records: drops duplicates, fills gaps, sums members, drops short stretches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tvwrl.checks import at_least, one_of
from tvwrl.compiled import njit
from tvwrl.deferring import deferred
from tvwrl.types import Bool, Float, Int, Word

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")


@njit(nogil=True)
def sorted_rows(rows: Word, group: Int, groups: int) -> Word:
    """`rows` (R, C) sorted by `group` (R,), 0..groups - 1, ties in their order: one pass to count, one to place."""
    place = np.zeros(groups + 1, np.int64)
    for i in group:
        place[i + 1] += 1
    for i in range(groups):
        place[i + 1] += place[i]
    result = np.empty_like(rows)
    for row in range(len(rows)):
        to = place[group[row]]
        place[group[row]] += 1
        for column in range(rows.shape[1]):
            result[to, column] = rows[row, column]
    return result


@njit(nogil=True)
def number_distinct(values: Word) -> tuple[Int, Int]:
    """Numbers (R,) of the distinct `values` (R,) uint64 in order of appearance, and the row of each first one."""
    size = 1 << 12
    slots, table = np.full(size, -1, np.int64), np.empty(size, np.uint64)
    number, first, count = np.empty(len(values), np.int64), np.empty(size // 2, np.int64), 0
    for row in range(len(values)):
        value = values[row]
        place = np.int64(value & np.uint64(size - 1))
        while slots[place] >= 0 and table[place] != value:
            place = (place + 1) & (size - 1)
        if slots[place] < 0:
            if count == size // 2:  # half full: twice the size
                size *= 2
                slots, old = np.full(size, -1, np.int64), first
                table, first = np.empty(size, np.uint64), np.empty(size // 2, np.int64)
                for k in range(count):
                    first[k] = old[k]
                    place = np.int64(values[old[k]] & np.uint64(size - 1))
                    while slots[place] >= 0:
                        place = (place + 1) & (size - 1)
                    slots[place], table[place] = k, values[old[k]]
                place = np.int64(value & np.uint64(size - 1))
                while slots[place] >= 0:
                    place = (place + 1) & (size - 1)
            slots[place], table[place], first[count] = count, value, row
            count += 1
        number[row] = slots[place]
    return number, first[:count]


Records = NDArray[np.void]

MICRO = 1_000_000  # microseconds, in which loaders give times
TOO_SHORT = "workloads without a stretch of --min-records"


@dataclass(frozen=True)
class SeriesRules:
    """How records become series. `longest_gap` is in slots, `min_records` in records of the source."""

    slot_seconds: int
    gaps: Literal["drop", "hold", "interpolate"] = "hold"
    longest_gap: int = 3
    min_records: int = 288

    def __post_init__(self) -> None:
        at_least(1, slot_seconds=self.slot_seconds, min_records=self.min_records)
        at_least(0, longest_gap=self.longest_gap)
        one_of(("drop", "hold", "interpolate"), gaps=self.gaps)


@dataclass
class Slots:
    """Usage by owner and slot, sorted by both; an owner is a row of some table of keys."""

    owner: Int  # (R,)
    slot: Int  # (R,)
    usage: Float  # (R, D)
    records: Int  # (R,) records of the source that begin in a slot
    recorded: Bool  # (R,) whether a record lies in a slot; else it is filled

    def first_rows(self) -> Int:
        """(owners,) first row of each owner."""
        return np.flatnonzero(_changes(self.owner))

    def take(self, rows: Int) -> Slots:
        """Some of the rows."""
        return Slots(*(column[rows] for column in vars(self).values()))


def _changes(*columns: Int) -> Bool:
    """(R,) whether a row differs from the one before it in any of the columns (R,); the first does."""
    differs = np.zeros(len(columns[0]), np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return differs


def _repeated(times: Int) -> tuple[Int, Int]:
    """Row r repeated `times[r]` times: the row numbers, and the repetition (0, 1, ...) that each stands for."""
    row = np.repeat(np.arange(len(times)), times)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)


def record_type(resources: Sequence[str]) -> np.dtype[Any]:
    """A record of usage: the number of its owner, from when to when (microseconds), a value per resource."""
    return np.dtype([("owner", "<u8"), ("begin", "<i8"), ("end", "<i8"), *((name, "<f8") for name in resources)])


def sorted_records(records: Records, group: Int, groups: int) -> Records:
    """(R,) records sorted by `group` (R,), 0..groups - 1, ties in their order."""
    words = records.view(np.uint64).reshape(len(records), records.itemsize // 8)
    result: Records = sorted_rows(words, group, groups).reshape(-1).view(records.dtype)
    return result


def make_series(
    records: Records, names: pl.DataFrame, keys: list[str], members: list[str], rules: SeriesRules, origin: int
) -> tuple[pl.DataFrame, Slots, int, Counter[str]]:
    """Workloads (a frame of `keys`), their slots from slot `origin`, records of the longest stretch, what was dropped.

    `records` (R,) are of `record_type`; `names` has keys and members for each `owner`. A slot is the mean of its
    records weighted by how long they lie in it. Gaps of at most `longest_gap` slots are held or interpolated; longer
    ones stay, and the stretches between them in which fewer than `min_records` records begin are dropped. Members are
    filled each by itself and then summed. The order of the records makes no difference.
    """
    table, owner, records = _by_owner(records, names, [*keys, *members])
    owner, records, counts = _one_at_a_time(owner, records)
    usage = np.column_stack([records[name] for name in (records.dtype.names or ())[3:]])
    slots = _fill(_to_slots(owner, records["begin"], records["end"], usage, rules.slot_seconds * MICRO, origin), rules)
    if members:
        new = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in keys)
        row = table.select(new.fill_null(True).cum_sum().cast(pl.Int64) - 1).to_series().to_numpy()
        slots, table = _sum_members(slots, row), table.unique(keys, keep="first", maintain_order=True).select(keys)
    kept, longest = _long_stretches(slots, rules.min_records)
    present = kept.owner[kept.first_rows()]
    counts[TOO_SHORT] += len(table) - len(present)
    counts["slots in stretches below --min-records"] += len(slots.owner) - len(kept.owner)
    if len(present) < len(table):
        kept.owner = np.searchsorted(present, kept.owner)
    return table[present], kept, longest, +counts


def _by_owner(records: Records, names: pl.DataFrame, columns: list[str]) -> tuple[pl.DataFrame, Int, Records]:
    """Owners (a frame of `columns`, sorted), and the records sorted by owner with the row of each one's owner (R,)."""
    number, first = number_distinct(np.ascontiguousarray(records["owner"]))
    seen = pl.DataFrame({"owner": records["owner"][first], "number": np.arange(len(first))})
    table = seen.join(names, on="owner").sort(columns)
    place = np.empty(len(first), np.int64)
    place[table["number"].to_numpy()] = np.arange(len(first))
    owner = place[number]
    records = sorted_records(records, owner, len(table))
    owner = np.repeat(np.arange(len(table)), np.bincount(owner, minlength=len(table)))
    return table.select(columns), owner, records


def _one_at_a_time(owner: Int, records: Records) -> tuple[Int, Records, Counter[str]]:
    """Records sorted by owner and time, and one of those of an owner that begin at the same moment.

    Kept is the one that ends last, of these the one with the most of the first resource, of the second, ...
    """
    counts: Counter[str] = Counter()
    begin = records["begin"]
    if not ((owner[1:] == owner[:-1]) & (begin[1:] <= begin[:-1])).any():  # as a rule: files are sorted by time
        return owner, records, counts
    names = records.dtype.names or ()
    order = np.lexsort((*(records[name] for name in reversed(names[1:])), owner))
    owner, records = owner[order], records[order]
    same = [owner[1:] == owner[:-1], *(records[name][1:] == records[name][:-1] for name in names[1:])]
    together = same[0] & same[1]
    counts["duplicated rows"] = int(np.all(same, axis=0).sum())
    counts["rows of the same time as another"] = int(together.sum()) - counts["duplicated rows"]
    last = np.append(~together, True)
    return owner[last], records[last], +counts


def _to_slots(owner: Int, begin: Int, end: Int, usage: Float, length: int, origin: int) -> Slots:
    """Records sorted by owner and begin (microseconds), put into slots of `length`."""
    slot = begin // length
    more = np.maximum(end - 1, begin) // length - slot  # slots that a record reaches into after its first
    if more.any():
        row, further = _repeated(more + 1)
        slot = slot[row] + further
        order = np.lexsort((slot, owner[row]))
        row, slot = row[order], slot[order]
        owner, begin, end, usage = owner[row], begin[row], end[row], usage[row]
    starts = _changes(owner, slot)
    begins, recorded = (begin // length == slot).astype(np.int64), np.ones(int(starts.sum()), np.bool_)
    if starts.all():
        return Slots(owner, slot - origin, usage, begins, recorded)
    overlap = np.minimum(end, (slot + 1) * length) - np.maximum(begin, slot * length)
    weight = np.where(end > begin, overlap, 1).astype(np.float64)
    first = np.flatnonzero(starts)
    several = np.diff(np.append(first, len(owner))) > 1
    sums = np.add.reduceat(usage * weight[:, None], first, axis=0)
    mean = np.where(several[:, None], sums / np.add.reduceat(weight, first)[:, None], usage[first])
    return Slots(owner[first], slot[first] - origin, mean, np.add.reduceat(begins, first), recorded)


def _fill(slots: Slots, rules: SeriesRules) -> Slots:
    """With the short gaps filled."""
    same = slots.owner[1:] == slots.owner[:-1]
    gap = np.append(np.where(same, slots.slot[1:] - slots.slot[:-1] - 1, 0), 0)[: len(slots.owner)]
    gap[gap > rules.longest_gap] = 0
    if rules.gaps == "drop" or not gap.any():
        return slots
    row, after = _repeated(gap + 1)  # slots after the recorded one
    usage = slots.usage[row]
    if rules.gaps == "interpolate":
        following = slots.usage[np.minimum(row + 1, len(gap) - 1)]
        usage = usage + (following - usage) * (after / (gap[row] + 1))[:, None]
    records = np.where(after == 0, slots.records[row], 0)
    return Slots(slots.owner[row], slots.slot[row] + after, usage, records, after == 0)


def _sum_members(slots: Slots, row: Int) -> Slots:
    """Members of the same workload `row[owner]` added up slot by slot; records are those of the member with most."""
    owner = row[slots.owner]
    order = np.lexsort((slots.slot, owner))
    owner, slot = owner[order], slots.slot[order]
    first = np.flatnonzero(_changes(owner, slot))
    if not len(first):
        return slots
    return Slots(
        owner[first],
        slot[first],
        np.add.reduceat(slots.usage[order], first, axis=0),
        np.maximum.reduceat(slots.records[order], first),
        np.logical_or.reduceat(slots.recorded[order], first),
    )


def _long_stretches(slots: Slots, min_records: int) -> tuple[Slots, int]:
    """Only stretches without a gap in which at least `min_records` records begin; and the most that do in one."""
    if not len(slots.owner):
        return slots, 0
    starts = _changes(slots.owner, slots.slot - np.arange(len(slots.slot)))  # within a stretch slots rise by one
    begins = np.flatnonzero(starts)
    records = np.add.reduceat(slots.records, begins)
    enough, longest = records >= min_records, int(records.max())
    if enough.all():
        return slots, longest
    kept = np.flatnonzero(np.repeat(enough, np.diff(np.append(begins, len(starts)))))
    return slots.take(kept), longest
