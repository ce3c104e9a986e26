"""The score of machines: calibrated, explained, never stale, and read from files that run no code."""

import contextlib
import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvwrl.interference.categories import Thresholds
from tvwrl.interference.observations import Levels
from tvwrl.interference.score import InterferenceScore, mean_levels
from tvwrl.interference.score_kernels import predict_levels
from tvwrl.types import InputError

LIMITS = Thresholds((0.5, 1.5), (1.0, 2.0, 3.0, 4.0), (10.0, 100.0, 1000.0))


@pytest.fixture
def score(slowed):
    return InterferenceScore.fit(slowed, weighting="fair", thresholds=LIMITS)


def test_mean_levels_by_hand(make_observations):
    """Levels 1 and 2 together at second 0: mean 1.25 with weights 3 and 1; alone at second 1: 2; unknown: left out."""
    seen = make_observations([0, 1, 0, 1], [1.0, 9.0, 9.0, 9.0])
    seen.seconds[:] = [0, 0, 1, 2]
    levels = Levels(2, np.array([[5.0], [5.0]]))
    predicted, observed = mean_levels(seen, np.array([2.0, 2.0, 1.5, np.nan]), levels, np.array([3.0, 1.0]))
    assert observed.tolist() == [1.25, 2.0]
    assert predicted.tolist() == [2.0, 1.5]


def test_scale_is_the_share_of_quieter_machines(score, slowed_later):
    """On records that it has not seen, machines scored about 20 or 80 are worse than about 20 or 80 %."""
    guess = np.empty(len(slowed_later.service))
    predict_levels(score.trees, slowed_later.service, slowed_later.composition, guess)
    predicted, observed = mean_levels(slowed_later, guess, Levels.of(slowed_later, 10), score.weights)
    percent, rank = score.on_scale(predicted), 100 * np.argsort(np.argsort(observed)) / len(observed)
    for low, high in ((0, 40), (40, 60), (60, 100)):
        part = (percent >= low) & (percent < high)
        assert part.sum() > 20
        assert abs(percent[part].mean() - rank[part].mean()) < 8
    assert 0 <= percent.min() <= percent.max() <= 100


def test_more_of_what_slows_scores_higher_and_explains_why(score, make_machines):
    machines = make_machines(3)
    machines.composition[0, [3, 7]] = [5, 1]
    machines.composition[1, [3, 7]] = [1, 5]
    scores = score.of(machines, 0.0)
    assert scores[1] > scores[0] + 20
    assert scores[0] >= scores[2]
    most, rest = score.explain(machines, 1)
    assert (most.category, most.instances, rest.category) == (7, 5, 3)
    assert most.points > 20 > abs(rest.points)
    assert machines.composition[1, 7] == 5
    machines.composition[0, 10:18] = 2  # with more categories than all orders are tried of
    scores = score.of(machines, 0.0)
    for machine in (0, 1):
        parts = score.explain(machines, machine)
        assert sum(part.points for part in parts) == pytest.approx(scores[machine] - scores[2])
    assert score.choose(machines, 0.0, 7, np.array([1, 0])) == 0


def test_nothing_known_is_the_mean_and_never_chosen_first(score, make_machines):
    machines = make_machines(4)
    machines.composition[:3, 7] = [0, 3, 5]
    machines.last_report[:] = [1000.0, 1000.0, 1000.0, 300.0]
    fresh = score.of(machines._replace(last_report=np.full(4, 1000.0)), 1000.0)
    scores = score.of(machines, 1000.0)
    assert scores[:3].tolist() == fresh[:3].tolist()
    assert scores[3] == pytest.approx(fresh[:3].mean())
    assert score.choose(machines, 1000.0, 3, np.array([3, 2])) == 2
    assert score.choose(machines, 1000.0, 3, np.array([3])) == 3
    assert np.isnan(score.of(machines, 5000.0)).all()
    assert score.choose(machines, 5000.0, 3, np.array([2, 0])) == 2
    nobody = make_machines(2, services=())
    nobody.last_report[:] = 5000.0
    assert score.of(nobody, 5000.0).tolist() == [0.0, 0.0]


def test_problems_are_warned_of_once_and_stop_nobody(score, make_machines):
    machines = make_machines(3)
    machines.composition[:, 7] = [5, 0, 0]
    candidates = np.array([0, 1, 2])
    with pytest.warns(UserWarning, match="category 60 is not one of 0 to 59"):
        assert score.choose(machines, 0.0, 60, candidates) == 0
    machines.cpu[1] = np.nan
    with pytest.warns(UserWarning, match="usage of machine 1 is not a number"):
        assert score.choose(machines, 0.0, 7, candidates) == 2
    machines.last_report[:] = 100.0
    assert score.choose(machines, 100.0, 7, candidates) == 2
    with pytest.warns(UserWarning, match="the clock went back from second 100 to 40"):
        assert score.choose(machines, 40.0, 7, candidates) == 0  # reports of second 100 are still to come
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert score.choose(machines, 30.0, -7, candidates) == 0
        assert np.isnan(score.of(machines, 20.0)).all()
        machines.last_report[:] = 20.0
        assert not np.isnan(score.of(machines, 20.0)).any()
        assert score.choose(machines, 1e12, 7, candidates) == 0  # a clock gone wrong knows nothing, but does no harm
        assert score.choose(machines, 21.0, 7, candidates) == 2


