"""Names with blanks around them: these are no part of a name, so two that differ in nothing else are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

ADVICE = "blanks around a name are no part of it; write it alike in all rows, or two names that differ in more"


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
            f"{ADVICE}"
        )


def refuse_spelt_apart(files: Mapping[Path, str]) -> None:
    """Raise InputError for names that are spelt alike in each of several inputs, but not in all of them.

    `files`: Parquet files of distinct names as they were written, a column each, and the source that each was read from
    """
    import polars as pl

    columns = pl.scan_parquet(list(files)[:1], glob=False).collect_schema().names() if files else []
    for column in columns:
        raw, name = pl.col(column), pl.col(column).str.strip_chars()
        blank = pl.scan_parquet(list(files), glob=False).filter((raw != name) & (name != ""))
        among = blank.select(name).unique().collect()[column]
        if among.is_empty():  # as nearly always
            continue
        pieces = [
            pl.scan_parquet(file, glob=False).select(column).filter(name.is_in(among.implode())).unique().sort(column)
            for file in files
        ]
        found = pl.collect_all(pieces)
        sources = [source for source, piece in zip(files.values(), found, strict=True) for _ in range(len(piece))]
        refuse_spelt_between(sources, pl.concat(found))


def refuse_spelt_between(sources: list[str], given: pl.DataFrame) -> None:
    """Raise InputError as `refuse_spelt_twice` does, for rows that come from these `sources`."""
    if found := spelt_twice(given):
        name, above, row = found
        raise InputError(
            f"{sources[row]}: {name} is {given[name][row]!r}, but {given[name][above]!r} in {sources[above]}: {ADVICE}"
        )
