"""Hindsight: plans that are allowed, cost what the referee says, and are never worse than what they start from.

The bound on the cost: close where the best schedule is obvious, and below every schedule."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.metrics import penalties, score_episode
from tvwrl.schedulers import CURRENT_LOAD, MoveRule, Moving, make_scheduler
from tvwrl.schedulers.planning.cost_bound import cost_bound
from tvwrl.schedulers.planning.hindsight import Hindsight
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError, Machines, Move

ONE = Machines.homogeneous(1, 8, ("cpu", "mem"))


def hindsight(proposals):
    return Hindsight(lambda: make_scheduler("clairvoyant"), proposals)


def planned(sequences, machines, scenario, proposals=2000, seed=0):
    """The scheduler after an episode, and the episode."""
    scheduler = hindsight(proposals)
    return scheduler, Runner(sequences, machines, scenario, seed).play(scheduler, 0)


def cost_of(episode, machines, scenario):
    return sum(penalties(episode, machines, scenario.penalty_weights(), scenario.overshoot_per).values())


def allowed(arrival, start, scenario):
    """Whether everybody may start then, by the rules: arrived, placements of the slot, seen in the queue."""
    limit = scenario.placements_per_slot
    if (start < arrival).any() or (limit is not None and np.bincount(start).max() > limit):
        return False
    return all((start[:i] > start[i]).sum() < scenario.queue for i in range(len(start)))


def cheapest(sequences, machines, scenario, slots=6):
    """The lowest cost of all schedules that start everything within `slots` slots, by trying them all."""
    episode = Runner(sequences, machines, scenario).play(make_scheduler("spread"), 0)
    best = np.inf
    for where in product(range(len(machines)), repeat=len(episode.start)):
        for when in product(range(slots), repeat=len(episode.start)):
            start = np.array(when)
            if allowed(episode.arrival, start, scenario):
                tried = replace(episode, machine=np.array(where), start=start, finish=start + sequences.length[0])
                best = min(best, cost_of(tried, machines, scenario))
    return best


def test_two_workloads_wait_for_each_other(make_sequences):
    # Half a machine each, for two slots. Alone a workload leaves 4 units of both unused: 128 a slot; together they
    # contend, 0.1 x 4 x 4 of both: 3.2 a slot. One after the other: 4 x 128. If the first waits for 2 slots and both
    # start together: 2 x 50 + 2 x 3.2. If only one may start in a slot, it waits for one: 50 + 128 + 3.2 + 128.
    sequences = make_sequences([(0, [[4, 4]] * 2), (2, [[4, 4]] * 2)])
    any_number, one = Scenario(machines=1, placements_per_slot=None), Scenario(machines=1)
    assert cost_of(planned(sequences, ONE, one, 0)[1], ONE, one) == 512
    scheduler, episode = planned(sequences, ONE, any_number)
    assert (episode.start.tolist(), scheduler.cost) == ([2, 2], pytest.approx(106.4))
    scheduler, episode = planned(sequences, ONE, one)
    assert (episode.start.tolist(), scheduler.cost) == ([1, 2], pytest.approx(309.2))


def test_only_what_the_queue_shows_may_overtake(make_sequences):
    # The first two need the whole machine for 9 slots. The last would run at once, and then they: it costs them one
    # slot each. But a queue of two places shows only these two.
    rows = [(0, [[8, 8]] * 9), (0, [[8, 8]] * 9), (0, [[8, 8]])]
    for queue, start in ((3, [1, 10, 0]), (2, [0, 10, 9]), (1, [0, 9, 18])):
        _, episode = planned(make_sequences(rows), ONE, Scenario(machines=1, queue=queue))
        assert sorted(episode.start.tolist()) == sorted(start), queue
        assert allowed(episode.arrival, episode.start, Scenario(queue=queue))


def test_a_cheap_overshoot_is_accepted(make_sequences):
    # 5 units of 8 twice: together they exceed both resources, 4 first overshoots of 1; one after the other costs more.
    sequences = make_sequences([(0, [[5, 5]] * 3), (0, [[5, 5]] * 3)])
    cheap = Scenario(machines=1, placements_per_slot=None, K_o=1.0)
    scheduler, episode = planned(sequences, ONE, cheap)
    assert episode.start.tolist() == [0, 0]
    assert scheduler.cost == pytest.approx(3 * 5.0 + 4.0)
    dear = replace(cheap, K_o=30000.0)
    assert score_episode(planned(sequences, ONE, dear)[1], ONE, dear.penalty_weights())["overshoot_pct"] == 0


CASES = {
    "plain": {},
    "two placements": {"placements_per_slot": 2},
    "any number": {"placements_per_slot": None, "queue": 2},
    "first in, first out": {"queue": 1},
    "cheap overshoots": {"K_o": 40.0},
    "cheap overshoots of machines": {"K_o": 90.0, "overshoot_per": "machine"},
    "no waiting costs": {"K_w": 0.0},
}


@pytest.mark.parametrize("case", CASES)
def test_it_finds_the_best_of_three_workloads(make_sequences, case):
    scenario = replace(Scenario(machines=2), **CASES[case])
    for seed in range(2):
        rng = np.random.default_rng(seed)
        rows = [(i, rng.integers(1, 6, (int(rng.integers(1, 4)), 2))) for i in range(3)]
        sequences, machines = make_sequences(rows), Machines(np.array([[8.0, 8.0], [6.0, 9.0]]), ("cpu", "mem"))
        scheduler, episode = planned(sequences, machines, scenario, 5000)
        assert allowed(episode.arrival, episode.start, scenario)
        assert scheduler.cost <= cheapest(sequences, machines, scenario) + 1e-6


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("noise", [0, 3])
def test_it_plays_its_plan_and_is_never_worse(problem, case, noise):
    scenario = replace(problem.scenario, **CASES[case])
    sequences = problem.sequences("train", 3, seed=4)
    if noise:
        load = np.random.default_rng(5).integers(0, noise, (3, 7, *problem.machines.capacity.shape))
        sequences = replace(sequences, background=load.astype(np.uint8))
    for machines in (problem.machines, Machines(np.array([[8.0, 8], [0, 0], [12, 6], [7, 16]]), ("cpu", "mem"))):
        runner = Runner(sequences, machines, scenario)
        for sequence in range(3):
            scheduler = hindsight(200)
            episode = runner.play(scheduler, sequence)
            assert allowed(episode.arrival, episode.start, scenario)
            assert cost_of(episode, machines, scenario) == pytest.approx(scheduler.cost, rel=1e-9)
            before = runner.play(make_scheduler("clairvoyant"), sequence)
            assert (before.start < 0).any() or scheduler.cost <= cost_of(before, machines, scenario) + 1e-6
            assert (machines.capacity[episode.machine] > 0).all()


@pytest.mark.parametrize("kinds", [("cpu",), ("cpu", "mem", "disk")])
def test_one_workload_and_other_resources(make_sequences, kinds):
    demand = np.ones((3, len(kinds)))
    machines = Machines.homogeneous(2, 8, kinds)
    scheduler, episode = planned(make_sequences([(2, demand)], resources=kinds), machines, Scenario(machines=2))
    assert episode.start.tolist() == [2]
    assert scheduler.cost == pytest.approx(3 * len(kinds) * 7.0**3)


def test_fractional_demand(google, problem):
    scenario = replace(problem.scenario, quantise=False)
    fractional = type(problem).build(google, scenario, problem.classes)
    scheduler, episode = planned(fractional.sequences("test", 1, seed=1), problem.machines, scenario)
    assert cost_of(episode, problem.machines, scenario) == pytest.approx(scheduler.cost, rel=1e-9)


def test_what_its_start_cannot_place_is_placed_all_the_same(make_sequences):
    # Background leaves 3 units at most: no machine ever has room, so clairvoyant gives up.
    sequences = make_sequences([(0, [[4, 4]] * 2), (0, [[1, 1]])])
    sequences = replace(sequences, background=np.full((1, 3, 1, 2), 5, np.uint8))
    scheduler, episode = planned(sequences, ONE, Scenario(machines=1))
    assert (episode.start >= 0).all()
    assert cost_of(episode, ONE, Scenario()) == pytest.approx(scheduler.cost)
    assert scheduler.cost < 3 * 30000


def test_more_proposals_find_more_and_refuse_nonsense(problem, train):
    costs = [planned(train, problem.machines, problem.scenario, n)[0].cost for n in (0, 100, 5000)]
    assert costs[2] < costs[1] < costs[0]
    with pytest.raises(InputError, match="proposals is -1: must be at least 0"):
        hindsight(-1)


# ---- the bound on the cost


def test_a_workload_alone_leaves_what_it_leaves(make_sequences):
    # 4 units of 8 in both: 2 x 64 a slot, for two slots, and nobody to share them with.
    sequences = make_sequences([(0, [[4, 4]] * 2)])
    assert 250 < cost_bound(sequences, 0, ONE, Scenario(machines=1), 300) <= 256


def test_who_arrives_much_later_is_no_company(make_sequences):
    # Sharing the machine would take 20 slots of waiting, 1000; so both run alone: 512. Without waiting costs: 6.4.
    sequences = make_sequences([(0, [[4, 4]] * 2), (20, [[4, 4]] * 2)])
    assert 480 < cost_bound(sequences, 0, ONE, Scenario(machines=1), 300) <= 512
    assert cost_bound(sequences, 0, ONE, Scenario(machines=1, K_w=0.0), 300) <= 6.4


def test_overshoot_costs_what_it_costs_per_slot_at_least(make_sequences):
    # Together they exceed both resources: 4 x 1, and 5 for contention; apart 6 x 54.
    sequences = make_sequences([(0, [[5, 5]] * 3), (0, [[5, 5]] * 3)])
    assert 1.9 < cost_bound(sequences, 0, ONE, Scenario(machines=1, placements_per_slot=None, K_o=1.0), 300) <= 19
    assert 300 < cost_bound(sequences, 0, ONE, Scenario(machines=1), 300) <= 324 + 3 * 50
    per_machine = Scenario(machines=1, K_o=90.0, overshoot_per="machine")
    assert 89 < cost_bound(sequences, 0, ONE, per_machine, 300) <= 90


@pytest.mark.parametrize("quantise", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_it_is_below_the_best_of_three_workloads(make_sequences, case, quantise):
    scenario = replace(Scenario(machines=2), **CASES[case])
    for seed in range(2):
        rng = np.random.default_rng(seed)
        rows = [(i, rng.integers(1, 6, (int(rng.integers(1, 4)), 2)) - 0.5 * (not quantise)) for i in range(3)]
        sequences, machines = make_sequences(rows), Machines(np.array([[8.0, 8.0], [6.0, 9.0]]), ("cpu", "mem"))
        assert cost_bound(sequences, 0, machines, scenario, 200) <= cheapest(sequences, machines, scenario)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("noise", [0, 3])
def test_it_is_below_what_is_found(problem, case, noise):
    scenario = replace(problem.scenario, **CASES[case])
    sequences = problem.sequences("train", 1, seed=4)
    if noise:
        load = np.random.default_rng(5).integers(0, noise, (1, 7, *problem.machines.capacity.shape))
        sequences = replace(sequences, background=load.astype(np.uint8))
    for machines in (problem.machines, Machines(np.array([[8.0, 8], [0, 0], [12, 6], [7, 16]]), ("cpu", "mem"))):
        bound = cost_bound(sequences, 0, machines, scenario, 60)
        assert bound <= planned(sequences, machines, scenario, 2000)[0].cost
        assert bound <= cost_of(
            Runner(sequences, machines, scenario).play(make_scheduler("spread"), 0), machines, scenario
        )
        if case == "plain" and not noise:
            assert bound > 1000


@pytest.mark.parametrize("kinds", [("cpu",), ("cpu", "mem", "disk")])
def test_other_resources_and_large_machines(make_sequences, kinds):
    demand = np.ones((3, len(kinds)))
    for units in (8.0, 500.0):
        machines = Machines.homogeneous(2, units, kinds)
        sequences = make_sequences([(2, demand)], resources=kinds)
        best = 3 * len(kinds) * (units - 1.0) ** 3
        scenario = Scenario(machines=2, K_w=best, K_o=best)
        assert 0.25 * best < cost_bound(sequences, 0, machines, scenario, 300) <= best


def test_more_rounds_never_lower_it(problem, train):
    few, many = (cost_bound(train, 0, problem.machines, problem.scenario, n) for n in (60, 120))
    assert 0 < few < many


class RandomMoves(MoveRule):
    """Moves what runs at random to where there is room, often to the fullest machine."""

    name, knowledge = "random-moves", CURRENT_LOAD

    def reset(self, cluster, rng):
        self._rng = rng

    def moves(self, cluster):
        running = cluster.running
        for i in self._rng.permutation(np.flatnonzero(running.movable)):
            load = cluster.load_after_moves
            room = (load + running.usage[i] <= cluster.capacity).all(axis=1) & (cluster.capacity > 0).all(axis=1)
            room[running.machine[i]] = False
            if room.any() and cluster.moves_left and self._rng.random() < 0.7:
                fullest = np.flatnonzero(room)[load[room].sum(axis=1).argmax()]
                yield Move(int(running.workload[i]), int(self._rng.choice([fullest, *np.flatnonzero(room)])))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("overlap", [0, 2])
def test_no_schedule_with_moves_is_below_it(problem, case, overlap):
    """Free and unlimited moves, at random, over random placements and good ones."""
    scenario = replace(problem.scenario, **CASES[case], moves_per_slot=20, K_m=0.0, move_overlap=overlap)
    machines = Machines(np.array([[8.0, 8], [0, 0], [12, 6], [7, 16]]), ("cpu", "mem"))
    sequences = problem.sequences("train", 2, seed=4)
    runner = Runner(sequences, machines, scenario, seed=7)
    for sequence in range(2):
        bound = cost_bound(sequences, sequence, machines, scenario, 60)
        assert (bound > 0) == (scenario.K_w > 0)  # whoever waits for free wastes nothing
        for placing in ("random", "stack", "clairvoyant"):
            episode = runner.play(Moving(make_scheduler(placing), RandomMoves()), sequence)
            assert len(episode.moves.workload) > 10
            assert bound <= cost_of(episode, machines, scenario)


@pytest.mark.parametrize("options", [{}, {"move_slots": 2, "move_overlap": 1}])
def test_with_moves_it_is_no_worse_than_rules_that_know_what_comes(google, options):
    scenario = Scenario(moves_per_slot=2, machines=5, workloads=40, load=0.6, K_m=100, **options)
    moving = Problem.build(google, scenario).with_forecasts()
    runner = Runner(moving.sequences("test", 1, 3), moving.machines, scenario)
    scheduler = hindsight(0)
    episode = runner.play(scheduler, 0)
    cost = cost_of(episode, moving.machines, scenario)
    assert cost == pytest.approx(scheduler.cost, rel=1e-9)
    assert len(episode.moves.workload) > 0
    for name in ("perfect-forecast(expected-cost + greedy(threshold=3000))", "perfect-forecast(expected-cost)"):
        assert cost <= cost_of(runner.play(make_scheduler(name), 0), moving.machines, scenario) + 1e-6
    assert cost >= cost_bound(runner.sequences, 0, moving.machines, scenario, 60)


def test_where_moves_are_free_two_share_one_machine_in_every_slot(make_sequences):
    # 4 of 8 units each: two share a machine for four slots, and 3.2 a slot is contention.
    sequences = make_sequences([(0, [[4, 4]] * 4), (0, [[4, 4]] * 2), (2, [[4, 4]] * 2)])
    scenario = Scenario(machines=2, placements_per_slot=None, moves_per_slot=1, K_m=0.0)
    two = Machines.homogeneous(2, 8, ("cpu", "mem"))
    assert 0 < cost_bound(sequences, 0, two, scenario, 300) <= 4 * 3.2


def test_prices_at_or_above_0_bound_less(problem, train):
    moving = replace(problem.scenario, moves_per_slot=2)
    plain, free, booked = (
        cost_bound(train, 0, problem.machines, scenario, 100)
        for scenario in (problem.scenario, moving, replace(moving, move_overlap=3))
    )
    assert plain == free >= booked > 0
