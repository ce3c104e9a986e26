"""Loads, queues, costliest decisions and partings of episodes worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.explorer.hand_made import LOADS, MACHINES, WAITING, empty, later, recording
from tvwrl.explorer.recording import (
    check_same_arrivals,
    costliest_decisions,
    first_parting,
    machine_loads,
    only,
    slots_of,
    waiting_counts,
)
from tvwrl.types import InputError


def test_loads_and_queue_of_the_hand_made_episode():
    assert slots_of(recording()) == 4
    np.testing.assert_array_equal(machine_loads(recording().episode, MACHINES, 4), LOADS)
    assert waiting_counts(recording().episode, 4).tolist() == WAITING


def test_who_is_never_placed_waits_to_the_end():
    assert waiting_counts(later().episode, 5).tolist() == [1, 2, 2, 1, 1]


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


def test_one_decision_alone_has_the_same_regret():
    assert [only(recording(), k).regret[0] for k in (1, 2)] == recording().regret[1:].tolist()


def test_episodes_part_where_a_workload_first_starts_elsewhere_or_at_another_time():
    assert first_parting(recording(), later()) == 1
    assert first_parting(recording(), recording()) is None
    assert first_parting(empty(), empty()) is None


def test_side_by_side_stand_episodes_of_the_same_arrivals():
    check_same_arrivals([recording(), later()])
    with pytest.raises(InputError, match="'by-hand' and 'idle' were recorded on different arrivals"):
        check_same_arrivals([recording(), empty()])
