"""Makes series of slots out of usage records: duplicates, slots, gaps, members summed up, stretches long enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tvwrl.traces.preparation.kernels import number_distinct, sorted_rows
from tvwrl.types import Float, InputError, Int

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
        for name, lowest in (("slot_seconds", 1), ("longest_gap", 0), ("min_records", 1)):
            if getattr(self, name) < lowest:
                raise InputError(f"{name} is {getattr(self, name)}: must be at least {lowest}")
        if self.gaps not in ("drop", "hold", "interpolate"):
            raise InputError(f"gaps is '{self.gaps}': must be drop, hold or interpolate")


@dataclass
class Slots:
    """Usage by owner and slot, sorted by both; an owner is a row of some table of keys."""

    owner: Int  # (R,)
    slot: Int  # (R,)
    usage: Float  # (R, D)
    records: Int  # (R,) records of the source behind a slot, 0 = filled

    def first_rows(self) -> Int:
        """(owners,) first row of each owner."""
        return np.flatnonzero(np.append(True, self.owner[1:] != self.owner[:-1])[: len(self.owner)])

    def take(self, rows: Int | slice) -> Slots:
        """Some of the rows."""
        return Slots(self.owner[rows], self.slot[rows], self.usage[rows], self.records[rows])


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

    `records` (R,) are of `record_type`; `names` has keys and members for each `owner`.
    Records of one owner with the same begin are duplicates; the first is kept. A slot is the mean of its records
    weighted by how long they lie in it. Gaps of at most `longest_gap` slots are held or interpolated; longer ones
    stay, and the stretches between them with fewer than `min_records` records are dropped. Members are filled each
    by itself and then summed.
    """
    counts: Counter[str] = Counter()
    owners = [*keys, *members]
    number, first = number_distinct(np.ascontiguousarray(records["owner"]))
    seen = pl.DataFrame({"owner": records["owner"][first], "number": np.arange(len(first))})
    table = seen.join(names, on="owner").sort(owners)
    place = np.empty(len(first), np.int64)
    place[table["number"].to_numpy()] = np.arange(len(first))
    table = table.select(owners)
    owner = place[number]
    records = sorted_records(records, owner, len(table))
    owner = np.repeat(np.arange(len(table)), np.bincount(owner, minlength=len(table)))
    begin = records["begin"]
    if ((owner[1:] == owner[:-1]) & (begin[1:] < begin[:-1])).any():  # seldom: files are sorted by time
        order = np.lexsort((records["end"], begin, owner))
        owner, records = owner[order], records[order]
        begin = records["begin"]
    double = np.append(False, (owner[1:] == owner[:-1]) & (begin[1:] == begin[:-1]))[: len(owner)]
    if double.any():
        counts["duplicated rows"] += int(double.sum())
        owner, records = owner[~double], records[~double]
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


def _to_slots(owner: Int, begin: Int, end: Int, usage: Float, length: int, origin: int) -> Slots:
    """Records sorted by owner and begin (microseconds), put into slots of `length`."""
    slot = begin // length
    more = np.maximum(end - 1, begin) // length - slot  # slots that a record reaches into after its first
    if more.any():
        row = np.repeat(np.arange(len(owner)), more + 1)
        slot = slot[row] + np.arange(len(row)) - np.repeat(np.cumsum(more + 1) - more - 1, more + 1)
        order = np.lexsort((slot, owner[row]))
        row, slot = row[order], slot[order]
        owner, begin, end, usage = owner[row], begin[row], end[row], usage[row]
    starts = np.append(True, (owner[1:] != owner[:-1]) | (slot[1:] != slot[:-1]))[: len(owner)]
    if starts.all():
        return Slots(owner, slot - origin, usage, np.ones(len(owner), np.int64))
    overlap = np.minimum(end, (slot + 1) * length) - np.maximum(begin, slot * length)
    weight = np.where(end > begin, overlap, 1).astype(np.float64)
    first = np.flatnonzero(starts)
    records = np.diff(np.append(first, len(owner)))
    sums = np.add.reduceat(usage * weight[:, None], first, axis=0)
    mean = np.where((records > 1)[:, None], sums / np.add.reduceat(weight, first)[:, None], usage[first])
    return Slots(owner[first], slot[first] - origin, mean, records)


def _fill(slots: Slots, rules: SeriesRules) -> Slots:
    """With the short gaps filled."""
    same = slots.owner[1:] == slots.owner[:-1]
    gap = np.append(np.where(same, slots.slot[1:] - slots.slot[:-1] - 1, 0), 0)[: len(slots.owner)]
    gap[gap > rules.longest_gap] = 0
    if rules.gaps == "drop" or not gap.any():
        return slots
    row = np.repeat(np.arange(len(gap)), gap + 1)
    after = np.arange(len(row)) - np.repeat(np.cumsum(gap + 1) - gap - 1, gap + 1)  # slots after the recorded one
    usage = slots.usage[row]
    if rules.gaps == "interpolate":
        following = slots.usage[np.minimum(row + 1, len(gap) - 1)]
        usage = usage + (following - usage) * (after / (gap[row] + 1))[:, None]
    records = np.where(after == 0, slots.records[row], 0)
    return Slots(slots.owner[row], slots.slot[row] + after, usage, records)


def _sum_members(slots: Slots, row: Int) -> Slots:
    """Members of the same workload `row[owner]` added up slot by slot."""
    owner = row[slots.owner]
    order = np.lexsort((slots.slot, owner))
    owner, slot = owner[order], slots.slot[order]
    starts = np.flatnonzero(np.r_[True, (owner[1:] != owner[:-1]) | (slot[1:] != slot[:-1])][: len(owner)])
    usage = np.add.reduceat(slots.usage[order], starts, axis=0) if len(starts) else slots.usage
    records = np.maximum.reduceat(slots.records[order], starts) if len(starts) else slots.records
    return Slots(owner[starts], slot[starts], usage, records)


def _long_stretches(slots: Slots, min_records: int) -> tuple[Slots, int]:
    """Only stretches without a gap that hold at least `min_records` records; and the most that one holds."""
    if not len(slots.owner):
        return slots, 0
    starts = np.append(True, (slots.owner[1:] != slots.owner[:-1]) | (slots.slot[1:] != slots.slot[:-1] + 1))
    begins = np.flatnonzero(starts)
    records = np.add.reduceat(slots.records, begins)
    enough, longest = records >= min_records, int(records.max())
    if enough.all():
        return slots, longest
    kept = np.flatnonzero(np.repeat(enough, np.diff(np.append(begins, len(starts)))))
    return slots.take(kept), longest
