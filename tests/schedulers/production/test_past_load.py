"""The load of machines in past slots, by hand."""

from dataclasses import replace

import numpy as np

from tvwrl.schedulers.production.facts import PastLoad, load_in
from tvwrl.simulation.scenario import Scenario


def test_past_load_knows_slots_in_which_nothing_was_decided(begun, make_sequences):
    # One workload uses 1, 5, 2 on m0, then leaves; another arrives in slot 4 and runs on m1.
    rows = [(0, [[1, 1], [5, 1], [2, 1]]), (4, [[3, 1]] * 3)]
    simulation, cluster = begun(make_sequences(rows))
    past = PastLoad(cluster, 4)
    assert past.newest(cluster, 4)[:, :, 0].tolist() == [[0, 0]]
    simulation.place(0, 0)
    assert past.newest(cluster, 4)[:, :, 0].tolist() == [[1, 0]]  # what is placed in a slot counts in it
    simulation.next_slot()  # the next decision is due in slot 4
    simulation.place(0, 1)
    assert cluster.slot == 4
    assert past.newest(cluster, 4)[:, :, 0].tolist() == [[5, 0], [2, 0], [0, 0], [0, 3]]
    assert past.newest(cluster, 2)[:, :, 0].tolist() == [[0, 0], [0, 3]]


def test_past_load_comes_as_late_as_usage_does(begun, make_sequences):
    rows = [(0, [[1, 1], [5, 1], [2, 1]]), (1, [[3, 1]] * 3), (2, [[1, 1]])]
    late = Scenario(placements_per_slot=None, queue=9, usage_delay=1)
    simulation, cluster = begun(make_sequences(rows), late)
    past = PastLoad(cluster, 4)
    assert past.newest(cluster, 4)[:, :, 0].tolist() == [[0, 0]]
    simulation.place(0, 0)
    simulation.next_slot()
    simulation.place(0, 1)
    assert past.newest(cluster, 4)[:, :, 0].tolist() == [[1, 0]]  # of slot 0
    simulation.next_slot()
    assert past.newest(cluster, 4)[:, :, 0].tolist() == [[1, 0], [5, 3]]


def test_past_load_is_what_the_cluster_measured(begun, make_sequences):
    rng = np.random.default_rng(0)
    rows = [(2 * i, rng.integers(1, 4, (rng.integers(1, 9), 2)).tolist()) for i in range(20)]
    noise = rng.integers(0, 3, (1, 5, 2, 2)).astype(np.uint8)
    simulation, cluster = begun(replace(make_sequences(rows), background=noise))
    seen = {}
    while not simulation.is_over():
        simulation.place(0, int(rng.integers(2)))
        seen[cluster.slot] = cluster.load.copy()
        simulation.next_slot()
    assert len(seen) == 20
    for slot, load in seen.items():
        assert (load_in(cluster, slot) == load).all()
