"""Rollouts in the recorded future: what every action of a state costs if a rule, the base policy, continues.

Arrivals and demand do not depend on decisions, so all actions can be compared in the same future.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.checks import at_least, one_of
from tvwrl.compiled import inlined, njit
from tvwrl.packing import exceeds
from tvwrl.penalties import TERMS, contention, overshoot, under_utilisation, wait
from tvwrl.schedulers.expected_cost import ACCEPTED_OVERSHOOT, machine_costs, unused_cost
from tvwrl.simulation import (
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
    USAGE_DELAY,
    WAITING,
    WAITS,
    Load,
    Mask,
    Scenario,
    Simulation,
    State,
    Steps,
)
from tvwrl.types import Float, Float32, InputError, Int, Int32, Machines

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
    forecast: Steps  # (S, N, L + 1, K + D) u1 and
    steps: Float32  # (K + D,) as of `State`, for expected-cost
    peaks: Int  # (3, D) columns of peaks, as of `ForecastTable`; (3, 0) for rules that take the forecast ones
    peak: Float  # (S, N, D) units, for rules that know peaks
    sizes: Float  # (M, D) capacities in `units`
    largest: Float  # (D,) capacity of the largest machine
    units: float  # `peak_units`
    whole: bool  # whether demand is in whole units
    limit: float  # expected overshoot above which a workload waits


class Branches(NamedTuple):
    """Scratch: A branches and a pool of P contents; a rule may choose from Q places of the queue.

    T rows of slots: as many as usage is seen late, then those from now on.
    """

    facts: Int  # (P, 6) machine, workloads, branches that have it, slot charged, the machine's overshoot bits, slot
    # in which the next workload leaves
    who: Int32  # (P, N, 3) workload, its start, its overshoot bits; in order of start
    load: Load  # (P, T, D) units
    square: Load  # (P, T, D) sum of squared demand
    charges: Float  # (P, 3) penalties of the current slot
    asked: Int  # (P, Q) questions answered, that about workload w in column w % Q
    scores: Float  # (P, Q, 3) the answers: whether it takes the workload, how gladly, expected overshoot
    content: Int  # (A, M) the machines' contents
    queue: Int32  # (A, N) waiting workloads
    waiting: Int  # (A,)
    placed: Int  # (A,) in the current slot
    free: Int  # (P,) contents that no branch has
    fresh: Int  # (A N,) contents that were made in this slot
    counts: Int  # (3,) of these two, and contents in use lie below this
    summed: Float32  # (K + D,) forecast of a content
    own: Float32  # (K + D,) forecast of the workload
    known: Float  # (D,) what a rule knows of its demand


# As in `episode_kernels`, all is inlined into the one entry: calls that take whole tuples cost more than the work.


# Rules: which workload goes where


@njit(inline="always", _nrt=False)
def choose(s: State, r: Rule, x: Branches, a: int, sequence: int, k: int, slot: int) -> tuple[int, int]:
    """The first place of branch a's queue whose workload the rule can place, and the machine, or NOWHERE."""
    q, m = 0, NOWHERE
    for i in range(min(x.waiting[a], s.rules[PLACES])):
        q, m = i, _machine_for(s, r, x, a, sequence, x.queue[a, i], k, slot)
        if m != NOWHERE:
            break
    return q, m


@inlined(_nrt=False)
def _machine_for(s: State, r: Rule, x: Branches, a: int, sequence: int, w: int, k: int, slot: int) -> int:
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
def _score(
    s: State, r: Rule, x: Branches, p: int, c: int, sequence: int, w: int, k: int, slot: int, dominant: int
) -> None:
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
def _sum_forecasts(s: State, r: Rule, x: Branches, p: int, sequence: int, slot: int) -> None:
    """Sum the forecasts of what runs in content p, each as of the last slot of it that is seen."""
    for c in range(len(r.steps)):
        x.summed[c] = 0.0
    for i in range(x.facts[p, COUNT]):
        w, seen = x.who[p, i, WHICH], max(slot - x.who[p, i, SINCE] + 1 - s.rules[USAGE_DELAY], 0)
        for c in range(len(r.steps)):
            x.summed[c] += r.forecast[sequence, w, seen, c] * r.steps[c]
    _know_peaks(r, x.summed)


