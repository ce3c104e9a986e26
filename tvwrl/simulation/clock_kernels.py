"""Compiled clock of the cluster: arrivals, the waiting queue, placements, departures, penalties.

Every array of `State` that changes has a leading batch axis B; the same functions serve one environment and thousands.

A slot t goes: `_open_slot` (departures, arrivals, what runs is drawn), decisions (`place`), `_close_slot` (penalties).
So a decision in slot t sees the usage of slot t, and what it places counts in slot t. With a `usage_delay` of d it sees
the usage of slot t - d as it was when that slot closed: what ran then, be it gone or not, and nothing placed since.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inlined, njit
from tvwrl.packing import book, exceeds
from tvwrl.penalties import contention, overshoot, under_utilisation, wait
from tvwrl.simulation.grid_kernels import begin_row, clear_row, draw, draw_background, row_of, show_grid
from tvwrl.simulation.state import (
    ACTIVE,
    ARRIVAL,
    ARRIVED,
    CONTENTION,
    GOING,
    IDLE,
    LENGTH,
    MACHINE,
    MACHINE_OVERSHOT,
    MAX_SLOTS,
    OVER,
    OVERSHOOT,
    OVERSHOOT_PER_MACHINE,
    OVERSHOT,
    PLACED,
    PLACEMENTS_PER_SLOT,
    PLACES,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    SLOTS,
    START,
    STREAM,
    TERMINATED,
    TRUNCATED,
    UNDER_UTILISATION,
    UNFINISHED,
    USAGE_DELAY,
    WAIT,
    WAITING,
    WAITS,
)

# Commands of `drive`, and the sequence that RESET takes for "not this environment"
STEP, STEP_AUTORESET, PLACE, ADVANCE, RESET, LOOK = range(6)
SKIP = -2


# Kernels index the arrays of `State` directly and are inlined into the one entry point at the end: a view or a call
# that takes the whole tuple costs more than the work itself. The five large ones are inlined as machine code, which
# compiles in half the time.


@njit(inline="always", _nrt=False)
def next_random(stream):  # type: ignore[no-untyped-def]
    """Splitmix64: the next state and a well-mixed 64-bit number of one environment's own stream."""
    state = np.uint64(stream) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(state), mixed ^ (mixed >> np.uint64(31))


@njit(inline="always", _nrt=False)
def _book_background(s, b, slot):  # type: ignore[no-untyped-def]
    """Begin the ring's row of `slot` with the unknown load of that slot."""
    row, period = slot % s.load.shape[2], slot % s.background.shape[1]
    for m in range(s.load.shape[1]):
        for d in range(s.load.shape[3]):
            s.load[b, m, row, d] = s.background[s.counters[b, SEQUENCE], period, m, d]


@inlined(_nrt=False)
def _open_slot(s, b):  # type: ignore[no-untyped-def]
    """Begin the slot: finished workloads leave, due ones join the queue, the row of running ones is drawn."""
    sequence, slot = s.counters[b, SEQUENCE], s.counters[b, SLOT]
    arrived, waiting = s.counters[b, ARRIVED], s.counters[b, WAITING]
    while arrived < s.timing.shape[1] and s.timing[sequence, arrived, ARRIVAL] <= slot:
        s.workloads[b, waiting, WAITS] = arrived
        arrived += 1
        waiting += 1
    s.counters[b, ARRIVED], s.counters[b, WAITING], s.counters[b, PLACED] = arrived, waiting, 0

    row = begin_row(s, b, slot)
    if s.background.shape[1] > 0:
        draw_background(s, b, slot, row)

    running, kept = s.counters[b, RUNNING], 0
    for i in range(running):
        w = s.workloads[b, i, RUNS]
        if s.workloads[b, w, START] + s.timing[sequence, w, LENGTH] > slot:
            s.workloads[b, kept, RUNS] = w
            kept += 1
            draw(s, b, w, sequence, slot, row)
        else:
            s.machines[b, s.workloads[b, w, MACHINE], ACTIVE] -= 1
    s.counters[b, RUNNING] = kept
    s.counters[b, UNFINISHED] -= running - kept


@njit(inline="always", _nrt=False)
def _first_overshoots(s, b, m, d):  # type: ignore[no-untyped-def]
    """How many first overshoots machine m causes: one per workload on it (default), or one for the machine."""
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


