"""A policy that goes on after alternatives, all of them in one batch, finds what it finds one by one."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tvwrl.agents import acting as policy_continuation
from tvwrl.agents.config import TrainConfig
from tvwrl.agents.networks import make_policy
from tvwrl.agents.observing import shapes_of
from tvwrl.agents.policy_scheduler import PolicyScheduler
from tvwrl.explorer.recorder import record
from tvwrl.schedulers.planning.continuation import ByScheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.simulation import Simulation

KINDS = {
    "plain": {},
    "holds": {"hold_action": True},
    "a choice from the queue": {"choose_from_queue": True, "queue": 3},
    "any number of placements": {"placements_per_slot": None},
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_at_once_is_as_one_by_one(problem, train, kind, monkeypatch):
    scenario = replace(problem.scenario, **KINDS[kind])
    shapes = shapes_of(Simulation(train, problem.machines, scenario, max_slots=0))
    torch.manual_seed(3)
    policy = make_policy("shared", shapes, 8)
    torch.nn.init.normal_(policy.output.weight)
    saved = SimpleNamespace(
        config=TrainConfig(policy="shared", scenario=scenario),
        shapes=shapes,
        make_policy=lambda: policy,
        forecaster=None,
    )
    scheduler, runner = PolicyScheduler("mine", saved), Runner(train, problem.machines, scenario)
    monkeypatch.setattr(policy_continuation, "MOST_MEMORY", 100)  # batches are small, so that there are several
    together = record(runner, scheduler, 1, seconds=1e6)
    scheduler.continuation = lambda runner, actions: ByScheduler(runner, scheduler)
    alone = record(runner, scheduler, 1, seconds=1e6)
    assert together.repeats
    assert together.simulated.all()
    assert together.meaning == "probability"
    chances = np.nansum(together.scores, axis=1)
    assert (chances <= 1 + 1e-6).all()
    assert kind == "a choice from the queue" or chances == pytest.approx(1)
    placed = together.chosen >= 0  # who is held may be placed by an alternative, which a fork does not learn of
    assert together.costs[placed] == pytest.approx(alone.costs[placed], rel=1e-9, nan_ok=True)
    assert placed.any()
