"""Compiled step of DeepRM's environment, on the simulation's own clock."""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from tvwrl.packing.fit import exceeds
from tvwrl.simulation import clock_kernels as clock
from tvwrl.simulation.state import GOING, LENGTH, OVER, RUNNING, RUNS, SEQUENCE, SLOT, WAITING, WAITS

SLOWDOWN, UNUSED = range(2)  # columns of `terms`


class Seen(NamedTuple):
    """What the agents of B environments see, in units and slots."""

    cluster: Any  # (B, T, D) f4 units reserved in the current slot and the T - 1 after it
    queue: Any  # (B, Q, D + 1) f4 peak and duration of the first Q waiting workloads, 0 = empty place
    backlog: Any  # (B, 1) f4 waiting beyond Q


@njit(cache=True, inline="always", _nrt=False)
def _fits(s, b, w):  # type: ignore[no-untyped-def]
    """Whether the peak of w has room in the current slot, and so for its whole life: reservations only end."""
    row = s.counters[b, SLOT] % s.load.shape[2]
    for d in range(s.capacity.shape[1]):
        if exceeds(float(s.load[b, 0, row, d]) + float(s.demand[s.counters[b, SEQUENCE], w, 0, d]), s.capacity[0, d]):
            return False
    return True


@njit(cache=True, inline="always", _nrt=False)
def _charge(s, b, terms):  # type: ignore[no-untyped-def]
    """Add the current slot's terms: 1 / duration of all in the system, and the unused share of the cluster."""
    sequence = s.counters[b, SEQUENCE]
    for i in range(s.counters[b, RUNNING]):
        terms[b, SLOWDOWN] += 1.0 / s.timing[sequence, s.workloads[b, i, RUNS], LENGTH]
    for i in range(s.counters[b, WAITING]):
        terms[b, SLOWDOWN] += 1.0 / s.timing[sequence, s.workloads[b, i, WAITS], LENGTH]
    row, resources = s.counters[b, SLOT] % s.load.shape[2], s.capacity.shape[1]
    for d in range(resources):
        terms[b, UNUSED] += (1.0 - float(s.load[b, 0, row, d]) / s.capacity[0, d]) / resources


@njit(cache=True, inline="always", _nrt=False)
def _observe(s, b, seen):  # type: ignore[no-untyped-def]
    """Write what the agent of environment b sees."""
    sequence, slot, waiting = s.counters[b, SEQUENCE], s.counters[b, SLOT], s.counters[b, WAITING]
    resources, horizon, places = s.capacity.shape[1], s.load.shape[2], seen.queue.shape[1]
    for ahead in range(seen.cluster.shape[1]):
        for d in range(resources):
            reserved = s.load[b, 0, (slot + ahead) % horizon, d] if ahead < horizon else 0
            seen.cluster[b, ahead, d] = reserved
    for q in range(places):
        w = s.workloads[b, q, WAITS] if q < waiting else 0
        for d in range(resources):
            seen.queue[b, q, d] = s.demand[sequence, w, 0, d] if q < waiting else 0
        seen.queue[b, q, resources] = s.timing[sequence, w, LENGTH] if q < waiting else 0
    seen.backlog[b, 0] = max(waiting - places, 0)


@njit(cache=True, _nrt=False)
def drive(s, seen, terms, resets, argument):  # type: ignore[no-untyped-def]
    """One decision everywhere, or with `resets` the beginning of an episode; then what is seen.

    `s`: state of a simulation of one machine, the whole cluster, whose workloads need their peak all their lives.
    `argument` (B,): the place of the queue to start from, where an empty one, one whose workload does not fit, and Q
    let the slot end; with `resets` the sequence. `terms` (B, 2) become those of the slots passed, before weights; an
    episode that is over stands still.
    """
    for b in range(len(argument)):
        terms[b] = 0.0
        s.totals[b] = 0.0
        if resets:
            clock.begin(s, b, argument[b])
            while not clock.tick(s, b):
                pass
            s.totals[b] = 0.0
        elif s.counters[b, OVER] == GOING:
            q, goes_on = argument[b], False
            valid = q < seen.queue.shape[1] and q < s.counters[b, WAITING]
            if valid and _fits(s, b, s.workloads[b, q, WAITS]):
                clock.place(s, b, q, 0)
                goes_on = clock.may_place_more(s, b)
            while not goes_on:
                _charge(s, b, terms)
                goes_on = clock.tick(s, b)
        _observe(s, b, seen)
