"""What the Google traces of 2011 and 2019 have in common: sums of members, workloads left out, kinds of machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def sum_members(members: pl.DataFrame, key: str) -> pl.DataFrame:
    """One row per `key`: the sum of its members' requests, other facts of the last member, an outcome if all ended."""
    import polars as pl

    requests = [pl.when(pl.col(n).count() > 0).then(pl.col(n).sum()).alias(n) for n in ("request_cpu", "request_mem")]
    last = [pl.col(n).drop_nulls().last() for n in ("class", "priority")]
    outcome = pl.when(pl.col("outcome").is_not_null().all()).then(pl.col("outcome").last())
    ended = [outcome.alias("outcome"), pl.col("partly").all()]
    return members.group_by(key, maintain_order=True).agg(*requests, *last, *ended)


def workload_facts(
    known: pl.DataFrame, keys: Sequence[str], application: pl.Expr, ended: Mapping[int, str], keep_ended: bool
) -> pl.DataFrame:
    """Facts as `Loader.workloads` gives them, from rows with `outcome` (a type of event) and `partly`.

    `ended` maps the outcomes of workloads to leave out to the reason that the report gives.
    """
    import polars as pl

    partly = pl.when(pl.col("partly")).then(pl.lit("that were recorded only in part"))
    reason = pl.coalesce(pl.col("outcome").replace_strict(ended, default=None, return_dtype=pl.String), partly)
    if keep_ended:
        reason = pl.lit(None, pl.String)
    known = known.with_columns(application.alias("application"), reason.alias("dropped"))
    wanted = ("application", "priority", "class", "request_cpu", "request_mem", "dropped")
    return known.select(name for name in (*keys, *wanted) if name in known.columns)


def kinds_of_machines(first: pl.DataFrame) -> pl.DataFrame:
    """Capacities and how many `machines` have them, from one row with `cpu` and `mem` per machine."""
    known = first.drop_nulls(["cpu", "mem"])
    return known.group_by("cpu", "mem").len("machines").sort("machines", "cpu", "mem", descending=True)
