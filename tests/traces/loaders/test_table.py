"""The user's own table: units of time, and what is wrong with a row."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tvwrl.traces.canonical import read_trace
from tvwrl.traces.loaders.table import Csv, Parquet
from tvwrl.traces.preparation import files
from tvwrl.traces.preparation.prepare import prepare
from tvwrl.traces.preparation.series import SeriesRules
from tvwrl.types import InputError


def write(folder: Path, *rows: str, header: str = "time,workload_id,cpu,mem") -> Path:
    path = folder / "x.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def run(source: Path, loader: Any = None, **limits: Any) -> dict[str, Any]:
    out = source.parent / "out"
    rules = SeriesRules(300, min_records=1)
    return prepare(loader or Csv(), str(source), out, rules, plots=False, **limits)


def usage(source: Path) -> list[tuple[Any, ...]]:
    return pl.read_parquet(source.parent / "out" / "usage.parquet").rows()


@pytest.mark.parametrize("per_second", [10**3, 10**6, 10**9])
def test_times_in_a_smaller_unit_than_was_said(per_second: int, tmp_path: Path) -> None:
    times = [(1_700_000_000 + 300 * i) * per_second for i in range(5)]
    source = write(tmp_path, *(f"{time},a,0.1,0.2" for time in times))
    with pytest.raises(InputError, match=rf"x\.csv: .*line 2: time is beyond all dates: --time-unit s\?: '{times[0]}'"):
        run(source)
    frame = pl.DataFrame({"time": times, "workload_id": "a", "cpu": 0.1, "mem": 0.2})
    frame.write_parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"x\.parquet: .*row 1: time is beyond all dates: --time-unit s\?"):
        run(tmp_path / "x.parquet", Parquet())


def test_nearly_all_slots_are_empty(tmp_path: Path) -> None:
    source = write(tmp_path, *(f"{300_000 * i},a,0.1,0.2" for i in range(5)))  # milliseconds since some start
    with pytest.warns(UserWarning, match=r"x\.csv: records in only 0\.12% of the slots .* is --time-unit s right\?"):
        run(source)
    with pytest.raises(
        InputError, match=r"longest stretch has 1 records; is --time-unit s right\?\); try --min-records 1 or"
    ):
        prepare(Csv(), str(source), tmp_path / "none", SeriesRules(300), plots=False)


def test_numbers_of_slots_are_whole(tmp_path: Path) -> None:
    source = write(tmp_path, "0,a,.1,.2", "1.9,a,.3,.2", "2,a,.4,.2")
    with pytest.raises(InputError, match=r"line 3: time is not a whole number, as --time-unit slot needs: '1\.9'"):
        run(source, Csv(time_unit="slot"))
    run(write(tmp_path, "0,a,.1,.2", "2,a,.4,.2"), Csv(time_unit="slot"))
    assert usage(source) == [("a", 0, 0.1, 0.2), ("a", 1, 0.1, 0.2), ("a", 2, 0.4, 0.2)]


MIDNIGHT = 1_767_571_200_000_000  # 5 January 2026, microseconds
ISO = ["2026-01-05", "2026-01-05T00:00", "2026-01-05 00:00:00", "2026-01-05T00:00:00.000Z", "2026-01-05t02:00:00+02:00"]
ISO += ["2026-01-04T18:30-0530", "2026-01-05 01:00:00.000000789+01"]
NOT_ISO = [
    "01/05/2026 00:05",
    "2026/01/05 00:05",
    "05.01.2026",
    "2026-13-05",
    "2026-01-05T25:00",
    "1767571200",
    "now",
    "",
]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_only_iso_8601_is_a_time(kind: str, tmp_path: Path) -> None:
    for number, moment in enumerate(ISO):
        source, loader = own_table(kind, tmp_path / f"x{number}", [moment, "2026-01-05T00:10Z"])
        assert run(source, loader)["time"] == {"first": MIDNIGHT, "last": MIDNIGHT + 600_000_000}
    times = [f"2026-01-05T00:{minute:02}:00Z" for minute in range(0, 60, 5)]
    source, loader = own_table(kind, tmp_path / "some", NOT_ISO + times)
    report = run(source, loader, max_bad_fraction=0.5)
    assert sum(report["rows"]["bad"].values()) == len(NOT_ISO)
    assert any(f"time is no time such as 2026-01-31T12:00:00Z: {NOT_ISO[0]!r}" in line for line in report["examples"])
    assert len(usage(source)) == 12
    source, loader = own_table(kind, tmp_path / "all", [f"01/05/2026 00:{minute:02}" for minute in range(0, 60, 5)])
    with pytest.raises(InputError, match="time is no time such as 2026-01-31T12:00:00Z: '01/05/2026 00:00'"):
        run(source, loader)


def own_table(kind: str, folder: Path, times: list[str]) -> tuple[Path, Any]:
    """A table of one workload with times as text, and its loader."""
    folder.mkdir()
    if kind == "csv":
        return write(folder, *(f"{time},a,0.1,0.2" for time in times)), Csv(time_unit="iso")
    frame = pl.DataFrame({"time": times, "workload_id": "a", "cpu": 0.1, "mem": 0.2})
    frame.write_parquet(folder / "x.parquet")
    return folder / "x.parquet", Parquet(time_unit="iso")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("time", pl.Series([0, 300], dtype=pl.Int64).cast(pl.Time), "of type Time; numbers are needed"),
        ("cpu", [[0.1], [0.2]], "of type List.*; numbers are needed"),
        ("cpu", [{"a": 1}, {"a": 2}], "of type Struct.*; numbers are needed"),
        ("mem", [True, False], "of type Boolean; numbers are needed"),
        ("mem", [b"1", b"2"], "of type Binary; numbers are needed"),
        ("workload_id", [1.5, 2.5], "of type Float64; text or whole numbers are needed"),
        ("workload_id", [True, False], "of type Boolean; text or whole numbers are needed"),
    ],
)
def test_a_column_of_the_wrong_type_is_named(column: str, values: Any, message: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"time": [0, 300], "workload_id": "a", "cpu": 0.1, "mem": 0.2} | {column: values})
    frame.write_parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError, match=rf"x\.parquet: column '{column}' is {message}"):
        run(tmp_path / "x.parquet", Parquet())


def test_columns_of_times_need_no_unit(tmp_path: Path) -> None:
    time = pl.Series([0, 300_000, 600_000], dtype=pl.Datetime("ms", "Europe/Berlin"))
    pl.DataFrame({"time": time, "workload_id": 7, "cpu": [1, 2, 3], "mem": 0.5}).write_parquet(tmp_path / "x.parquet")
    run(tmp_path / "x.parquet", Parquet(scale={"cpu": 0.1}))
    assert usage(tmp_path / "x.parquet") == [("7", 0, 0.1, 0.5), ("7", 1, 0.2, 0.5), ("7", 2, pytest.approx(0.3), 0.5)]


def test_a_row_is_counted_once_with_facts(tmp_path: Path) -> None:
    rows = [f"{300 * i},a,0.1,0.2,web,2" for i in range(9)]
    source = write(tmp_path, *rows, "2700,a,0.1", header="time,workload_id,cpu,mem,app,asked")
    loader = Csv(application_column="app", request_columns={"cpu": "asked"}, scale={"cpu": 0.5})
    report = run(source, loader, max_bad_fraction=0.1)
    assert report["rows"]["read"] == {"usage": 10, "facts": 0}
    assert report["rows"]["bad"] == {"usage: wrong number of fields": 1}
    table = pl.read_parquet(tmp_path / "out" / "workloads.parquet")
    assert table.select("application", "request_cpu").rows() == [("web", 1.0)]


def test_a_column_of_applications_that_nobody_reads_is_named(tmp_path: Path) -> None:
    rows = [f"{300 * i},a,0.1,0.2,web" for i in range(9)]
    source = write(tmp_path, *rows, header="time,workload_id,cpu,mem,application")
    with pytest.warns(UserWarning, match="column 'application' is not read: --application-column application makes"):
        run(source, Csv())


def test_a_time_that_cannot_be_read_is_named_with_its_column(tmp_path: Path) -> None:
    start = ["2026-01-05T00:00:00Z", "2026-01-05T00:05:00Z", "5 past ten"]
    frame = pl.DataFrame({"start": start, "workload_id": "a", "cpu": 0.1, "mem": ["0.2", "x", "0.2"]})
    frame.write_parquet(tmp_path / "x.parquet")
    with pytest.raises(
        InputError,
        match=r"first: row 1: start is not a number \(for times such as .* --time-unit iso\): '2026-01-05T00:00:00Z'",
    ):
        run(tmp_path / "x.parquet", Parquet(time_column="start"))
    report = run(
        tmp_path / "x.parquet",
        Parquet(time_column="start", time_unit="iso", columns={"cpu": "cpu"}),
        max_bad_fraction=0.5,
    )
    rule = "row 3: start is no time such as 2026-01-31T12:00:00Z: '5 past ten'"
    assert report["examples"] == [f"{tmp_path / 'x.parquet'}: {rule}"]


def test_a_header_without_rows_lacks_usage(tmp_path: Path) -> None:
    for loader in (Csv(), Csv(application_column="workload_id")):
        with pytest.raises(InputError, match=r"x\.csv: empty: it holds no rows of usage"):
            run(write(tmp_path), loader)


@pytest.mark.parametrize(("rows", "line"), [(9, 11), (3000, 3002)])
def test_other_text_than_utf8_is_refused_with_its_line(rows: int, line: int, tmp_path: Path) -> None:
    source = write(tmp_path, *(f"{300 * i},a,0.1,0.2" for i in range(rows)))
    source.write_bytes(source.read_bytes() + "0,ä,0.1,0.2\n0,ö,0.1,0.2\n".encode("latin-1"))
    with pytest.raises(InputError, match=rf"x\.csv: line {line}: byte 0xe4 is not UTF-8, which is required; .*iconv"):
        run(source)
    source.write_bytes("time,workload_id,cpu,mem,größe\n0,a,.1,.2,3\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"x\.csv: line 1: byte 0xf6 is not UTF-8"):
        run(source)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n\ntime,workload_id,cpu,mem\n0,a,1,1\n", "line 1 is blank: it must hold the names of the columns"),
        (b"time,workload_id,cpu,mem\r0,a,1,1\r", "line 1 holds null bytes or carriage returns"),
        (b"\0" * 99, "line 1 holds null bytes or carriage returns"),
        (b"time,workload_id,cpu,cpu\n0,a,1,1\n", "line 1: two columns have the same name: time, workload_id, cpu, cpu"),
        (
            b"time,workload_id,cpu\n0,a,1\n",
            "no column 'mem'; the columns are: time, workload_id, cpu; name yours: --wo",
        ),
        (
            b"time;workload_id;cpu\n0;a;1\n",
            "no column 'workload_id'; .*; is the separator another one.* --separator ';'",
        ),
        (b"time," + b",".join(b"p%d" % i for i in range(99)), "no .*, p10 and 88 more; needed: one row per workload"),
    ],
)
def test_a_bad_header_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(InputError, match=rf"x\.csv: {message}"):
        run(tmp_path / "x.csv")


def test_percents_without_a_scale_are_warned_of(tmp_path: Path) -> None:
    source = write(tmp_path, *(f"{300 * i},{w},{(20, 20, 1)[w]},0.2" for i in range(5) for w in range(3)))
    percent = r"x\.csv: the median workload uses 20 reference machines of cpu \(column 'cpu'\): is --scale cpu "
    with pytest.warns(UserWarning, match=percent + r"missing\?") as caught:
        run(source)
    assert len(caught) == 1
    for number, scale in enumerate((0.5, 0.05)):
        rules, loader = SeriesRules(300, min_records=1), Csv(scale={"cpu": scale})
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            prepare(loader, str(source), tmp_path / f"out{number}", rules, plots=False)
        assert ["is --scale cpu 0.5 right?" in str(w.message) for w in found] == ([True] if scale == 0.5 else [])


def test_percents_of_a_few_busy_workloads_and_columns_called_percentages_are_warned_of(tmp_path: Path) -> None:
    """The median workload is idle, so it does not show that a busy one uses 30 machines."""
    source = write(tmp_path, *(f"{300 * i},{w},{(30 if w == 0 else 0.4)},0.2" for i in range(5) for w in range(10)))
    with pytest.warns(UserWarning, match=r"one in twenty workloads uses .* of cpu .* or more: is --scale cpu missing"):
        run(source)
    table = "time,workload_id,cpu_pct,mem\n" + "".join(f"{300 * i},a,0.4,0.2\n" for i in range(5))
    (tmp_path / "named.csv").write_text(table)
    for scale, warned in (({}, 1), ({"cpu": 0.01}, 0)):
        loader = Csv(columns={"cpu": "cpu_pct", "mem": "mem"}, scale=scale)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            out = tmp_path / f"named{warned}"
            prepare(loader, str(tmp_path / "named.csv"), out, SeriesRules(300, min_records=1), plots=False)
        assert len([w for w in found if "'cpu_pct' is read as fractions" in str(w.message)]) == warned


GOOD = "time,workload_id,cpu,mem\n0,a,0.1,0.2\n300,a,0.1,0.2\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", GOOD.encode("utf-16"), "line 1: this is UTF-16, .* iconv -f UTF-16 "),
        ("x.csv", GOOD.encode("utf-16-le"), "line 1: this is UTF-16LE, .* iconv -f UTF-16LE "),
        ("x.csv", GOOD.encode("utf-16-be"), "line 1: this is UTF-16BE, .* iconv -f UTF-16BE "),
        ("x.csv", GOOD.encode("utf-32"), "line 1: this is UTF-32, .* iconv -f UTF-32 "),
        ("x.csv", f"時間,{GOOD}".encode("utf-16-le"), "line 1: this is UTF-16LE, .* iconv -f UTF-16LE "),
        ("x.csv", b"ti\0me,workload_id,cpu,mem\n0,a,0.1,0.2\n", "line 1 holds null bytes"),
        ("x.csv", b"sep=\t\n" + GOOD.replace(",", "\t").encode(), "line 1 is 'sep=\t', .* --separator '\t'"),
        ("x.csv", b"sep=,\n" + GOOD.encode(), "line 1 is 'sep=,', which only spreadsheets read: .*tail -n \\+2 FILE"),
        ("x.csv", b"sep=;\n" + GOOD.replace(",", ";").encode(), "line 1 is 'sep=;', .* --separator ';'"),
        ("x.csv.gz", gzip.compress(GOOD.encode(), mtime=0)[:-9], "it is truncated; copy or download it again"),
        ("x.csv.gz", GOOD.encode(), "its name ends with .gz, but gzip did not pack it"),
        ("x.csv.gz", gzip.compress(GOOD.encode(), mtime=0) + b"more", "something that gzip did not pack follows"),
    ],
)
def test_what_to_do_with_a_file_of_another_kind_is_said(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        run(tmp_path / name)


def test_durations_are_times_and_lists_are_refused(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {"workload_id": ["a"] * 4, "time": [0, 300, 600, 900], "cpu": 0.1, "mem": [0.1, 0.2, 0.3, 0.4]}
    )
    table.with_columns(pl.duration(seconds="time").alias("time")).write_parquet(tmp_path / "x.parquet")
    out = tmp_path / "out"
    prepare(Parquet(), str(tmp_path / "x.parquet"), out, SeriesRules(300, min_records=1), plots=False)
    assert read_trace(out).usage[:, 1].tolist() == [0.1, 0.2, 0.3, 0.4]
    table.with_columns(pl.concat_list("cpu")).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(
        InputError, match=r"column 'cpu' is of type List\(Float64\); numbers are needed, one in each row"
    ):
        prepare(Parquet(), str(tmp_path / "x.parquet"), tmp_path / "not", SeriesRules(300), plots=False)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("pieces", [False, True])  # two files, or one in pieces
def test_names_that_differ_only_in_blanks_are_refused_across_parts(
    kind: str, pieces: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else rows of the second workload would be dropped as repeated ones of the first."""

    def table(workloads: str, applications: str) -> pl.DataFrame:
        columns = {
            "workload_id": [w.replace("_", " ") for w in workloads.split(",")],
            "time": 0,
            "cpu": 0.1,
            "mem": 0.1,
        }
        return pl.DataFrame(columns | {"app": pl.Series([a.replace("_", " ") for a in applications.split(",")])})

    def written(*tables: pl.DataFrame) -> Path:
        folder = tmp_path / "in"
        folder.mkdir(exist_ok=True)
        for i, one in enumerate([pl.concat(tables)] if pieces else tables):
            (one.write_csv if kind == "csv" else one.write_parquet)(folder / f"{i}.{kind}")
        return folder

    monkeypatch.setattr(files, "PIECE", 30)
    monkeypatch.setattr(files, "PIECE_ROWS", 2)
    loader = (Csv if kind == "csv" else Parquet)(application_column="app")
    second = 0 if pieces else 1
    for other, fault in (
        (table("b,a", "x,y"), f"{second}.{kind}: workload_id is 'a', but ' a' in .*0.{kind}: blanks around a name"),
        (table("b,d", "x_,y"), f"{second}.{kind}: app is 'x ', but 'x' in .*0.{kind}: blanks around a name"),
    ):
        with pytest.raises(InputError, match=fault):
            run(written(table("_a,c", "x,y"), other), loader)
    run(written(table("_a,c", "x,y"), table("_b,_d", "_z,x")), loader)
    assert sorted(row[0] for row in usage(tmp_path / "in")) == ["a", "b", "c", "d"]
