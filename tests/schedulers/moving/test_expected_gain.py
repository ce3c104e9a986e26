"""Moves by expected cost: their gains against `expected_costs` and a plain search, what each kind finds, and names."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.schedulers import MOVE_RULES, Moving, Runner, make_move_rule, make_scheduler
from tvwrl.schedulers.expected_cost import expected_costs
from tvwrl.schedulers.moving import machine_costs
from tvwrl.schedulers.moving import move_search as kernels
from tvwrl.schedulers.moving.expected_gain import ExpectedGain
from tvwrl.schedulers.moving.machine_costs import (
    NO_VALUE,
    NOWHERE,
    Layers,
    costs_of,
    feature_count,
    present,
)
from tvwrl.schedulers.moving.move_search import (
    SINGLE,
    SWAP,
    TOGETHER,
    find_among,
    find_moves,
)
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError

OURS = ("greedy", "evacuate", "greedy-evacuate", "swap")


@pytest.fixture(scope="module")
def moving(google):
    """A problem in which workloads move, with forecasts."""
    scenario = Scenario(moves_per_slot=2, machines=6, workloads=40, load=0.6)
    return Problem.build(google, scenario).with_forecasts()


@pytest.fixture(scope="module")
def busy(moving):
    """A cluster in the middle of an episode, spread over its machines."""
    return spread_out(moving, 3)


def spread_out(moving, seed):
    runner = Runner(moving.sequences("test", 1, seed), moving.machines, moving.scenario)
    spread = make_scheduler("spread")
    simulation = runner.simulation(make_scheduler("expected-cost"))
    simulation.reset(0)
    workloads = runner.workloads(0)
    while simulation.state.counters[0, 4] < 12:
        for placement in spread.schedule(Cluster(simulation), [workloads[int(w)] for w in simulation.waiting()[:1]]):
            simulation.place(0, placement.machine)
        simulation.next_slot()
    return Cluster(simulation)


def test_the_gain_of_a_move_is_the_difference_of_expected_costs(busy):
    """Moving i from a to m gains what it adds to a without it, less what it adds to m, as placing reckons."""
    running = busy.running
    here, costs = present(busy, running), costs_of(busy)
    found = np.empty((1, 2), np.int64)
    assert find_moves(here, costs, SINGLE, -1e12, 3, 1.0, found) == 1
    i, m = found[0]
    own = here.own
    load = np.array([own[running.machine == k].sum(axis=0) for k in range(len(busy.machines))])
    weights, units = busy.scenario.penalty_weights().per_resource(2), float(busy.scenario.peak_units)
    best, gains = -np.inf, {}
    for j in np.flatnonzero(running.movable):
        without = load.copy()
        without[running.machine[j]] -= own[j]
        added = expected_costs(without[None], own[j][None], costs.sizes[None], units, weights, True)[0].sum(axis=1)
        room = (busy.load_after_moves + running.usage[j] <= busy.capacity).all(axis=1)
        room[running.machine[j]] = False
        for k in np.flatnonzero(room):
            gains[int(j), int(k)] = added[running.machine[j]] - added[k]
            best = max(best, gains[int(j), int(k)])
    assert gains[int(i), int(m)] == pytest.approx(best, rel=1e-6)


def plain_search(p, c, kinds, threshold, single, most, limit):
    """The moves of `find_moves`, each by trying all that is possible anew."""
    everything, moves = range(len(p.where)), []
    machines = range(len(p.cost))

    def cost(m, *changes):
        (i, share), (j, other) = [*changes, (NOWHERE, 0.0), (NOWHERE, 0.0)][:2]
        return machine_costs.cost_with(p, c, m, i, share, j, other)

    def go(i, m, old):
        machine_costs.book(p, i, old, -1.0)
        machine_costs.book(p, i, m, 1.0)
        machine_costs.shift(p, i, old, m)

    def singles():
        for i in everything:
            leaves = p.cost[p.where[i]] - cost(p.where[i], (i, -1.0))
            for m in machines:
                room = m != p.where[i] and machine_costs.has_room(p, i, m, NOWHERE) and not kernels.is_repeated(p, m)
                if p.movable[i] and room:
                    yield leaves + p.cost[m] - cost(m, (i, 1.0)) - threshold * single, [(i, m)]

    def swaps():
        for i in everything:
            for j in range(i):
                a, b = p.where[i], p.where[j]
                room = machine_costs.has_room(p, i, b, j) and machine_costs.has_room(p, j, a, i)
                if p.movable[i] and p.movable[j] and a != b and room:
                    now = p.cost[a] + p.cost[b]
                    gain = now - cost(a, (i, -1.0), (j, 1.0)) - cost(b, (j, -1.0), (i, 1.0))
                    yield gain - 2 * threshold, [(i, b), (j, a)]

    def evacuations():
        for a in machines:
            leaving = [i for i in everything if p.where[i] == a]
            if not 0 < len(leaving) <= most or not p.movable[leaving].all():
                continue
            leaving.sort(key=lambda i: -machine_costs.size_of(p, i))
            gain, kept, found = p.cost[a] - len(leaving) * threshold, p.cost.copy(), []
            for i in leaving:
                room = [m for m in machines if m != a and p.workloads[m] and machine_costs.has_room(p, i, m, NOWHERE)]
                if room:
                    least, m = min((cost(m, (i, 1.0)) - p.cost[m], m) for m in room)
                    gain -= least
                    p.cost[m] += least
                    go(i, m, a)
                    found.append((i, m))
            gain -= cost(a) if len(found) == len(leaving) else 0.0  # a learnt value knows that others will come
            for i, m in reversed(found):
                go(i, a, m)
            p.cost[:] = kept
            if len(found) == len(leaving):
                yield gain, found

    find_moves(p, c, 0, 0.0, 1, 1.0, np.empty((1, 2), np.int64))  # no moves: it only adds up what runs
    while len(moves) < limit:
        tried = [(0.0, [])]
        for kind, of in ((SINGLE, singles), (SWAP, swaps), (TOGETHER, evacuations)):
            tried += of() if kinds & kind and (kind != SWAP or limit - len(moves) >= 2) else ()
        best = max(tried, key=lambda one: one[0])[1]
        if not best:
            break
        for i, m in best[: limit - len(moves)]:
            old = p.where[i]
            go(i, m, old)
            p.where[i], p.movable[i] = m, False
            for k in (old, m):
                p.cost[k] = cost(k)
            moves.append((i, m))
    return moves


def random_value(resources):
    rng, width = np.random.default_rng(0), feature_count(resources)
    shapes = (width, width, (width, 16), 16, (16, 8), 8, (8, 2), 2)
    layers = [(rng.standard_normal(shape) / 4).astype(np.float32) for shape in shapes]
    layers[1] = np.ones(width, np.float32)
    layers[-1] += np.float32(5.0)  # so that some machines are worth emptying
    return Layers(*layers)


@pytest.mark.parametrize("kinds", [SINGLE, TOGETHER, SINGLE | TOGETHER, SINGLE | SWAP])
@pytest.mark.parametrize("value", [NO_VALUE, random_value(2)], ids=["expected cost", "learnt value"])
def test_what_is_kept_and_left_out_does_not_change_the_moves(moving, kinds, value):
    count = 0
    for seed in range(5):
        cluster = spread_out(moving, seed)
        costs = costs_of(cluster, 1.0, value, 1000.0)
        for threshold, most in ((0.0, 3), (1000.0, 2), (1000.0, 1)):
            found = np.empty((6, 2), np.int64)
            made = find_moves(present(cluster, cluster.running, value), costs, kinds, threshold, most, 1.5, found)
            slow = plain_search(present(cluster, cluster.running, value), costs, kinds, threshold, 1.5, most, 6)
            assert [tuple(row) for row in found[:made].tolist()] == slow
            count += made
    assert count > 10


@pytest.mark.parametrize("kinds", [SINGLE, TOGETHER, SINGLE | TOGETHER, SINGLE | SWAP])
def test_the_search_among_few_finds_most_of_the_gain(moving, kinds):
    gains = []
    for seed in range(5):
        cluster = spread_out(moving, seed)
        for exact in (0, kernels.EXACT):
            here, costs = present(cluster, cluster.running), costs_of(cluster)
            find_among(here, costs, 0, 0.0, 3, 1.0, np.empty((1, 2), np.int64), exact)
            before, here = here.cost.sum(), present(cluster, cluster.running)
            find_among(here, costs, kinds, 1000.0, 3, 1.0, np.empty((4, 2), np.int64), exact)
            assert (here.after <= cluster.capacity).all()
            gains.append(before - here.cost.sum())
    few, every = np.reshape(gains, (5, 2)).T
    assert few.sum() > 0.95 * every.sum() > 0


def test_the_search_leaves_what_must_not_move_alone(busy):
    running = busy.running
    here = present(busy, running._replace(movable=np.zeros(len(running.movable), np.bool_)))
    found = np.empty((5, 2), np.int64)
    assert find_moves(here, costs_of(busy), SINGLE | TOGETHER | SWAP, 0.0, 8, 1.0, found) == 0


def test_a_machine_is_emptied_of_all_its_workloads(busy):
    running = busy.running
    here = present(busy, running)
    found = np.empty((8, 2), np.int64)
    made = find_moves(here, costs_of(busy), TOGETHER, -1e9, 4, 1.0, found)
    first = found[:made, 0]
    source = running.machine[first[0]]
    of_source = np.flatnonzero(running.machine == source)
    assert set(of_source) <= set(first[: len(of_source)])
    assert (found[: len(of_source), 1] != source).all()


@pytest.mark.parametrize("rule", OURS)
def test_moves_lower_the_cost_and_no_threshold_means_more_of_them(moving, rule):
    runner = Runner(moving.sequences("test", 4, 0), moving.machines, moving.scenario)

    def rows(name):
        return [moving.score(runner.play(make_scheduler(name), i)) for i in range(4)]

    still, moved, eager = (
        rows(name) for name in ("spread", f"spread + {rule}(threshold=3000)", f"spread + {rule}(threshold=0)")
    )
    assert np.mean([row["reward"] for row in moved]) > np.mean([row["reward"] for row in still])
    assert sum(row["moves"] for row in eager) > sum(row["moves"] for row in moved) > 0
    assert sum(row["moves"] for row in still) == 0


@pytest.mark.parametrize("rule", OURS)
def test_the_same_seed_gives_the_same_moves(moving, rule):
    runner = Runner(moving.sequences("test", 1, 0), moving.machines, moving.scenario)
    first, second = (runner.play(make_scheduler(f"expected-cost+{rule}"), 0).moves for _ in range(2))
    assert len(first) > 0
    assert np.array_equal(first.target, second.target)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("spread + evcuate", "did you mean evacuate"),
        ("spread + evacuate(x=3)", "evacuate has no option 'x'"),
        ("spread + evacuate(most=2.5)", "must be a whole number"),
        ("spread + evacuate(most=9)", "most is 9"),
        ("spread + greedy(most=2)", "greedy has no option 'most'"),
        ("spread + evacuate(single=2)", "evacuate has no option 'single'"),
        ("spread + greedy(threshold=-1)", "threshold is -1"),
        ("spread + evacuate + greedy", r"spread \+ evacuate moves already"),
        ("hindsight + greedy", "hindsight moves already"),
        ("perfect-forecast(expected-cost + greedy) + evacuate", "moves already"),
        ("spread + low-node-utilization(low=0.6,high=0.3)", "low is 0.6: must be at most high, which is 0.3"),
        ("spread + low-node-utilization(nodes=1.5)", "nodes is 1.5: must be a whole number"),
        ("spread + high-node-utilization(nodes=1.5)", "nodes is 1.5"),
        ("spread + low-node-load(low=0.6,high=0.3)", "low is 0.6: must be at most high, which is 0.3"),
        ("spread + low-node-load(high_memory=0.1)", "low_memory is 0.55: must be at most high_memory, which is 0.1"),
        ("spread + low-node-load(abnormalities=2.9)", "abnormalities is 2.9: must be a whole number"),
        ("spread + low-node-load(low=0.6,high=0.3,deviation=1)", "low is 0.6: must be at most high, which is 0.3"),
        ("sprad + greedy", "there is no scheduler 'sprad'|did you mean spread"),
    ],
)
def test_bad_names_are_refused(name, problem):
    with pytest.raises(InputError, match=problem):
        make_scheduler(name)


def test_a_scheduler_that_moves_takes_no_rule_that_moves():
    class Own(type(make_scheduler("expected-cost"))):
        def moves(self, cluster):
            return ()

    with pytest.raises(InputError, match="moves already"):
        Moving(Own(), make_move_rule("greedy"))
    assert Moving(make_scheduler("perfect-forecast(expected-cost)"), make_move_rule("greedy"))


def test_deviations_may_be_in_any_order():
    """Of the mean share: the low threshold lies below it and the high one above. Koordinator refuses that too."""
    assert make_scheduler("spread + low-node-utilization(low=0.6,high=0.3,deviation=1)")


def test_two_rules_know_together_what_each_knows():
    both = make_scheduler("best-fit-peak + greedy").knowledge
    assert both.group == "demand forecasts and true lifetime peaks"
    assert make_scheduler("spread + greedy").knowledge.group == "demand forecasts"
    assert make_scheduler("clairvoyant + drs-like").knowledge.group == "the whole future"
    assert "values learnt from moves" in make_scheduler("expected-cost + machine-value").knowledge.note


def test_names_are_written_in_one_way():
    assert make_scheduler("spread+evacuate( threshold=5e3 )").name == "spread + evacuate(threshold=5000)"
    assert make_scheduler("rollout(spread,horizon=8) + swap").name == "rollout(spread,horizon=8) + swap"
    assert set(OURS) <= set(MOVE_RULES)


def test_a_rule_that_moves_is_refused_where_nothing_may_move(moving):
    still = replace(moving.scenario, moves_per_slot=0)
    runner = Runner(moving.sequences("test", 1, 0), moving.machines, still)
    with pytest.raises(InputError, match="nothing may move, as moves_per_slot is 0"):
        runner.play(make_scheduler("spread + greedy"), 0)


def test_a_rule_says_what_it_is():
    assert repr(ExpectedGain(threshold=5000.0)) == "<ExpectedGain name='greedy', knows='demand forecasts'>"
