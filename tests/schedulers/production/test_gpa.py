"""GPA by hand: one resource, a machine of 8."""

import pytest

from tvwrl.schedulers import make_scheduler
from tvwrl.types import Machines

A, B = (8, [1, 2, 1, 2]), (8, [3, 2, 3, 2])


@pytest.mark.parametrize("name", ["gpa-like", "gpa-independent-like"])
def test_the_tightest_of_two(chosen, name):
    # 1.5 + 2.3263 x .5 = 2.66 and 2.5 + 1.16 = 3.66; alone on a machine, both estimates are the same.
    two, running = Machines.homogeneous(2, 8, ("cpu",)), [(*A, None, 0), (*B, None, 1)]
    assert chosen(name, running, 4, two) == 1
    assert chosen(name, running, 5, two) == 0
    assert chosen(name, running, 5.4, two) is None


def test_sums_and_independent_workloads(chosen):
    # The sum is always 4. By workload: means 1.5 and 2.5, variances .25 each; 4 + 2.3263 x .7071 = 5.645.
    assert chosen("gpa-like", [A, B], 4) == 0
    assert chosen("gpa-like", [A, B], 4.01) is None
    assert chosen("gpa-independent-like", [A, B], 2.35) == 0
    assert chosen("gpa-independent-like", [A, B], 2.36) is None
    assert chosen("gpa-independent-like(slo=0.5)", [A, B], 4) == 0


def test_sums_reach_back_to_the_youngest(chosen):
    # Together for two slots: 2 + 1 and 2 + 3, mean 4, deviation 1: 6.326.
    running = [(8, [9, 9, 2, 2]), (8, [1, 3])]
    assert chosen("gpa-like", running, 1.67) == 0
    assert chosen("gpa-like", running, 1.68) is None


def test_one_sample_is_none(chosen):
    running = [(8, [1, 1, 1]), (5, [1])]
    for name in ("gpa-like", "gpa-independent-like"):
        assert chosen(name, running, 2) == 0  # 1 + 5
        assert chosen(name, running, 2.1) is None


def test_the_service_level_gives_the_deviations():
    assert round(make_scheduler("gpa-like").z, 4) == 2.3263
