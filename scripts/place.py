"""Place applications with affinity and anti-affinity on machines of many kinds, by flow or as others do."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import tyro
from tqdm import tqdm

from tvwrl import command_line
from tvwrl.bench.aladdin_cells import placed, row_of
from tvwrl.flow import published
from tvwrl.flow.bounds import lower_bound
from tvwrl.flow.folder import read_folder
from tvwrl.flow.generated import LOAD, generate
from tvwrl.flow.outcome import Outcome
from tvwrl.flow.placement_file import unplaced_rows, write_placements, write_unplaced
from tvwrl.flow.problem import Problem
from tvwrl.flow.registry import scheduler
from tvwrl.flow.tianchi import read_tianchi, scaled
from tvwrl.markdown import markdown_table
from tvwrl.runs import check_new_folder, default_folder, provenance, write_csv, write_json
from tvwrl.types import InputError

DRAWN = "generated"
REASONS, NAMES = 20, 3  # printed reasons, and applications named with each


@dataclass(frozen=True)
class Arguments:
    """Place the replicas of applications on machines of many kinds, by the schedulers asked for.

    Writes rows.csv, placement.parquet, unplaced.csv and run.json to --out, and prints a table. What cannot be placed is
    listed with the reason; everything else is placed. Every placement is checked by code that shares nothing with the
    schedulers.
    """

    instance: str = DRAWN
    """generated: drawn like the paper's; a folder with applications.csv, machines.csv and perhaps affinity.csv and
    anti-affinity.csv; or the Tianchi contest's zip or folder."""
    schedulers: str = "Aladdin+H.4"
    """Comma-separated names, as Aladdin+H.4(SRF),Tetris.1, with any numbers; an unknown one lists those there are."""
    machines: int | None = None
    """Machines, 12,000 if generated; of the contest so many of its 6,000, with its applications in proportion."""
    replicas: int | None = None
    """Replicas to draw; default: 100,000 for 12,000 machines, in proportion."""
    load: float | None = None
    """What the drawn replicas demand of the scarcer resource of all machines, above 0 to 1; default: 0.75."""
    times: int | None = None
    """Of the contest: windows that the 98 points of demand are cut into, each with its largest demand; default: 1, its
    peaks."""
    bound: bool = True
    """Compute the lower bound on machines too."""
    seed: int = 0
    """Of what is drawn, and of the schedulers."""
    out: Path | None = None
    """Output folder; default: runs/place-<instance>-<timestamp>."""


def main() -> None:
    """Parse the arguments, place, print the rows."""
    arguments = tyro.cli(Arguments)
    names = names_of(arguments.schedulers)
    for name in names:
        scheduler(name, arguments.seed)
    problem = problem_of(arguments)
    out = arguments.out or default_folder(f"place-{problem.instance.name}")
    check_new_folder(out)
    print(
        f"{problem.instance.name}: {len(problem.instance):,} applications, {len(problem.application):,} replicas, "
        f"{len(problem.fleet.capacity):,} machines, {len(problem.instance.affinity):,} limits, "
        f"{len(problem.bundles):,} affinity groups"
    )
    bound, said = bound_of(problem) if arguments.bound else (float("nan"), "")
    outcomes: dict[str, Outcome] = {}
    for name in tqdm(names, desc="placing", unit="scheduler", disable=None, leave=False):
        outcomes[name] = placed(problem, name, arguments.seed)
    rows = [{"scheduler": name} | row_of(problem, outcome, bound) for name, outcome in outcomes.items()]
    write_csv(out / "rows.csv", rows)
    write_placements(out / "placement.parquet", problem, outcomes)
    unplaced = unplaced_rows(problem, outcomes)
    write_unplaced(out / "unplaced.csv", unplaced)
    facts = {"instance": arguments.instance, "seed": arguments.seed, "bound": bound, "schedulers": names}
    write_json(out / "run.json", facts | {"load": arguments.load, "times": arguments.times} | provenance())
    report(problem, rows, unplaced)
    if said:
        print(said)
    print(f"written to {out}")


