"""The compiled rules that decide in rollouts: which workload goes where (see `replay_kernels`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvwrl.compiled import inlined, njit
from tvwrl.packing import exceeds
from tvwrl.schedulers.expected_cost import machine_costs, unused_cost
from tvwrl.simulation import LENGTH, PLACES, USAGE_DELAY

# Rules that can be base policies, and their numbers in kernels
# fmt: off
BASES: tuple[str, ...] = (
    "expected-cost", "expected-cost-known-peak", "expected-cost-peak", "best-fit-peak", "first-fit-peak",
    "worst-fit-peak", "best-fit", "spread", "clairvoyant",
)
# fmt: on
EXPECTED_COST, KNOWN_PEAK, EXPECTED_COST_PEAK, BEST_FIT_PEAK, FIRST_FIT_PEAK = range(5)
WORST_FIT_PEAK, BEST_FIT, SPREAD, CLAIRVOYANT = range(5, len(BASES))
RESERVING = BASES[EXPECTED_COST_PEAK : WORST_FIT_PEAK + 1]  # the sum of lifetime peaks never exceeds a machine
ON, COUNT, USES, CHARGED, BITS, LEAVES = range(6)  # columns of `facts`
WHICH, SINCE, BEYOND = range(3)  # columns of `who`
PASSES, SCORE, DANGER = range(3)  # columns of `scores`
FREE, FRESH, TOP = range(3)  # entries of `counts`
NOWHERE = -1  # what a workload gets that waits
NEVER = 1 << 60  # a slot after all others


class Rule(NamedTuple):
    """What the base knows."""

    number: int  # in BASES
    forecast: Any  # (S, N, L + 1, K + D) u1 and
    steps: Any  # (K + D,) f4 as of `State`, for expected-cost
    peaks: Any  # (3, D) i8 columns of peaks, as of `ForecastTable`; (3, 0) for rules that take the forecast ones
    peak: Any  # (S, N, D) f8 units, for rules that know peaks
    sizes: Any  # (M, D) f8 capacities in `units`
    largest: Any  # (D,) f8 capacity of the largest machine
    units: float  # `peak_units`
    whole: bool  # whether demand is in whole units
    limit: float  # expected overshoot above which a workload waits


class Branches(NamedTuple):
    """Scratch: A branches and a pool of P contents; a rule may choose from Q places of the queue.

    T rows of slots: as many as usage is seen late, then those from now on.
    """

    facts: Any  # (P, 6) i8 machine, workloads, branches that have it, slot charged, the machine's overshoot bits, slot
    # in which the next workload leaves
    who: Any  # (P, N, 3) i4 workload, its start, its overshoot bits; in order of start
    load: Any  # (P, T, D) units
    square: Any  # (P, T, D) sum of squared demand
    charges: Any  # (P, 3) f8 penalties of the current slot
    asked: Any  # (P, Q) i8 questions answered, that about workload w in column w % Q
    scores: Any  # (P, Q, 3) f8 the answers: whether it takes the workload, how gladly, expected overshoot
    content: Any  # (A, M) i8 the machines' contents
    queue: Any  # (A, N) i4 waiting workloads
    waiting: Any  # (A,) i8
    placed: Any  # (A,) i8 in the current slot
    free: Any  # (P,) i8 contents that no branch has
    fresh: Any  # (A N,) i8 contents that were made in this slot
    counts: Any  # (3,) i8 of these two, and contents in use lie below this
    summed: Any  # (K + D,) f4 forecast of a content
    own: Any  # (K + D,) f4 forecast of the workload
    known: Any  # (D,) f8 what a rule knows of its demand


@njit(inline="always", _nrt=False)
def choose(s, r, x, a, sequence, k, slot):  # type: ignore[no-untyped-def]
    """The first place of branch a's queue whose workload the rule can place, and the machine, or NOWHERE."""
    q, m = 0, NOWHERE
    for i in range(min(x.waiting[a], s.rules[PLACES])):
        q, m = i, _machine_for(s, r, x, a, sequence, x.queue[a, i], k, slot)
        if m != NOWHERE:
            break
    return q, m


