"""The action mask `room`: machines whose measured load leaves room for what waits, or all if none does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.envs import PlacementEnv, PlacementVectorEnv, action_masks
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import OVER, SLOT, WAITING
from tvwrl.types import InputError, Machines

TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))


@pytest.fixture
def three(make_sequences):
    """Workloads of 5, 4 and 3 units of cpu that arrive in slots 0, 1 and 1 and run for three slots."""
    return make_sequences([(0, [[5, 1]] * 3), (1, [[4, 1]] * 3), (1, [[3, 1]] * 3)])


def masks(env: PlacementEnv, actions: list[int]) -> list[list[bool]]:
    """The mask at every decision of an episode that takes these actions."""
    env.reset(options={"sequence": 0})
    found = [env.action_masks().tolist()]
    for action in actions:
        env.step(action)
        found.append(env.action_masks().tolist())
    return found


def test_by_hand(three):
    env = PlacementEnv(three, TWO, Scenario(mask="room", placements_per_slot=None))
    empty, beside_five, beside_both = masks(env, [0, 1])
    assert empty == [True, True]
    assert beside_five == [False, True]  # 5 + 4 > 8
    assert beside_both == [True, True]  # 5 + 3 and 4 + 3 fit
    assert masks(env, [0, 0])[2] == [False, True]  # 9 of 8 units are taken on machine 0


def test_where_none_has_room_all_that_are_on_are_allowed(three):
    env = PlacementEnv(three, TWO, Scenario(mask="room", placements_per_slot=None))
    full = replace(three, demand=np.where(three.demand == 3, 8, three.demand))
    env = PlacementEnv(full, TWO, Scenario(mask="room", placements_per_slot=None))
    assert masks(env, [0, 1])[2] == [True, True]
    three_machines = Machines(np.array([[8, 8], [8, 8], [0, 0]]), ("cpu", "mem"))
    env = PlacementEnv(full, three_machines, Scenario(mask="room", placements_per_slot=None))
    assert masks(env, [0, 1])[2] == [True, True, False]


def test_measured_load_is_late_with_usage_delay(three):
    env = PlacementEnv(three, TWO, Scenario(mask="room", placements_per_slot=None, usage_delay=1))
    # In slot 1 the usage of slot 0 is known, in which the first workload ran; not what was placed in slot 1.
    assert masks(env, [0, 1]) == [[True, True], [False, True], [True, True]]
    assert masks(env, [0, 0])[2] == [True, True]


def test_each_place_of_the_queue_has_its_own(three):
    scenario = Scenario(mask="room", placements_per_slot=None, choose_from_queue=True, hold_action=True, queue=2)
    env = PlacementEnv(three, TWO, scenario)
    _, second = masks(env, [0])
    assert second == [False, True, True, True, True]  # 4 beside 5 or alone, 3 beside 5 or alone, hold


def test_what_it_forbids_can_be_done(three):
    env = PlacementEnv(three, TWO, Scenario(mask="room", placements_per_slot=None))
    env.reset(options={"sequence": 0})
    env.step(0)
    assert not env.action_masks()[0]
    info = env.step(0)[4]
    assert info["overshoot"] == 0  # until the slot is over
    assert env.simulation.record().machine[:2].tolist() == [0, 0]


@pytest.mark.parametrize("delay", [0, 1, 3])
@pytest.mark.parametrize("choose", [False, True])
def test_it_is_what_rules_take_for_room(problem, train, delay, choose):
    """In every state of random episodes, the machines of `Cluster.room_now`, which looks at one workload."""
    scenario = replace(
        problem.scenario, mask="room", usage_delay=delay, choose_from_queue=choose, placements_per_slot=None, burst=3.0
    )
    simulation, rng = Simulation(train, problem.machines, scenario, batch=3), np.random.default_rng(0)
    simulation.reset(np.arange(3))
    machines, compared = len(problem.machines), 0
    for _ in range(150):
        found = action_masks(simulation)
        for b in np.flatnonzero(simulation.state.counters[:, OVER] == 0):
            sequence = int(simulation.state.counters[b, 0])
            for place, waits in enumerate(simulation.waiting(b)[: scenario.places]):
                room = Cluster(simulation, b).room_now(train.workload(sequence, int(waits)))
                expected = room if room.any() else np.ones(machines, bool)
                assert found[b, place * machines :][:machines].tolist() == expected.tolist()
                compared += not room.all()
        simulation.step(rng.integers(0, simulation.placements, 3))
    assert compared > 20
    assert simulation.state.counters[:, SLOT].min() > 0
    assert simulation.state.counters[:, WAITING].min() >= 0


def test_single_and_vector_environments_have_the_same(problem, train):
    single = PlacementEnv(train, problem.machines, replace(problem.scenario, mask="room"))
    several = PlacementVectorEnv(2, train, problem.machines, replace(problem.scenario, mask="room"))
    single.reset(options={"sequence": 1})
    several.reset(options={"sequence": [0, 1]})
    for _ in range(10):
        assert single.action_masks().tolist() == several.action_masks()[1].tolist()
        single.step(0)
        several.step(np.zeros(2, np.int64))
    assert not single.action_masks().all()


def test_an_unknown_mask_is_refused():
    with pytest.raises(InputError, match="mask is 'rom'"):
        Scenario(mask="rom")
