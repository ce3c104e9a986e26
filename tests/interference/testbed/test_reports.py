"""Reports of machines: all last_report, a share silent, and what a silent machine shows."""

import numpy as np
import pytest

from tvwrl.interference.observations import idle_machines
from tvwrl.interference.testbed.simulation import Reports
from tvwrl.types import InputError


def machines(count):
    return idle_machines(1.0, 1.0, np.zeros(count + 1, np.int64), np.zeros(0, np.int64))


def test_a_silent_machine_shows_its_last_report_and_then_the_truth():
    found, true = machines(200), np.zeros(200, np.int64)
    reports, rng = Reports(found, 0.3, np.random.default_rng(0)), np.random.default_rng(1)
    last = np.zeros(200, np.int64)
    shares = []
    for minute in range(1, 200):
        more = rng.integers(0, 3, 200)
        found.composition[:, 7] += more  # what is booked within the minute
        true += more
        really = np.zeros((200, 60), np.int32)
        really[:, 7] = true
        reports.deliver(found, 60.0 * minute, lambda really=really: really)
        reporting = found.last_report == 60.0 * minute
        last[reporting] = true[reporting]
        assert np.array_equal(found.composition[:, 7], last)
        shares.append(1 - reporting.mean())
    assert np.mean(shares) == pytest.approx(0.3, abs=0.05)
    assert 0 < (found.last_report[found.last_report < 60.0 * 199]).size < 200


@pytest.mark.parametrize("silent", [-0.1, 1.0])
def test_a_share_out_of_range_is_refused(silent):
    with pytest.raises(InputError, match="at least 0 and below 1"):
        Reports(machines(1), silent, np.random.default_rng(0))
