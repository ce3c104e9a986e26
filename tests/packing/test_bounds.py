"""Lower bounds by hand, against every possible placement of tiny sequences, and against what schedulers reach."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.envs.problem import Problem
from tvwrl.metrics import score_episode
from tvwrl.packing.bounds import ScheduleBounds, fewest_bins, lower_bounds, maximal_groups, no_wait_starts
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.types import InputError, Machines, SequenceSet

Make = Callable[..., SequenceSet]
TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))


def test_starts_without_waiting() -> None:
    arrival = np.array([0, 0, 0, 1, 6])
    assert no_wait_starts(arrival, None).tolist() == [0, 0, 0, 1, 6]
    assert no_wait_starts(arrival, 1).tolist() == [0, 1, 2, 3, 6]
    assert no_wait_starts(arrival, 2).tolist() == [0, 0, 1, 1, 6]


def test_sequence_by_hand(make_sequences: Make) -> None:
    # slot           0      1      2      3
    # a            (5,1)  (1,1)  (1,1)
    # b                   (3,1)  (3,1)  (3,1)
    # c                          (2,1)  (6,1)
    # No slot needs more than 8 of cpu before slot 3, where b and c need 9: 1, 1, 1, 2 machines by volume. But b and c
    # cannot share a machine in slot 2 either, as they stay: 1, 1, 2, 2.
    rows = [(0, [[5, 1], [1, 1], [1, 1]]), (1, [[3, 1]] * 3), (2, [[2, 1], [6, 1]])]
    bound = lower_bounds(make_sequences(rows), 0, TWO, 1)
    # With waiting: 24 of cpu are 3 machine-slots of 8, and a alone runs for 3.
    assert bound == ScheduleBounds(2, 6, 3, "counting", 0)


def test_integer_programme_closes_what_counting_cannot(make_sequences: Make) -> None:
    # Volume 15 of 8: 2 machines. But only two of 3, 3, 3, 3, 3 fit a machine, so it takes 3.
    rows = [(0, [[3, 1]])] * 5
    sequences = make_sequences(rows)
    counted = lower_bounds(sequences, 0, TWO, None)
    assert counted == ScheduleBounds(2, 2, 2, "counting", 1)
    assert lower_bounds(sequences, 0, TWO, None, seconds=60) == ScheduleBounds(3, 3, 2, "milp", 0)


def test_machines_that_differ(make_sequences: Make) -> None:
    # 10 + 10 + 10 units of cpu on machines of 16, 10 and 4: 26 on the two largest are too few.
    # A machine that is switched off changes nothing.
    machines = Machines(np.array([[4.0, 20.0], [0.0, 0.0], [16.0, 20.0], [10.0, 20.0]]), ("cpu", "mem"))
    sequences = make_sequences([(0, [[5, 1]])] * 6)
    assert lower_bounds(sequences, 0, machines, None).peak_machines == 3
    # 40 units, 30 in all: more machines like the largest would have to be there.
    assert lower_bounds(make_sequences([(0, [[5, 1]])] * 8), 0, machines, None).peak_machines == 4


def test_clash_in_any_slot_counts_for_all(make_sequences: Make) -> None:
    # Three workloads of which every two exceed the machine in one slot, each in another slot and resource.
    lives = ([[6, 1], [1, 6], [1, 1]], [[3, 1], [1, 1], [6, 1]], [[1, 1], [1, 3], [3, 1]])
    bound = lower_bounds(make_sequences([(0, life) for life in lives]), 0, TWO, None)
    assert (bound.peak_machines, bound.machine_slots) == (3, 9)


def test_full_machines_are_not_refused_for_rounding(make_sequences: Make) -> None:
    tenths = [(0, [[share, 0.1]]) for share in (0.1, 0.2)]  # 0.1 + 0.2 > 0.3 in floating point
    machines = Machines.homogeneous(1, 0.3, ("cpu", "mem"))
    assert lower_bounds(make_sequences(tenths), 0, machines, None, seconds=1).peak_machines == 1


def test_bad_input(make_sequences: Make) -> None:
    sequences = make_sequences([(0, [[9, 1]])])
    with pytest.raises(InputError, match="workload 'a' needs 9 units of cpu: the largest machine has 8"):
        lower_bounds(sequences, 0, TWO, None)
    with pytest.raises(InputError, match="seconds is -1: must be at least 0"):
        lower_bounds(sequences, 0, TWO, None, seconds=-1)


def test_dual_bound_by_hand() -> None:
    assert fewest_bins(np.array([0.2, 0.3, 0.4])) == pytest.approx(0.9)  # nothing above one half: the volume
    assert fewest_bins(np.array([0.1, 0.6, 0.6, 0.6])) == pytest.approx(3)  # three above one half
    assert fewest_bins(np.array([0.4, 0.4, 0.4, 0.7, 0.7])) == pytest.approx(3.2)  # nothing fits beside 0.7
    assert fewest_bins(np.array([0.5, 0.5, 0.5, 0.5])) == pytest.approx(2)
    assert fewest_bins(np.empty(0)) == 0


def fewest_of_all(groups: list[frozenset[int]], members: frozenset[int]) -> int:
    """Fewest groups that cover the members, by trying all."""
    return next(k for k in range(99) if any(members <= frozenset().union(*c) for c in combinations(groups, k)))


@st.composite
def tiny(draw: st.DrawFn) -> tuple[list[tuple[int, Any]], Machines, int | None]:
    """Up to five workloads of up to three slots, machines of 8 and 6 units or of one kind."""
    units = st.tuples(st.integers(1, 6), st.integers(1, 6))
    arrivals = sorted(draw(st.lists(st.integers(0, 3), min_size=1, max_size=5)))
    rows = [(arrival, draw(st.lists(units, min_size=1, max_size=3))) for arrival in arrivals]
    kinds = draw(st.sampled_from([[[8.0, 8.0]] * 3, [[8.0, 6.0], [6.0, 8.0], [8.0, 8.0]]]))
    return rows, Machines(np.array(kinds), ("cpu", "mem")), draw(st.sampled_from([None, 1]))


def without_overshoot(rows: list[tuple[int, Any]], start: Any, machines: Machines) -> list[tuple[int, int]]:
    """(peak, machine-slots) of every assignment to machines that never overshoots."""
    end = max(s + len(row[1]) for s, row in zip(start, rows, strict=True))
    found = []
    for hosts in product(range(len(machines)), repeat=len(rows)):
        load = np.zeros((len(machines), end, 2))
        for host, s, (_, demand) in zip(hosts, start, rows, strict=True):
            load[host, s : s + len(demand)] += demand
        if (load <= machines.capacity[:, None]).all():
            used = (load > 0).any(axis=2).sum(axis=0)
            found.append((int(used.max()), int(used.sum())))
    return found


@settings(max_examples=60, deadline=None)
@given(tiny(), st.lists(st.integers(0, 2), min_size=5, max_size=5))
def test_no_placement_beats_the_bound(make_sequences: Make, case: Any, delays: list[int]) -> None:
    rows, machines, rate = case
    sequences = make_sequences(rows)
    counted = lower_bounds(sequences, 0, machines, rate)
    solved = lower_bounds(sequences, 0, machines, rate, seconds=60)
    assert solved.peak_machines >= counted.peak_machines
    assert solved.machine_slots >= counted.machine_slots
    assert solved.machine_slots >= solved.machine_slots_waiting
    start = no_wait_starts(np.array([arrival for arrival, _ in rows]), rate)
    volume = np.zeros((99, 2))
    for s, (_, demand) in zip(start, rows, strict=True):
        volume[s : s + len(demand)] += demand
    assert counted.machine_slots >= np.ceil(volume / machines.capacity.max(axis=0)).max(axis=1).sum()
    for peak, slots in without_overshoot(rows, start, machines):
        assert peak >= solved.peak_machines
        assert slots >= solved.machine_slots
    later = [s + delay for s, delay in zip(start, delays, strict=False)]
    for _, slots in without_overshoot(rows, later, machines):
        assert slots >= solved.machine_slots_waiting


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=6))
def test_a_set_alone_is_solved_exactly(make_sequences: Make, demand: list[tuple[int, int]]) -> None:
    units, everyone = np.array(demand), frozenset(range(len(demand)))
    subsets = [frozenset(c) for k in range(1, len(demand) + 1) for c in combinations(range(len(demand)), k)]
    fitting = [group for group in subsets if (units[list(group)].sum(axis=0) <= 8).all()]
    share = units[:, None, :] / (8 + 1e-9)
    start = np.zeros(len(demand), np.int64)
    groups, count = maximal_groups(np.arange(len(demand)), share, start, start + 1, 100, 1000)
    expected = {group for group in fitting if not any(group < other for other in fitting)}
    assert {frozenset(np.flatnonzero(group).tolist()) for group in groups[:count]} == expected
    assert count == len(expected)
    bound = lower_bounds(make_sequences([(0, [row]) for row in demand]), 0, TWO, None, seconds=60)
    assert bound.peak_machines == fewest_of_all(list(expected), everyone)
    assert bound.open_slots == 0


def test_too_many_groups_are_given_up() -> None:
    share, start = np.full((8, 1, 1), 0.3), np.zeros(8, np.int64)
    groups = (np.arange(8), share, start, start + 1)
    assert maximal_groups(*groups, 56, 1000)[1] == 56  # 8 over 3
    assert maximal_groups(*groups, 55, 1000)[1] == 0
    assert maximal_groups(*groups, 56, 50)[1] == 0


def test_schedulers_do_not_beat_the_bound(problem: Problem) -> None:
    sequences = problem.sequences("test", 4, seed=0)
    machines, scenario = Machines.homogeneous(9, 8, ("cpu", "mem")), problem.scenario
    runner, weights = Runner(sequences, machines, scenario), problem.scenario.penalty_weights()
    without_waiting = 0
    for sequence in range(4):
        bound = lower_bounds(sequences, sequence, machines, scenario.placements_per_slot, seconds=1)
        for name in ("clairvoyant", "best-fit-peak", "tetris"):
            episode = runner.play(make_scheduler(name), sequence)
            row = score_episode(episode, machines, weights)
            assert row["overshoot_pct"] == 0
            assert row["machine_slots"] >= bound.machine_slots_waiting
            if np.array_equal(episode.start, no_wait_starts(episode.arrival, scenario.placements_per_slot)):
                without_waiting += 1
                assert row["peak_machines"] >= bound.peak_machines
                assert row["machine_slots"] >= bound.machine_slots
    assert without_waiting > 0


def test_where_workloads_may_move_each_slot_is_bounded_alone(make_sequences):
    """In slot 0 all three need 6 of 8 units; in slot 1 two of them need 12. Two of them can share a machine in slot 0
    only if one moves away then."""
    rows = [(0, [[2, 1], [6, 1]]), (0, [[2, 1], [6, 1]]), (0, [[2, 1]])]
    stays, moves = (lower_bounds(make_sequences(rows), 0, TWO, None, moves=may) for may in (False, True))
    assert (stays.machine_slots, moves.machine_slots) == (4, 3)
    assert moves.peak_machines == 2


def test_moves_only_lower_bounds(problem, train):
    limit = problem.scenario.placements_per_slot
    for i in range(2):
        stays, moves = (lower_bounds(train, i, problem.machines, limit, moves=may) for may in (False, True))
        assert moves.machine_slots <= stays.machine_slots
        assert moves.peak_machines <= stays.peak_machines
        assert moves.machine_slots_waiting == stays.machine_slots_waiting
