"""Compiled restoration: the grids and the booked load of an environment from what was placed where and when."""

from __future__ import annotations

from tvwrl.compiled import njit
from tvwrl.simulation.grid_kernels import begin_row, draw, draw_background
from tvwrl.simulation.state import LENGTH, MACHINE, SEQUENCE, SLOT, START, USAGE_DELAY


@njit(_nrt=False)
def restore(s, b, placed):  # type: ignore[no-untyped-def]
    """Draw the last rows of all grids and book the load of environment b, as the clock would have left them.

    `s`: `State`, in which the clock, and machine and start of the workloads `placed`, are set
    `placed`: (n,) all that ever ran, in the order in which it was placed
    """
    sequence, slot, late = s.counters[b, SEQUENCE], s.counters[b, SLOT], s.rules[USAGE_DELAY]
    machines, ring = s.capacity.shape[0], s.load.shape[2]
    s.load[b] = 0
    if s.background.shape[1] > 0:
        for t in range(max(slot - late, 0), slot - late + ring):
            for m in range(machines):
                for d in range(s.capacity.shape[1]):
                    s.load[b, m, t % ring, d] = s.background[sequence, t % s.background.shape[1], m, d]
    for w in placed:
        start = s.workloads[b, w, START]
        for t in range(max(start, slot - late), start + s.timing[sequence, w, LENGTH]):
            for d in range(s.capacity.shape[1]):
                s.load[b, s.workloads[b, w, MACHINE], t % ring, d] += s.demand[sequence, w, t - start, d]
    for t in range(slot + 1 - max(s.grid.shape[1], 1), slot + 1):
        row = begin_row(s, b, t)
        if t < 0:
            continue
        if s.background.shape[1] > 0:
            draw_background(s, b, t, row)
        for w in placed:
            start = s.workloads[b, w, START]
            if start <= t < start + s.timing[sequence, w, LENGTH]:
                draw(s, b, w, sequence, t, row)
