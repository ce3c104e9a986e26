"""The simulated cluster: by hand, the record against the clock's own arrays, moves, and what monitoring tells."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.interference import placement_kernels as kernels
from tvwrl.interference.score_kernels import Trees
from tvwrl.interference.testbed.arrivals import Arrivals, replay_hour, synthetic_hour
from tvwrl.interference.testbed.deployment import LEAST_SERVICES, Deployment, draw_deployment
from tvwrl.interference.testbed.instance_kernels import DEFAULT
from tvwrl.interference.testbed.laws import ANCHORS, LAWS, LEAST_SENSITIVE, MOST_SENSITIVE, draw_response_model
from tvwrl.interference.testbed.simulation import PlacementRule, Record, simulate, take_snapshots
from tvwrl.types import InputError

LIGHT, HEAVY = 0, (2 * 5 + 4) * 4 + 3  # categories


def deployment(machines=2):
    """Machines of 10 cores with one service."""
    shares = np.arange(1, machines + 1) / machines
    none = np.zeros(machines, np.int64)
    return Deployment(("s0",), np.ones(1), np.arange(machines + 1), none, 0.0 * none, shares, 10.0, 100.0)


def arrivals(*rows):
    """Rows: second, instances, cpu, memory, makespan, category."""
    second, instances, cpu, memory, makespan, category = (np.array(column) for column in zip(*rows, strict=True))
    floats = {"cpu": cpu.astype(float), "memory": memory.astype(float), "intensity": 10.0 ** np.arange(len(cpu))}
    return Arrivals(
        second=second, instances=instances, makespan=makespan, category=category, assumed=category, **floats
    )


def counting_tree(category, steps, services=1):
    """Level 1 + count of a category, up to `steps`, the same for all services."""
    nodes = 2 * steps + 1
    feature, threshold = np.zeros(nodes, np.uint8), np.full(nodes, np.iinfo(np.int32).max, np.int32)
    left, level = np.arange(nodes, dtype=np.int32), np.ones(nodes)
    for step in range(steps):
        node = 0 if step == 0 else 2 * step
        feature[node], threshold[node], left[node] = category, step, 2 * step + 1
        level[2 * step + 1], level[2 * step + 2] = 1 + step, 2 + step
    return Trees(np.zeros(services, np.int32), np.full(services, steps, np.int32), feature, threshold, left, level)


def played(tasks, rule, machines=2, **watched):
    """The record of tasks on a few machines."""
    return simulate(deployment(machines), tasks, rule, np.random.default_rng(0), **watched)


def test_spread_by_hand():
    tasks = arrivals((0, 2, 2.0, 1.0, 30, LIGHT), (10, 1, 1.0, 1.0, 60, HEAVY), (30, 1, 3.0, 2.0, 10, LIGHT))
    record = played(tasks, PlacementRule(kernels.SPREAD))
    assert record.machine.tolist() == [0, 1, 0, 1]  # at 30 the first two have left, so machine 1 is empty
    seen = take_snapshots(record, np.array([0.0, 10.0, 29.0, 30.0, 40.0, 70.0]))
    assert seen.batch_cpu.tolist() == [[2, 2], [3, 2], [3, 2], [1, 3], [1, 0], [0, 0]]
    assert seen.composition[1, 0, [LIGHT, HEAVY]].tolist() == [1, 1]
    assert seen.composition.sum(axis=2).tolist() == [[1, 1], [2, 1], [2, 1], [1, 1], [1, 0], [0, 0]]
    first, second = 1.0, 10.0  # intensities, which the category does not tell
    assert seen.pressures.bandwidth[1].tolist() == [2 * first + second, 2 * first]
    assert seen.pressures.cache[1].tolist() == [first + second, first]
    assert seen.pressures.cpu[0].tolist() == seen.pressures.queue[0].tolist() == [0.2, 0.2]


@pytest.mark.parametrize("kind", [kernels.SPREAD, DEFAULT])
@pytest.mark.parametrize("unknown", [-1, 60])
def test_a_task_of_unknown_category_is_placed_and_counted_in_no_composition(kind, unknown):
    tasks = arrivals((0, 2, 2.0, 1.0, 30, LIGHT), (10, 1, 1.0, 1.0, 60, HEAVY))
    tasks = replace(tasks, assumed=np.array([unknown, HEAVY]))  # what a classifier made of them
    record = played(tasks, PlacementRule(kind))
    assert (record.machine >= 0).all()
    seen = take_snapshots(record, np.array([0.0, 10.0, 40.0]))
    assert seen.batch_cpu.sum(axis=1).tolist() == [4, 5, 1]
    assert seen.composition.sum(axis=(1, 2)).tolist() == [0, 1, 1]
    assert seen.composition[:, :, HEAVY].sum(axis=1).tolist() == [0, 1, 1]


def test_scores_import_nothing_of_the_testbed():
    """Only what trains scores may simulate; what predicts and places must not see the laws."""
    for path in Path(kernels.__file__).parent.glob("*.py"):
        if path.stem not in ("training", "fitting", "law_fitting"):
            assert "interference.testbed" not in path.read_text(), path.name


def test_without_room_an_instance_is_lost_and_seen_nowhere():
    tasks = arrivals((0, 3, 6.0, 1.0, 30, LIGHT))
    for kind in (kernels.SPREAD, kernels.RANDOM, DEFAULT):
        record = played(tasks, PlacementRule(kind))
        placed = (record.machine >= 0).sum()
        assert placed < 3
        assert take_snapshots(record, np.array([0.0])).batch_cpu.sum() == pytest.approx(6.0 * placed)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([DEFAULT, 0, 1, 2, 3, 4, 5]), st.integers(0, 3))
def test_the_record_agrees_with_the_clock_at_every_minute(seed, kind, moves):
    rng = np.random.default_rng(seed)
    tasks = replay_hour(synthetic_hour(rng, 400), 3, 8, rng, per_minute=20.0)
    cluster = draw_deployment(3, LEAST_SERVICES, tasks, 480, rng)
    trees = counting_tree(int(np.bincount(tasks.assumed).argmax()), 30, LEAST_SERVICES)
    clock = []

    def watch(second, machines):
        clock.append((second, *(getattr(machines, name).copy() for name in ("batch_cpu", "composition"))))

    policy = PlacementRule(kind, 3 if moves else 1, trees, None, moves)
    record = simulate(cluster, tasks, policy, np.random.default_rng(1), watch)
    seen = take_snapshots(record, np.array([second - 0.5 for second, *_ in clock]))  # the clock has played up to then
    for row, (_, batch, composition) in enumerate(clock):
        assert np.array_equal(seen.composition[row], composition)
        assert seen.batch_cpu[row] == pytest.approx(batch, abs=1e-6)
    again = simulate(cluster, tasks, policy, np.random.default_rng(1))
    assert np.array_equal(again.machine, record.machine)
    assert np.array_equal(again.moves, record.moves)


def test_an_instance_moves_where_the_two_scores_together_fall():
    tasks = arrivals((0, 4, 1.0, 1.0, 300, HEAVY), (60, 1, 1.0, 1.0, 1, LIGHT))
    # stack puts all four on one machine; a level is 1 + the number of heavy ones, counted up to 1: three can stay
    concave = PlacementRule(kernels.STACK, 1, counting_tree(HEAVY, 1), None, 5)
    assert len(played(tasks, concave, 10).moves) == 0
    # counted from the third on, two that leave help and do no harm elsewhere
    tree = counting_tree(HEAVY, 4)
    convex = tree._replace(level=np.where(tree.level <= 3, 1.0, tree.level))
    moved = played(tasks, PlacementRule(kernels.STACK, 1, convex, None, 5), 10)
    assert moved.moves[:, 0].tolist() == [60, 60]
    heavy = take_snapshots(moved, np.array([59.0, 61.0])).composition[:, :, HEAVY]
    assert heavy.max(axis=1).tolist() == [4, 2]
    assert heavy.sum(axis=1).tolist() == [4, 4]


@pytest.mark.parametrize("stale_after", [0.0, 120.0, 1e9])
def test_a_machine_is_left_alone_once_its_last_report_is_stale(stale_after):
    tasks = arrivals(*((60 * minute, 1, 0.01, 0.01, 3000, HEAVY) for minute in range(100)))
    policy = PlacementRule(kernels.RANDOM, 6, counting_tree(LIGHT, 1), None, 0, stale_after)
    age = []

    def watch(second, machines):
        age.append(second - 60 - machines.last_report)

    record = played(tasks, policy, 6, watch=watch, silent=0.4)
    ages = np.array(age)
    stale = ages > stale_after
    known = ~stale.all(axis=1)
    taken = stale[np.arange(100), record.machine]
    assert not taken[known].any()
    assert known.sum() > 90
    assert ages.max() > 600  # all are taken by those who never count a report as stale
    if stale_after > 1e6:
        assert (ages[np.arange(100), record.machine] > 600).any()


def test_nothing_moves_from_or_to_a_silent_machine():
    tasks = arrivals(*((60 * minute, 4, 0.01, 0.01, 900, HEAVY) for minute in range(60)))
    tree = counting_tree(HEAVY, 60)
    convex = tree._replace(level=tree.level**2)  # it pays to be even
    silent = {}

    def watch(second, machines):
        silent[second - 60] = machines.last_report < second - 60

    record = played(tasks, PlacementRule(kernels.STACK, 1, convex, None, 5, 1e9), 10, watch=watch, silent=0.4)
    where = record.machine.copy()
    assert len(record.moves) > 100
    assert np.mean(list(silent.values())) > 0.2
    for second, instance, to in record.moves:
        assert not silent[second][[where[instance], to]].any()
        where[instance] = to


def test_a_silent_machine_never_shows_less_than_nothing_and_reports_the_truth():
    rng = np.random.default_rng(0)
    tasks = replay_hour(synthetic_hour(rng, 400), 4, 40, rng, per_minute=20.0)
    cluster = draw_deployment(4, LEAST_SERVICES, tasks, 2400, rng)
    shown, reports = [], []

    def watch(second, machines):
        shown.append(machines.composition.copy())
        reports.append((second, machines.last_report == second - 60))

    record = simulate(cluster, tasks, PlacementRule(kernels.SPREAD), np.random.default_rng(1), watch, 0.3)
    true = take_snapshots(record, np.array([second - 0.5 for second, _ in reports])).composition
    assert min(composition.min() for composition in shown) == 0
    for (_, reporting), composition, real in zip(reports, shown, true, strict=True):
        assert np.array_equal(composition[reporting], real[reporting])
    assert 0.5 < np.mean([reporting for _, reporting in reports]) < 0.9


def test_stays_of_an_instance_that_moves_twice():
    tasks = arrivals((0, 2, 1.0, 1.0, 100, LIGHT))
    moves = np.array([[20, 1, 1], [50, 1, 2]])
    record = Record(deployment(machines=3), tasks, np.array([0, 0]), moves)
    task, machine, start, end = record.stays()
    assert task.tolist() == [0, 0, 0, 0]
    assert list(zip(machine, start, end, strict=True)) == [(0, 0, 100), (0, 0, 20), (1, 20, 50), (2, 50, 100)]


def test_a_site_is_as_large_as_its_batch_work_needs():
    rng = np.random.default_rng(0)
    tasks = replay_hour(synthetic_hour(rng), 20, 60, rng)
    found = draw_deployment(20, 60, tasks, 3600, rng)
    assert np.diff(found.first).tolist() == [20] * 20
    assert all(len(set(found.service[20 * m : 20 * m + 20])) == 20 for m in range(20))
    used = tasks.cores() / 3600 / (20 * found.cores) + found.use.sum() / (20 * found.cores)
    assert used == pytest.approx(0.45)
    with pytest.raises(InputError, match="services is 5: must be at least 23"):
        draw_deployment(20, 5, tasks, 3600, rng)


def test_the_scorer_sees_response_times_and_compositions_alone():
    rng = np.random.default_rng(0)
    tasks = replay_hour(synthetic_hour(rng), 4, 6, rng)
    cluster = draw_deployment(4, LEAST_SERVICES, tasks, 360, rng)
    seen = take_snapshots(simulate(cluster, tasks, PlacementRule(DEFAULT), rng), np.array([200.0, 260.0, 320.0]))
    response_model = draw_response_model(LAWS["memory"], cluster, seen, np.random.default_rng(1))
    times = response_model.response_ms(seen, np.random.default_rng(2))
    found = response_model.observe(seen, np.random.default_rng(2), 2)
    assert len(found.seconds) == 2 * 80
    assert set(found.seconds) == {200.0, 320.0}
    row = 80 + 47
    assert (found.machine[row], found.response_ms[row]) == (cluster.machine[47], times[2, 47])
    assert np.array_equal(found.composition[row], seen.composition[2, cluster.machine[47]])
    measured = np.array([0.01, 0.5, 90.0])  # the ends are beyond the limits
    drawn = draw_response_model(LAWS["memory"], cluster, seen, np.random.default_rng(1), measured).sensitivity
    free = [s for s, name in enumerate(cluster.services) if name not in (*ANCHORS, "browse_product")]
    assert set(drawn[free]) == {LEAST_SENSITIVE, 0.5, MOST_SENSITIVE}
    still = replace(response_model, noise=response_model.noise * 0.0)
    expected = response_model.base * (1 + response_model.sensitivity * response_model.slowdown(seen)[1, 2])
    own = cluster.machine == 2
    assert still.response_ms(seen, rng)[1, own] == pytest.approx(expected[cluster.service[own]])
