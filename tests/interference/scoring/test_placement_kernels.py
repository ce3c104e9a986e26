"""Placing instances: by hand, against a plain version in Python, and with nothing known."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.interference import placement_kernels as kernels
from tvwrl.interference.observations import Levels
from tvwrl.interference.placement_kernels import place_instances
from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.score_kernels import UTILISATION_ALONE, Trees, score_machines, score_one
from tvwrl.schedulers.load_scores import no_history, remember


def stump(category: int, above: int = 0) -> Trees:
    """Services 0 and 1: level 9 where more than `above` instances of the category run, else 2."""
    node = np.int32
    return Trees(
        np.array([0, 3], node), np.ones(2, node), np.array([category, 0, 0] * 2, np.uint8),
        np.array([above, 2**31 - 1, 2**31 - 1] * 2, node), np.array([1, 1, 2, 4, 4, 5], node),
        np.array([5.0, 2.0, 9.0] * 2),
    )  # fmt: skip


def place(machines, trees, kind, category, count, candidates, cpu=1.0, memory=1.0, since=0.0, seed=0):
    """The machines that `count` instances get."""
    weight, history, placed = np.ones(len(machines.service)), no_history(len(machines.cores)), np.empty(count, np.int64)
    rng = np.random.default_rng(seed)
    place_instances(machines, trees, weight, history, kind, category, cpu, memory, candidates, since, rng, placed)
    return placed.tolist()


def test_spread_and_stack_alone_by_hand(make_machines):
    """Of 10 cores each, 2, 5 and 7 in use. Spread takes the emptiest each time, stack the fullest up to 80 %."""
    machines = make_machines(3)
    machines.cpu[:] = [2.0, 5.0, 7.0]
    assert place(machines, stump(0), kernels.SPREAD, 0, 4, 1) == [0, 0, 0, 0]
    assert machines.cpu.tolist() == [6.0, 5.0, 7.0]
    assert machines.batch_cpu.tolist() == machines.used_memory.tolist() == [4.0, 0.0, 0.0]
    assert machines.composition[:, 0].tolist() == [4, 0, 0]
    machines.cpu[:] = [2.0, 5.0, 7.0]
    assert place(machines, stump(0), kernels.STACK, 0, 5, 1) == [2, 1, 1, 1, 0]


def test_instances_avoid_the_machine_where_they_would_be_one_too_many(make_machines):
    """One more of category 7 is one too many on machine 0, the emptiest; spread + PISM goes on to machine 1, the next;
    with one candidate, or a category that does no harm, machine 0 it is."""
    machines = make_machines(3)
    machines.cpu[:] = [0.0, 3.0, 6.0]
    machines.composition[:, 7] = [2, 0, 0]
    trees = stump(7, above=2)
    scores = np.empty(3)
    score_machines(machines, trees, np.ones(6), 7, np.arange(3), scores)
    assert scores.tolist() == [9.0, 2.0, 2.0]
    assert score_one(machines, trees, np.ones(6), 0) == 2.0
    assert machines.composition[:, 7].tolist() == [2, 0, 0]
    for kind, category, candidates, expected in ((0, 7, 3, 1), (0, 7, 2, 1), (0, 7, 1, 0), (0, 8, 3, 0), (1, 7, 3, 2)):
        assert place(deepcopy(machines), trees, kind, category, 1, candidates) == [expected]


def test_unknown_machines_come_last_and_unknown_categories_leave_the_scheduler_alone(make_machines):
    machines = make_machines(3)
    machines.cpu[:] = [0.0, 3.0, 6.0]
    machines.composition[1:, 7] = 5  # the known ones are bad
    machines.last_report[:] = [10.0, 99.0, 99.0]
    assert place(machines, stump(7), kernels.SPREAD, 7, 1, 3, since=50.0) == [1]
    assert place(machines, stump(7), kernels.SPREAD, 7, 1, 3, since=100.0) == [0]
    before = machines.composition.copy()
    assert place(machines, stump(7), kernels.SPREAD, 60, 1, 3) == place(machines, stump(7), kernels.SPREAD, -1, 1, 3)
    assert (machines.composition == before).all()
    strangers = make_machines(2, services=(5, -1))
    out = np.empty(2)
    score_machines(strangers, stump(7), np.ones(4), -1, np.arange(2), out)
    assert np.isnan(out).all()
    assert place(strangers, stump(7), kernels.SPREAD, 7, 2, 2) == [0, 1]
    empty = make_machines(2, services=())
    score_machines(empty, stump(7), np.ones(0), -1, np.arange(2), out)
    assert out.tolist() == [0.0, 0.0]


def test_no_room_and_usage_that_is_not_a_number(make_machines):
    machines = make_machines(2)
    machines.cpu[:] = [9.5, np.nan]
    assert place(machines, stump(7), kernels.SPREAD, 0, 2, 2) == [-1, -1]
    machines = make_machines(2)
    machines.used_memory[:] = [99.5, 0.0]
    assert place(machines, stump(7), kernels.SPREAD, 0, 12, 2) == [1] * 10 + [-1, -1]


@pytest.mark.parametrize("kind", range(6))
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), candidates=st.sampled_from([1, 3, 12]))
def test_books_what_it_places_and_nothing_else(make_machines, kind, seed, candidates):
    rng = np.random.default_rng(seed)
    machines = make_machines(12)
    machines.cpu[:], machines.used_memory[:] = rng.uniform(0, 10, 12), rng.uniform(0, 100, 12)
    machines.composition[:, 7] = rng.integers(0, 3, 12)
    before = [part.copy() for part in (machines.cpu, machines.used_memory, machines.composition)]
    placed = np.array(place(machines, stump(7, 1), kind, 7, 40, candidates, cpu=1.5, memory=7.0, seed=seed))
    counts = np.bincount(placed[placed >= 0], minlength=12)
    assert machines.cpu == pytest.approx(before[0] + 1.5 * counts)
    assert machines.used_memory == pytest.approx(before[1] + 7.0 * counts)
    assert (machines.composition[:, 7] == before[2][:, 7] + counts).all()
    assert (machines.cpu <= 10 + 1e-9).all()
    assert (machines.used_memory <= 100 + 1e-9).all()
    if (placed < 0).any():  # only because nothing had room for one more
        assert ((machines.cpu + 1.5 > 10) | (machines.used_memory + 7 > 100)).all()


def test_chooses_as_a_plain_version_does(slowed, make_machines):
    """Spread over learnt trees: the lowest predicted mean level among the five machines with the least CPU in use."""
    predictor = LevelPredictor().fit(slowed, Levels.of(slowed, 10))
    rng = np.random.default_rng(2)
    machines = make_machines(20)
    machines.cpu[:] = rng.uniform(0, 6, 20)
    machines.composition[:, [3, 7, 11]] = rng.integers(0, 6, (20, 3))
    cpu, composition = machines.cpu.copy(), machines.composition.copy()
    expected = []
    for _ in range(15):
        nearest = np.argsort(cpu, kind="stable")[:5]
        levels = []
        for m in nearest:
            composition[m, 7] += 1
            levels.append(predictor.levels_of(np.array([0, 1]), np.stack([composition[m]] * 2)).mean())
            composition[m, 7] -= 1
        best = int(nearest[np.argmin(levels)])
        expected.append(best)
        cpu[best] += 0.2
        composition[best, 7] += 1
    assert place(machines, predictor.trees_, kernels.SPREAD, 7, 15, 5, cpu=0.2) == expected


@pytest.mark.parametrize("candidates", [1, 8])  # drawn; all machines, whose scores are equal
def test_random_takes_all_machines_evenly(make_machines, candidates):
    machines = make_machines(8)._replace(cores=np.full(8, 1e6), memory=np.full(8, 1e6))
    counts = np.bincount(place(machines, stump(7), kernels.RANDOM, 0, 4000, candidates), minlength=8)
    assert counts.min() > 400


def test_random_finds_the_few_machines_with_room(make_machines):
    first = []
    for seed in range(60):
        full = make_machines(300)
        full.cpu[:] = 10.0
        full.cpu[[4, 17]] = 0.0  # the draw hardly meets them
        placed = place(full, stump(7), kernels.RANDOM, 0, 21, 3, seed=seed)
        assert sorted(placed) == [-1] + [4] * 10 + [17] * 10
        first.append(placed[0])
    assert 15 < first.count(4) < 45


def test_without_trees_the_least_used_candidate_is_taken(make_machines):
    machines = make_machines(4)
    machines.cpu[:] = [7.0, 5.0, 2.0, 6.0]
    # stack likes 0 and 3 best (up to 80 %), of which 3 has less in use; then the two are alike, and the first is taken
    assert place(machines, UTILISATION_ALONE, kernels.STACK, 7, 2, 2) == [3, 0]


def test_peers_by_hand(make_machines):
    """Shares after the instance of 1 core and 1 memory: cpu 0.2, 0.4, 0.7 of 10 cores, memory 0.31, 0.01, 0.01.

    LoadAware: free 0.745, 0.795; the third is above 65 %. TargetLoadPacking: 0.7, 1, 0.2. Risk: machine 0 was calm.
    """
    machines = make_machines(3)
    machines.cpu[:] = [1.0, 3.0, 6.0]
    machines.used_memory[:] = [30.0, 0.0, 0.0]
    for kind in (kernels.LOAD_AWARE, kernels.TARGET_LOAD_PACKING):
        assert place(deepcopy(machines), stump(7), kind, 0, 1, 1) == [1]
    history = no_history(2)
    two = make_machines(2)
    for calm, wild in ((4.0, 8.0), (4.0, 0.0)) * 20:
        two.cpu[:] = [calm, wild]
        remember(two.shares(), history, 0.25)
    assert history[:, 0, 0] == pytest.approx([0.4, 0.4], abs=0.1)
    assert history[0, 0, 1] < 0.01 < 0.1 < history[1, 0, 1]
    placed = np.empty(1, np.int64)
    for part in (two.cpu, two.used_memory):
        part[:] = 0.0
    risk, rng = kernels.RISK_BALANCING, np.random.default_rng(0)
    place_instances(two, stump(7), np.ones(4), history, risk, 0, 1.0, 1.0, 1, 0.0, rng, placed)
    assert placed.tolist() == [0]
