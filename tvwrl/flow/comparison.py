"""Compares schedulers on one problem: opens it, places it by each of them, and reports a table and the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tvwrl.checks import different
from tvwrl.flow.bounds import bound_or_nan
from tvwrl.flow.folder import read_folder
from tvwrl.flow.generated import LOAD, generate, usual_replicas
from tvwrl.flow.problem import Problem
from tvwrl.flow.production_types import MACHINES
from tvwrl.flow.registry import scheduler
from tvwrl.flow.results import row_of, run_scheduler, unplaced_rows, write_placements, write_unplaced
from tvwrl.flow.tianchi import read_tianchi, scaled
from tvwrl.markdown import markdown_table
from tvwrl.runs import check_new_folder, provenance, write_csv, write_json
from tvwrl.types import InputError

GENERATED = "generated"
REASONS, NAMED = 20, 3  # reasons that are shown, and applications named with each


def open_problem(
    instance: str, machines: int | None, replicas: int | None, load: float | None, times: int | None, seed: int
) -> Problem:
    """A generated problem, that of a folder of tables, or the Tianchi contest's.

    None leaves an option at its default. Raises InputError for options that do not go with the kind of `instance`.
    """
    path = Path(instance).expanduser()
    if instance == GENERATED:
        if times is not None:
            raise InputError("--times applies only to the contest: generated demand does not change over time")
        machines = MACHINES if machines is None else machines
        replicas = usual_replicas(machines) if replicas is None else replicas
        return generate(machines, replicas, seed, LOAD if load is None else load)
    for option, value in (("replicas", replicas), ("load", load)):
        if value is not None:
            raise InputError(f"--{option} applies only to --instance {GENERATED}")
    if (path / "applications.csv").exists() or (path / "machines.csv").exists():
        if machines is not None or times is not None:
            raise InputError("--machines and --times do not apply to a folder of tables")
        return read_folder(path)
    if not path.exists():
        raise InputError(f"instance is '{instance}': must be {GENERATED}, or a file or folder that exists")
    problem = read_tianchi(str(path), 1 if times is None else times)
    return problem if machines is None else scaled(problem, machines, seed)


def check_schedulers(names: Sequence[str]) -> None:
    """Raise InputError unless the names are of different schedulers, at least one."""
    different(planners=names)
    for name in names:
        scheduler(name)


def describe(problem: Problem) -> str:
    """One line with the problem's sizes."""
    return (
        f"{problem.instance.name}: {len(problem.instance):,} applications, {len(problem.application):,} replicas, "
        f"{len(problem.fleet.capacity):,} machines, {len(problem.instance.affinity):,} limits, "
        f"{len(problem.bundles):,} affinity groups"
    )


def compare(problem: Problem, names: Sequence[str], out: Path, seed: int, bound: bool, facts: Mapping[str, Any]) -> str:
    """Place the problem by each scheduler; returns a table, and why replicas have no machine.

    Writes rows.csv, placement.parquet, unplaced.csv and run.json, with the `facts`, to the new folder `out`.
    """
    check_new_folder(out)
    least, about_bound = bound_or_nan(problem) if bound else (float("nan"), "")
    assignments = {
        name: run_scheduler(problem, name, seed)
        for name in tqdm(names, desc="placing", unit="scheduler", disable=None, leave=False)
    }
    rows = [{"scheduler": name} | row_of(problem, assignment, least) for name, assignment in assignments.items()]
    unplaced = unplaced_rows(problem, assignments)
    write_csv(out / "rows.csv", rows)
    write_placements(out / "placement.parquet", problem, assignments)
    write_unplaced(out / "unplaced.csv", unplaced)
    write_json(out / "run.json", {**facts, "seed": seed, "bound": least, "schedulers": list(names), **provenance()})
    return "\n".join([_table(problem, rows), *_reasons(unplaced), *([about_bound] if about_bound else [])])


def _table(problem: Problem, rows: Sequence[Mapping[str, Any]]) -> str:
    efficiencies = {f"{resource}_pct": f"{resource}, %" for resource in problem.instance.resources[:2]}
    head = {"scheduler": "scheduler", "placed": "placed", "violations": "violations", "machines_used": "machines"}
    head |= {"gap_pct": "above bound, %", **efficiencies, "migrations": "migrations", "seconds": "s"}
    return markdown_table(list(head.values()), [[_format(row[column]) for column in head] for row in rows])


def _reasons(unplaced: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines on unplaced replicas by scheduler and reason, the most frequent first."""
    left: dict[tuple[str, str], dict[str, int]] = {}
    for row in unplaced:
        left.setdefault((row["scheduler"], row["reason"]), {})[row["application"]] = row["replicas"]
    lines = []
    for (name, reason), replicas in sorted(left.items(), key=lambda item: -sum(item[1].values()))[:REASONS]:
        first = ", ".join(f"'{application}'" for application in list(replicas)[:NAMED])
        others = f" and {len(replicas) - NAMED:,} other applications" if len(replicas) > NAMED else ""
        lines.append(f"{name}: without a machine: {sum(replicas.values()):,} of {first}{others}: {reason}")
    return lines + ([f"{len(left) - REASONS:,} other reasons are in unplaced.csv"] if len(left) > REASONS else [])


def _format(value: object) -> str:
    """Whole numbers with thousands separators, others with four digits, NaN as a dash."""
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    if isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
