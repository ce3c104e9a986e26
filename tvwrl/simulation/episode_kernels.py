"""How an episode goes on, slot by slot, until it ends: arrivals, the queue, placements, departures, penalties.

Every array of `State` that changes has a leading batch axis B; the same functions serve one environment and thousands.

A slot t goes: `_open_slot` (departures, moves, arrivals, what runs is drawn), decisions (`place`, then `move`),
`_close_slot` (penalties).
So a decision in slot t sees the usage of slot t, and what it places counts in slot t. With a `usage_delay` of d it sees
the usage of slot t - d as it was when that slot closed: what ran then, be it gone or not, and nothing placed since. A
move that is decided in slot t never counts before slot t + 1.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inlined, njit
from tvwrl.packing import book, exceeds
from tvwrl.penalties import contention, overshoot, under_utilisation, wait
from tvwrl.simulation.grid_kernels import begin_row, clear_row, draw, draw_background, observe, row_of
from tvwrl.simulation.move_kernels import go_on, has_room, machine_after, may_move, move, some_may_move
from tvwrl.simulation.state import (
    ACTIVE,
    ARRIVAL,
    ARRIVED,
    BOOKED_TOO,
    CONTENTION,
    GOES_AT,
    GOES_TO,
    GOING,
    HOLDS,
    IDLE,
    LENGTH,
    LONG_AGO,
    MACHINE,
    MACHINE_OVERSHOT,
    MAX_SLOTS,
    MOVE_FROM,
    MOVE_PHASE,
    MOVED,
    MOVES,
    MOVING,
    NO_MACHINE,
    OVER,
    OVERSHOOT,
    OVERSHOOT_PER_MACHINE,
    OVERSHOT,
    PHASE,
    PLACED,
    PLACEMENTS_PER_SLOT,
    PLACES,
    PLACING,
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
    State,
)
from tvwrl.types import Int

# Commands of `drive`, and the sequence that RESET takes for "not this environment"
STEP, STEP_AUTORESET, PLACE, ADVANCE, RESET, LOOK, MOVE, SHOW = range(8)
SKIP = -2


# Kernels index the arrays of `State` directly and are inlined into the one entry point at the end: a view or a call
# that takes the whole tuple costs more than the work itself. The five large ones are inlined as machine code, which
# compiles in half the time.


@njit(inline="always", _nrt=False)
def next_random(stream: int) -> tuple[int, np.uint64]:
    """Splitmix64: the next state and a well-mixed 64-bit number of one environment's own stream."""
    state = np.uint64(stream) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int(np.int64(state)), mixed ^ (mixed >> np.uint64(31))


# The clock


@njit(inline="always", _nrt=False)
def _book_background(s: State, b: int, slot: int) -> None:
    """Begin the ring's row of `slot` with the unknown load of that slot."""
    row, period = slot % s.load.shape[2], slot % s.background.shape[1]
    for m in range(s.load.shape[1]):
        for d in range(s.load.shape[3]):
            s.load[b, m, row, d] = s.background[s.counters[b, SEQUENCE], period, m, d]


@inlined(_nrt=False)
def _open_slot(s: State, b: int) -> None:
    """Begin the slot: finished workloads leave, due ones join the queue, the row of running ones is drawn."""
    sequence, slot = s.counters[b, SEQUENCE], s.counters[b, SLOT]
    arrived, waiting = s.counters[b, ARRIVED], s.counters[b, WAITING]
    while arrived < s.timing.shape[1] and s.timing[sequence, arrived, ARRIVAL] <= slot:
        s.workloads[b, waiting, WAITS] = arrived
        arrived += 1
        waiting += 1
    s.counters[b, ARRIVED], s.counters[b, WAITING], s.counters[b, PLACED] = arrived, waiting, 0
    s.counters[b, MOVED] = 0

    row = begin_row(s, b, slot)
    if s.background.shape[1] > 0:
        draw_background(s, b, slot, row)

    running, kept, may_move = s.counters[b, RUNNING], 0, s.transit.shape[1] > 0
    for i in range(running):
        w = s.workloads[b, i, RUNS]
        runs = s.workloads[b, w, START] + s.timing[sequence, w, LENGTH] > slot
        if may_move:
            go_on(s, b, w, slot, runs)
        if runs:
            s.workloads[b, kept, RUNS] = w
            kept += 1
            draw(s, b, w, s.workloads[b, w, MACHINE], sequence, slot, row)
            if may_move and s.transit[b, w, BOOKED_TOO] != NO_MACHINE:
                draw(s, b, w, s.transit[b, w, BOOKED_TOO], sequence, slot, row)
        else:
            s.machines[b, s.workloads[b, w, MACHINE], ACTIVE] -= 1
    s.counters[b, RUNNING] = kept
    s.counters[b, UNFINISHED] -= running - kept


@njit(inline="always", _nrt=False)
def _first_overshoots(s: State, b: int, m: int, d: int) -> int:
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
            here = s.workloads[b, w, MACHINE] == m
            if s.transit.shape[1] > 0:
                here = here or s.transit[b, w, BOOKED_TOO] == m
            if here and not s.workloads[b, w, OVERSHOT] & bit:
                s.workloads[b, w, OVERSHOT] |= bit
                first += 1
    return first


