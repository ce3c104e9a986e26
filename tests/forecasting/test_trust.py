"""How forecasts are mixed from networks and drift, and how far the networks are believed."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tvwrl.forecasting import SEGMENTS, Beginnings, NetworkForecaster, make_forecaster
from tvwrl.forecasting.beginnings import Outcomes
from tvwrl.forecasting.drift import Drift
from tvwrl.forecasting.scores import ranked_probability, score
from tvwrl.forecasting.segments import Distribution
from tvwrl.forecasting.trust import USUAL, HeldOut, Trust, mixture, unlike
from tvwrl.traces import Windows
from tvwrl.traces.splits import UNSEEN

EACH = len(SEGMENTS)


def windows_of(demand, application=None, fold=None, metadata=None):
    """(n, L, 1) units of demand as windows that never end early."""
    demand = np.asarray(demand, np.float64)
    count, slots = demand.shape[:2]
    every = np.arange(count)
    declared = np.full((count, 3), np.nan) if metadata is None else metadata
    folds = np.full(count, UNSEEN) if fold is None else fold
    return Windows(demand, np.full(count, slots), declared, np.zeros(count), folds, every, application)


def sure(level, levels=6, count=1):
    """A distribution that is sure of one level everywhere, of one resource."""
    most = np.zeros((count, EACH, 1, levels + 1), np.float32)
    most[..., level] = 1
    values = (np.arange(levels + 1) / levels).astype(np.float32)
    return Distribution(most, most[:, 0].copy(), most @ values, values)


def test_a_mixture_by_hand():
    weight, widening = np.full((1, EACH + 1), 0.25, np.float32), np.array([0.12], np.float32)
    mixed = mixture(sure(6), sure(2), weight, np.zeros(1, np.float32))
    assert mixed.most[0, 0, 0].tolist() == [0, 0, 0.75, 0, 0, 0, 0.25]
    assert mixed.peak[0, 0].tolist() == mixed.most[0, 0, 0].tolist()
    assert mixed.mean[0, 0, 0] == pytest.approx(0.25 * 1 + 0.75 * 2 / 6)
    wide = mixture(sure(6), sure(2), weight, widening)
    assert wide.most[0, 0, 0] == pytest.approx([0, 0.02, 0.68, 0.02, 0.02, 0.02, 0.24], abs=1e-6)
    assert wide.peak[0, 0] == pytest.approx([0, 0, 0.66 + 0.024, 0.024, 0.024, 0.024, 0.22 + 0.024], abs=1e-6)
    ended = mixture(sure(0), sure(0), weight, widening)  # what has ended is not widened
    assert ended.most[0, 0, 0].tolist() == [1, 0, 0, 0, 0, 0, 0]


def test_weights_are_the_best_by_crps_and_stay_at_one_where_little_is_gained():
    demand = np.where(np.arange(400)[:, None, None] % 4 == 0, 6.0, 2.0) * np.ones((400, 70, 1))
    beginnings = Beginnings(windows_of(demand), np.arange(400), np.ones(400, np.int64))
    held = HeldOut(beginnings, sure(6, count=400), sure(2, count=400), np.zeros(400, np.float32))
    trust = Trust.fit([held], [], 6)
    level, _ = Outcomes.of(beginnings).levels(6, 6)
    errors = [
        ranked_probability(
            mixture(held.networks, held.drift, np.full((400, EACH + 1), w, np.float32), np.zeros(400, np.float32)).most,
            level,
        ).mean()
        for w in (0.15, 0.25, 0.35)
    ]
    assert errors[1] == min(errors)
    assert trust.weight[0] == pytest.approx(0.25, abs=0.01)
    right = replace(held, networks=sure(2, count=400), drift=sure(3, count=400))
    assert Trust.fit([replace(right, beginnings=beginnings[np.arange(1, 4).repeat(134)[:400]])], [], 6).weight[
        0
    ].tolist() == [1] * (EACH + 1)


def test_nothing_held_out_makes_everything_new():
    trust = Trust.unfounded()
    assert trust.kind(np.array([0.1, 9], np.float32)).tolist() == [len(USUAL) - 1] * 2
    assert (trust.weight[-1] == 0).all()


def test_unlike_is_the_distance_to_the_nearest():
    rng = np.random.default_rng(0)
    shown, prototypes = rng.normal(size=(50, 7)).astype(np.float32), rng.normal(size=(9, 7)).astype(np.float32)
    expected = np.sqrt(((shown[:, None] - prototypes) ** 2).sum(-1)).min(1)
    assert np.allclose(unlike(shown, prototypes), expected, atol=6e-3)
    assert np.allclose(unlike(prototypes, prototypes), 0, atol=1e-2)


def test_trust_comes_back_and_what_does_not_fit_is_refused():
    content = json.loads(json.dumps(Trust.unfounded().to_dict()))
    assert Trust.from_dict(content).to_dict() == content
    for damage in ({"weight": [[1.0] * EACH] * 5}, {"widening": [2.0] * 5}, {"ends": [3.0, 2.0, 1.0, 0.0]}):
        with pytest.raises(ValueError, match="trust"):
            Trust.from_dict(content | damage)


def test_drift_by_hand():
    """All workloads rise by one level a slot: so does what is forecast, up to the highest level."""
    rising = windows_of(np.minimum(np.arange(1, 5)[None, :, None] * np.ones((8, 1, 1)), 6.0))
    drift = Drift().fit(rising)
    new = windows_of(np.array([2.0, 3.0, 4.0, 5.0])[None, :, None])
    chances = drift.predict(Beginnings(new, np.array([0]), np.array([1]))).most[0, :, 0]
    assert chances[0].argmax() == 3  # the next slot
    assert chances[0, 3] > 0.8
    peak = drift.predict(Beginnings(new, np.array([0]), np.array([1]))).peak[0, 0]
    assert peak[:2].sum() == 0
    assert peak.sum() == pytest.approx(1, abs=1e-5)


def test_applications_count_alike_in_drift():
    """Of two applications one has 30 replicas that rise, the other one workload that stays."""
    demand = np.full((31, 40, 1), 2.0)
    demand[:30, 1:] = 4.0
    one = windows_of(demand, application=np.r_[np.zeros(30, int), 30])
    chances = Drift().fit(one).predict(Beginnings(windows_of(demand[30:]), np.array([0]), np.array([1]))).most[0, 0, 0]
    assert chances[4] == pytest.approx(chances[2], rel=0.2)


def test_a_prior_counts_where_little_was_learnt():
    stays = Drift().fit(windows_of(np.full((40, 40, 1), 3.0)))
    jumps = np.full((20, 40, 1), 2.0)
    jumps[:, 1:] = 5.0
    one = windows_of(jumps, application=np.zeros(20, int))  # of one application
    begun = Beginnings(windows_of(jumps[:1]), np.array([0]), np.array([1]))
    alone = Drift().fit(one).predict(begun).most[0, 0, 0]
    with_prior = Drift(prior=stays.shares()).fit(one).predict(begun).most[0, 0, 0]
    assert alone[5] > 0.9
    assert with_prior[5] == pytest.approx(0.5, abs=0.1)  # one application against one
    assert with_prior[2] == pytest.approx(0.5, abs=0.1)


@pytest.fixture(scope="module")
def two_applications():
    """One at 2 units, one that alternates; each declares what it is, and both are in every fold."""
    rng = np.random.default_rng(1)
    steady = np.full((30, 60, 1), 2.0)
    restless = np.where(rng.random((30, 60, 1)) < 0.5, 1.0, 6.0)
    metadata = np.repeat(np.array([[2.0, 1, 1], [6.0, 9, 3]]), 30, axis=0)
    return windows_of(np.concatenate([steady, restless]), np.repeat([0, 30], 30), np.arange(60) % 3, metadata)


def test_an_application_never_seen_is_forecast_by_its_own_usage(two_applications):
    """A new application declares what none did, and stays at 5 units: networks alone are sure of something else."""
    forecaster = NetworkForecaster(epochs=6, hidden=16).fit(two_applications)
    new = windows_of(np.full((20, 60, 1), 5.0), metadata=np.tile([20.0, 5, 2], (20, 1)))
    every = Beginnings.every(new)
    mixed = score(forecaster, every)
    kind = forecaster.trust_.kind
    shown = forecaster._held_out(every).unlike
    assert (kind(shown) >= len(USUAL) - 2).mean() > 0.9
    trust, forecaster.trust_ = forecaster.trust_, None
    alone = score(forecaster, every)
    forecaster.trust_ = trust
    assert mixed.crps.mean() < alone.crps.mean()
    known = Beginnings.every(two_applications[np.arange(0, 60, 7)])
    known = Beginnings(known.windows.without_folds(), known.row, known.seen)
    assert (kind(forecaster._held_out(known).unlike) < len(USUAL) - 1).mean() > 0.8


def test_it_comes_back_bit_for_bit(two_applications):
    forecaster = NetworkForecaster(epochs=2, hidden=8).fit(two_applications)
    again = NetworkForecaster.from_dict(json.loads(json.dumps(forecaster.to_dict())))
    begun = Beginnings.every(two_applications[np.arange(0, 60, 9)])
    assert np.array_equal(forecaster.predict(begun).most, again.predict(begun).most)
    assert np.array_equal(forecaster.predict(begun).peak, again.predict(begun).peak)
    assert again.to_dict() == forecaster.to_dict()


def test_earlier_files_believe_their_networks_alone(two_applications):
    forecaster = NetworkForecaster(epochs=2, hidden=8).fit(two_applications)
    content = forecaster.to_dict()
    parts = [content, *content["without"].values()]
    for part in parts:
        for name in ("trust", "drift", "prototypes"):
            del part[name]
    old = NetworkForecaster.from_dict(content)
    assert old.trust_ is None
    begun = Beginnings.every(two_applications[np.arange(5)])
    for one in (forecaster, *forecaster.without_.values()):
        one.trust_ = None
    assert np.array_equal(old.predict(begun).most, forecaster.predict(begun).most)


def test_drift_is_a_forecaster_by_name():
    assert isinstance(make_forecaster("drift", 6, 1800), Drift)
