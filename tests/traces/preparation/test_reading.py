"""Rows read fast and rows read one by one, because another row of their block is bad, come out the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.traces.preparation.json_lines import read_json_lines
from tvwrl.traces.preparation.layout import Column, Table
from tvwrl.traces.preparation.loader import Part
from tvwrl.traces.preparation.reading import read_table
from tvwrl.types import InputError

COLUMNS = (Column("id", str), Column("time", int, lowest=0), Column("cpu", lowest=0), Column("note", str, True))
PLAIN = Table(("id", "time", "cpu", "note"), COLUMNS)
QUOTED = Table(("id", "time", "cpu", "note"), COLUMNS, header=True, quoted=True)
NAMES = st.text(st.sampled_from("ab \t'\"#,;\\é\u00a0\u2003\x1c\x000N"), max_size=4)
ODD = st.sampled_from([" 2", "3 ", "+4", "007", "-1", "1e3", "1.5", "0x1", "1_0", "", "nan", "inf", "x", "\u0663"])
NUMBERS = st.one_of(st.sampled_from(["0", "1", "2"]), st.sampled_from(["0", "1", "2"]), ODD)


def written(kind: str, row: tuple[str, ...]) -> str:
    """A line of the table with the fields of `row`; a plain one has no commas and quotes in its fields."""
    if kind == "json":
        return json.dumps(dict(zip(PLAIN.fields, row, strict=True)))
    if kind == "plain":
        return ",".join(field.replace(",", "").replace('"', "") for field in row)
    return ",".join('"' + field.replace('"', '""') + '"' if set(field) & set(',"') else field for field in row)


def read(kind: str, lines: list[str], path: Path) -> list[tuple[Any, ...]]:
    """The good rows."""
    head = ["id,time,cpu,note"] if kind == "quoted" else []
    path.write_text("\n".join([*head, *lines, ""]), encoding="utf-8", newline="")
    part = Part("x", "x", str(path), 0)
    table = QUOTED if kind == "quoted" else PLAIN
    return (read_json_lines if kind == "json" else read_table)(part, table).frame.rows()


@pytest.mark.parametrize("kind", ["plain", "quoted", "json"])
@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.tuples(NAMES, NUMBERS, NUMBERS, NAMES), min_size=1, max_size=3))
def test_a_bad_row_changes_no_other(kind: str, rows: list[tuple[str, ...]], tmp_path_factory: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "x"
    padding = [written(kind, ("a", "1", "2", "b"))] * 9  # so that a file is not mostly bad
    lines = [written(kind, row) for row in rows] + padding
    bad = written(kind, ("a", "noon", "2", "b"))
    assert read(kind, lines, path) == read(kind, [*lines, bad], path)


@pytest.mark.parametrize("kind", ["plain", "quoted", "json"])
def test_blanks_around_an_id_are_no_part_of_it(kind: str, tmp_path: Path) -> None:
    lines = [written(kind, (name, "1", "2", "")) for name in ("a", " a", "a\t", "a b", "  ")]
    for more in ([], [written(kind, ("a", "noon", "2", ""))]):
        assert [row[0] for row in read(kind, [*lines, *more], tmp_path / "x")] == ["a", "a", "a", "a b"]


@pytest.mark.parametrize("kind", ["plain", "quoted"])
def test_one_separator_after_the_last_field_is_no_fault(kind: str, tmp_path: Path) -> None:
    lines = [written(kind, ("a", "1", "2", note)) for note in ("b", "", "c")]
    for ends, good in (("", 3), (",", 3), (",,", 0), (",x", 0)):
        for more in ([], [written(kind, ("a", "noon", "2", ""))]):
            found = read(kind, [*lines * 9, *(line + ends for line in lines), *more], tmp_path / "x")
            assert len(found) == 27 + good


def test_a_quote_that_is_never_closed_is_refused(tmp_path: Path) -> None:
    lines = [written("quoted", ("a", "1", "2", "b"))] * 99
    lines[40] = '"a,1,2,b'
    with pytest.raises(InputError, match="x: line 42: a quote is opened here and never closed"):
        read("quoted", lines, tmp_path / "x")
