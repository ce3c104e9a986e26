"""Batch arrivals: waves, usage of tasks in the same place, and the recorded hour at another scale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.interference.batch_tasks import BatchTasks
from tvwrl.interference.categories import Thresholds
from tvwrl.interference.testbed.arrivals import (
    HOUR,
    STREAMS,
    as_arrivals,
    kept_share,
    match_tasks,
    replay_hour,
    synthetic_hour,
)
from tvwrl.types import InputError

THRESHOLDS = Thresholds((0.5, 1.5), (0.1, 0.2, 0.3, 0.4), (10.0, 60.0, 300.0))


def tasks(instances, tag=None, role=None, seconds=0.0):
    count = len(instances)
    names = np.array([str(i) for i in range(count)], dtype=object)
    return BatchTasks(
        job=names,
        task=names,
        seconds=np.full(count, seconds),
        instances=np.array(instances),
        plan_cpu=np.ones(count),
        plan_memory=np.ones(count),
        tag=np.array(tag or ["t"] * count, dtype=object),
        role=np.array(role or ["r"] * count, dtype=object),
        cpu=np.ones(count),
        memory=np.full(count, 0.25),
        makespan=np.full(count, 60.0),
    )


def test_waves_by_hand():
    found = as_arrivals(tasks([5], seconds=7.0), np.array([180.0]), THRESHOLDS, np.random.default_rng(0))
    # 120 s more than an instance runs: a second and a third wave
    assert found.second.tolist() == [7, 67, 127]
    assert found.instances.tolist() == [2, 2, 1]
    assert set(found.category) == set(found.assumed) == {(1 * 5 + 2) * 4 + 2}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=20), st.floats(0, 9000), st.floats(0, HOUR - 1))
def test_waves_keep_every_instance_within_the_hour(instances, lasts, seconds):
    found = as_arrivals(
        tasks(instances, seconds=seconds), np.full(len(instances), lasts), THRESHOLDS, np.random.default_rng(0)
    )
    assert found.instances.sum() == sum(instances)
    assert (found.instances > 0).all()
    assert (np.diff(found.second) >= 0).all()
    assert found.second.max() < HOUR


def test_usage_comes_from_the_same_place_of_the_same_graph():
    known = tasks([1] * 6, tag=["a", "a", "b", "b", "c", "c"], role=["x", "y"] * 3)
    two = tasks([3, 3], tag=["b", "c"], role=["y", "x"])
    assert match_tasks(two, known, np.random.default_rng(0)).tolist() == [3, 4]
    many = tasks([3] * 200, tag=["z"] * 200)
    assert set(match_tasks(many, known, np.random.default_rng(0))) == set(range(6))  # all are as near


@pytest.fixture(scope="module")
def hour():
    return synthetic_hour(np.random.default_rng(0))


@pytest.mark.parametrize("machines", [1, 50])
def test_an_hour_has_sixty_new_instances_per_machine_and_minute(hour, machines):
    found = replay_hour(hour, machines, 60, np.random.default_rng(1))
    assert found.instances.sum() == pytest.approx(3600 * machines, rel=0.1)
    assert found.second.max() < HOUR
    assert (np.diff(found.second) >= 0).all()
    by_kind = [np.bincount(one.category, one.instances, 60) / one.instances.sum() for one in (hour, found)]
    assert by_kind[0] == pytest.approx(by_kind[1], abs=0.03)


def test_the_same_seed_gives_the_same_arrivals_and_more_come_at_night(hour):
    first, second = (replay_hour(hour, 8, 18 * 60, np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(first.instances, second.instances)
    by_hour = np.bincount(first.second // HOUR, first.instances)  # from 8 to 9 in the morning on
    assert by_hour[17] / by_hour[5] == pytest.approx(1.25 / 0.75, rel=0.05)


def test_how_much_of_a_recorded_hour_is_kept(hour):
    with pytest.raises(InputError, match="0 machines"):
        replay_hour(hour, 0, 60, np.random.default_rng(1))
    count = hour.instances.sum()
    # as many machines as begin 60 a minute in twelve copies of the hour keep every instance
    machines = int(count) * STREAMS // 3600
    assert kept_share(hour, machines) == pytest.approx(1.0, rel=1 / machines)
    found = replay_hour(hour, 5, 60, np.random.default_rng(1)).instances.sum()
    assert found == pytest.approx(kept_share(hour, 5) * STREAMS * count, rel=0.05)
