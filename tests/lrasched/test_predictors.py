"""Matrix factorization and means by hand, properties of all predictors, and how they are evaluated."""

import numpy as np
import pytest

from tvwrl.lrasched.factorization import MatrixFactorization
from tvwrl.lrasched.predictors import Means, factorization_machine, held_out_errors, matrix_factorization, rmse
from tvwrl.lrasched.profiles import Profiles
from tvwrl.lrasched.testbed import configurations, draw_applications, profile
from tvwrl.types import InputError

HISTORY = Profiles.of_grid("ab", "xyz", np.array([[0.2, 0.4, 0.6], [0.4, 0.6, 1.0]]))


def test_one_step_of_matrix_factorization_by_hand():
    """One pair, y = 1, biases 0, rate 0.1, decay 0.5."""
    model = MatrixFactorization(factors=2, learning_rate=0.1, decay=0.5, random_state=1)
    p, q = (np.random.default_rng((1, side, 0)).normal(0, 0.02, 2) for side in (0, 1))
    model.partial_fit([[0, 0]], [1.0])
    error = 1.0 - p @ q
    assert [side[0] for side in model.biases_] == pytest.approx([0.1 * error, 0.1 * error])
    assert model.factors_[0][0] == pytest.approx(p + 0.1 * (error * q - 0.5 * p))
    assert model.factors_[1][0] == pytest.approx(q + 0.1 * (error * p - 0.5 * q))
    steady = MatrixFactorization(factors=2, learning_rate=0.1, decay=0.5, steadiness=1.0, random_state=1)
    steady.partial_fit([[0, 0]], [1.0])
    assert [side[0] for side in steady.biases_] == pytest.approx([0.1 * error, 0.0])
    with pytest.raises(InputError, match="steadiness is 2"):
        MatrixFactorization(steadiness=2.0)


def test_matrix_factorization_takes_new_rows_and_predicts_the_mean_for_unknown_ones():
    model = MatrixFactorization(passes=200).fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0.2, 0.4, 0.6, 0.8])
    assert model.predict([[0, 0], [1, 1]]) == pytest.approx([0.2, 0.8], abs=0.1)
    assert model.predict([[7, 7]])[0] == model.mean_ == 0.5
    assert model.predict([[7, 1]])[0] == pytest.approx(0.5 + model.biases_[1][1])
    model.partial_fit([[7, 1]], [0.9], passes=50)
    assert model.predict([[7, 1]])[0] == pytest.approx(0.9, abs=0.1)
    for pairs, y in (([[0, 0.5]], [1.0]), ([[0, -1]], [1.0]), ([[0, 0]], [np.nan]), ([[0, 0, 0]], [1.0])):
        with pytest.raises(InputError):
            model.partial_fit(pairs, y)


def test_means_by_hand():
    every, second = np.arange(3), np.array([1])
    found = {}
    for name, kinds in (("c", (True, False)), ("a", (False, True)), ("both", (True, True))):
        means = Means(*kinds)
        means.fit(HISTORY)
        assert means.predict(9, second) == pytest.approx([0.5] if kinds[0] else [3.2 / 6])
        means.learn(2, second, np.array([0.8]))
        found[name] = means.predict(2, every)
    assert found["c"] == pytest.approx([0.3, 0.6, 0.8])  # y is now the mean of 0.4, 0.6, 0.8
    assert found["a"] == pytest.approx([0.8] * 3)
    assert found["both"] == pytest.approx([0.5, 0.8, 1.0])


def test_a_repeated_measurement_replaces_the_first():
    once, again = Means(), Means()
    for means, steps in ((once, [([1], [0.8])]), (again, [([1], [0.1]), ([1, 1], [0.3, 0.8])])):
        means.fit(HISTORY)
        for numbers, values in steps:
            means.learn(2, np.array(numbers), np.array(values))
    assert again.predict(9, np.arange(3)) == pytest.approx([0.3, 0.6, 0.8])  # y: the mean of 0.4, 0.6, 0.8
    assert again.predict(2, np.arange(3)) == pytest.approx(once.predict(2, np.arange(3)))


@pytest.mark.parametrize("make", [factorization_machine, matrix_factorization, lambda seed: Means()])
@pytest.mark.parametrize("number", [3, -1])
def test_a_configuration_that_history_does_not_have_is_refused(make, number):
    predictor = make(0)
    predictor.fit(HISTORY)
    before, asked = predictor.predict(2, np.arange(3)), np.array([1, number])
    with pytest.raises(InputError, match=f"configuration is {number}: must be a number from 0 to 2"):
        predictor.predict(2, asked)
    with pytest.raises(InputError, match=f"configuration is {number}"):
        predictor.learn(2, asked, np.array([0.5, 0.5]))
    assert np.array_equal(predictor.predict(2, np.arange(3)), before)  # and nothing was learnt


def test_models_learn_that_performance_is_level_plus_curve():
    """Performance = level of the application + curve of the configuration: two measurements determine the rest."""
    rng = np.random.default_rng(0)
    grid = rng.uniform(0.1, 0.5, (60, 1)) + np.linspace(0, 0.4, 8)
    names = [f"a{i}" for i in range(60)]
    whole = Profiles.of_grid(names, [f"c{i}" for i in range(8)], grid)
    history, arriving = whole.select(np.arange(45)), whole.select(np.arange(45, 60))
    found = {
        make.__name__: rmse(held_out_errors(make(0), history, arriving, 1))
        for make in (factorization_machine, matrix_factorization, lambda seed: Means(of_application=False))
    }
    assert found["factorization_machine"] < 0.5 * found["<lambda>"]
    assert found["matrix_factorization"] < 0.7 * found["<lambda>"]


def test_on_the_simulated_testbed_the_factorization_machine_beats_online_matrix_factorization():
    """What the paper claims of sizes (Table 2), seed by seed: 12 applications arrive after 36."""
    offered = configurations((1,))
    for seed in (0, 1, 2):
        whole = profile(draw_applications(48, seed), offered, seed)
        history, arriving = whole.select(np.arange(36)), whole.select(np.arange(36, 48))
        machine, factors = (
            rmse(held_out_errors(make(seed), history, arriving, seed))
            for make in (factorization_machine, matrix_factorization)
        )
        assert machine < factors


def test_what_is_held_out_does_not_depend_on_the_predictor():
    grid = np.random.default_rng(0).random((6, 5))
    grid[4, 2] = np.nan
    whole = Profiles.of_grid("abcdef", "vwxyz", grid)
    history, arriving = whole.select(np.arange(3)), whole.select(np.arange(3, 6))
    one, other = (held_out_errors(make(0), history, arriving, 7) for make in (factorization_machine, lambda s: Means()))
    assert (np.isnan(one) == np.isnan(other)).all()
    assert (~np.isnan(one)).sum(axis=1).tolist() == [3, 2, 3]
