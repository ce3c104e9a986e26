"""Moves of what runs: how they are carried out, what may move, and what is known when they are decided. Compiled.

A move that is decided in slot t takes effect in slot t + `move_slots`: from then on the workload runs on the new
machine, and for `move_overlap` slots its room on the old one stays booked too. What has finished by then does not move.
"""

from __future__ import annotations

from tvwrl.compiled import inlined, njit
from tvwrl.packing import lacks
from tvwrl.simulation.state import (
    ACTIVE,
    BOOKED_TOO,
    GOES_AT,
    GOES_TO,
    LENGTH,
    MACHINE,
    MOVE_AT,
    MOVE_FROM,
    MOVE_OVERLAP,
    MOVE_PHASE,
    MOVE_REST,
    MOVE_SLOTS,
    MOVE_TO,
    MOVE_WORKLOAD,
    MOVED,
    MOVES,
    MOVES_PER_SLOT,
    NO_MACHINE,
    OVERSHOT,
    PHASE,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    START,
    USAGE_DELAY,
    State,
)
from tvwrl.types import Bool, Float, Int


@njit(inline="always", _nrt=False)
def go_on(s: State, b: int, w: int, slot: int, runs: bool) -> None:
    """What becomes of the move of a workload in a slot: it arrives, or its old machine is booked no longer.

    `runs`: whether the workload has not finished
    """
    if runs and s.transit[b, w, GOES_TO] != NO_MACHINE and s.transit[b, w, GOES_AT] == slot:
        s.transit[b, w, BOOKED_TOO] = s.workloads[b, w, MACHINE]
        s.workloads[b, w, MACHINE] = s.transit[b, w, GOES_TO]
        s.transit[b, w, GOES_TO] = NO_MACHINE
        s.machines[b, s.workloads[b, w, MACHINE], ACTIVE] += 1
    old = s.transit[b, w, BOOKED_TOO]
    if old != NO_MACHINE and (not runs or slot >= s.transit[b, w, GOES_AT] + s.rules[MOVE_OVERLAP]):
        s.transit[b, w, BOOKED_TOO] = NO_MACHINE
        s.machines[b, old, ACTIVE] -= 1


@njit(inline="always", _nrt=False)
def may_move(s: State, b: int, w: int) -> bool:
    """Whether a running workload may be told to move: it never may (`pinned`), its usage was not measured yet, a move
    of it is on its way, or it came to its machine too lately."""
    slot, since = s.counters[b, SLOT], s.transit[b, w, GOES_AT]
    rests = slot < since + max(s.rules[MOVE_OVERLAP], s.rules[MOVE_REST])
    seen = s.workloads[b, w, START] <= slot - s.rules[USAGE_DELAY]
    may: bool = seen and not s.pinned[s.counters[b, SEQUENCE], w] and slot >= since and not rests
    return may


@inlined(_nrt=False)
def move(s: State, b: int, w: int, m: int) -> None:
    """Tell a running workload to go to machine m, and book it there; its room on the old machine is booked until then,
    and for the overlap."""
    sequence, source = s.counters[b, SEQUENCE], s.workloads[b, w, MACHINE]
    at, start, ring = s.counters[b, SLOT] + s.rules[MOVE_SLOTS], s.workloads[b, w, START], s.load.shape[2]
    end = start + s.timing[sequence, w, LENGTH]
    for t in range(at, end):
        for d in range(s.load.shape[3]):
            s.load[b, m, t % ring, d] += s.demand[sequence, w, t - start, d]
            if t >= at + s.rules[MOVE_OVERLAP]:
                s.load[b, source, t % ring, d] -= s.demand[sequence, w, t - start, d]
    s.transit[b, w, GOES_TO], s.transit[b, w, GOES_AT] = m, at
    row = s.counters[b, MOVES]
    s.moves[b, row, MOVE_WORKLOAD], s.moves[b, row, MOVE_AT] = w, at
    s.moves[b, row, MOVE_FROM], s.moves[b, row, MOVE_TO] = source, m
    s.counters[b, MOVES] += 1
    s.counters[b, MOVED] += 1


@njit(inline="always", _nrt=False)
def machine_after(s: State, b: int, w: int) -> int:
    """The machine of a running workload once its move, if one is on its way, has taken effect."""
    m: int = s.transit[b, w, GOES_TO]
    if m == NO_MACHINE:
        m = s.workloads[b, w, MACHINE]
    return m


@njit(inline="always", _nrt=False)
def slots_seen(s: State, b: int, w: int) -> int:
    """Slots of a running workload that were measured."""
    measured = s.counters[b, SLOT] - s.rules[USAGE_DELAY]
    seen: int = max(measured - s.workloads[b, w, START] + 1, 0)
    return seen


@njit(inline="always", _nrt=False)
def not_overshot(s: State, b: int, w: int) -> int:
    """Resources of which a workload has not seen an overshoot yet; all of them where usage is seen late."""
    count, resources = 0, s.capacity.shape[1]
    for d in range(resources):
        count += s.rules[USAGE_DELAY] > 0 or not s.workloads[b, w, OVERSHOT] & (1 << d)
    return count


