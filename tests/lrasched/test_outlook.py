"""What to expect of an application: by hand, against a slow twin, and whether doubts are true."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.lrasched.curves import Curves, filled, scales_of
from tvwrl.lrasched.history import not_worse
from tvwrl.lrasched.outlook import Outlook, PerformanceModel, as_monotone
from tvwrl.lrasched.profiles import Configuration, Profiles
from tvwrl.lrasched.target import Target
from tvwrl.types import InputError

SIZES = [Configuration("s", 1, 1), Configuration("m", 2, 1), Configuration("w", 1, 2), Configuration("l", 4, 4)]
SHARED = [*SIZES, Configuration("l2", 4, 4, 2), Configuration("l4", 4, 4, 4)]


def history(count, seed=0, offered=SHARED, gaps=0.0):
    """Applications that differ by level and steepness, with some noise."""
    rng = np.random.default_rng(seed)
    ease = np.array([np.log(one.cpu) + 0.5 * np.log(one.mem) - 0.4 * (one.collocation - 1) for one in offered])
    level, slope = rng.normal(0, 1, (count, 1)), rng.uniform(0.5, 2, (count, 1))
    grid = 1 / (1 + np.exp(-(level + slope * ease + rng.normal(0, 0.05, (count, len(offered))))))
    grid[rng.random(grid.shape) < gaps] = np.nan
    return grid


def profiles(grid, offered=SHARED, higher=True):
    return Profiles.of_grid([f"a{i}" for i in range(len(grid))], [one.name for one in offered], grid, higher)


def test_two_curves_that_differ_by_a_shift_are_shifted_to_what_was_measured():
    """Covariance of a shift is the same everywhere, so an error in one place corrects all places alike."""
    model = Curves(np.array([[1.0, 2.0, 4.0], [2.0, 3.0, 5.0], [3.0, 4.0, 6.0]]), nearness=10.0, shrinkage=0.0)
    assert model.predict(np.array([1]), np.array([7.0])) == pytest.approx([6.0, 7.0, 9.0], abs=1e-6)
    assert model.predict(np.array([], int), np.array([])) == pytest.approx([2.0, 3.0, 5.0])


def test_noise_holds_a_correction_back():
    """With as much noise as variance, half of the error is believed."""
    model = Curves(np.array([[1.0, 2.0], [3.0, 4.0]]), nearness=1e6, shrinkage=1.0)
    assert model.predict(np.array([0]), np.array([4.0])) == pytest.approx([3.0, 4.0], abs=1e-5)


@settings(deadline=None, max_examples=25)
@given(st.integers(3, 12), st.integers(2, 6), st.integers(0, 1000), st.sampled_from([0.2, 1.0, 10.0]))
def test_leaving_one_out_at_once_equals_leaving_it_out_by_hand(count, columns, seed, nearness):
    rng = np.random.default_rng(seed)
    grid = rng.normal(size=(count, columns))
    which = rng.choice(columns, min(2, columns), replace=False)
    at_once = Curves(grid, nearness, 0.1).left_out(which)
    for row in range(count):
        by_hand = Curves(np.delete(grid, row, axis=0), nearness, 0.1).predict(which, grid[row, which])
        assert at_once[row] == pytest.approx(by_hand, rel=1e-6, abs=1e-8)


def test_gaps_are_filled_from_the_row_and_its_kin():
    grid = history(40, gaps=0.2)
    whole, truth = filled(grid), history(40)
    gap = np.isnan(grid)
    assert (whole[~gap] == grid[~gap]).all()
    mean = np.nanmean(grid, axis=0)
    assert np.abs(whole - truth)[gap].mean() < 0.5 * np.abs(np.broadcast_to(mean, grid.shape) - truth)[gap].mean()


def test_scales_and_back():
    values = np.array([0.0, 0.2, 1.0])
    assert [one.name for one in scales_of(values)] == ["as it is", "logit"]
    assert [one.name for one in scales_of(np.array([3.0, 500.0]))] == ["as it is", "logarithm"]
    for scale in scales_of(np.array([0.2, 0.9])):
        assert scale.back(scale.to(np.array([0.3]))) == pytest.approx([0.3])


def test_what_is_better_by_physics():
    better = not_worse(SHARED)
    names = [one.name for one in SHARED]
    pairs = {(names[i], names[j]) for i, j in zip(*np.nonzero(better), strict=True) if i != j}
    assert pairs == {
        ("m", "s"), ("w", "s"), ("l", "s"), ("l", "m"), ("l", "w"), ("l", "l2"), ("l", "l4"), ("l2", "l4"),
    }  # fmt: skip


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000))
def test_monotone_curves_are_monotone_and_left_alone_if_they_were(seed):
    curves, better = np.random.default_rng(seed).normal(size=(5, len(SHARED))), not_worse(SHARED)
    made = as_monotone(curves, better)
    for i, j in zip(*np.nonzero(better), strict=True):
        assert (made[:, i] >= made[:, j] - 1e-12).all()
    assert as_monotone(made, better) == pytest.approx(made)


def test_probability_and_intervals_by_hand():
    found = Outlook(np.arange(1, 20).reshape(-1, 1) / 20.0, "by hand", 0.0)
    assert found.probability(Target.parse("0.5")) == pytest.approx([10 / 20])
    assert found.probability(Target.parse("performance <= 0.1")) == pytest.approx([2 / 20])
    assert found.interval(0.9).ravel() == pytest.approx([0.05, 0.95])
    assert found.interval(0.5).ravel() == pytest.approx([0.25, 0.75], abs=0.051)
    assert found.expected == pytest.approx([0.5])


def test_an_interval_of_too_few_curves_is_as_wide_as_students_distribution():
    """0.4, 0.5, 0.6: mean 0.5, deviation 0.1; Student's 97.5 % quantile with 2 degrees of freedom is 4.303."""
    curves = np.array([[0.4], [0.5], [0.6]])
    half = 4.303 * 0.1 * np.sqrt(4 / 3)
    assert Outlook(curves, "by hand", 0.0).interval(0.95).ravel() == pytest.approx([0.5 - half, 0.5 + half], abs=1e-4)
    within = Outlook(curves, "by hand", 0.0, limits=(0.0, 0.8))
    assert within.interval(0.95).ravel() == pytest.approx([0.5 - half, 0.8], abs=1e-4)
    assert Outlook(curves[:1], "by hand", 0.0).interval(0.95).ravel() == pytest.approx([0.4, 0.4])


