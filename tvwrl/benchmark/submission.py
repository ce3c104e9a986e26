"""Submissions: a folder with an entrant's schedulers and what they did, and a check that replays every episode.

The check trusts no number. It draws arrivals and demand again from the task's trace; the referee (`tvwrl.metrics`),
which shares no code with the simulation, recomputes every number from where and when each workload was placed. What an
entry knows and how long it takes is measured when it is run again (`tvwrl.benchmark.fresh`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvwrl import SUPERSEDED_TASKS
from tvwrl.benchmark.comparison import AGAINST_MOVES, Comparison
from tvwrl.benchmark.entries import NAME, NAME_RULE, ONNX, PYTHON, Setting, entry_of
from tvwrl.benchmark.replay import ROWS_FILE, replay
from tvwrl.benchmark.tasks import Task, check_observed, find_task
from tvwrl.experiments import EPISODES, incomplete_by
from tvwrl.metrics import MOVES
from tvwrl.progress import say
from tvwrl.runs import provenance, whole_folder, write_json
from tvwrl.schedulers import GROUPS, SCHEDULERS, Knowledge
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

ABOUT = "submission.json"
ENTRIES = "entries"  # folder of the files that can be run, and of what they read


@dataclass(frozen=True)
class Submission:
    """What submission.json says: the submitter, the task, the entries.

    Parameters
    ----------
    name : str
        Whose submission it is.
    task : Task
        The task.
    knowledge : Mapping[str, Knowledge]
        Entry -> what it knows, in order; as the entrant says, unchecked.
    files : Mapping[str, Path]
        Entry -> its file, for those that can be run.
    observe : Mapping[str, dict[str, Any]]
        Entry -> the fields of the scenario that it observes differently.
    """

    name: str
    task: Task
    knowledge: Mapping[str, Knowledge]
    files: Mapping[str, Path]
    observe: Mapping[str, dict[str, Any]]


def submit(
    comparison: Comparison,
    folder: str | Path,
    name: str,
    contact: str | None = None,
    files: Sequence[str | Path] = (),
) -> Path:
    """Write the entries of a comparison and what they did to a new folder: `rows.csv`, `episodes.parquet`,
    `moves.parquet` where workloads may move, `submission.json`, and `entries/` with the Python and ONNX files that were
    compared.

    The schedulers that the entries were compared with are left out. An entry that was no file is submitted too, but
    nobody can run it, so the benchmark's page does not take it.

    Parameters
    ----------
    comparison : Comparison
        What `tvwrl.compare` returned.
    folder : str | Path
        A new folder.
    name : str
        Whose submission it is; not empty.
    contact : str, optional
        An address for questions.
    files : Sequence[str | Path], default ()
        What a Python file imports or reads from its own folder, such as weights; copied beside it.

    Returns
    -------
    Path
        The folder of the submission.

    Raises
    ------
    InputError
        For a comparison that does not play all sequences of its task, a superseded task, an empty name, an entry that
        left workloads unplaced (the check refuses it), an entry with the name of one of our schedulers, entries that
        observed parts, files of the same name, an entry that cannot be loaded from the folder, and a folder that is not
        empty.
    """
    import polars as pl

    task = comparison.task
    if task.name in SUPERSEDED_TASKS:
        raise InputError(f"task {task.name} is superseded, and not ranked any more: compare on the newer version")
    if isinstance(files, str | Path):
        raise InputError(f"files is {files!r}: must be a list of files, as in files=['weights.pt']")
    if not name.strip():
        raise InputError("name is empty: say whose submission it is")
    if comparison.sequences < task.sequences:
        raise InputError(
            f"the comparison has {comparison.sequences} of the {task.sequences} sequences of task {task.name}: compare "
            "on all of them (without the argument sequences)"
        )
    if comparison.parts:
        raise InputError(
            f"entries observed parts ({', '.join(comparison.parts)}), which a submission cannot hold: compare an entry "
            "that makes what it needs of the standard observation itself"
        )
    _check_names(comparison.knowledge, "this comparison")
    rows = pl.read_csv(comparison.folder / ROWS_FILE, schema_overrides={"scheduler": pl.String})
    rows = rows.filter(pl.col("scheduler").is_in(list(comparison.knowledge)))
    for (entry,), what in incomplete_by(rows, ["scheduler"]).items():
        raise InputError(f"entry '{entry}': {what}: a schedule has a reward only if all workloads are placed")
    copied = _different_files([*comparison.files.values(), *map(Path, files)])
    about = {
        "name": name,
        "contact": contact,
        "task": task.as_dict(),
        "entries": {
            entry: {"origin": comparison.origins[entry], "knowledge": known._asdict()}
            | ({"file": comparison.files[entry].name} if entry in comparison.files else {})
            | {"observe": dict(comparison.observe)}
            for entry, known in comparison.knowledge.items()
        },
    }
    own = pl.col("scheduler").is_in(list(comparison.knowledge))
    with whole_folder(Path(folder)) as partial:
        rows.write_csv(partial / ROWS_FILE)
        comparison.episodes.filter(own).write_parquet(partial / EPISODES)
        if task.scenario.moves_per_slot:
            pl.read_parquet(comparison.folder / MOVES).filter(own).write_parquet(partial / MOVES)
        for file in copied:
            (partial / ENTRIES).mkdir(exist_ok=True)
            shutil.copyfile(file, partial / ENTRIES / file.name)
        write_json(partial / ABOUT, about | {"provenance": provenance()})
        for entry, file in comparison.files.items():
            _try(entry, partial / ENTRIES / file.name, comparison)
    for entry in comparison.knowledge:
        if entry not in comparison.files:
            say(f"entry '{entry}' is no file: it can be replayed but not run, so the benchmark's page does not take it")
    say(f"check it as we do: tvwrl benchmark --check {folder}")
    return Path(folder)


def _try(entry: str, file: Path, comparison: Comparison) -> None:
    """Load an entry from the folder that is submitted. Raises InputError if that fails."""
    try:
        entry_of(entry, file, Setting.of_submission(comparison.task), comparison.observe).close()
    except InputError as error:
        raise InputError(
            f"{error}; it is loaded from a copy of its file, in an empty folder: name what it reads or imports in "
            "files=[...], and let it find its files by Path(__file__).parent"
        ) from error


def check_submission(folder: str | Path) -> pl.DataFrame:
    """Replay every episode of the submission in `folder`; returns its rows, recomputed, with the submitted
    `decision_ms`.

    Parameters
    ----------
    folder : str | Path
        The folder of the submission.

    Returns
    -------
    pl.DataFrame
        The rows that replaying it gives.

    Raises
    ------
    InputError
        As `read_submission` does, for a trace that is not on this machine, a table that is missing or damaged, an entry
        that left workloads unplaced, with their count, times above the task's limit, and the first line of
        `episodes.parquet`, `moves.parquet` or `rows.csv` that differs from the task or the replay. The first row of
        each file is line 2.
    """
    about = read_submission(folder)
    return replay(Path(folder), about.knowledge, about.task)


def read_submission(folder: str | Path) -> Submission:
    """Read `submission.json` of the submission in `folder`, without the tables.

    Parameters
    ----------
    folder : str | Path
        The folder of the submission.

    Returns
    -------
    Submission
        The submission.

    Raises
    ------
    InputError
        For a file that is missing or damaged, an unknown task, a task with another definition here (the message names
        the field), an entry with an invalid name or that of one of our schedulers, an unknown knowledge group, a file
        that is not in `entries/`, and fields that entrants may not choose.
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
    files, observe = {}, {}
    for entry, said in about["entries"].items():
        if (file := said.get("file")) is not None:
            files[entry] = _file_of(entry, file, path)
        observe[entry] = _observe_of(entry, said.get("observe", {}), path)
    return Submission(about["name"], _task_of(about["task"], path), knowledge, files, observe)


