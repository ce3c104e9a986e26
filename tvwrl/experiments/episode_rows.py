"""Rows of evaluated episodes, with gaps to the bounds; and what an incomplete episode does to a scheduler's means.

An episode in which a workload was never placed has no measures (`tvwrl.metrics.score_episode`). A mean over the other
sequences would be over a selection that the scheduler made itself, and it could leave out those it is bad at. So a
scheduler with such an episode has no mean, no interval, no paired difference and no gap; it comes after all others in
every order, and the tables say how many sequences and workloads are missing (`incomplete`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tvwrl.metrics import is_measure
from tvwrl.types import Episode, InputError, SequenceSet

if TYPE_CHECKING:
    import polars as pl

UNPLACED = "unplaced"  # the column that says how many workloads an episode did not place
GAPS = {  # column that is added -> column of the rows, its bound
    "peak_gap_pct": ("peak_machines", "lower_bound_peak_machines"),
    "slots_gap_pct": ("machine_slots", "lower_bound_machine_slots"),
    "slots_gap_waiting_pct": ("machine_slots", "lower_bound_machine_slots_waiting"),
}
REWARD_BOUND = "reward_bound"  # column of bounds.csv that is added to the rows as it is


def table_of(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Rows of `score_episode` as a table; whole numbers and NaN may share a column."""
    import polars as pl

    return pl.DataFrame(rows, infer_schema_length=None)


def write_rows(rows: pl.DataFrame, path: str | Path) -> None:
    """Write rows.csv: a measure that an incomplete episode does not have is an empty field."""
    rows.fill_nan(None).write_csv(path)


def read_rows(folder: str | Path) -> pl.DataFrame:
    """rows.csv of an evaluation's folder, with gaps if bounds.csv lies beside it.

    The measures of incomplete episodes are NaN, also those that an older version wrote down: then a mean that polars
    takes over them is NaN too, where it would silently leave out a null.

    Parameters
    ----------
    folder : str | Path
        Of an evaluation.

    Returns
    -------
    pl.DataFrame
        A row for each scheduler, load and sequence, with the columns of `tvwrl.metrics.score_episode`.
    """
    import polars as pl

    folder = Path(folder)
    found = pl.read_csv(folder / "rows.csv", schema_overrides={"scheduler": pl.String}, infer_schema_length=None)
    empty = [name for name in found.columns if name != "scheduler" and found[name].null_count() == len(found)]
    rows = complete_only(found.with_columns(pl.col(empty).cast(pl.Float64)))  # polars takes such columns for text
    bounds = folder / "bounds.csv"
    return with_gaps(rows, pl.read_csv(bounds)) if bounds.exists() else rows


def with_gaps(rows: pl.DataFrame, bounds: pl.DataFrame) -> pl.DataFrame:
    """The rows with how far, in percent of the lower bound of the same load and sequence, they lie above it (`GAPS`).

    Below it: where the scheduler overshoots or, but for `slots_gap_waiting_pct`, lets workloads wait. A bound on the
    reward is added as it is. `bounds`:
    bounds.csv (docs/reference/run-files.md). Raises InputError for a row without a bound.
    """
    import polars as pl

    names = [bound for _, bound in GAPS.values()]
    kept = [REWARD_BOUND] if REWARD_BOUND in bounds.columns else []
    joined = rows.join(bounds.select("load", "sequence", *names, *kept), on=["load", "sequence"], how="left")
    if joined[names[0]].null_count():
        load, sequence = joined.filter(pl.col(names[0]).is_null()).select("load", "sequence").row(0)
        raise InputError(f"bounds lack load {load:g}, sequence {sequence}")
    gaps = [(100.0 * (pl.col(column) / pl.col(name) - 1.0)).alias(gap) for gap, (column, name) in GAPS.items()]
    return joined.with_columns(gaps).drop(names)


def complete_only(rows: pl.DataFrame, by: Sequence[str] = ()) -> pl.DataFrame:
    """The rows, without the measures (NaN) of incomplete episodes; and, if columns are given in `by`, without those of
    all rows that agree with one in these columns.

    Rows without the column `unplaced` are taken as they are.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"scheduler": ["a", "a", "b"], "unplaced": [0, 3, 0], "reward": [-5.0, 0.0, -7.0]})
    >>> complete_only(rows)["reward"].to_list()
    [-5.0, nan, -7.0]
    >>> complete_only(rows, by=["scheduler"])["reward"].to_list()
    [nan, nan, -7.0]
    """
    import polars as pl

    if UNPLACED not in rows.columns or not (rows[UNPLACED] > 0).any():
        return rows
    some = pl.col(UNPLACED).fill_null(0) > 0
    nothing = (some.any().over(by) if by else some).alias("")
    measures = [name for name in rows.columns if is_measure(name) or name in GAPS]
    return rows.with_columns(
        pl.when(nothing).then(float("nan")).otherwise(pl.col(name)).alias(name) for name in measures
    )


