"""Check the tables of a submission: replay every episode and recompute every number.

Lines are numbered as in a text file whose first line names the columns: the first row of either table is line 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tvwrl.benchmark.tasks import Task, problem_of
from tvwrl.envs import Problem
from tvwrl.experiments import EPISODES, incomplete
from tvwrl.schedulers import MAX_IDLE_SLOTS
from tvwrl.types import Episode, InputError, SequenceSet

if TYPE_CHECKING:
    import polars as pl

ROWS_FILE = "rows.csv"
TEXTS = ("scheduler", "workload_id", "source_workload")  # columns of episodes.parquet
NUMBERS = ("sequence", "source_slot", "arrival", "start", "finish", "machine")
PLAYED = ("workload_id", "source_workload", "source_slot", "arrival", "start", "finish", "machine")
DRAWN = PLAYED[:4]  # set by the task
TOLERANCE = 1e-9  # relative and absolute, since sums may be in another order
UNSEEN = ("decision_ms",)  # columns of rows that no replay can compute


def replay(folder: Path, entries: Collection[str], task: Task) -> pl.DataFrame:
    """The rows of a submission, recomputed, with the submitted `decision_ms`; `entries`: their names, in order.

    Raises InputError for a table that is missing or damaged, for an entry that left workloads unplaced, which has no
    reward to compare, and for the first line that differs from the task or the replay.
    """
    import polars as pl

    problem, path = problem_of(task), folder / ROWS_FILE
    drawn = problem.sequences(task.split, task.sequences, task.seed)
    rows, episodes = _read_rows(path), _read_episodes(folder / EPISODES)
    _check_coverage(entries, task, rows, path)
    _check_complete(episodes, folder / EPISODES)
    replayed = []
    for number, part in enumerate(episodes.partition_by("scheduler", "sequence", maintain_order=True)):
        if number == len(rows):
            raise InputError(f"{folder / EPISODES}, line {part['line'][0]}: {ROWS_FILE} has no row for this episode")
        episode = _episode(part, task, drawn, folder / EPISODES)
        _check_rules(episode, task, part["line"].to_list(), folder / EPISODES)
        found = _scored(problem, episode, part["line"].to_list(), folder / EPISODES)
        _compare_row(found, rows, number, path)
        replayed.append(found | {"decision_ms": rows["decision_ms"][number]})
    if len(replayed) < len(rows):
        raise InputError(f"{path}, line {len(replayed) + 2}: {EPISODES} has no episode for it")
    _check_times(rows, task, path)
    return pl.DataFrame(replayed, infer_schema_length=None)


def _read_rows(path: Path) -> pl.DataFrame:
    """Read rows.csv, and check that sequences are whole numbers and times are finite and >= 0."""
    import polars as pl

    names = {"scheduler": pl.String}
    rows = _read(path, lambda file: pl.read_csv(file, schema_overrides=names, infer_schema_length=None))
    _need(rows, ("scheduler", "sequence", "decision_ms"), path)
    rows = rows.with_columns(line=pl.int_range(2, pl.len() + 2))
    _all(rows, "sequence", _whole(rows["sequence"]), "a whole number", path)
    times = rows["decision_ms"].cast(pl.Float64, strict=False).fill_null(math.nan)
    _all(rows, "decision_ms", (times.is_finite() & (times >= 0)).to_numpy(), "a number of milliseconds >= 0", path)
    return rows.with_columns(decision_ms=times)


def _read_episodes(path: Path) -> pl.DataFrame:
    """Read episodes.parquet: the columns that are replayed, and the line of each row."""
    import polars as pl

    episodes = _read(path, pl.read_parquet)
    _need(episodes, ("load", *TEXTS, *NUMBERS), path)
    episodes = episodes.select("load", *TEXTS, *NUMBERS).with_columns(line=pl.int_range(2, pl.len() + 2))
    for column in NUMBERS:
        _all(episodes, column, _whole(episodes[column]), "a whole number", path)
    for column in TEXTS:
        good = episodes[column].is_not_null().to_numpy() & (episodes.schema[column] == pl.String)
        _all(episodes, column, good, "text", path)
    return episodes.with_columns(pl.col(*NUMBERS).cast(pl.Int64))


def _read(path: Path, read: Callable[[Path], pl.DataFrame]) -> pl.DataFrame:
    try:
        return read(path)
    except Exception as error:  # polars has many exceptions for damaged files
        raise InputError(f"{path} cannot be read: {(str(error) or type(error).__name__).splitlines()[0]}") from error


def _need(frame: pl.DataFrame, columns: Sequence[str], path: Path) -> None:
    if missing := sorted(set(columns) - set(frame.columns)):
        raise InputError(f"{path}: column {missing[0]} is missing")


def _whole(column: pl.Series) -> npt.NDArray[np.bool_]:
    """(rows,) where the column holds an integer; nowhere if it has another type."""
    import polars as pl

    if not column.dtype.is_integer():
        return np.zeros(len(column), np.bool_)
    return column.cast(pl.Int64, strict=False).is_not_null().to_numpy()


def _all(frame: pl.DataFrame, column: str, good: npt.NDArray[np.bool_], what: str, path: Path) -> None:
    """Raise InputError that names the first line whose value is not `good`."""
    if len(bad := np.flatnonzero(~good)):
        line, value = frame["line"][int(bad[0])], " ".join(repr(frame[column][int(bad[0])]).split())
        stored = f" (the column holds {frame.schema[column]})" if not good.any() else ""
        raise InputError(f"{path}, line {line}: {column} is {value}: must be {what}{stored}")


def _check_coverage(entries: Collection[str], task: Task, rows: pl.DataFrame, path: Path) -> None:
    """Raise InputError unless every entry has one row per sequence, entry by entry."""
    wanted = [(entry, sequence) for entry in entries for sequence in range(task.sequences)]
    found = list(zip(rows["scheduler"], rows["sequence"], strict=True))
    for line, (want, have) in enumerate(zip(wanted, found, strict=False), 2):
        if want != have:
            raise InputError(
                f"{path}, line {line}: the row is of {have[0]}, sequence {have[1]}; expected {want[0]}, {want[1]}"
            )
    if len(found) != len(wanted):
        raise InputError(f"{path} has {len(found)} rows: must have {len(wanted)}, one per entry and sequence")


def _check_complete(episodes: pl.DataFrame, path: Path) -> None:
    """Raise InputError for the first entry with incomplete episodes, and say how many workloads it did not place."""
    import polars as pl

    missing = pl.col("start") < 0
    for (entry,), own in episodes.group_by("scheduler", maintain_order=True):
        left = own.group_by("sequence").agg(missing.sum())["start"].to_numpy()
        if what := incomplete(left):
            line = own.filter(missing)["line"][0]
            raise InputError(
                f"{path}, line {line}: {entry}: {what}: a schedule has a reward only if every workload has a start"
            )


def _episode(part: pl.DataFrame, task: Task, drawn: SequenceSet, path: Path) -> Episode:
    """The submitted placements with the arrivals and demand of the task. Raises InputError for the first line that
    differs from the task."""
    scheduler, sequence = part.select("scheduler", "sequence").row(0)
    where = f"{path}, line {part['line'][0]} ({scheduler}, sequence {sequence})"
    if not 0 <= sequence < len(drawn):
        raise InputError(f"{where}: sequence {sequence}: task {task.name} has 0 to {len(drawn) - 1}")
    if len(part) != drawn.arrival.shape[1]:
        raise InputError(f"{where}: it has {len(part)} workloads, the task's sequence has {drawn.arrival.shape[1]}")
    set_by_task = {name: getattr(drawn, name)[sequence].tolist() for name in DRAWN}
    set_by_task["load"] = [task.scenario.load] * len(part)
    for column, ours in set_by_task.items():
        for line, mine, own in zip(part["line"], part[column].to_list(), ours, strict=True):
            if mine != own:
                raise InputError(
                    f"{path}, line {line} ({scheduler}, sequence {sequence}): {column} is {mine}, not {own}"
                )
    played: dict[str, Any] = {name: part[name].to_numpy() for name in PLAYED}
    return Episode(
        **played,
        demand=tuple(drawn.workload(sequence, i).demand for i in range(len(part))),
        scheduler=scheduler,
        load=task.scenario.load,
        sequence=sequence,
        decision_ms=float("nan"),
        resources=drawn.resources,
        background=None if drawn.background is None else drawn.background[sequence],
    )


def _check_rules(episode: Episode, task: Task, lines: Sequence[int], path: Path) -> None:
    """Check what the referee does not know: when an episode ends, how many workloads may be placed in a slot, and from
    which places in the queue. `lines`: of the workloads in the file."""
    scenario, of = task.scenario, f"({episode.scheduler}, sequence {episode.sequence})"
    latest = int(episode.arrival.max()) + MAX_IDLE_SLOTS * len(lines)
    if len(late := np.flatnonzero(episode.start > latest)):
        slot = episode.start[late[0]]
        raise InputError(f"{path}, line {lines[late[0]]} {of}: start is {slot}, long after the episode's end")
    order = np.argsort(episode.arrival, kind="stable")
    for slot in np.unique(episode.start[episode.start >= 0]):
        waits = [i for i in order if episode.arrival[i] <= slot and not 0 <= episode.start[i] < slot]
        placed = [place for place, i in enumerate(waits) if episode.start[i] == slot]
        if scenario.placements_per_slot is not None and len(placed) > scenario.placements_per_slot:
            raise InputError(
                f"{path}, line {lines[waits[placed[-1]]]} {of}: {len(placed)} workloads start in slot {slot}, the task "
                f"allows {scenario.placements_per_slot}"
            )
        for before, place in enumerate(placed):
            if place - before >= scenario.queue:
                raise InputError(
                    f"{path}, line {lines[waits[place]]} {of}: workload {episode.workload_id[waits[place]]} starts in "
                    f"slot {slot} from place {place - before + 1} of the queue, of which only {scenario.queue} are seen"
                )


def _scored(problem: Problem, episode: Episode, lines: Sequence[int], path: Path) -> dict[str, Any]:
    """The referee's row. Raises InputError that names the line if the episode contradicts itself."""
    try:
        return problem.score(episode)
    except InputError as error:  # it names the workload, in quotes
        told = zip(lines, episode.workload_id, strict=True)
        line = next((line for line, workload in told if repr(workload) in str(error)), lines[0])
        raise InputError(f"{path}, line {line}: {error}") from error