@njit(inline="always", _nrt=False)
def some_may_move(s: State, b: int) -> bool:
    """Whether a move can be decided in the current slot."""
    if s.transit.shape[1] == 0 or s.counters[b, MOVED] >= s.rules[MOVES_PER_SLOT]:
        return False
    i = 0
    while i < s.counters[b, RUNNING] and not may_move(s, b, s.workloads[b, i, RUNS]):
        i += 1
    some: bool = i < s.counters[b, RUNNING]
    return some


@njit(_nrt=False)
def look_at_running(s: State, b: int, who: Int, where: Int, seen: Int, movable: Bool, usage: Float, fresh: Int) -> None:
    """Write what is known of what runs in environment b, in order of start.

    `who`, `where`: (output, (n,)) workload, and its machine after moves on their way
    `seen`: (output, (n,)) slots of it that were measured
    `movable`: (output, (n,)) whether it may be told to move
    `usage`: (output, (n, D)) units in the last slot that was measured; 0 if none was
    `fresh`: (output, (n,)) resources of which it has not seen an overshoot; all of them where usage is seen late
    """
    sequence = s.counters[b, SEQUENCE]
    for i in range(s.counters[b, RUNNING]):
        w = s.workloads[b, i, RUNS]
        who[i], where[i], seen[i] = w, machine_after(s, b, w), slots_seen(s, b, w)
        movable[i], fresh[i] = may_move(s, b, w), not_overshot(s, b, w)
        for d in range(usage.shape[1]):
            usage[i, d] = s.demand[sequence, w, seen[i] - 1, d] if seen[i] > 0 else 0.0


@njit(inline="always", _nrt=False)
def _after_moves(s: State, b: int, m: int, d: int) -> float:
    """Load of a machine as `load_after_moves` has it."""
    sequence, measured = s.counters[b, SEQUENCE], s.counters[b, SLOT] - s.rules[USAGE_DELAY]
    load = float(s.load[b, m, measured % s.load.shape[2], d])
    for i in range(s.counters[b, MOVES] - 1, -1, -1):
        at, w = s.moves[b, i, MOVE_AT], s.moves[b, i, MOVE_WORKLOAD]
        if at + s.rules[MOVE_OVERLAP] <= measured:
            break  # so are all before it
        start = s.workloads[b, w, START]
        if start + s.timing[sequence, w, LENGTH] <= s.counters[b, SLOT]:
            continue  # it has left
        if s.moves[b, i, MOVE_FROM] == m:
            load -= s.demand[sequence, w, measured - start, d]
        if s.moves[b, i, MOVE_TO] == m and at > measured:
            load += s.demand[sequence, w, measured - start, d]
    return load


@njit(_nrt=False)
def load_after_moves(s: State, b: int, out: Float) -> None:
    """Write the load of each machine (M, D) that was measured last, as it were if all moves had taken effect."""
    sequence, measured = s.counters[b, SEQUENCE], s.counters[b, SLOT] - s.rules[USAGE_DELAY]
    for m in range(out.shape[0]):
        for d in range(out.shape[1]):
            out[m, d] = s.load[b, m, measured % s.load.shape[2], d]
    for i in range(s.counters[b, MOVES] - 1, -1, -1):
        at, w = s.moves[b, i, MOVE_AT], s.moves[b, i, MOVE_WORKLOAD]
        if at + s.rules[MOVE_OVERLAP] <= measured:
            break
        start = s.workloads[b, w, START]
        if start + s.timing[sequence, w, LENGTH] > s.counters[b, SLOT]:
            for d in range(out.shape[1]):
                out[s.moves[b, i, MOVE_FROM], d] -= s.demand[sequence, w, measured - start, d]
                if at > measured:
                    out[s.moves[b, i, MOVE_TO], d] += s.demand[sequence, w, measured - start, d]


@njit(inline="always", _nrt=False)
def has_room(s: State, b: int, w: int, m: int) -> bool:
    """Whether a machine has room, by the usage that was measured last, for a running workload that may move there."""
    on = False
    for d in range(s.capacity.shape[1]):
        on = on or s.capacity[m, d] > 0
        usage = s.demand[s.counters[b, SEQUENCE], w, slots_seen(s, b, w) - 1, d]
        if lacks(usage, s.capacity[m, d] - _after_moves(s, b, m, d), s.capacity[m, d]):
            return False
    return on


@njit(_nrt=False)
def write_move_masks(s: State, out: Bool) -> None:
    """Write which of the shown running workloads may move to which machine, (B, R, M); none unless moves are due."""
    for b in range(out.shape[0]):
        out[b] = False
        if s.counters[b, PHASE] != MOVE_PHASE:
            continue
        for i in range(min(out.shape[1], s.counters[b, RUNNING])):
            w = s.workloads[b, i, RUNS]
            if may_move(s, b, w):
                for m in range(out.shape[2]):
                    out[b, i, m] = m != machine_after(s, b, w) and has_room(s, b, w, m)
