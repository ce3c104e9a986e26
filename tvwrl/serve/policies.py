"""What `--policy` means: a rule of the registry, the policy of a training run, or an exported one; and what it sees."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.checks import hint
from tvwrl.schedulers import (
    Backfill,
    ExpectedCost,
    Knowledge,
    Moving,
    Scheduler,
    UnknownScheduler,
    list_schedulers,
    make_scheduler,
)
from tvwrl.serve.snapshot import Sight
from tvwrl.serve.watching import RESOURCES, Observed
from tvwrl.simulation import Scenario
from tvwrl.traces import DAY_SECONDS
from tvwrl.types import InputError

if TYPE_CHECKING:
    from tvwrl.agents import Facts

RULE_UNITS = 8.0  # of the largest node, for rules: as in the paper
MOST_SLOTS = 288  # remembered


def open_policy(name: str, slot_length: int | None) -> tuple[Scheduler, Sight]:
    """Find a scheduler by name, and what it has to be shown of a live cluster.

    Parameters
    ----------
    name : str
        A rule of the registry, the folder of a training run, a .pt file, an exported .onnx file, or shipped:NAME.
    slot_length : int or None
        Seconds of a slot, >= 1; None: 1800 for rules, and a policy's own.

    Returns
    -------
    tuple of Scheduler and Sight
        The scheduler, and the scenario, units, classes and forecaster with which it sees a cluster.

    Raises
    ------
    InputError
        An unknown name, a file that is missing or damaged, a scheduler that needs what no cluster knows, a policy for
        other resources or with other classes than it was trained with, or slots of another length than its own.

    Examples
    --------
    >>> scheduler, sight = open_policy("best-fit", None)
    >>> scheduler.name, sight.scenario.step_seconds
    ('best-fit', 1800)
    """
    try:
        from tvwrl.agents import ExportedPolicy, is_shipped
        from tvwrl.agents import open_policy as open_trained

        if is_shipped(name) or name.endswith(".onnx") or Path(name).exists():
            policy, facts = open_trained(name)
            if isinstance(policy, ExportedPolicy):
                policy.remember_machines()
            return policy, sight_of(policy, facts, slot_length)
        return _rule(name, slot_length)
    except InputError as error:
        raise InputError(f"policy is {name}: {error}") from None


def _rule(name: str, slot_length: int | None) -> tuple[Scheduler, Sight]:
    """A rule of the registry that a real cluster could have."""

    def is_real(knowledge: Knowledge) -> bool:
        return "peaks" not in knowledge.group and "future" not in knowledge.group

    try:
        scheduler = make_scheduler(name)
    except UnknownScheduler:
        usable = [known for known, knows in list_schedulers().items() if is_real(knows) and "(" not in known]
        near = hint(
            name,
            usable,
            listed_by="tvwrl evaluate --list-schedulers lists all; those that know peaks or the future cannot serve",
        )
        raise InputError(f"no such file or folder, and no rule: {near}") from None
    if not is_real(scheduler.knowledge):
        raise InputError(
            f"it knows {scheduler.knowledge.group}, which no real cluster does; "
            "tvwrl evaluate --list-schedulers says what each knows"
        )
    if isinstance(scheduler, Moving):
        raise InputError(f"it moves what runs, which this service does not: serve {scheduler.placing.name}")
    served = scheduler.served if isinstance(scheduler, Backfill) else scheduler
    if isinstance(served, ExpectedCost) and served.opening is not None:
        raise InputError("it waits for company, but this service sees one pod at a time: leave out opening")
    if scheduler.leader is not None or scheduler.name.startswith("rollout"):
        raise InputError("it plans in sampled training sequences; serve its base instead")
    step = slot_length or Scenario().step_seconds
    scenario = Scenario(quantise=False, placements_per_slot=None, history=1, step_seconds=step)
    forecaster = None
    if scheduler.needs_forecasts:
        from tvwrl.forecasting import shipped_forecaster

        forecaster = shipped_forecaster()
        if slot_length not in (None, forecaster.step_seconds):
            raise InputError(
                f"slot_length is {slot_length}: {scheduler.name} forecasts slots of {forecaster.step_seconds} s; "
                "leave the option out"
            )
        scenario = replace(scenario, peak_units=forecaster.peak_units)
    units = np.full(len(RESOURCES), RULE_UNITS)
    return scheduler, Sight(scenario, units, scheduler.looks_at_grid, scheduler.needs_forecasts, None, forecaster)


def slots_to_remember(sight: Sight) -> int:
    """Slots of usage that a scheduler may look back to: a day, and no less than the grid shows."""
    day = math.ceil(DAY_SECONDS / sight.scenario.step_seconds)
    return max(min(day, MOST_SLOTS), sight.scenario.history) + 1


def sight_of(policy: Scheduler, facts: Facts, slot_length: int | None = None) -> Sight:
    """What a learnt policy has to be shown."""
    from tvwrl.agents import in_a_cluster

    scenario, capacity = in_a_cluster(facts, RESOURCES)
    if slot_length not in (None, scenario.step_seconds):
        raise InputError(
            f"slot_length is {slot_length}: {policy.name} was trained with slots of {scenario.step_seconds} s; "
            "leave the option out"
        )
    return Sight(scenario, capacity, True, policy.needs_forecasts, facts.classes, facts.forecaster)


def rehearsal(slots: int) -> Observed:
    """A made-up cluster of two nodes and three pods, to try a scheduler before it is asked in earnest."""
    usage = np.full((3, slots, 2), [0.5, 2.0**30])
    usage[1, : slots // 2] = np.nan
    return Observed(
        time=0.0,
        sample_age=0.0,
        slot=slots + 1000,
        nodes=("rehearsal-a", "rehearsal-b"),
        capacity=np.array([[8.0, 2.0**35], [4.0, 2.0**34]]),
        pods=("rehearsal/one", "rehearsal/two", "rehearsal/three"),
        uid=("", "", ""),
        running=3,
        node=np.array([0, 0, 1]),
        owner=("rehearsal/deployment/one",) * 2 + ("",),
        request=np.array([[1.0, 2.0**31], [np.nan, np.nan], [0.5, np.nan]]),
        usage=usage,
    )
