"""Check the tables of a submission: replay every episode and recompute every number.

Lines are numbered as in a text file whose first line names the columns: the first row of either table is line 2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tvwrl.benchmark.tasks import Task, problem_of
from tvwrl.envs import Problem
from tvwrl.experiments import EPISODES, incomplete
from tvwrl.metrics import MOVES
from tvwrl.packing import fits
from tvwrl.schedulers import MAX_IDLE_SLOTS
from tvwrl.types import Episode, Float, InputError, Machines, Moves, SequenceSet

if TYPE_CHECKING:
    import polars as pl

ROWS_FILE = "rows.csv"
TEXTS = ("scheduler", "workload_id", "source_workload")  # columns of episodes.parquet
NUMBERS = ("sequence", "source_slot", "arrival", "start", "finish", "machine")
PLAYED = ("workload_id", "source_workload", "source_slot", "arrival", "start", "finish", "machine")
DRAWN = PLAYED[:4]  # set by the task
COUNT = "moves"  # column of episodes.parquet where workloads may move: how often each did
MOVED, MOVED_NUMBERS = ("scheduler", "workload_id"), ("sequence", "slot", "from", "to")  # columns of moves.parquet
TOLERANCE = 1e-9  # relative and absolute, since sums may be in another order
NOBODY = ("", -1)  # entry and sequence of no episode
UNSEEN = ("decision_ms",)  # columns of rows that no replay can compute


def replay(folder: Path, entries: Collection[str], task: Task) -> pl.DataFrame:
    """The rows of a submission, recomputed, with the submitted `decision_ms`; `entries`: their names, in order.

    Raises InputError for a table that is missing or damaged, for an entry that left workloads unplaced, which has no
    reward to compare, and for the first line that differs from the task or the replay.
    """
    import polars as pl

    problem, path = problem_of(task), folder / ROWS_FILE
    drawn = problem.sequences(task.split, task.sequences, task.seed)
    rows, episodes = _read_rows(path), _read_episodes(folder / EPISODES, task)
    moves = _read_moves(folder / MOVES, task) if task.scenario.moves_per_slot else None
    _check_coverage(entries, task, rows, path)
    _check_complete(episodes, folder / EPISODES)
    replayed = []
    for number, part in enumerate(episodes.partition_by("scheduler", "sequence", maintain_order=True)):
        if number == len(rows):
            raise InputError(f"{folder / EPISODES}, line {part['line'][0]}: {ROWS_FILE} has no row for this episode")
        episode, lines = _episode(part, task, drawn, folder / EPISODES), part["line"].to_list()
        own = None if moves is None else moves.pop((episode.scheduler, episode.sequence), moves[NOBODY])
        if own is not None:
            episode = _with_moves(episode, own, part, task, folder)
        _check_rules(episode, task, lines, folder / EPISODES)
        found = _scored(problem, episode, lines, own, folder)
        if own is not None:
            _check_room(episode, task, problem.machines, own, folder / MOVES)
        _compare_row(found, rows, number, path)
        replayed.append(found | {"decision_ms": rows["decision_ms"][number]})
    if len(replayed) < len(rows):
        raise InputError(f"{path}, line {len(replayed) + 2}: {EPISODES} has no episode for it")
    if moves is not None:
        for (entry, sequence), own in moves.items():
            if len(own):
                where = f"{folder / MOVES}, line {own['line'][0]}"
                raise InputError(f"{where}: {EPISODES} has no episode of {entry}, sequence {sequence}")
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


def _read_episodes(path: Path, task: Task) -> pl.DataFrame:
    """Read episodes.parquet: the columns that are replayed, and the line of each row."""
    return _read_table(path, TEXTS, (*NUMBERS, COUNT) if task.scenario.moves_per_slot else NUMBERS)


def _read_moves(path: Path, task: Task) -> dict[tuple[str, int], pl.DataFrame]:
    """(entry, sequence) -> its moves in moves.parquet, in order, with the line of each; `NOBODY` -> none."""
    moves = _read_table(path, MOVED, MOVED_NUMBERS)
    _all(moves, "load", (moves["load"] == task.scenario.load).to_numpy(), f"{task.scenario.load}", path)
    found = {part.select("scheduler", "sequence").row(0): part for part in moves.partition_by("scheduler", "sequence")}
    return {NOBODY: moves.clear()} | found


def _read_table(path: Path, texts: Sequence[str], numbers: Sequence[str]) -> pl.DataFrame:
    """Read a table of episodes, and number its lines. Raises InputError for columns without text or whole numbers."""
    import polars as pl

    table = _read(path, pl.read_parquet)
    _need(table, ("load", *texts, *numbers), path)
    table = table.select("load", *texts, *numbers).with_columns(line=pl.int_range(2, pl.len() + 2))
    for column in numbers:
        _all(table, column, _whole(table[column]), "a whole number", path)
    for column in texts:
        good = table[column].is_not_null().to_numpy() & (table.schema[column] == pl.String)
        _all(table, column, good, "text", path)
    return table.with_columns(pl.col(*numbers).cast(pl.Int64))


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


def _with_moves(episode: Episode, own: pl.DataFrame, part: pl.DataFrame, task: Task, folder: Path) -> Episode:
    """The episode with its moves. Raises InputError for a workload that is none of its, and where episodes.parquet
    counts others."""
    rules, of = task.scenario.move_rules(), f"({episode.scheduler}, sequence {episode.sequence})"
    assert rules is not None
    place = {workload: i for i, workload in enumerate(episode.workload_id)}
    for line, workload in own.select("line", "workload_id").rows():
        if workload not in place:
            raise InputError(f"{folder / MOVES}, line {line} {of}: there is no workload {workload!r} in the episode")
    workload = np.array([place[name] for name in own["workload_id"]], np.int64)
    counts = np.bincount(workload, minlength=len(place)).tolist()
    for line, have, count in zip(part["line"], part[COUNT].to_list(), counts, strict=True):
        if have != count:
            raise InputError(f"{folder / EPISODES}, line {line} {of}: moves is {have}, but {MOVES} has {count}")
    slot, source, target = (own[name].to_numpy() for name in ("slot", "from", "to"))
    return replace(episode, moves=Moves(workload, slot, source, target, rules))


def _check_room(episode: Episode, task: Task, machines: Machines, own: pl.DataFrame, path: Path) -> None:
    """Raise InputError for the first move to a machine without room for all that runs there after the slot's moves, by
    the usage that was measured when they were decided."""
    moves, late = episode.moves, task.scenario.usage_delay
    assert moves is not None
    decided, at = moves.slot - moves.rules.slots, episode.machine.copy()
    for slot in np.unique(decided).tolist():
        rows = np.flatnonzero(decided == slot)
        at[moves.workload[rows]] = moves.target[rows]
        load, seen = _background(episode, slot - late, machines), slot - late - episode.start
        for i in np.flatnonzero((episode.start >= 0) & (seen >= 0) & (episode.finish > slot)):
            load[at[i]] += episode.demand[i][seen[i]]
        for row in rows.tolist():
            m = moves.target[row]
            if not fits(load[m], machines.capacity[m], machines.capacity[m]):
                raise InputError(
                    f"{path}, line {own['line'][row]} ({episode.scheduler}, sequence {episode.sequence}): there is no "
                    f"room on machine {m} in slot {slot}, when it was decided: with it, it would have a load of "
                    f"{load[m].tolist()} units of {machines.capacity[m].tolist()}"
                )


def _background(episode: Episode, slot: int, machines: Machines) -> Float:
    """(M, D) units of background load in a slot."""
    if episode.background is None or slot < 0:
        return np.zeros(machines.capacity.shape)
    load: Float = episode.background[slot % len(episode.background)].astype(np.float64)
    return load


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


def _scored(
    problem: Problem, episode: Episode, lines: Sequence[int], own: pl.DataFrame | None, folder: Path
) -> dict[str, Any]:
    """The referee's row. Raises InputError that names the line if the episode contradicts itself; `own`: its moves."""
    try:
        return problem.score(episode)
    except InputError as error:  # it names the move by its row, or the workload in quotes
        if own is not None and (move := re.match(r"move (\d+)", str(error))):
            raise InputError(f"{folder / MOVES}, line {own['line'][int(move[1])]}: {error}") from error
        path, told = folder / EPISODES, zip(lines, episode.workload_id, strict=True)
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
