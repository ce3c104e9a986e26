"""The scheduler that takes the actions of a function of observation and mask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvwrl.benchmark.models import Function, Shown, checked_action
from tvwrl.envs import action_masks, observation_space
from tvwrl.schedulers import Scheduler, knowledge_of
from tvwrl.simulation import Cluster, Scenario, Simulation
from tvwrl.types import Placement, Workload


class FunctionScheduler(Scheduler):
    """Takes the actions of a function of observation and mask, as `tvwrl/Placement-v0` would.

    As in that environment, an action that names an empty place of the queue, or holds, places nothing.
    """

    looks_at_grid = True

    def __init__(self, name: str, function: Function, scenario: Scenario) -> None:
        self.name, self._function = name, function
        self.knowledge = knowledge_of(scenario)
        self.needs_forecasts = scenario.observe_forecast

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare for a new episode. Raises InputError if the function was made for another observation."""
        if self._function.fits is not None:
            self._function.fits(_shown(cluster.simulation))

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """One placement or none; the runner calls again. Raises InputError for an invalid action."""
        simulation = cluster.simulation
        observation = {name: seen[0].copy() for name, seen in cluster.observation().items()}
        mask = action_masks(simulation)[cluster.b]
        action = checked_action(self._function.act(observation, mask), simulation.actions)
        place, machine = divmod(action, len(cluster.machines))
        if action < simulation.placements and place < len(pending):
            yield Placement(pending[place], machine)


def _shown(simulation: Simulation) -> Shown:
    shapes = {name: tuple(space.shape or ()) for name, space in observation_space(simulation).spaces.items()}
    return Shown(shapes, simulation.actions, simulation.scenario.hold_action)