@pytest.mark.parametrize("count", [5, 30])
def test_what_is_left_out_does_not_fill_the_gaps_of_the_others(count):
    """An application is predicted the same whatever else was measured of it: else doubts would be too small."""
    grid = history(count, 3, gaps=0.4)
    grid[0] = history(count, 3)[0]
    other = grid.copy()
    other[0, 1:] = other[0, :0:-1]
    which, rows = np.array([0]), np.array([0])
    models = [PerformanceModel(profiles(one), SHARED) for one in (grid, other)]
    how = models[0].outlook({"s": 0.5}).how._replace(name="curves", scale="as it is", nearness=0.8, shrinkage=0.1)
    found = [one._left_out(how, rows, which[None]) for one in models]
    assert found[0] == pytest.approx(found[1], abs=1e-12)


@pytest.mark.parametrize("gaps", [0.0, 0.3, 0.7])
def test_intervals_hold_as_much_as_they_say(gaps):
    grid, truth = history(60, 1, gaps=gaps), history(60, 2)
    model = PerformanceModel(profiles(grid), SHARED)
    inside = []
    for row in truth:
        low, high = model.outlook({"s": row[0], "l": row[3]}).interval(0.8)
        inside += [low[c] <= row[c] <= high[c] for c in (1, 2, 4, 5)]
    assert 0.7 < np.mean(inside) < (0.9 if gaps < 0.5 else 1.0)  # of few measurements they may be too wide


@pytest.mark.parametrize("predictor", ["auto", "curves", "means", "matrix-factorization", "factorization-machine"])
def test_every_predictor_says_more_after_a_measurement(predictor):
    model = PerformanceModel(profiles(history(30)), SHARED, predictor=predictor)
    before, after = model.outlook({}).interval(0.8), model.outlook({"m": 0.6, "w": 0.5}).interval(0.8)
    assert (after[1] - after[0]).mean() < (before[1] - before[0]).mean()


def test_latencies_are_the_mirror_image():
    grid = history(30)
    up = PerformanceModel(profiles(grid), SHARED).outlook({"m": 0.6})
    down = PerformanceModel(profiles(1 - grid), SHARED, higher_is_better=False).outlook({"m": 0.4})
    assert down.expected == pytest.approx(1 - up.expected, abs=0.05)


def test_what_is_learnt_later_counts():
    grid = history(20)
    model, whole = PerformanceModel(profiles(grid[:-1]), SHARED), PerformanceModel(profiles(grid), SHARED)
    names = [one.name for one in SHARED]
    model.partial_fit("a19", dict(zip(names, grid[-1], strict=True)))
    assert model.outlook({"m": 0.6}).curves == pytest.approx(whole.outlook({"m": 0.6}).curves)
    model.partial_fit("a19", {"m": 0.0})
    assert model.history.seen("m")[0] == 0.0
    with pytest.raises(InputError, match="unknown configuration 'xl'"):
        model.partial_fit("b", {"xl": 0.5})


def test_a_constant_history_is_constant():
    model = PerformanceModel(profiles(np.full((12, len(SHARED)), 0.7)), SHARED)
    assert model.outlook({"m": 0.7}).curves == pytest.approx(0.7)


def test_one_application_is_no_history():
    with pytest.raises(InputError, match="applications in the history: 1; at least 2"):
        PerformanceModel(profiles(history(1)), SHARED)


def test_of_a_large_history_the_nearest_part_is_compared():
    grid = history(1500, gaps=0.3)
    model = PerformanceModel(profiles(grid), SHARED)
    part = model.nearest({"m": 0.9})
    assert len(part.applications) == 500
    assert np.nanmean(part.profiles.grid()[:, 1]) > np.nanmean(grid[:, 1])
    assert part.nearest({"m": 0.9}) is part


@pytest.mark.parametrize(
    ("measured", "message"), [({"xl": 0.5}, "unknown configuration 'xl'"), ({"m": float("inf")}, "'m' is inf")]
)
def test_what_cannot_have_been_measured_is_refused(measured, message):
    with pytest.raises(InputError, match=message):
        PerformanceModel(profiles(history(5)), SHARED).outlook(measured)


def test_without_a_measurement_all_of_the_history_counts():
    assert len(PerformanceModel(profiles(history(30)), SHARED).outlook({}).curves) == 30


def test_a_value_that_no_earlier_one_is_like_is_predicted_all_the_same():
    """A latency of 0 has no logarithm."""
    model = PerformanceModel(profiles(1 + 50 * history(20)), SHARED, higher_is_better=False)
    assert np.isfinite(model.outlook({"m": 0.0}).curves).all()
