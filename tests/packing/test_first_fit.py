"""First fit by hand, and Medea's rule of the fewest candidates."""

from __future__ import annotations

import numpy as np

from tvwrl.packing.first_fit import first_fit, new_row
from tvwrl.provisioning.instance import Fleet
from tvwrl.provisioning.measures import ByInput
from tvwrl.provisioning.planners import FewestCandidates, FirstFit, Watch
from tvwrl.provisioning.workspace import Workspace

FLEET = Fleet(np.array([[8.0, 8.0], [4.0, 8.0]]))


def test_the_first_machine_with_room_takes_as_many_as_fit(make, held, check):
    # a: one of 5 on the first machine, which leaves 3; the second has 4, as all after it: two of b, then c of 1 goes to
    # the first machine again.
    work = Workspace(make([1, 3, 2], [[5, 1], [2, 1], [1, 1]]), FLEET)
    packing = work.packing(work.most_machines)
    first_fit(work.applications, packing, new_row(work.applications, packing), np.arange(3))
    assert held(packing) == [{0: 1, 1: 1, 2: 1}, {1: 2}, {2: 1}]
    check(work, packing)


def test_limits_send_replicas_further(make, held):
    work = Workspace(make([1, 2, 2], [[1, 1]] * 3, [(0, 1, 0), (2, 2, 1)]), FLEET)
    packing = FirstFit(ByInput()).pack(work, Watch())
    assert held(packing) == [{0: 1, 2: 1}, {1: 2, 2: 1}]


def test_the_application_with_the_fewest_candidates_is_next(make, held):
    # b has most neighbours and goes first; it excludes c, which lost its only machine so far: c comes before a.
    work = Workspace(make([1, 1, 1], [[8, 8], [8, 1], [1, 8]], [(1, 2, 0), (1, 0, 5)]), Fleet.of([8, 8]))
    packing = FewestCandidates().pack(work, Watch())
    assert held(packing) == [{1: 1}, {0: 1}, {2: 1}]
