"""`tvwrl.plan`, `place` and `recommend_size`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import tvwrl
from tvwrl import InputError
from tvwrl.planning import Fleet, Plan, PlanningProblem
from tvwrl.planning.plan_file import read_running
from tvwrl.planning.suite import Budget, run_planners

LIST = "application,replicas,cpu,mem\na,2,6,1\nb,2,4,1\n"  # a and b fill a machine of 10 cores together
FOLDER = {
    "applications.csv": "application,replicas,cpu,mem\nweb,2,2,2\nhuge,1,99,1\n",
    "machines.csv": "cpu,mem,count\n4,4,2\n",
}


@pytest.fixture
def instance(tmp_path):
    file = tmp_path / "applications.csv"
    file.write_text(LIST)
    return file


def test_a_plan_by_hand(instance, tmp_path):
    found = tvwrl.plan(instance, [10, 10], ["FF", "FFD-Avg"])
    assert (found.machines, found.lower_bound) == (2, 2)
    assert found.rows["machines"].to_list() == [2, 2]
    placed = found.placements.filter(planner="FF").group_by("machine").agg(pl.col("replicas").sum())
    assert placed.sort("machine")["replicas"].to_list() == [2, 2]
    assert "FFD-Avg" in str(found)
    assert (found.write(tmp_path / "out") / "run.json").is_file()


def test_what_does_not_fit_on_a_fixed_fleet_is_named(instance):
    found = tvwrl.plan(instance, Fleet.of_kinds([[10, 10]], [1], fixed=True), "FF")
    assert "FF: without a machine: 2 of 'a', 'b': the machines are full" in found.table()


def test_machines_are_called_by_name(instance, tmp_path):
    """A plan goes back in, and keeps its machines where they stand in another order."""
    fleet = Fleet.of_kinds([[10, 10], [20, 10]], [2, 1], fixed=True, name=["small", "007"])
    found = tvwrl.plan(instance, fleet, "FF")
    assert set(found.placements["machine"]) == {"007"}
    table = pl.read_csv(found.folder / "plan.csv", infer_schema=False)
    assert table["machine"].to_list() == found.placements["machine"].to_list()
    other = Fleet.of_kinds([[20, 10], [10, 10]], [1, 2], fixed=True, name=["007", "small"])
    problem = PlanningProblem(found.problem.instance, other)
    running, _ = read_running(found.folder / "plan.csv", problem)
    assert set(running.machine.tolist()) == {0}
    again = tvwrl.place(replace(problem, running=running), "best", seconds=0.1, moves_cost=1)
    assert again.rows["moved"].to_list() == [0]
    numbered = tvwrl.plan(instance, [10, 10], "FF").placements
    assert sorted(set(numbered["machine"])) == ["1", "2"]


def test_a_plan_that_is_improved_keeps_its_numbers(instance, tmp_path):
    """Machine 1 is empty in the plan to improve: what stays where it is is on machines 2 and 3 afterwards, too."""
    problem = PlanningProblem(tvwrl.planning.open_instance(instance), Fleet.of_kinds([[10, 10]], [3], fixed=True))
    start = Plan.of("FF", np.array([0, 1, 0, 1]), np.array([1, 1, 2, 2]), np.ones(4, np.int64))
    options = {"budget": Budget(0.1, most_moves=0), "start": start}
    run_planners(problem, ["best"], tmp_path / "out", **options)
    assert set(pl.read_parquet(tmp_path / "out" / "plan.parquet")["machine"]) == {"2", "3"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"planner": "FDF-Avg"}, "no planner 'FDF-Avg': did you mean .*FFD-Avg"),
        ({"machine": [10]}, "machine has 1 number: must be 2"),
        ({"machine": [5, 10]}, "application 'a' needs 6, 1"),
        ({"machine": "large"}, "machine is 'large': must be a number per resource"),
        ({"machine": [0, 10]}, "capacity is .*: must be numbers > 0"),
        ({"planner": []}, "empty"),
        ({"seconds": -1}, "seconds is -1"),
        ({"moves_cost": 1e308}, "moves_cost is 1e\\+308: must be 0 to 1e\\+18"),
        ({"machine": [1e308, 10]}, "capacity is 1e\\+308: must be numbers > 0"),
        ({"times": 0}, "times is 0"),
        ({"instance": 5}, "instance is 5: must be an Instance, or a file"),
        ({"instance": "nowhere.csv"}, "nowhere.csv"),
    ],
)
def test_bad_input_of_plan(instance, arguments, message):
    with pytest.raises(InputError, match=message):
        tvwrl.plan(**{"instance": instance, "machine": [10, 10]} | arguments)


def test_replicas_are_placed_and_the_others_explained(tmp_path):
    for name, text in FOLDER.items():
        (tmp_path / name).write_text(text)
    found = tvwrl.place(tmp_path, "Tetris.1")
    assert found.placements["application"].to_list() == ["web", "web"]
    assert found.unplaced["application"].to_list() == ["huge"]
    assert found.rows["left_over"].to_list() == [1]
    assert "Tetris.1: without a machine: 1 of 'huge'" in str(found)
    with pytest.raises(InputError, match=r"no planner 'Tetriss.1': did you mean Tetris.1"):
        tvwrl.place(tmp_path, "Tetriss.1")
    with pytest.raises(InputError, match="problem is 5: must be a PlanningProblem, generated, a folder"):
        tvwrl.place(5)
    with pytest.raises(InputError, match="there is no file or folder 'nowhere': must be generated, a folder with"):
        tvwrl.place("nowhere")
    with pytest.raises(InputError, match="machines, replicas, demand and times cannot be combined"):
        tvwrl.place(found.problem, "Tetris.1", machines=3)


PROFILES = "application,configuration,performance,cpu,mem\n" + "".join(
    f"{name},{size},{value},{cpu},{cpu}\n"
    for name, values in {"a": (0.3, 0.6, 0.9), "b": (0.4, 0.7, 0.95), "c": (0.2, 0.5, 0.9)}.items()
    for (size, cpu), value in zip((("s", 1), ("m", 2), ("l", 4)), values, strict=True)
)


def test_the_smallest_size_that_reaches_the_goal(tmp_path):
    file = tmp_path / "profiles.csv"
    file.write_text(PROFILES)
    found = tvwrl.recommend_size(file, {"s": 0.3, "l": 0.95}, goal=0.9)
    assert (found.configuration.name, found.reached) == ("l", True)
    assert "Recommended: l: 4 cores, 4 GiB" in str(found)
    assert (found.write(tmp_path / "out") / "curve.png").is_file()
    for arguments, message in (
        ({"goal": "fast"}, "goal is 'fast'"),
        ({"measured": {"xl": 0.3}}, "unknown configuration 'xl'"),
        ({"predictor": "oracle"}, "predictor is 'oracle'"),
        ({"profiles": tmp_path / "nothing.csv"}, "nothing.csv"),
    ):
        with pytest.raises(InputError, match=message):
            tvwrl.recommend_size(**{"profiles": file, "measured": {"s": 0.3}} | arguments)