def test_files_keep_everything(score, make_machines, tmp_path):
    path = tmp_path / "score.npz"
    score.save(path)
    again = InterferenceScore.load(path)
    machines = make_machines(5)
    machines.composition[:, [3, 7, 11]] = np.random.default_rng(0).integers(0, 6, (5, 3))
    assert again.of(machines, 0.0).tolist() == score.of(machines, 0.0).tolist()
    assert (again.services, again.k, again.thresholds) == (("a", "b"), 10, LIMITS)


def test_files_that_are_no_scores_are_refused(score, tmp_path):
    path = tmp_path / "score.npz"
    with pytest.raises(InputError, match="no such file"):
        InterferenceScore.load(path)
    path.write_bytes(pickle.dumps({"facts": 1}))
    with pytest.raises(InputError, match="not an interference score"):
        InterferenceScore.load(path)


@pytest.mark.parametrize(
    ("field", "damage", "message"),
    [
        ("left", lambda left: left + 10**6, "its trees have children outside"),
        ("feature", lambda feature: feature + np.uint8(61), "its trees test categories"),
        ("depth", lambda depth: -depth, "its trees test categories"),
        ("root", lambda root: root.astype(float), "root is 1-dimensional float64"),
        ("level", lambda level: level * 9, "levels outside 1 to 10"),
        ("weights", lambda weights: weights[:1], "not as many trees or weights"),
        ("weights", lambda weights: -weights, "a weight is not > 0"),
        ("weights", lambda weights: np.array(["a", "b"]), "weights is 1-dimensional <U1"),
        ("percent", lambda percent: percent[:-1], "its scale does not rise"),
        ("knots", lambda knots: np.full_like(knots, np.nan), "knots holds a value that is not a finite number"),
        ("knots", lambda knots: knots[::-1].copy(), "its scale does not rise"),
        ("knots", lambda knots: np.float64(1.0), "knots is 0-dimensional"),
    ],
)
def test_scores_with_a_fault_are_refused(score, tmp_path, field, damage, message):
    path = tmp_path / "score.npz"
    trees = score.trees
    if field in trees._fields:
        replace(score, trees=trees._replace(**{field: damage(getattr(trees, field))})).save(path)
    else:
        replace(score, **{field: damage(getattr(score, field))}).save(path)
    with pytest.raises(InputError, match=f"{path}: .*{message}"):
        InterferenceScore.load(path)


def test_arrays_that_do_not_fit_together_never_reach_a_kernel(score, make_machines):
    machines = make_machines(3)
    for candidates in ([0, 3], [-1]):
        with pytest.raises(InputError, match="must be from 0 to 2"):
            score.choose(machines, 0.0, 7, np.array(candidates))
    narrow = machines._replace(composition=machines.composition[:, :59].copy())
    with pytest.raises(InputError, match=r"composition has shape \(3, 59\)"):
        score.of(narrow, 0.0)
    with pytest.raises(InputError, match="first must hold 4 rising rows"):
        score.of(machines._replace(first=machines.first[:3]), 0.0)
    with pytest.raises(InputError, match="must be from 0 to 2"):
        score.explain(machines, -1)
    with pytest.raises(InputError, match="category is 60: must be -1 or 0 to 59"):
        score.mean_level(machines, 60)


def test_between_equal_scores_the_preference_decides(score, make_machines):
    """Machines alike differ by the rounding of sums at most, if their services stand in another order."""
    machines = make_machines(2)
    machines = machines._replace(service=np.array([0, 1, 1, 0], np.int32))
    for candidates in ([0, 1], [1, 0]):
        assert score.choose(machines, 0.0, 7, np.array(candidates)) == candidates[0]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_is_refused_or_holds_the_same_services(score, tmp_path, data):
    path = tmp_path / "score.npz"
    score.save(path)
    content = bytearray(path.read_bytes())
    for _ in range(3):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with contextlib.suppress(InputError):  # nothing else is raised
        assert InterferenceScore.load(path).services == score.services


@pytest.mark.parametrize(
    ("field", "place", "value", "message"),
    [
        ("seconds", 3, np.nan, "row 3: seconds is nan: must be a number"),
        ("batch_cpu", 2, np.nan, "row 2: batch_cpu is nan: must be a number >= 0"),
        ("machine", 1, -1, "row 1: machine is -1: must be a number >= 0"),
        ("service", 4, 2, "row 4: service is 2: must be a number < 1"),
        ("composition", (5, 7), -3, "row 5, category 7: composition is -3: must be a number >= 0"),
        ("response_ms", 0, 0.0, "row 0: response_ms is 0.0: must be a number > 0"),
    ],
)
def test_bad_observations_are_refused_by_row_and_field(make_observations, field, place, value, message):
    seen = make_observations([0] * 20, np.arange(1.0, 21.0))
    column = getattr(seen, field).copy()
    column[place] = value
    with pytest.raises(InputError, match=re.escape(message)):
        replace(seen, **{field: column})


def test_one_moment_is_not_enough(make_observations):
    seen = make_observations([0] * 20, np.arange(1.0, 21.0))
    with pytest.raises(InputError, match="all have the same time"):
        InterferenceScore.fit(replace(seen, seconds=np.zeros(20)))
