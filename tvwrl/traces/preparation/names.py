"""The names of all parts as they were written: two that differ only in the blanks around them are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from tvwrl.input_tables import refuse_spelt_between
from tvwrl.traces.preparation.loader import Part


def names_file(folder: Path, part: Part) -> Path:
    """Where the names of a part are kept."""
    return folder / f"{part.name}.names.parquet"


def refuse_spelt_apart(files: Mapping[Path, str]) -> None:
    """Raise InputError for names that are spelt alike in each of several inputs, but not in all of them.

    `files`: Parquet files of distinct names as they were written, a column each, and the source that each was read from
    """
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
