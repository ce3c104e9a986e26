"""What an entry of `--schedulers` means: NAME, deeprm=RUN, rollout(BASE+policy)=RUN, each perhaps with +pism=FILE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tvwrl.schedulers import Scheduler, make_scheduler
from tvwrl.schedulers.registry import rollout_of
from tvwrl.types import InputError

POLICY_ROLLOUT = re.compile(r"rollout\((.+)\+policy\)")


def scheduler_of(entry: str, device: str) -> Scheduler:
    """The scheduler that an entry of --schedulers names. Raises InputError for a bad entry."""
    name, run, file = parts_of(entry)
    if name.endswith("+pism") and not file:
        raise InputError(f"{name}=FILE: the file of scripts/fit_interference.py is missing")
    if name.removesuffix("+pism") == "deeprm":
        from tvwrl.agents.deeprm.scheduler import load_deeprm

        plain: Scheduler = load_deeprm(run, device)
    elif found := POLICY_ROLLOUT.fullmatch(name.removesuffix("+pism")):
        if not run:
            raise InputError(f"{name}=RUN: the training run of the policy is missing")
        plain = _policy_rollout(found[1], run, device)
    else:
        plain = make_scheduler(entry.partition("+pism")[0])
    return with_interference(plain, file) if file else plain


def parts_of(entry: str) -> tuple[str, str, str]:
    """Name, run ("" if there is none) and file ("") of an entry; `+pism` is part of the name."""
    before, pism, file = entry.partition("+pism")
    name, _, run = before.partition("=")
    return name + pism, run, file.removeprefix("=")


def _policy_rollout(base: str, run: str, device: str) -> Scheduler:
    """A rollout on `base` of what the policy of a training run proposes."""
    from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
    from tvwrl.agents.policy_scheduler import PolicyScheduler, load_policy

    policy = load_policy(Path(run), Checkpoint.load(find_checkpoint(Path(run))), device)
    if not isinstance(policy, PolicyScheduler):
        raise InputError(f"{run} holds a policy of DeepRM, which chooses workloads and not machines: give another run")
    return rollout_of(base, policy)


def with_interference(inner: Scheduler, file: str) -> Scheduler:
    """A scheduler with the interference score of a file (scripts/fit_interference.py)."""
    from tvwrl.interference.scheduler import WithInterference
    from tvwrl.interference.score import InterferenceScore

    return WithInterference(inner, InterferenceScore.load(Path(file)))


def scores_behind(entries: Sequence[str]) -> dict[str, str]:
    """File of each interference score that entries name -> what it was learnt from."""
    from tvwrl.interference.score import InterferenceScore

    files = sorted({parts_of(entry)[2] for entry in entries} - {""})
    return {file: InterferenceScore.load(Path(file)).about for file in files}
