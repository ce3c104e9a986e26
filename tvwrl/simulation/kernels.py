"""Compiled clock of the cluster: arrivals, the waiting queue, placements, departures, penalties, the label grid.

Every array of `State` that changes has a leading batch axis B; the same functions serve one environment and thousands.

A slot t goes: `_open_slot` (departures, arrivals, what runs is drawn), decisions (`place`), `_close_slot` (penalties).
So a decision in slot t sees the usage of slot t, and what it places counts in slot t.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tvwrl.packing.book import book
from tvwrl.packing.fit import exceeds
from tvwrl.penalties import contention, overshoot, under_utilisation, wait

# Columns of `counters`
SEQUENCE, SLOT, ARRIVED, WAITING, RUNNING, PLACED, UNFINISHED, OVER, IDLE, STREAM = range(10)
COUNTERS = 10
# Values of counters[OVER]
GOING, TERMINATED, TRUNCATED = range(3)
# Columns of `timing`
ARRIVAL, LENGTH = range(2)
# Columns of `workloads`: facts of workload i, and row i of the waiting and running lists
MACHINE, START, OVERSHOT, WAITS, RUNS = range(5)
WORKLOAD_COLUMNS = 5
# Columns of `machines`: workloads running, the machine's own overshoot bits
ACTIVE, MACHINE_OVERSHOT = range(2)
MACHINE_COLUMNS = 2
# Columns of `totals`: the four penalties since the last decision, then the slots passed
CONTENTION, UNDER_UTILISATION, OVERSHOOT, WAIT, SLOTS = range(5)
# Commands of `drive`, and the sequence that RESET takes for "not this environment"
STEP, STEP_AUTORESET, PLACE, ADVANCE, RESET = range(5)
SKIP = -2
ALL_BITS, EVERY_BYTE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0x0101010101010101)
# Entries of `rules`
PLACEMENTS_PER_SLOT, MAX_SLOTS, OVERSHOOT_PER_MACHINE, BACKGROUND_LABEL = range(4)


class State(NamedTuple):
    """All arrays of a batch of B environments, in the order that kernels take them."""

    # The arrival sequences, shared by all environments, read only
    demand: Any  # (S, N, L, D) f8 units
    timing: Any  # (S, N, 2) i4 arrival, length in slots
    label: Any  # (S, N, L + 1) u1 class 1..G after that many slots seen
    feature: Any  # (S, N, F) f4 what the queue shows beside the label: request, mask, first demand, forecast
    forecast: Any  # (S, N, L + 1, K) u1 forecast of its demand after that many slots seen; K = 0: none
    steps: Any  # (K,) f4 what 1 of a forecast stands for
    background: Any  # (S, P, M, D) u1 units of unknown load, slot t has row t % P; P = 0: there is none
    # The scenario, read only
    capacity: Any  # (M, D) f8 units
    weights: Any  # (4, D) f8 K_c, K_u, K_o, K_w
    rules: Any  # (4,) i8 placements per slot (0 = any), slots before truncation (0 = never), overshoot reading, G + 2
    blank: Any  # (M * D, words) an empty row of the grid: 0 = free, G + 1 = beyond the machine's capacity
    # The environments; a "cell" is a machine's resource, m * D + d
    counters: Any  # (B, COUNTERS) i8
    workloads: Any  # (B, N, WORKLOAD_COLUMNS) i4
    machines: Any  # (B, M, MACHINE_COLUMNS) i4
    load: Any  # (B, M, H, D) f8 units, ring of booked load
    square: Any  # (B, M * D) f8 sum of squared demand in the current slot
    filled: Any  # (B, M * D) i4 pixels drawn in the current slot
    grid: Any  # (B, h, M * D, C) u1 ring of drawn rows
    words: Any  # (B, h, M * D, words) the same memory in the widest integers that divide a row, for copying
    totals: Any  # (B, 5) f8 penalties and slots since the last decision
    costs: Any  # (B, M) f8 the part of the penalties that each machine caused
    # What the agent sees
    seen_words: Any  # (B, M, D, h, words) newest row last
    seen_queue: Any  # (B, Q, 1 + F) f4 label and features of the first Q waiting workloads, 0 = empty place
    seen_backlog: Any  # (B, 1) f4 waiting beyond Q
    seen_forecast: Any  # (B, M, K) f4 sum of the forecasts of what runs on each machine


CHANGING = (
    "counters",
    "workloads",
    "machines",
    "load",
    "square",
    "filled",
    "grid",
    "totals",
    "costs",
    "seen_words",
    "seen_queue",
    "seen_backlog",
    "seen_forecast",
)  # fields of `State` that say all of where an environment is


# Kernels index the arrays of `State` directly and are inlined into the one entry point at the end: a view or a call
# that takes the whole tuple costs reference counting on every array, more than the work itself.


@njit(cache=True, inline="always", _nrt=False)
def _next_random(stream):  # type: ignore[no-untyped-def]
    """Splitmix64: the next state and a well-mixed 64-bit number of one environment's own stream."""
    state = np.uint64(stream) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(state), mixed ^ (mixed >> np.uint64(31))


