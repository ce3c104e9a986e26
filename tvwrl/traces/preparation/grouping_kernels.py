"""Compiled loops that group rows: sort them by group, and number distinct values."""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import njit


@njit(nogil=True)
def sorted_rows(rows, group, groups):  # type: ignore[no-untyped-def]
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
def number_distinct(values):  # type: ignore[no-untyped-def]
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
