"""Episodes played whole in machine code: the same as slot by slot, in every kind of scenario."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.forecasting import SEGMENTS
from tvwrl.schedulers import Runner, make_scheduler
from tvwrl.schedulers.expected_cost import ExpectedCost
from tvwrl.schedulers.moving.base import Moving
from tvwrl.schedulers.moving.expected_gain import ExpectedGain
from tvwrl.schedulers.moving.machine_costs import present
from tvwrl.schedulers.moving.machine_value import ByMachineValue, ByValue, shipped_value
from tvwrl.schedulers.whole_episodes import Notes, play_whole, whole
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario

MOVING = Scenario(moves_per_slot=2, machines=5, workloads=40, load=0.7)
SCENARIOS = {
    "usual": MOVING,
    "seen late": replace(MOVING, usage_delay=2),
    "live migration that rests": replace(MOVING, move_slots=2, move_overlap=3, move_rest=5, immovable=0.3),
    "background": replace(MOVING, background=3),
    "few placements": replace(MOVING, placements_per_slot=1, load=0.9),
    "no whole units": replace(MOVING, quantise=False, overshoot_per="machine"),
}
RULES = ("greedy(threshold=1000)", "swap(threshold=2000)", "greedy-evacuate(threshold=1000,most=4)")


def same(one, other):
    assert np.array_equal(one.start, other.start)
    assert np.array_equal(one.machine, other.machine)
    for name in ("workload", "slot", "source", "target"):
        assert np.array_equal(getattr(one.moves, name), getattr(other.moves, name))


def both_ways(runner, scheduler, sequence=0):
    """The episode played whole, and slot by slot, as with an onlooker."""
    quick = runner.play(scheduler, sequence)
    assert whole(scheduler, runner.scenario) is not None
    return quick, runner.play(scheduler, sequence, watch=lambda cluster, waiting, placement: None)


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_episode_is_the_same_slot_by_slot(google, name):
    problem = Problem.build(google, SCENARIOS[name]).with_forecasts()
    runner = Runner(problem.sequences("test", 2, 5), problem.machines, problem.scenario)
    for one in (f"expected-cost + {rule}" for rule in RULES):
        episodes = [both_ways(runner, make_scheduler(one), sequence) for sequence in range(2)]
        for quick, slow in episodes:
            same(quick, slow)
        assert any(len(quick.moves.slot) for quick, _ in episodes)


@pytest.fixture(scope="module")
def moving(google):
    return Problem.build(google, Scenario(moves_per_slot=2, workloads=40)).with_forecasts()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_learnt_value_moves_and_places_alike(moving, share):
    runner = Runner(moving.sequences("test", 1, 5), moving.machines, moving.scenario)
    rule = ByMachineValue(shipped_value(), threshold=0.5, placing=share)
    quick, slow = both_ways(runner, Moving(make_scheduler("expected-cost"), rule))
    same(quick, slow)
    assert len(quick.moves.slot) > 0


@pytest.mark.parametrize("load", [0.5, 1.5])
@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("placing", ["expected-cost(opening=150)", "expected-cost(opening=150)-backfill"])
def test_waiting_rather_than_opening_machines_is_the_same(google, placing, share, load):
    scenario = replace(MOVING, load=load, queue=3, placements_per_slot=None if share else 1)
    problem = Problem.build(google, scenario).with_forecasts()
    runner = Runner(problem.sequences("test", 2, 5), problem.machines, problem.scenario)
    rule = ByMachineValue(shipped_value(), threshold=0.5, placing=share)
    plain = "expected-cost-backfill" if "backfill" in placing else "expected-cost"
    others = [name for name in (plain, placing.removesuffix("-backfill")) if name != placing]
    for sequence in range(2):
        quick, slow = both_ways(runner, Moving(make_scheduler(placing), rule), sequence)
        same(quick, slow)
        assert len(quick.moves.slot) > 0
        for name in others:  # so that waiting, and passing who waits, are what is compared
            other = runner.play(Moving(make_scheduler(name), rule), sequence)
            assert not np.array_equal(quick.start, other.start)


def test_where_nothing_runs_yet_nothing_is_made_up(moving):
    """All wait at first, as opening a machine costs too much: the machines that are noted then are empty ones."""
    runner = Runner(moving.sequences("test", 1, 5), moving.machines, moving.scenario)
    scheduler = make_scheduler("expected-cost(opening=1) + machine-value")
    episode, slots, features = runner.noted(scheduler, 0, 0.0)
    first = int(episode.start.min())
    assert first > slots[0] + 5
    before = features[slots < first]
    assert np.isfinite(features).all()
    assert (before[:, :, : len(SEGMENTS) * 9] == 0).all()  # by segment: what runs, and four numbers of two resources
    simulation = runner.simulation(scheduler)
    simulation.reset(0)
    cluster = Cluster(simulation)
    assert len(cluster.running.workload) == 0
    assert np.isfinite(present(cluster, cluster.running).own).all()


def test_moves_beyond_the_room_for_them_are_kept(moving):
    """There is room for as many moves as workloads at first; a rule that wants to move all the time needs more."""
    runner = Runner(moving.sequences("test", 1, 5), moving.machines, moving.scenario)
    restless = Moving(make_scheduler("expected-cost"), ExpectedGain(threshold=0.0))
    quick, slow = both_ways(runner, restless)
    assert len(quick.moves.slot) > 40
    same(quick, slow)


def test_a_rule_of_its_own_is_asked_slot_by_slot(moving):
    class Nowhere(ExpectedGain):
        def moves(self, cluster):
            return ()

    class First(ExpectedCost):
        def choose(self, cluster, workload):
            return None if not self.candidates(cluster, workload).any() else 0

    class Still(Moving):
        def moves(self, cluster):
            return ()

    runner = Runner(moving.sequences("test", 1, 5), moving.machines, moving.scenario)
    changed = make_scheduler("expected-cost + greedy(threshold=0)")
    changed.moves = lambda cluster: ()
    assert len(runner.play(changed, 0).moves.slot) == 0
    value = ByMachineValue(shipped_value(), placing=0.5)
    for odd in (ByValue(value), Moving(ByValue(value), ExpectedGain())):  # without the rule whose value it takes
        runner.play(odd, 0)
        assert whole(odd, moving.scenario) is None
    still = Still(make_scheduler("expected-cost"), ExpectedGain(threshold=0.0))
    assert len(runner.play(still, 0).moves.slot) == 0
    own = Moving(make_scheduler("expected-cost"), Nowhere(threshold=0.0))
    runner.play(own, 0)
    assert whole(own, moving.scenario) is None
    assert whole(First(), moving.scenario) is None
    assert len(runner.play(own, 0).moves.slot) == 0
    for name in ("expected-cost-peak", "spread + greedy"):
        assert whole(make_scheduler(name), moving.scenario) is None
    assert whole(make_scheduler("expected-cost"), moving.scenario) is None


def test_random_moves_are_possible_and_machines_are_noted_after_the_moves(moving):
    """Of every slot with moves to decide; features of a quiet machine are those of nothing."""
    runner = Runner(moving.sequences("train", 1, 5), moving.machines, moving.scenario)
    scheduler = make_scheduler("expected-cost + greedy(threshold=1e9)")
    simulation = runner.simulation(scheduler)
    played = []
    for seed in (1, 1, 2):
        simulation.reset(0)
        scheduler.reset(Cluster(simulation), np.random.default_rng(0))
        slots, features = np.zeros(2000, np.int64), np.zeros((2000, len(moving.machines), 68), np.float32)
        placing, search = whole(scheduler, moving.scenario)
        _, noted = play_whole(simulation, placing, search, 1000, Notes(0.3, slots, features), seed)
        episode = simulation.record()
        moving.score(episode)  # the referee refuses moves without room, and more than two in a slot
        assert np.all(np.diff(slots[:noted]) > 0)
        assert 0.1 * noted < len(episode.moves.slot) < 0.4 * noted
        assert np.isfinite(features).all()
        assert features[: noted // 2].any(axis=(1, 2)).all()
        played.append(episode)
    same(played[0], played[1])
    assert not np.array_equal(played[0].moves.slot, played[2].moves.slot)
