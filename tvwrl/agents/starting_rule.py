"""The rule that a policy starts from where several could be built in: the best one on training sequences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tvwrl.agents.config import TrainConfig
from tvwrl.envs.problem import Problem
from tvwrl.schedulers.replay import Replay
from tvwrl.simulation.simulation import Simulation

SEQUENCES = 100  # training sequences that the rules play
TO_THE_END = 3000  # slots, more than any of their episodes has


def with_starting_rule(config: TrainConfig, problem: Problem, report: Callable[[str], None]) -> TrainConfig:
    """The configuration with a teacher, and a base policy: the best of `config.starting_rules` on training sequences.

    Unchanged if there is nothing to choose.
    """
    rules = config.starting_rules
    if len(rules) < 2:
        return config
    sequences = problem.sequences("train", SEQUENCES, config.seed, config.train_loads)
    simulation = Simulation(
        sequences, problem.machines, config.scenario, len(sequences), grid=False, forecasts=True, max_slots=0
    )
    every = np.arange(len(sequences))
    simulation.reset(every)
    costs = {}
    for rule in rules:
        replay = Replay(simulation, rule, TO_THE_END)
        first = replay.choices(every)
        taken = np.arange(simulation.placements + 1) == first[:, None]
        costs[rule] = float(np.nansum(replay.costs(every, taken)[0]) / len(sequences))
    best = min(costs, key=lambda rule: costs[rule])
    shown = ", ".join(f"{rule} {-cost / 1000:.1f}" for rule, cost in costs.items())
    report(f"rewards of rules on {len(sequences)} training sequences, thousands: {shown}")
    return replace(config, teacher=best, base_policy=config.base_policy or best)
