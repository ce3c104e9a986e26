"""What has to go for one more replica, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tvwrl.packing.contents import set_limits
from tvwrl.packing.ejection import affinity_ejections, capacity_ejections
from tvwrl.planning.instance import Fleet


def test_what_affinity_ejects_by_hand(make, packed):
    # Two of a and one of b are there. c allows one of a, and b no c: one a and the b have to go.
    problem, s = packed(
        make([2, 1, 1], [[1, 1]] * 3, [(2, 0, 1), (1, 2, 0)]), Fleet.of_kinds([[8, 8]], [2], fixed=True)
    )
    s.weight[:] = [1, 5, 1]
    set_limits(problem.applications, s, 2)

    def eject(most, max_ejected=8, own=9):
        machine = s.application[0], s.count[0], s.kinds[0]
        return affinity_ejections(2, own, *machine, s.allows, s.bears, s.weight, most, max_ejected, s.trial)

    assert eject(np.inf) == (6.0, 2, 2)
    assert s.trial[:, :2].tolist() == [[0, 1], [1, 1]]
    assert eject(6.0)[0] == np.inf  # no cheaper than what is known
    assert eject(np.inf, max_ejected=1)[0] == np.inf


@pytest.mark.parametrize("unit", [1e-7, 1.0, 1e9])
def test_what_capacity_ejects_by_hand(unit):
    # 3 too much of the second resource: b frees 3 for weight 2; three of a would free 1 each for weight 1 each.
    demand = np.array([[1.0, 1.0], [1.0, 3.0], [1.0, 4.0]]) * unit
    application, count, weight = np.array([0, 1], np.int32), np.array([3, 1], np.int32), np.array([1.0, 2.0, 1.0])
    trial, room, capacity = np.zeros((2, 2), np.int32), np.array([0.0, -3.0]) * unit, np.array([8.0, 8.0]) * unit
    arguments = (2, application, count, 2, demand, weight)
    assert capacity_ejections(*arguments, np.inf, 8, 0.0, 0, 0, trial, room.copy(), capacity) == (2.0, 1)
    assert trial[:, 0].tolist() == [1, 1]
    rounding = np.array([0.0, -1e-10]) * unit
    assert capacity_ejections(*arguments, np.inf, 8, 0.0, 0, 0, trial, rounding, capacity) == (0.0, 0)
    assert capacity_ejections(*arguments, 2.0, 8, 0.0, 0, 0, trial, room.copy(), capacity)[0] == np.inf
