"""Bitbrains: one file per VM and month, in folders or zips, and the Parquet of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.traces.conftest import check_usage, prepared, write_file
from tvwrl.traces.loaders import bitbrains
from tvwrl.traces.loaders.bitbrains import Bitbrains
from tvwrl.traces.preparation.series import SeriesRules
from tvwrl.types import Trace

RULES = SeriesRules(slot_seconds=300, min_records=1)
HEADER = (
    "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\tCPU usage [%];\t"
    "Memory capacity provisioned [KB];\tMemory usage [KB];\tDisk read throughput [KB/s];\t"
    "Disk write throughput [KB/s];\tNetwork received throughput [KB/s];\tNetwork transmitted throughput [KB/s]\n"
)
START = 1_376_314_800  # s, at the beginning of a slot


def row(time: int, mhz: float, kb: float, cap: float = 8000.0, memcap: float = 4000.0) -> str:
    return f"{time};\t4;\t{cap};\t{mhz};\t50.0;\t{memcap};\t{kb};\t0.0;\t12.5;\t0.1;\t0.2\n"


FILES = {
    "fastStorage/2013-8/1.csv": row(START, 2000, 1000) + row(START + 301, 8000, 500),
    # Its capacity was 0 at first, and changed.
    "fastStorage/2013-8/12.csv": row(START, 0, 0, 0, 0)
    + row(START + 300, 1000, 8000, 2000, 8000)
    + row(START + 600, 1000, 2000, 4000, 4000),
    "rnd/2013-8/1.csv": row(START * 1000, 4000, 2000) + row((START + 300) * 1000, 800, 80),  # milliseconds
}


def write(folder: Path, files: dict[str, str] = FILES, header: str = HEADER) -> Path:
    for name, content in files.items():
        write_file(folder / name, header + content)
    return folder


def run(source: Path, out: Path, **limits: Any) -> tuple[Trace, dict[str, Any]]:
    return prepared(Bitbrains(), source, out, RULES, **limits)


def test_a_case_worked_out_by_hand(tmp_path: Path) -> None:
    trace, report = run(write(tmp_path / "in"), tmp_path / "out")
    assert report["rows"]["read"].get("vms") == 7
    assert report["rows"]["bad"] == {}
    # The largest VMs: 8000 MHz and 8000 KB.
    expected = {
        "2013-8-1": [[0.25, 0.125], [1.0, 0.0625]],
        "2013-8-12": [[0, 0], [0.125, 1.0], [0.125, 0.25]],
        "rnd-2013-8-1": [[0.5, 0.25], [0.1, 0.01]],
    }
    check_usage(trace, expected)
    request = dict(zip(trace.workload_id, trace.request.tolist(), strict=True))
    assert request == {"2013-8-1": [1.0, 0.5], "2013-8-12": [0.5, 1.0], "rnd-2013-8-1": [1.0, 0.5]}
    assert trace.arrival.tolist() == [0, 0, 0]
    capacities = pl.read_parquet(tmp_path / "out" / "capacities.parquet").sort("month", "vm")
    assert capacities.columns == ["month", "vm", "cores", "cap", "memcap"]
    assert capacities.rows()[1] == ("2013-8", 12, 4, 4000, 8000)


def test_one_month_by_itself(tmp_path: Path) -> None:
    trace, _ = run(write(tmp_path / "in") / "rnd" / "2013-8", tmp_path / "out")
    check_usage(trace, {"rnd-2013-8-1": [[0.5, 0.5], [0.1, 0.02]]})


def test_many_files_are_few_parts(tmp_path: Path) -> None:
    files = {f"fastStorage/2013-8/{i}.csv": row(START, 8000 / 120 * i, 4000 / 120 * i) for i in range(1, 121)}
    source = write(tmp_path / "in", files)
    usage = [part for part in Bitbrains().parts(str(source)) if part.usage]
    assert len(usage) == 3
    trace, _ = run(source, tmp_path / "out")
    check_usage(trace, {f"2013-8-{i}": [[i / 120, i / 120]] for i in range(1, 121)})
    before = [part.stamp for part in usage]
    (source / "fastStorage" / "2013-8" / "7.csv").write_text(HEADER + row(START, 9, 9))
    after = [part.stamp for part in Bitbrains().parts(str(source)) if part.usage]
    assert sum(a != b for a, b in zip(after, before, strict=True)) == 1


def test_other_blanks_in_the_header_and_columns_in_another_order(tmp_path: Path) -> None:
    header = "Timestamp [ms];Memory usage [KB];Memory capacity provisioned [KB];"
    header += "CPU usage [MHZ];CPU capacity provisioned [MHZ]\n"
    source = write(tmp_path / "in", {"fastStorage/2013-8/3.csv": f"{START};50;100;20;40\n"}, header)
    check_usage(run(source, tmp_path / "out")[0], {"2013-8-3": [[0.5, 0.5]]})


def parquet(folder: Path) -> Path:
    folder.mkdir()
    rows = [("2013-8", 1, 0, 5000, 100), ("2013-8", 1, 1, 10000, 200), ("2013-8", 2, 1, 2500, 10000)]
    types = {"month": pl.Categorical, "vm": pl.Int16, "slot": pl.Int32, "cpu": pl.UInt16, "mem": pl.UInt16}
    pl.DataFrame(rows, schema=types, orient="row").write_parquet(folder / "fastStorage.parquet")
    return folder


def test_parquet_by_hand(tmp_path: Path) -> None:
    source = parquet(tmp_path / "in")
    meta = "month,vm,cores,cap,memcap\n2013-8,1,4,8000.0,1000.0\n2013-8,2,2,2000.0,4000.0\n"
    write_file(source / "fastStorage_meta.csv.gz", meta)
    trace, _ = run(source, tmp_path / "out")
    check_usage(trace, {"2013-8-1": [[0.5, 0.01 / 4], [1.0, 0.02 / 4]], "2013-8-2": [[0.25 / 4, 1.0]]})
    np.testing.assert_allclose(trace.request[trace.workload_id.tolist().index("2013-8-2")], [0.25, 1.0])


def test_parquet_without_capacities_is_of_the_own_size(tmp_path: Path) -> None:
    trace, _ = run(parquet(tmp_path / "in"), tmp_path / "out")
    check_usage(trace, {"2013-8-1": [[0.5, 0.01], [1.0, 0.02]], "2013-8-2": [[0.25, 1.0]]})
    assert np.isnan(trace.request).all()


def test_vms_without_a_capacity_are_dropped(tmp_path: Path) -> None:
    source = parquet(tmp_path / "in")
    (source / "fastStorage_meta.csv").write_text(
        "month,vm,cores,cap,memcap\n2013-8,1,4,8000.0,1000.0\n2013-8,2,2,0,0\n"
    )
    trace, report = run(source, tmp_path / "out")
    assert report["rows"]["dropped"] == {"workloads of unknown size": 1}
    assert trace.workload_id.tolist() == ["2013-8-1"]


@pytest.mark.real_data
def test_the_real_sample(real_data: Path, tmp_path: Path) -> None:
    """Of the VMs below 100 only, which is quicker."""
    usage = pl.read_parquet(real_data / "bitbrains" / "fastStorage.parquet").filter(pl.col("vm") < 100)
    meta = pl.read_csv(real_data / "bitbrains" / "fastStorage_meta.csv.gz")
    (tmp_path / "in").mkdir()
    usage.write_parquet(tmp_path / "in" / "fastStorage.parquet")
    (tmp_path / "in" / "fastStorage_meta.csv.gz").symlink_to(real_data / "bitbrains" / "fastStorage_meta.csv.gz")
    trace, report = run(tmp_path / "in", tmp_path / "out")
    assert report["rows"]["read"] == {"usage": len(usage), "meta": 1249}
    assert report["rows"]["dropped"] == {}
    assert len(trace) == usage["vm"].n_unique()
    recorded = pl.DataFrame(
        {
            "vm": np.repeat([int(name.rsplit("-")[-1]) for name in trace.workload_id], np.diff(trace.offsets)),
            "slot": trace.slot + usage["slot"].min(),
            "cpu": trace.usage[:, 0],
            "mem": trace.usage[:, 1],
        },
        schema_overrides={"vm": pl.Int16, "slot": pl.Int32},
    )
    both = usage.join(recorded, on=["vm", "slot"], suffix="_found").join(meta.cast({"vm": pl.Int16}), on="vm")
    assert len(both) == len(usage)
    for name, cap in (("cpu", "cap"), ("mem", "memcap")):
        expected = both[name].cast(pl.Float64) / 10_000 * both[cap] / meta[cap].max()
        np.testing.assert_allclose(both[f"{name}_found"], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("places", "months"),
    [
        (["/d/fastStorage/2013-8", "/d/rnd/2013-8"], ["2013-8", "rnd-2013-8"]),
        (["/d/gwa_fastStorage.zip::fastStorage/2013-8", "/d/gwa_t_12_Rnd.zip::2013-8"], ["2013-8", "rnd-2013-8"]),
        (["/arnd/one/2013-8", "/arnd/two/2013-8", "/arnd/two/2013-9"], ["one-2013-8", "two-2013-8", "2013-9"]),
        (["/d/a/x/2013-8", "/d/b/x/2013-8"], ["a-x-2013-8", "b-x-2013-8"]),
        (["/d/one.zip::2013-8", "/d/two.zip::2013-8"], ["one-2013-8", "two-2013-8"]),
    ],
)
def test_folders_of_the_same_month_are_told_apart(places: list[str], months: list[str]) -> None:
    assert list(bitbrains._months(places).values()) == months
