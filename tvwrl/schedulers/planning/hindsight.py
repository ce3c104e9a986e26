"""Hindsight: the best schedule that a search finds with the whole future, as a reference for all others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tvwrl.checks import at_least
from tvwrl.compiled import inner, njit
from tvwrl.metrics import penalties
from tvwrl.packing import exceeds
from tvwrl.penalties import overshoot, under_utilisation, wait
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.expected_cost import ExpectedCost
from tvwrl.schedulers.knowledge import FUTURE
from tvwrl.schedulers.moving.base import PLACING, Moving, make_move_rule
from tvwrl.schedulers.planning.perfect_forecast import PerfectForecast
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation import SEQUENCE, Cluster, Scenario, next_random
from tvwrl.types import Episode, Float, Int, Machines, Move, Placement, Workload

NOBODY = -1
TOTAL, BEST = range(2)  # entries of `costs`


class Plan(NamedTuple):
    """A sequence of N workloads, where and when each starts, and what the M machines hold in T slots."""

    demand: Float  # (N, L, D) units
    arrival: Int  # (N,)
    length: Int  # (N,)
    background: Float  # (P, M, D) units of unknown load, slot t has row t % P
    capacity: Float  # (M, D) units
    weights: Float  # (4, D) K_c, K_u, K_o, K_w
    usable: Int  # (<= M,) machines that are switched on
    limit: int  # starts per slot, 0 = any
    queue: int  # visible places of the queue
    per_machine: bool  # first overshoots are charged per machine, not per workload
    # What changes
    machine: Int  # (N,), NOBODY while a workload is taken out
    start: Int  # (N,) slot
    starts: Int  # (T,) workloads that start in a slot
    load: Float  # (M, T, D) units, with background
    running: Int  # (M, T) workloads
    unused: Float  # (M, T) under-utilisation
    beyond: Int  # (M,) slots and resources in which it is overloaded and runs something
    exceeded: Float  # (M,) cost of its first overshoots
    saving: Float  # (N,) what its machine costs more without the workload (less, if negative)
    known: Int  # (N,) the machine's `version` for which `saving` holds
    version: Int  # (M,) how often what it runs has changed
    costs: Float  # (2,) of the plan, of the best one
    best_machine: Int  # (N,)
    best_start: Int  # (N,)


@njit(_nrt=False)
def begin(x: Plan) -> None:
    """Book the plan as `machine` and `start` say: sets everything else that changes."""
    machines, slots, resources = x.load.shape
    for m in range(machines):
        x.beyond[m], x.exceeded[m], x.version[m] = 0, 0.0, 0
        for t in range(slots):
            x.running[m, t], x.unused[m, t] = 0, 0.0
            for d in range(resources):
                x.load[m, t, d] = x.background[t % len(x.background), m, d]
    x.costs[TOTAL] = 0.0
    x.starts[:] = 0
    for w in range(len(x.machine)):
        m, x.machine[w] = x.machine[w], NOBODY
        _put(x, w, m, x.start[w])
        x.known[w] = -1
    keep(x)


@inner(_nrt=False)
def keep(x: Plan) -> None:
    """Remember the plan as the best."""
    x.costs[BEST] = x.costs[TOTAL]
    for w in range(len(x.machine)):
        x.best_machine[w], x.best_start[w] = x.machine[w], x.start[w]


@inner(_nrt=False)
def change(x: Plan, m: int, out: int, new: int, s: int) -> float:
    """What machine m costs more if `out` leaves it and `new` starts in slot s (each may be NOBODY, or the same).

    Exact but for overshoots: of these, the first counts if it is the machine's first.
    """
    left, right, begin, end = 0, 0, s, s
    if out != NOBODY:
        left = x.start[out]
        right = left + x.length[out]
    if new != NOBODY:
        end = s + x.length[new]
        if out == NOBODY:
            left, right = begin, begin
    else:
        begin, end = left, left
    more, over = 0.0, -1
    t, last = min(left, begin), max(right, end)
    while t < last:
        leaves, comes = left <= t < right, begin <= t < end
        if not (leaves or comes):  # between two lives
            t = begin if t < begin else left
            continue
        runs = x.running[m, t] - leaves + comes > 0
        more -= x.unused[m, t]
        for d in range(x.capacity.shape[1]):
            load = x.load[m, t, d]
            less = x.demand[out, t - left, d] if leaves else 0.0
            plus = x.demand[new, t - begin, d] if comes else 0.0
            then = load - less + plus
            more += 0.5 * x.weights[0, d] * (then * then - load * load + less * less - plus * plus)
            if runs:
                more += under_utilisation(max(x.capacity[m, d] - then, 0.0), x.weights[1, d])
                if exceeds(then, x.capacity[m, d]):
                    over = d
        t += 1
    if over >= 0 and x.beyond[m] == 0:
        more += overshoot(1, x.weights[2, over])
    return more


@inner(_nrt=False)
def apply(x: Plan, w: int, m: int, s: int, v: int, mv: int, sv: int) -> None:
    """Start w on machine m in slot s, and v (if any) on mv in sv, instead of where they are."""
    _take(x, w)
    if v != NOBODY:
        _take(x, v)
        _put(x, v, mv, sv)
    _put(x, w, m, s)


@inner(_nrt=False)
def _put(x: Plan, w: int, m: int, s: int) -> None:
    """Start w on machine m in slot s."""
    x.machine[w], x.start[w] = m, s
    x.starts[s] += 1
    x.costs[TOTAL] += wait(s - x.arrival[w], x.weights[3, 0]) + _book(x, w, m, s, 1)


@inner(_nrt=False)
def _take(x: Plan, w: int) -> None:
    """Take w from its machine; `start` stays."""
    m, s, x.machine[w] = x.machine[w], x.start[w], NOBODY
    x.starts[s] -= 1
    x.costs[TOTAL] += _book(x, w, m, s, -1) - wait(s - x.arrival[w], x.weights[3, 0])


@inner(_nrt=False)
def _book(x: Plan, w: int, m: int, s: int, sign: int) -> float:
    """Add w to machine m from slot s on (`sign` 1) or take it off (-1). Returns what the machine costs more."""
    more, beyond = 0.0, x.beyond[m]
    x.version[m] += 1
    for age in range(x.length[w]):
        t, unused, ran = s + age, 0.0, x.running[m, s + age] > 0
        x.running[m, t] += sign
        runs = x.running[m, t] > 0
        for d in range(x.capacity.shape[1]):
            demand, capacity, load = x.demand[w, age, d], x.capacity[m, d], x.load[m, t, d]
            beyond -= ran and exceeds(load, capacity)
            others = load if sign > 0 else load - demand
            then = load + sign * demand if runs else x.background[t % len(x.background), m, d]  # no rounding remains
            x.load[m, t, d] = then
            more += sign * x.weights[0, d] * demand * others
            if runs:
                beyond += exceeds(then, capacity)
                unused += under_utilisation(max(capacity - then, 0.0), x.weights[1, d])
        more += unused - x.unused[m, t]
        x.unused[m, t] = unused
    if beyond > 0 or x.beyond[m] > 0:
        x.beyond[m] = beyond
        exceeded = _first_overshoots(x, m)
        more += exceeded - x.exceeded[m]
        x.exceeded[m] = exceeded
    return more


@inner(_nrt=False)
def _first_overshoots(x: Plan, m: int) -> float:
    """What the first overshoots of machine m cost."""
    total = 0.0
    for d in range(x.capacity.shape[1]):
        firsts = 0
        if x.per_machine:
            for t in range(x.load.shape[1]):
                if x.running[m, t] > 0 and exceeds(x.load[m, t, d], x.capacity[m, d]):
                    firsts = 1
                    break
        else:
            for w in range(len(x.machine)):
                if x.machine[w] != m:
                    continue
                for t in range(x.start[w], x.start[w] + x.length[w]):
                    if exceeds(x.load[m, t, d], x.capacity[m, d]):
                        firsts += 1
                        break
        total += overshoot(firsts, x.weights[2, d])
    return total


NEAR = 8  # slots by which a workload is moved at most when it is moved a little
LATE = 64  # slots after its arrival before which it starts when it is moved anywhere
WINDOW = 20  # arrivals between two workloads that are changed together
KINDS, EXCHANGES = 64, 7  # kinds of proposals, of which the first exchange two workloads
MANTISSA = 2.0**53


@njit(_nrt=False)
def anneal(x: Plan, stream: int, proposals: int, hot: float, cold: float) -> None:
    """Change the plan `proposals` times at random; a change that costs more is made with the chance exp(-cost / heat).

    `x`: `Plan`, after `begin`; its `best_machine` and `best_start` are the best plan seen
    `stream`: seed of all random numbers
    `hot`, `cold`: first and last heat > 0, in the unit of costs
    """
    count, heat, cooling = len(x.machine), hot, (cold / hot) ** (1.0 / max(proposals, 1))
    for _ in range(proposals):
        heat *= cooling
        stream, number = next_random(stream)
        budget = -heat * math.log((np.float64(number >> np.uint64(11)) + 1.0) / MANTISSA)
        stream, kind = _draw(stream, KINDS)
        stream, w = _draw(stream, count)
        stream, v = _near(x, stream, w)
        stream, anywhere = _draw(stream, 8)
        if anywhere == 0:
            stream, i = _draw(stream, len(x.usable))
            m = x.usable[i]
        else:  # one that runs something at the time
            stream, i = _near(x, stream, w)
            m = x.machine[i]
        stream, ahead = _draw(stream, LATE if kind == KINDS - 1 else 2 * NEAR + 1)
        if kind < EXCHANGES:
            m, s, mv, sv = _exchange(x, kind, w, v, m, ahead - NEAR)
        else:
            m, s = _move(x, kind, w, v, m, ahead)
            v, mv, sv = NOBODY, NOBODY, 0
        if m != x.machine[w] or (v == NOBODY and s != x.start[w]):
            _attempt(x, w, m, s, v, mv, sv, budget)


@njit(inline="always", _nrt=False)
def _draw(stream: int, count: int) -> tuple[int, int]:
    """The stream, and a random number from 0 to count - 1."""
    stream, number = next_random(stream)
    return stream, int(np.int64(number % np.uint64(count)))


@njit(inline="always", _nrt=False)
def _near(x: Plan, stream: int, w: int) -> tuple[int, int]:
    """The stream, and a workload that arrives about when w does."""
    reach = min(WINDOW, len(x.machine) - 1)
    stream, i = _draw(stream, 2 * reach + 1)
    return stream, (w + i - reach) % len(x.machine)


@inner(_nrt=False)
def _move(x: Plan, kind: int, w: int, v: int, m: int, ahead: int) -> tuple[int, int]:
    """A machine and a slot for w: machine m or its own, or beside v."""
    s, way = x.start[w], kind % 8
    if kind == KINDS - 1:  # any slot
        s = x.arrival[w] + ahead
    elif way <= 2:  # the same slot
        pass
    elif way == 3:  # a little earlier or later
        s += ahead - NEAR
    elif way == 4:  # the same on the same machine
        m, s = x.machine[w], s + ahead - NEAR
    else:
        m, s = x.machine[v], x.start[v]
        if way == 5:  # begins as v ends
            s += x.length[v]
        elif way == 6:  # ends as v ends
            s += x.length[v] - x.length[w]
        elif kind % 16 == 7:  # ends as v begins; otherwise it begins as v begins
            s -= x.length[w]
    return m, min(max(s, x.arrival[w]), len(x.starts) - x.length[w])


@inner(_nrt=False)
def _exchange(x: Plan, kind: int, w: int, v: int, m: int, ahead: int) -> tuple[int, int, int, int]:
    """Machine and slot for w, which takes the machine of v, and for v, which takes that of w or m."""
    old, taken, s, sv = x.machine[w], x.machine[v], x.start[w], x.start[v]
    if kind == 0:  # each takes the other's slot too
        s, sv = sv, s
    elif kind == 1:  # w takes the slot of v, which moves a little
        s, sv = sv, sv + ahead
    elif kind == 2:
        s += ahead
    elif kind == 3 and m != taken:
        old = m
    elif kind == 4 and m != taken:
        old, sv = m, sv + ahead
    return taken, s, old, sv


@inner(_nrt=False)
def _attempt(x: Plan, w: int, m: int, s: int, v: int, mv: int, sv: int, budget: float) -> None:
    """Let w start on machine m in slot s, if that is allowed and adds at most `budget`.

    If there is a v, it is on machine m, where w is not, and has to start on mv, another machine, in slot sv.
    """
    old, old_s, old_sv = x.machine[w], x.start[w], x.start[v]
    if not _may_start(x, w, s, v, sv):
        return
    more = wait(s - old_s, x.weights[3, 0])
    sure = x.beyond[old] == 0 and x.beyond[m] == 0  # otherwise overshoots may be saved
    out = w if m == old else v
    if v != NOBODY:
        sure = sure and x.beyond[mv] == 0
        more += wait(sv - old_sv, x.weights[3, 0])
        if mv != old:
            more += change(x, mv, NOBODY, v, sv)
    if m != old:
        if mv == old:
            more += change(x, old, w, v, sv)
        else:
            if x.known[w] != x.version[old]:
                x.known[w] = x.version[old]
                x.saving[w] = change(x, old, w, NOBODY, 0)
            more += x.saving[w]
    more += change(x, m, out, w, s)
    moved = s != old_s or (v != NOBODY and sv != old_sv)
    if (sure and more > budget) or (moved and not _are_seen(x, w, s, v, sv)):
        return
    before = x.costs[TOTAL]
    apply(x, w, m, s, v, mv, sv)
    if x.costs[TOTAL] - before > budget:
        apply(x, w, old, old_s, v, m, old_sv)
    elif x.costs[TOTAL] < x.costs[BEST] - 1e-6:
        keep(x)


@njit(inline="always", _nrt=False)
def _may_start(x: Plan, w: int, s: int, v: int, sv: int) -> bool:
    """Whether w may start in slot s and v (if any) in sv: they have arrived, and placements are left."""
    last = len(x.starts)
    if s < x.arrival[w] or s + x.length[w] > last:
        return False
    if v != NOBODY and (sv < x.arrival[v] or sv + x.length[v] > last):
        return False
    if x.limit == 0:
        return True
    may: bool = s == x.start[w] or x.starts[s] < x.limit
    if v != NOBODY and s == sv:
        may = x.starts[s] - (x.start[w] == s) - (x.start[v] == s) + 2 <= x.limit
    elif v != NOBODY:
        may = may or s == x.start[v]
        may = may and (sv == x.start[w] or sv == x.start[v] or x.starts[sv] < x.limit)
    return may


@inner(_nrt=False)
def _are_seen(x: Plan, w: int, s: int, v: int, sv: int) -> bool:
    """Whether the visible queue shows every workload when it starts, if w starts in slot s and v (if any) in sv.

    Of those that arrived before it, only those that start later still wait: fewer than the queue has places.
    """
    old, old_v = x.start[w], x.start[v]
    x.start[w] = s
    if v != NOBODY:
        x.start[v] = sv
    seen = True
    for j in range(len(x.start)):
        before = 0
        for i in range(j):
            before += x.start[i] > x.start[j]
        if before >= x.queue:
            seen = False
            break
    x.start[w] = old
    if v != NOBODY:
        x.start[v] = old_v
    return seen


# Chosen on validation sequences of google2011 at load 0.5 (docs/explanation/bounds.md)
PROPOSALS = 100_000  # changes tried per workload
# Rules that move, played with perfect forecasts: one of these thresholds is best at prices of 300 to 3,000
MOVING = tuple(f"{rule}(threshold={t})" for rule in ("greedy", "greedy-evacuate") for t in (3000, 10000, 20000))
HOT, COLD = 2000.0, 200.0  # first and last heat: about what a change may add to the costs


class Hindsight(Scheduler):
    """Plans the whole episode when it begins, then plays the plan.

    The search starts from the episode of the scheduler that `start` makes and keeps the best plan seen, so it is never
    worse if that scheduler places every workload. Its plans keep to what binds all: they have at most
    `placements_per_slot` starts in a slot, of workloads that the queue shows. `proposals` >= 0: changes tried per
    workload (None: `PROPOSALS`), more than a second of work for every million.

    Where workloads may be moved, it also plays rules that move with perfect forecasts (`MOVING`), and takes the best
    schedule of all. It does not search among moves. Sequences drawn without forecasts are searched without moves.

    Attribute: `cost` of the plan, minus its reward.
    """

    name: str = "hindsight"
    knowledge = FUTURE

    def __init__(self, start: Callable[[], Scheduler], proposals: int | None = None) -> None:
        at_least(0, proposals=proposals)
        self._start, self._proposals = start, proposals

    def wants_forecasts(self, scenario: Scenario) -> bool:
        """See `Scheduler.wants_forecasts`: the rules that move look at them."""
        return scenario.moves_per_slot > 0

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Find the plan for the sequence that `cluster` begins."""
        simulation = cluster.simulation
        sequence = int(simulation.state.counters[cluster.b, SEQUENCE])
        runner = Runner(simulation.sequences, simulation.machines, simulation.scenario)
        plan = plan_of(runner.play(self._start(), sequence), simulation.scenario, simulation.machines)
        begin(plan)
        tries = PROPOSALS if self._proposals is None else self._proposals
        anneal(plan, int(rng.integers(2**62)), tries * len(plan.start), HOT, COLD)
        plan.machine[:], plan.start[:] = plan.best_machine, plan.best_start
        begin(plan)  # from scratch, so that no rounding adds up
        self.cost = float(plan.costs[BEST])
        self._machine, self._begins = plan.best_machine.tolist(), plan.best_start.tolist()
        self._moves: dict[int, list[Move]] = {}
        if simulation.scenario.moves_per_slot and simulation.sequences.forecast is not None:
            self._with_moves(runner, sequence)

    def _with_moves(self, runner: Runner, sequence: int) -> None:
        """Take the schedule of a rule that moves with perfect forecasts, if one costs less than the plan."""
        scenario = runner.scenario
        for rule in MOVING:
            episode = runner.play(PerfectForecast(Moving(ExpectedCost(PLACING), make_move_rule(rule))), sequence)
            total = sum(
                penalties(episode, runner.machines, scenario.penalty_weights(), scenario.overshoot_per).values()
            )
            if (episode.start < 0).any() or total >= self.cost:
                continue
            assert episode.moves is not None
            self.cost, self._moves = total, {}
            self._machine, self._begins = episode.machine.tolist(), episode.start.tolist()
            for workload, slot, target in zip(
                *(part.tolist() for part in (episode.moves.workload, episode.moves.slot, episode.moves.target)),
                strict=True,
            ):
                self._moves.setdefault(slot - scenario.move_slots, []).append(Move(workload, target))

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        slot = cluster.slot
        for workload in pending:
            if self._begins[workload.index] <= slot:
                yield Placement(workload, self._machine[workload.index])

    def moves(self, cluster: Cluster) -> Iterable[Move]:
        """See `Scheduler.moves`."""
        return self._moves.get(cluster.slot, ())


