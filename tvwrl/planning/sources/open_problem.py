"""Opens a planning problem, whatever it is given: applications and machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tvwrl.planning.instance import Fleet
from tvwrl.planning.plan_file import read_running
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.sources.folder import APPLICATIONS, MACHINES, is_folder, read_folder
from tvwrl.planning.sources.generated_cluster import DEMAND, generate_cluster, usual_replicas
from tvwrl.planning.sources.generated_cluster import MACHINES as USUAL_MACHINES
from tvwrl.planning.sources.open_instance import open_instance
from tvwrl.types import InputError

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