@njit(inline="always", _nrt=False)
def _know_peaks(r: Rule, values: Float32) -> None:
    """Put lifetime peaks in place of their forecasts (K + D,), as `ForecastTable.told` does."""
    for d in range(r.peaks.shape[1]):
        values[r.peaks[0, d]] = values[r.peaks[2, d]]
        values[r.peaks[1, d]] = 0.0


# Rollouts


@njit(_nrt=False)
def replay(
    s: State, r: Rule, x: Branches, rows: Int, acts: Int, horizon: int, out: Float, choice: Int, ended: Mask
) -> None:
    """See `Replay.costs`; with a single branch, and no action to play: `CompiledRule.choices`.

    `s`: `State`, `r`: `Rule`, `x`: `Branches`
    `rows`: (n,) environments
    `acts`: (n, A) the action with which each branch begins, of Q * M + 1; NOWHERE: the branch is not played
    `horizon`: slots
    `out`: (n, A, 5) zeros
    `choice`: (n,)
    `ended`: (n,) whether all branches came to the end of the episode, as they should
    """
    branches, machines = x.content.shape
    waits = machines * s.rules[PLACES]
    count, limit = s.timing.shape[1], s.rules[PLACEMENTS_PER_SLOT]
    for n in range(len(rows)):
        b = rows[n]
        sequence, now, arrived = s.counters[b, SEQUENCE], s.counters[b, SLOT], s.counters[b, ARRIVED]
        any_played = begin_branches(s, x, b, acts, n)
        q, m = choose(s, r, x, 0, sequence, 0, now)
        choice[n] = waits if m == NOWHERE else q * machines + m
        ended[n] = True
        for k in range(horizon if any_played else 0):
            slot = now + k
            arrived = begin_slot(s, x, sequence, arrived, k, slot)
            for a in range(branches):
                if acts[n, a] == NOWHERE:
                    continue
                x.placed[a] = s.counters[b, PLACED] if k == 0 else 0
                given = k == 0  # the first decision is the branch's action
                while x.waiting[a] > 0 and (limit == 0 or x.placed[a] < limit):
                    q, m = acts[n, a] // machines, acts[n, a] % machines if acts[n, a] < waits else NOWHERE
                    if not given:
                        q, m = choose(s, r, x, a, sequence, k, slot)
                    given = False
                    if m == NOWHERE:
                        break
                    put(s, x, a, q, m, sequence, k, slot)
            busy = charge_slot(s, x, acts, n, k, slot, out)
            ended[n] = not busy and arrived == count
            if ended[n]:
                break


@njit(inline="always", _nrt=False)
def begin_slot(s: State, x: Branches, sequence: int, arrived: int, k: int, slot: int) -> int:
    """Let slot k from now begin: what ends leaves, what arrives waits. Returns how many have arrived."""
    count = s.timing.shape[1]
    x.counts[FRESH] = 0
    if k > 0:
        for p in range(x.counts[TOP]):
            if x.facts[p, USES] > 0 and x.facts[p, LEAVES] <= slot:
                leave(s, x, p, sequence, slot)
        while arrived < count and s.timing[sequence, arrived, ARRIVAL] <= slot:
            for a in range(len(x.content)):
                x.queue[a, x.waiting[a]] = arrived
                x.waiting[a] += 1
            arrived += 1
    return arrived


@njit(inline="always", _nrt=False)
def charge_slot(s: State, x: Branches, acts: Int, n: int, k: int, slot: int, out: Float) -> bool:
    """Add the penalties of slot k from now to `out` (n, A, 5). Returns whether anything runs or waits in a branch."""
    busy = False
    for a in range(len(x.content)):
        if acts[n, a] != NOWHERE:
            for m in range(x.content.shape[1]):
                p = x.content[a, m]
                if x.facts[p, COUNT] > 0:
                    busy = True
                    if x.facts[p, CHARGED] != slot:
                        x.facts[p, CHARGED] = slot
                        charge(s, x, p, k)
                    for part in range(3):
                        out[n, a, part] += x.charges[p, part]
            out[n, a, 3] += wait(x.waiting[a], s.weights[3, 0])
            busy = busy or x.waiting[a] > 0
    return busy


