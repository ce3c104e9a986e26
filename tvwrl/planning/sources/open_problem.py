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
from tvwrl.planning.sources.lists import NAME, REPLICAS, affinity_of, columns_of, is_list, read_applications
from tvwrl.planning.sources.published_format import HEADER, read_published
from tvwrl.planning.sources.traces import instance_of, with_replicas
from tvwrl.traces import HEADER as TRACE
from tvwrl.traces import find_trace, open_trace, read_trace
from tvwrl.types import InputError


def open_instance(
    source: str | Path, times: int | None = None, affinity: str | Path | None = None, slot_seconds: int | None = None
) -> Instance:
    """The instance that a source is.

    Parameters
    ----------
    source : str or Path
        A published .csv or .csv.gz, the Tianchi contest's zip or folder, a list of applications (.csv, see `lists`), or
        a trace: a folder, a CSV, or a name of the catalogue.
    times : int or None
        Cut series into that many windows of the same length, >= 1, each with its largest demand; default: all times
        there are. One time is the paper's two-dimensional form (5.1): with cores and GiB, rounded up to whole ones.
    affinity : str, Path or None
        A table (.parquet, .csv) of columns app_a, app_b and limit or k; default: the source's own limits, for a trace
        those of `affinity.parquet` in its folder.
    slot_seconds : int or None
        Length of a slot, which a trace in one CSV needs.

    Returns
    -------
    Instance
        Applications, their replicas and limits.

    Raises
    ------
    InputError
        It is none of these, or something is wrong in the files.

    Examples
    --------
    >>> open_instance("small_500_threshold_d10_s103.csv.gz", times=1)  # doctest: +SKIP
    """
    at_least(1, times=times)
    path = Path(source).expanduser()
    if path.is_file() and not path.stat().st_size:
        raise InputError(f"{path}: the file is empty")
    if path.suffix and not path.exists():
        raise InputError(f"{path}: no such file")
    if is_trace(source):
        _refuse_neither(path)
        folder = find_trace(str(source))  # whose usage may be in any unit: machines are in the same
        trace = open_trace(str(source), slot_seconds) if folder is None else read_trace(folder, slot_seconds)
        own = None if folder is None else folder / "affinity.parquet"
        table = Path(affinity) if affinity is not None else own if own is not None and own.exists() else None
        instance = instance_of(trace, times, None if table is None else InputTable.read(table))
        return instance if folder is None else with_replicas(instance, folder)
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


def _refuse_neither(path: Path) -> None:
    """Refuse a CSV that has the columns neither of a trace nor of a list of applications."""
    if path.is_file() and path.suffix == ".csv" and not {"workload_id", "slot"} & set(names := columns_of(path)):
        raise InputError(
            f"{path}: the columns are {', '.join(names)}: a list of applications needs {NAME} and {REPLICAS} (a trace: "
            "workload_id and slot)"
        )


def _is_published(path: Path) -> bool:
    if not path.is_file() or not path.name.endswith((".csv", ".csv.gz")):
        return False
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(len(HEADER)).split(b"\t")[0] == HEADER.split(b"\t")[0]
    except (OSError, EOFError):
        return False  # whoever reads it will say what is wrong


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
    """The problem that a source and a fleet make.

    Parameters
    ----------
    source : str
        ``generated``, a folder of tables (see `read_folder`), the Tianchi contest's zip or folder, or, with a fleet,
        whatever `open_instance` takes.
    fleet : Fleet or None
        Machines in place of the source's own.
    reading : Reading or None
        How the source is read.

    Returns
    -------
    PlanningProblem
        Applications and machines.

    Raises
    ------
    InputError
        An option does not go with the source, or something is wrong in it.

    Examples
    --------
    >>> open_problem(GENERATED, reading=Reading(machines=23, replicas=62)).fleet
    <Fleet machines=23, kinds=23, fixed=True>
    """
    reading = reading or Reading()
    path = Path(source).expanduser()
    if fleet is None:
        problem = _with_own_machines(source, reading)
    else:
        _refuse(reading, "machines", "replicas", "demand", why="the machines are given")
        if is_folder(path):
            _refuse(reading, "times", "affinity", "slot_seconds", why="a folder of tables has its own")
            problem = read_folder(path, fleet)
        else:
            instance = open_instance(source, reading.times, reading.affinity, reading.slot_seconds)
            problem = PlanningProblem(instance, fleet)
    if reading.running is not None:
        running, pinned = read_running(reading.running, problem)
        problem = replace(problem, running=running, pinned=pinned)
    return problem


def _with_own_machines(source: str, reading: Reading) -> PlanningProblem:
    path = Path(source).expanduser()
    if source == GENERATED:
        _refuse(reading, "times", why="the demand of generated problems does not change")
        machines = USUAL_MACHINES if reading.machines is None else reading.machines
        replicas = usual_replicas(machines) if reading.replicas is None else reading.replicas
        return generate_cluster(machines, replicas, reading.seed, DEMAND if reading.demand is None else reading.demand)
    _refuse(reading, "replicas", "demand", why="only generated problems have a choice of them")
    if is_folder(path):
        _refuse(reading, "machines", "times", why="a folder of tables has machines, and one time")
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
    for option in options:
        if (value := getattr(reading, option)) is not None:
            raise InputError(f"{option} is {value}: must be left out, as {why}")
