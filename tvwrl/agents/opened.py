"""A learnt policy from wherever it is kept: a training run, a checkpoint, or an exported file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tvwrl.agents.exported import Facts
from tvwrl.agents.observing import ObservingScheduler
from tvwrl.simulation import Scenario
from tvwrl.types import Float, InputError


def open_policy(path: str | Path) -> tuple[ObservingScheduler, Facts]:
    """The policy of a training run (its folder or a .pt file) or of an exported .onnx file, and what is known of it.

    An exported file needs no PyTorch. Raises InputError for what is missing, damaged or foreign, and for policies of
    DeepRM, which choose workloads and not machines.
    """
    path = Path(path)
    if path.suffix == ".onnx":
        from tvwrl.agents.exported import load_exported

        exported = load_exported(path)
        return exported, exported.facts
    from tvwrl.agents.policy_scheduler import PolicyScheduler, load_policy

    policy = load_policy(path)
    if not isinstance(policy, PolicyScheduler):
        raise InputError(f"{path} holds a policy of DeepRM, which chooses workloads and not machines: give another run")
    return policy, Facts.of(policy.checkpoint, policy.name)


def in_a_cluster(facts: Facts, resources: tuple[str, ...]) -> tuple[Scenario, Float]:
    """What a policy is shown of a real cluster, and the units (D,) that the largest machine has of each resource.

    Demand is not rounded to whole units, as pods may need a hundredth of one. Raises InputError for a policy of other
    resources or classes than its own, and one that sees lifetime peaks, which no cluster knows.
    """
    known, classes = facts.shapes["classes"], facts.classes.k
    if facts.resources != resources:
        raise InputError(
            f"policy '{facts.name}' was trained on the resources {', '.join(facts.resources)}: a cluster has "
            f"{' and '.join(resources)}"
        )
    if classes != known:
        raise InputError(f"policy '{facts.name}' knows {known} classes, but it came with {classes}")
    if facts.scenario.observe_peak:
        raise InputError(f"policy '{facts.name}' sees lifetime peaks, which no real cluster knows")
    capacity = facts.scenario.cluster(resources).capacity.max(axis=0)
    live: dict[str, Any] = {"quantise": False, "placements_per_slot": None, "usage_delay": 0, "max_slots": 0}
    return replace(facts.scenario, background=0, perturb=0, **live), capacity