@inlined(_nrt=False)
def _close_slot(s: State, b: int) -> None:
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
    for i in range(s.counters[b, MOVES] - s.counters[b, MOVED], s.counters[b, MOVES]):
        s.totals[b, MOVING] += s.price[0]
        s.costs[b, s.moves[b, i, MOVE_FROM]] += s.price[0]
    s.totals[b, SLOTS] += 1.0
    s.counters[b, IDLE] = s.counters[b, IDLE] + 1 if waiting > 0 and s.counters[b, PLACED] == 0 else 0
    s.counters[b, SLOT] += 1


@njit(inline="always", _nrt=False)
def tick(s: State, b: int) -> bool:
    """End the slot and begin the next one. Returns whether a decision is due or the episode is over."""
    _close_slot(s, b)
    _open_slot(s, b)
    if s.counters[b, UNFINISHED] == 0:
        s.counters[b, OVER] = TERMINATED
    elif s.rules[MAX_SLOTS] > 0 and s.counters[b, SLOT] >= s.rules[MAX_SLOTS]:
        s.counters[b, OVER] = TRUNCATED
    s.counters[b, PHASE] = PLACING if s.counters[b, WAITING] > 0 or s.transit.shape[1] == 0 else MOVE_PHASE
    due: bool = s.counters[b, OVER] != GOING or s.counters[b, WAITING] > 0 or some_may_move(s, b)
    return due


@njit(inline="always", _nrt=False)
def may_place_more(s: State, b: int) -> bool:
    """Whether another placement is due in the current slot."""
    limit = s.rules[PLACEMENTS_PER_SLOT]
    more: bool = s.counters[b, WAITING] > 0 and (limit == 0 or s.counters[b, PLACED] < limit)
    return more


@inlined(_nrt=False)
def begin(s: State, b: int, sequence: int) -> None:
    """Clear environment b for an episode on `sequence` (-1: one drawn from its own stream), just before slot 0."""
    if sequence < 0:
        s.counters[b, STREAM], number = next_random(s.counters[b, STREAM])
        sequence = int(np.int64(number % np.uint64(s.demand.shape[0])))
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
    s.transit[b, :, GOES_TO] = NO_MACHINE
    s.transit[b, :, GOES_AT] = LONG_AGO
    s.transit[b, :, BOOKED_TOO] = NO_MACHINE
    s.load[b] = 0
    if s.background.shape[1] > 0:
        for slot in range(s.load.shape[2] - s.rules[USAGE_DELAY]):
            _book_background(s, b, slot)
    for row in range(s.grid.shape[1]):
        clear_row(s, b, row)


@inlined(_nrt=False)
def place(s: State, b: int, position: int, m: int) -> None:
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
    draw(s, b, w, m, sequence, slot, row_of(s, slot))


@njit(_nrt=False)
def drive(s: State, command: int, argument: Int, position: int) -> None:
    """Carry out one command in every environment, then write its observation.

    One compiled entry serves all commands, because each inlined copy of the clock takes seconds to compile.
    `s`: `State`
    `command`: what to do, and so what `argument` (B,) holds:
        STEP, STEP_AUTORESET: q * M + m puts place q of the queue on machine m; where nothing waits at q, or q is
            not offered (q >= PLACES), the placements of the slot end. Then, where running workloads may be moved, the
            moves: after the numbers of placements, and that of holding if there is one, i * M + m tells the i-th that
            runs to go to machine m; all other numbers, and what must not move, end the slot
        PLACE: a machine for the workload at `position` of the queue; the clock stands still
        ADVANCE: nothing; the clock runs until a decision is due
        RESET: a sequence, -1 for a random one, SKIP to leave the environment alone
        LOOK: nothing; the state was set from outside, and only the observation is written
        MOVE: a machine for the running workload number `position`; the clock stands still
        SHOW: nothing; as LOOK, but only what waits was set from outside
    `position`: place in the queue, for PLACE, and workload, for MOVE; 0 otherwise

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
        elif command == MOVE:
            move(s, b, position, argument[b])
        elif command not in (ADVANCE, LOOK, SHOW):
            at = position if command == PLACE else argument[b] // machines
            moves = command != PLACE and s.counters[b, PHASE] == MOVE_PHASE
            if moves:
                chosen = argument[b] - s.rules[PLACES] * machines - s.rules[HOLDS]
                i, m = chosen // machines, chosen % machines
                if 0 <= i < min(s.seen_running.shape[1], s.counters[b, RUNNING]):
                    w = s.workloads[b, i, RUNS]
                    if may_move(s, b, w) and machine_after(s, b, w) != m and has_room(s, b, w, m):
                        move(s, b, w, m)
                        due_again = some_may_move(s, b)
            elif command == PLACE or at < min(s.rules[PLACES], s.counters[b, WAITING]):
                place(s, b, at, argument[b] % machines)
                due_again = may_place_more(s, b)
            if command != PLACE and not (moves or due_again) and some_may_move(s, b):
                s.counters[b, PHASE] = MOVE_PHASE
                due_again = True
        if not (due_again or command in (PLACE, LOOK, MOVE, SHOW)):
            while not tick(s, b):
                pass
        if begins:
            s.totals[b] = 0.0  # nothing could wait or run yet
            s.costs[b] = 0.0
        known = 0
        if command == PLACE:
            known = s.counters[b, RUNNING] - 1
        elif command == SHOW:
            known = s.counters[b, RUNNING]
        observe(s, b, known)
