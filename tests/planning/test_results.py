"""What is kept of plans: rows, files, and the machines of a fleet."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tvwrl.planning.bounds_on_machines import PlanBound
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.results import Results, without_gaps
from tvwrl.planning.suite import Budget, run_planners
from tvwrl.types import InputError

Make = Callable[..., Instance]
MACHINE = Fleet.of([2.0, 2.0])


@pytest.fixture
def instance(make: Make) -> Instance:
    """Three replicas of a, one of b; two of any fit on a machine, so two machines do."""
    instance: Instance = make([3, 1], np.ones((2, 2)))
    return instance


def results_of(instance: Instance, folder: Path) -> Results:
    """Of a problem whose bound is two machines."""
    return Results(PlanningProblem(instance, MACHINE), PlanBound(2, 2.0, {"volume": 2}), "", folder)


def spread_out(name: str = "FF") -> Plan:
    """a on machines 0, 2, 3, b on 2: three machines, and one that stays empty between them."""
    return Plan(name, np.array([0, 0, 0, 1]), np.array([0, 2, 3, 2]), np.ones(4, np.int64), 4, 0.5)


def test_a_row_by_hand(instance: Instance, tmp_path: Path) -> None:
    results = results_of(instance, tmp_path)
    results.add(spread_out(), 12.34)
    row = results.rows()[0]
    facts = {"instance": "hand", "planner": "FF", "machines": 3, "bound": 2, "above_bound_pct": 50.0, "migrations": 0}
    assert facts.items() <= row.items()
    assert (row["cpu_pct"], row["seconds"], row["peak_mb"]) == (66.67, 0.5, 12.3)  # 1, 2, 1 of 2
    written = pl.read_csv(tmp_path / "rows.csv").row(0, named=True)
    assert facts.items() <= written.items()
    assert pl.read_parquet(tmp_path / "plan.parquet")["machine"].to_list() == ["1", "2", "3", "2"]


def test_empty_machines_are_numbered_away_only_where_all_are_alike(instance: Instance) -> None:
    problem = PlanningProblem(instance, MACHINE)
    assert without_gaps(spread_out(), problem).machines == 3
    mixed = Fleet(np.array([[2.0, 2.0], [1.0, 1.0], [2.0, 2.0]]))
    assert without_gaps(spread_out(), replace(problem, fleet=mixed)).machines == 4
    assert without_gaps(spread_out(), replace(problem, running=spread_out())).machines == 4


def test_only_the_newest_plan_of_an_algorithm_counts_and_all_is_on_disk_at_the_end(
    instance: Instance, tmp_path: Path
) -> None:
    results = results_of(instance, tmp_path)
    results.add(spread_out(), 1.0)
    better = Plan("FF", np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([2, 1, 1]), 2)
    results.add(better, 1.0)  # too soon after the first to be written at once
    assert pl.read_csv(tmp_path / "rows.csv")["machines"].to_list() == [3]
    results.write()
    assert pl.read_csv(tmp_path / "rows.csv")["machines"].to_list() == [2]
    assert pl.read_parquet(tmp_path / "plan.parquet").height == 3


def test_a_plan_that_breaks_a_rule_is_not_written(instance: Instance, tmp_path: Path) -> None:
    results = results_of(instance, tmp_path)
    crowded = Plan("FF", np.array([0, 1]), np.array([0, 0]), np.array([3, 1]), 1)
    with pytest.raises(RuntimeError, match="FF breaks a rule: machine 1"):
        results.add(crowded, 1.0)
    assert not list(tmp_path.iterdir())


def test_a_fixed_fleet_tells_what_is_left_over(instance: Instance, tmp_path: Path) -> None:
    fleet = Fleet.of_kinds([[2.0, 2.0]], [1], fixed=True)
    results = run_planners(PlanningProblem(instance, fleet), ["FF"], tmp_path / "out")
    row = results.rows()[0]
    assert (row["machines"], row["left_over"], row["above_bound_pct"]) == (1, 2, "")
    assert pl.read_csv(tmp_path / "out" / "unplaced.csv").row(0)[:3] == ("FF", "a", 1)
    assert "FF: without a machine: 2 of 'a', 'b': the machines are full" in results.summary()


def test_a_budget_has_limits() -> None:
    for options, message in (
        ({"searches": 2_147_483_646}, "searches is 2147483646: must be 1 to 256"),
        ({"moves_cost": 1e308}, r"moves_cost is 1e\+308: must be 0 to 1e\+18"),
        ({"seconds": float("nan")}, "seconds is nan"),
    ):
        with pytest.raises(InputError, match=message):
            Budget(**options)  # type: ignore[arg-type]


def test_machines_keep_their_names() -> None:
    fleet = Fleet.of_kinds([[4.0], [2.0]], [2, 1], True, name=["a", "b"])
    assert fleet.first(2).names_of(np.arange(2)) == ["a-1", "a-2"]
    assert fleet.select(np.array([2, 0])).names_of(np.arange(2)) == ["b", "a-1"]
    with pytest.raises(InputError, match="machine 'x' is given 2 times"):
        Fleet(np.ones((2, 1)), name=np.array(["x", "x"], dtype=object))
    with pytest.raises(InputError, match="the fleet has 1 names: must be 2, one for each machine"):
        Fleet(np.ones((2, 1)), name=np.array(["x"], dtype=object))


def test_kinds_of_machines() -> None:
    fleet = Fleet.of_kinds([[4.0, 8.0], [2.0, 2.0]], [2, 1], slack=0.25)
    assert fleet.capacity.tolist() == [[3.0, 6.0], [3.0, 6.0], [1.5, 1.5]]
    for arguments, message in [
        (([],), "machine"),
        (([[1.0], [1.0, 2.0]],), "same resources"),
        (([[1.0]], [1, 2]), "count has 2"),
        (([[1.0]], [0]), "count is 0"),
        (([[1.0]], [1], False, 1.0), "slack is 1"),
        (([[1.0]], [2_147_483_646]), "count is 2147483646: must be at most 1,000,000 machines together"),
        (([[1.0], [1.0]], [600_000, 600_000]), "count is 600000, 600000: must be at most 1,000,000"),
        (([[1e300]],), r"capacity is 1e\+300: must be numbers > 0, from 1e-15 to 1e\+18"),
        (([[float("nan")]],), "capacity is nan"),
        (([[1.0]], [], False, 0.0, [1e300]), r"cost is 1e\+300"),
        (([[1.0]], [], False, 0.0, None, ["a", "b"]), "name has 2 names: must be 1"),
        (([[1.0], [1.0]], [], False, 0.0, None, ["a", "a"]), "kind 2: machine 'a' is given a second time"),
        (([[1.0]], [], False, 0.0, None, ["a\nb"]), r"kind 1: machine is 'a\\nb': must be a name in one line"),
    ]:
        with pytest.raises(InputError, match=message):
            Fleet.of_kinds(*arguments)


def test_the_peak_of_memory_is_that_of_the_last_step() -> None:
    # In a process of its own: one that ran other tests may give memory back in between.
    program = """
