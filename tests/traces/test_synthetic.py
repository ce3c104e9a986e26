"""Synthetic populations: reproducible, well-formed, and close to the real samples that they were fitted to."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from tests.traces.conftest import prepared
from tvwrl.traces import open_trace, synthetic
from tvwrl.traces.deployments import deployments_trace
from tvwrl.traces.loaders import LOADERS
from tvwrl.traces.preparation.series import SeriesRules
from tvwrl.traces.statistics import compare_populations, lag_correlation, population_statistics
from tvwrl.traces.synthetic import POPULATIONS, synthetic_trace
from tvwrl.types import InputError, Trace

TIANCHI_DAYS = 98 * 900 / 86400  # the 98 points of the sample that alibaba is fitted to


def test_statistics_of_series_worked_out_by_hand(make_trace: Callable[..., Trace]) -> None:
    square = np.tile([0.1] * 12 + [0.3] * 12, 4)  # half a day low, half a day high, repeated exactly
    other = 0.5 - square
    constant = np.full((24, 2), 0.2)
    trace = make_trace([np.stack([square, other], 1), constant], slot_seconds=3600, request=np.full((2, 2), 0.4))
    statistics = population_statistics(trace)
    np.testing.assert_allclose(statistics["cpu_level"], [0.2, 0.2])
    np.testing.assert_allclose(statistics["cpu_variation"], [0.5, 0.0])
    np.testing.assert_allclose(statistics["cpu_peak_ratio"], [1.5, 1.0])
    np.testing.assert_allclose(statistics["cpu_request_ratio"], [2.0, 2.0])
    np.testing.assert_allclose(statistics["duration"], [96, 24])
    assert statistics["cpu_day"][0] == pytest.approx(1.0)
    assert statistics["correlation"][0] == pytest.approx(-1.0)
    for name in ("cpu_day", "cpu_lag1", "correlation"):
        assert math.isnan(statistics[name][1])


def test_lag_correlation_skips_gaps() -> None:
    x = np.random.default_rng(0).random((1, 200))
    x[0, 50:53] = np.nan
    known = [(a, b) for a, b in zip(x[0, :-2], x[0, 2:], strict=True) if not math.isnan(a + b)]
    assert lag_correlation(x, 2)[0] == pytest.approx(np.corrcoef(np.array(known).T)[0, 1])


def test_comparison_of_a_population_with_itself_is_zero() -> None:
    trace = synthetic_trace("google", workloads=60)
    distances = compare_populations(trace, trace)
    assert max(distances.values()) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("population", POPULATIONS)
def test_the_seed_decides_everything(population: str) -> None:
    a, b, c = (synthetic_trace(population, workloads=20, seed=s) for s in (7, 7, 8))
    np.testing.assert_array_equal(a.usage, b.usage)
    np.testing.assert_array_equal(a.request, b.request)
    np.testing.assert_array_equal(a.priority, b.priority)
    assert a.usage.shape != c.usage.shape or not np.array_equal(a.usage, c.usage)


@pytest.mark.parametrize(("population", "slot_seconds"), [("google", 300), ("google-v2", 300), ("alibaba", 900)])
@pytest.mark.parametrize("workloads", [1, 33])
def test_shapes_and_ranges(population: str, slot_seconds: int, workloads: int) -> None:
    trace = synthetic_trace(population, workloads=workloads, seed=3)
    day = 86400 // slot_seconds
    lengths = np.diff(trace.offsets)
    assert (trace.source, trace.name, trace.resources) == ("synthetic", population, ("cpu", "mem"))
    assert trace.slot_seconds == slot_seconds
    assert len(set(trace.workload_id)) == len(trace) == workloads
    assert trace.usage.shape == (lengths.sum(), 2)
    assert np.isfinite(trace.usage).all()
    assert (trace.usage >= 0).all()
    assert (lengths % day == 0).all()
    assert ((lengths >= day) & (lengths <= 10 * day)).all()
    if population == "alibaba":
        assert (lengths == 8 * day).all()
    for i in range(workloads):
        np.testing.assert_array_equal(trace.slot[trace.offsets[i] : trace.offsets[i + 1]], np.arange(lengths[i]))
    assert (trace.arrival == 0).all()
    assert trace.request.shape == (workloads, 2)
    assert (trace.request[np.isfinite(trace.request)] >= 0).all()
    np.testing.assert_array_equal(np.isnan(trace.request[:, 0]), np.isnan(trace.request[:, 1]))


def test_days_set_the_length_of_every_workload() -> None:
    assert (np.diff(synthetic_trace("google", workloads=5, days=2).offsets) == 576).all()
    assert (np.diff(synthetic_trace("alibaba", workloads=5, days=TIANCHI_DAYS).offsets) == 98).all()
    assert (np.diff(synthetic_trace("google", workloads=5, days=2 / 288).offsets) == 2).all()


def test_unknown_requests_come_in_the_fitted_share() -> None:
    trace = synthetic_trace("google", workloads=2000, days=0.02)
    assert np.isnan(trace.request[:, 0]).mean() == pytest.approx(24 / 172, abs=0.03)
    assert set(trace.scheduling_class) == {0.0, 1.0, 2.0, 3.0}
    assert np.isnan(synthetic_trace("alibaba", workloads=10, days=1).request).all()


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InputError, match=r"'azure'.*google, google-v2, alibaba"):
        synthetic_trace("azure")
    with pytest.raises(InputError, match="workloads is 0"):
        synthetic_trace("google", workloads=0)
    for days in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="days is"):
            synthetic_trace("google", workloads=1, days=days)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("google-v2(workloads=20000000)", r"workloads is 20000000: must be at most 53,\d\d\d .*1,876 slots"),
        ("google(workloads=20000000)", "workloads is 20000000: must be at most 59,"),
        ("alibaba(workloads=20000000)", "workloads is 20000000: must be at most 130,208 where each has 768 slots"),
        ("google-v2(workloads=20000000,replicas=4)", "workloads is 20000000: must be at most 115,740 .*864 slots"),
        ("google-v2(workloads=100000,replicas=50000)", "replicas is 50000: must be at most 2,480 .*4,032 slots"),
    ],
)
def test_more_than_fits_into_memory_is_refused_before_anything_is_drawn(
    monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.setattr(np.random, "default_rng", None)
    with pytest.raises(InputError, match=f"^{message}.* ask for fewer (workloads|replicas), or for fewer days$"):
        open_trace(f"synthetic:{name}")


def test_the_limit_counts_days() -> None:
    with pytest.raises(InputError, match="workloads is 40: must be at most 34 where each has 2,880,000 slots"):
        synthetic_trace("google-v2", workloads=40, days=10_000)
    with pytest.raises(InputError, match="replicas is 40: must be at most 34 where each has 288,000 slots"):
        deployments_trace(workloads=40, replicas=40, days=1_000)
    synthetic.refuse_too_many(100, 25.0, workloads=4)
    with pytest.raises(InputError, match="workloads is 5: must be at most 4"):
        synthetic.refuse_too_many(100, 25.0, workloads=5)


@pytest.mark.parametrize("population", POPULATIONS)
def test_shipped_figures_hold_no_series(population: str) -> None:
    text = files("tvwrl.traces").joinpath(f"populations/{population}.json").read_text("utf-8")
    assert len(text) < 30_000
    content = json.loads(text)
    count = len(content["parameters"])
    assert len(content.pop("copula")) == count * (count - 1) // 2

    def longest(value: object) -> int:
        if isinstance(value, dict):
            return max(map(longest, value.values()), default=0)
        return max([len(value), *map(longest, value)]) if isinstance(value, list) else 0

    assert longest(content) <= 48  # shorter than half of the shortest real series


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("population", "folder", "days", "workloads"),
    [("google", "google2011", None, 1000), ("alibaba", "tianchi", TIANCHI_DAYS, 2000)],
)
def test_close_to_the_real_population(
    population: str, folder: str, days: float | None, workloads: int, real_data: Path, tmp_path: Path
) -> None:
    loader = LOADERS[folder]()
    rules = SeriesRules(loader.slot_seconds, min_records=loader.min_records)
    real, _ = prepared(loader, real_data / folder, tmp_path / "real", rules)
    # A seed that the fit never generated.
    distances = compare_populations(synthetic_trace(population, workloads=workloads, seed=101, days=days), real)
    assert distances.pop("joint") <= 0.12
    undefined = {name for name, distance in distances.items() if math.isnan(distance)}
    unknown = {f"{r}_{what}" for r in ("cpu", "mem") for what in ("day", "request_ratio")}
    assert undefined == (unknown if population == "alibaba" else set())  # one day of data, and no requests
    assert {name: d for name, d in distances.items() if d > 0.15} == {}
