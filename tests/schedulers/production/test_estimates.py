"""What was bound since the newest sample counts by its request, and what was measured does not."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.knowledge import REQUESTS
from tvwrl.schedulers.production.facts import FLAT, LIMIT, estimated_load
from tvwrl.simulation.scenario import Scenario

ESTIMATING = ("load-aware", "target-load-packing", "katalyst-load")


@pytest.fixture
def three_slots(begun, make_sequences):
    """delay -> the cluster in slot 2: on m0 since slot 0 one that requests 4 and uses 1; on m1 since slots 1 and 2 two
    like it; and a newcomer that requests 2 of both."""

    def play(delay):
        rows = [(0, [[1, 1]] * 9), (1, [[1, 1]] * 9), (2, [[1, 1]] * 9), (2, [[1, 1]])]
        requests = np.array([[[4, 4], [4, 4], [4, 4], [2, 2]]], float)
        sequences = replace(make_sequences(rows), request=requests)
        simulation, cluster = begun(sequences, Scenario(placements_per_slot=None, queue=9, usage_delay=delay))
        for slot, machine in enumerate((0, 1, 1)):
            while cluster.slot < slot:
                simulation.next_slot()
            simulation.place(0, machine)
        return cluster, sequences.workload(0, 3)

    return play


@pytest.mark.parametrize(
    ("delay", "measured", "unseen"),
    [(0, (1, 2), (0, 0)), (1, (1, 1), (0, 4)), (2, (1, 0), (0, 8)), (3, (0, 0), (4, 8))],
)
def test_by_hand(three_slots, delay, measured, unseen):
    cluster, newcomer = three_slots(delay)
    assert cluster.load[:, 0].tolist() == list(measured)
    for share in (FLAT, LIMIT):
        wanted = np.array(unseen, float)[:, None] + 2.0
        expected = np.array(measured, float)[:, None] + wanted * np.array(share)
        np.testing.assert_allclose(estimated_load(cluster, newcomer, share), expected)


@pytest.mark.parametrize("name", ESTIMATING)
def test_workloads_that_arrive_together_do_not_all_see_the_same_machine_as_free(begun, make_sequences, name):
    """Eight arrive in one slot that nobody measures before the next: without estimates all go to m0."""
    sequences = replace(make_sequences([(0, [[2, 2]] * 3)] * 8), request=np.full((1, 8, 2), 2.0))
    simulation, cluster = begun(sequences, Scenario(placements_per_slot=None, queue=9, usage_delay=1))
    rule = make_scheduler(f"{name}(target=0.3)" if name == "target-load-packing" else name)
    rule.reset(cluster, np.random.default_rng(0))
    chosen = []
    while cluster.waiting and (machine := rule.choose(cluster, sequences.workload(0, len(chosen)))) is not None:
        simulation.place(0, machine)
        chosen.append(machine)
    assert {0, 1} == set(chosen)
    assert rule.knowledge.group == REQUESTS.group