@njit(cache=True, inline="always", _nrt=False)
def _row(s, slot):  # type: ignore[no-untyped-def]
    """Row of the grid's ring that shows `slot`, -1 without grids."""
    return slot % s.grid.shape[1] if s.grid.shape[1] > 0 else -1


@njit(cache=True, inline="always", _nrt=False)
def _fill(s, b, row, m, d, demand, label):  # type: ignore[no-untyped-def]
    """Add one demand to the current row: pixels after those that are filled, and its square."""
    cell = m * s.capacity.shape[1] + d
    s.square[b, cell] += demand * demand
    if row >= 0:
        first = s.filled[b, cell]
        last = min(first + max(int(demand + 0.5), 1), int(s.capacity[m, d]))
        if s.words.shape[3] == 1 and s.grid.shape[3] == 8:
            if last > first:  # a row of 8 pixels is one number: no loop, whose length no processor can guess
                pixels = (ALL_BITS >> np.uint64(64 - 8 * (last - first))) << np.uint64(8 * first)
                s.words[b, row, cell, 0] |= np.uint64(label) * EVERY_BYTE & pixels
        else:
            for c in range(first, last):
                s.grid[b, row, cell, c] = label
        s.filled[b, cell] = last


@njit(cache=True, inline="always", _nrt=False)
def _draw(s, b, w, sequence, slot, row):  # type: ignore[no-untyped-def]
    """Add running workload w to the current row, in order of start."""
    m = s.workloads[b, w, MACHINE]
    age = slot - s.workloads[b, w, START]
    label = s.label[sequence, w, age + 1]
    for d in range(s.capacity.shape[1]):
        _fill(s, b, row, m, d, float(s.demand[sequence, w, age, d]), label)


@njit(cache=True, inline="always", _nrt=False)
def _draw_background(s, b, slot, row):  # type: ignore[no-untyped-def]
    """Add the unknown load to the current row of every machine, before any workload."""
    unknown = s.background[s.counters[b, SEQUENCE], slot % s.background.shape[1]]
    for m in range(unknown.shape[0]):
        for d in range(unknown.shape[1]):
            if unknown[m, d] > 0:
                _fill(s, b, row, m, d, float(unknown[m, d]), s.rules[BACKGROUND_LABEL])


@njit(cache=True, inline="always", _nrt=False)
def _book_background(s, b, slot):  # type: ignore[no-untyped-def]
    """Begin the ring's row of `slot` with the unknown load of that slot."""
    row, period = slot % s.load.shape[2], slot % s.background.shape[1]
    for m in range(s.load.shape[1]):
        for d in range(s.load.shape[3]):
            s.load[b, m, row, d] = s.background[s.counters[b, SEQUENCE], period, m, d]


@njit(cache=True, inline="always", _nrt=False)
def _open_slot(s, b):  # type: ignore[no-untyped-def]
    """Begin the slot: finished workloads leave, due ones join the queue, the row of what still runs is drawn."""
    sequence, slot = s.counters[b, SEQUENCE], s.counters[b, SLOT]
    arrived, waiting = s.counters[b, ARRIVED], s.counters[b, WAITING]
    while arrived < s.timing.shape[1] and s.timing[sequence, arrived, ARRIVAL] <= slot:
        s.workloads[b, waiting, WAITS] = arrived
        arrived += 1
        waiting += 1
    s.counters[b, ARRIVED], s.counters[b, WAITING], s.counters[b, PLACED] = arrived, waiting, 0

    row = _row(s, slot)
    for cell in range(s.square.shape[1]):
        s.square[b, cell] = 0.0
        s.filled[b, cell] = 0
    if row >= 0:
        for cell in range(s.blank.shape[0]):
            for c in range(s.blank.shape[1]):
                s.words[b, row, cell, c] = s.blank[cell, c]
    if s.background.shape[1] > 0:
        _draw_background(s, b, slot, row)

    running, kept = s.counters[b, RUNNING], 0
    for i in range(running):
        w = s.workloads[b, i, RUNS]
        if s.workloads[b, w, START] + s.timing[sequence, w, LENGTH] > slot:
            s.workloads[b, kept, RUNS] = w
            kept += 1
            _draw(s, b, w, sequence, slot, row)
        else:
            s.machines[b, s.workloads[b, w, MACHINE], ACTIVE] -= 1
    s.counters[b, RUNNING] = kept
    s.counters[b, UNFINISHED] -= running - kept


