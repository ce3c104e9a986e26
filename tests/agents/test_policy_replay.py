"""Replays by a policy: what they say an action costs is what it costs to play on."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tvwrl.agents.config import INFORMED
from tvwrl.agents.episodes import DeterministicActions, play
from tvwrl.agents.networks import make_policy, shapes_of
from tvwrl.agents.policy_replay import PolicyReplay
from tvwrl.envs import PlacementVectorEnv
from tvwrl.envs.base import action_masks
from tvwrl.simulation.state import SLOT

SCENARIO = replace(INFORMED, machines=4, workloads=12, history=6, observe_forecast=False, observe_peak=True)
TO_THE_END = 10_000  # slots


@pytest.fixture(params=[False, True], ids=["head", "queue"])
def played(request, problem):
    """Environments, a policy that was not trained, and the costs of its episodes."""
    scenario = replace(SCENARIO, choose_from_queue=request.param, load=0.8)
    there = replace(problem, scenario=scenario)
    envs = PlacementVectorEnv(3, there.sequences("train", 3, 0), there.machines, scenario, "Disabled", max_slots=0)
    torch.manual_seed(3)
    policy = make_policy("shared", shapes_of(envs.simulation), 8)
    torch.nn.init.normal_(policy.output.weight)
    envs.reset(seed=0)
    every = np.arange(3)
    episodes = play(policy, envs, every, DeterministicActions(3, envs.simulation.placements), "cpu")
    envs.reset(options={"sequence": every})
    return envs, policy, -episodes.reward.sum(axis=0)


def test_its_own_action_costs_what_its_episode_costs(played):
    envs, policy, costs = played
    replay = PolicyReplay(envs.simulation, policy, TO_THE_END, candidates=3)
    found, own = replay.costs(np.arange(3), action_masks(envs.simulation))
    assert (own == replay.choices(np.arange(3))).all()
    assert found[np.arange(3), own].sum(axis=1) == pytest.approx(costs)
    assert (np.isfinite(found[..., 0]).sum(axis=1) == 3).all()
    assert (
        envs.simulation.state.counters[:, SLOT] < TO_THE_END
    ).all()  # the environments themselves stand where they were
    assert np.isnan(replay.costs(np.arange(3), np.zeros((3, 0), np.bool_))[0]).all()


def test_a_longer_horizon_costs_more(played):
    envs, policy, costs = played
    totals = [costs]
    for horizon in (40, 10, 1):
        found, own = PolicyReplay(envs.simulation, policy, horizon, candidates=1).costs(
            np.arange(3), action_masks(envs.simulation)
        )
        totals.append(found[np.arange(3), own].sum(axis=1))
    assert (np.diff(totals, axis=0) <= 1e-6).all()
    assert totals[-1].sum() < totals[0].sum()
