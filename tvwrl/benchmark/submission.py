"""Submissions: a folder with what an entrant's schedulers did, and its check, which replays every episode.

Nothing in the folder is believed. Arrivals and demand are drawn again from the task's trace; the referee
(`tvwrl.metrics`), which shares no code with the simulation, computes every number again from where each workload was
placed and when. What cannot be seen there is what an entrant knew, and how long decisions took.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.benchmark.comparison import Comparison
from tvwrl.benchmark.tasks import Task, find_task, problem_of
from tvwrl.experiments.evaluation import EPISODES
from tvwrl.runs import provenance, whole_folder, write_json
from tvwrl.types import Episode, InputError, SequenceSet

if TYPE_CHECKING:
    import polars as pl

ROWS_FILE, ABOUT = "rows.csv", "submission.json"
PLAYED = ("workload_id", "source_workload", "source_slot", "arrival", "start", "finish", "machine")
DRAWN = PLAYED[:4]  # what the task sets
EXACTLY = 1e-9  # relative: sums in another order
UNSEEN = ("decision_ms",)  # columns of rows that no replay gives


def submit(comparison: Comparison, folder: str | Path, name: str, contact: str | None = None) -> Path:
    """Write what the entries of a comparison did to a new folder: `rows.csv`, `episodes.parquet`, `submission.json`.

    `name`: whose submission it is; `contact`: an address for questions. The schedulers that the entries were compared
    with are left out. Raises InputError for a comparison on fewer than all sequences of its task, an empty name, and a
    folder that holds something.
    """
    import polars as pl

    task = comparison.task
    if not name.strip():
        raise InputError("name is empty: say whose submission it is")
    if comparison.sequences < task.sequences:
        raise InputError(
            f"the comparison has {comparison.sequences} of the {task.sequences} sequences of task {task.name}: compare "
            "on all (leave sequences out)"
        )
    about = {
        "name": name,
        "contact": contact,
        "task": task.as_dict(),
        "entries": {
            entry: {"origin": comparison.origins[entry], "knowledge": known._asdict()}
            for entry, known in comparison.knowledge.items()
        },
    }
    own = pl.col("scheduler").is_in(list(comparison.knowledge))
    with whole_folder(Path(folder)) as partial:
        pl.read_csv(comparison.folder / ROWS_FILE).filter(own).write_csv(partial / ROWS_FILE)
        comparison.episodes.filter(own).write_parquet(partial / EPISODES)
        write_json(partial / ABOUT, about | {"provenance": provenance()})
    return Path(folder)


def check_submission(folder: str | Path) -> pl.DataFrame:
    """Replay every episode of a submission; returns its rows, recomputed, with the submitted `decision_ms`.

    Raises InputError for a file that is missing or damaged, a task that is unknown or defined otherwise here (the field
    is named), a trace that is not here, and the first line of `episodes.parquet` or `rows.csv` that is not what the
    task or the replay says.
    """
    import polars as pl

    folder = Path(folder)
    about = _read_about(folder / ABOUT)
    task = _task_of(about["task"], folder / ABOUT)
    problem = problem_of(task)
    drawn = problem.sequences(task.split, task.sequences, task.seed)
    rows, episodes = _read(folder / ROWS_FILE, pl.read_csv), _read(folder / EPISODES, pl.read_parquet)
    if missing := sorted({"scheduler", "load", "sequence", *PLAYED} - set(episodes.columns)):
        raise InputError(f"{folder / EPISODES}: column {missing[0]} is missing")
    _check_coverage(about, task, rows, folder / ROWS_FILE)
    replayed = []
    parts = episodes.with_row_index("line").partition_by("scheduler", "sequence", maintain_order=True)
    for line, part in enumerate(parts):
        episode = _episode(part, task, drawn, folder / EPISODES)
        _check_rules(episode, task, folder / EPISODES)
        found = problem.score(episode)
        _compare_row(found, rows, line, folder / ROWS_FILE)
        replayed.append(found | {"decision_ms": rows["decision_ms"][line]})
    if len(replayed) < len(rows):
        raise InputError(f"{folder / ROWS_FILE}, line {len(replayed) + 2}: {EPISODES} has no episode for it")
    return pl.DataFrame(replayed)


def _read(path: Path, read: Any) -> pl.DataFrame:
    try:
        frame: pl.DataFrame = read(path)
    except Exception as error:  # polars has many of its own for damaged files
        raise InputError(f"{path} cannot be read: {error}") from error
    return frame


def _read_about(path: Path) -> dict[str, Any]:
    """submission.json with the fields that a check needs."""
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        return {"task": dict(about["task"]), "entries": dict(about["entries"]), "name": str(about["name"])}
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: field {error} is missing") from error


def _task_of(stated: dict[str, Any], path: Path) -> Task:
    """The task of that name here. Raises InputError, naming the field, if the submission was made for another."""
    task = find_task(str(stated.get("name")))
    ours = json.loads(json.dumps(task.as_dict()))
    for field, value in ours.items():
        theirs = stated.get(field)
        if isinstance(value, dict) and isinstance(theirs, dict):
            field, value, theirs = next(
                ((f"{field}.{one}", value[one], theirs.get(one)) for one in value if theirs.get(one) != value[one]),
                (field, value, value),
            )
        if theirs != value:
            raise InputError(f"{path}: task {task.name} has {field} {value}, the submission was made with {theirs}")
    return task


def _check_coverage(about: dict[str, Any], task: Task, rows: pl.DataFrame, path: Path) -> None:
    """Every entry on every sequence, once, entry by entry."""
    if missing := sorted({"scheduler", "sequence", "decision_ms"} - set(rows.columns)):
        raise InputError(f"{path}: column {missing[0]} is missing")
    wanted = [(entry, sequence) for entry in about["entries"] for sequence in range(task.sequences)]
    found = list(zip(map(str, rows["scheduler"]), rows["sequence"], strict=True))
    for line, (want, have) in enumerate(zip(wanted, found, strict=False), 2):
        if want != have:
            raise InputError(
                f"{path}, line {line}: it is of {have[0]}, sequence {have[1]}; expected {want[0]}, {want[1]}"
            )
    if len(found) != len(wanted):
        raise InputError(f"{path} has {len(found)} rows: must have {len(wanted)}, one per entry and sequence")


def _episode(part: pl.DataFrame, task: Task, drawn: SequenceSet, path: Path) -> Episode:
    """What was placed, with the arrivals and the demand of the task. Raises InputError for the first line that differs
    from these."""
    scheduler, sequence, load = part.select("scheduler", "sequence", "load").row(0)
    where = f"{path}, line {part['line'][0]} ({scheduler}, sequence {sequence})"
    if not (isinstance(sequence, int) and 0 <= sequence < len(drawn)) or load != task.scenario.load:
        raise InputError(f"{where}: load {load}, sequence {sequence} is not of task {task.name}")
    if len(part) != drawn.arrival.shape[1]:
        raise InputError(f"{where}: {len(part)} workloads, the task's sequence has {drawn.arrival.shape[1]}")
    for column in DRAWN:
        theirs, ours = part[column].to_list(), getattr(drawn, column)[sequence].tolist()
        for line, mine, own in zip(part["line"], theirs, ours, strict=True):
            if mine != own:
                raise InputError(
                    f"{path}, line {line} ({scheduler}, sequence {sequence}): {column} is {mine}, not {own}"
                )
    return Episode(
        **{name: part[name].to_numpy() for name in PLAYED},
        demand=tuple(drawn.workload(sequence, i).demand for i in range(len(part))),
        scheduler=scheduler,
        load=load,
        sequence=sequence,
        decision_ms=float("nan"),
        resources=drawn.resources,
        background=None if drawn.background is None else drawn.background[sequence],
    )


def _check_rules(episode: Episode, task: Task, path: Path) -> None:
    """What the referee does not know: how many may be placed in a slot, and from which places of the queue."""
    scenario, where = task.scenario, f"{path} ({episode.scheduler}, sequence {episode.sequence})"
    order = np.argsort(episode.arrival, kind="stable")
    for slot in np.unique(episode.start[episode.start >= 0]):
        waits = [i for i in order if episode.arrival[i] <= slot and not 0 <= episode.start[i] < slot]
        placed = [place for place, i in enumerate(waits) if episode.start[i] == slot]
        if scenario.placements_per_slot is not None and len(placed) > scenario.placements_per_slot:
            raise InputError(
                f"{where}: {len(placed)} workloads start in slot {slot}, the task allows {scenario.placements_per_slot}"
            )
        for before, place in enumerate(placed):
            if place - before >= scenario.queue:
                raise InputError(
                    f"{where}: workload {episode.workload_id[waits[place]]} starts in slot {slot} from place "
                    f"{place - before + 1} of the queue, of which only {scenario.queue} are seen"
                )


def _compare_row(found: dict[str, Any], rows: pl.DataFrame, line: int, path: Path) -> None:
    """Raise InputError if a row is not what the replay says."""
    row = rows.row(line, named=True)
    for column, value in found.items():
        if column not in row:
            raise InputError(f"{path}: column {column} is missing")
        if column not in UNSEEN and not _same(value, row[column]):
            where = f"{path}, line {line + 2} ({found['scheduler']}, sequence {found['sequence']})"
            raise InputError(f"{where}: {column} is {row[column]}, the replay of {EPISODES} gives {value}")


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, str) or not isinstance(theirs, int | float):
        return str(ours) == str(theirs) or (theirs is None and ours != ours)
    return math.isclose(ours, theirs, rel_tol=EXACTLY, abs_tol=EXACTLY) or (ours != ours and theirs != theirs)