def names_of(text: str) -> list[str]:
    """Names between commas that are not in brackets. Raises InputError if there is none, or one twice."""
    names, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            names.append("")
        else:
            names[-1] += letter
    found = [name.strip() for name in names if name.strip()]
    if not found or len(set(found)) != len(found):
        raise InputError(f"schedulers is '{text}': must be different names, at least one")
    return found


def problem_of(arguments: Arguments) -> Problem:
    """What to place, and where."""
    path = Path(arguments.instance).expanduser()
    if arguments.instance == DRAWN:
        if arguments.times is not None:
            raise InputError("--times goes with the contest alone: drawn demand does not change over time")
        machines = published.MACHINES if arguments.machines is None else arguments.machines
        replicas = arguments.replicas
        if replicas is None:
            replicas = round(machines * published.REPLICAS / published.MACHINES)
        return generate(machines, replicas, arguments.seed, LOAD if arguments.load is None else arguments.load)
    if arguments.replicas is not None:
        raise InputError(f"--replicas goes with --instance {DRAWN} alone")
    if arguments.load is not None:
        raise InputError(f"--load goes with --instance {DRAWN} alone")
    if (path / "applications.csv").exists() or (path / "machines.csv").exists():
        if arguments.machines is not None or arguments.times is not None:
            raise InputError("--machines and --times do not go with a folder of tables: they say it themselves")
        return read_folder(path)
    if not path.exists():
        raise InputError(f"instance is '{arguments.instance}': must be {DRAWN}, or a file or folder that exists")
    problem = read_tianchi(str(path), 1 if arguments.times is None else arguments.times)
    return problem if arguments.machines is None else scaled(problem, arguments.machines, arguments.seed)


def bound_of(problem: Problem) -> tuple[float, str]:
    """Machines that any placement of all replicas needs, NaN if there is no such placement, and what that says."""
    try:
        bound = lower_bound(problem).machines
    except InputError as error:
        return float("nan"), str(error)
    if bound > (there := len(problem.fleet.capacity)):
        return bound, (
            f"no placement holds all replicas without a violation: that takes at least {bound:,} machines, and there "
            f"are {there:,}"
        )
    return bound, f"no placement of all replicas without a violation uses fewer than {bound:,} machines"


def report(problem: Problem, rows: list[dict[str, object]], unplaced: list[dict[str, Any]]) -> None:
    """Print the table, and why what is left out is left out."""
    efficiencies = {f"{resource}_pct": f"{resource}, %" for resource in problem.instance.resources[:2]}
    head = {"scheduler": "scheduler", "placed": "placed", "violations": "violations", "machines_used": "machines"}
    head |= {"gap_pct": "above bound, %", **efficiencies, "migrations": "migrations", "seconds": "s"}
    print(markdown_table(list(head.values()), [[shown(row[column]) for column in head] for row in rows]))
    left: dict[tuple[str, str], dict[str, int]] = {}
    for row in unplaced:
        left.setdefault((row["scheduler"], row["reason"]), {})[row["application"]] = row["replicas"]
    most = sorted(left.items(), key=lambda item: -sum(item[1].values()))
    for (name, reason), replicas in most[:REASONS]:
        first = ", ".join(f"'{application}'" for application in list(replicas)[:NAMES])
        others = f" and {len(replicas) - NAMES:,} other applications" if len(replicas) > NAMES else ""
        print(f"{name}: without a machine: {sum(replicas.values()):,} of {first}{others}: {reason}")
    if len(most) > REASONS:
        print(f"{len(most) - REASONS:,} other reasons are in unplaced.csv")


def shown(value: object) -> str:
    """A cell of the table: thousands apart, four digits of what is no whole number, - for what there is not."""
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    if isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


if __name__ == "__main__":
    command_line.run(main)
