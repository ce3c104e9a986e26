"""Opens a provisioning instance, whatever it is given."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np

from tvwrl.checks import at_least
from tvwrl.input_tables import InputTable
from tvwrl.planning.instance import Instance
from tvwrl.planning.sources.limits import affinity_of
from tvwrl.planning.sources.lists import is_list, read_applications
from tvwrl.planning.sources.published_format import HEADER, read_published
from tvwrl.planning.sources.traces import instance_of, with_replicas
from tvwrl.traces import HEADER as TRACE
from tvwrl.traces import find_trace, open_trace
from tvwrl.types import InputError


def open_instance(
    source: str | Path, times: int | None = None, affinity: str | Path | None = None, slot_seconds: int | None = None
) -> Instance:
    """The instance that `source` is: a published .csv or .csv.gz, the contest's zip or folder, a list of applications
    (.csv, see `lists`), or a trace.

    A trace is a folder or CSV (which needs `slot_seconds`), or a name of the catalogue; `affinity.parquet` in its
    folder is used unless `affinity` names another table (.parquet, .csv) of columns app_a, app_b and limit or k.
    `times` >= 1: cut the series into that many windows of the same length, each with its largest demand; default: all
    times there are. One time is the paper's two-dimensional form (5.1): with cores and GiB, rounded up to whole ones.
    Raises InputError if it is none of these, and for what is wrong in the files.
    """
    at_least(1, times=times)
    path = Path(source).expanduser()
    if path.is_file() and not path.stat().st_size:
        raise InputError(f"{path}: the file is empty")
    if path.suffix and not path.exists():
        raise InputError(f"{path}: no such file")
    if is_trace(source):
        return _from_trace(str(source), times, affinity, slot_seconds)
    if is_list(path):
        instance = read_applications(path)
    elif _is_published(path):
        instance = windowed(read_published(path), times)
    else:
        from tvwrl.planning.sources.contest import read_contest

        instance = windowed(read_contest(str(path)), times)
    if affinity is not None:
        arcs = affinity_of(instance.application, InputTable.read(Path(affinity)))
        instance = replace(instance, affinity=arcs)
    return instance


def windowed(instance: Instance, times: int | None) -> Instance:
    """With `times` windows instead of its times, as `open_instance` tells; unchanged if it has no more than these."""
    had = instance.demand.shape[1]
    if times is None or times >= had:
        return instance
    begin = -(-np.arange(times) * had // times)  # as a trace's windows begin
    demand = np.maximum.reduceat(instance.demand, begin, axis=1)
    return replace(instance, demand=np.ceil(demand) if times == 1 else demand)


def is_trace(source: str | Path) -> bool:
    """Whether `open_instance` takes it for a trace."""
    path = Path(source).expanduser()
    folder = path.is_dir() and not (path / TRACE).exists()
    return not (_is_published(path) or is_list(path) or path.suffix == ".zip" or folder)


def _is_published(path: Path) -> bool:
    if not path.is_file() or not path.name.endswith((".csv", ".csv.gz")):
        return False
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(len(HEADER)).split(b"\t")[0] == HEADER.split(b"\t")[0]
    except (OSError, EOFError):
        return False  # whoever reads it will say what is wrong


def _from_trace(source: str, times: int | None, affinity: str | Path | None, slot_seconds: int | None) -> Instance:
    folder = find_trace(source)
    trace = open_trace(source, slot_seconds)
    beside = None if folder is None or not folder.is_dir() else folder / "affinity.parquet"
    table = Path(affinity) if affinity is not None else beside if beside is not None and beside.exists() else None
    instance = instance_of(trace, times, None if table is None else InputTable.read(table))
    return instance if folder is None else with_replicas(instance, folder)
