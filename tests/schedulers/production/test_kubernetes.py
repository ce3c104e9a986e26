"""Kubernetes' scores by hand, and who is admitted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.schedulers.production.kubernetes import (
    MostAllocated,
    balanced_allocation,
    least_allocated,
    most_allocated,
)
from tvwrl.types import InputError, Machines

TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))
NAMES = ("kube-default", "balanced-allocation", "least-allocated", "most-allocated")


def runs(*requests, used=1.0):
    """What runs: one workload on each machine that declared so much; all use `used` units of CPU and memory."""
    return [(request, [[used, used]], None, machine) for machine, request in enumerate(requests)]


def test_scores_by_hand():
    # After placement: 4 and 2 of 8 on the first machine, 3 and 3 on the second.
    wanted, size = np.array([[4000, 2000], [3000, 3000]]), np.full((2, 2), 8000)
    assert least_allocated(wanted, size).tolist() == [(50 + 75) // 2, (62 + 62) // 2]
    assert most_allocated(wanted, size).tolist() == [(50 + 25) // 2, (37 + 37) // 2]
    # Without the newcomer 4 and 4, and 4 and 0: from 100 to 87, and from 75 to 100.
    before = np.array([[4000, 4000], [4000, 0]])
    assert balanced_allocation(wanted, before, size).tolist() == [50 + 37 // 2, 50 + 75 // 2]


def test_machines_by_hand(chosen):
    # The newcomer's 1, 3 makes 3, 5 of the first machine and 4, 4 of the second: (62 + 37) // 2 + 68 by default, as it
    # unbalances the first from 100 to 87, against 50 + 81.
    found = [chosen(name, runs((2, 2), (3, 1)), (1, 3), TWO) for name in NAMES]
    assert found == [1, 1, 1, 1]
    # 3, 2 against 5, 4: free shares of (62 + 75) // 2 and (37 + 50) // 2.
    found = [chosen(name, runs((2, 1), (4, 3)), (1, 1), TWO) for name in NAMES]
    assert found == [0, 0, 0, 1]


def test_only_requests_count_and_only_up_to_the_capacity(chosen):
    # 7 of 8 are requested on the first, 6 on the second; 2 more find room there alone, whatever is used.
    assert chosen("most-allocated", runs((7, 1), (6, 1)), (2, 1), TWO) == 1
    assert chosen("most-allocated", runs((7, 1), (6, 1)), (3, 1), TWO) is None
    assert chosen("most-allocated(overcommit=2)", runs((7, 1), (6, 1)), (3, 1), TWO) == 0
    # What is used now has to fit all the same.
    assert chosen("most-allocated(overcommit=2)", runs((1, 1), (1, 1), used=7.995), (3, 1), TWO) is None


def test_an_idle_machine_takes_what_would_otherwise_wait_for_ever(chosen):
    # More than any machine has is counted as a whole one, which the second is not.
    unequal = Machines(np.array([[8.0, 8.0], [4.0, 4.0]]), ("cpu", "mem"))
    assert chosen("kube-default", runs((1, 1)), (20, 20), unequal) == 1


def test_overcommit_is_a_positive_number():
    with pytest.raises(InputError, match=r"overcommit is 0: must be a number > 0"):
        MostAllocated(overcommit=0)


amounts = st.lists(st.tuples(st.integers(0, 20000), st.integers(0, 20000)), min_size=1, max_size=5).map(np.array)


@given(amounts, st.integers(1, 16000))
def test_scores_are_whole_numbers_from_0_to_100(wanted, size):
    sizes = np.full_like(wanted, size)
    for score in (
        least_allocated(wanted, sizes),
        most_allocated(wanted, sizes),
        balanced_allocation(wanted, wanted[::-1], sizes),
    ):
        assert score.dtype == np.int64
        assert ((score >= 0) & (score <= 100)).all()
    # What one counts as free the other counts as used, but for what rounding takes off either.
    total = least_allocated(wanted, sizes) + most_allocated(wanted, sizes)
    assert ((total >= 98) & (total <= 100)).all()
