"""Instances from any canonical trace: workloads of one application are its replicas."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from pathlib import Path

import numpy as np

from tvwrl.input_tables import InputTable, read_table
from tvwrl.planning.instance import MOST_REPLICAS, Affinity, Instance
from tvwrl.planning.sources.lists import affinity_of
from tvwrl.types import Float, InputError, Int, Strings, Trace

ROUNDING = 1e-6  # of fractions times units
LARGEST = 2_000_000_000  # numbers of demand that are held at most


def instance_of(trace: Trace, windows: int | None = None, affinity: InputTable | None = None) -> Instance:
    """Applications in order of their first workload; a workload without one is an application by itself.

    A replica needs, in each window of time, the most that any workload of the application used in it, and nothing
    where none ran. Demand is in the units of the trace's reference machine (cores, GiB) where the trace gives numbers
    for it, else in fractions of that machine.

    Args:
        trace: the workloads.
        windows: equal parts of the time from the first slot to the last, >= 1; by default, and at most, one per slot.
            With one window cores and GiB are rounded up to whole ones.
        affinity: limits, as in `limits.affinity_of`; by default there are none.

    Raises InputError if demand would have more than `LARGEST` numbers, and for what is wrong in `affinity`.

    >>> instance_of(open_trace("google"), windows=24).demand.shape  # (A, 24, D)  # doctest: +SKIP
    """
    names, of = _applications(trace)
    first, slots = int(trace.slot.min()), int(np.ptp(trace.slot)) + 1
    windows = slots if windows is None else min(windows, slots)
    if len(names) * windows * len(trace.resources) > LARGEST:
        raise InputError(
            f"trace '{trace.name}': {len(names)} applications at {windows} times are too many to hold: give fewer times"
        )
    demand = np.zeros((len(names), windows, len(trace.resources)))
    rows = np.repeat(of, np.diff(trace.offsets))
    window = (trace.slot - first) * windows // slots
    units = units_of(trace)
    for d, unit in enumerate(units):
        np.maximum.at(demand[:, :, d], (rows, window), trace.usage[:, d] * unit)
    if windows == 1 and (units != 1.0).any():  # cores and GiB, whole ones as in the paper
        demand = np.ceil(demand - ROUNDING)
    arcs = Affinity.of(len(names)) if affinity is None else affinity_of(names, affinity)
    return Instance(trace.name, names, np.bincount(of, minlength=len(names)), demand, trace.resources, arcs)


def members_of(trace: Trace, instance: Instance) -> list[Int]:
    """Workloads of the trace by application of an instance made of it. Raises InputError if it was made of another."""
    names, of = _applications(trace)
    if not np.array_equal(names, instance.application):
        raise InputError(f"instance '{instance.name}' is not of trace '{trace.name}': their applications differ")
    order = np.argsort(of, kind="stable")
    return np.split(order, np.cumsum(np.bincount(of))[:-1])


def with_replicas(instance: Instance, folder: Path) -> Instance:
    """With the replicas that a table `applications.parquet` of the trace's folder tells, where it does."""
    path = folder / "applications.parquet"
    if not path.exists():
        return instance
    table = read_table(path)
    if not {"application", "replicas"} <= set(table.columns):
        return instance
    given: dict[str, int] = {}
    names = InputTable(str(path), table).text("application")
    for row, (name, count) in enumerate(zip(names, table["replicas"], strict=True), 1):
        if name in given:
            raise InputError(f"{path}: row {row}: application '{name}' is given a second time")
        if count is not None:
            if not isinstance(count, int) or not 1 <= count <= MOST_REPLICAS:
                raise InputError(
                    f"{path}: row {row}: replicas is {count}: must be a whole number from 1 to {MOST_REPLICAS}"
                )
            given[name] = count
    replicas = [given.get(name, one) for name, one in zip(instance.application, instance.replicas, strict=True)]
    return replace(instance, replicas=np.array(replicas, np.int64))


def _applications(trace: Trace) -> tuple[Strings, Int]:
    """Names, and which of them each workload belongs to."""
    label = np.where(trace.application == "", trace.workload_id, trace.application).astype(str)
    names, first, of = np.unique(label, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    return names[order].astype(object), rank[of]


def units_of(trace: Trace) -> Float:
    """(D,) what a fraction of 1.0 is, in the units of instances made of the trace."""
    machine = trace.reference_machine
    if isinstance(machine, dict) and all(isinstance(machine.get(name), Real) for name in trace.resources):
        return np.array([float(machine[name]) for name in trace.resources])
    return np.ones(len(trace.resources))
