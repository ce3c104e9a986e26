"""What agents see of a cluster, pixel by pixel."""

import numpy as np
import pytest

from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import SLOT
from tvwrl.types import Machines

TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))
ONE = Machines.homogeneous(1, 8, ("cpu", "mem"))


def begin(sequences, machines, **changes):
    """A simulation of one cluster at the first decision of sequence 0."""
    simulation = Simulation(sequences, machines, Scenario(**{"history": 4, **changes}))
    simulation.reset(0)
    return simulation


def test_pixels_in_order_of_start_with_labels_by_age(make_sequences):
    a = (0, [[2, 1], [3, 1], [1, 1]], [9, 1, 2, 3])  # labels after 0 (in the queue), 1, 2, 3 slots seen
    b = (0, [[4, 2], [2, 2], [2, 5]], [8, 4, 4, 5])
    simulation = begin(make_sequences([a, b], classes=9), ONE, placements_per_slot=1)
    assert simulation.state.seen_queue[0, :3, 0].tolist() == [9, 8, 0]
    simulation.place(1, 0)  # b starts first, in slot 0
    simulation.next_slot()
    simulation.place(0, 0)  # a in slot 1
    free = [0] * 8
    grid = simulation.seen_grid[0, 0]
    assert grid[0].tolist() == [free, free, [4, 4, 4, 4, 0, 0, 0, 0], [4, 4, 1, 1, 0, 0, 0, 0]]
    assert grid[1].tolist() == [free, free, [4, 4, 0, 0, 0, 0, 0, 0], [4, 4, 1, 0, 0, 0, 0, 0]]
    simulation.next_slot()
    # Slots 2 and 3 have passed, slot 4 shows nobody; b left after slot 2, so a's pixels move to the left.
    grid = simulation.seen_grid[0, 0]
    assert grid[0].tolist() == [[4, 4, 1, 1, 0, 0, 0, 0], [5, 5, 2, 2, 2, 0, 0, 0], [3, 0, 0, 0, 0, 0, 0, 0], free]
    assert grid[1].tolist() == [[4, 4, 1, 0, 0, 0, 0, 0], [5, 5, 5, 5, 5, 2, 0, 0], [3, 0, 0, 0, 0, 0, 0, 0], free]
    assert simulation.state.counters[0, SLOT] == 4


def test_overshoot_is_not_drawn(make_sequences):
    rows = [(0, [[5, 6]], 1), (0, [[6, 2]], 2), (0, [[2, 1]], 3)]
    simulation = begin(make_sequences(rows), TWO, placements_per_slot=3)
    simulation.place(0, 1)
    simulation.place(0, 1)
    assert simulation.seen_grid[0, 1, :, -1].tolist() == [[1, 1, 1, 1, 1, 2, 2, 2], [1, 1, 1, 1, 1, 1, 2, 2]]
    simulation.place(0, 1)  # no pixel is left
    assert simulation.seen_grid[0, 1, :, -1].tolist() == [[1, 1, 1, 1, 1, 2, 2, 2], [1, 1, 1, 1, 1, 1, 2, 2]]
    assert not simulation.seen_grid[0, 0].any()


def test_capacity_that_a_machine_lacks_is_marked(make_sequences):
    machines = Machines(np.array([[8.0, 4.0], [3.5, 8.0]]), ("cpu", "mem"))
    simulation = begin(make_sequences([(0, [[5, 6]], 2), (0, [[5, 6]], 3)], classes=6), machines)
    lacks4, lacks3, free = [0] * 4 + [7] * 4, [0] * 3 + [7] * 5, [0] * 8
    assert simulation.seen_grid[0, 0].tolist() == [[free] * 4, [lacks4] * 4]
    assert simulation.seen_grid[0, 1].tolist() == [[lacks3] * 4, [free] * 4]
    simulation.place(0, 0)
    simulation.place(0, 1)
    assert simulation.seen_grid[0, 0, :, -1].tolist() == [[2, 2, 2, 2, 2, 0, 0, 0], [2, 2, 2, 2, 7, 7, 7, 7]]
    assert simulation.seen_grid[0, 1, :, -1].tolist() == [[3, 3, 3, 7, 7, 7, 7, 7], [3, 3, 3, 3, 3, 3, 0, 0]]
    simulation.next_slot()  # the episode is over; what was drawn stays, one row up
    assert simulation.seen_grid[0, 0, 1].tolist() == [lacks4, lacks4, [2, 2, 2, 2, 7, 7, 7, 7], lacks4]


def test_fractions_are_drawn_rounded(make_sequences):
    rows = [(0, [[2.4, 0.2]], 1), (0, [[2.5, 1.0]], 2)]
    simulation = begin(make_sequences(rows), ONE, quantise=False, placements_per_slot=2)
    simulation.place(0, 0)
    simulation.place(0, 0)
    # 2.4 is 2 pixels, 2.5 is 3, and 0.2 still is one.
    assert simulation.seen_grid[0, 0, :, -1].tolist() == [[1, 1, 2, 2, 2, 0, 0, 0], [1, 2, 0, 0, 0, 0, 0, 0]]


def test_queue_shows_labels_requests_and_mask(make_sequences):
    rows = [(0, [[1, 1]], [4, 1]), (0, [[1, 1]], [5, 1]), (0, [[1, 1]], [6, 1]), (0, [[1, 1]], [2, 1])]
    nan = np.nan
    sequences = make_sequences(rows, request=[[[2.5, nan], [nan, nan], [3, 6], [0, 1]]])
    simulation = begin(sequences, TWO, queue=2)
    state = simulation.state
    assert state.seen_queue[0].tolist() == [[4, 2.5, 0, 1, 0], [5, 0, 0, 0, 0]]
    assert state.seen_backlog[0].tolist() == [2]
    simulation.step(np.array([0]))
    assert state.seen_queue[0].tolist() == [[5, 0, 0, 0, 0], [6, 3, 6, 1, 1]]
    assert state.seen_backlog[0].tolist() == [1]
    simulation.step(np.array([0]))
    simulation.step(np.array([0]))
    assert state.seen_queue[0].tolist() == [[2, 0, 1, 1, 1], [0, 0, 0, 0, 0]]
    assert state.seen_backlog[0].tolist() == [0]


def test_queue_without_requests_shows_labels_only(make_sequences):
    sequences = make_sequences([(0, [[1, 1]], [4, 1]), (9, [[1, 1]], [5, 1])], request=[[[2, 2], [2, 2]]])
    assert begin(sequences, TWO, queue=3, observe_request=False).state.seen_queue[0].tolist() == [[4], [0], [0]]


@pytest.mark.parametrize("width", [8, 16, 5])
def test_rows_of_any_width_are_drawn(make_sequences, width):
    machines = Machines(np.array([[width, 2.0]]), ("cpu", "mem"))
    simulation = begin(make_sequences([(0, [[3, 3]], 2), (0, [[6, 1]], 3)]), machines, placements_per_slot=2)
    simulation.place(0, 0)
    simulation.place(0, 0)
    drawn = [2] * 3 + [3] * 6 + [0] * 7
    assert simulation.seen_grid[0, 0, 0].tolist() == [[0] * width] * 3 + [drawn[:width]]
    absent = [7] * (width - 2)
    assert simulation.seen_grid[0, 0, 1].tolist() == [[0, 0, *absent]] * 3 + [[2, 2, *absent]]
