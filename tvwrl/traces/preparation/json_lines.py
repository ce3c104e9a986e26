"""Reads JSON lines with nested fields, named as outer.inner: fast, and where a line is bad, so that it is named."""

from __future__ import annotations

import json
from typing import Any

from tvwrl.traces.preparation.files import text_of
from tvwrl.traces.preparation.layout import Table, dtype_of, faults, note, without_blanks
from tvwrl.traces.preparation.loader import Part, Rows
from tvwrl.traces.preparation.reading import Fields, read_by_blocks

def read_json_lines(part: Part, table: Table) -> Rows:
    """The columns of a part of a file of JSON lines; a bad line is counted, named and left out.

    Read all at once, or where that shows a fault by blocks, and the faulty ones of these line by line. Raises
    InputError if the file is truncated, empty, or more than half of it is bad.
    """
    rows = _clean(text_of(part), table)
    if rows is not None and rows.read:
        return rows
    return read_by_blocks(part, table, lambda block, _: _clean(block, table), _split_lines)


def _clean(source: str | bytes, table: Table) -> Rows | None:
    """The columns of JSON lines, or None if a row breaks a rule; integers are text there, other fields are not read."""
    import polars as pl

    schema: dict[str, Any] = {}
    flat = []
    for column in table.columns:
        outer, _, inner = column.name.partition(".")
        schema[outer] = {**schema.get(outer, {}), inner: pl.Float64} if inner else pl.String
        value = pl.col(outer).struct.field(inner) if inner else pl.col(outer)
        flat.append(value.cast(dtype_of(column), strict=False).alias(column.name))
    schema = {name: pl.Struct(kind) if isinstance(kind, dict) else kind for name, kind in schema.items()}
    texts = without_blanks([column.name for column in table.columns if column.kind is str])
    try:
        frame = pl.scan_ndjson(source, schema=schema).select(flat).with_columns(texts).collect(engine="streaming")
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    bad = frame.select(pl.any_horizontal(where.any() for _, where in faults(table))).item()
    return None if bad else Rows(frame, len(frame))


def _split_lines(rows: Rows, source: str, table: Table, before: int, block: bytes) -> Fields:
    """Lines that are no JSON objects are noted in `rows`."""
    lines, batch = [], []
    for number, line in enumerate(block.split(b"\n"), before + 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            note(rows, source, "not a JSON object", number, f"not a JSON object: {line[:60]!r}")
            continue
        values = []
        for name in table.fields:
            outer, _, inner = name.partition(".")
            value = row.get(outer)
            if inner:
                value = value.get(inner) if isinstance(value, dict) else None
            values.append("" if value is None else str(value))
        lines.append(number)
        batch.append(values)
    return lines, batch
