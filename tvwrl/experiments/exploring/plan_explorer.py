"""The explorer's page in a results folder of `tvwrl provision` and `tvwrl place`: written at their end, or later."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.planning import (
    FILE,
    Plan,
    PlanBound,
    PlanningProblem,
    Result,
    Results,
    describe,
    explore,
    read_plans,
    validate,
)
from tvwrl.runs import read_csv, whole_file
from tvwrl.types import InputError

COMMANDS = ("place", "provision")
# Of run.json: what tells problems apart
SAME = ("applications", "replicas", "times", "resources", "limits", "machines")


def write_explorer_of(results: Results) -> None:
    """Write the page into the folder of the results, and say where it is; say why if it cannot be made."""
    try:
        explore(results, results.folder / FILE)
    except InputError as error:
        print(f"no {FILE}: {error}")
    else:
        print(f"open {results.folder / FILE} in a browser to see what is on every machine")


def explore_plans(folder: Path, out: Path) -> None:
    """Write the page of the plans in a results folder to the file `out`.

    The page in the folder is copied; if it has none, it is made again, from the instance that the plans were made for.
    Raises InputError, saying what to do, if `folder` holds no plans, or if that instance is not there any more.
    """
    if (folder / FILE).is_file():
        if out.resolve() != (folder / FILE).resolve():
            with whole_file(out) as partial:
                shutil.copyfile(folder / FILE, partial)
        return
    for name in ("run.json", "rows.csv", "plan.parquet"):
        if not (folder / name).is_file():
            raise InputError(f"{folder} has no {name}: it is not a results folder of tvwrl provision or tvwrl place")
    facts = json.loads((folder / "run.json").read_text())
    explore(_results_in(folder, _problem_of(folder, facts), facts.get("about_bound", "")), out)


def _problem_of(folder: Path, facts: dict[str, Any]) -> PlanningProblem:
    """The problem that the command in run.json opened, if it is still the same."""
    from tvwrl.command_line import parse
    from tvwrl.experiments.place_command import PlacementSettings
    from tvwrl.experiments.provision_command import PlanningSettings

    program, *words = facts["command"]
    name = program.removesuffix(".py")
    if name not in COMMANDS:
        name, words = (words or [""])[0], words[1:]
    if name not in COMMANDS:
        raise InputError(
            f"{folder} has no {FILE}, and it was not written by a command that could be repeated: in Python, write it "
            "where the plans are made, by plans.explore()"
        )
    settings: type[PlacementSettings | PlanningSettings]
    settings = PlacementSettings if name == "place" else PlanningSettings
    again = f"run tvwrl {name} again where its files are, or give them back their places"
    try:
        problem: PlanningProblem = parse(settings, args=words).problem()
    except InputError as error:
        raise InputError(
            f"{folder} has no {FILE}, and its instance cannot be opened any more: {error}; {again}"
        ) from None
    found = describe(problem)
    if different := [name for name in SAME if facts.get(name) not in (None, found[name])]:
        raise InputError(
            f"{folder}: the instance has other {' and '.join(different)} than when it was planned: {again}"
        )
    return problem


def _results_in(folder: Path, problem: PlanningProblem, about_bound: str) -> Results:
    """What the folder's files say of plans for this problem."""
    rows = read_csv(folder / "rows.csv")
    number = {str(name): i for i, name in enumerate(problem.instance.application)}
    reasons: dict[str, dict[int, str]] = {}
    for row in read_csv(folder / "unplaced.csv"):
        reasons.setdefault(row["planner"], {})[number[row["application"]]] = row["reason"]
    none = np.empty(0, np.int64)
    some = any(row["machines"] != "0" for row in rows)
    plans = {one.algorithm: one for one in read_plans(folder / "plan.parquet", problem, False)} if some else {}
    bound = None
    if rows[0]["bound"]:
        cost = rows[0].get("cost_bound") or rows[0]["bound"]
        bound = PlanBound(int(rows[0]["bound"]), float(cost), {})
    results = Results(problem, bound, about_bound, folder)
    for row in rows:
        name = row["planner"]
        plan = plans.get(name, Plan(name, none, none, none, 0))
        plan = replace(plan, seconds=float(row["seconds"]), reasons=reasons.get(name, {}))
        results.made[name] = Result(plan, validate(problem, plan), float(row["peak_mb"]))
    return results
