"""Replays by a policy: what they say an action costs is what it costs to play on."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tvwrl.agents import counterfactual
from tvwrl.agents.acting import DeterministicActions, PolicyReplay
from tvwrl.agents.config import INFORMED, TrainConfig
from tvwrl.agents.counterfactual import Counterfactual
from tvwrl.agents.episodes import numbers_of, play
from tvwrl.agents.networks import Policy, make_policy
from tvwrl.agents.observing import shapes_of
from tvwrl.envs import PlacementVectorEnv, action_masks
from tvwrl.simulation.state import SLOT
from tvwrl.types import InputError

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
    replay = PolicyReplay(envs.simulation, numbers_of(policy), TO_THE_END, candidates=3)
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
        found, own = PolicyReplay(envs.simulation, numbers_of(policy), horizon, candidates=1).costs(
            np.arange(3), action_masks(envs.simulation)
        )
        totals.append(found[np.arange(3), own].sum(axis=1))
    assert (np.diff(totals, axis=0) <= 1e-6).all()
    assert totals[-1].sum() < totals[0].sum()


class HoldsWithSixTenths(Policy):
    """Holds with probability 0.6, whatever it sees: if it plays without chance, it holds every second time."""

    def __init__(self):
        super().__init__()
        self.hold = torch.nn.Parameter(torch.tensor(0.6))

    def forward(self, encoded):
        mask = encoded["mask"]
        share = (1 - self.hold) / mask[:, :-1].sum(dim=1, keepdim=True)
        return torch.log(torch.cat([share.expand(-1, mask.shape[1] - 1), self.hold.expand(len(mask), 1)], dim=1))


def test_labels_say_wait_exactly_where_the_policy_waits_when_it_plays(played, monkeypatch):
    envs, policy = played[0], HoldsWithSixTenths()
    monkeypatch.setattr(counterfactual, "POLICY_SHARE", 1.0)
    config = TrainConfig(algo="counterfactual", scenario=envs.simulation.scenario, label_share=1.0, horizon=2)
    learner = Counterfactual(policy, config)
    learner.begin_generation()
    placements = envs.simulation.placements
    episodes = learner.play(envs, np.arange(3), DeterministicActions(3, placements))
    waits = torch.isinf(episodes.encoded["costs"]).all(dim=1).numpy()
    assert (waits == (episodes.action[episodes.alive] == placements)).all()
    assert 0.4 < waits.mean() < 0.6


def test_what_others_do_counts_for_how_long_was_held(played):
    envs, holds = played[0], played[0].simulation.placements
    replay, every = PolicyReplay(envs.simulation, numbers_of(HoldsWithSixTenths()), 1, candidates=1), np.arange(3)
    first = int(action_masks(envs.simulation)[0].argmax())
    found = []
    for action in (first, holds, holds, holds, first, holds):
        found.append((replay.choices(every) == holds).tolist())
        envs.step(np.full(3, action))
    # An empty cluster cannot be held; then 0.6 after a placement, 0.36, 0.22, 0.13, and 0.6 again
    assert found == [[False] * 3, [True] * 3, [False] * 3, [False] * 3, [False] * 3, [True] * 3]


def test_a_cost_that_is_no_number_is_refused(played):
    envs, policy, _ = played
    replay = PolicyReplay(envs.simulation, numbers_of(policy), 5, candidates=2)
    replay._branches.state.weights[1] = np.nan
    with pytest.raises(InputError, match="an action costs nan or inf: demand and the sum"):
        replay.costs(np.arange(3), action_masks(envs.simulation))


def test_no_state_has_no_costs(played):
    envs, policy, _ = played
    costs, own = PolicyReplay(envs.simulation, numbers_of(policy), 5, candidates=1).costs(
        np.zeros(0, np.int64), np.zeros((0, envs.simulation.placements), np.bool_)
    )
    assert costs.shape == (0, envs.simulation.placements + 1, 5)
    assert own.shape == (0,)
