"""Compares planners on one problem: opens it, places it by each of them, and reports a table and the files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from tvwrl.checks import different
from tvwrl.planning.bounds.mixed import bound_or_nan
from tvwrl.planning.sources.folder import read_folder
from tvwrl.planning.sources.generated_cluster import DEMAND, MACHINES, generate, usual_replicas
from tvwrl.planning.problem import NOWHERE, Assignment, PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.planning.flow.registry import planner
from tvwrl.markdown import markdown_table
from tvwrl.runs import check_new_folder, provenance, whole_folder, write_csv, write_json
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

GENERATED = "generated"
KINDS = f"{GENERATED}, a folder with applications.csv and machines.csv, or the Tianchi contest's zip or folder"
REASONS, NAMED = 20, 3  # reasons that are shown, and applications named with each


def open_problem(
    instance: str, machines: int | None, replicas: int | None, demand: float | None, times: int | None, seed: int
) -> PlanningProblem:
    """A generated problem, that of a folder of tables, or the Tianchi contest's.

    None leaves an option at its default. Raises InputError for options that do not go with the kind of `instance`.
    """
    path = Path(instance).expanduser()
    if instance == GENERATED:
        if times is not None:
            raise InputError(
                f"times is {times}: must be left out of generated problems, whose demand does not change over time"
            )
        machines = MACHINES if machines is None else machines
        replicas = usual_replicas(machines) if replicas is None else replicas
        return generate(machines, replicas, seed, DEMAND if demand is None else demand)
    for option, value in (("replicas", replicas), ("demand", demand)):
        if value is not None:
            raise InputError(f"{option} is {value}: must be left out, except of generated problems")
    if (path / "applications.csv").exists() or (path / "machines.csv").exists():
        if machines is not None or times is not None:
            raise InputError("machines and times must be left out: a folder of tables has machines, and one time")
        return read_folder(path)
    if not path.exists():
        raise InputError(f"there is no file or folder '{instance}': must be {KINDS}")
    from tvwrl.planning.sources.tianchi import read_tianchi, scaled

    problem = read_tianchi(str(path), 1 if times is None else times)
    return problem if machines is None else scaled(problem, machines, seed)


def check_planners(names: Sequence[str]) -> None:
    """Raise InputError unless the names are of different planners, at least one."""
    different(planners=names)
    for name in names:
        planner(name)


def describe(problem: PlanningProblem) -> str:
    """One line with the problem's sizes."""
    return (
        f"{problem.instance.name}: {len(problem.instance):,} applications, {len(problem.application):,} replicas, "
        f"{len(problem.fleet.capacity):,} machines, {len(problem.instance.affinity):,} limits, "
        f"{len(problem.bundles):,} affinity groups"
    )


def compare(
    problem: PlanningProblem, names: Sequence[str], out: Path, seed: int, bound: bool, facts: Mapping[str, Any]
) -> str:
    """Place the problem by each planner; returns a table, and why replicas have no machine.

    Writes rows.csv, placement.parquet, unplaced.csv and run.json, with the `facts`, to the new folder `out`.
    """
    check_new_folder(out)
    least, about_bound = bound_or_nan(problem) if bound else (float("nan"), "")
    progress = tqdm(names, desc="placing", unit="planner", disable=None, leave=False)
    assignments = {name: planner(name, seed)(problem) for name in progress}
    rows = [{"planner": name} | row_of(problem, assignment, least) for name, assignment in assignments.items()]
    unplaced = _unplaced(problem, assignments)
    with whole_folder(out) as partial:
        write_csv(partial / "rows.csv", rows)
        _placements(problem, assignments).write_parquet(partial / "placement.parquet")
        unplaced.write_csv(partial / "unplaced.csv")
        about = {"seed": seed, "bound": least, "planners": list(names)}
        write_json(partial / "run.json", {**facts, **about, **provenance()})
    return "\n".join([_table(problem, rows), *_reasons(unplaced), *([about_bound] if about_bound else [])])


