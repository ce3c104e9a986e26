"""What agents see of a cluster: label grids, drawn as the slots pass, and the observation that is read off them.

Compiled; see `episode_kernels` for the clock that calls these.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inlined, njit
from tvwrl.simulation.move_kernels import machine_after, may_move, not_overshot, slots_seen
from tvwrl.simulation.state import (
    BACKGROUND_LABEL,
    GOES_TO,
    MACHINE,
    NO_MACHINE,
    OF_RUNNING,
    PHASE,
    RUN_FRESH,
    RUN_LABEL,
    RUN_MACHINE,
    RUN_MOVABLE,
    RUN_SEEN,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    START,
    USAGE_DELAY,
    WAITING,
    WAITS,
    State,
)

ALL_BITS, EVERY_BYTE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0x0101010101010101)


# Label grids: per machine and resource, a row for each of the last h slots. A row has a pixel per unit of capacity: the
# class of the workload that uses it, 0 where it is free.


@njit(inline="always", _nrt=False)
def row_of(s: State, slot: int) -> int:
    """Row of the grid's ring that shows `slot`, -1 without grids."""
    return slot % s.grid.shape[1] if s.grid.shape[1] > 0 else -1


@njit(inline="always", _nrt=False)
def _fill(s: State, b: int, row: int, m: int, d: int, demand: float, label: int) -> None:
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
def draw(s: State, b: int, w: int, m: int, sequence: int, slot: int, row: int) -> None:
    """Add running workload w to the current row of machine m, in order of start."""
    age = slot - s.workloads[b, w, START]
    label = s.label[sequence, w, age + 1]
    for d in range(s.capacity.shape[1]):
        _fill(s, b, row, m, d, float(s.demand[sequence, w, age, d]), label)


@njit(inline="always", _nrt=False)
def draw_background(s: State, b: int, slot: int, row: int) -> None:
    """Add the unknown load to the current row of every machine, before any workload."""
    unknown = s.background[s.counters[b, SEQUENCE], slot % s.background.shape[1]]
    for m in range(unknown.shape[0]):
        for d in range(unknown.shape[1]):
            if unknown[m, d] > 0:
                _fill(s, b, row, m, d, float(unknown[m, d]), s.rules[BACKGROUND_LABEL])


@njit(inline="always", _nrt=False)
def clear_row(s: State, b: int, row: int) -> None:
    """Begin a row without workloads."""
    for dimension in range(s.blank.shape[0]):
        for c in range(s.blank.shape[1]):
            s.words[b, row, dimension, c] = s.blank[dimension, c]


@njit(inline="always", _nrt=False)
def begin_row(s: State, b: int, slot: int) -> int:
    """Begin the row of `slot`, before anything is drawn in it. Returns its number, -1 without grids."""
    row = row_of(s, slot)
    for dimension in range(s.square.shape[1]):
        s.square[b, dimension] = 0.0
        s.filled[b, dimension] = 0
    if row >= 0:
        clear_row(s, b, row)
    return row


@inlined(_nrt=False)
def _observe_running(s: State, b: int) -> None:
    """Write what is seen of the first workloads that run, where they may be moved, and which decision is due."""
    s.seen_phase[b, 0] = s.counters[b, PHASE]
    sequence, resources, columns = s.counters[b, SEQUENCE], s.capacity.shape[1], s.seen_forecast.shape[2]
    for i in range(s.seen_running.shape[1]):
        for c in range(s.seen_running.shape[2]):
            s.seen_running[b, i, c] = 0.0
        if i >= s.counters[b, RUNNING]:
            continue
        w = s.workloads[b, i, RUNS]
        seen = slots_seen(s, b, w)
        s.seen_running[b, i, RUN_LABEL] = s.label[sequence, w, seen]
        s.seen_running[b, i, RUN_MACHINE] = machine_after(s, b, w)
        s.seen_running[b, i, RUN_SEEN] = seen
        s.seen_running[b, i, RUN_MOVABLE] = may_move(s, b, w)
        s.seen_running[b, i, RUN_FRESH] = not_overshot(s, b, w)
        for d in range(resources):
            if seen > 0:
                s.seen_running[b, i, OF_RUNNING + d] = s.demand[sequence, w, seen - 1, d]
        for c in range(columns):
            own = s.forecast[sequence, w, seen, c] * s.steps[c]
            s.seen_running[b, i, OF_RUNNING + resources + c] = own


@njit(inline="always", _nrt=False)
def _observe_grid(s: State, b: int, m: int) -> None:
    """Write the last rows of machine m's grids that are seen yet, the oldest first."""
    _, _, resources, history, words = s.seen_words.shape
    ring = s.grid.shape[1]
    for r in range(history):
        row = (s.counters[b, SLOT] + 1 + r) % ring
        for d in range(resources):
            for c in range(words):
                s.seen_words[b, m, d, r, c] = s.words[b, row, m * resources + d, c]


@inlined(_nrt=False)
def observe(s: State, b: int, known: int) -> None:
    """Write the observation of environment b: the last h rows of every grid that are seen yet, the queue, and the
    forecasts of what runs on each machine or is on its way there, each as of the last slot of it that is seen.

    `known`: how many of what runs, in the order of start, were there when it was written last, if nothing has changed
        since then but for what waits and for those placed after them; 0 for all other changes
    """
    machines = s.seen_words.shape[1]
    if known == 0:
        for m in range(machines):
            _observe_grid(s, b, m)
    else:
        for i in range(known, s.counters[b, RUNNING]):
            _observe_grid(s, b, s.workloads[b, s.workloads[b, i, RUNS], MACHINE])

    _, places, features = s.seen_queue.shape
    sequence, slot, waiting = s.counters[b, SEQUENCE], s.counters[b, SLOT], s.counters[b, WAITING]
    for q in range(places):
        w = s.workloads[b, q, WAITS] if q < waiting else 0
        s.seen_queue[b, q, 0] = s.label[sequence, w, 0] if q < waiting else 0
        for f in range(1, features):
            s.seen_queue[b, q, f] = s.feature[sequence, w, f - 1] if q < waiting else 0.0
    s.seen_backlog[b, 0] = max(waiting - places, 0)

    _observe_running(s, b)
    columns = s.seen_forecast.shape[2]  # 0: none are asked for
    if columns == 0:
        return
    if known == 0:
        for m in range(machines):
            for c in range(columns):
                s.seen_forecast[b, m, c] = 0.0
    for i in range(known, s.counters[b, RUNNING]):
        w = s.workloads[b, i, RUNS]
        m = s.workloads[b, w, MACHINE]
        if s.transit.shape[1] > 0 and s.transit[b, w, GOES_TO] != NO_MACHINE:
            m = s.transit[b, w, GOES_TO]
        seen = max(slot - s.workloads[b, w, START] + 1 - s.rules[USAGE_DELAY], 0)
        for c in range(columns):
            s.seen_forecast[b, m, c] += s.forecast[sequence, w, seen, c] * s.steps[c]