@inlined(_nrt=False)
def _close_slot(s, b):  # type: ignore[no-untyped-def]
    """End the slot: add its penalties to `totals`, clear the load that nobody will see, advance the clock."""
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
    passed = s.counters[b, SLOT] - s.rules[USAGE_DELAY]
    for m in range(machines):
        for d in range(resources):
            s.load[b, m, passed % s.load.shape[2], d] = 0
    if s.background.shape[1] > 0:
        _book_background(s, b, passed + s.load.shape[2])
    s.totals[b, WAIT] += wait(waiting, s.weights[3, 0])
    s.totals[b, SLOTS] += 1.0
    s.counters[b, IDLE] = s.counters[b, IDLE] + 1 if waiting > 0 and s.counters[b, PLACED] == 0 else 0
    s.counters[b, SLOT] += 1


@njit(inline="always", _nrt=False)
def tick(s, b):  # type: ignore[no-untyped-def]
    """End the slot and begin the next one. Returns whether a decision is due or the episode is over."""
    _close_slot(s, b)
    _open_slot(s, b)
    if s.counters[b, UNFINISHED] == 0:
        s.counters[b, OVER] = TERMINATED
    elif s.rules[MAX_SLOTS] > 0 and s.counters[b, SLOT] >= s.rules[MAX_SLOTS]:
        s.counters[b, OVER] = TRUNCATED
    return s.counters[b, OVER] != GOING or s.counters[b, WAITING] > 0


@njit(inline="always", _nrt=False)
def may_place_more(s, b):  # type: ignore[no-untyped-def]
    """Whether another placement is due in the current slot."""
    limit = s.rules[PLACEMENTS_PER_SLOT]
    return s.counters[b, WAITING] > 0 and (limit == 0 or s.counters[b, PLACED] < limit)


@inlined(_nrt=False)
def begin(s, b, sequence):  # type: ignore[no-untyped-def]
    """Clear environment b for an episode on `sequence` (-1: one drawn from its own stream), just before slot 0."""
    if sequence < 0:
        s.counters[b, STREAM], number = next_random(s.counters[b, STREAM])
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
        for slot in range(s.load.shape[2] - s.rules[USAGE_DELAY]):
            _book_background(s, b, slot)
    for row in range(s.grid.shape[1]):
        clear_row(s, b, row)


@inlined(_nrt=False)
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
    draw(s, b, w, sequence, slot, row_of(s, slot))


@inlined(_nrt=False)
def _observe(s, b):  # type: ignore[no-untyped-def]
    """Write the observation of environment b: h rows of every grid, and the queue."""
    show_grid(s, b)
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


@njit(inline="always", _nrt=False)
def _sum_forecasts(s, b):  # type: ignore[no-untyped-def]
    """Sum the forecasts of the workloads on each machine, each as of the last slot of it that is seen."""
    _, machines, columns = s.seen_forecast.shape
    for m in range(machines):
        for c in range(columns):
            s.seen_forecast[b, m, c] = 0.0
    sequence, slot = s.counters[b, SEQUENCE], s.counters[b, SLOT]
    for i in range(s.counters[b, RUNNING]):
        w = s.workloads[b, i, RUNS]
        m, seen = s.workloads[b, w, MACHINE], max(slot - s.workloads[b, w, START] + 1 - s.rules[USAGE_DELAY], 0)
        for c in range(columns):
            s.seen_forecast[b, m, c] += s.forecast[sequence, w, seen, c] * s.steps[c]


@njit(_nrt=False)
def drive(s, command, argument, position):  # type: ignore[no-untyped-def]
    """Carry out one command in every environment, then write its observation.

    One compiled entry serves all commands, because each inlined copy of the clock takes seconds to compile.
    `s`: `State`
    `command`: what to do, and so what `argument` (B,) holds:
        STEP, STEP_AUTORESET: q * M + m puts place q of the queue on machine m; where nothing waits at q, or q is
            not offered (q >= PLACES), the slot passes
        PLACE: a machine for the workload at `position` of the queue; the clock stands still
        ADVANCE: nothing; the clock runs until a decision is due
        RESET: a sequence, -1 for a random one, SKIP to leave the environment alone
        LOOK: nothing; the state was set from outside, and only the observation is written
    `position`: place in the queue, for PLACE; 0 otherwise

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
        elif command not in (ADVANCE, LOOK):
            at = position if command == PLACE else argument[b] // machines
            if command == PLACE or at < min(s.rules[PLACES], s.counters[b, WAITING]):
                place(s, b, at, argument[b] % machines)
                due_again = may_place_more(s, b)
        if not (due_again or command in (PLACE, LOOK)):
            while not tick(s, b):
                pass
        if begins:
            s.totals[b] = 0.0  # nothing could wait or run yet
            s.costs[b] = 0.0
        _observe(s, b)
