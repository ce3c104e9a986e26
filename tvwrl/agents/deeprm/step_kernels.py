"""Compiled step of DeepRM's environment, on the simulation's own clock."""

from __future__ import annotations

from typing import Any, NamedTuple

from tvwrl.compiled import njit
from tvwrl.packing import exceeds
from tvwrl.simulation import (
    GOING,
    LENGTH,
    OVER,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    WAITING,
    WAITS,
    begin,
    may_place_more,
    place,
    tick,
)

SLOWDOWN, UNUSED = range(2)  # columns of `terms`


class Seen(NamedTuple):
    """Observations of B environments, in units and slots."""

    cluster: Any  # (B, T, D) f4 units reserved in the current slot and the T - 1 after it
    queue: Any  # (B, Q, D + 1) f4 peak and duration of the first Q waiting workloads, 0 = empty place
    backlog: Any  # (B, 1) f4 waiting beyond Q


@njit(inline="always", _nrt=False)
def _fits(s, b, w):  # type: ignore[no-untyped-def]
    """Whether the peak of w fits in the current slot, and so for its whole life, as reservations only end."""
    row = s.counters[b, SLOT] % s.load.shape[2]
    for d in range(s.capacity.shape[1]):
        if exceeds(float(s.load[b, 0, row, d]) + float(s.demand[s.counters[b, SEQUENCE], w, 0, d]), s.capacity[0, d]):
            return False
    return True


@njit(inline="always", _nrt=False)
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


@njit(inline="always", _nrt=False)
def _observe(s, b, seen):  # type: ignore[no-untyped-def]
    """Write the observation of environment b."""
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


@njit(_nrt=False)
def drive(s, seen, terms, resets, argument):  # type: ignore[no-untyped-def]
    """Apply one decision in every environment, or with `resets` begin an episode, then write the observations.

    `s`: `State` of a simulation in which the cluster is one machine and workloads need their peak throughout
    `seen`: (output) observations
    `terms`: (output, (B, 2)) unweighted cost terms of the slots passed
    `resets`: whether `argument` (B,) holds sequences; otherwise places in the queue, of which Q, an empty one and one
        whose workload does not fit end the slot

    An environment whose episode is over stands still.
    """
    for b in range(len(argument)):
        terms[b] = 0.0
        s.totals[b] = 0.0
        decision_due = False
        if resets:
            begin(s, b, argument[b])
        elif s.counters[b, OVER] != GOING:
            decision_due = True
        else:
            q = argument[b]
            valid = q < seen.queue.shape[1] and q < s.counters[b, WAITING]
            if valid and _fits(s, b, s.workloads[b, q, WAITS]):
                place(s, b, q, 0)
                decision_due = may_place_more(s, b)
        while not decision_due:  # the only call of `tick`, because each inlined copy takes seconds to compile
            if not resets:
                _charge(s, b, terms)
            decision_due = tick(s, b)
        if resets:
            s.totals[b] = 0.0  # nothing could wait or run yet
        _observe(s, b, seen)
