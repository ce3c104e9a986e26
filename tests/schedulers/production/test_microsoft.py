"""Coach and Resource Central by hand: one resource, a machine of 8, windows of eight slots of 30 minutes."""

import numpy as np

DAY = 48


def day(*by_window):
    """Usage of a day, the same in all slots of a window."""
    return list(np.repeat(by_window, 8))


def test_coach_adds_what_is_guaranteed_and_the_fullest_window(chosen):
    # With p = 0 the guaranteed part is the largest of the least usages by window: 1 and 1. A's peak of 3 comes in the
    # first window, B's in the second: 2 + max(2, 2) = 4, though their peaks sum to 6.
    a, b = day(1, 1, 1, 1, 1, 1), day(1, 1, 1, 1, 1, 1)
    a[3], b[12] = 3, 3
    assert chosen("coach-like(p=1)", [(8, a), (8, b)], 4) == 0
    assert chosen("coach-like(p=1)", [(8, a), (8, b)], 4.1) is None
    b[12], b[5] = 1, 3  # both in the first window
    assert chosen("coach-like(p=1)", [(8, a), (8, b)], 2) == 0
    assert chosen("coach-like(p=1)", [(8, a), (8, b)], 2.1) is None
    # 95 % of seven ones and a 3 is 1 + .65 x 2 = 2.3; beyond it .7.
    assert chosen("coach-like", [(8, a)], 5) == 0
    assert chosen("coach-like", [(8, a)], 5.1) is None


def test_coach_guarantees_the_request_until_every_window_was_seen(chosen):
    assert chosen("coach-like", [(4, [1] * 40)], 4) == 0
    assert chosen("coach-like", [(4, [1] * 40)], 4.1) is None
    assert chosen("coach-like", [(4, [1] * 41)], 7) == 0


def test_resource_central_tests_buckets_and_requests(chosen):
    # 30 % and 10 % of 4 round up to 2 and 1.
    running = [(4, [1.2] * 4), (4, [0.4] * 4)]
    assert chosen("resource-central-like", running, 2) == 0  # 5 of 8, 10 of 10
    assert chosen("resource-central-like", running, 3) is None  # 6 of 8, but 11 of 10
    assert chosen("resource-central-like(max_oversub=inf)", running, 5) == 0
    assert chosen("resource-central-like(max_oversub=inf)", running, 5.1) is None
    # Exactly a quarter stays in its bucket; usage above the request counts as the request; the young are full.
    for past, counts in (([1] * 4, 1), ([1.01] * 4, 2), ([6] * 4, 4), ([1] * 3, 4)):
        assert chosen("resource-central-like(max_oversub=inf)", [(4, past)], 8 - counts) == 0
        assert chosen("resource-central-like(max_oversub=inf)", [(4, past)], 8.1 - counts) is None
