"""Plan files: there and back, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.plan_file import read_plans, read_running, write_plans
from tvwrl.planning.problem import PlanningProblem
from tvwrl.types import InputError

Make = Callable[..., Instance]
ROWS = {"planner": ["FF"] * 3, "application": ["a", "a", "b"], "machine": ["1", "2", "2"], "replicas": [2, 1, 1]}
SIZE = [4.0, 4.0]


@pytest.fixture
def problem(make: Make) -> PlanningProblem:
    """Three replicas of a, one of b, on as many machines without names as it takes."""
    return PlanningProblem(make([3, 1], np.ones((2, 2))), Fleet.of(SIZE))


def named(problem: PlanningProblem, *name: str, count: tuple[int, ...] = (), fixed: bool = True) -> PlanningProblem:
    fleet = Fleet.of_kinds([SIZE] * len(name), count, fixed, name=name)
    return replace(problem, fleet=fleet)


@pytest.mark.parametrize("file", ["plan.csv", "plan.parquet"])
@pytest.mark.parametrize(
    ("names", "count", "fixed", "machines"),
    [
        ((), (), False, ["1", "1", "2", "1", "3"]),
        (("web-a", "007", "7"), (), True, ["web-a", "web-a", "007", "web-a", "7"]),
        (('a "b", c', "é;x"), (1, 2), True, ['a "b", c'] * 2 + ["é;x-1", 'a "b", c', "é;x-2"]),
        (("only",), (), False, ["only", "only", "only+1", "only", "only+2"]),
    ],
)
def test_there_and_back(
    tmp_path: Path,
    problem: PlanningProblem,
    file: str,
    names: tuple[str, ...],
    count: tuple[int, ...],
    fixed: bool,
    machines: list[str],
) -> None:
    problem = named(problem, *names, count=count, fixed=fixed) if names else problem
    first = Plan("FF", np.array([0, 1, 0]), np.array([0, 0, 1]), np.array([2, 1, 1]), 2)
    second = Plan("BF", np.array([1, 0]), np.array([0, 2]), np.array([1, 3]), 3)
    write_plans([first, second], problem, tmp_path / file)
    table = pl.read_csv(tmp_path / file, infer_schema=False) if file == "plan.csv" else pl.read_parquet(tmp_path / file)
    assert table["machine"].to_list() == machines
    assert table.row(0)[:2] == ("FF", "a")
    for plan, found in zip([first, second], read_plans(tmp_path / file, problem), strict=True):
        assert (found.algorithm, found.machines) == (plan.algorithm, plan.machines)
        for name in ("application", "machine", "replicas"):
            np.testing.assert_array_equal(getattr(found, name), getattr(plan, name))
    assert [path.name for path in tmp_path.iterdir()] == [file]


NAMES = st.text(min_size=1, max_size=5).filter(lambda name: name.isprintable() and name == name.strip())


@settings(max_examples=60, deadline=None)
@given(st.lists(NAMES, min_size=3, max_size=3, unique=True), st.lists(NAMES, min_size=2, max_size=2, unique=True))
def test_any_names_go_there_and_back(make: Make, machines: list[str], applications: list[str]) -> None:
    """Quotes, commas, numbers, words such as null, letters of any script."""
    instance = replace(make([3, 1], np.ones((2, 2))), application=np.array(applications, dtype=object))
    problem = PlanningProblem(instance, Fleet.of_kinds([SIZE] * 3, fixed=True, name=machines))
    plan = Plan.of("FF", np.array([0, 1, 0]), np.array([0, 1, 2]), np.array([2, 1, 1]))
    with TemporaryDirectory() as folder:
        for file in ("plan.csv", "plan.parquet"):
            write_plans([plan], problem, Path(folder) / file)
            (found,) = read_plans(Path(folder) / file, problem)
            for name in ("application", "machine", "replicas"):
                np.testing.assert_array_equal(getattr(found, name), getattr(plan, name))


def test_a_file_with_numbers_from_0_is_refused(tmp_path: Path, problem: PlanningProblem) -> None:
    """Earlier versions wrote whole numbers, from 0: reading them from 1 would move every replica by a machine."""
    old = tmp_path / "plan.parquet"
    pl.DataFrame(ROWS | {"machine": [1, 2, 2]}).write_parquet(old)
    for read in (read_plans, read_running):
        with pytest.raises(InputError, match=r"column machine holds Int64: must be text.* Earlier versions .* from 0"):
            read(old, problem)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("web-1", "web-3"), "row 3: machine is 'web-2', which is no machine here; did you mean 'web-[13]'"),
        (("Web-1", "web-2"), "row 1: machine is 'web-1', which is no machine here; did you mean 'Web-1'"),
        ((), "row 1: machine is 'web-1': must be a whole number from 1 to 5"),
    ],
)
def test_a_plan_for_other_machines_is_refused(
    tmp_path: Path, problem: PlanningProblem, names: tuple[str, ...], message: str
) -> None:
    """What was planned for web-1 and web-2 does not slip onto the machines that stand in their place now."""
    plan = Plan.of("FF", np.array([0, 1, 0]), np.array([0, 0, 1]), np.array([2, 1, 1]))
    for file in ("plan.csv", "plan.parquet"):
        write_plans([plan], named(problem, "web", count=(2,)), tmp_path / file)
        now = named(problem, *names) if names else problem
        for read in (read_plans, read_running):
            with pytest.raises(InputError, match=rf"{file}: {message}"):
                read(tmp_path / file, now)


def test_a_plan_follows_its_machines_when_the_fleet_changes(tmp_path: Path, problem: PlanningProblem) -> None:
    plan = Plan.of("FF", np.array([0, 1]), np.array([0, 2]), np.array([3, 1]))
    write_plans([plan], named(problem, "a", "b", "c"), tmp_path / "plan.csv")
    found, _ = read_running(tmp_path / "plan.csv", named(problem, "new", "c", "a"))
    assert dict(zip(found.application.tolist(), found.machine.tolist(), strict=True)) == {0: 2, 1: 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("application,machine\na,0\n", "row 1: machine is 0: must be a whole number from 1 to 5"),
        ("application,machine\na,6\n", "row 1: machine is 6: must be a whole number from 1 to 5"),
        ("application,machine\na,1e308\n", "row 1: machine is 1e308: must be a whole number from 1 to 5"),
        ("application,machine,replicas\na,1,1e19\n", "row 1: replicas is 1e19: must be a whole number from 1 to"),
        ("application,machine,replicas\na,1,-1\n", "row 1: replicas is -1"),
        ("application,machine,replicas\na,1,1\na,1,1\n", "row 2: application 'a' on machine 1 is given twice"),
        ('application,machine,replicas\na,1,"1,000"\n', "row 1: replicas is '1,000': must be a whole number"),
        ("application;machine\na;1\n", "the columns are separated by ';': must be by ','"),
        ("application,machine\nA,1\n", "row 1: application is 'A', which is no application here; did you mean 'a'"),
        ("application,machine\na\u200b,1\n", r"row 1: application is 'a\\u200b', which is no application here"),
        ("application,machine\napplication,machine\n", "row 1: application is 'application'"),
        ("planner,application,machine,replicas,pinned\nFF,a,1,1,true\n", "column 'pinned' is no column of a plan"),
    ],
)
def test_bad_tables_of_what_runs_are_refused(tmp_path: Path, problem: PlanningProblem, text: str, message: str) -> None:
    (tmp_path / "running.csv").write_text(text)
    with pytest.raises(InputError, match=rf"running\.csv: {message}"):
        read_running(tmp_path / "running.csv", problem)


def test_a_row_per_replica_adds_up(tmp_path: Path, problem: PlanningProblem) -> None:
    """As a list of pods has it; byte order mark, blanks and the line ends of Windows do not matter."""
    (tmp_path / "running.csv").write_bytes("\ufeffapplication,machine\r\n a ,1\r\n a , 1.0\r\nb,2\r\n".encode())
    plan, pinned = read_running(tmp_path / "running.csv", problem)
    assert (plan.machine.tolist(), plan.replicas.tolist(), pinned) == ([0, 1], [2, 1], None)


def test_one_name_written_in_two_ways_is_refused(tmp_path: Path, problem: PlanningProblem) -> None:
    (tmp_path / "running.csv").write_text("application,machine\na,1\nb,2\n a,1\n")
    with pytest.raises(InputError, match=r"running\.csv: row 3: application is ' a', but 'a' in row 1: blanks around"):
        read_running(tmp_path / "running.csv", problem)


def test_names_that_a_table_loses_are_refused(tmp_path: Path, problem: PlanningProblem) -> None:
    """A problem made in Python may have an application ' a': a table cannot tell it from 'a'."""
    blank = replace(problem, instance=replace(problem.instance, application=np.array(["a", " a"], dtype=object)))
    (tmp_path / "plan.csv").write_text("planner,application,machine,replicas\nFF, a,1,1\n")
    pl.read_csv(tmp_path / "plan.csv", schema_overrides={"machine": pl.String}).write_parquet(tmp_path / "plan.parquet")
    for name in ("plan.csv", "plan.parquet"):
        with pytest.raises(InputError, match="application ' a' has blanks at its ends"):
            read_plans(tmp_path / name, blank)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("application", ["a", "a", "z"], "row 3: application is 'z', which is no application here"),
        ("replicas", [1, 1, 1], "row 2: FF places 2 replicas of application 'a': it has 3"),
        ("replicas", [2, 1, 2], "row 3: FF places 2 replicas of application 'b': it has 1"),
        ("replicas", [3, 0, 1], "row 2: replicas is 0: must be a whole number from 1"),
        ("replicas", [1.0, 1.0, 1.0], "column replicas holds Float64: must be whole numbers"),
        ("machine", ["1", "0", "2"], "row 2: machine is 0: must be a whole number from 1 to 5"),
        ("machine", ["1", None, "2"], "row 2: machine is empty"),
        ("machine", ["2", "2", "2"], "row 2: FF: application 'a' on machine 2 is given twice"),
        ("application", ["a", "a", "a"], "row 3: FF: application 'a' on machine 2 is given twice"),
        ("planner", ["FF", "FF", "BF"], "no row: FF places 0 replicas of application 'b'"),
        ("planner", [1, 1, 1], "column planner holds Int64: must be text"),
    ],
)
def test_bad_rows_are_named(
    tmp_path: Path, problem: PlanningProblem, column: str, values: list[Any], message: str
) -> None:
    path = tmp_path / "plan.parquet"
    pl.DataFrame(ROWS | {column: values}).write_parquet(path)
    with pytest.raises(InputError, match=f"plan.parquet: {message}"):
        read_plans(path, problem)


def test_fixed_fleets_may_leave_replicas_out(tmp_path: Path, problem: PlanningProblem) -> None:
    path = tmp_path / "plan.parquet"
    pl.DataFrame(ROWS).head(1).write_parquet(path)
    (plan,) = read_plans(path, problem, whole=False)
    assert plan.replicas.tolist() == [2]


def test_what_is_no_plan_file_is_refused(tmp_path: Path, problem: PlanningProblem) -> None:
    path = tmp_path / "plan.parquet"
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_plans(path, problem)
    path.write_text("planner,application\n")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_plans(path, problem)
    pl.DataFrame(ROWS).drop("machine").write_parquet(path)
    with pytest.raises(InputError, match="no column 'machine'; the columns are: planner, application, replicas"):
        read_plans(path, problem)
    pl.DataFrame(ROWS).clear().write_parquet(path)
    with pytest.raises(InputError, match="no rows"):
        read_plans(path, problem)
