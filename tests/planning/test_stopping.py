"""Which running replicas stop where an application has fewer than run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan_file import read_running
from tvwrl.planning.problem import Bundles, PlanningProblem
from tvwrl.planning.suite import Budget, run_planners, title_of_problem
from tvwrl.types import InputError

Make = Callable[..., Instance]


@pytest.fixture
def problem(make: Make) -> PlanningProblem:
    """Three replicas of a, one of b, on four machines, on none of them more than four."""
    fleet = Fleet(np.tile([4.0, 4.0], (4, 1)), fixed=True)
    return PlanningProblem(make([3, 1], np.ones((2, 2))), fleet)


def kept(problem: PlanningProblem, folder: Path, rows: str, head: str = "application,machine,replicas") -> list[str]:
    """What is left of a table of what runs: `application@machine*replicas`."""
    (folder / "running.csv").write_text(f"{head}\n{rows}")
    plan, _ = read_running(folder / "running.csv", problem)
    names = problem.instance.application[plan.application]
    rows_left = zip(names, problem.fleet.names_of(plan.machine), plan.replicas, strict=True)
    return [f"{name}@{machine}*{count}" for name, machine, count in rows_left]


def test_those_on_the_emptiest_machines_stop(problem: PlanningProblem, tmp_path: Path) -> None:
    """Five of a run: of machine 1, which b is on too, none stops; machines 2 and 3 are alike, so 3 goes first."""
    assert kept(problem, tmp_path, "a,1,2\na,2,2\na,3,1\nb,1,1\n") == ["a@1*2", "a@2*1", "b@1*1"]
    assert kept(problem, tmp_path, "a,1,2\na,2,1\nb,2,1\na,3,2\n") == ["a@1*2", "a@2*1", "b@2*1"]


def test_those_that_must_not_be_where_they_are_stop_first(problem: PlanningProblem, tmp_path: Path) -> None:
    barred = replace(problem, barred=np.array([[0, 0]]))
    assert kept(barred, tmp_path, "a,1,2\na,2,2\na,3,1\n") == ["a@2*2", "a@3*1"]


def test_copies_of_groups_stay_whole(make: Make, tmp_path: Path) -> None:
    """Two of a and one of b are a copy. Four copies run, with two of c on machine 1: those on 4 and 3 stop."""
    instance = make([4, 2, 2], np.ones((3, 2)))
    problem = PlanningProblem(instance, Fleet(np.tile([9.0, 9.0], (4, 1)), True), Bundles.of([{0: 2, 1: 1}]))
    rows = "".join(f"a,{m},2\nb,{m},1\n" for m in range(1, 5))
    assert kept(problem, tmp_path, f"{rows}c,4,2\n") == ["a@1*2", "a@4*2", "b@1*1", "b@4*1", "c@4*2"]


def test_applications_that_are_gone_stop_and_are_counted(problem: PlanningProblem, tmp_path: Path) -> None:
    """Pins of theirs say nothing, and what stops is no move."""
    rows = "a,1,4,false\nb,1,1,false\nold,2,3,true\nolder,2,1,true\n"
    assert kept(problem, tmp_path, rows, "application,machine,replicas,pinned") == ["a@1*3", "b@1*1"]
    running, pinned = read_running(tmp_path / "running.csv", problem)
    runs = replace(problem, running=running, pinned=pinned)
    assert title_of_problem(runs).endswith("9 replicas running, of which 5 stop")
    results = run_planners(runs, ["best"], tmp_path / "out", Budget(0.1, most_moves=0))
    assert results.rows()[0]["moved"] == 0
    gone = "3 of 'old', which is not among the applications; 1 of 'older', which is not among the applications"
    assert f"5 running replicas stop, as there are to be fewer: 1 of 'a'; {gone}" in results.summary()


def test_an_earlier_plan_of_more_replicas_is_something_that_runs(problem: PlanningProblem, tmp_path: Path) -> None:
    rows = "FF,a,1,4\nFF,old,2,1\nBF,a,1,3\n"
    assert kept(problem, tmp_path, rows, "planner,application,machine,replicas") == ["a@1*3"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,1\nold,1\nA,1\n", "row 3: application is 'A', which is no application here; did you mean 'a'"),
        ("old,1\nolder,2\n", "row 1: application is 'old', which is no application here"),
        ("a,1\nold,9\n", "row 2: machine is 9"),
    ],
)
def test_what_is_probably_a_mistake_is_refused(
    problem: PlanningProblem, tmp_path: Path, rows: str, message: str
) -> None:
    with pytest.raises(InputError, match=rf"running\.csv: {message}"):
        kept(problem, tmp_path, rows, "application,machine")


def test_pins_on_machines_of_the_blacklist_are_refused(problem: PlanningProblem, tmp_path: Path) -> None:
    barred = replace(problem, barred=np.array([[1, 2]]))
    message = (
        r"running\.csv: row 2: 'b' is pinned on machine 3, which its blacklist \(blacklist\.csv\) names: unpin it here"
    )
    with pytest.raises(InputError, match=message):
        kept(barred, tmp_path, "a,1,true\nb,3,true\n", "application,machine,pinned")