@inlined(_nrt=False)
def begin_branches(s: State, x: Branches, b: int, acts: Int, n: int) -> int:
    """Begin: content m is what runs on machine m of environment b now, and all branches have it. Returns how many are
    played."""
    machines, rows, resources = len(s.capacity), x.load.shape[1], x.load.shape[2]
    sequence, now, late = s.counters[b, SEQUENCE], s.counters[b, SLOT], s.rules[USAGE_DELAY]
    branches = 0
    for a in range(len(x.content)):
        branches += acts[n, a] != NOWHERE
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
        for row in range(rows):
            slot = now - late + row
            for d in range(resources):
                x.load[m, row, d] = x.square[m, row, d] = 0
                if slot < now:
                    x.load[m, row, d] = s.load[b, m, slot % s.load.shape[2], d]
                elif s.background.shape[1] > 0:
                    unknown = float(s.background[sequence, slot % s.background.shape[1], m, d])
                    x.load[m, row, d], x.square[m, row, d] = unknown, unknown * unknown
    for i in range(s.counters[b, RUNNING]):
        w = s.workloads[b, i, RUNS]
        m, start = s.workloads[b, w, MACHINE], s.workloads[b, w, START]
        c = x.facts[m, COUNT]
        x.who[m, c, WHICH], x.who[m, c, SINCE], x.who[m, c, BEYOND] = w, start, s.workloads[b, w, OVERSHOT]
        x.facts[m, COUNT] = c + 1
        x.facts[m, LEAVES] = min(x.facts[m, LEAVES], start + s.timing[sequence, w, LENGTH])
        book(s, x, m, sequence, w, now - start, 0)
    return branches


@njit(inline="always", _nrt=False)
def book(s: State, x: Branches, p: int, sequence: int, w: int, age: int, k: int) -> None:
    """Add the demand of workload w, `age` slots old, from slot k on to content p."""
    first = k + s.rules[USAGE_DELAY]
    for i in range(min(s.timing[sequence, w, LENGTH] - age, x.load.shape[1] - first)):
        for d in range(x.load.shape[2]):
            demand = float(s.demand[sequence, w, age + i, d])
            x.load[p, first + i, d] += demand
            x.square[p, first + i, d] += demand * demand


@njit(inline="always", _nrt=False)
def leave(s: State, x: Branches, p: int, sequence: int, slot: int) -> None:
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


@inlined(_nrt=False)
def put(s: State, x: Branches, a: int, q: int, m: int, sequence: int, k: int, slot: int) -> None:
    """Start what waits at place q in branch a on machine m; a branch that did the same may have made the content."""
    w = x.queue[a, q]
    x.waiting[a] -= 1
    x.placed[a] += 1
    for i in range(q, x.waiting[a]):
        x.queue[a, i] = x.queue[a, i + 1]
    p, count, new = x.content[a, m], x.facts[x.content[a, m], COUNT], NOWHERE
    for i in range(x.counts[FRESH]):
        if _follows(s, x, p, x.fresh[i], w, k, slot):
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
            copy_content(x, p, new, k)
        x.facts[new, CHARGED] = -1
        x.asked[new] = 0
        x.facts[new, COUNT] = count + 1
        x.facts[new, LEAVES] = min(x.facts[new, LEAVES], slot + s.timing[sequence, w, LENGTH])
        x.who[new, count, WHICH], x.who[new, count, SINCE], x.who[new, count, BEYOND] = w, slot, 0
        book(s, x, new, sequence, w, 0, k)
        x.fresh[x.counts[FRESH]] = new
        x.counts[FRESH] += 1
    x.content[a, m] = new


@njit(inline="always", _nrt=False)
def copy_content(x: Branches, p: int, new: int, k: int) -> None:
    """Make `new` what p is from slot k on, and was while that is seen yet, for one of the branches that have p."""
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
def _follows(s: State, x: Branches, p: int, other: int, w: int, k: int, slot: int) -> bool:
    """Whether content `other` is what p becomes if w starts on it in this slot."""
    count = x.facts[p, COUNT]
    same = other != p and x.facts[other, USES] > 0 and x.facts[other, COUNT] == count + 1
    same = same and x.facts[other, ON] == x.facts[p, ON] and x.facts[other, BITS] == x.facts[p, BITS]
    same = same and x.who[other, count, WHICH] == w and x.who[other, count, SINCE] == slot
    if same:
        for i in range(count):
            for part in range(3):
                same = same and x.who[other, i, part] == x.who[p, i, part]
        for row in range(k, k + s.rules[USAGE_DELAY]):  # what is gone may be seen yet
            for d in range(x.load.shape[2]):
                same = same and x.load[other, row, d] == x.load[p, row, d]
    return same


