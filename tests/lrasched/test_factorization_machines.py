"""The factorization machine: one step by hand, gradients, interactions, new features, seeds, bad input."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tvwrl.lrasched.factorization import FactorizationMachine, MatrixFactorization
from tvwrl.types import InputError

GENTLE = {"alpha_w": 1.0, "beta_w": 1e6, "alpha_v": 1.0, "beta_v": 1e6}  # a step is 1e-6 x gradient


def by_pairs(x, machine):
    """Eq. 1 as it stands."""
    w, v, p = machine.weights_, machine.factors_, len(x)
    pairs = sum(x[i] * x[j] * v[i] @ v[j] for i in range(p) for j in range(i + 1, p))
    return machine.intercept_ + w @ x + pairs


def test_one_step_by_hand():
    """One row x = (1, 2), y = 1; alpha_w 0.5, beta_w 1, alpha_v 1, beta_v 2, L1 0.1 and 0.05, L2 0.2 and 0.3, h = 1."""
    machine = FactorizationMachine(1, 0.5, 1.0, 0.1, 0.2, 1.0, 2.0, 0.05, 0.3, sigma=0.4, random_state=3)
    machine.partial_fit(np.zeros((1, 2)), [0.0])  # two features of zero weight; a prediction of 0 is right
    v1, v2 = machine.factors_[:, 0]
    guess = v1 * 1 * v2 * 2
    machine.partial_fit([[1.0, 2.0]], [1.0])

    def linear(gradient):  # from z = n = w = 0
        z, n = gradient, gradient**2
        return -(z - math.copysign(0.1, z)) / ((1 + math.sqrt(n)) / 0.5 + 0.2) if abs(z) > 0.1 else 0.0

    def factor(v, gradient):
        z = -(v * (2 / 1 + 0.3) + math.copysign(0.05, v))  # whose closed form is v
        z += gradient - (math.sqrt(gradient**2) - 0) / 1 * v
        return -(z - math.copysign(0.05, z)) / ((2 + abs(gradient)) / 1 + 0.3) if abs(z) > 0.05 else 0.0

    slope = 2 * (guess - 1)
    assert machine.intercept_ == pytest.approx(linear(slope))
    assert machine.weights_ == pytest.approx([linear(slope), linear(2 * slope)])
    total = v1 + 2 * v2
    assert machine.factors_[:, 0] == pytest.approx(
        [factor(v1, slope * (1 * total - v1)), factor(v2, slope * (2 * total - v2 * 4))]
    )


def test_l1_switches_a_weight_off_and_not_the_factors():
    """Paper: Eq. 7 tests z and lambda1 of w, so the factors would go with the weight."""
    machine = FactorizationMachine(lambda1_w=1e6).fit([[1.0, 1.0]], [1.0])
    assert machine.intercept_ == 0
    assert (machine.weights_ == 0).all()
    assert (machine.factors_ != 0).all()
    machine = FactorizationMachine(lambda1_v=1e6, passes=1).fit([[1.0, 1.0]], [1.0])
    assert (machine.weights_ != 0).all()


@given(
    x=st.lists(st.floats(-2, 2), min_size=1, max_size=5),
    y=st.floats(-2, 2),
    seed=st.integers(0, 50),
)
def test_a_gentle_step_goes_down_the_gradient(x, y, seed):
    """A parameter changes by -alpha / beta x gradient, where the gradient is a finite difference of Eq. 1."""
    x = np.round(np.array(x), 3)
    machine = FactorizationMachine(factors=2, **GENTLE, sigma=0.5, random_state=seed)
    machine.partial_fit(np.zeros((1, len(x))), [0.0])
    before = {"w": machine.weights_.copy(), "v": machine.factors_.copy()}
    assert machine.predict([x])[0] == pytest.approx(by_pairs(x, machine), abs=1e-9)

    def loss():
        return (by_pairs(x, machine) - y) ** 2

    def slope(parameters, at):
        kept, sides = parameters[at], []
        for step in (1e-4, -1e-4):
            parameters[at] = kept + step
            sides.append(loss())
        parameters[at] = kept
        return (sides[0] - sides[1]) / 2e-4

    wanted_w = np.array([slope(machine.weights_, i) for i in range(len(x))])
    wanted_v = np.array([[slope(machine.factors_, (i, f)) for f in range(2)] for i in range(len(x))])
    machine.partial_fit([x], [y])
    assert (machine.weights_ - before["w"]) / -1e-6 == pytest.approx(wanted_w, rel=1e-3, abs=1e-4)
    assert (machine.factors_ - before["v"]) / -1e-6 == pytest.approx(wanted_v, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(("sigma", "learns"), [(0.3, True), (0.0, False)])
def test_an_interaction_is_learnt_if_the_factors_start_at_random(sigma, learns):
    """y = x1 xor x2 in signs, which no weights explain. Factors that start at 0, as z = 0 makes them, stay there."""
    x = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], float)
    y = x[:, 0] * x[:, 1]
    machine = FactorizationMachine(sigma=sigma, alpha_v=0.3, passes=400).fit(x, y)
    error = np.abs(machine.predict(x) - y).max()
    assert error < 0.05 if learns else error > 0.9
    assert learns or (machine.factors_ == 0).all()


def test_new_features_have_zero_weight_and_the_same_factors_whether_added_at_once_or_in_turn():
    rng = np.random.default_rng(0)
    x, y = rng.random((30, 3)), rng.random(30)
    machine = FactorizationMachine(passes=3).fit(x, y)
    wide = np.hstack([x, np.ones((30, 2))])
    assert machine.predict(wide) == pytest.approx(machine.predict(x))  # unknown features count as zero
    two = FactorizationMachine(passes=3).fit(x, y)
    machine.partial_fit(np.zeros((1, 5)), [machine.intercept_])
    two.partial_fit(np.zeros((1, 4)), [two.intercept_]).partial_fit(np.zeros((1, 5)), [two.intercept_])
    assert machine.features_ == 5
    assert (machine.weights_[3:] == 0).all()
    assert np.array_equal(machine.factors_, two.factors_)
    assert (machine.factors_[3:] != 0).all()


def test_same_seed_same_result_and_sparse_as_dense():
    rng = np.random.default_rng(1)
    x, y = rng.random((40, 6)) * (rng.random((40, 6)) < 0.5), rng.random(40)
    one, same = (FactorizationMachine(random_state=5).fit(table, y) for table in (x, csr_array(x)))
    other = FactorizationMachine(random_state=6).fit(x, y)
    assert np.array_equal(one.factors_, same.factors_)
    assert np.array_equal(one.predict(x), same.predict(csr_array(x)))
    assert not np.array_equal(one.factors_, other.factors_)
    twice = csr_array((np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2])), shape=(1, 6))  # an entry in two parts
    assert one.predict(twice) == pytest.approx(one.predict([[3.0, 0, 0, 0, 0, 0]]))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1.0, np.nan]], [1.0], "row 0, feature 1 is nan"),
        ([[0.0], [np.inf]], [1.0, 1.0], "row 1, feature 0 is inf"),
        ([[1.0]], [np.nan], "y: row 0 is nan"),
        ([[1.0]], [1.0, 2.0], "must be (1,)"),
        ([1.0], [1.0], "must be rows of features"),
    ],
)
def test_bad_rows_are_refused(x, y, message):
    for learn in (FactorizationMachine().fit, FactorizationMachine().partial_fit):
        with pytest.raises(InputError) as refusal:
            learn(x, y)
        assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("wrong", "limit"),
    [
        ({"alpha_w": 0.0}, "a number > 0"),
        ({"sigma": "small"}, "a number >= 0"),
        ({"lambda1_v": float("nan")}, "a number >= 0"),
        ({"passes": 0}, "a whole number > 0"),
        ({"factors": 2.5}, "a whole number >= 0"),
        ({"factors": True}, "a whole number >= 0"),
        ({"random_state": None}, "a whole number >= 0"),
    ],
)
def test_bad_parameters_are_refused(wrong, limit):
    (name, value), *_ = wrong.items()
    with pytest.raises(InputError) as refusal:
        FactorizationMachine(**wrong)
    assert str(refusal.value) == f"{name} is {value!r}: must be {limit}"
    if name in ("factors", "passes", "sigma", "random_state"):
        with pytest.raises(InputError, match=name):
            MatrixFactorization(**wrong)
