"""Names with blanks around them: these are no part of a name, so two that differ in nothing else are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl


def spelt_twice(given: pl.DataFrame) -> tuple[str, int, int] | None:
    """The first column, and two of its rows, whose names differ in nothing but the blanks around them."""
    import polars as pl

    for name in given.columns:
        once = given[name].unique()
        if not (once != once.str.strip_chars()).any():  # as nearly always
            continue
        rows = given.lazy().select(pl.col(name).alias("raw"), pl.int_range(pl.len()).alias("row"))
        rows = rows.with_columns(name=pl.col("raw").str.strip_chars()).filter(pl.col("name") != "")
        rows = rows.with_columns(first=pl.col("raw").first().over("name"), above=pl.col("row").first().over("name"))
        found = rows.filter(pl.col("raw") != pl.col("first")).select("above", "row").head(1).collect()
        if len(found):
            above, row = found.row(0)
            return name, int(above), int(row)
    return None


def refuse_spelt_twice(source: str, given: pl.DataFrame, place: Callable[[int], str]) -> None:
    """Raise InputError for names that `spelt_twice` finds: whether they are one workload, only their author knows."""
    if found := spelt_twice(given):
        name, above, row = found
        raise InputError(
            f"{source}: {place(row)}: {name} is {given[name][row]!r}, but {given[name][above]!r} in {place(above)}: "
            "blanks around a name are no part of it; write it alike in all rows, or two names that differ in more"
        )
