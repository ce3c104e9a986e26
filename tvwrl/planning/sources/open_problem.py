"""Opens a planning problem, whatever it is given: applications and machines."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tvwrl.checks import at_least
from tvwrl.input_tables import InputTable
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan_file import read_running
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.sources.folder import APPLICATIONS, MACHINES, is_folder, read_folder
from tvwrl.planning.sources.generated import DEMAND, generate_cluster, usual_replicas
from tvwrl.planning.sources.generated import MACHINES as USUAL_MACHINES
from tvwrl.planning.sources.lists import affinity_of, is_list, read_applications
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
        from tvwrl.planning.sources.tianchi import read_contest

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


GENERATED = "generated"
KINDS = f"{GENERATED}, a folder with {APPLICATIONS} and {MACHINES}, or the Tianchi contest's zip or folder"


@dataclass(frozen=True)
class Reading:
    """How a source is read; None leaves each at its default."""

    times: int | None = None  # windows of series, >= 1
    affinity: Path | None = None  # a table of limits instead of the instance's own
    slot_seconds: int | None = None  # of a trace in one CSV
    machines: int | None = None  # of a generated problem, or of the contest's
    replicas: int | None = None  # of a generated problem
    demand: float | None = None  # of a generated problem, 0 to 1
    seed: int = 0  # of a generated problem, and of the contest's part
    running: Path | None = None  # a table of what runs where


def open_problem(source: str, fleet: Fleet | None = None, reading: Reading | None = None) -> PlanningProblem:
    """The problem that `source` and `fleet` make: without a fleet, the machines are the source's own.

    `source`: `generated`, a folder of tables (see `folder`), the contest's zip or folder, or, with a fleet, whatever
        `open_instance` takes
    `fleet`: machines in place of the source's
    `reading`: how the source is read

    Raises InputError for options that do not go with the source, and for what is wrong in it.
    """
    reading = reading or Reading()
    problem = _with_own_machines(source, reading) if fleet is None else _on(source, fleet, reading)
    if reading.running is not None:
        running, pinned = read_running(reading.running, problem)
        problem = replace(problem, running=running, pinned=pinned)
    return problem


def _on(source: str, fleet: Fleet, reading: Reading) -> PlanningProblem:
    for option in ("machines", "replicas", "demand"):
        if (value := getattr(reading, option)) is not None:
            raise InputError(f"{option} is {value}: must be left out where the machines are given")
    path = Path(source).expanduser()
    if is_folder(path):
        _refuse(reading, "times", "affinity", "slot_seconds", why="a folder of tables has its own")
        return read_folder(path, fleet)
    return PlanningProblem(open_instance(source, reading.times, reading.affinity, reading.slot_seconds), fleet)


def _with_own_machines(source: str, reading: Reading) -> PlanningProblem:
    path = Path(source).expanduser()
    if source == GENERATED:
        if reading.times is not None:
            raise InputError(
                f"times is {reading.times}: must be left out of generated problems, whose demand does not change"
            )
        machines = USUAL_MACHINES if reading.machines is None else reading.machines
        replicas = usual_replicas(machines) if reading.replicas is None else reading.replicas
        return generate_cluster(machines, replicas, reading.seed, DEMAND if reading.demand is None else reading.demand)
    for option in ("replicas", "demand"):
        if (value := getattr(reading, option)) is not None:
            raise InputError(f"{option} is {value}: must be left out, except of generated problems")
    if is_folder(path):
        if reading.machines is not None or reading.times is not None:
            raise InputError("machines and times must be left out: a folder of tables has machines, and one time")
        _refuse(reading, "affinity", "slot_seconds", why="a folder of tables has its own limits, and no slots")
        return read_folder(path)
    if not path.exists():
        raise InputError(f"there is no file or folder '{source}': must be {KINDS}")
    if path.is_file() and path.suffix != ".zip":
        raise InputError(
            f"{source} has no machines: give them to tvwrl provision, as in --machine 64 128 --counts 10 --fixed; or "
            f"give {KINDS}"
        )
    from tvwrl.planning.sources.tianchi import read_tianchi, scaled

    problem = read_tianchi(str(path), 1 if reading.times is None else reading.times)
    return problem if reading.machines is None else scaled(problem, reading.machines, reading.seed)


def _refuse(reading: Reading, *options: str, why: str) -> None:
    if any(getattr(reading, option) is not None for option in options):
        raise InputError(f"{' and '.join(options)} must be left out: {why}")
