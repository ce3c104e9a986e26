"""Compiled branching: all actions of a state played on by a rule, with what branches have in common done once.

Branches that differ in one placement differ in one machine at first. What a machine runs, and since when, is its
*content*; branches share contents until they differ, and a content is charged, and asked whether it takes a workload,
once for all of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvwrl.compiled import njit
from tvwrl.packing.fit import exceeds
from tvwrl.penalties import contention, overshoot, under_utilisation, wait
from tvwrl.schedulers.expected_cost import UNBOUNDED, machine_costs, unused_cost
from tvwrl.simulation.state import (
    ARRIVAL,
    ARRIVED,
    LENGTH,
    MACHINE,
    MACHINE_OVERSHOT,
    OVERSHOOT_PER_MACHINE,
    OVERSHOT,
    PLACED,
    PLACEMENTS_PER_SLOT,
    PLACES,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    START,
    WAITING,
    WAITS,
)

# Rules that can play on, and their numbers in kernels
# fmt: off
BASES = (
    "expected-cost", "expected-cost-peak", "best-fit-peak", "first-fit-peak", "worst-fit-peak", "best-fit", "spread",
    "clairvoyant",
)
# fmt: on
EXPECTED_COST, EXPECTED_COST_PEAK, BEST_FIT_PEAK, FIRST_FIT_PEAK, WORST_FIT_PEAK, BEST_FIT, SPREAD, CLAIRVOYANT = range(
    len(BASES)
)
ON, COUNT, USES, CHARGED, BITS, LEAVES = range(6)  # columns of `facts`
WHICH, SINCE, BEYOND = range(3)  # columns of `who`
PASSES, SCORE, DANGER = range(3)  # columns of `scores`
FREE, FRESH, TOP = range(3)  # entries of `counts`
NOWHERE = -1  # what a workload gets that waits
NEVER = 1 << 60  # a slot after all others


class Rule(NamedTuple):
    """What the base knows."""

    number: int  # in BASES
    forecast: Any  # (S, N, L + 1, K) u1 and
    steps: Any  # (K,) f4 as of `State`, for expected-cost
    hidden: Any  # (K,) bool columns that it does not know
    peak: Any  # (S, N, D) f8 units, for rules that know peaks
    sizes: Any  # (M, D) f8 capacities in `units`
    largest: Any  # (D,) f8 capacity of the largest machine
    units: float  # `peak_units`
    whole: bool  # whether demand is in whole units
    limit: float  # expected overshoot above which a workload waits


class Branches(NamedTuple):
    """Scratch: A branches and a pool of P contents, T slots ahead; a rule may choose from Q places of the queue."""

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
    summed: Any  # (K,) f4 forecast of a content
    own: Any  # (K,) f4 forecast of the workload
    known: Any  # (D,) f8 what a rule knows of its demand


# As in `clock_kernels`, all is inlined into the one entry: calls that take whole tuples cost more than the work itself.


@njit(_nrt=False)
def replay(s, r, x, rows, wanted, horizon, out, choice):  # type: ignore[no-untyped-def]
    """See `Replay.costs`.

    `s`: `State`, `r`: `Rule`, `x`: `Branches`
    `rows`: (n,) environments
    `wanted`: (n, Q * M + 1) actions to play
    `horizon`: slots
    `out`: (n, Q * M + 1, 4) zeros
    `choice`: (n,)
    """
    actions, machines = x.content.shape
    count, limit = s.timing.shape[1], s.rules[PLACEMENTS_PER_SLOT]
    for n in range(len(rows)):
        b = rows[n]
        sequence, now, arrived = s.counters[b, SEQUENCE], s.counters[b, SLOT], s.counters[b, ARRIVED]
        _branch(s, x, b, wanted, n)
        q, m = _choose(s, r, x, 0, sequence, 0, now)
        choice[n] = actions - 1 if m == NOWHERE else q * machines + m
        for k in range(horizon):
            slot = now + k
            x.counts[FRESH] = 0
            if k > 0:
                for p in range(x.counts[TOP]):
                    if x.facts[p, USES] > 0 and x.facts[p, LEAVES] <= slot:
                        _leave(s, x, p, sequence, slot)
                while arrived < count and s.timing[sequence, arrived, ARRIVAL] <= slot:
                    for a in range(actions):
                        x.queue[a, x.waiting[a]] = arrived
                        x.waiting[a] += 1
                    arrived += 1
            for a in range(actions):
                if not wanted[n, a]:
                    continue
                x.placed[a] = s.counters[b, PLACED] if k == 0 else 0
                given = k == 0  # the first decision is the branch's action
                while x.waiting[a] > 0 and (limit == 0 or x.placed[a] < limit):
                    q, m = a // machines, a % machines if a < actions - 1 else NOWHERE
                    if not given:
                        q, m = _choose(s, r, x, a, sequence, k, slot)
                    given = False
                    if m == NOWHERE:
                        break
                    _put(s, x, a, q, m, sequence, k, slot)
            busy = arrived < count
            for a in range(actions):
                if not wanted[n, a]:
                    continue
                for m in range(machines):
                    p = x.content[a, m]
                    if x.facts[p, COUNT] > 0:
                        busy = True
                        if x.facts[p, CHARGED] != slot:
                            x.facts[p, CHARGED] = slot
                            _charge(s, x, p, k)
                        for part in range(3):
                            out[n, a, part] += x.charges[p, part]
                out[n, a, 3] += wait(x.waiting[a], s.weights[3, 0])
                busy = busy or x.waiting[a] > 0
            if not busy:
                break


@njit(inline="always", _nrt=False)
def _branch(s, x, b, wanted, n):  # type: ignore[no-untyped-def]
    """Begin: content m is what runs on machine m of environment b now, and all branches have it."""
    machines, ahead, resources = len(s.capacity), x.load.shape[1], x.load.shape[2]
    sequence, now = s.counters[b, SEQUENCE], s.counters[b, SLOT]
    branches = 0
    for a in range(len(x.content)):
        branches += wanted[n, a]
        x.waiting[a] = s.counters[b, WAITING]
        for q in range(x.waiting[a]):
            x.queue[a, q] = s.workloads[b, q, WAITS]
        for m in range(machines):
            x.content[a, m] = m
    x.asked[:] = 0
    x.counts[FREE], x.counts[TOP] = 0, machines
    for p in range(len(x.facts) - 1, -1, -1):
        for part in range(x.facts.shape[1]):
            x.facts[p, part] = 0
        if p >= machines:
            x.free[x.counts[FREE]] = p
            x.counts[FREE] += 1
    for m in range(machines):
        x.facts[m, ON], x.facts[m, USES], x.facts[m, LEAVES] = m, branches, NEVER
        x.facts[m, CHARGED], x.facts[m, BITS] = -1, s.machines[b, m, MACHINE_OVERSHOT]
        for k in range(ahead):
            for d in range(resources):
                x.load[m, k, d] = x.square[m, k, d] = 0
                if s.background.shape[1] > 0:
                    unknown = float(s.background[sequence, (now + k) % s.background.shape[1], m, d])
                    x.load[m, k, d], x.square[m, k, d] = unknown, unknown * unknown
    for i in range(s.counters[b, RUNNING]):
        w = s.workloads[b, i, RUNS]
        m, start = s.workloads[b, w, MACHINE], s.workloads[b, w, START]
        c = x.facts[m, COUNT]
        x.who[m, c, WHICH], x.who[m, c, SINCE], x.who[m, c, BEYOND] = w, start, s.workloads[b, w, OVERSHOT]
        x.facts[m, COUNT] = c + 1
        x.facts[m, LEAVES] = min(x.facts[m, LEAVES], start + s.timing[sequence, w, LENGTH])
        _book(s, x, m, sequence, w, now - start, 0)


@njit(inline="always", _nrt=False)
def _book(s, x, p, sequence, w, age, k):  # type: ignore[no-untyped-def]
    """Add the demand of workload w, `age` slots old, from slot k on to content p."""
    for i in range(min(s.timing[sequence, w, LENGTH] - age, x.load.shape[1] - k)):
        for d in range(x.load.shape[2]):
            demand = float(s.demand[sequence, w, age + i, d])
            x.load[p, k + i, d] += demand
            x.square[p, k + i, d] += demand * demand


@njit(inline="always", _nrt=False)
def _leave(s, x, p, sequence, slot):  # type: ignore[no-untyped-def]
    """Take what ends before this slot from the list of content p."""
    kept, leaves = 0, NEVER
    for i in range(x.facts[p, COUNT]):
        end = x.who[p, i, SINCE] + s.timing[sequence, x.who[p, i, WHICH], LENGTH]
        if end > slot:
            leaves = min(leaves, end)
            for part in range(3):
                x.who[p, kept, part] = x.who[p, i, part]
            kept += 1
    x.facts[p, COUNT], x.facts[p, LEAVES] = kept, leaves
    x.asked[p] = 0


@njit(inline="always", _nrt=False)
def _put(s, x, a, q, m, sequence, k, slot):  # type: ignore[no-untyped-def]
    """Start what waits at place q in branch a on machine m; a branch that did the same may have made the content."""
    w = x.queue[a, q]
    x.waiting[a] -= 1
    x.placed[a] += 1
    for i in range(q, x.waiting[a]):
        x.queue[a, i] = x.queue[a, i + 1]
    p, count, new = x.content[a, m], x.facts[x.content[a, m], COUNT], NOWHERE
    for i in range(x.counts[FRESH]):
        if _follows(x, p, x.fresh[i], w, slot):
            new = x.fresh[i]
            break
    if new != NOWHERE:
        x.facts[new, USES] += 1
        x.facts[p, USES] -= 1
        if x.facts[p, USES] == 0:
            x.free[x.counts[FREE]] = p
            x.counts[FREE] += 1
    else:
        new = p
        if x.facts[p, USES] > 1:  # other branches need it as it was
            x.counts[FREE] -= 1
            new = x.free[x.counts[FREE]]
            x.counts[TOP] = max(x.counts[TOP], new + 1)
            _copy(x, p, new, k)
        x.facts[new, CHARGED] = -1
        x.asked[new] = 0
        x.facts[new, COUNT] = count + 1
        x.facts[new, LEAVES] = min(x.facts[new, LEAVES], slot + s.timing[sequence, w, LENGTH])
        x.who[new, count, WHICH], x.who[new, count, SINCE], x.who[new, count, BEYOND] = w, slot, 0
        _book(s, x, new, sequence, w, 0, k)
        x.fresh[x.counts[FRESH]] = new
        x.counts[FRESH] += 1
    x.content[a, m] = new


@njit(inline="always", _nrt=False)
def _copy(x, p, new, k):  # type: ignore[no-untyped-def]
    """Make `new` what p is from slot k on, for one of the branches that have p."""
    for part in range(x.facts.shape[1]):
        x.facts[new, part] = x.facts[p, part]
    x.facts[p, USES] -= 1
    x.facts[new, USES] = 1
    for i in range(x.facts[p, COUNT]):
        for part in range(3):
            x.who[new, i, part] = x.who[p, i, part]
    for j in range(k, x.load.shape[1]):
        for d in range(x.load.shape[2]):
            x.load[new, j, d] = x.load[p, j, d]
            x.square[new, j, d] = x.square[p, j, d]


@njit(inline="always", _nrt=False)
def _follows(x, p, other, w, slot):  # type: ignore[no-untyped-def]
    """Whether content `other` is what p becomes if w starts on it in this slot."""
    count = x.facts[p, COUNT]
    same = other != p and x.facts[other, USES] > 0 and x.facts[other, COUNT] == count + 1
    same = same and x.facts[other, ON] == x.facts[p, ON] and x.facts[other, BITS] == x.facts[p, BITS]
    same = same and x.who[other, count, WHICH] == w and x.who[other, count, SINCE] == slot
    if same:
        for i in range(count):
            for part in range(3):
                same = same and x.who[other, i, part] == x.who[p, i, part]
    return same


@njit(inline="always", _nrt=False)
def _charge(s, x, p, k):  # type: ignore[no-untyped-def]
    """The penalties of content p in slot k; marks what overshoots for the first time."""
    contended = unused = exceeded = 0.0
    m = x.facts[p, ON]
    for d in range(x.load.shape[2]):
        total, capacity = float(x.load[p, k, d]), s.capacity[m, d]
        contended += s.weights[0, d] * contention(total, float(x.square[p, k, d]))
        unused += under_utilisation(max(capacity - total, 0.0), s.weights[1, d])
        if exceeds(total, capacity):
            bit, first = 1 << d, 0
            if s.rules[OVERSHOOT_PER_MACHINE]:
                first = 0 if x.facts[p, BITS] & bit else 1
                x.facts[p, BITS] |= bit
            else:
                for i in range(x.facts[p, COUNT]):
                    if not x.who[p, i, BEYOND] & bit:
                        x.who[p, i, BEYOND] |= bit
                        first += 1
            exceeded += overshoot(first, s.weights[2, d])
    x.charges[p, 0], x.charges[p, 1], x.charges[p, 2] = contended, unused, exceeded


@njit(inline="always", _nrt=False)
def _choose(s, r, x, a, sequence, k, slot):  # type: ignore[no-untyped-def]
    """The first place of branch a's queue whose workload the rule can place, and the machine, or NOWHERE."""
    q, m = 0, NOWHERE
    for i in range(min(x.waiting[a], s.rules[PLACES])):
        q, m = i, _machine_for(s, r, x, a, sequence, x.queue[a, i], k, slot)
        if m != NOWHERE:
            break
    return q, m


