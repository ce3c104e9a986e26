"""A user's own placement problem: a folder of CSV tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tvwrl.flow.problem import Bundles, Problem
from tvwrl.provisioning.instance import Affinity, Fleet, Instance, Int32
from tvwrl.provisioning.sources.lists import read_applications, read_machines
from tvwrl.provisioning.sources.tables import affinity_of, read_table
from tvwrl.types import InputError

APPLICATIONS, MACHINES = "applications.csv", "machines.csv"
AFFINITY, ANTI_AFFINITY = "affinity.csv", "anti-affinity.csv"  # may be absent
GROUP, NAME, COUNT = "group", "application", "count"


def read_folder(folder: Path) -> Problem:
    """The problem of `applications.csv`, `machines.csv`, and perhaps `affinity.csv` and `anti-affinity.csv`.

    The first two: `provisioning.sources.lists`. Affinity: rows of `group`, `application` and, if more than one replica
    of it is in a group, `count`. Anti-affinity: rows of `app_a`, `app_b` and `limit` (how many replicas of app_b may be
    beside one of app_a, 0 for none) or the contest's `k`; these and the column `limit` of applications both hold.
    Raises InputError with file, row and field for what is wrong.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    for name in (APPLICATIONS, MACHINES):
        if not (folder / name).exists():
            raise InputError(f"{folder}: no {name}; it has: {', '.join(sorted(p.name for p in folder.iterdir()))}")
    instance = read_applications(folder / APPLICATIONS)
    kinds, count = read_machines(folder / MACHINES, instance.resources)
    if (anti := folder / ANTI_AFFINITY).exists():
        given = affinity_of(instance.application, read_table(anti), str(anti))
        instance = replace(instance, affinity=both(instance.affinity, given))
    groups = read_groups(folder / AFFINITY, instance) if (folder / AFFINITY).exists() else Bundles.of([])
    try:
        return Problem(replace(instance, name=folder.name), Fleet.of_kinds(kinds, count, fixed=True), groups)
    except InputError as error:
        raise InputError(f"{folder / AFFINITY}: {error}") from None


def both(one: Affinity, other: Affinity) -> Affinity:
    """Limits of two tables; of two for the same pair the lower."""
    applications = len(one.start) - 1
    i: Int32 = np.concatenate([np.repeat(np.arange(applications), np.diff(a.start)) for a in (one, other)])
    j, limit = np.concatenate([one.to, other.to]), np.concatenate([one.limit, other.limit])
    order = np.lexsort((limit, j, i))
    i, j, limit = i[order], j[order], limit[order]
    first = np.ones(len(i), dtype=bool)
    first[1:] = (i[1:] != i[:-1]) | (j[1:] != j[:-1])
    return Affinity.of(applications, i[first], j[first], limit[first])


def read_groups(path: Path, instance: Instance) -> Bundles:
    """Bundles of a table of groups. Raises InputError with file, row and field."""
    table = read_table(path)
    for name in (GROUP, NAME):
        if name not in table.columns:
            raise InputError(f"{path}: no column '{name}'; the columns are: {', '.join(table.columns)}")
    number = {str(name): i for i, name in enumerate(instance.application)}
    groups: dict[str, dict[int, int]] = {}
    for row, told in enumerate(table.iter_rows(named=True), 1):
        group, name, count = told[GROUP], str(told[NAME]), told.get(COUNT, 1)
        if group is None:
            raise InputError(f"{path}: row {row}: group is empty: must be its name")
        if name not in number:
            raise InputError(f"{path}: row {row}: application is '{name}', which is no application here")
        if not isinstance(count, int) or count < 1:
            raise InputError(f"{path}: row {row}: count is {count}: must be a whole number of at least 1")
        members = groups.setdefault(str(group), {})
        if number[name] in members:
            raise InputError(f"{path}: row {row}: application '{name}' is given a second time in group '{group}'")
        members[number[name]] = count
    return Bundles.of(list(groups.values()))
