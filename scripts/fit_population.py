"""Fit the figures of a synthetic workload population (tvwrl/traces/populations/NAME.json) to a real trace sample."""

from __future__ import annotations

import argparse
import csv
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tvwrl.traces.statistics import compare_populations, fit_population
from tvwrl.traces.synthetic import generate
from tvwrl.types import Float, Int, Trace

COMPARED = ((400, 0), (400, 1), (400, 2), (2000, 0))  # workloads and seed of the populations in the printed table
LARGEST_MACHINE = {"cpu": 92.0, "mem": 288.0}  # Tianchi preliminary B: cores and GiB of the larger of its two kinds


def read_google(source: Path) -> Trace:
    """Longest run of consecutive days of each workload of job_usage.parquet; request = tasks x median task request."""
    usage = pl.read_parquet(source / "job_usage.parquet").sort("job", "day", "slot")
    meta = {row["job"]: row for row in pl.read_csv(source / "job_meta.csv").iter_rows(named=True)}
    ids, slots, rows = [], [], []
    for (job,), table in usage.group_by(["job"], maintain_order=True):
        slot = (table["day"].to_numpy().astype(np.int64) - 1) * 288 + table["slot"].to_numpy()
        run = max(np.split(np.arange(len(slot)), np.flatnonzero(np.diff(slot) != 1) + 1), key=len)
        ids.append(job)
        slots.append(slot[run])
        rows.append(table.select("cpu_pct", "mem_pct").to_numpy()[run].astype(np.float64) / 100.0)

    def column(name: str) -> Float:
        return np.array([np.nan if meta[i][name] is None else float(meta[i][name]) for i in ids])

    request = np.stack([column("cpu_req"), column("mem_req")], 1) * column("ntask")[:, None]
    machine = "largest machine of the Google cluster trace 2011"
    return _trace("google", 300, ids, slots, rows, column("prio"), column("sched_class"), request, machine)


def read_alibaba(source: Path) -> Trace:
    """The applications of the Tianchi zip (the file or its folder), 98 points each, fractions of 92 cores, 288 GiB."""
    path = source if source.is_file() else next(source.rglob("preliminary_data*.zip"))
    ids, rows = [], []
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if "app_resources" in n)
        for line in csv.reader(archive.read(name).decode().splitlines()):
            ids.append(line[0])
            series = np.array([line[1].split("|"), line[2].split("|")], dtype=np.float64).T
            rows.append(series / list(LARGEST_MACHINE.values()))
    n = len(ids)
    unknown = np.full(n, np.nan)
    slots = [np.arange(len(r)) for r in rows]
    return _trace("alibaba", 900, ids, slots, rows, unknown, unknown, np.full((n, 2), np.nan), "92 cores, 288 GiB")


def read_repeats(path: Path) -> Float:
    """Autocorrelations one day apart of the containers of container_usage.csv.gz, cpu and mem, (K, 2).

    Of hourly means, where at least 72 pairs of hours exist: the records are too sparse for shorter slots.
    """
    table = pl.read_csv(path, has_header=False, infer_schema_length=None)
    table = table.select(
        id=table.columns[0], hour=pl.col(table.columns[2]) // 3600, cpu=table.columns[3], mem=table.columns[4]
    )
    table = table.filter(pl.col("id").is_not_null() & (pl.col("id") != ""))
    out = []
    for _, rows in table.group_by(["id"], maintain_order=True):
        hourly = rows.group_by("hour").agg(pl.col("cpu", "mem").cast(pl.Float64).mean())
        pairs = hourly.join(hourly.with_columns(pl.col("hour") + 24), on="hour", suffix="_before").drop_nulls()
        if len(pairs) >= 72:
            out.append([np.corrcoef(pairs[c], pairs[c + "_before"])[0, 1] for c in ("cpu", "mem")])
    return np.array(out)


def _trace(
    name: str,
    seconds: int,
    ids: list[Any],
    slots: list[Int],
    rows: list[Float],
    priority: Float,
    scheduling_class: Float,
    request: Float,
    machine: str,
) -> Trace:
    return Trace(
        name=name,
        resources=("cpu", "mem"),
        slot_seconds=seconds,
        workload_id=np.array([str(i) for i in ids], dtype=object),
        offsets=np.concatenate([[0], np.cumsum([len(s) for s in slots])]).astype(np.int64),
        slot=np.concatenate(slots).astype(np.int64),
        usage=np.concatenate(rows),
        application=np.array([str(i) for i in ids], dtype=object),
        arrival=np.array([s[0] for s in slots], dtype=np.int64),
        priority=priority,
        scheduling_class=scheduling_class,
        request=request,
        reference_machine=machine,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("population", choices=("google", "alibaba"))
    parser.add_argument(
        "--source",
        type=Path,
        required=True,
        help="google: folder with job_usage.parquet and job_meta.csv; alibaba: Tianchi preliminary zip, or its folder",
    )
    parser.add_argument(
        "--repeats", type=Path, help="alibaba: container_usage.csv.gz of trace v2018, for the days after the first"
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--rounds", type=int, default=10, help="generate-and-correct rounds of the fit (default 10)")
    args = parser.parse_args()
    if args.population == "alibaba" and args.repeats is None:
        parser.error("alibaba needs --repeats: one day of data says nothing of the next day")
    if args.population == "google":
        real, days, daily = read_google(args.source), 0.0, None
    else:
        real, days, daily = read_alibaba(args.source), 8.0, read_repeats(args.repeats)
    content = fit_population(real, days, daily, args.rounds)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    part = args.out.with_name(args.out.name + ".part")
    part.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    os.replace(part, args.out)
    compared_days = 98 * 900 / 86400 if args.population == "alibaba" else None
    tables = [compare_populations(generate(content, n, s, compared_days), real) for n, s in COMPARED]
    print(f"{args.out} {args.out.stat().st_size} bytes; {len(real)} real workloads; Kolmogorov-Smirnov distance of")
    print(f"{'':20s}" + "".join(f"{f'{n} (seed {s})':>16s}" for n, s in COMPARED))
    for name in tables[0]:
        print(f"{name:20s}" + "".join(f"{t[name]:16.3f}" for t in tables))


if __name__ == "__main__":
    main()
