"""Crane by hand: slots of 30 minutes, machines of 8."""

import numpy as np
import pytest

from tvwrl.schedulers.production.crane import Crane, crane_score
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError


def test_crane_scores_by_hand():
    now, hour, day = (np.array([[cpu, 0.5]]) for cpu in (0.4, 0.6, 0.7))
    # Free shares (0.12 + 0.12 + 0.15 + 0.10 + 0.15 + 0.25) / 2 = 0.445; three placements make a hot value of 0 + 1.
    assert crane_score(now, hour, day, np.array([0])) == 44
    assert crane_score(now, hour, day, np.array([3])) == 34
    assert crane_score(now, hour, day, np.array([10])) == 0  # 2 + 5 points: not below 0


@pytest.mark.parametrize(("busiest", "machine"), [(6.0, 0), (6.1, 1)])
def test_crane_leaves_out_what_was_busy_within_the_hour(busiest, machine, choice):
    # In slots of 30 minutes an hour is two. 6 of 8 are 0.75: not above. m1 uses more than m0, so it is the second best.
    rows = [(0, [[0.5, 1], [busiest, 1], [0.8, 1]]), (0, [[5, 5]] * 3), (2, [[1, 1]])]
    assert Scenario().step_seconds == 1800
    assert choice(Crane(), rows, slots=2) == machine


def test_crane_threshold(choice):
    # 5.2 of 8 are 0.65 now; 5.3 are above it.
    assert choice(Crane(), [(0, [[5.2, 1]]), (0, [[5.3, 1]]), (0, [[1, 1]])]) == 0
    assert choice(Crane(), [(0, [[5.3, 1]]), (0, [[5.3, 1]]), (0, [[1, 1]])]) is None
    assert choice(Crane(0.75), [(0, [[5.3, 1]]), (0, [[5.3, 1]]), (0, [[1, 1]])]) == 0
    with pytest.raises(InputError, match="threshold is 0: must be a fraction above 0"):
        Crane(0)
