"""A CSV that says more than usage, and what is said of one that is no trace yet."""

from __future__ import annotations

import gzip
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tvwrl.input_tables import InputTable
from tvwrl.planning import open_instance
from tvwrl.traces import open_trace, read_trace, write_trace
from tvwrl.types import InputError


def csv_of(folder: Path, text: str) -> Path:
    file = folder / "data.csv"
    file.write_text(text)
    return file


def test_a_csv_says_which_workloads_are_replicas(tmp_path: Path) -> None:
    text = "application,workload_id,slot,cpu\nweb,b,3,0.5\n,a,0,0.1\nweb,c,0,0.1\n,b,4,0\n7,d,0,1\n"
    trace = read_trace(csv_of(tmp_path, text), 300)
    assert trace.resources == ("cpu",)
    assert dict(zip(trace.workload_id, trace.application, strict=True)) == {"b": "web", "a": "", "c": "web", "d": "7"}


def test_slots_may_be_apart_where_not_most_are_alike(tmp_path: Path) -> None:
    slots = [0, 1, 3, 5, 7, 8, 9, 10, 12, 14, 15, 16]  # half of the steps are 2
    text = "workload_id,slot,cpu\n" + "".join(f"a,{slot},1\n" for slot in slots)
    assert read_trace(csv_of(tmp_path, text), 300).slot.tolist() == slots


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("workload_id\tslot\tcpu\na\t0\t1\n", ["no column 'workload_id'", r"--separator $'\t'"]),
        ("pod,time,cpu\na,0,1\n", ["no column 'workload_id'", "tvwrl prepare csv", "--workload-column", "--time-unit"]),
        (f"time,{','.join(f'pod-{i}' for i in range(99))}\n0\n", ["pod-10 and 88 more", "one row per workload"]),
        ("workload_id,slot,cpu\na,2026-03-02,1\n", ["'2026-03-02' is not a number", "--time-unit iso"]),
        ("workload_id,slot,cpu\n" + "".join(f"a,{300 * i},1\n" for i in range(11)), ["300 apart", "--time-unit s"]),
        (
            "workload_id,slot,application,cpu\na,0,web,1\nb,0,web,1\na,1,,1\na,2,db,1\n",
            ["line 5, column application: 'db'", "workload 'a' has 'web' in line 2"],
        ),
    ],
)
def test_what_is_no_trace_yet_is_told_how_to_become_one(tmp_path: Path, text: str, parts: list[str]) -> None:
    with pytest.raises(InputError) as error:
        read_trace(csv_of(tmp_path, text), 300)
    for part in ["data.csv", *parts]:
        assert part in str(error.value)


GOOD = "workload_id,slot,cpu\na,0,0.1\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", GOOD.encode("utf-16"), "line 1: this is UTF-16, .* iconv -f UTF-16 -t UTF-8 "),
        ("x.csv", GOOD.encode("utf-16-le"), "line 1: this is UTF-16LE, .* iconv -f UTF-16LE "),
        ("x.csv.gz", gzip.compress(GOOD.encode("utf-16"), mtime=0), "line 1: this is UTF-16, .* iconv -f UTF-16 "),
        ("x.csv", GOOD.encode() + b"\xe9,0,1\n", "line 3: byte 0xe9 is not UTF-8, .* iconv -f ISO-8859-1 "),
        ("x.csv", b"sep=,\n" + GOOD.encode(), "line 1 is 'sep=,', .* remove it with: tail -n \\+2 FILE > NEW_FILE$"),
        ("x.csv", b"\xef\xbb\xbfsep=;\r\n" + GOOD.encode(), "line 1 is 'sep=;', .* remove it with: tail "),
        (
            "x.csv.gz",
            gzip.compress(GOOD.encode(), mtime=0)[:-9],
            "cannot be read: it is truncated; copy or download it again",
        ),
        ("x.csv.gz", gzip.compress(GOOD.encode(), mtime=0) + b"more", "something that gzip did not pack follows"),
    ],
)
def test_what_to_do_with_a_file_of_another_kind_is_said(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}: {message}"):
        open_trace(tmp_path / name, 300)
    with pytest.raises(InputError, match=rf"{name}: {message}"):
        InputTable.read(tmp_path / name)


@pytest.mark.parametrize(
    ("column", "usage", "odd"),
    [
        ("cpu", [20.0] * 10, "the median workload uses 20 reference machines of cpu .*--scale cpu 0.01"),
        ("cpu", [30.0] + [0.4] * 9, "one in twenty workloads uses .* reference machines of cpu .*--scale cpu 0.01"),
        ("cpu_pct", [0.4] * 10, "column 'cpu_pct' is read as fractions .*called a percentage.*--scale cpu_pct 0.01"),
        ("cpu", [1.2] * 10, ""),
        ("cpu", [30.0] + [0.4] * 99, ""),
    ],
)
def test_percents_are_warned_of_where_a_csv_is_opened(
    tmp_path: Path, column: str, usage: list[float], odd: str
) -> None:
    rows = (f"{w},{t},{level}" for w, level in enumerate(usage) for t in range(3))
    file = csv_of(tmp_path, f"workload_id,slot,{column}\n" + "\n".join(rows))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        trace = open_trace(file, 300)
        assert [re.search(rf"data\.csv: {odd}", str(w.message)) is not None for w in found] == [True] * bool(odd)
        write_trace(trace, tmp_path / "folder")
        before = len(found)
        open_trace(tmp_path / "folder")
        open_instance(file, times=1, slot_seconds=300)  # a plan's machines may be in any unit
        assert len(found) == before


def test_names_that_differ_only_in_blanks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_text("workload_id,slot,cpu,mem\na,0,1,1\n a,1,1,1\n")
    with pytest.raises(
        InputError, match="line 3: workload_id is ' a', but 'a' in line 2: blanks around a name are no part of it"
    ):
        read_trace(path, 300)
    path.write_text("slot,workload_id,cpu,mem\n0, a,1,1\n1, a,1,1\n")
    assert read_trace(path, 300).workload_id.tolist() == ["a"]
    path.write_text("slot,workload_id,application,cpu\n0,a,web,1\n0,b, web,1\n")
    with pytest.raises(InputError, match="line 3: application is ' web', but 'web' in line 2"):
        read_trace(path, 300)


def test_a_folder_has_names_without_blanks_too(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_trace(read_trace(csv_of(tmp_path, "workload_id,slot,cpu\na,0,1\nb,0,1\n"), 300), folder)
    usage = pl.read_parquet(folder / "usage.parquet")
    usage.with_columns(workload_id=pl.Series(["a", " b"])).write_parquet(folder / "usage.parquet")
    trace = read_trace(folder)
    assert trace.workload_id.tolist() == ["a", "b"]
    with pytest.raises(InputError, match=r"nothing was written: .*workload_id ' b': blanks around a name"):
        write_trace(replace(trace, workload_id=np.array(["a", " b"], dtype=object)), tmp_path / "u")
    usage.with_columns(workload_id=pl.Series(["a", " a"])).write_parquet(folder / "usage.parquet")
    with pytest.raises(InputError, match=r"usage\.parquet: row 2: workload_id is ' a', but 'a' in row 1"):
        read_trace(folder)


def test_the_command_for_percents_keeps_applications(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="--scale cpu 0.01") as found:
        open_trace(csv_of(tmp_path, "workload_id,slot,application,cpu\na,0,web,50\na,1,web,60\n"), 300)
    assert "--application-column application" in str(found[0].message)
