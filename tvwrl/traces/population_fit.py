"""Fits the figures that a synthetic population is generated from (populations/NAME.json) to a real trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

from tvwrl.command_line import SlotSeconds, TraceName
from tvwrl.runs import whole_file
from tvwrl.traces.catalogue import open_trace
from tvwrl.traces.statistics import DAY_SECONDS, compare_populations, population_parameters, rank_correlation
from tvwrl.traces.synthetic import daily_profiles, generate, nearest_correlation, workload_kinds
from tvwrl.types import Float, InputError, Trace

TABLE_LEVELS = 41  # entries of a fitted quantile table
TIANCHI_DAYS = 98 * 900 / 86400  # length of a series: 98 points, 900 s apart
COMPARED = ((400, 0), (400, 1), (400, 2), (2000, 0))  # workloads and seed of the populations in the report
PAIRS_OF_HOURS = 72  # least pairs of hours from which a container's autocorrelation is computed


@dataclass(frozen=True)
class PopulationFitOptions:
    """Fit the parameters of a synthetic workload population (tvwrl/traces/populations/NAME.json) to a real trace.

    Writes the parameters to --file (.json). The published ones are fitted to google2011 and, for alibaba, to tianchi.
    """

    population: tyro.conf.Positional[Literal["google", "alibaba"]]
    """Name of the population."""
    trace: TraceName
    file: Path
    """File to write."""
    slot_seconds: SlotSeconds = None
    repeats: Path | None = None
    """For Alibaba: container_usage.csv.gz of trace v2018, for the days after the first."""
    corrections: int = 10
    """How often to generate a population and correct the parameters by its deviation from the trace."""


def fit_and_report(options: PopulationFitOptions, report: Callable[[str], object] = print) -> None:
    """Fit a population, write its figures, and pass `report` how far generated ones are from the real one."""
    alibaba = options.population == "alibaba"
    if alibaba and options.repeats is None:
        raise InputError("alibaba needs --repeats: one day of data does not show how one day differs from the next")
    real = replace(open_trace(options.trace, options.slot_seconds), name=options.population)
    days, daily = (8.0, read_repeats(options.repeats)) if alibaba and options.repeats else (0.0, None)
    content = fit_population(real, days, daily, options.corrections)
    with whole_file(options.file) as partial:
        partial.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    days_compared = TIANCHI_DAYS if alibaba else None
    distances = [compare_populations(generate(content, n, s, days_compared), real) for n, s in COMPARED]
    size = options.file.stat().st_size
    report(f"{options.file} {size} bytes; {len(real)} real workloads; Kolmogorov-Smirnov distance of")
    report(f"{'':20s}" + "".join(f"{f'{n} (seed {s})':>16s}" for n, s in COMPARED))
    for name in distances[0]:
        report(f"{name:20s}" + "".join(f"{found[name]:16.3f}" for found in distances))


def read_repeats(path: Path) -> Float:
    """Autocorrelations one day apart of the containers of container_usage.csv.gz, cpu and mem, (K, 2).

    Of hourly means, because the records are too sparse for shorter slots.
    """
    import polars as pl

    table = pl.read_csv(path, has_header=False, infer_schema_length=None)
    table = table.select(
        id=table.columns[0], hour=pl.col(table.columns[2]) // 3600, cpu=table.columns[3], mem=table.columns[4]
    )
    table = table.filter(pl.col("id").is_not_null() & (pl.col("id") != ""))
    out = []
    for _, rows in table.group_by(["id"], maintain_order=True):
        hourly = rows.group_by("hour").agg(pl.col("cpu", "mem").cast(pl.Float64).mean())
        pairs = hourly.join(hourly.with_columns(pl.col("hour") + 24), on="hour", suffix="_before").drop_nulls()
        if len(pairs) >= PAIRS_OF_HOURS:
            out.append([np.corrcoef(pairs[c], pairs[c + "_before"])[0, 1] for c in ("cpu", "mem")])
    return np.array(out)


def fit_population(
    trace: Trace, days: float = 0.0, daily: Float | None = None, corrections: int = 10
) -> dict[str, Any]:
    """Fitted figures that `tvwrl.traces.synthetic.generate` turns back into workloads like those of `trace`.

    Per parameter a quantile table and its Gaussian-copula correlations with the others, the daily shapes, the shares of
    the (class, priority, request known) kinds. `corrections` times a population is generated and measured, and tables
    and copula are moved by what it misses. days: length of every workload, 0 = as in the trace. daily: (K, D) sample of
    autocorrelations a day apart for a trace too short to have any; it stays independent of the other parameters.
    """
    kinds, kind = workload_kinds(trace)
    real = _fitted(trace) | {"kind": kind}
    own_days = float(np.diff(trace.offsets)[0]) * trace.slot_seconds / DAY_SECONDS if days else None
    known_daily = {} if daily is None else {f"{r}_day": daily[:, d] for d, r in enumerate(trace.resources)}
    moved = ("correlation", "_lag1", "_day")  # levels and shapes come out as drawn
    levels = np.linspace(0.0, 1.0, TABLE_LEVELS)
    target = {
        name: _quantiles(value, levels) for name, value in (real | known_daily).items() if np.isfinite(value).any()
    }
    del target["kind"]  # drawn by its shares
    tables = {name: value.copy() for name, value in target.items()}
    goal = np.nan_to_num(rank_correlation(real))
    latent = 2.0 * np.sin(np.pi / 6.0 * goal)
    lag1 = np.concatenate([real[f"{r}_lag1"] for r in trace.resources])
    smoothed = max(0.0, float(np.nanquantile(lag1, 0.1)))  # noise averaged over w slots has lag 1 of 1 - 1/w
    content: dict[str, Any] = {
        "name": trace.name,
        "resources": list(trace.resources),
        "slot_seconds": trace.slot_seconds,
        "reference_machine": trace.reference_machine,
        "days": days,
        "floor": [float(f"{v:.8g}") for v in trace.usage.min(0)],
        "window": round(1.0 / (1.0 - smoothed)),
        "kinds": kinds,
        "profiles": daily_profiles(trace),
        "parameters": list(real),
    }
    for r in range(corrections + 1):
        latent = nearest_correlation(latent)
        content["tables"] = {name: [float(f"{v:.8g}") for v in np.sort(t)] for name, t in tables.items()}
        content["copula"] = np.round(latent[np.tril_indices(len(latent), -1)], 3).tolist()
        if r == corrections:
            break
        made = generate(content, 800, r, own_days)
        fake = _fitted(made) | {"kind": workload_kinds(made, kinds)[1]}
        step = 0.6 if r < corrections // 2 else 0.3
        latent += step * np.nan_to_num(goal - rank_correlation(fake))
        for name, table in tables.items():
            if name.endswith(moved) and np.isfinite(real[name]).any():
                tables[name] = np.clip(table + step * (target[name] - _quantiles(fake[name], levels)), -1.0, 1.0)
    return content


def _fitted(trace: Trace) -> dict[str, Float]:
    return {name: value for name, value in population_parameters(trace).items() if not name.endswith("_peak_ratio")}


def _quantiles(values: Float, levels: Float) -> Float:
    return np.asarray(np.quantile(values[np.isfinite(values)], levels))