@njit(inline="always", _nrt=False)
def charge(s: State, x: Branches, p: int, k: int) -> None:
    """The penalties of content p in slot k; marks what overshoots for the first time."""
    contended = unused = exceeded = 0.0
    m, row = x.facts[p, ON], k + s.rules[USAGE_DELAY]
    for d in range(x.load.shape[2]):
        total, capacity = float(x.load[p, row, d]), s.capacity[m, d]
        contended += s.weights[0, d] * contention(total, float(x.square[p, row, d]))
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


HORIZON = 128  # slots
MOST_MEMORY = 2 * 2**30  # bytes, of scratch that is written to in every state


class CompiledRule:
    """What the rule `base` does in states of a simulation.

    In a scenario with `choose_from_queue` it places the first of the visible workloads that it can (`Backfill`).

    Raises InputError for a base that has no compiled rule, or needs forecasts that the sequences lack.
    """

    def __init__(self, simulation: Simulation, base: str) -> None:
        one_of(BASES, base=base)
        table, scenario = simulation.sequences.forecast, simulation.scenario
        number, capacity = BASES.index(base), simulation.state.capacity
        if number > EXPECTED_COST_PEAK:
            table = None
        elif table is None:
            raise InputError(f"base is {base}: it needs sequences that were drawn with forecasts")
        self._simulation = simulation
        self._rule = Rule(
            number=number,
            forecast=np.zeros((1, 1, 1, 0), np.uint8) if table is None else table.values,
            steps=np.zeros(0, np.float32) if table is None else table.steps,
            peaks=table.peaks if table is not None and number == KNOWN_PEAK else np.zeros((3, 0), np.int64),
            peak=simulation.peak if EXPECTED_COST_PEAK <= number <= WORST_FIT_PEAK else np.zeros((1, 1, 0)),
            sizes=capacity / scenario.peak_units,
            largest=capacity.max(axis=0),
            units=float(scenario.peak_units),
            whole=scenario.quantise,
            limit=ACCEPTED_OVERSHOOT * scenario.K_w if number <= KNOWN_PEAK else np.inf,
        )
        self._present = self._scratch(1, 1)

    def _scratch(self, branches: int, slots: int) -> Branches:
        state = self._simulation.state
        (machines, resources), (_, workloads, longest, _) = state.capacity.shape, state.demand.shape
        scenario = self._simulation.scenario
        rows = scenario.usage_delay + slots + longest * (self._rule.number == CLAIRVOYANT)
        made = _arrays(branches, machines, scenario.places, workloads, rows, resources)
        made |= {name: (shape, state.load.dtype) for name, (shape, _) in made.items() if name in ("load", "square")}
        forecast = ((len(self._rule.steps),), np.float32)
        return Branches(
            **{name: np.zeros(*like) for name, like in (made | {"summed": forecast, "own": forecast}).items()}
        )

    def choices(self, rows: Int) -> Int:
        """(n,) its actions, those of `Simulation.step`, in environments `rows` (n,), where a decision is due."""
        return self._play(self._present, rows, np.full((len(rows), 1), NOWHERE), 1)[1]

    def _play(self, branches: Branches, rows: Int, acts: Int, horizon: int) -> tuple[Float, Int, Mask]:
        """See `replay`: `out`, NaN for branches that are not played, `choice` and `ended`."""
        out = np.where(acts[..., None] == NOWHERE, np.nan, np.zeros(len(TERMS)))
        choice, ended = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        replay(self._simulation.state, self._rule, branches, rows, acts, horizon, out, choice, ended)
        return out, choice, ended


