"""Rules that are shown what really comes: the table by hand, names, and that nobody else sees it."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.forecasting import with_perfect_forecasts
from tvwrl.forecasting.segments import Forecast, columns, forecast_table
from tvwrl.metrics import score_episode
from tvwrl.schedulers import FUTURE, Runner, list_schedulers, make_scheduler
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError

BOTH = "perfect-forecast(expected-cost + greedy(threshold=3000))"


@pytest.fixture(scope="module")
def moving(google):
    scenario = Scenario(moves_per_slot=2, machines=6, workloads=40, load=0.6)
    return Problem.build(google, scenario).with_forecasts()


def test_a_perfect_forecast_is_what_comes(make_sequences):
    drawn = make_sequences([(0, [[2, 1], [4, 1], [8, 1], [4, 3]]), (0, [[8, 8]])])
    blank = forecast_table(np.zeros((1, 2, 5, columns(2) + 2), np.uint8), 2)
    table = with_perfect_forecasts(replace(drawn, forecast=blank), 8).forecast
    told = Forecast((table.values * table.steps)[0, ..., : columns(2)], 2)
    assert told.most[0, 1, :3].tolist() == pytest.approx(
        np.array([[4, 1], [8, 1], [0, 0]]) / 8 + [[0, 0], [0, 0.25], [0, 0]]
    )
    assert told.mean[0, 1, :2] == pytest.approx(np.array([[4, 1], [6, 2]]) / 8)
    assert told.peak[0, :, 0] == pytest.approx([1, 1, 1, 1, 0.5])
    assert told.alive[0, 1].tolist() == [1, 1, 0, 0, 0, 0]
    assert told.alive[0, 3].tolist() == [1, 0, 0, 0, 0, 0]
    assert not told.spread.any()
    assert not told.peak_spread.any()
    assert (told.values[0, 0] == told.values[0, 1]).all()  # of what waits
    assert not told.values[1, 2:].any()  # it has ended
    assert told.peak[1, 1].tolist() == [1, 1]


def test_forecasts_that_are_perfect_gain(moving):
    """With what comes in place of forecasts, less is lost; the honest rule is as it was."""
    drawn, machines, scenario = moving.sequences("test", 4, 3), moving.machines, moving.scenario
    runner, weights = Runner(drawn, machines, scenario), scenario.penalty_weights()

    def rewards(name):
        return [score_episode(runner.play(make_scheduler(name), i), machines, weights)["reward"] for i in range(4)]

    honest = rewards("expected-cost + greedy(threshold=3000)")
    assert np.mean(rewards(BOTH)) > np.mean(honest)
    assert rewards("expected-cost + greedy(threshold=3000)") == honest


def test_it_decides_as_the_rule_does_where_forecasts_are_perfect_already(moving):
    drawn = moving.sequences("test", 2, 3)
    known = with_perfect_forecasts(drawn, moving.scenario.peak_units)
    name = "expected-cost + greedy(threshold=1)"
    inner, wrapped = make_scheduler(name), make_scheduler(f"perfect-forecast({name})")
    plain = Runner(known, moving.machines, moving.scenario).play(inner, 1)
    played = Runner(drawn, moving.machines, moving.scenario).play(wrapped, 1)
    assert len(played.moves.workload) > 40  # more than there was room for at first
    for one, other in zip((plain, plain.moves), (played, played.moves), strict=True):
        for name in ("start", "machine") if one is plain else ("workload", "slot", "source", "target"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


def test_a_fork_decides_as_it_would(moving):
    runner = Runner(moving.sequences("test", 1, 3), moving.machines, moving.scenario)
    scheduler = make_scheduler(BOTH)
    first = runner.play(scheduler, 0)
    again = runner.play(scheduler.fork(), 0)
    assert np.array_equal(first.start, again.start)
    assert np.array_equal(first.moves.slot, again.moves.slot)


def test_what_others_see_stays(moving):
    simulation = Runner(moving.sequences("test", 1, 3), moving.machines, moving.scenario).simulation(
        make_scheduler("expected-cost")
    )
    simulation.reset(0)
    before = {name: getattr(simulation.state, name).copy() for name in simulation.state._fields}
    cluster, scheduler = Cluster(simulation), make_scheduler(BOTH)
    scheduler.reset(cluster, np.random.default_rng(0))
    workloads = [simulation.sequences.workload(0, int(i)) for i in simulation.waiting()]
    assert list(scheduler.schedule(cluster, workloads))
    for name, value in before.items():
        assert np.array_equal(getattr(simulation.state, name), value), name


def test_names():
    for name in (BOTH, "perfect-forecast(forecast-fit)", "perfect-forecast(expected-cost-backfill)"):
        scheduler = make_scheduler(name)
        assert scheduler.name == name
        assert scheduler.knowledge == FUTURE
        assert name not in list_schedulers()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("perfect-forecast(spread)", "spread looks at no forecasts"),
        ("perfect-forecast(rollout(expected-cost))", "plans in sampled futures"),
        ("perfect-forecast(expected-cost + rollout-moves)", "plans in sampled futures"),
        ("perfect-forecast(expected-cost) + greedy", r"perfect-forecast\(expected-cost \+ greedy\)"),
        ("perfect-forecast(expectedcost)", "did you mean expected-cost"),
    ],
)
def test_bad_names(name, said):
    with pytest.raises(InputError, match=said):
        make_scheduler(name)
