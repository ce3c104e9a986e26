"""Distributions from quantiles, as forecasters of one's own give them."""

import numpy as np
import pytest

from tvwrl.forecasting import SEGMENTS, Distribution
from tvwrl.types import InputError

VALUES = np.array([0, 0.25, 0.75], np.float32)  # two levels, that meet at one half
EACH = len(SEGMENTS)


def distribution(quantiles, shares, alive=1.0, peak=None):
    most = np.tile(np.asarray(quantiles, float), (1, EACH, 1, 1))
    rest = most[:, 0] if peak is None else np.tile(np.asarray(peak, float), (1, 1, 1))
    return Distribution.from_quantiles(shares, most, rest, most.mean(-1).clip(0), np.full((1, EACH), alive), VALUES)


@pytest.mark.parametrize(
    ("quantiles", "at_most_half"),
    [
        ([0.1, 0.2, 0.3], 1.0),
        ([0.6, 0.7, 0.9], 0.0),
        ([0.3, 0.5, 0.9], 0.5),  # an edge belongs to the lower level
        ([0.4, 0.6, 0.9], 0.3),  # half way from 0.1 to 0.5
        ([-3.0, 0.6, 7.0], 0.1 + 0.4 * 0.5 / 0.6),
    ],
)
def test_levels_by_hand(quantiles, at_most_half):
    found = distribution(quantiles, (0.1, 0.5, 0.9))
    assert found.most[0, 0, 0] == pytest.approx([0, at_most_half, 1 - at_most_half], abs=1e-6)
    assert found.peak[0, 0] == pytest.approx([0, at_most_half, 1 - at_most_half], abs=1e-6)


def test_the_end_has_the_rest_of_the_probability():
    found = distribution([0.6, 0.9], (0.2, 0.8), alive=0.75)
    assert found.most[0, :, 0].tolist() == [[0.25, 0, 0.75]] * EACH
    assert found.alive.tolist() == [[0.75] * EACH]
    assert found.peak[0, 0].tolist() == [0, 0, 1]


def test_quantiles_come_back_within_their_level():
    rng = np.random.default_rng(0)
    shares = np.linspace(0.05, 0.95, 10)
    quantiles = np.sort(rng.random((1, EACH, 1, 10)), axis=-1)
    values = np.arange(11, dtype=np.float32) / 10
    peak = quantiles[:, 0]
    found = Distribution.from_quantiles(shares, quantiles, peak, quantiles.mean(-1), np.ones((1, EACH)), values)
    assert found.most.sum(-1) == pytest.approx(1, abs=1e-5)
    level = found.quantile(0.5)
    median = (quantiles[..., 4] + quantiles[..., 5]) / 2
    assert (level >= median - 1e-6).all()
    assert (level <= median + 0.1 + 1e-6).all()


@pytest.mark.parametrize("shares", [(0.9, 0.1), (0.0, 0.5), (0.5, 1.0), ()])
def test_shares_that_do_not_rise_are_refused(shares):
    with pytest.raises(InputError, match="shares of the quantiles"):
        distribution([0.2] * max(1, len(shares)), shares)


def test_a_missing_quantile_is_named():
    with pytest.raises(InputError, match=r"peak has the shape \(1, 1, 1\): must be \(1, 1, 2\)"):
        distribution([0.1, 0.2], (0.1, 0.9), peak=[0.5])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"most": [0.1, 0.9, 0.6]}, "most has quantiles that fall, from 0.9 to 0.6"),
        ({"peak": [0.4, 0.3, 0.6]}, "peak has quantiles that fall, from 0.4 to 0.3"),
        ({"mean": -0.25}, "mean has the value -0.25: must be at least 0"),
        ({"alive": 1.5}, "alive has the value 1.5: must be 0 to 1"),
        ({"alive": -0.5}, "alive has the value -0.5: must be 0 to 1"),
        ({"alive": np.nan}, "alive has values that are not finite"),
    ],
)
def test_odd_parts_are_refused_with_value_and_limit(changed, said):
    quantiles = [0.1, 0.5, 0.9]
    parts = {
        "most": np.tile(changed.get("most", quantiles), (1, EACH, 1, 1)),
        "peak": np.tile(changed.get("peak", quantiles), (1, 1, 1)),
        "mean": np.full((1, EACH, 1), changed.get("mean", 0.5)),
        "alive": np.full((1, EACH), changed.get("alive", 0.5)),
    }
    with pytest.raises(InputError, match=said):
        Distribution.from_quantiles((0.1, 0.5, 0.9), **parts, values=VALUES)


def test_what_is_off_by_rounding_alone_is_taken():
    near = np.array([0.3, 0.3 - 1e-7, 0.9], np.float32)
    most = np.tile(near, (1, EACH, 1, 1))
    alive = np.full((1, EACH), 1 + 1e-7)
    found = Distribution.from_quantiles((0.1, 0.5, 0.9), most, most[:, 0], np.full((1, EACH, 1), -1e-9), alive, VALUES)
    assert found.alive.max() == 1
    assert found.mean.min() == 0