def _compare_row(found: dict[str, Any], rows: pl.DataFrame, number: int, path: Path) -> None:
    """Raise InputError if a row differs from the replay."""
    row = rows.row(number, named=True)
    for column, value in found.items():
        if column not in row:
            raise InputError(f"{path}: column {column} is missing")
        if column not in UNSEEN and not _same(value, row[column]):
            where = f"{path}, line {row['line']} ({found['scheduler']}, sequence {found['sequence']})"
            raise InputError(f"{where}: {column} is {row[column]}, the replay of {EPISODES} gives {value}")


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, str) or not isinstance(theirs, int | float):
        return str(ours) == str(theirs) or (theirs is None and ours != ours)
    return math.isclose(ours, theirs, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (ours != ours and theirs != theirs)


def _check_times(rows: pl.DataFrame, task: Task, path: Path) -> None:
    """Raise InputError for an entry whose decisions took longer on average than the task allows."""
    for (entry, *_), own in rows.group_by("scheduler", maintain_order=True):
        took = float(own["decision_ms"].mean())  # type: ignore[arg-type]
        if took > task.milliseconds:
            raise InputError(
                f"{path}, from line {own['line'][0]}: decision_ms of {entry} is {took:.3g} on average, task "
                f"{task.name} allows {task.milliseconds:g}"
            )
