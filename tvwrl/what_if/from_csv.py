"""A cluster's past from tables that a user brings: docs/how-to/what-if.md describes their columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.input_tables import InputTable, quoted
from tvwrl.types import Float, InputError
from tvwrl.what_if.pools import DEAREST, GPU
from tvwrl.what_if.recorded import Recorded, record_of

if TYPE_CHECKING:
    import polars as pl

USAGE = ("pod", "time", "cpu", "memory")
ALSO = ("node", "request_cpu", "request_memory", "owner")
IMPOSSIBLE = 2.0  # usage of all nodes; more is another unit, or most nodes are missing
NODES = ("node", "cpu", "memory")
ABOUT_NODES = ("kind", "price", "pool", "role", "gpus")  # what else may be known of one
MOST = 1e5  # cores or GiB of one machine; what is above it is in another unit
YEAR_10000 = 253_402_300_800.0  # seconds since 1970


def read_csv_record(usage: Path, nodes: Path, interval: int) -> Recorded:
    """The record in two tables, with slots of `interval` seconds; samples of one pod and slot are averaged.

    `usage`, `nodes`: CSV or Parquet files, with the columns of docs/how-to/what-if.md

    Raises InputError, with file, row and column, for what cannot be used.
    """
    import polars as pl

    sizes = InputTable.read(nodes)
    sizes.need(*NODES)
    sizes.only((*NODES, *ABOUT_NODES), "no column of this table")
    sizes.need_rows()
    size = {name: _size(sizes, column) for name, column in (("cpu", "cpu"), ("mem", "memory"))}
    names = sizes.names("node")
    for row, name in enumerate(names):
        if name in names[:row]:
            sizes.refuse(row, f"node is '{name}', as in a row above: each node must be there once")
    table = InputTable.read(usage)
    table.need(*USAGE)
    table.only((*USAGE, *ALSO), "no column of this table")
    table.need_rows()
    text = {name: _text(table, name) for name in ("node", "owner")}
    seconds = _seconds(table)
    rows = pl.DataFrame(
        {
            "pod": table.names("pod"),
            "time": seconds,
            "slot": (seconds // interval).astype(np.int64),
            "cpu": table.numbers("cpu", 0, MOST),
            "mem": table.numbers("memory", 0, MOST),
            "node": text["node"],
            "owner": text["owner"],
            "request_cpu": _optional(table, "request_cpu"),
            "request_mem": _optional(table, "request_memory"),
        },
        schema_overrides={"pod": pl.String, "node": pl.String, "owner": pl.String},
    )
    _refuse_contradictions(table, rows)
    rows = rows.sort("time", maintain_order=True)
    rows = rows.with_columns(pl.col("request_cpu", "request_mem").fill_nan(None))
    pods = rows.group_by("pod").agg(pl.col("owner").drop_nulls().last())
    known = pl.DataFrame({"node": names, **size, **_about(sizes)}, schema_overrides={"node": pl.String})
    recorded = record_of(str(usage), rows.drop("time", "owner"), pods, known, interval)
    for share, column, unit in zip(recorded.utilisation, ("cpu", "memory"), ("cores", "GiB"), strict=True):
        if share > IMPOSSIBLE:
            raise InputError(
                f"{usage}: column {column}: the pods use {share:.0%} of what the nodes in {nodes} have; it must be in "
                f"{unit}"
            )
    return recorded


def _refuse_contradictions(table: InputTable, rows: pl.DataFrame) -> None:
    """Refuse two samples of a pod at one time that differ: those of its containers, say, which nobody has summed."""
    import polars as pl

    key = ["pod", "time"]
    differ = (pl.col("cpu").n_unique().over(key) > 1) | (pl.col("mem").n_unique().over(key) > 1)
    if (wrong := rows.select(differ).to_series().arg_true()).is_empty():
        return
    row = int(wrong[1])
    table.refuse(
        row,
        f"pod is '{rows['pod'][row]}', with other usage than in an earlier row of the same time: give one row for each "
        "pod and time, with the sum over its containers",
    )


def _about(table: InputTable) -> dict[str, Any]:
    """Kind, price and pools of nodes, empty where they are not known."""
    gpus = np.nan_to_num(_optional(table, "gpus"))
    called = zip(_text(table, "pool"), _text(table, "role"), gpus, strict=True)
    pools = [[name for name in (pool, role, GPU if count else None) if name] for pool, role, count in called]
    price = _optional(table, "price", DEAREST)
    return {"kind": _text(table, "kind").fill_null(""), "price": price, "pools": pools}


def _size(table: InputTable, column: str) -> Float:
    values = table.numbers(column, 0, MOST)
    if not values.all():
        table.refuse(int(np.argmin(values)), f"{column} is 0: must be a number above 0")
    return values


def _text(table: InputTable, column: str) -> pl.Series:
    """A column that may be empty, or absent."""
    import polars as pl

    if column not in table.columns:
        return pl.Series(column, [None] * len(table), dtype=pl.String)
    return table.text(column)


def _optional(table: InputTable, column: str, most: float = MOST) -> Float:
    """(rows,) numbers of a column that may be empty or absent: NaN there."""
    if column not in table.columns:
        return np.full(len(table), np.nan)
    empty = table.frame[column].is_null().to_numpy()
    filled = table.frame.with_columns(table.frame[column].fill_null("0" if table.frame[column].dtype == str else 0))
    values = InputTable(table.source, filled).numbers(column, 0, most)
    return np.where(empty, np.nan, values)


def _seconds(table: InputTable) -> Float:
    """(rows,) seconds since 1970 of `time`: such numbers, or 2026-01-31T12:00:00Z (UTC unless it says otherwise)."""
    import polars as pl

    given = table.frame["time"]
    if given.dtype.is_temporal():
        given = given.dt.epoch("us") / 1e6
    seconds = given.cast(pl.Float64, strict=False)
    if seconds.null_count() > given.null_count():
        moments = given.cast(pl.String).str.to_datetime(time_zone="UTC", strict=False).dt.epoch("us") / 1e6
        seconds = seconds.fill_null(moments)
    values = seconds.fill_null(np.nan).to_numpy().astype(np.float64)
    good = (values >= 0) & (values < YEAR_10000)
    if not good.all():
        row = int(np.argmin(good))
        wanted = "needed: 2026-01-31T12:00:00Z, or seconds since 1970"
        table.refuse(row, f"time is {quoted(table.frame['time'][row])}: {wanted}")
    return values
