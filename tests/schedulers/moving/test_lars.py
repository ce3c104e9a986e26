"""Clusters worked out by hand; see `tvwrl.schedulers.moving.lars`."""

import numpy as np
import pytest

FULLER = {"size": [10, 10], "pods": [[5, 5]]}


@pytest.fixture
def moved(begin, reset, moves_of):
    """(machines, lives, share=0.3, **scenario) -> the moves, if that is ahead of each workload."""

    def move(machines, lives, share=0.3, **scenario):
        simulation = begin(machines, **scenario)
        scheduler = reset(f"stack + lars-like(share={share})", simulation)
        scheduler.rule.ahead = lambda cluster, running: np.array(lives, float)
        return moves_of(simulation, scheduler)

    return move


def test_the_longest_lives_leave_first(moved):
    machines = [{"size": [10, 10], "pods": [[1, 1], [1, 1], [1, 1]]}, FULLER]
    assert moved(machines, [5, 9, 7, 1], moves_per_slot=2) == [(1, 0, 1), (2, 0, 1)]


def test_only_machines_that_are_used_little_are_emptied(moved):
    assert not moved([{"size": [10, 10], "pods": [[1, 1], [1, 1]]}, FULLER], [5, 9, 1], share=0.1)


def test_nothing_moves_to_empty_machines_or_without_room(moved):
    machines = [{"size": [10, 10], "pods": [[1, 1], [2, 2]]}, {"size": [6, 6], "pods": [[5, 5]]}, {"size": [10, 10]}]
    assert not moved(machines, [5, 9, 1])  # 2 has no room beside 5 of 6
