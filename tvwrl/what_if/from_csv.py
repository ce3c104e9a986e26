"""A cluster's past from tables that a user brings: docs/how-to/what-if.md describes their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.input_tables import InputTable, quoted
from tvwrl.types import Float, InputError
from tvwrl.what_if.recorded import Recorded, record_of, without_nodes

if TYPE_CHECKING:
    import polars as pl

CONTROL_PLANE, GPU = "control-plane", "gpu"
USUAL = (CONTROL_PLANE, GPU)  # what is left out unless somebody says otherwise
NOTHING = "none"
DEAREST = 1e6  # of an hour of a machine; what is above it is another unit


def without_pools(recorded: Recorded, names: Sequence[str]) -> Recorded:
    """The record without the nodes of some pools and the pods on them.

    `names`: names of pools, kinds or nodes, in which * stands for any letters; the usual ones need not be there, and
        `none` leaves nothing out

    Raises InputError for a name that no node has, and if nothing is left to replay.
    """
    if NOTHING in names:
        if len(names) > 1:
            raise InputError(f"excluded_nodes is {', '.join(names)}: 'none' stands alone")
        return recorded
    called = [
        (name, kind, *pools)
        for name, kind, pools in zip(recorded.node_name, recorded.kind, recorded.pools, strict=True)
    ]
    gone, found = np.zeros(len(called), np.bool_), []
    for name in names:
        meant = np.array([any(fnmatchcase(own, name) for own in of_node if own) for of_node in called])
        if not meant.any() and name not in USUAL:
            known = sorted({own for of_node in called for own in of_node[1:] if own})
            raise InputError(
                f"excluded_nodes is '{name}': no node has such a name, kind or pool; kinds and pools of this record: "
                f"{', '.join(known) or 'none are known'}"
            )
        new = meant & ~gone
        if new.any():
            found.append((name, int(new.sum()), int(new[recorded.node].sum())))
        gone |= meant
    return without_nodes(recorded, gone, found) if found else recorded


def with_prices(recorded: Recorded, prices: Mapping[str, float], otherwise: float | None = None) -> Recorded:
    """The record with the price of an hour of each node: that of its kind, or else its own, or else `otherwise`.

    Raises InputError for a kind that no node has, and if some nodes have a price and others none.
    """
    if unknown := sorted(set(prices) - set(recorded.kind)):
        kinds = ", ".join(sorted(set(recorded.kind) - {""})) or "none are known"
        raise InputError(f"prices has '{unknown[0]}': no node is of this kind; kinds of this record: {kinds}")
    price = np.array([prices.get(kind, own) for kind, own in zip(recorded.kind, recorded.price, strict=True)])
    price = np.where(np.isnan(price), np.nan if otherwise is None else otherwise, price).astype(np.float64)
    missing = np.isnan(price)
    if missing.any() and not missing.all():
        row = int(np.argmax(missing))
        of_kind = f" of kind '{recorded.kind[row]}'" if recorded.kind[row] else ", whose kind is unknown"
        raise InputError(
            f"node '{recorded.node_name[row]}'{of_kind} has no price, but others have: give one with --prices, or one "
            "for all others with --price-per-machine-hour"
        )
    return replace(recorded, price=price)


def prices_of(given: Sequence[str]) -> dict[str, float]:
    """Price of an hour by kind, from entries KIND=PRICE or from one CSV file with the columns kind and price.

    Raises InputError for anything else, and for a kind that is there twice.

    >>> prices_of(["m5.xlarge=0.192", "m5.2xlarge=0.384"])
    {'m5.xlarge': 0.192, 'm5.2xlarge': 0.384}
    """
    if len(given) == 1 and "=" not in given[0]:
        table = InputTable.read(Path(given[0]))
        table.need("kind", "price")
        table.need_rows()
        values = table.numbers("price", 0, DEAREST).tolist()
        rows = [
            (kind, value, f"{given[0]}: row {row}")
            for row, (kind, value) in enumerate(zip(table.names("kind"), values, strict=True), 1)
        ]
    else:
        rows = [_entry(entry) for entry in given]
    found: dict[str, float] = {}
    for kind, value, where in rows:
        if kind in found:
            raise InputError(f"{where}: kind is '{kind}', as before: each kind must be there once")
        found[kind] = value
    return found


def _entry(entry: str) -> tuple[str, float, str]:
    kind, _, text = entry.rpartition("=")
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not kind or not 0 <= value <= DEAREST:
        raise InputError(
            f"prices has '{entry}': needed: KIND=PRICE, such as m5.xlarge=0.192, with a price from 0 to {DEAREST:.0f}; "
            "or a CSV file with columns kind and price"
        )
    return kind, value, "prices"


USAGE = ("pod", "time", "cpu", "memory")
ALSO = ("node", "request_cpu", "request_memory", "owner")
IMPOSSIBLE = 2.0  # usage of all nodes; more is another unit, or most nodes are missing
NODES = ("node", "cpu", "memory")
ABOUT_NODES = ("kind", "price", "pool", "role", "gpus")  # what else may be known of one
MOST = 1e5  # cores or GiB of one machine; what is above it is in another unit
YEAR_10000 = 253_402_300_800.0  # seconds since 1970


def read_csv_record(usage: Path, nodes: Path, interval: int) -> Recorded:
    """Read a cluster's past from two tables.

    Samples of one pod in one slot are averaged.

    Parameters
    ----------
    usage : Path
        CSV or Parquet with the columns pod, time, cpu (cores) and memory (GiB), and if known node, request_cpu,
        request_memory and owner: docs/how-to/what-if.md.
    nodes : Path
        CSV or Parquet with the columns node, cpu (cores) and memory (GiB), and if known kind, price, pool, role, gpus.
    interval : int
        Length of a slot, seconds, >= 1.

    Returns
    -------
    Recorded
        The record.

    Raises
    ------
    InputError
        What cannot be used, with file, row and column.

    Examples
    --------
    >>> read_csv_record(Path("usage.csv"), Path("nodes.csv"), 300)  # doctest: +SKIP
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