@inlined(_nrt=False)
def _machine_for(s, r, x, a, sequence, w, k, slot):  # type: ignore[no-untyped-def]
    """The machine that the rule gives workload w in branch a, or NOWHERE."""
    for c in range(len(r.steps)):
        x.own[c] = r.forecast[sequence, w, 0, c] * r.steps[c]
    _know_peaks(r, x.own)
    dominant, share = 0, -1.0
    by_peak = EXPECTED_COST_PEAK <= r.number <= WORST_FIT_PEAK
    for d in range(len(x.known)):
        x.known[d] = r.peak[sequence, w, d] if by_peak else float(s.demand[sequence, w, 0, d])
        if x.known[d] / r.largest[d] > share:
            dominant, share = d, x.known[d] / r.largest[d]
    # Who has been asked the question has the answer; what peaks say is true until the content changes
    question, c = (0 if by_peak and len(r.steps) == 0 else slot) * s.timing.shape[1] + w + 1, w % x.asked.shape[1]
    chosen, best = NOWHERE, -np.inf
    for m in range(x.content.shape[1]):
        p = x.content[a, m]
        if x.asked[p, c] != question:
            x.asked[p, c] = question
            _score(s, r, x, p, c, sequence, w, k, slot, dominant)
        if x.scores[p, c, PASSES] > 0 and x.scores[p, c, SCORE] > best:
            chosen, best = m, x.scores[p, c, SCORE]
    if chosen != NOWHERE and x.scores[x.content[a, chosen], c, DANGER] > r.limit:
        chosen = NOWHERE
    return chosen


@inlined(_nrt=False)
def _score(s, r, x, p, c, sequence, w, k, slot, dominant):  # type: ignore[no-untyped-def]
    """What the rule says of workload w on content p, to `scores`."""
    m, resources = x.facts[p, ON], x.load.shape[2]
    passes, score, danger = True, 0.0, 0.0
    if EXPECTED_COST_PEAK <= r.number <= WORST_FIT_PEAK:
        for d in range(resources):
            reserved = 0.0
            for i in range(x.facts[p, COUNT]):
                reserved += r.peak[sequence, x.who[p, i, WHICH], d]
            passes = passes and not exceeds(reserved + x.known[d], s.capacity[m, d])
            if d == dominant:
                score = reserved - s.capacity[m, d]
        score = 0.0 if r.number == FIRST_FIT_PEAK else -score if r.number == WORST_FIT_PEAK else score
        if r.number == EXPECTED_COST_PEAK and passes:
            _sum_forecasts(s, r, x, p, sequence, slot)
            score = -unused_cost(x.summed, x.own, r.sizes[m], r.units, s.weights)
    elif r.number == CLAIRVOYANT:
        for age in range(s.timing[sequence, w, LENGTH]):
            for d in range(resources):
                total, capacity = float(x.load[p, k + s.rules[USAGE_DELAY] + age, d]), s.capacity[m, d]
                passes = passes and not exceeds(total + s.demand[sequence, w, age, d], capacity)
                if capacity > 0:
                    score -= max(capacity - total, 0.0) / capacity
    else:
        fullest = 0.0
        for d in range(resources):
            total, capacity = float(x.load[p, k, d]), s.capacity[m, d]  # as late as usage is seen
            passes = passes and not exceeds(total + x.known[d], capacity)
            if capacity > 0:
                fullest = max(fullest, total / capacity)
            if d == dominant:
                score = total - capacity
        if r.number == SPREAD:
            score = -fullest - 1e-6 * x.facts[p, COUNT]
        elif r.number <= KNOWN_PEAK and passes:
            _sum_forecasts(s, r, x, p, sequence, slot)
            danger, unused = machine_costs(x.summed, x.own, r.sizes[m], r.units, s.weights, r.whole)
            score = -(danger + unused)
    x.scores[p, c, PASSES], x.scores[p, c, SCORE], x.scores[p, c, DANGER] = passes, score, danger


@njit(inline="always", _nrt=False)
def _sum_forecasts(s, r, x, p, sequence, slot):  # type: ignore[no-untyped-def]
    """Sum the forecasts of what runs in content p, each as of the last slot of it that is seen."""
    for c in range(len(r.steps)):
        x.summed[c] = 0.0
    for i in range(x.facts[p, COUNT]):
        w, seen = x.who[p, i, WHICH], max(slot - x.who[p, i, SINCE] + 1 - s.rules[USAGE_DELAY], 0)
        for c in range(len(r.steps)):
            x.summed[c] += r.forecast[sequence, w, seen, c] * r.steps[c]
    _know_peaks(r, x.summed)


@njit(inline="always", _nrt=False)
def _know_peaks(r, values):  # type: ignore[no-untyped-def]
    """Put lifetime peaks in place of their forecasts (K + D,), as `ForecastTable.told` does."""
    for d in range(r.peaks.shape[1]):
        values[r.peaks[0, d]] = values[r.peaks[2, d]]
        values[r.peaks[1, d]] = 0.0
