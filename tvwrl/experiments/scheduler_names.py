"""What an entry of `--schedulers` means: NAME, deeprm=RUN, rollout(BASE+policy)=RUN, each perhaps with +pism=FILE, and
perhaps with ` + MOVES`, a rule that moves.

A rollout may have options in its brackets. `policy`, and `rollout(BASE+policy)` without =RUN, use the policy of
--checkpoint.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from tvwrl.names import Name, name_and_source, read_name
from tvwrl.schedulers import (
    MOVE_RULES,
    ByMachineValue,
    Moving,
    PerfectForecast,
    Scheduler,
    head_of,
    make_scheduler,
    parted,
    plus,
    rollout_of,
    with_moves,
)
from tvwrl.types import InputError, Trace

VALUE = ", value "  # before what tells learnt values apart
PROPOSED = "+policy"  # ends the base of a rollout to which a policy proposes machines


def scheduler_of(entry: str, device: str, policy: Scheduler | None = None) -> Scheduler:
    """The scheduler that an entry of --schedulers names; `policy`: that of --checkpoint. Raises InputError for a bad
    entry."""
    if both := parted(entry):
        return with_moves(scheduler_of(both[0], device, policy), both[1])
    name, run, file = parts_of(entry)
    if name.endswith("+pism") and not file:
        raise InputError(f"{name}=FILE: the file of tvwrl interference is missing")
    if name.removesuffix("+pism") == "deeprm":
        from tvwrl.agents import load_deeprm

        plain: Scheduler = load_deeprm(run, device)
    elif found := _policy_rollout(name.removesuffix("+pism")):
        if not run and policy is None:
            raise InputError(
                f"{name.removesuffix('+pism')}=RUN: the training run of the policy is missing; add it, or give "
                "--checkpoint RUN"
            )
        base = found.of.removesuffix(PROPOSED)
        plain = rollout_of(base, _policy_of(run, device) if run else policy, found.options)
    elif name.removesuffix("+pism") == "policy":
        if policy is None:
            raise InputError("'policy' is that of --checkpoint: give --checkpoint RUN")
        plain = policy
    else:
        plain = make_scheduler(name.removesuffix("+pism"))
        if run:
            raise InputError(f"{entry}: {plain.name} is a rule, which is not read from a file: leave out ={run}")
    if not file:
        return plain
    from tvwrl.interference import InterferenceScore, WithInterference

    return WithInterference(plain, InterferenceScore.load(Path(file)))


def origin_of(entry: str, scheduler: Scheduler) -> str:
    """What the results of an entry depend on: the entry, and the content of the file of a learnt value or a score."""
    if file := parts_of(entry)[2]:
        return f"{entry}{VALUE}{sha256(Path(file).read_bytes()).hexdigest()[:12]}"
    within = scheduler.scheduler if isinstance(scheduler, PerfectForecast) else scheduler
    if isinstance(within, Moving) and isinstance(within.rule, ByMachineValue):
        return f"{entry}{VALUE}{within.rule.value.digest}"
    return entry


def made_of(origin: str) -> str:
    """The entry of which `origin_of` says this."""
    return origin.rpartition(VALUE)[0] or origin


def is_of_file(name: str) -> bool:
    """Whether NAME=... is a scheduler that is read from a file, and not a name that is given to one."""
    if both := parted(name):
        rule = head_of(both[1])
        return rule in MOVE_RULES and bool(MOVE_RULES[rule].made.reads)
    return name.endswith("+pism") or _policy_rollout(name) is not None


def parts_of(entry: str) -> tuple[str, str, str]:
    """Name, run ("" if there is none) and file ("") of an entry; `+pism` is part of the name."""
    if both := parted(entry):
        name, run, file = parts_of(both[0])
        return plus(name, both[1]), run, file
    before, pism, file = entry.rpartition("+pism=")
    if not pism:
        before, pism = entry.removesuffix("+pism"), "+pism" * entry.endswith("+pism")
    name, run = name_and_source(before)
    return name + pism.removesuffix("="), run, file if pism.endswith("=") else ""


def is_of_checkpoint(entry: str) -> bool:
    """Whether an entry uses the policy of --checkpoint."""
    both = parted(entry)
    name, run, _ = parts_of(both[0] if both else entry)
    plain = name.removesuffix("+pism")
    return not run and (name == "policy+pism" or _policy_rollout(plain) is not None)


def _policy_rollout(name: str) -> Name | None:
    """The parts of a rollout to which a policy proposes machines; None for other names."""
    if not name.startswith("rollout("):
        return None
    found = read_name(name.replace(" ", ""), "scheduler")
    return found if found.of.endswith(PROPOSED) else None


def _policy_of(run: str, device: str) -> Scheduler:
    """The policy of a training run or an exported file, which proposes machines."""
    from tvwrl.agents import load_exported, located

    if located(run).suffix == ".onnx":
        return load_exported(located(run))
    from tvwrl.agents import PolicyScheduler, load_policy

    policy = load_policy(run, device=device)
    if not isinstance(policy, PolicyScheduler):
        raise InputError(f"{run} holds a policy of DeepRM, which chooses workloads and not machines: give another run")
    return policy


def scores_behind(entries: Sequence[str]) -> dict[str, str]:
    """File of each interference score that entries name -> what it was learnt from."""
    from tvwrl.interference import InterferenceScore

    files = sorted({parts_of(entry)[2] for entry in entries} - {""})
    return {file: InterferenceScore.load(Path(file)).about for file in files}


def warn_of_foreign_scores(entries: Sequence[str], trace: Trace) -> None:
    """Warn of interference scores that were learnt on another trace than the one they are played on."""
    from tvwrl.interference import describe_trace

    here = describe_trace(trace)
    for file, about in scores_behind(entries).items():
        found = re.search(r" of trace (.+) on \d+ machines", about)
        if found and found[1] != here:
            warnings.warn(
                f"{file} was learnt on trace {found[1]}, and is played on {here}: it may not tell machines apart there",
                stacklevel=2,
            )
