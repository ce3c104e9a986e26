"""How well performance is predicted: predictors on drawn and on real applications (Table 2, Figures 2 and 5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from tvwrl.experiments import Rows
from tvwrl.lrasched import (
    Means,
    Predictor,
    Profiles,
    SimulatedApplication,
    both_means,
    configurations,
    draw_applications,
    factorization_machine,
    folding_in,
    held_out_errors,
    matrix_factorization,
    profile,
    rmse,
    seconds_of_prediction,
)
from tvwrl.papers.lrasched.cells import read_erms, read_nginx

FM = "FTRL factorization machine"
PREDICTORS: dict[str, Callable[[int], Predictor]] = {
    FM: factorization_machine,
    "matrix factorization, online": matrix_factorization,
    "matrix factorization, folding in": folding_in,
    "mean of configuration": lambda seed: Means(of_application=False),
    "mean of application": lambda seed: Means(of_configuration=False),
    "both means, added": both_means,
}
SIZE = (2.0, 4.0)  # cores, GiB of the size whose degrees are compared; eight replicas of it fill a machine
DEGREES = [one for one in configurations() if one.size == SIZE]
SIZES = "sizes (simulated)"
SIMULATED = {SIZES: configurations((1,)), "degrees (simulated)": DEGREES}
REAL = {"Erms microservices": ("erms_inflection.csv.gz", read_erms), "nginx": ("ntua_nginx_ibench.csv.gz", read_nginx)}
FIRST, TENTHS = 8, 10  # of Figure 5: applications profiled before, parts of those that arrive
SATURATED = 40  # applications of Figure 2 per seed


def prediction_errors(
    data: str, seed: int, predictor: str, earlier: int = 0, arriving: int = 0, folder: Path | None = None
) -> Rows:
    """RMSE over all arriving applications and of the worst one, and milliseconds of a prediction.

    `data`: one of `SIMULATED`, with numbers of `earlier` and `arriving` applications, or of `REAL`, in `folder`.
    """
    early, late = _real_split(data, seed, folder) if folder else _simulated_split(data, seed, earlier, arriving)
    model = PREDICTORS[predictor](seed)
    errors = held_out_errors(model, early, late, seed)
    worst = max(rmse(row) for row in errors if not np.isnan(row).all())
    latency = seconds_of_prediction(model, len(early.applications)) * 1000
    return [{"rmse": rmse(errors), "worst_rmse": worst, "latency_ms": latency}]


def errors_by_tenth(predictor: str, seed: int, arriving: int) -> Rows:
    """RMSE for each tenth of the arriving applications, all of whose sizes are learnt in the end."""
    early, late = _simulated_split(SIZES, seed, FIRST, arriving)
    errors = held_out_errors(PREDICTORS[predictor](seed), early, late, seed, later=len(late.configurations))
    return [{"tenth": i, "rmse": rmse(part)} for i, part in enumerate(np.array_split(errors, TENTHS), 1)]


def performance_by_degree(seed: int) -> Rows:
    """Throughput at saturation and 99th percentile at half load of drawn applications, as % of those of one replica."""
    rows: Rows = []
    for one in draw_applications(SATURATED, seed):
        alone = one.capacity(DEGREES[0])
        half = SimulatedApplication(one.name, one.service, 0.5 * alone)
        for c in DEGREES:
            row = {"service": one.service.name, "application": one.name, "collocation": c.collocation}
            throughput, p99 = 100 * one.capacity(c) / alone, 100 * half.p99_ms(c) / half.p99_ms(DEGREES[0])
            rows.append(row | {"throughput_pct": throughput, "p99_pct": p99})
    return rows


@lru_cache(maxsize=4)
def _simulated_split(data: str, seed: int, earlier: int, arriving: int) -> tuple[Profiles, Profiles]:
    """Profiles of earlier and of arriving applications of the simulated testbed."""
    whole = profile(draw_applications(earlier + arriving, seed), SIMULATED[data], seed)
    return whole.select(np.arange(earlier)), whole.select(np.arange(earlier, earlier + arriving))


def _real_split(data: str, seed: int, folder: Path) -> tuple[Profiles, Profiles]:
    """Profiles of a random two thirds of the real applications, and of the others."""
    whole = _read(data, folder)
    count = len(whole.applications)
    early = np.random.default_rng(seed).permutation(count) < round(2 / 3 * count)
    return whole.select(early), whole.select(~early)


@lru_cache(maxsize=2)
def _read(data: str, folder: Path) -> Profiles:
    file, reader = REAL[data]
    return reader(folder / file)