@njit(inline="always", _nrt=False)
def _machine_for(s, r, x, a, sequence, w, k, slot):  # type: ignore[no-untyped-def]
    """The machine that the rule gives workload w in branch a, or NOWHERE."""
    for c in range(len(r.steps)):
        x.own[c] = UNBOUNDED if r.hidden[c] else r.forecast[sequence, w, 0, c] * r.steps[c]
    dominant, share = 0, -1.0
    by_peak = EXPECTED_COST_PEAK <= r.number <= WORST_FIT_PEAK
    for d in range(len(x.known)):
        x.known[d] = r.peak[sequence, w, d] if by_peak else float(s.demand[sequence, w, 0, d])
        if x.known[d] / r.largest[d] > share:
            dominant, share = d, x.known[d] / r.largest[d]
    # Who has been asked the question has the answer; what peaks say is true until the content changes
    question, c = (0 if by_peak else slot) * s.timing.shape[1] + w + 1, w % x.asked.shape[1]
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


@njit(inline="always", _nrt=False)
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
            _sum_forecasts(r, x, p, sequence, slot)
            score = -unused_cost(x.summed, x.own, r.sizes[m], r.units, s.weights)
    elif r.number == CLAIRVOYANT:
        for age in range(s.timing[sequence, w, LENGTH]):
            for d in range(resources):
                total, capacity = float(x.load[p, k + age, d]), s.capacity[m, d]
                passes = passes and not exceeds(total + s.demand[sequence, w, age, d], capacity)
                if capacity > 0:
                    score -= max(capacity - total, 0.0) / capacity
    else:
        fullest = 0.0
        for d in range(resources):
            total, capacity = float(x.load[p, k, d]), s.capacity[m, d]
            passes = passes and not exceeds(total + x.known[d], capacity)
            if capacity > 0:
                fullest = max(fullest, total / capacity)
            if d == dominant:
                score = total - capacity
        if r.number == SPREAD:
            score = -fullest - 1e-6 * x.facts[p, COUNT]
        elif r.number == EXPECTED_COST and passes:
            _sum_forecasts(r, x, p, sequence, slot)
            danger, unused = machine_costs(x.summed, x.own, r.sizes[m], r.units, s.weights, r.whole)
            score = -(danger + unused)
    x.scores[p, c, PASSES], x.scores[p, c, SCORE], x.scores[p, c, DANGER] = passes, score, danger


@njit(inline="always", _nrt=False)
def _sum_forecasts(r, x, p, sequence, slot):  # type: ignore[no-untyped-def]
    """Sum the forecasts of what runs in content p."""
    for c in range(len(r.steps)):
        x.summed[c] = 0.0
    for i in range(x.facts[p, COUNT]):
        w, seen = x.who[p, i, WHICH], slot - x.who[p, i, SINCE] + 1
        for c in range(len(r.steps)):
            x.summed[c] += r.forecast[sequence, w, seen, c] * r.steps[c]
    for c in range(len(r.steps)):
        if r.hidden[c]:
            x.summed[c] = UNBOUNDED
