"""What has been used since placement."""

import numpy as np

from tvwrl.schedulers.production.facts import running, slots_in, summed, usage_samples
from tvwrl.simulation.scenario import Scenario


def test_samples_by_hand(situation):
    cluster, _ = situation([(4, [1, 2, 3], [9]), (5, [7], [9])], 2)
    workload, machine = running(cluster)
    assert (workload.tolist(), machine.tolist()) == ([0, 1], [0, 0])
    samples = usage_samples(cluster, None)
    assert samples.value[:, :, 0].tolist() == [[3, 2, 1], [7, 0, 0]]  # the future, 9, is not there
    assert samples.seen.tolist() == [3, 1]
    assert samples.request[:, 0].tolist() == [4, 5]
    assert samples.newest == 2
    few = usage_samples(cluster, 2, np.array([0]))
    assert (few.value[:, :, 0].tolist(), few.seen.tolist(), few.workload.tolist()) == ([[3, 2]], [2], [0])
    assert usage_samples(cluster, 0).value.shape == (2, 0, 1)


def test_late_usage(situation):
    cluster, _ = situation([(4, [1, 2, 3]), (5, [7])], 2, usage_delay=1)
    samples = usage_samples(cluster, None)
    assert samples.value[:, :, 0].tolist() == [[2, 1], [0, 0]]
    assert (samples.seen.tolist(), samples.newest) == ([2, 0], 1)


def test_nothing_runs(situation):
    cluster, _ = situation([], 2)
    assert usage_samples(cluster, None).value.shape == (0, 0, 1)


def test_hours_in_slots():
    assert [slots_in(hours, Scenario()) for hours in (2, 0.6, 0.1)] == [4, 2, 1]


def test_sums_by_machine():
    amount = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert summed(amount, np.array([1, 0, 1]), 3).tolist() == [[3, 4], [6, 8], [0, 0]]
