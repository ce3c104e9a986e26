"""Instances of the Tianchi contest of 2018: the zip or folder as published."""

from __future__ import annotations

from tvwrl.input_tables import InputTable
from tvwrl.planning.instance import Affinity, Instance
from tvwrl.planning.sources.limits import affinity_of
from tvwrl.traces import POINTS, Rows, Tianchi
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
