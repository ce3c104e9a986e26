"""The Tianchi contest's set B as a placement problem: its instances, limits, and 6,000 machines of two kinds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvwrl.checks import within
from tvwrl.planning.instance import Fleet
from tvwrl.planning.problem import Bundles, PlanningProblem
from tvwrl.planning.sources.contest import read_contest
from tvwrl.traces import LIMITS, POINTS, Tianchi
from tvwrl.types import InputError

RESOURCES = ("cpu", "mem", *LIMITS)  # cores, GiB, GiB, numbers of instances of kinds P, M and both


def read_tianchi(source: str, times: int = 1) -> PlanningProblem:
    """Read the zip or folder `source` as published; deployed instances are to be placed again.

    `times` (1 to 98): number of windows that the series are cut into, each with its largest demand. Disk, P, M and PM
    are constant. The contest has limits but no affinity groups, so there are no bundles.
    Raises InputError for a missing table, and with file and row for a bad one.
    """
    import polars as pl

    within(1, POINTS, times=times)
    instance = read_contest(source)
    tables = Tianchi().extras(source).tables
    if "machines" not in tables:
        raise InputError(f"{source}: no machine_resources*.csv, which lists the machines")
    series = np.maximum.reduceat(instance.demand, np.arange(times) * POINTS // times, axis=1)
    steady = tables["applications"].select(pl.col(LIMITS).cast(pl.Float64)).to_numpy()
    demand = np.concatenate([series, np.broadcast_to(steady[:, None], (len(series), times, len(LIMITS)))], axis=2)
    capacity = tables["machines"].select(pl.col(RESOURCES).cast(pl.Float64)).to_numpy()
    fleet = Fleet(capacity, fixed=True, name=tables["machines"]["machine"].to_numpy().astype(object))
    return PlanningProblem(replace(instance, demand=demand, resources=RESOURCES), fleet, Bundles.of([]))


def scaled(problem: PlanningProblem, machines: int, seed: int = 0) -> PlanningProblem:
    """The problem with 1 <= `machines` <= all of its machines, and the same share of its applications.

    Machines are taken at even distances, which preserves the shares of the kinds; applications are drawn at random.
    Raises InputError for other numbers, and for problems with bundles, which drawing applications would tear apart.
    """
    there = len(problem.fleet.capacity)
    within(1, there, machines=machines)
    if len(problem.bundles):
        raise InputError("a problem with affinity groups cannot be scaled: that would split its groups")
    if machines == there:
        return problem
    rows = np.arange(machines) * there // machines
    applications = len(problem.instance)
    share = max(1, round(applications * machines / there))
    which = np.sort(np.random.default_rng(seed).choice(applications, share, replace=False))
    return PlanningProblem(problem.instance.only(which), problem.fleet.select(rows), problem.bundles)