def row_of(problem: PlanningProblem, assignment: Assignment, bound: float) -> dict[str, Any]:
    """The referee's counts as one row: efficiencies in %, latency in ms per replica (Eq. 12).

    `bound`: lower bound on machines, or NaN. Raises RuntimeError if the assignment exceeds a capacity.
    """
    verdict = validate(problem, assignment.machine)
    if verdict.over_capacity:
        raise RuntimeError(f"{assignment.planner} exceeds a capacity: {verdict.examples[0]}")
    row: dict[str, Any] = {
        "machines": len(problem.fleet.capacity),
        "replicas": verdict.replicas,
        "placed": verdict.placed,
        "violations": verdict.violating_replicas,
        "above_limits": verdict.replicas_above_limits,
        "apart": verdict.replicas_apart,
        "machines_used": verdict.machines,
        "bound": bound,
        "gap_pct": 100.0 * (verdict.machines / bound - 1.0) if verdict.placed == verdict.replicas else float("nan"),
    }
    for d, resource in enumerate(problem.instance.resources[:2]):
        share = 100.0 * verdict.efficiency[:, d] if verdict.machines else np.zeros(1)
        low, high = np.percentile(share, (5, 95))
        row |= {f"{resource}_pct": share.mean(), f"{resource}_low": low, f"{resource}_high": high}
    latency = 1000.0 * assignment.seconds / verdict.replicas
    row |= {"latency_ms": latency, "seconds": assignment.seconds, "migrations": assignment.migrations}
    reason = max(assignment.reasons.values(), key=list(assignment.reasons.values()).count, default="")
    return row | {"reason": reason, "details": json.dumps(assignment.details, default=float)}


def _placements(problem: PlanningProblem, assignments: Mapping[str, Assignment]) -> pl.DataFrame:
    """A row for each planner and placed replica: application, replica (from 0), machine (from 0)."""
    import polars as pl

    number = np.arange(len(problem.application)) - problem.first[problem.application]
    text, frames = {"planner": pl.String, "application": pl.String}, []
    for name, assignment in assignments.items():
        placed = np.flatnonzero(assignment.machine != NOWHERE)
        names = problem.instance.application[problem.application[placed]].astype(str).tolist()
        columns = {"replica": number[placed], "machine": assignment.machine[placed]}
        named = {"planner": [name] * len(placed), "application": names}
        frames.append(pl.DataFrame(named | columns, schema_overrides=text))
    return pl.concat(frames)


def _unplaced(problem: PlanningProblem, assignments: Mapping[str, Assignment]) -> pl.DataFrame:
    """A row for each planner and application with unplaced replicas: how many, and why."""
    import polars as pl

    rows = []
    for name, assignment in assignments.items():
        left = np.bincount(problem.application[assignment.machine == NOWHERE], minlength=len(problem.instance))
        for i in np.flatnonzero(left).tolist():
            rows.append((name, str(problem.instance.application[i]), int(left[i]), assignment.reasons.get(i, "")))
    schema = {"planner": pl.String, "application": pl.String, "replicas": pl.Int64, "reason": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _reasons(unplaced: pl.DataFrame) -> list[str]:
    """Lines on unplaced replicas by planner and reason, the most frequent first."""
    left: dict[tuple[str, str], dict[str, int]] = {}
    for name, application, replicas, reason in unplaced.iter_rows():
        left.setdefault((name, reason), {})[application] = replicas
    lines = []
    for (name, reason), by_application in sorted(left.items(), key=lambda item: -sum(item[1].values()))[:REASONS]:
        first = ", ".join(f"'{application}'" for application in list(by_application)[:NAMED])
        others = f" and {len(by_application) - NAMED:,} other applications" if len(by_application) > NAMED else ""
        total = sum(by_application.values())
        lines.append(f"{name}: without a machine: {total:,} of {first}{others}: {reason}")
    return lines + ([f"{len(left) - REASONS:,} other reasons are in unplaced.csv"] if len(left) > REASONS else [])


def _table(problem: PlanningProblem, rows: Sequence[Mapping[str, Any]]) -> str:
    efficiencies = {f"{resource}_pct": f"{resource}, %" for resource in problem.instance.resources[:2]}
    head = {"planner": "planner", "placed": "placed", "violations": "violations", "machines_used": "machines"}
    head |= {"gap_pct": "above bound, %", **efficiencies, "migrations": "migrations", "seconds": "s"}
    return markdown_table(list(head.values()), [[_format(row[column]) for column in head] for row in rows])


def _format(value: object) -> str:
    """Whole numbers with thousands separators, others with four digits, NaN as a dash."""
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    if isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
