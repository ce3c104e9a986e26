"""Submissions: a folder that records what an entrant's schedulers did, and a check that replays every episode.

The check trusts no number. It draws arrivals and demand again from the task's trace; the referee (`tvwrl.metrics`),
which shares no code with the simulation, recomputes every number from where and when each workload was placed. Only
what an entrant knew and how long decisions took cannot be checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvwrl.benchmark.comparison import Comparison
from tvwrl.benchmark.entries import NAME, NAME_RULE
from tvwrl.benchmark.replay import ROWS_FILE, replay
from tvwrl.benchmark.tasks import Task, find_task
from tvwrl.experiments.episode_rows import incomplete_by
from tvwrl.experiments.evaluation import EPISODES
from tvwrl.runs import provenance, whole_folder, write_json
from tvwrl.schedulers import GROUPS, SCHEDULERS, Knowledge
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

ABOUT = "submission.json"
FILES = (ABOUT, ROWS_FILE, EPISODES)  # the files of a submission


@dataclass(frozen=True)
class Submission:
    """What submission.json says: the submitter, the task, and what each entry knows."""

    name: str
    task: Task
    knowledge: Mapping[str, Knowledge]  # of each entry, in order; as the entrant says, unchecked


def submit(comparison: Comparison, folder: str | Path, name: str, contact: str | None = None) -> Path:
    """Write what the entries of a comparison did to a new folder: `rows.csv`, `episodes.parquet`, `submission.json`.

    `name`: whose submission it is; `contact`: an address for questions. The schedulers that the entries were compared
    with are left out. Raises InputError for a comparison that does not play all sequences of its task, an empty name,
    an entry that left workloads unplaced (the check refuses it), an entry with the name of one of our schedulers, and a
    folder that is not empty.
    """
    import polars as pl

    task = comparison.task
    if not name.strip():
        raise InputError("name is empty: say whose submission it is")
    if comparison.sequences < task.sequences:
        raise InputError(
            f"the comparison has {comparison.sequences} of the {task.sequences} sequences of task {task.name}: compare "
            "on all of them (without the argument sequences)"
        )
    _check_names(comparison.knowledge, "this comparison")
    rows = pl.read_csv(comparison.folder / ROWS_FILE, schema_overrides={"scheduler": pl.String})
    rows = rows.filter(pl.col("scheduler").is_in(list(comparison.knowledge)))
    for (entry,), what in incomplete_by(rows, ["scheduler"]).items():
        raise InputError(f"entry '{entry}': {what}: a schedule has a reward only if all workloads are placed")
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
        rows.write_csv(partial / ROWS_FILE)
        comparison.episodes.filter(own).write_parquet(partial / EPISODES)
        write_json(partial / ABOUT, about | {"provenance": provenance()})
    return Path(folder)


def check_submission(folder: str | Path) -> pl.DataFrame:
    """Replay every episode of the submission in `folder`; returns its rows, recomputed, with the submitted
    `decision_ms`.

    Raises InputError as `read_submission` does, for a trace that is not on this machine, a table that is missing or
    damaged, an entry that left workloads unplaced, with their count, times above the task's limit, and the first line
    of `episodes.parquet` or `rows.csv` that differs from the task or the replay. The first row of either file is line
    2.
    """
    about = read_submission(folder)
    return replay(Path(folder), about.knowledge, about.task)


def read_submission(folder: str | Path) -> Submission:
    """Read `submission.json` of the submission in `folder`, without the tables.

    Raises InputError for a file that is missing or damaged, an unknown task, a task with another definition here (the
    message names the field), an entry with an invalid name or that of one of our schedulers, and an unknown knowledge
    group.
    """
    path = Path(folder) / ABOUT
    if not path.is_file():
        raise InputError(f"{folder} holds no submission: tvwrl.submit writes one ({ABOUT} is missing)")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if not isinstance(about, dict):
        raise InputError(f"{path} must hold an object with the fields task, entries and name")
    for field, kind in {"task": dict, "entries": dict, "name": str}.items():
        if field not in about:
            raise InputError(f"{path}: field '{field}' is missing")
        if not (isinstance(about[field], kind) and about[field]):
            raise InputError(
                f"{path}: {field} is {about[field]!r}: must be {'text' if kind is str else 'an object'}, not empty"
            )
    _check_names(about["entries"], str(path))
    knowledge = {entry: _knowledge(entry, said, path) for entry, said in about["entries"].items()}
    return Submission(about["name"], _task_of(about["task"], path), knowledge)


def _check_names(entries: Iterable[str], where: str) -> None:
    """Raise InputError for an invalid name, and for that of one of our schedulers."""
    for entry in entries:
        if not NAME.fullmatch(entry):
            raise InputError(f"{where}: entry '{entry}': {NAME_RULE}")
        if entry in SCHEDULERS:
            raise InputError(
                f"{where}: entry '{entry}' has the name of one of our schedulers: rename it and compare again"
            )


def _knowledge(entry: str, said: Any, path: Path) -> Knowledge:
    known = said.get("knowledge") if isinstance(said, dict) else None
    group = known.get("group") if isinstance(known, dict) else None
    if not isinstance(known, dict) or group not in GROUPS:
        raise InputError(
            f"{path}: entries.{entry}.knowledge.group is {group!r}: must be one of {', '.join(map(repr, GROUPS))}"
        )
    return Knowledge(group, str(known.get("note", "")))


def _task_of(stated: dict[str, Any], path: Path) -> Task:
    """The task of that name here. Raises InputError that names the field if the submission has another definition."""
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
