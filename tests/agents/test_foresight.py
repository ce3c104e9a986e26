"""What the critic sees of the future, by hand and against what comes; the policy sees nothing of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tvwrl.agents.config import INFORMED
from tvwrl.agents.episodes import logits_of
from tvwrl.agents.networks import make_policy
from tvwrl.agents.observing import shapes_of
from tvwrl.agents.ppo import ENDS, FEW, LONG, MANY, Foresight, ahead_count
from tvwrl.envs import PlacementVectorEnv
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import ARRIVED, MACHINE_OVERSHOT, OVERSHOT, RUNNING, SLOT, START, WAITING
from tvwrl.types import Machines

HAND = Scenario(machines=2, placements_per_slot=None, K_c=1.0, K_u=1.0, K_o=100.0)


@pytest.fixture
def hand(make_sequences):
    """Two machines; a, b and c arrive in slot 0, d in slot 3 and e in slot 20."""
    a, b = [[3, 1], [3, 1], [6, 1]], [[6, 1], [6, 1]]
    rows = [(0, a), (0, b), (0, [[2, 2]]), (3, [[1, 1]] * 4), (20, [[5, 0.5]])]
    machines = Machines(np.full((2, 2), 8.0), ("cpu", "mem"))
    simulation = Simulation(make_sequences(rows), machines, HAND)
    simulation.reset(0)
    return simulation


def test_what_machines_will_cost_by_hand(hand):
    def committed(gamma):
        return Foresight(hand, gamma).of(np.array([0]))["committed"][0].tolist()

    assert committed(1.0) == [0.0, 0.0]
    hand.step(np.array([0]))
    assert committed(1.0) == [5 + 7 + 5 + 7 + 2 + 7, 0.0]  # a alone leaves so much unused
    assert committed(0.5) == [12 + 12 / 2 + 9 / 4, 0.0]
    hand.step(np.array([0]))
    # With b: in slots 0 and 1 cpu 9 of 8 (contention 18), mem 2 (1, 6 unused); both overshoot once, in slot 0
    assert committed(1.0) == [200 + 25 + 25 + 9, 0.0]
    assert committed(0.5) == [200 + 25 + 25 / 2 + 9 / 4, 0.0]


def test_what_waits_and_arrives_by_hand(hand):
    hand.step(np.array([0]))
    hand.step(np.array([0]))
    seen = Foresight(hand, 1.0).of(np.array([0]))["ahead"][0].numpy()
    assert ENDS[:3] == (4, 16, 64)
    whole = 16 * LONG
    waits, soon, late = ([1 / FEW, cpu / whole, mem / whole] for cpu, mem in ((2, 2), (4, 4), (5, 0.5)))
    none = [0.0, 0.0, 0.0]
    assert np.allclose(seen, [2 / MANY, 20 / LONG, *waits, *soon, *none, *late, *none])
    assert len(seen) == ahead_count(2)
    hand.step(np.array([1]))  # on to slot 3, where d waits
    seen = Foresight(hand, 1.0).of(np.array([0]))["ahead"][0].numpy()
    assert np.allclose(seen, [1 / MANY, 17 / LONG, *soon, *none, *none, *late, *none])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"overshoot_per": "machine", "K_u": 1.5},
        {"choose_from_queue": True, "background": 2},
        {"quantise": False, "machine_types": ("1x0", "2x8", "1x16,12")},
    ],
    ids=str,
)
def test_what_machines_will_cost_is_what_they_cost_if_nothing_more_is_placed(problem, changes):
    scenario = replace(problem.scenario, placements_per_slot=None, **changes)
    other = type(problem).build(problem.trace, scenario, problem.classes)
    simulation = Simulation(other.sequences("train", 3, 0), other.machines, scenario, 3, max_slots=0)
    simulation.reset(np.arange(3))
    state, rng, hold = simulation.state, np.random.default_rng(0), np.full(3, simulation.placements)
    on = np.flatnonzero(other.machines.capacity.any(axis=1))
    overshot = 0
    for _ in range(3):  # crowd two machines, then see what becomes of it
        for _ in range(4):
            simulation.step(rng.choice(on[:2], 3))
        rows, expected = np.array([2, 0, 1]), np.zeros((3, len(other.machines)))
        found = Foresight(simulation, 1.0).of(rows)["committed"].numpy()
        alone = Simulation(simulation.sequences, other.machines, scenario, 3, max_slots=0)
        alone.copy(simulation, np.arange(3), np.arange(3))
        while alone.state.counters[:, RUNNING].any():
            alone.step(hold)
            expected += alone.state.costs
        assert found.any()
        assert np.allclose(found, expected[rows], rtol=1e-5)
        overshot += (state.workloads[:, :, OVERSHOT] > 0).sum() + (state.machines[:, :, MACHINE_OVERSHOT] > 0).sum()
    assert overshot or "machine_types" in changes  # some overshoots are paid for already


@pytest.mark.parametrize("chooses", [False, True])
def test_the_policy_sees_nothing_of_it(problem, chooses):
    """Whatever is used, and arrives, after the present slot changes what the critic sees, and no logit."""
    scenario = replace(INFORMED, machines=4, workloads=16, history=6, choose_from_queue=chooses)
    sequences = problem.sequences("train", 3, 0)

    def after(steps, drawn):
        envs = PlacementVectorEnv(3, drawn, problem.machines, scenario, "Disabled", max_slots=0)
        seen, _ = envs.reset(options={"sequence": np.arange(3)})
        rng = np.random.default_rng(1)
        for _ in range(steps):
            seen, *_ = envs.step(rng.integers(0, 4, 3))
        return envs, seen

    for steps in (0, 5, 11):
        envs, _ = after(steps, sequences)
        state, demand = envs.simulation.state, sequences.demand.copy()
        arrival = sequences.arrival.copy()
        for b in range(3):
            slot, arrived = state.counters[b, SLOT], state.counters[b, ARRIVED]
            assert state.counters[b, WAITING]
            for i in range(16):
                start = state.workloads[b, i, START]
                known = 0 if i >= arrived else 1 if start < 0 else slot - start + 1
                demand[b, i, known:] = np.where(demand[b, i, known:] > 0, 7 - demand[b, i, known:], 0)
            arrival[b, arrived:] += 3
        other = replace(sequences, demand=demand, arrival=arrival)
        logits, futures = [], []
        for drawn in (sequences, other):
            envs, seen = after(steps, drawn)
            torch.manual_seed(0)
            policy = make_policy("shared", shapes_of(envs.simulation), 8)
            torch.nn.init.normal_(policy.output.weight)
            logits.append(logits_of(policy, seen, envs.action_masks(), "cpu")[0])
            futures.append(Foresight(envs.simulation, 0.99).of(np.arange(3)))
        assert torch.equal(*logits)
        assert not torch.isclose(futures[0]["ahead"], futures[1]["ahead"]).all(dim=1).any()
        assert steps == 0 or not torch.isclose(futures[0]["committed"], futures[1]["committed"]).all(dim=1).any()
