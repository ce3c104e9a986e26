"""A learnt policy from wherever it is kept: a training run, a checkpoint, or an exported file."""

from __future__ import annotations

from pathlib import Path

from tvwrl.agents.exported_facts import Facts
from tvwrl.agents.observing import ObservingScheduler
from tvwrl.types import InputError


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
