"""Policies of every kind that training can make, and states to compare them in; shared by the tests of exports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.config import INFORMED, TrainConfig
from tvwrl.agents.export import export_policy
from tvwrl.agents.networks import Policy, make_policy
from tvwrl.agents.observing import shapes_of
from tvwrl.envs import PlacementVectorEnv, action_masks
from tvwrl.envs.problem import Problem
from tvwrl.traces import trace_hash

KINDS = ("2x8", "1x12", "1x0,0")  # machines of two sizes, and one that is switched off
MORE = ("3x8", "2x12,6", "2x0,0", "4x4")
SHARED = replace(
    INFORMED, machines=4, workloads=16, history=6, queue=4, load=1.5, machine_types=KINDS, observe_forecast=False
)
FORECASTS = replace(SHARED, observe_forecast=True)
PEAKS = replace(FORECASTS, observe_peak=True)
PAIRS = {"choose_from_queue": True}
# name -> policy, scenario, built-in rule
EVERY: dict[str, tuple[str, Any, str]] = {
    "flat": ("flat", replace(SHARED, hold_action=False, observe_demand=False, observe_request=False), ""),
    "flat that sees all": ("flat", PEAKS, ""),
    "flat that chooses": ("flat", replace(FORECASTS, **PAIRS), ""),
    "shared that sees labels": ("shared", replace(SHARED, observe_demand=False, observe_request=False), ""),
    "shared that never holds": ("shared", replace(SHARED, hold_action=False), ""),
    "shared with forecasts": ("shared", FORECASTS, ""),
    "shared of parts of units": ("shared", replace(FORECASTS, quantise=False, K_u=(0.0, 2.5)), "expected-cost"),
    "shared with peaks alone": ("shared", replace(PEAKS, observe_forecast=False), ""),
    "shared with expected-cost": ("shared", FORECASTS, "expected-cost"),
    "shared with expected-cost that never holds": ("shared", replace(FORECASTS, hold_action=False), "expected-cost"),
    "shared with expected-cost-peak": ("shared", PEAKS, "expected-cost-peak"),
    "shared with expected-cost-known-peak": ("shared", PEAKS, "expected-cost-known-peak"),
    "shared with best-fit-peak": ("shared", PEAKS, "best-fit-peak"),
    "pairs": ("shared", replace(SHARED, **PAIRS), ""),
    "pairs that see labels": ("shared", replace(SHARED, observe_demand=False, observe_request=False, **PAIRS), ""),
    "pairs with forecasts": ("shared", replace(FORECASTS, **PAIRS), ""),
    "pairs with expected-cost": ("shared", replace(FORECASTS, **PAIRS), "expected-cost"),
    "pairs with expected-cost that never hold": (
        "shared",
        replace(FORECASTS, hold_action=False, **PAIRS),
        "expected-cost",
    ),
    "pairs with expected-cost-peak": ("shared", replace(PEAKS, **PAIRS), "expected-cost-peak"),
    "pairs with best-fit-peak": ("shared", replace(PEAKS, **PAIRS), "best-fit-peak"),
}


def environments(problem: Problem, scenario: Any, count: int = 6) -> PlacementVectorEnv:
    """Environments of that scenario, on the fixture's classes and forecaster."""
    own = Problem.build(problem.trace, scenario, problem.classes, forecaster=problem.forecaster)
    envs = PlacementVectorEnv(count, own.sequences("train", count, 0), own.machines, scenario, "Disabled")
    envs.reset(seed=0, options={"sequence": np.arange(count)})
    return envs


def states(envs: PlacementVectorEnv, decisions: int = 30) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Observations (n, ...) and masks (n, actions) of states that random actions lead to."""
    simulation, rng = envs.simulation, np.random.default_rng(0)
    seen, masks = [], []
    for _ in range(decisions):
        mask = action_masks(simulation)
        seen.append({name: part.copy() for name, part in simulation.observation().items()})
        masks.append(mask)
        chance = rng.random(mask.shape) * mask
        if simulation.scenario.hold_action:
            chance[:, -1] *= 1.5  # so that several workloads wait
        envs.step(chance.argmax(axis=1))
    return {name: np.concatenate([one[name] for one in seen]) for name in seen[0]}, np.concatenate(masks)


def trained(kind: str, envs: PlacementVectorEnv, rule: str = "", hidden: int = 16) -> tuple[Policy, dict[str, Any]]:
    """A policy whose logits differ as those of a trained one, and its shapes."""
    shapes = shapes_of(envs.simulation)
    if rule:
        shapes |= {"weights": envs.simulation.scenario.penalty_weights().per_resource(2).tolist(), "rule": rule}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        policy = make_policy(kind, shapes, hidden)
        for layer in (policy.output, getattr(policy, "hold", None)):
            if layer is not None and kind != "flat":
                torch.nn.init.normal_(layer.weight)
    return policy.eval(), shapes


_EXPORTS: dict[str, bytes] = {}  # the problem is the same in all tests


def export_of(problem: Problem, name: str) -> bytes:
    """What `tvwrl export` writes of one of the policies of `EVERY`, named "mine"; made once, as it takes seconds."""
    if name not in _EXPORTS:
        checkpoint, _ = checkpoint_of(problem, name)
        _EXPORTS[name] = export_policy(checkpoint, "mine").content
    return _EXPORTS[name]


def checkpoint_of(problem: Problem, name: str) -> tuple[Checkpoint, PlacementVectorEnv]:
    """A checkpoint of one of the policies of `EVERY`, and environments that it was made for."""
    kind, scenario, rule = EVERY[name]
    envs = environments(problem, scenario)
    policy, shapes = trained(kind, envs, rule)
    checkpoint = Checkpoint(
        config=TrainConfig(policy=kind, scenario=scenario, hidden=16),
        trace={"argument": "google", "name": "google", "source": "synthetic", "hash": trace_hash(problem.trace)},
        unit=problem.sampler.unit.tolist(),
        resources=list(problem.trace.resources),
        classes=problem.classes,
        forecaster=problem.forecaster if scenario.observe_forecast else None,
        shapes=shapes,
        policy=policy.state_dict(),
        learner={},
        random={},
        iteration=1,
        best_reward=0.0,
        best_iteration=1,
    )
    return checkpoint, envs
