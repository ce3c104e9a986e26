"""What the explorer's page is told of plans, by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.planning.hand_plans import (
    APART,
    BATCH,
    DB,
    FULL,
    WEB,
    careless,
    first_fit,
    problem,
    results_of,
    running,
)
from tvwrl.planning import explored
from tvwrl.planning.explored import explore, moves_between, pairs_of, reached_limits
from tvwrl.planning.instance import Affinity
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import NOWHERE, PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.types import InputError

Told = Callable[..., tuple[dict[str, Any], list[dict[str, Any]]]]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """What the page is given: the index, and a tree for each plan."""
    found: list[Any] = []
    monkeypatch.setattr(explored, "write_explorer", lambda file, index, parts: found.extend([index, list(parts)]))

    def of(given: PlanningProblem, *plans: Plan) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        found.clear()
        explore(results_of(given, tmp_path, *plans), tmp_path / "explorer.html")
        return found[0], found[1]

    return of


def rows(tree: dict[str, Any], *names: str) -> list[tuple[int, ...]]:
    return list(zip(*(np.asarray(tree[name]).tolist() for name in names), strict=True))


def demand_of(index: dict[str, Any], d: int) -> np.ndarray[Any, Any]:
    """(A, H) as the page reads it."""
    coded = index["applications"]["demand"][d]
    return np.asarray(coded["value"][coded["code"]][coded["of"]])


def test_limits_bind_where_one_more_replica_would_break_them() -> None:
    # web-web on both machines, of which machine 0 has 3 cores left and machine 1 has 1; web-batch on machine 0, which
    # has room for the other batch; no batch beside db on machine 1, which has 1 core and 2 GiB left.
    found = reached_limits(problem(), first_fit())
    assert (found.arc.tolist(), found.machines.tolist(), found.room.tolist()) == ([0, 1, 2], [2, 1, 1], [1, 1, 1])
    assert pairs_of(problem(), first_fit()) == 5  # 2 limits of web twice, 1 of db, none of batch


def test_a_replica_that_is_already_there_is_not_kept_out() -> None:
    both = replace(problem().instance, replicas=np.array([3, 1, 1]))
    assert reached_limits(replace(problem(), instance=both), first_fit()).room.tolist() == [1, 0, 1]


def test_room_is_what_is_left_at_all_times() -> None:
    later = replace(problem().instance, demand=np.repeat(problem().instance.demand, 2, axis=1))
    later.demand[WEB, 1] = [4.0, 1.0]  # machine 0 has 1 core left then
    found = reached_limits(replace(problem(), instance=later), first_fit())
    assert found.room.tolist() == [0, 1, 0]  # and machine 1 none for a batch


def test_limits_are_found_in_blocks_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    pairs = rng.permutation(30 * 30)[:200]
    i, j = np.divmod(pairs, 30)
    limits = Affinity.of(30, i, j, rng.integers(1, 3, 200))
    given = problem()
    many = replace(
        given.instance,
        application=np.array([f"a{k}" for k in range(30)], object),
        replicas=np.full(30, 9),
        demand=np.full((30, 1, 2), 0.1),
        affinity=limits,
    )
    plan = Plan.of_replicas("FF", rng.integers(0, 30, 200), rng.integers(0, 20, 200))
    whole = reached_limits(replace(given, instance=many), plan)
    monkeypatch.setattr("tvwrl.planning.explored.BLOCK", 7)
    parts = reached_limits(replace(given, instance=many), plan)
    counts = {(m, i): n for m, i, n in zip(plan.machine, plan.application, plan.replicas, strict=True)}
    by_hand = np.zeros(200, np.int64)
    for (m, one), _ in counts.items():
        for arc in range(limits.start[one], limits.start[one + 1]):
            by_hand[arc] += counts.get((m, limits.to[arc]), 0) == limits.limit[arc]
    assert whole.machines.tolist() == by_hand[by_hand > 0].tolist()
    for name in ("arc", "machines", "room"):
        assert (getattr(whole, name) == getattr(parts, name)).all()


def test_moves_are_those_that_the_referee_counts() -> None:
    found = moves_between(running(), first_fit())
    assert rows(vars(found), "application", "start", "end", "replicas") == [
        (WEB, NOWHERE, 1, 1),
        (DB, 0, 1, 1),
        (BATCH, 1, 0, 1),
    ]
    given = replace(problem(), running=running())
    assert validate(given, first_fit()).moved == found.replicas[found.start >= 0].sum() == 2


def test_a_replica_that_loses_its_machine_moves_nowhere() -> None:
    before = Plan.of("running", np.array([WEB, WEB, WEB]), np.array([0, 1, 5]), np.array([2, 1, 1]))
    after = Plan.of("FF", np.array([WEB, WEB]), np.array([1, 2]), np.array([2, 1]))
    found = moves_between(before, after)
    assert rows(vars(found), "start", "end", "replicas") == [(0, 1, 1), (0, 2, 1), (5, NOWHERE, 1)]
    assert not len(moves_between(after, after).replicas)
    none = np.empty(0, np.int64)
    assert rows(vars(moves_between(Plan.of("a", none, none, none), after)), "start", "replicas") == [(-1, 2), (-1, 1)]


def test_the_page_is_told_what_was_worked_out_by_hand(told: Told) -> None:
    index, (tree, other) = told(replace(problem(), running=running()), first_fit(), careless())
    assert (index["kind"], index["title"], index["times"], index["best"]) == ("plans", "hand", 1, 0)
    assert index["bound"] == {"machines": 2, "cost": 2.0, "words": "no plan uses fewer than 2 machines"}
    assert index["machines"]["count"] == [2]
    assert index["machines"]["kind"].tolist() == [0, 0]
    assert index["applications"]["own_limit"].tolist() == [1, -1, -1]
    assert rows(index["limits"], "i", "j", "limit") == [(WEB, WEB, 1), (WEB, BATCH, 1), (DB, BATCH, 0)]
    assert [demand_of(index, d).tolist() for d in range(2)] == [[[2], [3], [1]], [[1], [1], [1]]]
    names = ("name", "title", "machines", "unplaced", "moved", "violations", "seconds", "above_bound")
    assert [index["planners"][0][name] for name in names] == ["FF", "First-Fit", 2, 2, 2, 0, 0.25, None]
    assert rows(tree, "application", "machine", "replicas") == [(WEB, 0, 1), (WEB, 1, 1), (DB, 1, 1), (BATCH, 0, 1)]
    assert rows(tree["unplaced"], "application", "replicas", "reason") == [(WEB, 1, 0), (BATCH, 1, 1)]
    assert tree["unplaced"]["reasons"] == [APART, FULL]
    assert rows(tree["moves"], "application", "start", "end") == [(WEB, -1, 1), (DB, 0, 1), (BATCH, 1, 0)]
    binding = tree["binding"]
    assert (binding["all"], binding["with_room"]) == (3, 3)
    assert rows(binding, "i", "j", "limit", "machines", "room")[0] == (WEB, WEB, 1, 2, 1)
    assert tree["faults"] == {"machine": tree["faults"]["machine"], "text": [], "all": 0}
    assert other["faults"]["machine"].tolist() == [0, 0]
    assert "machine 1: 2 replicas of 'web' beside 'web', which allows 1" in other["faults"]["text"]
    assert index["left_out"] == []


def test_loads_above_the_capacity_are_those_of_the_referee(told: Told) -> None:
    crowded = Plan.of("FF", np.array([WEB, BATCH]), np.array([0, 0]), np.array([3, 1]))
    _, (tree,) = told(problem(times=3), crowded)
    assert tree["over"].tolist() == [[0, 0, 0]]  # 7 of 6 cores at the first time alone
    assert "machine 1, time 0: cpu 7 of 6" in tree["faults"]["text"]


def test_what_is_too_large_is_left_out_and_said(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("MOST_ROWS", 7),
        ("MOST_LIMITS", 1),
        ("MOST_TIMES", 2),
        ("MOST_PAIRS", 4),
        ("MOST_BARRED", 0),
    ):
        monkeypatch.setattr(explored, name, value)
    given = replace(problem(times=5), barred=np.array([[DB, 0]]))
    index, trees = told(given, first_fit(), careless())
    assert [one["name"] for one in index["planners"]] == ["FF"]
    assert (len(trees), trees[0]["binding"], index["times"], len(index["limits"]["i"])) == (1, None, 2, 1)
    assert demand_of(index, 0)[WEB].tolist() == [2, 0]
    said = " ".join(index["left_out"])
    for words in (
        "plans of Tetris.1: all plans together",
        "5 are shown as 2 windows",
        "2 of 3 affinity limits",
        "bind in the plans of FF",
        "1 pairs of an application and a machine",
    ):
        assert words in said
    monkeypatch.setattr(explored, "MOST_ROWS", 3)
    with pytest.raises(InputError, match="3 pairs of an application and a machine at most: the plan of FF has 4"):
        told(given, first_fit())
    with pytest.raises(InputError, match="there is no plan"):
        told(given)


def test_demand_is_rounded_only_where_it_has_very_many_values(told: Told) -> None:
    given = problem(times=400)
    demand = np.random.default_rng(0).random((3, 400, 2))
    index, _ = told(replace(given, instance=replace(given.instance, demand=demand)), first_fit())
    assert (demand_of(index, 0) == demand[:, :, 0]).all()
    coded = explored._coded(np.random.default_rng(0).random((300, 400)))
    assert len(coded["value"]) == 2**16
    error = coded["value"][coded["code"]][coded["of"]] - np.random.default_rng(0).random((300, 400))
    assert np.abs(error).max() <= 0.51 / 2**16


def test_groups_blacklists_and_long_names(told: Told) -> None:
    long = ("w" * 1000, "<b>", "batch")
    index, _ = told(replace(problem(long), barred=np.array([[DB, 0]]), pinned=None), first_fit())
    assert [len(name) for name in index["applications"]["name"]] == [100, 3, 5]
    assert rows(index["blacklist"], "application", "machine") == [(DB, 0)]
    json.dumps(index["planners"])