class Replay(CompiledRule):
    """Rolls out actions of states of a simulation with the rule `base`, for `horizon` slots or to the end.

    `branches`: the most actions of a state that are rolled out; default: all

    Raises InputError as `CompiledRule` and `check_memory` do, and for a horizon below 1.

    >>> replay = Replay(envs.simulation, "best-fit-peak")  # doctest: +SKIP
    >>> costs = replay.costs(np.arange(envs.num_envs), envs.action_masks())  # doctest: +SKIP
    """

    def __init__(self, simulation: Simulation, base: str, horizon: int = HORIZON, branches: int | None = None) -> None:
        super().__init__(simulation, base)
        at_least(1, horizon=horizon)
        check_memory(simulation.scenario, simulation.machines, simulation.state.demand.shape[1], horizon, branches)
        self._horizon = horizon
        self._branches = self._scratch(branches or simulation.placements + 1, horizon)

    def costs(self, rows: Int, allowed: npt.NDArray[np.bool_]) -> tuple[Float, Int]:
        """(n, placements + 1, 5) penalties (`penalties.TERMS`) from the current slot on, by action, of environments
        `rows` (n,), and (n,) the base's own action.

        Actions are those of `Simulation.step`, the last to let the slot pass. NaN where `allowed` (n, actions) forbids
        one or has no column for it, and where nothing waits at the place that it names. A decision must be due. Raises
        InputError if a cost is not a number.
        """
        actions, machines = self._branches.content.shape
        wanted = np.zeros((len(rows), actions), np.bool_)
        wanted[:, : allowed.shape[1]] = allowed
        waiting = self._simulation.state.counters[rows, WAITING]
        wanted[:, :-1] &= np.arange(actions - 1) // machines < waiting[:, None]
        out, choice, _ = self.played(rows, np.where(wanted, np.arange(actions), NOWHERE))
        return out, choice

    def played(self, rows: Int, acts: Int) -> tuple[Float, Int, Mask]:
        """(n, A, 5) penalties of the actions `acts` (n, A), and the base's own action as in `costs`; (n,) whether all
        of them came to the end of the episode within the horizon.

        -1 in `acts`: none, and NaN. Others must be possible. Raises InputError if a cost is not a number.
        """
        out, choice, ended = self._play(self._branches, rows, acts, self._horizon)
        check_costs(out[acts != NOWHERE])
        return out, choice, ended


def check_costs(costs: Float) -> None:
    """Raise InputError if a cost is not a number, which a learner would take for one that is not known."""
    if not np.isfinite(costs).all():
        raise InputError("an action costs nan or inf: demand and the sum of all penalties must be finite")


def check_memory(
    scenario: Scenario, machines: Machines, workloads: int, horizon: int, branches: int | None = None
) -> None:
    """Raise InputError if a `Replay` would take more than `MOST_MEMORY`, which grows with machines squared.

    The arguments are those of `memory_of`.
    """

    def needed(count: int) -> int:
        return memory_of(scenario, machines, workloads, horizon, branches, count)

    count = len(machines)
    if needed(count) > MOST_MEMORY:
        most = next((fewer for fewer in range(count, 0, -1) if needed(fewer) <= MOST_MEMORY), 0)
        raise InputError(
            f"machines is {count}: rolling out all actions of a state would take {needed(count) / 2**30:.0f} GiB of "
            f"memory, more than the limit of {MOST_MEMORY / 2**30:.0f}; use at most {most} machines: a shared policy "
            "trained on them plays on any number"
        )


def memory_of(
    scenario: Scenario,
    machines: Machines,
    workloads: int,
    horizon: int,
    branches: int | None = None,
    count: int | None = None,
) -> int:
    """Bytes that a `Replay` takes.

    `workloads`: in a sequence
    `branches`: actions rolled out side by side; default: all of a state
    `count`: how many machines, if not all of them
    """
    count = count or len(machines)
    actions = branches or scenario.places * count + 1
    rows, resources = scenario.usage_delay + horizon, machines.capacity.shape[1]
    made = _arrays(actions, count, scenario.places, workloads, rows, resources)
    return sum(math.prod(shape) * np.dtype(kind).itemsize for shape, kind in made.values())


def _arrays(
    branches: int, machines: int, places: int, workloads: int, rows: int, resources: int
) -> dict[str, tuple[tuple[int, ...], npt.DTypeLike]]:
    """Shapes and types of `Branches`, for booked load that is not whole and rules without forecasts."""
    pool = machines * branches + 1  # each branch may have contents of its own, and one is being made
    return {
        "facts": ((pool, 6), np.int64),
        "who": ((pool, workloads, 3), np.int32),
        "load": ((pool, rows, resources), np.float64),
        "square": ((pool, rows, resources), np.float64),
        "charges": ((pool, 3), np.float64),
        "asked": ((pool, places), np.int64),
        "scores": ((pool, places, 3), np.float64),
        "content": ((branches, machines), np.int64),
        "queue": ((branches, workloads), np.int32),
        "waiting": ((branches,), np.int64),
        "placed": ((branches,), np.int64),
        "free": ((pool,), np.int64),
        "fresh": ((branches * workloads,), np.int64),
        "counts": ((3,), np.int64),
        "summed": ((0,), np.float32),
        "own": ((0,), np.float32),
        "known": ((resources,), np.float64),
    }
