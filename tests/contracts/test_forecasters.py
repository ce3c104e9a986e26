"""What every registered forecaster keeps to."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.forecasting import SEGMENTS, Beginnings, NetworkForecaster, training_windows
from tvwrl.forecasting.baselines import FORECASTERS, make_forecaster
from tvwrl.forecasting.scores import score
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.traces.splits import UNSEEN
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.traces.windows import Windows
from tvwrl.types import InputError

EVERY = list(FORECASTERS)
QUICK = {"network": {"epochs": 2, "hidden": 8}, "boosting": {"trees": 2, "examples": 400}}


def quick(name, random_state=0, peak_units=6):
    """A forecaster that is fitted in no time."""
    made = make_forecaster(name, peak_units, 1800, random_state)
    return replace(made, **QUICK.get(name, {}))


def drawn_windows(resources=2, count=40, seed=0, longest=60, constant=False, clock=0.3):
    """Windows of random demand, without metadata."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, longest, count, endpoint=True)
    demand = rng.integers(1, 6, (count, length.max(), resources), endpoint=True).astype(np.float64)
    demand = (np.full_like(demand, 3.0) if constant else demand) * (np.arange(length.max()) < length[:, None])[
        ..., None
    ]
    metadata = np.full((count, resources + 2), np.nan)
    return Windows(demand, length, metadata, np.full(count, clock), np.arange(count) % 3, np.arange(count))


@pytest.fixture(scope="module")
def fitted():
    """Every forecaster, fitted on windows of a small trace, and the sampler."""
    sampler = SequenceSampler(synthetic_trace("google", workloads=60, seed=0, days=3), Scenario(machines=4))
    windows = training_windows(sampler, 120)
    return {name: quick(name).fit(windows) for name in EVERY}, windows, sampler


@pytest.mark.parametrize("name", EVERY)
def test_shapes_and_probabilities(fitted, name):
    forecaster, windows = fitted[0][name], fitted[1]
    beginnings = Beginnings.every(windows[:5])
    forecast = forecaster.predict(beginnings)
    count, each = len(beginnings), len(SEGMENTS)
    assert forecast.most.shape == (count, each, 2, 7)
    assert forecast.peak.shape == (count, 2, 7)
    assert forecast.mean.shape == (count, each, 2)
    for chances in (forecast.most, forecast.peak):
        assert chances.dtype == np.float32
        assert chances.min() >= 0
        assert np.allclose(chances.sum(axis=-1), 1, atol=1e-4)
    assert 0 <= forecast.mean.min() <= forecast.mean.max() <= 1
    assert not forecast.peak[..., 0].any()


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_known_of_later_slots(fitted, name):
    forecaster, windows = fitted[0][name], replace(fitted[1], fold=np.full(120, UNSEEN))
    long = np.flatnonzero(windows.length > 20)[:6]
    other = windows.demand.copy()
    other[:, 10:] = np.where(other[:, 10:] > 0, 7 - other[:, 10:], 0)
    other[:, 15:] = 0
    changed = replace(windows, demand=other, length=np.minimum(windows.length, 15))
    before, after = (forecaster.predict(Beginnings(w, long, np.full(len(long), 10))) for w in (windows, changed))
    for part in ("most", "peak", "mean"):
        assert np.allclose(getattr(before, part), getattr(after, part), atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_the_same_seed_gives_the_same(name):
    windows = drawn_windows()
    beginnings = Beginnings.every(windows[:4])
    first, again = (quick(name, random_state=3).fit(windows) for _ in range(2))
    assert np.array_equal(first.predict(beginnings).most, again.predict(beginnings).most)
    one, other = (f.sample(beginnings, 3, np.random.default_rng(1)) for f in (first, again))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("name", EVERY)
def test_what_a_fold_has_does_not_change_its_forecasts(name):
    windows = drawn_windows(count=30)
    own = windows.fold == 0
    length = np.where(own, 1, windows.length)
    other = np.where(own[:, None, None], 6 - windows.demand, windows.demand)
    other *= (np.arange(other.shape[1]) < length[:, None])[..., None]
    beginnings = Beginnings.every(windows[own])
    fitted = [quick(name).fit(w) for w in (windows, replace(windows, demand=other, length=length))]
    for one in (fitted[1], *fitted[1].without_.values()):
        if isinstance(one, NetworkForecaster):  # how far it is believed rests on all folds
            one.trust_ = fitted[0].trust_
    before, after = (one.predict(beginnings) for one in fitted)
    assert np.array_equal(before.most, after.most)
    assert np.array_equal(before.peak, after.peak)


@pytest.mark.parametrize("name", EVERY)
def test_futures_end_and_do_not_begin_again(fitted, name):
    forecaster, windows = fitted[0][name], fitted[1]
    futures = forecaster.sample(Beginnings(windows, np.arange(5), np.ones(5, np.int64)), 20, np.random.default_rng(0))
    assert futures.shape[:2] == (5, 20)
    assert futures.shape[3] == 2
    runs = futures.any(axis=3)
    assert not (runs[:, :, 1:] & ~runs[:, :, :-1]).any()
    assert futures.max() <= 6


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    "windows",
    [
        drawn_windows(constant=True),
        drawn_windows(resources=1),
        drawn_windows(longest=2),
        drawn_windows(count=1),
        drawn_windows(count=2, longest=1),
    ],
    ids=["constant demand", "one resource", "series shorter than a segment", "one window", "a single slot"],
)
def test_few_and_dull_windows(name, windows):
    forecaster = quick(name).fit(windows)
    beginnings = Beginnings.every(windows)
    scores = score(forecaster, beginnings)
    assert np.isfinite(scores.crps).all()
    assert np.isfinite(forecaster.sample(beginnings, 2, np.random.default_rng(0))).all()


@pytest.mark.parametrize("name", EVERY)
def test_constant_demand_is_forecast(name):
    windows = drawn_windows(constant=True, count=200)
    if name == "network":
        forecaster = NetworkForecaster(epochs=60, hidden=16, learning_rate=0.02).fit(windows)
    else:
        forecaster = quick(name).fit(windows)
    levels = forecaster.predict(Beginnings.every(windows[:20])).most.sum(axis=(0, 1, 2))
    assert levels[3] > 0.9 * levels[1:].sum()  # level 3 of 6, whenever it runs


@pytest.mark.parametrize("name", EVERY)
def test_the_table_holds_forecasts_of_every_slot(fitted, name):
    forecaster, windows = fitted[0][name], fitted[1]
    table = forecaster.table(windows[:6].reshape(2, 3))
    assert table.values.shape[:3] == (2, 3, windows.demand.shape[1] + 1)
    assert table.values[:, :, 1].any()


@pytest.mark.parametrize("name", [name for name in EVERY if name != "network"])
def test_those_to_compare_with_are_not_saved(fitted, name):
    with pytest.raises(InputError, match="cannot be saved"):
        fitted[0][name].to_dict()


def test_an_unknown_name_lists_all():
    with pytest.raises(InputError, match="forecaster is 'tea leaves': must be one of network, last-value"):
        make_forecaster("tea leaves", 6, 1800)