def _different_files(files: Sequence[Path]) -> list[Path]:
    """The files, each once. Raises InputError for what is no file, and for two of the same name."""
    found: dict[str, Path] = {}
    for file in files:
        if not file.is_file():
            raise InputError(f"{file}: no such file")
        if found.setdefault(file.name, file).resolve() != file.resolve():
            raise InputError(f"{found[file.name]} and {file} have the same name, but go into one folder: rename one")
    return list(found.values())


def _file_of(entry: str, file: Any, path: Path) -> Path:
    """The file of an entry. Raises InputError unless it lies in `entries/` and can be run."""
    where = f"{path}: entries.{entry}.file is {file!r}"
    if not isinstance(file, str) or Path(file).name != file or Path(file).suffix not in (ONNX, PYTHON):
        raise InputError(f"{where}: must be the name of a {PYTHON} or {ONNX} file in {ENTRIES}/")
    found = path.parent / ENTRIES / file
    if not found.is_file() or found.is_symlink():
        raise InputError(f"{where}: there is no such file in {found.parent}")
    return found


def _observe_of(entry: str, fields: Any, path: Path) -> dict[str, Any]:
    """What an entry observes differently. Raises InputError for fields that entrants may not choose."""
    if not isinstance(fields, dict):
        raise InputError(f"{path}: entries.{entry}.observe is {fields!r}: must be an object")
    try:
        check_observed(fields)
    except InputError as error:
        raise InputError(f"{path}: entries.{entry}.observe: {error}") from error
    return fields


def _check_names(entries: Iterable[str], where: str) -> None:
    """Raise InputError for an invalid name, and for that of one of our schedulers."""
    for entry in entries:
        if not NAME.fullmatch(entry):
            raise InputError(f"{where}: entry '{entry}': {NAME_RULE}")
        if entry in (*SCHEDULERS, *AGAINST_MOVES):
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
