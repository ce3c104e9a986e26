"""Places one problem by the planners asked for, as `tvwrl place` is asked to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvwrl.command_line import Names
from tvwrl.planning.flow.comparison import GENERATED, check_planners, compare, describe, open_problem
from tvwrl.runs import check_new_folder, default_folder


@dataclass(frozen=True)
class PlacementSettings:
    """Place the replicas of applications on machines of many kinds, by one or more planners.

    Writes rows.csv, placement.parquet, unplaced.csv and run.json to --out, and prints a table. Replicas that cannot be
    placed are listed with the reason; all others are placed. A referee that shares no code with the planners checks
    every placement.
    """

    instance: str = GENERATED
    """Applications to place: generated (random, with the paper's distributions); a folder with applications.csv,
    machines.csv and optionally affinity.csv and anti-affinity.csv; or the Tianchi contest's zip or folder."""
    planners: Names = ("Aladdin+H.4",)
    """Planners to compare, e.g. Aladdin+H.4(SRF),Tetris.1, with any numbers; the error for an unknown name lists
    all."""
    machines: int | None = None
    """Machines in the cluster; default: 12,000 if generated, 6,000 for the contest. With fewer of the contest's
    machines, its applications are reduced in proportion."""
    replicas: int | None = None
    """Replicas to generate; default: 100,000 per 12,000 machines."""
    demand: float | None = None
    """Demand of generated replicas, as a share of the scarcer resource of all machines, above 0 and at most 1; default:
    0.75."""
    times: int | None = None
    """For the contest: cut series of demand into this many windows, and plan for the largest demand of each; default:
    1."""
    bounds: bool = True
    """Compute lower bounds on the number of machines needed, and the gaps to them."""
    seed: int = 0
    """Seed of generated problems and of the planners."""
    out: Path | None = None
    """Output folder; default: runs/place-<instance>-<timestamp>."""


def place(settings: PlacementSettings) -> None:
    """Place the problem by each planner, write the files and print the table. Raises InputError for bad options."""
    check_planners(settings.planners)
    size = settings.machines, settings.replicas, settings.demand, settings.times
    problem = open_problem(settings.instance, *size, settings.seed)
    out = settings.out or default_folder(f"place-{problem.instance.name}")
    check_new_folder(out)
    print(describe(problem))
    facts = {"instance": settings.instance, "demand": settings.demand, "times": settings.times}
    print(compare(problem, settings.planners, out, settings.seed, settings.bounds, facts))
    print(f"written to {out}")
