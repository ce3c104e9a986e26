"""Rows read fast and rows read one by one, because another row of their block is bad, come out the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.traces.loaders.google2019 import read_json_lines
from tvwrl.traces.preparation import files
from tvwrl.traces.preparation.layout import Column, Table, usage_column
from tvwrl.traces.preparation.loader import Part
from tvwrl.traces.preparation.reading import read_table
from tvwrl.types import InputError

COLUMNS = (Column("id", str), Column("time", int, lowest=0), usage_column("cpu"), Column("note", str, True))
PLAIN = Table(("id", "time", "cpu", "note"), COLUMNS)
QUOTED = Table(("id", "time", "cpu", "note"), COLUMNS, header=True, quoted=True)
MOMENTS = (Column("begin", int, lowest=0), Column("end", int, lowest=0))
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
@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.tuples(NAMES, NUMBERS, NUMBERS, NAMES), min_size=1, max_size=3))
def test_a_bad_row_changes_no_other(kind: str, rows: list[tuple[str, ...]], tmp_path_factory: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "x"
    padding = [written(kind, ("a", "1", "2", "b"))] * 9  # so that a file is not mostly bad
    lines = [written(kind, row) for row in rows] + padding
    bad = written(kind, ("a", "noon", "2", "b"))
    assert read(kind, lines, path) == read(kind, [*lines, bad], path)


@pytest.mark.parametrize("kind", ["plain", "quoted", "json"])
def test_blanks_around_an_id_are_no_part_of_it(kind: str, tmp_path: Path) -> None:
    lines = [written(kind, (name, "1", "2", "")) for name in ("a", " a", "a\t", "a b", "  ")]  # of columns of no names
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
    with pytest.raises(InputError, match="x: line 42: a quote opens here and is never closed"):
        read("quoted", lines, tmp_path / "x")


PERIODS = replace(
    PLAIN, fields=("id", "begin", "end", "cpu"), columns=(COLUMNS[0], *MOMENTS, COLUMNS[2]), begin_end=("begin", "end")
)


@pytest.mark.parametrize(
    ("row", "rule", "example"),
    [
        ("a,0,1", "wrong number of fields", "3 fields, 4 are needed"),
        ("a,0,1,2,9", "wrong number of fields", "5 fields, 4 are needed"),
        ("a,0,1,-0.5", "cpu is negative", "cpu is negative: '-0.5'"),
        ("a,0,1,nan", "cpu is not finite", "cpu is not finite: 'nan'"),
        ("a,0,1,1e7", "cpu is above 1e+06", "cpu is above 1e+06: '1e7'"),
        ("a,0,1,much", "cpu is not a number", "cpu is not a number: 'much'"),
        ("a,0,1,", "cpu is missing", "cpu is missing"),
        (" ,0,1,2", "id is missing", "id is missing"),
        ("a,noon,1,2", "begin is not a number", "begin is not a number: 'noon'"),
        ("a,9,8,2", "end is before begin", "end is before begin: '8'"),
        (f"a,0,{2**62},2", "end is more than 3 days after begin", f"end is more than 3 days after begin: '{2**62}'"),
    ],
)
def test_a_bad_row_is_counted_and_named(row: str, rule: str, example: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("a,0,1,2\n" * 100 + row + "\n" + "a,0,1,2\n" * 99)
    rows = read_table(Part("x", "x", str(path), 0), PERIODS)
    assert (rows.read, len(rows.frame), rows.bad) == (200, 199, {rule: 1})
    assert rows.examples == [f"{path}: line 101: {example}"]


@pytest.mark.parametrize("more", [[], ["a b,noon,2,"]])  # read at once, and line by line as one is bad
@pytest.mark.parametrize("block", [1 << 20, 30])  # in one block, and in many
def test_names_that_differ_only_in_blanks_are_refused(
    more: list[str], block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "BLOCK", block)
    path, table = tmp_path / "x", replace(QUOTED, names=("id",))
    for lines, fault in (
        (["a,1,2,", " a,3,2,"], "line 3: id is ' a', but 'a' in line 2: blanks around a name are no part of it"),
        ([" a,1,2,", *["b,1,2,"] * 50, "a,3,2,"], "line 53: id is 'a', but ' a' in line 2"),
        ([" a,1,2,", '"a b",3,2,', " a,3,2,"], ""),
    ):
        path.write_text("\n".join(["id,time,cpu,note", *lines, *lines[1:] * 3, *more, ""]))
        if fault:
            with pytest.raises(InputError, match=fault):
                read_table(Part("x", "x", str(path), 0), table)
        else:
            assert {row[0] for row in read_table(Part("x", "x", str(path), 0), table).frame.rows()} == {"a", "a b"}
