"""The user's own table: units of time, and what is wrong with a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tvwrl.traces.loaders.table import Csv, Parquet
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
    with pytest.raises(InputError, match=r"longest stretch has 1 records; is --time-unit s right\?"):
        prepare(Csv(), str(source), tmp_path / "none", SeriesRules(300), plots=False)


def test_numbers_of_slots_are_whole(tmp_path: Path) -> None:
    source = write(tmp_path, "0,a,.1,.2", "1.9,a,.3,.2", "2,a,.4,.2")
    with pytest.raises(InputError, match=r"line 3: time is not a whole number, as --time-unit slot needs: '1\.9'"):
        run(source, Csv(time_unit="slot"))
    run(write(tmp_path, "0,a,.1,.2", "2,a,.4,.2"), Csv(time_unit="slot"))
    assert usage(source) == [("a", 0, 0.1, 0.2), ("a", 1, 0.1, 0.2), ("a", 2, 0.4, 0.2)]


def test_text_that_is_no_time(tmp_path: Path) -> None:
    rows = [f"2026-01-05T00:{5 * i:02}:00Z,a,0.1,0.2" for i in range(9)]
    source = write(tmp_path, *rows[:4], "yesterday,a,0.1,0.2", *rows[5:])
    report = run(source, Csv(time_unit="iso"), max_bad_fraction=0.2)
    assert report["examples"] == [f"{source}: line 6: time is no time such as 2026-01-31T12:00:00Z: 'yesterday'"]
    assert report["slots"] == 9


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