@njit(cache=True, inline="always", _nrt=False)
def _first_overshoots(s, b, m, d):  # type: ignore[no-untyped-def]
    """How many overshoot for the first time on machine m: its workloads (default reading) or the machine itself."""
    bit = 1 << d
    first = 0
    if s.rules[OVERSHOOT_PER_MACHINE]:
        if not s.machines[b, m, MACHINE_OVERSHOT] & bit:
            s.machines[b, m, MACHINE_OVERSHOT] |= bit
            first = 1
    else:
        for i in range(s.counters[b, RUNNING]):
            w = s.workloads[b, i, RUNS]
            if s.workloads[b, w, MACHINE] == m and not s.workloads[b, w, OVERSHOT] & bit:
                s.workloads[b, w, OVERSHOT] |= bit
                first += 1
    return first


@njit(cache=True, inline="always", _nrt=False)
def _close_slot(s, b):  # type: ignore[no-untyped-def]
    """End the slot: add its penalties to `totals`, forget its load, move the clock."""
    machines, resources = s.capacity.shape
    row = s.counters[b, SLOT] % s.load.shape[2]
    waiting = s.counters[b, WAITING]
    for m in range(machines):
        if s.machines[b, m, ACTIVE] == 0:
            continue
        for d in range(resources):
            load, capacity = float(s.load[b, m, row, d]), s.capacity[m, d]
            contended = s.weights[0, d] * contention(load, s.square[b, m * resources + d])
            unused = under_utilisation(max(capacity - load, 0.0), s.weights[1, d])
            s.totals[b, CONTENTION] += contended
            s.totals[b, UNDER_UTILISATION] += unused
            s.costs[b, m] += contended + unused
            if exceeds(load, capacity):
                exceeded = overshoot(_first_overshoots(s, b, m, d), s.weights[2, d])
                s.totals[b, OVERSHOOT] += exceeded
                s.costs[b, m] += exceeded
            s.load[b, m, row, d] = 0
    if s.background.shape[1] > 0:
        _book_background(s, b, s.counters[b, SLOT] + s.load.shape[2])
    s.totals[b, WAIT] += wait(waiting, s.weights[3, 0])
    s.totals[b, SLOTS] += 1.0
    s.counters[b, IDLE] = s.counters[b, IDLE] + 1 if waiting > 0 and s.counters[b, PLACED] == 0 else 0
    s.counters[b, SLOT] += 1


@njit(cache=True, inline="always", _nrt=False)
def tick(s, b):  # type: ignore[no-untyped-def]
    """End the slot and begin the next one; whether a decision is due then, or the episode is over."""
    _close_slot(s, b)
    _open_slot(s, b)
    if s.counters[b, UNFINISHED] == 0:
        s.counters[b, OVER] = TERMINATED
    elif s.rules[MAX_SLOTS] > 0 and s.counters[b, SLOT] >= s.rules[MAX_SLOTS]:
        s.counters[b, OVER] = TRUNCATED
    return s.counters[b, OVER] != GOING or s.counters[b, WAITING] > 0


@njit(cache=True, inline="always", _nrt=False)
def may_place_more(s, b):  # type: ignore[no-untyped-def]
    """Whether another placement is due in the current slot."""
    limit = s.rules[PLACEMENTS_PER_SLOT]
    return s.counters[b, WAITING] > 0 and (limit == 0 or s.counters[b, PLACED] < limit)


@njit(cache=True, inline="always", _nrt=False)
def begin(s, b, sequence):  # type: ignore[no-untyped-def]
    """Clear environment b for an episode on `sequence` (-1: one drawn from its own stream), just before slot 0."""
    if sequence < 0:
        s.counters[b, STREAM], number = _next_random(s.counters[b, STREAM])
        sequence = np.int64(number % np.uint64(s.demand.shape[0]))
    stream = s.counters[b, STREAM]
    s.counters[b] = 0
    s.counters[b, STREAM] = stream
    s.counters[b, SEQUENCE] = sequence
    s.counters[b, SLOT] = -1
    s.counters[b, UNFINISHED] = s.timing.shape[1]
    s.workloads[b] = 0
    s.workloads[b, :, MACHINE] = -1
    s.workloads[b, :, START] = -1
    s.machines[b] = 0
    s.load[b] = 0
    if s.background.shape[1] > 0:
        for slot in range(s.load.shape[2]):
            _book_background(s, b, slot)
    for row in range(s.grid.shape[1]):
        for cell in range(s.blank.shape[0]):
            for c in range(s.blank.shape[1]):
                s.words[b, row, cell, c] = s.blank[cell, c]


