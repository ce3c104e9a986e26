"""A user's own placement problem: a folder of CSV tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tvwrl.input_tables import InputTable, quoted
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.merged import least_limits
from tvwrl.planning.plan_file import read_running
from tvwrl.planning.problem import Bundles, PlanningProblem, check_bundles
from tvwrl.planning.sources.limits import affinity_of
from tvwrl.planning.sources.lists import read_applications, read_machines
from tvwrl.types import Float, InputError, Int

APPLICATIONS, MACHINES = "applications.csv", "machines.csv"
AFFINITY, ANTI_AFFINITY = "affinity.csv", "anti-affinity.csv"  # may be absent
BLACKLIST, RUNNING = "blacklist.csv", "running.csv"  # so may these
GROUP, NAME, COUNT, MACHINE = "group", "application", "count", "machine"


def is_folder(path: Path) -> bool:
    """Whether `read_folder` reads it."""
    return (path / APPLICATIONS).exists() or (path / MACHINES).exists()


def read_folder(folder: Path, fleet: Fleet | None = None) -> PlanningProblem:
    """Read `applications.csv`, `machines.csv` (unless a `fleet` is given), and the other tables that exist in `folder`.

    - applications and machines: see `planning.sources.lists`
    - affinity: columns `group`, `application` and, optionally, `count`, its replicas in each copy of the group (1)
    - anti-affinity: columns `app_a`, `app_b` and `limit`, the most replicas of app_b beside one of app_a (0: none), or
      `k` as the contest has it. These limits hold in addition to the column `limit` of the applications.
    - blacklist: columns `application` and `machine`, a row of `machines.csv` (the first is 1) that must not hold it
    - running: columns `application`, `machine` (numbered from 0, those of a row with a `count` in turn), `replicas`
      and, optionally, `pinned` (true for replicas that must stay)

    Raises InputError with file, row and field for bad tables.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    for name in (APPLICATIONS, MACHINES) if fleet is None else (APPLICATIONS,):
        if not (folder / name).exists():
            raise InputError(f"{folder}: no {name}; it has: {', '.join(sorted(p.name for p in folder.iterdir()))}")
    instance = read_applications(folder / APPLICATIONS)
    if (anti := folder / ANTI_AFFINITY).exists():
        table = InputTable.read(anti)
        limit = "k" if "k" in table.columns and "limit" not in table.columns else "limit"
        table.only(("app_a", "app_b", limit), "not known here")
        both = (instance.affinity, affinity_of(instance.application, table))
        i = np.concatenate([np.repeat(np.arange(len(instance)), np.diff(limits.start)) for limits in both])
        j, most = (np.concatenate([getattr(limits, name) for limits in both]) for name in ("to", "limit"))
        instance = replace(instance, affinity=least_limits(len(instance), i, j, most))
    groups = _read_groups(folder / AFFINITY, instance) if (folder / AFFINITY).exists() else Bundles.of([])
    counts = [1] * (0 if fleet is None else len(fleet.capacity))
    if fleet is None:
        kinds, counts, cost = read_machines(folder / MACHINES, instance.resources, some_lack=True)
        rows = _above_zero(np.array(kinds), instance).tolist()
        fleet = Fleet.of_kinds(rows, counts, fixed=True, cost=cost)
    named = replace(instance, name=folder.name)
    barred = _read_blacklist(folder / BLACKLIST, named, counts)
    problem = PlanningProblem(named, fleet, groups, barred)
    if (folder / RUNNING).exists():
        running, pinned = read_running(folder / RUNNING, problem)
        problem = replace(problem, running=running, pinned=pinned)
    return problem


def _read_blacklist(path: Path, instance: Instance, counts: list[int]) -> Int:
    """(B, 2) pairs of application and machine; a row of the table names all machines of a row of `machines.csv`."""
    if not path.exists():
        return np.zeros((0, 2), np.int64)
    table = InputTable.read(path)
    table.only((NAME, MACHINE), "not known here")
    table.need(NAME, MACHINE)
    number = {str(name): i for i, name in enumerate(instance.application)}
    kinds = table.whole_numbers(MACHINE, 1, len(counts))
    first = np.concatenate([[0], np.cumsum(counts)])
    pairs: list[tuple[int, int]] = []
    for row, (name, kind) in enumerate(zip(table.names(NAME), kinds, strict=True)):
        if name not in number:
            table.refuse(row, f"application is {quoted(name)}, which is no application here")
        pairs += [(number[name], machine) for machine in range(first[kind - 1], first[kind])]
    return np.unique(np.array(pairs, dtype=np.int64).reshape(-1, 2), axis=0)


def _above_zero(kinds: Float, instance: Instance) -> Float:
    """(kinds, D) capacities with a small number instead of 0, because planners divide by capacity.

    It is half of the smallest request, so that no replica fits and ratios of resources stay moderate, but not more than
    the smallest capacity above 0.
    """
    rows = kinds.copy()
    for d, requests in enumerate(instance.peak.T):
        there = kinds[:, d] > 0
        smallest = requests[requests > 0].min(initial=np.inf) / 2
        rows[~there, d] = min(smallest, kinds[there, d].min())
    return rows


def _read_groups(path: Path, instance: Instance) -> Bundles:
    """The bundles in a table of affinity groups."""
    table = InputTable.read(path)
    table.need(GROUP, NAME)
    table.only((GROUP, NAME, COUNT), "not known here")
    number = {str(name): i for i, name in enumerate(instance.application)}
    counts = table.whole_numbers(COUNT, 1).tolist() if COUNT in table.columns else [1] * len(table)
    groups: dict[str, dict[int, int]] = {}
    places: dict[int, str] = {}  # application -> its row and group
    for row, (given, count) in enumerate(zip(table.frame.iter_rows(named=True), counts, strict=True), 1):
        group, name = given[GROUP], given[NAME]
        if group is None:
            raise InputError(f"{path}: row {row}: group is empty: must be the name of the group")
        place = f"row {row}, group '{group}'"
        if name not in number:
            raise InputError(f"{path}: {place}: application is {quoted(name)}, which is not in applications.csv")
        if number[name] in places:
            raise InputError(
                f"{path}: {place}: application '{name}' is given a second time, after {places[number[name]]}: must be "
                f"in one group"
            )
        groups.setdefault(group, {})[number[name]] = count
        places[number[name]] = place
    bundles = Bundles.of(list(groups.values()))
    check_bundles(instance, bundles, lambda application: f"{path}: {places[application]}")
    return bundles
