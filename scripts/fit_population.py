"""Fit the figures of a synthetic workload population (tvwrl/traces/populations/NAME.json) to a real trace sample."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from tvwrl.traces import read_trace
from tvwrl.traces.statistics import compare_populations, fit_population
from tvwrl.traces.synthetic import generate
from tvwrl.types import Float

COMPARED = ((400, 0), (400, 1), (400, 2), (2000, 0))  # workloads and seed of the populations in the printed table


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("population", choices=("google", "alibaba"))
    parser.add_argument(
        "--trace", type=Path, required=True, help="prepared trace: of google2011, or of tianchi for alibaba"
    )
    parser.add_argument(
        "--repeats", type=Path, help="alibaba: container_usage.csv.gz of trace v2018, for the days after the first"
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--rounds", type=int, default=10, help="generate-and-correct rounds of the fit (default 10)")
    args = parser.parse_args()
    if args.population == "alibaba" and args.repeats is None:
        parser.error("alibaba needs --repeats: one day of data says nothing of the next day")
    real = replace(read_trace(args.trace), name=args.population)
    days, daily = (0.0, None) if args.population == "google" else (8.0, read_repeats(args.repeats))
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
