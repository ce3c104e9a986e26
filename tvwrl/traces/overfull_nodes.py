"""Nodes that use, or are asked for, more than they have: usage is counted twice, or a size is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

TOO_FULL = 1.05  # share of a node; what is little above 1 comes from moments at which samples are taken


def overfull(rows: pl.DataFrame, sizes: pl.DataFrame, at: str = "time") -> pl.DataFrame:
    """Columns node and share, the fullest first: nodes of which more than `TOO_FULL` is taken at some time.

    `rows`: node, `at`, cpu and mem of pods, null: nothing
    `sizes`: node, cpu and mem, each node once, in the same units
    """
    import polars as pl

    of_each = pl.max_horizontal(pl.col(name) / pl.col(f"{name}_right") for name in ("cpu", "mem")).alias("share")
    shares = (
        rows.group_by("node", at)
        .agg(pl.col("cpu", "mem").sum())
        .join(sizes.select("node", "cpu", "mem"), on="node")
        .select("node", of_each)
        .group_by("node")
        .agg(pl.col("share").max())
        .filter(pl.col("share") > TOO_FULL)
    )
    return fullest(dict(shares.iter_rows()))


def fullest(shares: Mapping[str, float]) -> pl.DataFrame:
    """Columns node and share, the fullest first."""
    import polars as pl

    schema = {"node": pl.String, "share": pl.Float64}
    return pl.DataFrame(list(shares.items()), schema, orient="row").sort("share", "node", descending=[True, False])


def said(found: pl.DataFrame, what: str) -> str:
    """A sentence about nodes that are `overfull`; "" where there is none. `what`: "use" or "are asked for"."""
    if found.is_empty():
        return ""
    node, share = found.row(0)
    of = "1 node" if len(found) == 1 else f"{len(found)} nodes"
    verb = what if len(found) > 1 else {"use": "uses", "are asked for": "is asked for"}[what]
    return (
        f"{of} {verb} more than there is, node {node} {share:.0%}: are series recorded twice under other labels, "
        "several clusters on one server, or did many pods run one after the other within an interval?"
    )
