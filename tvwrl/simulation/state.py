"""The arrays of a batch of simulated clusters, and the names of their columns."""

from __future__ import annotations

from typing import Any, NamedTuple

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
# Entries of `rules`
PLACEMENTS_PER_SLOT, MAX_SLOTS, OVERSHOOT_PER_MACHINE, BACKGROUND_LABEL, PLACES, USAGE_DELAY = range(6)


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
    rules: Any  # (6,) i8 placements per slot (0 = any), slots before truncation (0 = never), overshoot reading, G + 2,
    # places of the queue that a step may choose from, slots by which usage is seen late
    blank: Any  # (M * D, words) u8 an empty row of the grid: 0 = free, G + 1 = beyond the machine's capacity
    # The environments; machine m and resource d have the dimension m * D + d
    counters: Any  # (B, COUNTERS) i8
    workloads: Any  # (B, N, WORKLOAD_COLUMNS) i4
    machines: Any  # (B, M, MACHINE_COLUMNS) i4
    load: Any  # (B, M, H + d, D) f8 units, ring of booked load: H slots from now on and d before, if seen so late
    square: Any  # (B, M * D) f8 sum of squared demand in the current slot
    filled: Any  # (B, M * D) i4 pixels drawn in the current slot
    grid: Any  # (B, h + d, M * D, 8 x words) u1 ring of drawn rows: C pixels, and as many as make it a multiple of 8
    words: Any  # (B, h + d, M * D, words) u8 the same memory, for copying
    totals: Any  # (B, 5) f8 penalties and slots since the last decision
    costs: Any  # (B, M) f8 the part of the penalties that each machine caused
    # What the agent sees
    seen_words: Any  # (B, M, D, h, words) u8 newest row last
    seen_queue: Any  # (B, Q, 1 + F) f4 label and features of the first Q waiting workloads, 0 = empty place
    seen_backlog: Any  # (B, 1) f4 waiting beyond Q
    seen_forecast: Any  # (B, M, K) f4 sum of the forecasts of what runs on each machine


# The fields that change: together they are the complete state of the environments
# fmt: off
CHANGING = (
    "counters", "workloads", "machines", "load", "square", "filled", "grid", "totals", "costs",
    "seen_words", "seen_queue", "seen_backlog", "seen_forecast",
)
# fmt: on