@njit(cache=True, inline="always", _nrt=False)
def place(s, b, position, m):  # type: ignore[no-untyped-def]
    """Start the waiting workload at `position` of the queue on machine m in the current slot."""
    w = s.workloads[b, position, WAITS]
    s.counters[b, WAITING] -= 1
    for i in range(position, s.counters[b, WAITING]):
        s.workloads[b, i, WAITS] = s.workloads[b, i + 1, WAITS]
    slot = s.counters[b, SLOT]
    s.workloads[b, w, MACHINE] = m
    s.workloads[b, w, START] = slot
    s.workloads[b, s.counters[b, RUNNING], RUNS] = w
    s.counters[b, RUNNING] += 1
    s.counters[b, PLACED] += 1
    s.machines[b, m, ACTIVE] += 1
    sequence = s.counters[b, SEQUENCE]
    book(s.load[b, m], slot, s.demand[sequence, w], s.timing[sequence, w, LENGTH])
    _draw(s, b, w, sequence, slot, _row(s, slot))


@njit(cache=True, inline="always", _nrt=False)
def _observe(s, b):  # type: ignore[no-untyped-def]
    """Write what the agent of environment b sees: the last h rows of every grid, and the queue."""
    _, machines, resources, history, words = s.seen_words.shape
    for r in range(history):
        row = (s.counters[b, SLOT] + 1 + r) % history  # the oldest row first
        for m in range(machines):
            for d in range(resources):
                for c in range(words):
                    s.seen_words[b, m, d, r, c] = s.words[b, row, m * resources + d, c]
    _, places, features = s.seen_queue.shape
    sequence, waiting = s.counters[b, SEQUENCE], s.counters[b, WAITING]
    for q in range(places):
        w = s.workloads[b, q, WAITS] if q < waiting else 0
        s.seen_queue[b, q, 0] = s.label[sequence, w, 0] if q < waiting else 0
        for f in range(1, features):
            s.seen_queue[b, q, f] = s.feature[sequence, w, f - 1] if q < waiting else 0.0
    s.seen_backlog[b, 0] = max(waiting - places, 0)
    if s.steps.shape[0] > 0:
        _sum_forecasts(s, b)


@njit(cache=True, inline="always", _nrt=False)
def _sum_forecasts(s, b):  # type: ignore[no-untyped-def]
    """Add up per machine what its workloads will probably need."""
    _, machines, columns = s.seen_forecast.shape
    for m in range(machines):
        for c in range(columns):
            s.seen_forecast[b, m, c] = 0.0
    sequence, slot = s.counters[b, SEQUENCE], s.counters[b, SLOT]
    for i in range(s.counters[b, RUNNING]):
        w = s.workloads[b, i, RUNS]
        m, seen = s.workloads[b, w, MACHINE], slot - s.workloads[b, w, START] + 1
        for c in range(columns):
            s.seen_forecast[b, m, c] += s.forecast[sequence, w, seen, c] * s.steps[c]


@njit(cache=True, _nrt=False)
def drive(s, command, argument, position):  # type: ignore[no-untyped-def]
    """Carry out one command in every environment and write what its agent sees then.

    One compiled entry for all commands, because every copy of the clock costs seconds of compilation.
    `argument` (B,) is by command: STEP and STEP_AUTORESET a machine 0..M-1 for the head of the queue, or M to let the
    slot pass; PLACE a machine for the workload at `position` of the queue, without moving the clock; ADVANCE ignored;
    RESET a sequence, -1 for a random one, SKIP to leave the environment alone.
    An environment whose episode is over begins the next one (STEP_AUTORESET) or stands still, with totals 0.
    """
    machines = s.capacity.shape[0]
    for b in range(len(argument)):
        if command == RESET and argument[b] == SKIP:
            continue
        s.totals[b] = 0.0
        s.costs[b] = 0.0
        over = s.counters[b, OVER] != GOING
        begins = command == RESET or (over and command == STEP_AUTORESET)
        if over and not begins:
            continue
        due_again = False
        if begins:
            begin(s, b, argument[b] if command == RESET else -1)
        elif command != ADVANCE and argument[b] < machines:
            place(s, b, position, argument[b])
            due_again = may_place_more(s, b)
        if not (due_again or command == PLACE):
            while not tick(s, b):
                pass
        if begins:
            s.totals[b] = 0.0  # nothing could wait or run yet
            s.costs[b] = 0.0
        _observe(s, b)
