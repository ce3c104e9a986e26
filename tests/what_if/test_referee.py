"""The referee by hand, and against the referee of episodes."""

from __future__ import annotations

import numpy as np
import pytest

from tvwrl.metrics import score_episode
from tvwrl.penalties import PenaltyWeights
from tvwrl.types import Episode, Machines, MoveRules, Moves
from tvwrl.what_if.referee import Churn, Judged, Segments, churn, in_use, judge

TWO = np.ones((2, 2))


def judged(demand, arrival, slots, **more):
    demand = [np.asarray(one, np.float64) for one in demand]
    known = {
        "request": np.full((len(demand), 2), np.nan),
        "size": TWO,
        "background": np.zeros((slots, 2, 2)),
        "reserved": np.zeros((slots, 2, 2)),
        "interval": 3600,
    }
    return Judged(demand, np.asarray(arrival), **(known | more))


def test_two_days_by_hand():
    demand = [[[0.6, 0.2]] * 48, [[0.6, 0.9]] * 24, [[0.3, 0.3]] * 2]
    case = judged(demand, [0, 0, 24], 48, request=np.array([[0.7, 0.1], [0.4, np.nan], [0.1, 0.1]]))
    one, two = judge(case, np.array([0, 0, 1]), np.array([0, 0, 26]))
    assert (one.needed, one.in_use, one.machine_hours) == (1, 1.0, 24.0)
    assert (one.cpu_over, one.memory_over, one.requests_over) == (24.0, 24.0, 24.0)
    assert (one.wait_mean, one.arrived) == (0.0, 2)
    assert (two.needed, two.in_use, two.machine_hours) == (2, 26 / 24, 26.0)
    assert (one.hours.tolist(), two.hours.tolist()) == ([24.0, 0.0], [24.0, 2.0])
    assert (two.cpu_over, two.memory_over, two.requests_over) == (0.0, 0.0, 0.0)
    assert (two.wait_mean, two.wait_p95, two.unplaced) == (120.0, 120.0, 0)


def test_what_stays_on_a_node_is_load_but_no_use_of_it():
    background = np.zeros((24, 2, 2))
    background[:, 0, 0] = 0.5
    case = judged([[[0.6, 0.1]] * 24], [0], 24, background=background)
    assert judge(case, np.array([0]), np.array([0]))[0].cpu_over == 24.0
    beside = judge(case, np.array([1]), np.array([0]))[0]
    assert (beside.cpu_over, beside.needed) == (0.0, 1)


def test_never_placed_and_beyond_the_end():
    case = judged([[[0.5, 0.5]] * 20] * 2, [0, 10], 24)
    (day,) = judge(case, np.array([-1, 0]), np.array([-1, 20]))
    assert (day.unplaced, day.arrived, day.machine_hours, day.wait_mean) == (1, 2, 4.0, 600.0)


def test_limit_and_a_record_of_less_than_a_day():
    case = judged([[[0.6, 0.1]] * 5], [0], 5, limit=0.5)
    (day,) = judge(case, np.array([0]), np.array([0]))
    assert (day.cpu_over, day.memory_over, day.machine_hours) == (5.0, 0.0, 5.0)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_the_referee_of_episodes(seed):
    rng, slots, count = np.random.default_rng(seed), 24, 12
    arrival = np.sort(rng.integers(0, 12, count))
    start = arrival + rng.integers(0, 4, count)
    length = np.minimum(rng.integers(1, 9, count), slots - start)
    demand = [rng.random((n, 2)) * 0.6 for n in length]
    machine = rng.integers(0, 2, count)
    names = np.array([str(i) for i in range(count)], object)
    played = Episode(names, names, arrival, arrival, start, start + length, machine, tuple(demand))
    row = score_episode(played, Machines(TWO, ("cpu", "mem")), PenaltyWeights(0.1, 0.0, 1.0, 1.0))
    (day,) = judge(judged(demand, arrival, slots), machine, start)
    assert day.needed == row["peak_machines"]
    assert day.machine_hours == row["machine_slots"]
    assert day.wait_mean == pytest.approx(60 * row["wait_mean"])
    assert day.wait_p95 == pytest.approx(60 * row["wait_p95"])
    assert (day.cpu_over + day.memory_over > 0) == (row["overshoot_pct"] > 0)


def test_moves_by_hand():
    """Pod 0 is on node 0, 1 and 0 again, pod 1 on node 0 for four hours; node 1 is left without a pod, and so is 0."""
    case = judged([[[0.6, 0.1]] * 8, [[0.5, 0.1]] * 4], [0, 0], 8, request=np.array([[0.6, 0.1], [0.5, 0.1]]))
    ran = Segments(*map(np.array, ([0, 0, 0, 1], [0, 1, 0, 0], [0, 2, 6, 0], [2, 6, 8, 4])))
    assert in_use(case, ran).T.tolist() == [
        [True] * 4 + [False] * 2 + [True] * 2,
        [False] * 2 + [True] * 4 + [False] * 2,
    ]
    (day,) = judge(case, np.array([0, 0]), np.array([0, 0]), ran)
    assert (day.machine_hours, day.needed, day.hours.tolist()) == (10.0, 2, [6.0, 4.0])
    assert (day.cpu_over, day.memory_over, day.requests_over, day.wait_mean) == (2.0, 0.0, 2.0, 0.0)
    assert churn(case, ran) == Churn(evictions=2, evicted=1, often=0, returns=1, emptied=2, opened_again=1)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_the_referee_of_episodes_on_moves(seed):
    rng, slots, count = np.random.default_rng(seed), 24, 12
    length, start = rng.integers(6, 12, count), rng.integers(0, 12, count)
    machine, demand = rng.integers(0, 2, count), [rng.random((n, 2)) * 0.6 for n in length]
    first, second = start + rng.integers(1, 3, count), start + rng.integers(3, 5, count)
    pods, names = np.arange(count), np.array([str(i) for i in range(count)], object)
    there, back = (pods, first, machine, 1 - machine), (pods, second, 1 - machine, machine)
    columns = np.hstack([there, back])
    moves = Moves(*columns[:, np.argsort(columns[1], kind="stable")], MoveRules(99))
    begun = (names, names, start, start, start, start + length, machine, tuple(demand))
    row = score_episode(Episode(*begun, moves=moves), Machines(TWO, ("cpu", "mem")), PenaltyWeights(0.1, 0.0, 1.0, 1.0))
    begin, end = np.concatenate([start, first, second]), np.concatenate([first, second, start + length])
    nodes = np.concatenate([machine, 1 - machine, machine])
    case, ran = judged(demand, start, slots), Segments(np.concatenate([pods] * 3), nodes, begin, end)
    (day,) = judge(case, machine, start, ran)
    assert (day.needed, day.machine_hours) == (row["peak_machines"], row["machine_slots"])
    assert (day.cpu_over + day.memory_over > 0) == (row["overshoot_pct"] > 0)
    assert (churn(case, ran).evictions, churn(case, ran).returns) == (2 * count, count)


@pytest.mark.parametrize(("slots", "days"), [(5, 1), (24, 1), (45, 1), (46, 2), (48, 2), (60, 2)])
def test_a_last_day_may_lack_a_tenth(slots, days):
    assert len(judge(judged([[[0.6, 0.1]] * 5], [0], slots), np.array([0]), np.array([0]))) == days
