"""Series that move in steps: what is measured of them by hand, and that made ones measure as what they were made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tvwrl.traces.held_series import (
    HELD_HOURS,
    PARTS,
    SHARES,
    before_mapping,
    fitted_shares,
    held_parameters,
    held_series,
    make_parts,
    to_distribution,
)
from tvwrl.types import Trace

FLAT = [[1.0] * 12 + [-1.0] * 12]  # one daily shape: half a day high, half a day low


def test_shares_of_two_parts_by_hand() -> None:
    reach = np.array([[1.0, 1.0], [0.0, 0.0]])  # one part stays for ever, the other is forgotten at once
    np.testing.assert_allclose(fitted_shares(np.array([0.25, 0.25]), reach), [0.25, 0.75], atol=1e-6)
    np.testing.assert_allclose(fitted_shares(np.array([1.0, np.nan]), reach), [1.0, 0.0], atol=1e-6)


def test_correlations_before_a_map_by_hand() -> None:
    z = np.random.default_rng(0).standard_normal(50_000)
    rho = np.array([0.0, 0.2, 0.5, 0.9, np.nan])
    np.testing.assert_allclose(before_mapping(3.0 + 2.0 * z, rho), rho, atol=0.01)  # a linear map changes nothing
    log_normal = (np.exp(0.25 * rho) - 1) / (np.exp(0.25) - 1)  # of exp(z / 2)
    np.testing.assert_allclose(before_mapping(np.exp(0.5 * z), log_normal), rho, atol=0.02)


def test_parts_are_scaled_and_keep_values_as_long_as_they_say() -> None:
    parts = make_parts(FLAT, 40, 2880, 300, np.random.default_rng(0))
    assert parts.shape == (40, len(PARTS), 2880)
    np.testing.assert_allclose(parts.mean(2), 0.0, atol=1e-9)
    np.testing.assert_allclose(parts.std(2), 1.0)
    for part, hours in enumerate(HELD_HOURS[:4], 2):
        changes = (np.diff(parts[:, part]) != 0).mean()
        assert changes == pytest.approx(1 / (12 * hours), rel=0.25)  # 12 slots an hour


def test_the_daily_part_repeats_every_day() -> None:
    daily = make_parts(FLAT, 2, 576, 300, np.random.default_rng(0))[:, 0]
    np.testing.assert_allclose(daily[:, :288], daily[:, 288:])
    assert (daily[:, 72] > 0).all()
    assert (daily[:, 216] < 0).all()


def test_moments_of_a_distribution_are_those_asked_for() -> None:
    x = np.random.default_rng(0).standard_normal((2, 1000))
    y = to_distribution(x, np.ones((2, 7)), np.array([0.5, 2.0]), np.array([0.2, 0.1]), 0.0)
    np.testing.assert_allclose(y.mean(1), [0.5, 2.0])
    np.testing.assert_allclose(y.std(1), [0.1, 0.2])
    np.testing.assert_array_equal(np.argsort(x, 1), np.argsort(y, 1))


def test_a_workload_is_measured_by_hand(make_trace: Callable[..., Trace]) -> None:
    noise = np.random.default_rng(0).random(576)
    square = np.tile([0.3] * 144 + [0.1] * 144, 2)
    constant = np.full((576, 2), 0.2)
    trace = make_trace([np.stack([noise, square], 1), constant], slot_seconds=300)
    found = held_parameters(trace, [FLAT, FLAT])
    assert found["cpu_over0"][0] < 0.2
    assert found["cpu_daily"][0] < 0.2
    assert found["mem_daily"][0] > 0.8
    over = [found[f"cpu_over{k}"][0] for k in range(len(HELD_HOURS))]
    assert over == sorted(over, reverse=True)
    np.testing.assert_allclose(found["mem_level"], [0.2, 0.2])
    np.testing.assert_allclose(found["mem_variation"], [0.5, 0.0])
    assert np.isnan(found["cpu_over0"][1])
    assert np.isnan(found["correlation"][1])


@pytest.mark.parametrize("correlation", [-0.8, 0.0, 0.9])
def test_made_series_have_level_variation_and_correlation(correlation: float) -> None:
    n, shares = 30, {name: 0.1 * (5 - k) for k, name in enumerate(SHARES)} | {"daily": 0.0}
    drawn = {f"{r}_{name}": np.full(n, share) for r in ("cpu", "mem") for name, share in shares.items()}
    drawn |= {f"{r}_shape{k}": np.zeros(n) for r in ("cpu", "mem") for k in range(7)}
    drawn |= {"cpu_level": np.full(n, 0.3), "mem_level": np.full(n, 0.5)}
    drawn |= {"cpu_variation": np.full(n, 0.1), "mem_variation": np.zeros(n)}
    drawn |= {"duration": np.full(n, 2880.0), "correlation": np.full(n, correlation)}
    content = {"resources": ["cpu", "mem"], "slot_seconds": 300, "profiles": [FLAT, FLAT], "floor": [0.0, 0.0]}
    usage = held_series(content, drawn, 2880, np.random.default_rng(0))
    np.testing.assert_allclose(usage[:, :, 0].mean(1), 0.3)
    np.testing.assert_allclose(usage[:, :, 0].std(1), 0.03, rtol=1e-6)
    np.testing.assert_allclose(usage[:, :, 1], 0.5)
    drawn["mem_variation"] = np.full(n, 0.1)
    usage = held_series(content, drawn, 2880, np.random.default_rng(0))
    between = [np.corrcoef(row.T)[0, 1] for row in usage]
    assert np.mean(between) == pytest.approx(correlation, abs=0.1)
