"""A user's own placement problem: a folder of CSV tables."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from tvwrl.input_tables import InputTable, quoted
from tvwrl.planning.instance import MOST_REPLICAS, Fleet, Instance
from tvwrl.planning.merged import least_limits
from tvwrl.planning.plan_file import machines_in, read_running
from tvwrl.planning.problem import Bundles, PlanningProblem, check_bundles
from tvwrl.planning.sources.lists import COUNT, MACHINE, NAME, affinity_of, read_applications, read_machines
from tvwrl.progress import say
from tvwrl.types import Float, InputError, Int

APPLICATIONS, MACHINES = "applications.csv", "machines.csv"
AFFINITY, ANTI_AFFINITY = "affinity.csv", "anti-affinity.csv"  # may be absent
BLACKLIST, RUNNING = "blacklist.csv", "running.csv"  # so may these
TABLES = APPLICATIONS, MACHINES, AFFINITY, ANTI_AFFINITY, BLACKLIST, RUNNING
LIKE = 0.75  # how close another name must be to that of a table to have been meant as it; 1: equal
GROUP = "group"
MOST_BARRED = 10_000_000  # pairs of an application and a machine


def is_folder(path: Path) -> bool:
    """Whether `read_folder` reads it."""
    return (path / APPLICATIONS).exists() or (path / MACHINES).exists()


def read_folder(folder: Path, fleet: Fleet | None = None) -> PlanningProblem:
    """Read a problem from the tables of a folder.

    - applications.csv: see `planning.sources.lists`
    - machines.csv: likewise; machines have the names of its column `machine`, or are numbered from 1
    - affinity.csv: columns `group`, `application` and, optionally, `count`, its replicas in each copy of the group (1)
    - anti-affinity.csv: columns `app_a`, `app_b` and `limit`, the most replicas of app_b beside one of app_a (0: none),
      or `k` as the contest has it. These limits hold in addition to the column `limit` of the applications.
    - blacklist.csv: columns `application` and `machine`, which must not hold it: a machine, or a row of several by its
      name
    - running.csv: columns `application`, `machine`, `replicas` and, optionally, `pinned` (true for replicas that stay)

    All but the first two may be absent. A table of another name is refused if it seems to be one of these that is
    missing; else a line says that it is not read.

    Parameters
    ----------
    folder : Path
        Where the tables are.
    fleet : Fleet or None
        Machines in place of machines.csv.

    Returns
    -------
    PlanningProblem
        Applications and machines, named after the folder.

    Raises
    ------
    InputError
        A bad table, with file, row and field.

    Examples
    --------
    >>> read_folder(Path("my-cluster")).instance  # doctest: +SKIP
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    for name in (APPLICATIONS, MACHINES) if fleet is None else (APPLICATIONS,):
        if not (folder / name).exists():
            raise InputError(f"{folder}: no {name}; it has: {', '.join(sorted(p.name for p in folder.iterdir()))}")
    _check_names(folder, fleet is not None)
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
    if fleet is None:
        machines = read_machines(folder / MACHINES, instance.resources, some_lack=True)
        fleet = replace(machines, free=_above_zero(machines.free, instance)).fleet(fixed=True)
        if machines.name is None and (folder / BLACKLIST).exists() and (machines.count > 1).any():
            raise InputError(
                f"{folder / MACHINES}: row {int(np.argmax(machines.count > 1)) + 1}: count is "
                f"{machines.count.max()}, and {BLACKLIST} cannot say whether it means rows or machines: add a column "
                f"{MACHINE} with a name for each row"
            )
    elif fleet.name is None:
        tables = [name for name in (BLACKLIST, RUNNING) if (folder / name).exists()]
        if tables and (folder / MACHINES).exists() and MACHINE in InputTable.read(folder / MACHINES).columns:
            raise InputError(
                f"{folder / tables[0]} names machines of {MACHINES}, and the machines given instead of it have no "
                f"names: give a table with a column {MACHINE}"
            )
    named = replace(instance, name=folder.name)
    barred = _read_blacklist(folder / BLACKLIST, named, fleet)
    problem = PlanningProblem(named, fleet, groups, barred)
    if (folder / RUNNING).exists():
        running, pinned = read_running(folder / RUNNING, problem)
        problem = replace(problem, running=running, pinned=pinned)
    return problem


def _check_names(folder: Path, other_machines: bool) -> None:
    """Raise InputError for a table that seems to be misnamed, since rules in it would be left out unnoticed.

    One beside the table that it is like is probably an older copy; so is one like `machines.csv` where that is not
    read, because there are `other_machines`.
    """
    there = {path.name for path in folder.iterdir()}
    missing = [one for one in TABLES if one not in there and not (one == MACHINES and other_machines)]
    stems = {one.removesuffix(".csv"): one for one in missing}
    for name in sorted(one for one in there.difference(TABLES) if not one.startswith(".")):
        if not (folder / name).is_file() or not (small := name.casefold()).endswith((".csv", ".csv.gz")):
            continue
        if like := get_close_matches(small.removesuffix(".gz").removesuffix(".csv"), stems, n=1, cutoff=LIKE):
            raise InputError(
                f"{folder / name}: no table of this name is read: did you mean '{stems[like[0]]}'? Rename it, or move "
                "it out of the folder"
            )
        say(f"{folder / name} is not read: tables are called {', '.join(TABLES)}")


def _read_blacklist(path: Path, instance: Instance, fleet: Fleet) -> Int:
    """(B, 2) pairs of application and machine; the name of a row of several machines stands for all of them."""
    if not path.exists():
        return np.zeros((0, 2), np.int64)
    table = InputTable.read(path)
    table.only((NAME, MACHINE), "not known here")
    table.need(NAME, MACHINE)
    application = table.positions(NAME, {str(name): i for i, name in enumerate(instance.application)}, "application")
    if fleet.name is None:
        pairs = np.column_stack([application, machines_in(table, fleet, len(fleet.capacity))])
        return np.unique(pairs, axis=0)
    names = {str(name): [m] for m, name in enumerate(fleet.name)}
    for m, row in enumerate([] if fleet.row is None else fleet.row.tolist()):
        if row != fleet.name[m]:
            names.setdefault(row, []).append(m)
    group = table.positions(MACHINE, {name: k for k, name in enumerate(names)}, "machine")
    members = list(names.values())
    pairs = np.cumsum([len(members[k]) for k in group.tolist()], dtype=np.int64)
    if (over := pairs > MOST_BARRED).any():
        row = int(np.argmax(over))
        table.refuse(row, f"{pairs[row]:,} pairs of an application and a machine: must be at most {MOST_BARRED:,}")
    found = [(i, m) for i, k in zip(application.tolist(), group.tolist(), strict=True) for m in members[k]]
    return np.unique(np.array(found, dtype=np.int64).reshape(-1, 2), axis=0)


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
    counts = table.whole_numbers(COUNT, 1, MOST_REPLICAS).tolist() if COUNT in table.columns else [1] * len(table)
    groups: dict[str, dict[int, int]] = {}
    places: dict[int, str] = {}  # application -> its row and group
    named = zip(table.text(GROUP), table.text(NAME), counts, strict=True)
    for row, (group, name, count) in enumerate(named, 1):
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
