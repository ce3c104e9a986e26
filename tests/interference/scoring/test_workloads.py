"""Workloads as batch work: categories by hand, without a look ahead, thresholds that part a trace evenly."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.interference.categories import Thresholds, categories, category_of, even_breaks, shares, thresholds_of
from tvwrl.interference.testbed.episodes import episode_snapshots
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.types import Episode, InputError, Machines

LIMITS = Thresholds((1.5, 3.0), (20.0, 40.0, 60.0, 80.0), (25.0, 100.0, 1000.0))
LARGEST = np.array([8.0, 8.0])


def test_categories_by_hand():
    """CPU 1, 3, 8 of 8 units, of 13 cores each, has means 13, 26, 52: classes 0, 1, 2. Memory 4 of 8 is 50 %: class 2.
    After 10, 20, 30 s the class of makespan is 0, 0, 1."""
    demand = np.array([[[1.0, 4.0], [3.0, 4.0], [8.0, 4.0]]])
    expected = category_of(np.array([[0, 2, 0], [1, 2, 0], [2, 2, 1]]))
    assert categories(demand, LARGEST, 10.0, replace(LIMITS, cpu=(19.5, 39.0))).tolist() == [expected.tolist()]


@given(st.integers(0, 1000), st.integers(1, 9))
def test_a_category_reads_nothing_of_later_slots(seed, known):
    rng = np.random.default_rng(seed)
    demand = rng.integers(1, 7, (3, 10, 2)).astype(float)
    other = demand.copy()
    other[:, known:] = rng.integers(1, 7, (3, 10 - known, 2))
    first, second = (categories(one, LARGEST, 60.0, LIMITS)[:, :known] for one in (demand, other))
    assert np.array_equal(first, second)


def test_even_breaks_by_hand():
    """Four ones, a two, a three and two fours in three classes: the ones; then half of the others; then the fours."""
    assert even_breaks(np.array([1.0, 1, 1, 1, 2, 3, 4, 4]), 3, "cpu") == (1.5, 3.5)
    assert even_breaks(np.array([5.0, 5.0]), 4, "cpu") == (10.0, 20.0, 40.0)
    assert even_breaks(np.array([1.0, 2, 3, 4, 4, 4]), 4, "cpu") == (1.5, 2.5, 3.5)
    for bad, message in (([0.0], "no value > 0"), ([1.0, np.nan], "row 1: cpu is nan"), ([-1.0], "row 0: cpu is -1")):
        with pytest.raises(InputError, match=message):
            even_breaks(np.array(bad), 3, "cpu")


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=50), st.integers(2, 5))
def test_even_breaks_rise_and_leave_no_class_empty_that_could_be_filled(values, classes):
    found = even_breaks(np.array(values), classes, "cpu")
    assert all(a < b for a, b in zip((0.0, *found), found, strict=False))
    filled = len(np.unique(np.searchsorted(found, values, side="right")))
    assert filled == min(classes, len(set(values)))


def test_thresholds_of_a_trace_leave_no_category_to_most(problem, train):
    """In whole units, of which most workloads use one or two, no category holds more than a third of what runs."""
    largest = problem.machines.capacity.max(axis=0)
    found = thresholds_of(train, largest, problem.scenario.step_seconds)
    runs = np.arange(train.demand.shape[2]) < train.length[..., None]
    counted = np.stack([categories(one, largest, problem.scenario.step_seconds, found) for one in train.demand])[runs]
    counts = np.bincount(counted, minlength=60)
    assert counts.max() < counts.sum() / 3
    assert (counts > 0).sum() > 15


def test_what_monitoring_sees_by_hand():
    """a runs in slots 0 and 1 on machine 0, b from slot 1 on machine 1; of slot 2, after the last arrival, nothing."""
    episode = Episode(
        workload_id=np.array(["a", "b"], object),
        source_workload=np.array(["a", "b"], object),
        source_slot=np.zeros(2, np.int64),
        arrival=np.array([0, 1]),
        start=np.array([0, 1]),
        finish=np.array([2, 4]),
        machine=np.array([0, 1]),
        demand=(np.array([[2.0, 4.0], [6.0, 4.0]]), np.array([[8.0, 8.0]] * 3)),
    )
    machines = Machines(np.array([[8.0, 8.0], [8.0, 8.0], [0.0, 0.0]]), ("cpu", "mem"))
    seen = episode_snapshots([episode, episode], machines, 60, LIMITS, seed=0)
    assert seen.seconds.tolist() == [0.0, 60.0, 120.0, 180.0]
    assert seen.batch_cpu[:2].tolist() == [[26.0, 0.0, 0.0], [78.0, 104.0, 0.0]]
    assert np.array_equal(seen.composition[:2], seen.composition[2:])
    assert seen.composition.sum(axis=2).tolist() == [[1, 0, 0], [1, 1, 0]] * 2
    assert seen.composition[0, 0, category_of(np.array([2, 2, 1]))] == 1
    pressures = seen.pressures
    assert pressures.cpu[1].tolist() == [0.75, 1.0, 0.0]
    assert pressures.bandwidth[1, 0] == pytest.approx(3 * pressures.bandwidth[0, 0])
    assert pressures.cache[1, 0] == pytest.approx(pressures.cache[0, 0])
    assert np.array_equal(
        episode_snapshots([episode], machines, 60, LIMITS, seed=0).pressures.cache, pressures.cache[:2]
    )
    assert shares(np.array([4.0, 2.0]), LARGEST) == (52.0, 25.0)


@pytest.mark.parametrize("name", ["spread", "stack-80"])
def test_what_the_scheduler_counts_is_what_the_record_says(problem, train, name, trace_score):
    """Compositions kept while playing, and those counted afterwards from the episode's record, slot by slot."""
    from tvwrl.interference.scheduler import WithInterference

    counted = {}

    class Watched(WithInterference):
        def _seen(self, cluster, seconds):
            machines = super()._seen(cluster, seconds)
            counted.setdefault(cluster.slot, machines.composition.copy())  # before the first placement of a slot
            return machines

    runner = Runner(train, problem.machines, problem.scenario, seed=0)
    episode = runner.play(Watched(make_scheduler(name), trace_score), 1)
    seen = episode_snapshots([episode], problem.machines, problem.scenario.step_seconds, trace_score.thresholds, 0)
    assert len(counted) > 10
    for slot, composition in counted.items():
        if slot < len(seen.seconds):
            fresh = replace(episode, start=np.where(episode.start == slot, -1, episode.start))
            before = episode_snapshots(
                [fresh], problem.machines, problem.scenario.step_seconds, trace_score.thresholds, 0
            )
            assert np.array_equal(composition, before.composition[slot])
