"""Plan files: there and back, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tvwrl.planning.instance import Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.plan_file import read_plans, write_plans
from tvwrl.types import InputError

Make = Callable[..., Instance]
ROWS = {"planner": ["FF"] * 3, "application": ["a", "a", "b"], "machine": [0, 1, 1], "replicas": [2, 1, 1]}


@pytest.fixture
def instance(make: Make) -> Instance:
    """Three replicas of a, one of b."""
    instance: Instance = make([3, 1], np.ones((2, 2)))
    return instance


def test_there_and_back(tmp_path: Path, instance: Instance) -> None:
    first = Plan("FF", np.array([0, 1, 0]), np.array([0, 0, 1]), np.array([2, 1, 1]), 2)
    second = Plan("BF", np.array([1, 0]), np.array([0, 2]), np.array([1, 3]), 3)
    write_plans([first, second], instance, tmp_path / "plan.parquet")
    assert pl.read_parquet(tmp_path / "plan.parquet").row(0) == ("FF", "a", 0, 2)
    for plan, found in zip([first, second], read_plans(tmp_path / "plan.parquet", instance), strict=True):
        assert (found.algorithm, found.machines) == (plan.algorithm, plan.machines)
        for name in ("application", "machine", "replicas"):
            np.testing.assert_array_equal(getattr(found, name), getattr(plan, name))
    assert [path.name for path in tmp_path.iterdir()] == ["plan.parquet"]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("application", ["a", "a", "z"], "row 3: application is 'z', which instance 'hand' does not have"),
        ("replicas", [1, 1, 1], "row 2: FF places 2 replicas of application 'a': it has 3"),
        ("replicas", [2, 1, 2], "row 3: FF places 2 replicas of application 'b': it has 1"),
        ("replicas", [3, 0, 1], "row 2: replicas is 0: must be at least 1"),
        ("replicas", [1.0, 1.0, 1.0], "column replicas holds Float64: must be whole numbers"),
        ("machine", [0, -1, 1], "row 2: machine is -1: must be at least 0"),
        ("machine", [0, None, 1], "row 2: machine is None"),
        ("machine", [1, 1, 1], "row 2: FF: application 'a' on machine 1 is given twice"),
        ("application", ["a", "a", "a"], "row 3: FF: application 'a' on machine 1 is given twice"),
        ("planner", ["FF", "FF", "BF"], "no row: FF places 0 replicas of application 'b'"),
        ("planner", [1, 1, 1], "column planner holds Int64: must be text"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, instance: Instance, column: str, values: list[Any], message: str) -> None:
    path = tmp_path / "plan.parquet"
    pl.DataFrame(ROWS | {column: values}).write_parquet(path)
    with pytest.raises(InputError, match=f"plan.parquet: {message}"):
        read_plans(path, instance)


def test_fixed_fleets_may_leave_replicas_out(tmp_path: Path, instance: Instance) -> None:
    path = tmp_path / "plan.parquet"
    pl.DataFrame(ROWS).head(1).write_parquet(path)
    (plan,) = read_plans(path, instance, whole=False)
    assert plan.replicas.tolist() == [2]


def test_what_is_no_plan_file_is_refused(tmp_path: Path, instance: Instance) -> None:
    path = tmp_path / "plan.parquet"
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_plans(path, instance)
    path.write_text("planner,application\n")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_plans(path, instance)
    pl.DataFrame(ROWS).drop("machine").write_parquet(path)
    with pytest.raises(InputError, match="no column 'machine'; the columns are: planner, application, replicas"):
        read_plans(path, instance)
    pl.DataFrame(ROWS).clear().write_parquet(path)
    with pytest.raises(InputError, match="no rows"):
        read_plans(path, instance)
