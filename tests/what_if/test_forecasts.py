"""Forecasts of pods do not depend on how large a pod is."""

from __future__ import annotations

import numpy as np

from tvwrl.forecasting.pretrained import shipped_forecaster
from tvwrl.forecasting.segments import Forecast, columns
from tvwrl.traces.splits import UNSEEN
from tvwrl.traces.windows import Windows
from tvwrl.what_if.forecasts import pod_forecasts

WIDE = columns(2)


def windows(demand):
    count = len(demand)
    nothing = np.full((count, 4), np.nan)
    return Windows(
        demand, np.full(count, demand.shape[1]), nothing, np.zeros(count), np.full(count, UNSEEN), np.arange(count)
    )


def forecasts(demand):
    table = pod_forecasts(shipped_forecaster(), windows(demand))
    return Forecast((table.values[0] * table.steps)[..., :WIDE], 2)


def test_half_the_pod_has_half_the_forecast():
    rng = np.random.default_rng(0)
    demand = 2.0 * rng.gamma(20, 0.05, (6, 40, 2))
    large, small = forecasts(demand), forecasts(demand / 64)
    np.testing.assert_allclose(64 * small.most, large.most, rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(64 * small.mean, large.mean, rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(64**2 * small.spread, large.spread, rtol=2e-2, atol=1e-3)
    np.testing.assert_allclose(small.alive, large.alive, atol=1e-4)


def test_a_tiny_pod_is_forecast_to_stay_tiny():
    found = forecasts(np.full((1, 40, 2), 0.05))
    assert 0.02 < 6 * found.most[0, 20].max() < 0.12


def test_what_comes_later_is_not_seen():
    demand = np.full((1, 40, 2), 0.05)
    later = demand.copy()
    later[:, 20:] = 3.0
    before, after = forecasts(demand), forecasts(later)
    np.testing.assert_allclose(before.most[0, :21], after.most[0, :21], atol=1e-4)
    assert after.most[0, 21].min() > 10 * before.most[0, 21].max()
