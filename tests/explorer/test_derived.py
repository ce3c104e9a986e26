"""Loads, queues, costliest decisions and partings of episodes worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.explorer.hand_made import LOADS, MACHINES, empty, recording
from tvwrl.explorer.recording import (
    costliest_decisions,
    machine_loads,
)


def test_loads_and_queue_of_the_hand_made_episode():
    np.testing.assert_array_equal(machine_loads(recording().episode, MACHINES, 4), LOADS)


def test_background_comes_again_and_again():
    background = np.zeros((3, 2, 2), np.uint8)
    background[1, 1] = 2
    loads = machine_loads(replace(recording().episode, background=background), MACHINES, 5)
    extra = np.zeros((5, 2, 2))
    extra[[1, 4], 1] = 2
    np.testing.assert_array_equal(loads, np.concatenate([LOADS, np.zeros((1, 2, 2))]) + extra)


def test_only_decisions_with_a_cheaper_alternative_are_costly():
    assert costliest_decisions(recording(), 5) == [1]
    assert costliest_decisions(recording(), 0) == []
    assert costliest_decisions(empty(), 5) == []
