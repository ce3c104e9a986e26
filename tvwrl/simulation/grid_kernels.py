"""Compiled drawing of the label grids: per machine and resource, a row for each of the last h slots.

A row has a pixel per unit of capacity: the class of the workload that uses it, 0 where it is free. The clock inlines
these kernels: see `clock_kernels` on how they index the arrays of `State`.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import njit
from tvwrl.simulation.state import BACKGROUND_LABEL, MACHINE, SEQUENCE, SLOT, START

ALL_BITS, EVERY_BYTE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0x0101010101010101)


@njit(inline="always", _nrt=False)
def row_of(s, slot):  # type: ignore[no-untyped-def]
    """Row of the grid's ring that shows `slot`, -1 without grids."""
    return slot % s.grid.shape[1] if s.grid.shape[1] > 0 else -1


@njit(inline="always", _nrt=False)
def _fill(s, b, row, m, d, demand, label):  # type: ignore[no-untyped-def]
    """Add one demand to the current row: the next free pixels, and its square."""
    dimension = m * s.capacity.shape[1] + d
    s.square[b, dimension] += demand * demand
    if row >= 0:
        first = s.filled[b, dimension]
        last = min(first + max(int(demand + 0.5), 1), int(s.capacity[m, d]))
        if s.words.shape[3] == 1 and s.grid.shape[3] == 8:
            if last > first:  # a row of 8 pixels is one number: avoids a loop that mispredicts its end
                pixels = (ALL_BITS >> np.uint64(64 - 8 * (last - first))) << np.uint64(8 * first)
                s.words[b, row, dimension, 0] |= np.uint64(label) * EVERY_BYTE & pixels
        else:
            for c in range(first, last):
                s.grid[b, row, dimension, c] = label
        s.filled[b, dimension] = last


@njit(inline="always", _nrt=False)
def draw(s, b, w, sequence, slot, row):  # type: ignore[no-untyped-def]
    """Add running workload w to the current row, in order of start."""
    m = s.workloads[b, w, MACHINE]
    age = slot - s.workloads[b, w, START]
    label = s.label[sequence, w, age + 1]
    for d in range(s.capacity.shape[1]):
        _fill(s, b, row, m, d, float(s.demand[sequence, w, age, d]), label)


@njit(inline="always", _nrt=False)
def draw_background(s, b, slot, row):  # type: ignore[no-untyped-def]
    """Add the unknown load to the current row of every machine, before any workload."""
    unknown = s.background[s.counters[b, SEQUENCE], slot % s.background.shape[1]]
    for m in range(unknown.shape[0]):
        for d in range(unknown.shape[1]):
            if unknown[m, d] > 0:
                _fill(s, b, row, m, d, float(unknown[m, d]), s.rules[BACKGROUND_LABEL])


@njit(inline="always", _nrt=False)
def clear_row(s, b, row):  # type: ignore[no-untyped-def]
    """Begin a row without workloads."""
    for dimension in range(s.blank.shape[0]):
        for c in range(s.blank.shape[1]):
            s.words[b, row, dimension, c] = s.blank[dimension, c]


@njit(inline="always", _nrt=False)
def begin_row(s, b, slot):  # type: ignore[no-untyped-def]
    """Begin the row of `slot`, before anything is drawn in it. Returns its number, -1 without grids."""
    row = row_of(s, slot)
    for dimension in range(s.square.shape[1]):
        s.square[b, dimension] = 0.0
        s.filled[b, dimension] = 0
    if row >= 0:
        clear_row(s, b, row)
    return row


@njit(inline="always", _nrt=False)
def show_grid(s, b):  # type: ignore[no-untyped-def]
    """Copy the last h rows of every grid that are seen yet to the observation of environment b."""
    _, machines, resources, history, words = s.seen_words.shape
    ring = s.grid.shape[1]
    for r in range(history):
        row = (s.counters[b, SLOT] + 1 + r) % ring  # the oldest row first
        for m in range(machines):
            for d in range(resources):
                for c in range(words):
                    s.seen_words[b, m, d, r, c] = s.words[b, row, m * resources + d, c]
