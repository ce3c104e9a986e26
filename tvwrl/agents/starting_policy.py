"""Where the initial policy comes from: the best of the rules that could be built in, or the policy of another run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.config import TrainConfig
from tvwrl.agents.shapes import environment_signature
from tvwrl.envs import Problem
from tvwrl.progress import Report
from tvwrl.schedulers import CompiledRule
from tvwrl.simulation import GOING, OVER, SLOT, SLOTS, Simulation
from tvwrl.types import InputError, SequenceSet

SEQUENCES = 100  # training sequences that the rules play, and as many validation sequences


def with_starting_rule(config: TrainConfig, problem: Problem, report: Report) -> TrainConfig:
    """The configuration with a teacher and a base policy: the best of `config.starting_rules`.

    The best has the highest mean reward on training and validation sequences together, as rules learn nothing from
    either. Unchanged if there is no choice.
    """
    if config.start_from and not config.teacher:  # the rule built into that policy
        start = Checkpoint.load(find_checkpoint(Path(config.start_from))).config
        return replace(config, teacher=start.built_in or start.teacher or "best-fit-peak")
    rules = config.starting_rules
    if len(rules) < 2:
        return config
    drawn = [problem.sequences(part, SEQUENCES, config.seed, config.train_loads) for part in ("train", "validation")]
    costs = {rule: sum(_cost(problem, config, rule, sequences) for sequences in drawn) / len(drawn) for rule in rules}
    best = min(costs, key=lambda rule: costs[rule])
    shown = ", ".join(f"{rule} {-cost / 1000:.1f}" for rule, cost in costs.items())
    report(f"mean rewards of rules on {len(drawn) * SEQUENCES} training and validation sequences, thousands: {shown}")
    return replace(config, teacher=best, base_policy=config.base_policy or best)


def check_start(config: TrainConfig, resources: Sequence[str], labels: int) -> None:
    """Raise InputError unless the policy of `config.start_from` sees, and chooses from, what training shows.

    `labels`: the number of classes
    """
    saved = Checkpoint.load(find_checkpoint(Path(config.start_from)))
    scenario, before = config.scenario, saved.config
    trained: dict[str, Any] = {
        "policy": before.policy,
        "hidden": before.hidden,
        "resources": ", ".join(saved.resources),
    }
    found: dict[str, Any] = {"policy": config.policy, "hidden": config.hidden, "resources": ", ".join(resources)}
    if "grid" in saved.shapes and found == trained:
        capacity = scenario.cluster(tuple(resources)).capacity
        shapes = saved.shapes | {
            "grid": [*capacity.shape, scenario.history, int(capacity.max())],
            "queue": [scenario.queue, saved.shapes["queue"][1]],
            "classes": labels,
            "peak_units": scenario.peak_units,
        }
        trained = environment_signature(saved.shapes, before.scenario)
        found = environment_signature(shapes, scenario)
        if config.policy == "shared":
            del found["machines"]
    for field, value in found.items():
        if value != trained[field]:
            raise InputError(
                f"start_from is {config.start_from}: its policy was trained with {field} {trained[field]}, not "
                f"{value}; use the options that it was trained with"
            )


def _cost(problem: Problem, config: TrainConfig, rule: str, sequences: SequenceSet) -> float:
    """Mean cost of an episode of the rule."""
    count = len(sequences)
    simulation = Simulation(
        sequences, problem.machines, config.scenario, count, grid=False, forecasts=True, max_slots=0
    )
    simulation.reset(np.arange(count))
    compiled, state, cost = CompiledRule(simulation, rule), simulation.state, 0.0
    # If never idle while workloads wait, it is done when they could all have run one after another
    latest, over = int(sequences.arrival.max() + sequences.length.sum(axis=1).max()), state.counters[:, OVER]
    while (going := np.flatnonzero((over == GOING) & (state.counters[:, SLOT] <= latest))).size:
        actions = np.full(count, simulation.placements)
        actions[going] = compiled.choices(going)
        simulation.step(actions)
        cost += float(state.totals[going, :SLOTS].sum())
    return cost / count
