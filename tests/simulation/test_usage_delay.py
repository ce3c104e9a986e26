"""Usage that is seen late: three slots by hand, and what was seen without delay so many slots before."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.agents.config import TrainConfig
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import MACHINE, OVERSHOOT, RUNNING, RUNS, START
from tvwrl.types import InputError, Machines

TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))

# Load (cpu, mem) of m0 per slot, one placement per slot; c waits until slot 3 and goes to m1.
#   slot       0       1       2       3
#   a, m0    (3,2)   (5,2)   (2,1)
#   b, m0            (2,4)   (4,2)
#   m0       (3,2)   (7,6)   (6,3)   (0,0)
ROWS = [
    (0, [[3, 2], [5, 2], [2, 1]], [9, 1, 2, 3]),
    (0, [[2, 4], [4, 2]], [8, 4, 5]),
    (2, [[1, 1], [1, 1]], [7, 6, 6]),
]


def begin(sequences, machines=TWO, **changes):
    """A simulation of one cluster at the first decision of sequence 0."""
    simulation = Simulation(sequences, machines, Scenario(**{"history": 3, **changes}))
    simulation.reset(0)
    return simulation


def test_three_slots_by_hand(make_sequences):
    simulation = begin(make_sequences(ROWS, classes=9), usage_delay=1)
    cluster, newest = Cluster(simulation), simulation.seen_grid[0, 0, 0, -1]
    loads, rows, running = [], [], []

    def look():
        loads.append(cluster.load[0].tolist())
        rows.append(newest.tolist())
        running.append(int(cluster.active[0]))

    look()
    simulation.place(0, 0)  # a
    look()  # placed in this slot: it is known to run there, but nobody has measured it
    simulation.next_slot()
    simulation.place(0, 0)  # b
    look()
    simulation.next_slot()
    look()
    simulation.next_slot()
    look()  # a and b are gone, and what they used last is seen now
    assert running == [0, 1, 2, 2, 0]
    assert loads == [[0, 0], [0, 0], [3, 2], [7, 6], [6, 3]]
    free = [0] * 8
    assert rows == [free, free, [1] * 3 + [0] * 5, [2] * 5 + [4] * 2 + [0], [3] * 2 + [5] * 4 + [0] * 2]
    assert simulation.seen_grid[0, 0, 0, :2].tolist() == rows[2:4]
    assert (cluster.measured, cluster.slot) == (2, 3)


def test_what_happens_does_not_depend_on_what_is_seen(make_sequences):
    rows = [(0, [[5, 2], [5, 2]]), (0, [[4, 1], [4, 1]]), (3, [[1, 1]])]
    totals = []
    for late in (0, 3):
        simulation = begin(make_sequences(rows), usage_delay=late)
        for _ in rows:
            simulation.step(np.zeros(1, np.int64))
            totals.append(simulation.state.totals[0].tolist())
    assert totals[:3] == totals[3:]
    assert totals[1][OVERSHOOT] == 2 * 30000  # 5 + 4 of 8


def test_the_herd_by_hand(make_sequences):
    # Two of 5 units come at once; whoever cannot see the first one puts the second on top of it.
    sequences = make_sequences([(0, [[5, 1]] * 2), (0, [[5, 1]] * 2)])
    for limit in (1, None):  # in slots 0 and 1, or both in slot 0
        scenario = Scenario(placements_per_slot=limit)
        chosen = [
            Runner(sequences, TWO, replace(scenario, usage_delay=late)).play(make_scheduler("best-fit"), 0).machine
            for late in (0, 2)
        ]
        assert [machines.tolist() for machines in chosen] == [[0, 1], [0, 0]]


def test_reserved_peaks_are_known_at_once(problem, train):
    played = [
        Runner(train, problem.machines, replace(problem.scenario, usage_delay=late)).play(make_scheduler(name), 1)
        for name in ("best-fit-peak", "clairvoyant", "tetris")
        for late in (0, 3)
    ]
    for now, late in zip(played[::2], played[1::2], strict=True):
        assert np.array_equal(now.machine, late.machine)
        assert np.array_equal(now.start, late.start)


@pytest.mark.parametrize("late", [1, 2, 5])
@pytest.mark.parametrize("background", [False, True])
def test_it_shows_what_was_seen_without_delay(problem, train, late, background):
    if background:
        noise = np.random.default_rng(5).integers(0, 3, (8, 7, *problem.machines.capacity.shape))
        train = replace(train, background=noise.astype(np.uint8))
    # The first workload is never placed, so that the clock stops in every slot.
    scenario = replace(problem.scenario, observe_forecast=True, placements_per_slot=None)
    pair = [
        Simulation(train, problem.machines, replace(scenario, usage_delay=slots), max_slots=0) for slots in (0, late)
    ]
    now, then = map(Cluster, pair)
    rng = np.random.default_rng(late)
    for sequence in (0, 3):
        closed = {}  # slot: load and grid when it closed, seen at once
        for simulation in pair:
            simulation.reset(sequence)
        while now.slot < 150:
            while rng.random() < 0.4 and len(pair[0].waiting()) > 1:
                machine = int(rng.integers(len(problem.machines)))
                for simulation in pair:
                    simulation.place(1, machine)
            assert np.allclose(then.forecast, forecast_by_hand(pair[1], late), rtol=1e-6)
            closed[now.slot] = now.load.copy(), pair[0].observation()["grid"].copy()
            if now.slot - late in closed:
                load, grid = closed[now.slot - late]
                assert np.array_equal(then.load, load)
                assert np.array_equal(pair[1].observation()["grid"], grid)
            elif now.slot < late:
                assert not then.load.any()  # nothing was measured yet
            for simulation in pair:
                simulation.next_slot()
        assert (pair[0].state.workloads[0, :, START] >= 0).sum() > 5


def forecast_by_hand(simulation, late):
    """(M, K) sums of forecasts, each as of `late` slots ago, or as of the placement."""
    state, table = simulation.state, simulation.sequences.forecast
    sequence, slot = state.counters[0, :2]
    summed = np.zeros_like(state.seen_forecast[0])
    for w in state.workloads[0, : state.counters[0, RUNNING], RUNS]:
        seen = max(slot + 1 - late - state.workloads[0, w, START], 1)
        summed[state.workloads[0, w, MACHINE]] += table.values[sequence, w, seen] * table.steps
    return summed


def test_scenarios_without_the_field_see_usage_at_once():
    content = TrainConfig().to_dict()
    del content["scenario"]["usage_delay"]
    assert TrainConfig.from_dict(content) == TrainConfig()


def test_refused():
    for late in (-1, 1.5, 2000):
        with pytest.raises(InputError, match=f"usage_delay is {late}: must be"):
            Scenario(usage_delay=late)
