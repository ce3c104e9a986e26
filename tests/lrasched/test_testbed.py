"""The simulated testbed: a point by hand, and what any service has to obey."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.lrasched.profiles import Configuration
from tvwrl.lrasched.testbed import SERVICES, SimulatedApplication, configurations, draw_applications, profile
from tvwrl.types import InputError

CASSANDRA = SERVICES[0]


def test_a_point_by_hand():
    """2 cores and 1 GiB of a dataset of 4, two on a machine."""
    one, two = (SimulatedApplication("c", CASSANDRA, 1000.0), Configuration("x", 2, 1, 2))
    hit = (1 / 4) ** 0.5
    work = hit + (1 - hit) * 4
    capacity = 4000 * 2 / 1.08 / work / 1.0101
    assert one.capacity(two) == pytest.approx(capacity)
    served = (1 + (1000 / capacity) ** 4) ** -0.25
    assert one.performance(two) == pytest.approx(served)
    p99 = math.log(100) * 1000 * work / 4000 * 1.0101 / (1 - served * 1000 / capacity)
    assert one.p99_ms(two) == pytest.approx(p99)
    crowded = Configuration("x", 4, 4, 8)  # 8 x 4 cores on 16
    assert one.capacity(crowded) == pytest.approx(one.capacity(Configuration("y", 2, 4, 8)))


def test_two_on_a_machine_cost_one_percent_and_eight_much():
    for service in SERVICES:
        one = SimulatedApplication(service.name, service, 1.0)
        alone, two, eight = (one.capacity(Configuration("x", 2, 4, d)) for d in (1, 2, 8))
        assert two / alone == pytest.approx((1 + service.gain) / 1.0101)
        assert 0.45 < eight / alone < 0.75


@given(seed=st.integers(0, 1000))
def test_more_cpu_or_memory_never_hurts(seed):
    for one in draw_applications(4, seed):
        grid = np.array([one.performance(c) for c in configurations((2,))]).reshape(5, 4)
        assert (grid > 0).all()
        assert (grid < 1).all()
        assert (np.diff(grid, axis=0) >= 0).all()
        assert (np.diff(grid, axis=1) >= 0).all()


def test_profiles_are_those_of_their_seed():
    drawn = draw_applications(6, 1)
    assert [one.service.name for one in drawn[:5]] == ["cassandra", "hbase", "memcached", "apache", "cassandra"]
    one, same, other = (profile(drawn, configurations(), seed) for seed in (1, 1, 2))
    assert np.array_equal(one.performance, same.performance)
    assert not np.array_equal(one.performance, other.performance)
    assert len(one) == 6 * 80
    assert (one.performance <= 1).all()
    quiet = profile(drawn, configurations(), 1, noise=0.0)
    assert quiet.performance[0] == drawn[0].performance(configurations()[0])
    with pytest.raises(InputError):
        draw_applications(0, 1)
