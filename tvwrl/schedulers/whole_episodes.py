"""Episodes that are played whole in machine code, by rules that have no need of Python between decisions.

Workloads are placed by expected cost, or partly by a learnt value, and what runs is moved by the search of
`move_search`. What is decided is what the rules themselves decide when they are asked slot by slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing import exceeds
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.expected_cost import LONGEST_WAIT, ExpectedCost, machine_costs, plain_expected_cost
from tvwrl.schedulers.head_of_queue import Backfill
from tvwrl.schedulers.moving.base import Moving
from tvwrl.schedulers.moving.machine_costs import (
    NOWHERE,
    Costs,
    Layers,
    Present,
    all_features,
    gather,
    has_room,
    joining,
)
from tvwrl.schedulers.moving.machine_value import ByValue
from tvwrl.schedulers.moving.move_search import (
    BySearch,
    Search,
    find_moves,
)
from tvwrl.simulation import (
    ACTIVE,
    ADVANCE,
    ARRIVAL,
    GOING,
    IDLE,
    MOVE,
    MOVES,
    MOVES_PER_SLOT,
    OVER,
    PLACE,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    USAGE_DELAY,
    WAITING,
    WAITS,
    Scenario,
    Simulation,
    State,
    drive,
    load_after_moves,
    look_at_running,
    may_place_more,
    next_random,
)
from tvwrl.types import Float, Float32, Int


class Placing(NamedTuple):
    """How what waits is placed."""

    sizes: Float  # (M, D) capacities as multiples of `peak_units`
    weights: Float  # (4, D) of the penalties
    units: float  # `peak_units`
    whole: bool  # whether demand is in whole units
    limit: float  # expected cost of overshoots above which it waits
    shown: int  # workloads of the queue that are asked in turn: 1, or with backfilling all visible ones
    opening: float  # expected cost, for each that waits, above which it waits rather than have a machine opened
    share: float  # of a learnt value in the choice, 0..1
    costs: Costs  # of that value


class Notes(NamedTuple):
    """What is noted of an episode for learning, and the random moves that are made for it."""

    explore: float  # share of the slots in which a random move is made
    slots: Int  # (n,) output: slots in which moves were decided
    features: Float32  # (n, M, F) output: of the machines after these moves; n = 0: nothing is noted


NOTHING = Notes(0.0, np.zeros(0, np.int64), np.zeros((0, 0, 0), np.float32))


def whole(scheduler: Scheduler, scenario: Scenario) -> tuple[Placing, Search] | None:
    """How a scheduler, which was reset, is played whole.

    None where Python decides, and where no rule moves what runs: asking slot by slot is quick enough there to save
    users the time to compile this.
    """
    if type(scheduler) is not Moving or not scenario.moves_per_slot:
        return None
    rule, placing, shown = scheduler.rule, scheduler.placing, 1
    if type(placing) is Backfill:
        placing, shown = placing.served, scenario.queue
    if not isinstance(rule, BySearch) or type(rule).moves is not BySearch.moves:
        return None
    if any(_is_changed(one) for one in (scheduler, scheduler.placing, placing, rule)):
        return None
    if isinstance(placing, ByValue) and type(placing) is ByValue and placing.rule is rule:
        share = rule.share
    elif type(placing) is ExpectedCost and plain_expected_cost(placing):
        share = 0.0
    else:
        return None
    weights, units = placing.weights, placing.units
    costs = rule.search.costs
    return Placing(
        placing.sizes, weights, units, placing.whole, placing.limit, shown, placing.most_to_open, share, costs
    ), rule.search


def _is_changed(one: object) -> bool:
    """Whether a method of a scheduler or rule was replaced by another, in this one alone."""
    return any(callable(value) and hasattr(type(one), name) for name, value in getattr(one, "__dict__", {}).items())


def play_whole(
    simulation: Simulation, placing: Placing, search: Search, idle: int, notes: Notes = NOTHING, seed: int = 0
) -> tuple[int, int]:
    """Play the episode of a simulation of one cluster to its end, or until nothing was placed in `idle` slots.

    Returns the number of decisions, and of slots that were noted. `seed`: of random moves.
    """
    decisions, noted, stream = 0, 0, seed
    while True:
        more, noted, stream = _play(simulation.state, placing, search, idle, notes, noted, stream)
        decisions += more
        if simulation.is_over() or simulation.state.counters[0, IDLE] >= idle:
            return decisions, noted
        simulation.make_room_for_moves(2 * simulation.state.moves.shape[1] + simulation.scenario.moves_per_slot)


@njit
def _play(
    s: State, placing: Placing, search: Search, idle: int, notes: Notes, noted: int, stream: int
) -> tuple[int, int, int]:
    """Play on until the end, or until another slot's moves may not find room in `s.moves`.

    Returns the decisions, the slots noted so far, and the random stream.
    """
    decisions, argument, most = 0, np.zeros(1, np.int64), s.rules[MOVES_PER_SLOT]
    command = np.array([PLACE, ADVANCE, MOVE, 0])  # of constants, numba would compile `drive` anew for each
    found = np.empty((most, 2), np.int64)
    while s.counters[0, OVER] == GOING and s.counters[0, IDLE] < idle:
        if s.counters[0, MOVES] + most > s.moves.shape[1]:
            break
        while may_place_more(s, 0):
            decisions += 1
            position = command[3]
            argument[0] = _machine(s, placing, position)
            while argument[0] == NOWHERE and position + 1 < min(placing.shown, s.counters[0, WAITING]):
                position += 1
                argument[0] = _machine(s, placing, position)
            if argument[0] == NOWHERE:
                break
            drive(s, command[0], argument, position)
        decisions += 1
        noted, stream = _move(s, search, notes, noted, stream, found, command[2], argument)
        drive(s, command[1], argument, command[3])
    return decisions, noted, stream


@inner
def _machine(s: State, placing: Placing, position: int) -> int:
    """The machine for a workload of the queue, as `ExpectedCost.choose` or `ByValue.choose` find it."""
    sequence, w = s.counters[0, SEQUENCE], s.workloads[0, position, WAITS]
    machines, resources = s.capacity.shape
    own, row = np.empty(s.seen_forecast.shape[2], np.float32), (s.counters[0, SLOT] - s.rules[USAGE_DELAY])
    row %= s.load.shape[2]
    for c in range(len(own)):
        own[c] = s.forecast[sequence, w, 0, c] * s.steps[c]
    by_value = placing.share > 0.0
    if by_value:
        more = joining(_present(s, placing.costs.value, position), placing.costs)
    best, least, danger, expected = NOWHERE, np.inf, 0.0, 0.0
    for m in range(machines):
        room = True
        for d in range(resources):
            room = room and not exceeds(s.load[0, m, row, d] + s.demand[sequence, w, 0, d], s.capacity[m, d])
        if room:
            over, unused = machine_costs(
                s.seen_forecast[0, m], own, placing.sizes[m], placing.units, placing.weights, placing.whole
            )
            cost = over + unused
            if by_value:
                cost = (1.0 - placing.share) * cost + placing.share * more[m]
            if cost < least:
                best, least, danger, expected = m, cost, over, over + unused
    if best == NOWHERE or danger > placing.limit:
        return NOWHERE
    opens, waited = s.machines[0, best, ACTIVE] == 0, s.counters[0, SLOT] - s.timing[sequence, w, ARRIVAL]
    if opens and waited < LONGEST_WAIT and expected > placing.opening * s.counters[0, WAITING]:
        return NOWHERE
    return best


@inner
def _present(s: State, value: Layers, position: int) -> Present:
    """What runs, then the workload at `position` of the queue, which is nowhere yet; NOWHERE: none of it."""
    sequence, running, resources = s.counters[0, SEQUENCE], s.counters[0, RUNNING], s.capacity.shape[1]
    waits = position != NOWHERE
    count, wide = running + waits, s.seen_forecast.shape[2] - resources  # without peaks
    who, where, seen = np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(count, np.int64)
    movable, fresh = np.zeros(count, np.bool_), np.full(count, resources)
    usage, own, after = np.empty((count, resources)), np.empty((count, wide)), np.empty(s.capacity.shape)
    look_at_running(s, 0, who, where, seen, movable, usage, fresh)
    if waits:
        who[running], where[running] = s.workloads[0, position, WAITS], NOWHERE
        for d in range(resources):
            usage[running, d] = s.demand[sequence, who[running], 0, d]
    for i in range(count):
        for c in range(wide):
            own[i, c] = np.float32(s.forecast[sequence, who[i], seen[i], c] * s.steps[c])
    load_after_moves(s, 0, after)
    return gather(own, usage, where, movable, fresh, after, s.capacity, s.counters[0, WAITING], s.price[0], value)


@inner
def _move(
    s: State, search: Search, notes: Notes, noted: int, stream: int, found: Int, command: int, argument: Int
) -> tuple[int, int]:
    """Carry out the moves of the slot, or now and then a random one, and note the machines after them."""
    p, explores = _present(s, search.costs.value, NOWHERE), False
    if notes.explore > 0.0:
        stream, number = next_random(stream)
        explores = float(number >> np.uint64(11)) < notes.explore * 2.0**53
    if explores:
        stream, made = _random_move(p, stream, found)
    else:
        made = find_moves(p, search.costs, search.kinds, search.threshold, search.most, search.single, found)
    for k in range(made):
        w, argument[0] = int(s.workloads[0, found[k, 0], RUNS]), found[k, 1]
        drive(s, command, argument, w)
    if noted < len(notes.slots):
        notes.slots[noted] = s.counters[0, SLOT]
        all_features(_present(s, search.costs.value, NOWHERE), search.costs, notes.features[noted])
        noted += 1
    return noted, stream


@inner
def _random_move(p: Present, stream: int, found: Int) -> tuple[int, int]:
    """A random workload that may move goes to a random machine with room. Returns the stream, and how many moves."""
    movable = np.flatnonzero(p.movable)
    if len(movable) == 0:
        return stream, 0
    stream, number = next_random(stream)
    i = movable[int(number % np.uint64(len(movable)))]
    open_to = np.zeros(len(p.cost), np.bool_)
    for m in range(len(open_to)):
        open_to[m] = m != p.where[i] and has_room(p, i, m, NOWHERE)
    targets = np.flatnonzero(open_to)
    if len(targets) == 0:
        return stream, 0
    stream, number = next_random(stream)
    found[0, 0], found[0, 1] = i, targets[int(number % np.uint64(len(targets)))]
    return stream, 1
