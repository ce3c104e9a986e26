"""The Tianchi contest's set B as a placement problem: its instances, limits, and 6,000 machines of two kinds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvwrl.checks import within
from tvwrl.input_tables import InputTable
from tvwrl.planning.instance import Affinity, Fleet, Instance
from tvwrl.planning.problem import Bundles, PlanningProblem
from tvwrl.planning.sources.lists import affinity_of
from tvwrl.traces import LIMITS, POINTS, Rows, Tianchi
from tvwrl.types import InputError, Strings


def read_contest(source: str) -> Instance:
    """Applications in order of app_resources, cores and GiB at 98 times, replicas as many as are deployed.

    The contest counts what may come *beside* an instance: a row app_a = app_b with k lets k + 1 instances of it share a
    machine. It is kept as a self limit of k + 1. (The provisioning paper's files leave these rows out.)
    Raises InputError if a table is missing, with file and row if one is bad.
    """
    loader = Tianchi(reference_cores=1.0, reference_memory=1.0)  # series in cores and GiB, divided by nothing
    part = next(part for part in loader.parts(source) if part.usage)
    series = _good(loader.read(part)).frame
    extras = loader.extras(source)
    for rows in extras.read.values():
        _good(rows)
    applications = extras.tables["applications"]
    names: Strings = applications["application"].to_numpy().astype(object)
    if applications["replicas"].has_nulls():
        raise InputError(f"{source}: no instance_deploy*.csv, which says how many replicas there are")
    demand = series.select("cpu", "mem").to_numpy().reshape(len(names), POINTS, 2)
    affinity = Affinity.of(len(names))
    if "affinity" in extras.tables:
        affinity = affinity_of(names, InputTable(f"{source}: app_interference", extras.tables["affinity"]))
    return Instance("tianchi", names, applications["replicas"].to_numpy(), demand, ("cpu", "mem"), affinity)


def _good(rows: Rows) -> Rows:
    """The rows, if all of them are good: a plan cannot leave applications out."""
    if rows.bad:
        raise InputError(f"{rows.bad.total()} bad rows; first: {rows.examples[0]}")
    return rows


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
