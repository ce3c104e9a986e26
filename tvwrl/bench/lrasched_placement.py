"""The placement half of paper 000's simulations (Figures 8 to 12): cells are planned, kept, and told beside it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.bench.requests import check_request
from tvwrl.parallel import Call, run_calls
from tvwrl.provisioning.admission import admit, volume_bound
from tvwrl.provisioning.instance import Fleet, Instance, check_fits
from tvwrl.provisioning.milp import solve
from tvwrl.provisioning.plan import Plan
from tvwrl.provisioning.planners import Watch
from tvwrl.provisioning.referee import judge, utilisation
from tvwrl.provisioning.sources.drawn import Drawn
from tvwrl.provisioning.suite import warm_up
from tvwrl.provisioning.two_phase import TwoPhase
from tvwrl.provisioning.workspace import Workspace
from tvwrl.runs import read_csv, write_csv, write_json
from tvwrl.types import InputError

SCALES = ((500, 100), (1000, 300), (2000, 500))  # applications, machines
DIMENSIONS = (3, 4, 5, 6)
HEURISTICS = {
    "LRASched": TwoPhase(),
    "LRASched-Search": TwoPhase(search=True),
    "FFD-AntiAffinity": TwoPhase(first_fit=True),
}
MILP = "MILP"


@dataclass(frozen=True)
class Cell:
    """One drawn batch, placed by every scheme."""

    drawn: Drawn
    seed: int

    @property
    def name(self) -> str:
        """Its file, without ending."""
        d = self.drawn
        sizes = f"{d.applications}-{d.machines}-{d.dimensions}-{d.replicas[0]}to{d.replicas[1]}-{d.largest:g}"
        return f"{sizes}-seed{self.seed}"


def cells(
    seeds: Sequence[int], replicas: tuple[int, int], largest: float, scales: Sequence[tuple[int, int]]
) -> list[Cell]:
    """Of these applications and machines, and all numbers of dimensions."""
    return [
        Cell(Drawn(applications, machines, dimensions, replicas, largest), seed)
        for seed in seeds
        for applications, machines in scales
        for dimensions in DIMENSIONS
    ]


def complete(folder: Path, todo: Sequence[Cell], seconds: float, workers: int) -> list[dict[str, Any]]:
    """Rows of the cells, after placing those that have none yet; `seconds` for each phase of the programme, 0: without.

    Rows of a cell are `cells/<cell>.csv`. Raises InputError if the folder was made with other seconds.
    """
    asked = {"milp_seconds": seconds}
    check_request(folder / "request.json", asked)
    write_json(folder / "request.json", asked)
    files = {cell: folder / "cells" / f"{cell.name}.csv" for cell in todo}
    calls: list[Call] = [(place, (cell, seconds, file)) for cell, file in files.items() if not file.exists()]
    with tqdm(total=len(calls), desc="batches", unit="batch", disable=None) as bar:
        for _ in run_calls(calls, workers, None, processes=True):
            bar.update()
    return [_numbers(row) for file in files.values() for row in read_csv(file)]


def place(cell: Cell, seconds: float, file: Path) -> dict[str, Any]:
    """Place a batch by all schemes, and write their rows."""
    instance, fleet = cell.drawn.draw(cell.seed)
    check_fits(instance, fleet)
    there = fleet.first(cell.drawn.machines)
    bound, rows = volume_bound(instance, there, 10.0), []
    plans: dict[str, Plan] = {}
    for name, planner in HEURISTICS.items():
        warm_up(instance, name)
        whole = planned(instance, fleet, replace(planner, existing=len(there.capacity)), name)
        plans[name] = _on_first(whole, len(there.capacity))
        rows.append(_row(cell, instance, there, plans[name], whole.machines, bound, ""))
    if seconds:
        found = admit(instance, there, plans["LRASched-Search"], seconds)
        bound = min(bound, found.bound)
        added = len(there.capacity) + _machines_added(instance, fleet, there, found.plan, seconds)
        rows.append(_row(cell, instance, there, found.plan, added, bound, found.status))
    write_csv(file, [row | {"bound_pct": 100.0 * bound / len(instance)} for row in rows])
    return {"cell": cell.name}


def planned(instance: Instance, fleet: Fleet, planner: TwoPhase, name: str) -> Plan:
    """The plan of a planner that has no name in the registry, with its seconds."""
    begun = time.process_time()
    work = Workspace(instance, fleet)
    packing = planner.pack(work, Watch())
    work.check_all_placed(packing)
    return work.plan(name, packing, time.process_time() - begun)


def _on_first(made: Plan, machines: int) -> Plan:
    """What of a plan is on the first so many machines: phase 1."""
    there = made.machine < machines
    rows = {name: getattr(made, name)[there] for name in ("application", "machine", "replicas")}
    return replace(made, **rows, machines=machines)


def _machines_added(instance: Instance, fleet: Fleet, there: Fleet, made: Plan, seconds: float) -> int:
    """Phase 2 of the programme (Eq. 18, 19): machines for what `made` leaves over, from LRASched's phase 2 on."""
    placed = np.bincount(made.application, minlength=len(instance)) > 0
    if placed.all():
        return 0
    rest, more = instance.only(np.flatnonzero(~placed)), Fleet(fleet.capacity[len(there.capacity) :])
    start = planned(rest, more, TwoPhase(existing=0), "LRASched")
    return solve(rest, more, start, seconds).plan.machines


def _row(
    cell: Cell, instance: Instance, there: Fleet, made: Plan, machines: int, bound: float, status: str
) -> dict[str, Any]:
    verdict = judge(instance, there, made)
    if not verdict.good:
        raise RuntimeError(f"a plan of {made.algorithm} breaks a rule: {verdict.examples[0]}")
    drawn = asdict(cell.drawn)
    drawn["replicas"] = "{}-{}".format(*cell.drawn.replicas)
    return drawn | {
        "seed": cell.seed,
        "scheme": made.algorithm,
        "placed_pct": 100.0 * verdict.whole / len(instance),
        "bound_pct": 100.0 * bound / len(instance),
        "utilisation_pct": 100.0 * utilisation(instance, there, made),
        "machines_used": max(machines, len(there.capacity)),
        "seconds": made.seconds,
        "status": status,
    }


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value if name in ("replicas", "scheme", "status") else float(value) for name, value in row.items()}


def check(seeds: Sequence[int], seconds: float, workers: int = 1, scales: int = 1) -> None:
    """Raise InputError for values out of range."""
    if not seeds or min(seeds) < 0 or len(set(seeds)) != len(seeds):
        raise InputError(f"seeds is {', '.join(map(str, seeds))}: must be different numbers >= 0")
    if not 0 <= seconds < np.inf:
        raise InputError(f"milp_seconds is {seconds}: must be a number >= 0")
    if workers < 1:
        raise InputError(f"workers is {workers}: must be at least 1")
    if not 1 <= scales <= len(SCALES):
        raise InputError(f"scales is {scales}: must be 1 to {len(SCALES)}")
