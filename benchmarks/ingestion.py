"""Time and memory of preparing google2011 against merely scanning the same files and summing one column."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import tyro
from timing import Measured, in_own_process, measure

from tvwrl.markdown import markdown_table
from tvwrl.traces.loaders import LOADERS
from tvwrl.traces.preparation.prepare import prepare
from tvwrl.traces.preparation.series import SeriesRules

ROWS = 1_000_000  # in a part
TASKS = 20_000  # that run all the time, ten to a job
SLOT = 300_000_000  # microseconds


def write_part(path: Path, part: int) -> None:
    """A part of task_usage in the published schema: `ROWS` rows of `TASKS` tasks, one after the other in time."""
    rng, slots = np.random.default_rng(part), ROWS // TASKS
    begin = np.repeat(600_000_000 + (part * slots + np.arange(slots)) * SLOT, TASKS)
    job, task = np.divmod(np.tile(np.arange(TASKS), slots), 10)

    def fraction(scale: float) -> np.ndarray:
        return np.round(rng.random(ROWS) * scale, 5)

    columns = [begin, begin + SLOT, 6_000_000_000 + job * 7919, task, rng.integers(1, 5_000_000_000, ROWS)]
    columns += [fraction(scale) for scale in (*[0.1] * 6, *[0.001] * 2, *[0.1] * 2)]
    columns += [fraction(20), fraction(0.02), np.ones(ROWS, np.int64), np.zeros(ROWS, np.int64), fraction(0.1)]
    frame = pl.DataFrame({str(i): column for i, column in enumerate(columns)})
    with gzip.open(path, "wb", compresslevel=1) as file:
        frame.write_csv(file, include_header=False)


def scan(folder: Path) -> None:
    """The yardstick: the engine reads all files and sums one column."""
    fields = [f"c{i}" for i in range(20)]
    schema = {name: pl.Float64 if i >= 5 else pl.Int64 for i, name in enumerate(fields)}
    files = sorted(folder.glob("task_usage/*.gz"))
    pl.scan_csv(files, has_header=False, schema=schema).select(pl.col("c5").sum()).collect(engine="streaming")


def prepare_with(loader: str, folder: Path) -> None:
    """Make a canonical trace of the folder, beside it."""
    out = folder.parent / f"{folder.name}.prepared"
    shutil.rmtree(out, ignore_errors=True)
    prepare(LOADERS[loader](), str(folder), out, SeriesRules(300))


def write_one(folder: Path) -> None:
    """The same rows of 2,000 containers as one csv, one csv.gz and one Parquet file; N million for a folder one-N."""
    rows, rng = int(folder.name.removeprefix("one-")) * ROWS, np.random.default_rng(0)
    usage = {name: np.round(100 * rng.random(rows), 4) for name in ("cpu", "mem")}
    container = pl.Series("workload_id", np.arange(rows) % 2000).cast(pl.String)
    frame = pl.DataFrame({"workload_id": container, "time": np.arange(rows) // 2000 * 300, **usage})
    empty = [pl.lit("").alias(f"field {i}") for i in range(6)]
    for name in ("csv", "csv.gz", "parquet"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    frame.write_parquet(folder / "parquet" / "x.parquet", row_group_size=rows)
    columns = frame.select("workload_id", pl.lit("m_1").alias("machine"), "time", "cpu", "mem", *empty)
    columns.write_csv(folder / "csv" / "container_usage.csv", include_header=False, quote_style="never")
    with gzip.open(folder / "csv.gz" / "container_usage.csv.gz", "wb", compresslevel=1) as file:
        file.write((folder / "csv" / "container_usage.csv").read_bytes())


def row(count: int, job: str, took: Measured) -> tuple[str, ...]:
    """Of the table."""
    return f"{count} million", job, f"{took.wall:.1f}", f"{took.cpu:.1f}", f"{took.peak:.2f}"


def main(
    parts: tuple[int, ...] = (10, 50),
    one_file: tuple[int, ...] = (),
    folder: Path = Path("runs/benchmark-task-usage"),
    rounds: int = 2,
) -> None:
    """Generate what is missing, then measure scan and preparation in turn, each job in a process of its own.

    Args:
        parts: sizes, in parts of a million rows.
        one_file: million rows of a table in one file.
        folder: for the generated files.
        rounds: how often each is measured; the best counts.
    """
    rows = []
    for millions in one_file:
        own = folder / f"one-{millions}"
        if not own.exists():
            in_own_process(write_one, own)
        for name in ("csv", "csv.gz", "parquet"):
            loader = "parquet" if name == "parquet" else "alibaba2018"
            rows.append(row(millions, name, in_own_process(measure, prepare_with, loader, own / name)))
    for count in parts:
        own = folder / f"{count}"
        (own / "task_usage").mkdir(parents=True, exist_ok=True)
        for part in range(count):
            path = own / "task_usage" / f"part-{part:05d}-of-{count:05d}.csv.gz"
            if not path.exists():
                write_part(path.with_suffix(".partial"), part)
                path.with_suffix(".partial").rename(path)
        calls = {"scan": (scan, own), "prepare": (prepare_with, "google2011", own)}
        took = [{job: in_own_process(measure, *call) for job, call in calls.items()} for _ in range(rounds)]
        best = {job: min((one[job] for one in took), key=lambda measured: measured.wall) for job in calls}
        rows += [row(count, job, measured) for job, measured in best.items()]
        print(f"{count} million rows: preparing takes {best['prepare'].wall / best['scan'].wall:.2f} x the scan")
    print(markdown_table(("rows", "", "s", "CPU s", "peak, GiB"), rows))


if __name__ == "__main__":
    tyro.cli(main)
