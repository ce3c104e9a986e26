"""Laws of response times: by hand, and at their anchors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.interference.testbed import laws
from tvwrl.interference.testbed.laws import LAWS, Curve, Law, Pressures, anchored


def test_a_law_by_hand():
    law = Law((("cpu", Curve(2.0, 0.1, 0.5)), ("cache", Curve(1.0, 1.0, 0.0))), at_mean=2.0)
    ones = np.ones((1, 2))
    seen, mean = Pressures(ones, np.array([[1.0, 3.0]]), ones, np.array([[0.3, 0.6]])), Pressures(1.0, 2.0, 1.0, 0.3)
    # cpu is 2 and 4 units: 0.2 and 0.2 + 2 x 0.5; cache 1 and 3 units: 1 and 1
    assert law.slowdown(seen, mean) == pytest.approx(np.array([[1.2, 2.2]]))
    assert law.scaled(0.5).slowdown(seen, mean) == pytest.approx(np.array([[0.1 + 0.5, 0.2 + 1.0]]))


def test_the_control_sees_total_cpu_alone_and_the_others_do_not():
    rng = np.random.default_rng(0)
    mean = Pressures(1.0, 1.0, 1.0, 1.0)
    seen = Pressures(*rng.uniform(0, 3, (3, 1, 6)), np.full((1, 6), 0.7))
    assert np.ptp(LAWS["control"].slowdown(seen, mean)) == 0.0
    assert all(np.ptp(LAWS[name].slowdown(seen, mean)) > 0.1 for name in ("memory", "queue"))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.floats(0.01, 1.0), st.floats(1.25, 3.0), st.floats(1.0, 500.0))
def test_anchored_services_have_the_quantiles_asked_for(seed, spread, ratio, low):
    slow = 0.5 * np.exp(spread * np.random.default_rng(seed).normal(size=2000))
    base, sensitivity, noise = anchored(slow, low, ratio * low)
    assert base > 0
    assert 0 <= sensitivity <= laws.MOST_SENSITIVE
    assert noise >= laws.NOISE
    times = base * (1 + sensitivity * slow) * np.exp(noise * np.random.default_rng(1).normal(size=slow.size))
    found = np.quantile(times, [0.1, 0.9])
    assert found == pytest.approx([low, ratio * low], rel=0.12)


def test_pressure_rises_with_memory_but_does_not_follow_from_it():
    memory = np.repeat([0.1, 1.0], 20_000)
    found = np.log(laws.intensities(memory, np.random.default_rng(0))).reshape(2, -1)
    assert np.diff(found.mean(axis=1))[0] == pytest.approx(laws.ELASTICITY * np.log(10), abs=0.03)
    assert found.std(axis=1) == pytest.approx(np.full(2, laws.TRAIT), abs=0.02)
