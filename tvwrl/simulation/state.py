"""The arrays of a batch of simulated clusters, and the names of their columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.types import Bool, Byte, Float, Float32, Int, Int32, Word

Demand = Byte | Float  # bytes where all demand is in whole units
Load = Int32 | Float  # its sums
Steps = Byte | npt.NDArray[np.uint16]  # whole steps of a forecast, see `ForecastTable`

# Columns of `counters`
SEQUENCE, SLOT, ARRIVED, WAITING, RUNNING, PLACED, UNFINISHED, OVER, IDLE, STREAM, MOVED, MOVES, PHASE = range(13)
COUNTERS = 13
# Values of counters[PHASE]: which decisions are due
PLACING, MOVE_PHASE = range(2)
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
# Columns of `transit`: the machine that a workload will move to, the first slot on the machine that it moved to last or
# will move to, the machine that is still booked for it; NO_MACHINE if there is none
GOES_TO, GOES_AT, BOOKED_TOO = range(3)
NO_MACHINE, LONG_AGO = -1, -(1 << 30)
AT_REST = (NO_MACHINE, LONG_AGO, NO_MACHINE)  # a row of `transit` of what was never moved
# Columns of `moves`, a row for each in the order of decisions
MOVE_WORKLOAD, MOVE_AT, MOVE_FROM, MOVE_TO = range(4)
MOVE_COLUMNS = 4
# Columns of `seen_running`: class, machine after moves, slots measured, whether it may move, resources of which it has
# not seen an overshoot yet
RUN_LABEL, RUN_MACHINE, RUN_SEEN, RUN_MOVABLE, RUN_FRESH = range(5)
OF_RUNNING = 5
# Columns of `totals`: the penalties since the last decision in the order of `TERMS`, then the slots passed
CONTENTION, UNDER_UTILISATION, OVERSHOOT, WAIT, MOVING, SLOTS = range(6)
TOTALS = 6
# Entries of `rules`
(
    PLACEMENTS_PER_SLOT, MAX_SLOTS, OVERSHOOT_PER_MACHINE, BACKGROUND_LABEL, PLACES, USAGE_DELAY, MOVES_PER_SLOT,
    MOVE_SLOTS, MOVE_OVERLAP, MOVE_REST, HOLDS,
) = range(11)  # fmt: skip


class State(NamedTuple):
    """All arrays of a batch of B environments, in the order that kernels take them."""

    # The arrival sequences, shared by all environments, read only
    demand: Demand  # (S, N, L, D) units
    timing: Int32  # (S, N, 2) arrival, length in slots
    label: Byte  # (S, N, L + 1) class 1..G after that many slots seen
    feature: Float32  # (S, N, F) what the queue shows beside the label: request, mask, first demand, forecast
    forecast: Steps  # (S, N, L + 1, K) forecast of its demand after that many slots seen; K = 0: none
    steps: Float32  # (K,) what 1 of a forecast stands for
    background: Byte  # (S, P, M, D) units of unknown load, slot t has row t % P; P = 0: there is none
    # The scenario, read only
    capacity: Float  # (M, D) units
    weights: Float  # (4, D) K_c, K_u, K_o, K_w
    price: Float  # (1,) K_m
    rules: Int  # (11,) placements per slot (0 = any), slots before truncation (0 = never), overshoot reading, G + 2,
    # places of the queue that a step may choose from, slots by which usage is seen late; most moves per slot, slots
    # until one takes effect, in which both machines are booked, and in which the workload stays; whether to place
    # nothing is an action
    pinned: Bool  # (S, N) what never moves
    blank: Word  # (M * D, words) an empty row of the grid: 0 = free, G + 1 = beyond the machine's capacity
    # The environments; machine m and resource d have the dimension m * D + d
    counters: Int  # (B, COUNTERS)
    workloads: Int32  # (B, N, WORKLOAD_COLUMNS)
    machines: Int32  # (B, M, MACHINE_COLUMNS)
    load: Load  # (B, M, H + d, D) units, ring of booked load: H slots from now on and d before, if seen so late
    square: Float  # (B, M * D) sum of squared demand in the current slot
    filled: Int32  # (B, M * D) pixels drawn in the current slot
    grid: Byte  # (B, h + d, M * D, 8 x words) ring of drawn rows: C pixels, and as many as make it a multiple of 8
    words: Word  # (B, h + d, M * D, words) the same memory, for copying
    totals: Float  # (B, TOTALS) penalties and slots since the last decision
    costs: Float  # (B, M) the part of the penalties that each machine caused
    transit: Int32  # (B, N, 3) what becomes of moves that were decided; N = 0: nothing may move
    moves: Int32  # (B, R, MOVE_COLUMNS) the moves so far, with room for R
    # What the agent sees
    seen_words: Word  # (B, M, D, h, words) newest row last
    seen_queue: Float32  # (B, Q, 1 + F) label and features of the first Q waiting workloads, 0 = empty place
    seen_backlog: Float32  # (B, 1) waiting beyond Q
    seen_forecast: Float32  # (B, M, K) sum of the forecasts of what runs on each machine
    seen_running: Float32  # (B, R, OF_RUNNING + D + K) first R running workloads, 0 = none: the columns below, usage in
    # units in the last slot that was measured, forecast of the rest of its life; R = 0: nothing may move
    seen_phase: Float32  # (B, 1) PLACING or MOVE_PHASE


# The fields that change: together they are the complete state of the environments
# fmt: off
CHANGING = (
    "counters", "workloads", "machines", "load", "square", "filled", "grid", "totals", "costs", "transit",
    "moves", "seen_words", "seen_queue", "seen_backlog", "seen_forecast", "seen_running", "seen_phase",
)
# fmt: on
