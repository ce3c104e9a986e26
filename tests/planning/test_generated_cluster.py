"""Drawn problems are what the Aladdin+H paper tells of its own."""

import numpy as np
import pytest

from tvwrl.planning.merged import Merged
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.sources import generated as production
from tvwrl.planning.sources.generated import generate_cluster, largest_remainder, machines_of
from tvwrl.types import InputError


@pytest.fixture(scope="module")
def problem() -> PlanningProblem:
    return generate_cluster(600, 5_000, seed=1)


def test_types_are_those_of_the_paper() -> None:
    assert len(production.MACHINE_TYPES) == 23
    assert len(set(production.MACHINE_TYPES)) == 23
    assert sum(count for _, _, count in production.MACHINE_TYPES) == 13_764
    assert len(production.TASK_TYPES) == 31
    assert sum(count for _, _, count in production.TASK_TYPES) == 116_414
    assert (88, 354544, 1956) in production.MACHINE_TYPES
    assert (8, 128113, 334) in production.TASK_TYPES


def test_machines_keep_their_shares() -> None:
    assert len(machines_of(12_000)) == 12_000
    kinds, count = np.unique(machines_of(13_764), axis=0, return_counts=True)
    assert len(kinds) == 23
    printed = {(c, m / 1024): n for c, m, n in production.MACHINE_TYPES}
    assert max(abs(printed[c, m] - n) for (c, m), n in zip(kinds.tolist(), count.tolist(), strict=True)) <= 7
    assert len(np.unique(machines_of(23), axis=0)) == 23
    assert largest_remainder(np.array([0.5, 0.3, 0.2]), 6).tolist() == [3, 2, 1]


def test_as_printed_the_tasks_do_not_fit_the_machines() -> None:
    whole = generate_cluster(13_764, 116_414, demand=None)
    share = whole.instance.total[0] / whole.fleet.capacity.sum(axis=0)
    assert share == pytest.approx([1.58, 1.34], abs=0.005)


def test_replicas_demand_and_constraints_add_up(problem: PlanningProblem) -> None:
    instance = problem.instance
    assert (len(problem.fleet.capacity), instance.replicas.sum()) == (600, 5_000)
    share = instance.total[0] / problem.fleet.capacity.sum(axis=0)
    assert share.max() == pytest.approx(0.75, abs=0.02)
    grouped = instance.replicas[problem.bundles.member].sum()
    assert 0.2 <= grouped / 5_000 < 0.23
    sizes = np.add.reduceat(problem.bundles.count, problem.bundles.start[:-1])
    assert set(sizes) == {2, 3, 4}
    i = np.repeat(np.arange(len(instance)), np.diff(instance.affinity.start))
    limited = instance.replicas[np.unique(np.concatenate([i, instance.affinity.to]))].sum()
    assert 0.5 <= limited / 5_000 < 0.53
    excluded = np.bincount(i, np.where(instance.affinity.limit == 0, instance.replicas[instance.affinity.to], 0))
    assert (excluded >= 5_000 / 50).sum() >= 8
    assert Merged.of(problem).refused == {}


def test_the_same_seed_is_the_same_problem(problem: PlanningProblem) -> None:
    again, other = generate_cluster(600, 5_000, seed=1), generate_cluster(600, 5_000, seed=2)
    for one, same in ((problem.instance.demand, again.instance.demand), (problem.bundles.member, again.bundles.member)):
        assert np.array_equal(one, same)
    assert np.array_equal(problem.instance.affinity.to, again.instance.affinity.to)
    assert not np.array_equal(problem.instance.affinity.to, other.instance.affinity.to)


@pytest.mark.slow
def test_the_papers_size() -> None:
    problem = generate_cluster()
    i = np.repeat(np.arange(len(problem.instance)), np.diff(problem.instance.affinity.start))
    excluded = np.bincount(i, problem.instance.replicas[problem.instance.affinity.to])
    assert (excluded >= 2_000).sum() >= 8
    assert problem.instance.replicas.max() == 500


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"machines": 22}, "machines is 22: must be 23 to 1000000"),
        ({"demand": 1.5}, "demand is 1.5"),
        ({"machines": 12_000, "replicas": 100}, "100 replicas cannot demand 0.75 of 12,000 machines"),
    ],
)
def test_bad_sizes_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate_cluster(**wrong)  # type: ignore[arg-type]
