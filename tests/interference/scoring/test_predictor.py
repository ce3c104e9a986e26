"""Trees in the form of kernels predict what scikit-learn's predict, and learn the pressure of categories."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tvwrl.interference.observations import CATEGORIES, Levels
from tvwrl.interference.predictor import LevelPredictor, learn_pressure
from tvwrl.types import InputError


@pytest.mark.parametrize("classify", [False, True])
def test_flat_trees_say_what_the_library_says(slowed, slowed_later, classify):
    levels = Levels.of(slowed, 10)
    found = LevelPredictor(counts_alone=True, classify=classify).fit(slowed, levels).predict(slowed_later)
    level = levels.level(slowed.service, slowed.response_ms)
    for service in (0, 1):
        rows, later = slowed.service == service, slowed_later.service == service
        kind = DecisionTreeClassifier if classify else DecisionTreeRegressor
        tree = kind(max_depth=6, min_samples_leaf=20, random_state=0).fit(slowed.composition[rows], level[rows])
        assert found[later] == pytest.approx(tree.predict(slowed_later.composition[later]))


def test_pressure_is_of_the_categories_that_slow_services(slowed, make_observations):
    """Categories 7 and 11 slow one service each, so levels of both rise alike; category 3 slows nobody."""
    pressure = learn_pressure(slowed, Levels.of(slowed, 10))
    assert pressure.max() == 1000
    assert min(pressure[7], pressure[11]) > 700
    assert np.delete(pressure, [7, 11]).max() < 150
    nothing = make_observations([0] * 30, np.full(30, 5.0))
    assert not learn_pressure(nothing, Levels.of(nothing, 2)).any()


def test_unknown_services_and_bad_compositions(slowed, make_observations):
    predictor = LevelPredictor().fit(slowed, Levels.of(slowed, 10))
    none = np.zeros((3, CATEGORIES), np.int64)
    assert np.isnan(predictor.levels_of(np.array([-1, 2, 99]), none)).all()
    with pytest.raises(InputError, match=r"composition has shape \(3, 59\): must be \(3, 60\)"):
        predictor.levels_of(np.zeros(3, np.int64), none[:, 1:])
    few = make_observations([0, 0], [1.0, 2.0])
    with pytest.raises(InputError, match="nothing to learn from"):
        LevelPredictor().fit(few, Levels.of(few, 10, skip_rare=True))