def plan_of(episode: Episode, scenario: Scenario, machines: Machines) -> Plan:
    """The plan that an episode played, to `begin`. What it did not place starts afterwards, one after another."""
    capacity = machines.capacity
    count, resources = len(capacity), len(machines.resources)
    length = np.array([len(demand) for demand in episode.demand], np.int64)
    demand = np.zeros((len(length), int(length.max()), resources))
    for i, units in enumerate(episode.demand):
        demand[i, : length[i]] = units
    machine, start = episode.machine.astype(np.int64), episode.start.astype(np.int64)
    end = int(max(episode.finish.max(), episode.arrival.max() + 1))
    for unplaced in np.flatnonzero(start < 0):
        machine[unplaced], start[unplaced] = capacity.sum(axis=1).argmax(), end
        end += int(length[unplaced])
    slots = end + int(length.max())
    unknown = np.zeros((1, count, resources)) if episode.background is None else episode.background
    on = np.flatnonzero((capacity > 0).any(axis=1))
    return Plan(
        demand=demand,
        arrival=episode.arrival.astype(np.int64),
        length=length,
        background=unknown.astype(np.float64),
        capacity=capacity,
        weights=scenario.penalty_weights().per_resource(resources),
        usable=on if len(on) else np.arange(count),
        limit=scenario.placements_per_slot or 0,
        queue=scenario.queue,
        per_machine=scenario.overshoot_per == "machine",
        machine=machine,
        start=start,
        starts=np.zeros(slots, np.int64),
        load=np.zeros((count, slots, resources)),
        running=np.zeros((count, slots), np.int64),
        unused=np.zeros((count, slots)),
        beyond=np.zeros(count, np.int64),
        exceeded=np.zeros(count),
        saving=np.zeros(len(length)),
        known=np.zeros(len(length), np.int64),
        version=np.zeros(count, np.int64),
        costs=np.zeros(2),
        best_machine=np.zeros(len(length), np.int64),
        best_start=np.zeros(len(length), np.int64),
    )