import numpy as np
from tvwrl.planning.suite import Budget, forget_peak, peak_mb
forget_peak()
before = peak_mb()
held = np.ones(50 * 2**17)  # 50 MiB
assert peak_mb() > before + 40, (before, peak_mb())
del held
forget_peak()
assert peak_mb() < before + 40, (before, peak_mb())
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_machines_beyond_those_listed_are_counted(instance: Instance, tmp_path: Path) -> None:
    fleet = Fleet(np.array([[2.0, 2.0], [1.0, 1.0]]))
    results = run_planners(PlanningProblem(instance, fleet), ["FF"], tmp_path / "out")
    assert "FF: 1 machine beyond the 2 listed, like the last of them" in results.summary()


def test_a_bound_above_the_fleet_says_that_not_all_can_be_placed(instance: Instance, tmp_path: Path) -> None:
    """A proof counts a replica without a machine as a dear machine: its 23 are no number of machines."""
    fleet = Fleet.of_kinds([[2.0, 2.0]], [3], fixed=True)
    results = Results(PlanningProblem(instance, fleet), PlanBound(2, 2.0, {}), "fewer than 2 machines", tmp_path)
    results.raise_bound(3.0)
    assert "needs at least 3 machines" in results.about_bound
    results.raise_bound(23.0)
    results.add(Plan.of("FF", np.array([0]), np.array([0]), np.array([2])), 1.0)
    assert results.about_bound.startswith("not all replicas can be placed: no plan on the machines that there are")
    assert "23" not in results.summary()
    assert (results.least_machines, results.rows()[0]["bound"]) == (0, "")


def test_a_plan_at_the_bound_is_not_minus_0_above_it(instance: Instance, tmp_path: Path) -> None:
    """Sums of costs differ in their last digit by their order."""
    fleet = Fleet.of_kinds([[2.0, 2.0]], [2], fixed=True, cost=[0.77])
    bound = PlanBound(2, 1.54 * (1 + 1e-12), {})
    results = Results(PlanningProblem(instance, fleet), bound, "", tmp_path)
    results.add(Plan.of("FF", np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([2, 1, 1])), 1.0)
    assert str(results.rows()[0]["above_bound_pct"]) == "0.0"
