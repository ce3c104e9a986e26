"""Moves by expected cost: their gains against `expected_costs`, what each kind finds, and names."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.schedulers import MOVE_RULES, Runner, make_scheduler
from tvwrl.schedulers.expected_cost import expected_costs
from tvwrl.schedulers.moving.expected_gain import ExpectedGain
from tvwrl.schedulers.moving.move_search import SINGLE, SWAP, TOGETHER, costs_of, find_moves, present
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
    runner = Runner(moving.sequences("test", 1, 3), moving.machines, moving.scenario)
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
    assert find_moves(here, costs, SINGLE, -1e12, 1.0, 3, found) == 1
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


def test_the_search_leaves_what_must_not_move_alone(busy):
    running = busy.running
    here = present(busy, running._replace(movable=np.zeros(len(running.movable), np.bool_)))
    found = np.empty((5, 2), np.int64)
    assert find_moves(here, costs_of(busy), SINGLE | TOGETHER | SWAP, 0.0, 1.0, 8, found) == 0


def test_a_machine_is_emptied_of_all_its_workloads(busy):
    running = busy.running
    here = present(busy, running)
    found = np.empty((8, 2), np.int64)
    made = find_moves(here, costs_of(busy), TOGETHER, -1e9, 1.0, 4, found)
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
        ("spread + greedy(threshold=-1)", "threshold is -1"),
        ("spread + evacuate + greedy", "two rules that move"),
        ("sprad + greedy", "there is no scheduler 'sprad'|did you mean spread"),
    ],
)
def test_bad_names_are_refused(name, problem):
    with pytest.raises(InputError, match=problem):
        make_scheduler(name)


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