def incomplete(unplaced: npt.ArrayLike, times: npt.ArrayLike | None = None) -> str:
    """What is missing, in words, if anything is.

    `unplaced` (n,): workloads that were never placed, by sequence
    `times` (n,): of decisions; NaN on the last sequences if the scheduler was not asked on these

    >>> incomplete([0, 3, 1])
    '2 of 3 sequences incomplete, 4 workloads not placed'
    >>> incomplete([0, 0])
    ''
    >>> incomplete([4, 5, 6, 7, 8], [0.1, 0.2, 0.1, np.nan, np.nan])
    '3 of 3 sequences incomplete, 15 workloads not placed; for that reason not asked on the other 2'
    """
    left = np.nan_to_num(np.asarray(unplaced, dtype=np.float64))
    asked = len(left)
    if times is not None and len(timed := np.flatnonzero(~np.isnan(np.asarray(times, dtype=np.float64)))):
        asked = int(timed[-1]) + 1
    others, total = len(left) - asked, int(left[:asked].sum())
    if not total:
        return ""
    return (
        f"{int((left[:asked] > 0).sum())} of {asked} sequence{'s' * (asked != 1)} incomplete, "
        f"{total} workload{'s' * (total != 1)} not placed"
        + (f"; for that reason not asked on the other {others}" if others else "")
    )


def incomplete_by(rows: pl.DataFrame, by: Sequence[str]) -> dict[tuple[Any, ...], str]:
    """Values of the columns `by` -> what is missing there, in words (`incomplete`); only where something is."""
    if UNPLACED not in rows.columns:
        return {}
    found = {}
    for values, part in rows.group_by(by, maintain_order=True):
        times = part["decision_ms"].to_numpy() if "decision_ms" in part.columns else None
        if what := incomplete(part[UNPLACED].to_numpy(), times):
            found[values] = what
    return found


def no_value(what: str) -> str:
    """The cell of a table where a scheduler has no mean; empty if nothing is missing (`what` of `incomplete`)."""
    return f"- ({what})" if what else ""


def episode_table(episode: Episode) -> pl.DataFrame:
    """Rows of episodes.parquet: one per workload; where workloads may move, with how often each did."""
    import polars as pl

    count, moves = len(episode.workload_id), episode.moves
    moved = {} if moves is None else {"moves": np.bincount(moves.workload, minlength=count)}
    return pl.DataFrame(
        {
            "scheduler": [episode.scheduler] * count,
            "load": [float(episode.load)] * count,
            "sequence": np.full(count, episode.sequence),
            "workload_id": episode.workload_id.tolist(),
            "source_workload": episode.source_workload.tolist(),
            "source_slot": episode.source_slot,
            "arrival": episode.arrival,
            "start": episode.start,
            "finish": episode.finish,
            "machine": episode.machine,
            **moved,
        }
    )


def moves_table(episode: Episode) -> pl.DataFrame:
    """Rows of moves.parquet: one per move, in the order in which they were decided."""
    import polars as pl

    moves = episode.moves
    assert moves is not None
    count = len(moves)
    return pl.DataFrame(
        {
            "scheduler": pl.Series([episode.scheduler] * count, dtype=pl.String),
            "load": np.full(count, float(episode.load)),
            "sequence": np.full(count, episode.sequence),
            "workload_id": pl.Series(episode.workload_id[moves.workload].tolist(), dtype=pl.String),
            "slot": moves.slot,
            "from": moves.source,
            "to": moves.target,
        }
    )


def demand_table(drawn: SequenceSet) -> pl.DataFrame:
    """Rows of demand.parquet: one per sequence, workload and slot of its life."""
    import polars as pl

    runs = np.arange(drawn.demand.shape[2]) < drawn.length[..., None]  # (S, N, L)
    sequence, workload, slot = np.nonzero(runs)
    columns = {name: drawn.demand[..., d][runs] for d, name in enumerate(drawn.resources)}
    return pl.DataFrame(
        {
            "load": np.full(len(slot), float(drawn.load)),
            "sequence": sequence,
            "workload_id": drawn.workload_id[sequence, workload].tolist(),
            "slot": slot,
            **columns,
        }
    )


def background_table(drawn: SequenceSet, background: npt.NDArray[np.uint8]) -> pl.DataFrame:
    """Rows of background.parquet: one per sequence, slot of the period and machine."""
    import polars as pl

    sequence, slot, machine = (index.ravel() for index in np.indices(background.shape[:3]))
    columns = {name: background[..., d].ravel() for d, name in enumerate(drawn.resources)}
    load = np.full(len(slot), float(drawn.load))
    return pl.DataFrame({"load": load, "sequence": sequence, "slot": slot, "machine": machine, **columns})
