"""Coach and Resource Central by hand: one resource, a machine of 8, windows of eight slots of 30 minutes."""

import math

import numpy as np
import pytest

from tvwrl.schedulers.production.microsoft import CoachLike, ResourceCentralLike
from tvwrl.types import Machines

DAY = 48
TWO = Machines.homogeneous(2, 8, ("cpu",))


def day(*by_window):
    """Usage of a day, the same in all slots of a window."""
    return list(np.repeat(by_window, 8))


def test_coach_takes_the_tightest_of_two(chosen):
    # The first has 1 guaranteed and 5 beyond it in one window, the second always uses 3.
    running = [(8, [6, *[1] * 47], None, 0), (8, [3] * DAY, None, 1)]
    assert chosen("coach-like(p=1)", running, 2, TWO) == 0
    assert chosen("coach-like(p=1)", running, 3, TWO) == 1
    assert chosen("coach-like(p=1)", running, 5.1, TWO) is None


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


# Who requests 4 used 1, and 3 in one slot of the day.
USED = [(4, [*day(1, 1, 1, 1, 1)[:39], 3, *day(1)])] * 20


def test_coach_predicts_from_training_what_it_has_not_seen(chosen):
    # Of a request of 4, 1 is guaranteed and 3 the largest: the newcomer counts at 3, and so does who has just come. The
    # third has run for a day, at 1.
    running = [(4, [1] * DAY), (4, [1])]
    assert chosen("coach-like(p=1)", running, 4, training=USED) == 0  # 1 + 3 + 3
    assert chosen("coach-like(p=1)", [*running, (4, [1])], 4, training=USED) is None  # 10 of 8
    assert chosen("coach-like(p=1)", running, 4) is None  # 1 + 4 + 4
    assert chosen("coach-like(p=1)", [(4, [1] * DAY)] * 5, 4, training=USED) == 0  # 5 + 3


def test_what_coach_reserves_lies_between_its_portions(situation):
    """More percent guarantee more; whatever they are, the sum is at most that of the largest usages."""
    draws = np.random.default_rng(0)
    running = [(8, draws.uniform(0.1, 8, DAY).tolist()) for _ in range(6)]
    cluster, _ = situation(running, 1)
    largest = sum(max(usage) for _, usage in running)
    peaks = []
    for p in (1.0, 50.0, 95.0, 100.0):
        rule = CoachLike(p)
        rule.reset(cluster, draws)
        peaks.append(float(rule.peaks(cluster)[0, 0]))
    assert peaks == sorted(peaks)
    assert peaks[-1] == pytest.approx(largest)
    assert max(np.sum([usage for _, usage in running], axis=0)) <= peaks[-1]


def test_resource_central_takes_the_tightest_of_two(chosen):
    # 25 % of 4 are 1; 38 % of 8 are half of it, 4.
    running = [(4, [1] * 4, None, 0), (8, [3] * 4, None, 1)]
    assert chosen("resource-central-like(max_oversub=inf)", running, 4, TWO) == 1
    assert chosen("resource-central-like(max_oversub=inf)", running, 5, TWO) == 0
    assert chosen("resource-central-like", running, 4, TWO) == 0  # 12 of 10 would be requested of the second


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


# Of a request of 4, a quarter was used: bucket 1. Of a request of 2, a quarter or all in equal parts.
TRAINING = [(4, [1] * 9)] * 20 + [(2, [0.5] * 9), (2, [2] * 9)] * 20


def test_resource_central_predicts_the_bucket_of_newcomers(chosen):
    rule = "resource-central-like(max_oversub=inf)"
    cold = (4, [4])  # counts at 1, whatever its first sample is
    assert chosen(rule, [cold], 4, training=TRAINING) == 0
    assert chosen(rule, [cold], 4.1) is None  # nothing was learnt: 4 + 4.1
    full = [(4, [1] * 4)] * 7  # 7 of 8
    assert chosen(rule, full, 4, training=TRAINING) == 0
    assert chosen(rule, [*full, cold], 4, training=TRAINING) is None
    assert chosen(rule, full, 2, training=TRAINING) is None  # sure of neither bucket: all of 2
    assert chosen("resource-central-like", full, 4, training=TRAINING) is None  # 32 of 10 are requested


def test_resource_central_oversubscribes_cpu_alone(chosen):
    running = [((4, 4), [(1, 1)] * 4)]
    assert chosen("resource-central-like", running, (6, 4)) == 0  # 1 + 6 of 8; 10 of 10; memory 8 of 8
    assert chosen("resource-central-like", running, (6, 4.1)) is None
    assert chosen("resource-central-like(max_oversub=inf)", running, (6, 4.1)) is None


def test_resource_central_takes_more_with_more_oversubscription(situation):
    cluster, workload = situation([(4, [1] * 4), (3, [0.5] * 4), (2, [2])], 3)
    taken = []
    for limit in (1.0, 1.25, 1.5, 2.0, math.inf):
        rule = ResourceCentralLike(limit)
        rule.reset(cluster, np.random.default_rng(0))
        taken.append(bool(rule.passes(cluster, workload)[0]))
    assert taken == sorted(taken)
    assert set(taken) == {False, True}
