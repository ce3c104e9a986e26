"""What a pod requests, against kube-scheduler's rule written down step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.traces.pod_requests import requested

NONE = float("nan")


def total(containers, init=(), overhead=NONE, pod=NONE):
    arrays = [np.array([one]) for one in containers]
    steps = [(np.array([one]), sidecar) for one, sidecar in init]
    return float(requested(arrays, steps, np.array([overhead]), np.array([pod])).total[0])


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"containers": [1, 2]}, 3),
        ({"containers": [1, NONE]}, 1),
        ({"containers": [NONE]}, NONE),
        ({"containers": [1], "init": [(5, False)]}, 5),
        ({"containers": [1], "init": [(2, True)]}, 3),
        ({"containers": [1], "init": [(2, True), (5, False)]}, 7),  # the sidecar runs already
        ({"containers": [1], "init": [(5, False), (2, True)]}, 5),  # it does not yet
        ({"containers": [1], "init": [(1, True), (2, False), (3, True)]}, 5),
        ({"containers": [1], "init": [(NONE, True), (2, False)]}, 2),
        ({"containers": [1], "overhead": 0.5}, 1.5),
        ({"containers": [NONE], "overhead": 0.5}, 0.5),
        ({"containers": [4], "init": [(9, False)], "pod": 3}, 3),  # takes the place of all of them
        ({"containers": [4], "pod": 3, "overhead": 0.5}, 3.5),
    ],
)
def test_by_hand(asked, expected):
    assert total(**asked) == pytest.approx(expected, nan_ok=True)


AMOUNT = st.one_of(st.just(NONE), st.integers(0, 8).map(float))


@given(st.lists(AMOUNT, max_size=4), st.lists(st.tuples(AMOUNT, st.booleans()), max_size=5), AMOUNT, AMOUNT)
def test_as_kube_scheduler_counts(containers, init, overhead, pod):
    """The most that runs at a time: step by step through the start of the pod, then all that goes on."""
    known = [value for value in (*containers, *(one for one, _ in init)) if not np.isnan(value)]
    running, peaks = 0.0, [0.0]
    for amount, sidecar in init:
        peaks.append(running + np.nan_to_num(amount))
        running += np.nan_to_num(amount) if sidecar else 0.0
    peaks.append(running + np.nansum(containers) if containers else running)
    expected = max(peaks) if known else NONE
    expected = expected if np.isnan(pod) else pod
    if not np.isnan(overhead):
        expected = np.nan_to_num(expected) + overhead
    found = total(containers, init, overhead, pod)
    # What requests 0 is known to request nothing; kube-scheduler makes no difference.
    assert np.nan_to_num(found) == pytest.approx(np.nan_to_num(expected))
    assert np.isnan(found) == np.isnan(expected)
