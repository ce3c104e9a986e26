"""Time and memory of preparing google2011 against merely scanning the same files and summing one column."""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROWS = 1_000_000  # in a part
TASKS = 20_000  # that run all the time, ten to a job
SLOT = 300_000_000  # microseconds


def write_part(path: Path, part: int) -> None:
    """A part of task_usage in the published schema: `ROWS` rows of `TASKS` tasks, one after the other in time."""
    import polars as pl

    rng, slots = np.random.default_rng(part), ROWS // TASKS
    begin = np.repeat(600_000_000 + (part * slots + np.arange(slots)) * SLOT, TASKS)
    job, task = np.divmod(np.tile(np.arange(TASKS), slots), 10)

    def fraction(scale: float) -> np.ndarray:
        return np.round(rng.random(ROWS) * scale, 5)

    columns = [begin, begin + SLOT, 6_000_000_000 + job * 7919, task, rng.integers(1, 5_000_000_000, ROWS)]
    columns += (
        [fraction(0.1) for _ in range(6)] + [fraction(0.001) for _ in range(2)] + [fraction(0.1) for _ in range(2)]
    )
    columns += [fraction(20), fraction(0.02), np.ones(ROWS, np.int64), np.zeros(ROWS, np.int64), fraction(0.1)]
    frame = pl.DataFrame({str(i): column for i, column in enumerate(columns)})
    with gzip.open(path, "wb", compresslevel=1) as file:
        frame.write_csv(file, include_header=False)


def scan(folder: Path) -> None:
    """The yardstick: the engine reads all files and sums one column."""
    import polars as pl

    fields = [f"c{i}" for i in range(20)]
    schema = {name: pl.Float64 if i >= 5 else pl.Int64 for i, name in enumerate(fields)}
    files = sorted(folder.glob("task_usage/*.gz"))
    print(pl.scan_csv(files, has_header=False, schema=schema).select(pl.col("c5").sum()).collect(engine="streaming"))


def scan_duckdb(folder: Path) -> None:
    """The same with DuckDB, for docs/dependencies.md."""
    import duckdb

    types = {f"c{i}": "DOUBLE" if i >= 5 else "BIGINT" for i in range(20)}
    print(
        duckdb.sql(
            f"select sum(c5) from read_csv('{folder}/task_usage/*.gz', header=false, auto_detect=false, delim=',', "
            f"columns={types})"
        ).fetchall()
    )


def prepare_trace(folder: Path) -> None:
    """The job."""
    from tvwrl.traces.loaders.google2011 import Google2011
    from tvwrl.traces.preparation.prepare import prepare
    from tvwrl.traces.preparation.series import SeriesRules

    out = folder.parent / f"{folder.name}.prepared"
    shutil.rmtree(out, ignore_errors=True)
    report = prepare(Google2011(), str(folder), out, SeriesRules(300))
    print(report["rows"]["read"], "rows,", report["workloads"]["kept"], "workloads")


def write_one(folder: Path) -> None:
    """The same rows of 2,000 containers as one csv, one csv.gz and one Parquet file; N million for a folder one-N."""
    import polars as pl

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


def prepare_one(folder: Path) -> None:
    """A table in one file, text or Parquet."""
    from tvwrl.traces.loaders import LOADERS
    from tvwrl.traces.preparation.prepare import prepare
    from tvwrl.traces.preparation.series import SeriesRules

    out = folder.parent / f"{folder.name}.prepared"
    shutil.rmtree(out, ignore_errors=True)
    loader = LOADERS["parquet" if folder.name == "parquet" else "alibaba2018"]()
    prepare(loader, str(folder), out, SeriesRules(300))


JOBS = {"scan": scan, "duckdb": scan_duckdb, "prepare": prepare_trace, "one": prepare_one, "write": write_one}


def measure(job: str, folder: Path) -> dict[str, float]:
    """Wall-clock and CPU seconds and peak memory (GiB) of a job in a process of its own."""
    begun = time.perf_counter()
    run = subprocess.run(
        [sys.executable, __file__, "--job", job, "--folder", str(folder)], capture_output=True, text=True
    )
    if run.returncode:
        raise SystemExit(run.stderr)
    return json.loads(run.stdout.splitlines()[-1]) | {"wall": time.perf_counter() - begun}


def main() -> None:
    """Generate what is missing, then measure scan and preparation in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, nargs="*", default=[10, 50], help="sizes, in parts of a million rows")
    parser.add_argument("--one-file", type=int, nargs="*", default=[], help="million rows of a table in one file")
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/benchmark-task-usage"), help="for the generated files"
    )
    parser.add_argument("--rounds", type=int, default=2, help="how often each is measured; the best counts")
    parser.add_argument("--duckdb", action="store_true", help="scan with DuckDB too (pip install duckdb)")
    parser.add_argument("--job", choices=list(JOBS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        JOBS[arguments.job](arguments.folder)
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps({"cpu": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss / 2**20}))
        return
    for millions in arguments.one_file:
        folder = arguments.folder / f"one-{millions}"
        if not folder.exists():
            measure("write", folder)  # in a process of its own: a child's peak begins with its parent's memory
        for name in ("csv", "csv.gz", "parquet"):
            figures = measure("one", folder / name)
            print(
                f"{millions} million rows, {name}: {figures['wall']:.1f} s, peak {figures['memory']:.2f} GiB",
                flush=True,
            )
    for parts in arguments.parts:
        folder = arguments.folder / f"{parts}"
        (folder / "task_usage").mkdir(parents=True, exist_ok=True)
        for part in range(parts):
            path = folder / "task_usage" / f"part-{part:05d}-of-{parts:05d}.csv.gz"
            if not path.exists():
                write_part(path.with_suffix(".partial"), part)
                path.with_suffix(".partial").rename(path)
        best: dict[str, dict[str, float]] = {}
        for _ in range(arguments.rounds):
            for job in ("scan", "prepare", *(["duckdb"] if arguments.duckdb else [])):
                figures = measure(job, folder)
                best[job] = min(best.get(job, figures), figures, key=lambda f: f["wall"])
        for job, figures in best.items():
            ratio = figures["wall"] / best["scan"]["wall"]
            times = f"{figures['wall']:7.1f} s ({ratio:.2f} x scan), CPU {figures['cpu']:7.1f} s"
            print(f"{parts} million rows, {job:8s} {times}, peak {figures['memory']:.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
