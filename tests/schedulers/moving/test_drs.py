"""Clusters worked out by hand; see `tvwrl.schedulers.moving.drs`."""

import numpy as np
import pytest

from tvwrl.schedulers.moving.drs import imbalance, target_imbalance

TWO = [{"size": [10, 10], "pods": [[4, 4], [1, 1], [3, 3]]}, {"size": [10, 10]}]


def test_imbalance_is_the_mean_of_the_resources_deviations():
    assert imbalance(np.array([[0.8, 0.5], [0.2, 0.5]])) == pytest.approx(0.15)


def test_the_target_falls_with_the_level_and_the_hosts():
    assert target_imbalance(3, 4) == pytest.approx(0.1)
    assert target_imbalance(5, 4) == 0


def test_makes_the_best_move_first_and_stops_when_balanced(begin, reset, moves_of):
    simulation = begin(TWO)
    assert moves_of(simulation, reset("spread + drs-like", simulation)) == [(0, 0, 1)]  # 4 and 4: no move is better


def test_small_gains_are_not_worth_a_move(begin, reset, moves_of):
    simulation = begin(TWO)
    assert not moves_of(simulation, reset("spread + drs-like(goodness=0.5)", simulation))


def test_a_conservative_threshold_accepts_more_imbalance(begin, reset, moves_of):
    machines = [{"size": [10, 10], "pods": [[1, 1], [1, 1], [1, 1]]}, {"size": [10, 10]}]  # deviation 0.15
    for level, moves in ((2, 0), (4, 1)):
        simulation = begin(machines)
        assert len(moves_of(simulation, reset(f"spread + drs-like(level={level})", simulation))) == moves


def test_nothing_moves_to_where_it_has_no_room(begin, reset, moves_of):
    simulation = begin([{"size": [10, 10], "pods": [[4, 1], [4, 1]]}, {"size": [3, 10]}, {"size": [0, 0]}])
    assert not moves_of(simulation, reset("spread + drs-like", simulation))
