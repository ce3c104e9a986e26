"""Rollout: sees what its base does not, knows no more than it may, and says what it lacks."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.schedulers import ROLLOUTS, SCHEDULERS, make_scheduler
from tvwrl.schedulers.planning.futures import known_overshoots
from tvwrl.schedulers.planning.rollout import Rollout, Tally
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import RUNS, START
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.types import InputError, Machines, Placement

TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))


def quick(base, **options):
    """A rollout that spends little."""
    return Rollout(make_scheduler(base), **({"rollouts": 40, "horizon": 20} | options))


def flat(units, slots=10):
    return [[units, units]] * slots


# ---- by hand


def aging(make_sequences, **changes):
    """Workloads last 10 slots. On machine 0, one of 6 units ends after the next slot; on machine 1, one of 5 units has
    just begun; one of 2 units waits."""
    rows = [(0, flat(6)), (8, flat(5)), (8, flat(2))]
    training = make_sequences(*([(0, flat(u)), (8, flat(v)), (40, flat(w))] for u, v, w in [(6, 5, 2), (5, 2, 6)] * 8))
    sequences = replace(make_sequences(rows), training=lambda: training)
    scenario = Scenario(machines=2, placements_per_slot=None, **changes)
    simulation = Simulation(sequences, TWO, scenario, grid=False, max_slots=0)
    simulation.reset(0)
    simulation.place(0, 0)
    while Cluster(simulation).slot < 8:
        simulation.next_slot()
    simulation.place(0, 1)
    return Cluster(simulation), sequences.workload(0, 2)


def test_sees_that_the_tightest_machine_would_be_kept_on_for_one_workload(make_sequences):
    # best-fit-peak fills machine 0 up; in the slots after the next one it then runs 2 of 8 units for nothing.
    cluster, newcomer = aging(make_sequences)
    base = make_scheduler("best-fit-peak")
    assert base.choose(cluster, newcomer) == 0
    rollout = quick("best-fit-peak")
    rollout.reset(cluster, np.random.default_rng(0))
    assert list(rollout.schedule(cluster, [newcomer])) == [Placement(newcomer, 1)]


def test_what_is_known_of_the_present_is_true_in_every_future(make_sequences):
    cluster, _ = aging(make_sequences)
    rollout = quick("best-fit-peak")
    rollout.reset(cluster, np.random.default_rng(0))
    rollout._futures.sample(cluster, np.random.default_rng(1), 7)
    simulation = rollout._futures.simulation
    for b in range(7):
        future = Cluster(simulation, b)
        assert future.slot == 8
        assert future.reserved_peaks.tolist() == [[6, 6], [5, 5]]
        assert simulation.state.workloads[b, 1, START] == 8
        for i, units in enumerate((6, 5)):
            assert simulation.state.demand[b, i, 8 - simulation.state.workloads[b, i, START]].tolist() == [units] * 2
        assert simulation.peak[b, 2].tolist() == [2, 2]


@pytest.mark.parametrize("late", [1, 3])
def test_futures_begin_with_what_was_measured_last(make_sequences, late):
    cluster, _ = aging(make_sequences, usage_delay=late)
    rollout = quick("spread")
    rollout.reset(cluster, np.random.default_rng(0))
    rollout._futures.sample(cluster, np.random.default_rng(1), 16)
    for b in range(16):
        future = Cluster(rollout._futures.simulation, b)
        assert (future.slot, future.measured) == (8, 8 - late)
        assert future.load.tolist() == cluster.load.tolist() == [[6, 6], [0, 0]]
        assert future.active.tolist() == [1, 1]


def test_overshoots_are_known_once_they_were_measured(make_sequences):
    # cpu of machine 0: 5, then 5 + 4 of 8 (a and b), then 2 (a); memory is never exceeded.
    rows = [(0, [[5, 1], [5, 1], [2, 1], [2, 1]]), (1, [[4, 1]]), (2, [[1, 1]]), (9, [[1, 1]])]
    simulation = Simulation(make_sequences(rows), TWO, Scenario(usage_delay=1, max_slots=0), grid=False)
    simulation.reset(0)
    cluster, found = Cluster(simulation), []
    for _ in range(3):
        simulation.place(0, 0)
        by_workload, by_machine = known_overshoots(cluster, simulation.state.workloads[0, : cluster.active[0], RUNS])
        found.append((cluster.slot, by_workload.tolist(), by_machine.tolist()))
        simulation.next_slot()
    assert found == [(0, [0], [0, 0]), (1, [0, 0], [0, 0]), (2, [1, 0], [1, 0])]


def test_the_best_half_goes_on_and_the_one_compared_with_always_does():
    tally = Tally(5, own=3)
    tally.add(np.array([[9.0, 1.0, 5.0, 5.0, np.nan]] * 2))
    half = tally.better_half(np.array([True, True, True, True, False]))
    assert half.tolist() == [False, True, True, True, False]
    assert tally.best(1.0) == 1


def test_a_gain_that_may_be_luck_is_left():
    tally = Tally(2, own=0)
    tally.add(np.array([[0.0, -10.0], [0.0, 8.0], [0.0, -1.0]]))  # gains 10, -8 and 1: mean 1, standard error 5.2
    assert tally.best(0.0) == 1
    assert tally.best(0.1) == 1
    assert tally.best(0.2) == 0


# ---- what it may know


def other_future(sequences, sequence, episode, now):
    """The sequences with the demand after slot `now` backwards: peaks and lengths stay, and nothing else of it."""
    demand = sequences.demand.copy()
    for i, start in enumerate(episode.start):
        seen, end = (now - start + 1 if start <= now else 1), sequences.length[sequence, i]
        if 0 < seen < end:
            demand[sequence, i, seen:end] = demand[sequence, i, seen:end][::-1]
    return replace(sequences, demand=demand)


@pytest.mark.parametrize("base", ["best-fit-peak", "expected-cost", "spread"])
def test_the_recorded_future_makes_no_difference(problem, train, base):
    scheduler, machines = quick(base, rollouts=10, certainty=0.0), Machines.homogeneous(3, 8, ("cpu", "mem"))
    for sequence in (0, 1):
        episode = Runner(train, machines, problem.scenario).play(scheduler, sequence)
        now = int(np.median(episode.start))
        changed = other_future(train, sequence, episode, now)
        assert not np.array_equal(changed.demand, train.demand)
        other = Runner(changed, machines, problem.scenario).play(scheduler, sequence)
        before = episode.start <= now
        assert np.array_equal(episode.machine[before], other.machine[before])
        assert np.array_equal(episode.start[before], other.start[before])


def test_it_differs_from_its_base_and_repeats_itself(problem, train):
    runner = Runner(train, problem.machines, problem.scenario, seed=1)
    scheduler = quick("best-fit-peak", rollouts=10, certainty=0.0)
    first, base = runner.play(scheduler, 0), runner.play(make_scheduler("best-fit-peak"), 0)
    assert not np.array_equal(first.machine, base.machine)
    runner.play(scheduler, 1)
    assert np.array_equal(first.machine, runner.play(scheduler, 0).machine)
    assert np.array_equal(first.machine, runner.play(quick("best-fit-peak", rollouts=10, certainty=0.0), 0).machine)


def test_without_gains_that_are_sure_it_is_its_base(problem, train):
    runner = Runner(train, problem.machines, problem.scenario)
    for base in ("expected-cost", "spread"):
        played = runner.play(quick(base, rollouts=10, certainty=1e9), 0)
        assert np.array_equal(played.machine, runner.play(make_scheduler(base), 0).machine)


def test_chooses_from_the_queue_where_its_base_does(problem, train):
    runner = Runner(train, Machines.homogeneous(2, 8, ("cpu", "mem")), problem.scenario)
    base = runner.play(make_scheduler("best-fit-peak-backfill"), 0)
    sure = runner.play(quick("best-fit-peak", rollouts=10, backfill=True, certainty=1e9), 0)
    assert sure.scheduler == "rollout(best-fit-peak-backfill)"
    assert np.array_equal(sure.start, base.start)
    bold = runner.play(quick("best-fit-peak", rollouts=10, backfill=True, certainty=0.0), 0)
    assert (bold.start >= bold.arrival).all()
    assert not np.array_equal(np.argsort(bold.start, kind="stable"), np.argsort(base.start, kind="stable"))


# ---- clusters of all kinds


@pytest.mark.parametrize("base", ["best-fit-peak", "expected-cost", "spread"])
def test_places_everything_on_one_machine_beside_one_that_is_off_and_with_background(problem, google, base):
    few = replace(problem.scenario, workloads=6)
    for capacity, scenario in (
        ([[8.0, 8.0]], few),
        ([[8.0, 8.0], [0.0, 0.0], [8.0, 12.0]], few),
        ([[12.0, 12.0]] * 2, replace(few, machines=2, capacity=(12.0,), background=2)),
    ):
        drawn = Problem.build(google, scenario, problem.classes, forecaster=problem.forecaster)
        sequences = drawn.sequences("test", 1, seed=0)
        machines = Machines(np.array(capacity), ("cpu", "mem"))
        episode = Runner(sequences, machines, scenario).play(quick(base, rollouts=10, horizon=10), 0)
        assert (episode.start >= 0).all()
        assert machines.capacity[episode.machine].all()


def test_plays_three_resources_fractions_and_one_workload(make_sequences):
    rng, names = np.random.default_rng(0), ("cpu", "mem", "disk")
    machines = Machines.homogeneous(3, 8, names)
    for count in (1, 12):
        rows = [[(i, 1 + 2.5 * rng.random((5 + i, 3))) for i in range(count)] for _ in range(6)]
        training = make_sequences(*rows[1:], resources=names)
        sequences = replace(make_sequences(rows[0], resources=names), training=lambda training=training: training)
        for base in ("best-fit-peak", "spread"):
            scenario = Scenario(machines=3, quantise=False)
            assert (Runner(sequences, machines, scenario).play(quick(base), 0).start >= 0).all()


# ---- limits and errors


def test_a_time_limit_is_kept_to_at_least_one_batch(problem, train):
    scheduler = quick("spread", rollouts=10**6, milliseconds=5.0)
    assert (Runner(train, problem.machines, problem.scenario).play(scheduler, 0).start >= 0).all()


def test_a_policy_proposes_and_must_know_as_much_as_the_base():
    seer, blind = make_scheduler("best-fit-peak"), make_scheduler("spread")
    assert Rollout(make_scheduler("spread"), proposal=seer).name == "rollout(spread+policy)"
    with pytest.raises(InputError, match=r"base is best-fit-peak: it knows more .* than the policy 'spread'"):
        Rollout(make_scheduler("best-fit-peak"), proposal=blind)


def test_what_a_policy_proposes_is_compared(problem, train):
    runner = Runner(train, problem.machines, problem.scenario)
    scheduler = quick("best-fit-peak", rollouts=10, certainty=0.0, proposal=make_scheduler("worst-fit-peak"))
    assert (runner.play(scheduler, 0).start >= 0).all()
    sure = quick("best-fit-peak", rollouts=10, certainty=1e9, proposal=make_scheduler("worst-fit-peak"))
    assert np.array_equal(runner.play(sure, 0).machine, runner.play(make_scheduler("worst-fit-peak"), 0).machine)


def test_names():
    assert set(ROLLOUTS) == {f"rollout({base})" for base in SCHEDULERS if f"rollout({base})" in ROLLOUTS}
    assert {"rollout(expected-cost)", "rollout(best-fit-peak)"} <= set(ROLLOUTS)
    with pytest.raises(InputError, match=r"'clairvoyant' cannot be rolled out"):
        make_scheduler("rollout(clairvoyant)")


def test_bad_options_are_named():
    for options, message in (
        ({"base": "tetris"}, "base is 'tetris': must be one of expected-cost"),
        ({"base": "clairvoyant"}, "base is 'clairvoyant': must be one of"),
        ({"horizon": 0}, "horizon is 0: must be at least 1"),
        ({"rollouts": 1}, "rollouts is 1: must be at least 2"),
        ({"certainty": -1.0}, "certainty is -1.0: must be at least 0"),
        ({"milliseconds": 0.0}, "milliseconds is 0.0: must be a number > 0"),
    ):
        with pytest.raises(InputError, match=message):
            quick(**({"base": "spread"} | options))


def test_sequences_that_lack_something_are_refused(problem, train):
    wrong = (
        ("spread", replace(train, training=None), problem.machines, "draw them with Problem.sequences"),
        ("spread", train, Machines.homogeneous(3000, 8, ("cpu", "mem")), "machines is 3000: rolling out all actions"),
    )
    for base, sequences, machines, message in wrong:
        with pytest.raises(InputError, match=message):
            Runner(sequences, machines, problem.scenario).play(quick(base), 0)
    blind = Problem.build(synthetic_trace("google", 40, 0, days=4), Scenario(workloads=8), "none")
    simulation = Simulation(blind.sequences("test", 1, 0), blind.machines, blind.scenario, grid=False)
    simulation.reset(0)
    with pytest.raises(InputError, match=r"rollout\(expected-cost\) needs sequences that were drawn with forecasts"):
        quick("expected-cost").reset(Cluster(simulation), np.random.default_rng(0))


def test_copies_of_a_simulation_share_the_training_sequences(problem, train):
    simulation = Simulation(train, problem.machines, problem.scenario, grid=False, max_slots=0)
    assert deepcopy(simulation).sequences.training() is train.training()


@pytest.mark.parametrize("base", ["expected-cost-peak", "best-fit-peak"])
def test_machines_where_peaks_do_not_fit_are_not_compared(make_sequences, base):
    # Machine 0 runs 1 unit now and 7 later; both machines have room now for 2 units.
    sequences = make_sequences([(0, [[1, 1], [7, 7], [7, 7]]), (0, flat(2, 3))])
    simulation = Simulation(sequences, TWO, Scenario(machines=2, placements_per_slot=None), grid=False, max_slots=0)
    simulation.reset(0)
    simulation.place(0, 0)
    cluster, newcomer = Cluster(simulation), sequences.workload(0, 1)
    assert make_scheduler(base).candidates(cluster, newcomer).tolist() == [False, True]
    assert cluster.room_now(newcomer).all()


def test_a_base_that_knows_peaks_but_may_exceed_them_is_as_careful_as_one_that_knows_none(make_sequences):
    # In 8 futures it gains 2, in 4 it loses 1: the mean of 1 is 2.3 standard errors above 0.
    costs = np.array([[0.0, -2.0]] * 8 + [[0.0, 1.0]] * 4)
    tally = Tally(2, 0)
    tally.add(costs)
    assert [tally.best(quick(base)._certainty) for base in ("best-fit-peak", "expected-cost-known-peak")] == [1, 0]
