"""Batches of applications and unequal machines drawn as in the simulations of the LRASched paper (Section 4.2.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.checks import at_least, positive, within
from tvwrl.planning.instance import Affinity, Fleet, Instance
from tvwrl.types import InputError

LEAST = 0.1  # of a machine's sizes: uniform in [0.1, 1]
MOST_TOGETHER = 10  # limits on replicas that share a machine: uniform in 1 .. 10
MORE = 4  # times as many machines are drawn for phase 2, beyond which all have size 1


@dataclass(frozen=True)
class Drawn:
    """What is drawn. Sizes of a replica are uniform in (0, `largest`], replicas of an application in `replicas`.

    The paper prints 0.5 for `largest`, and not how many replicas an application has.
    """

    applications: int = 500  # >= 1
    machines: int = 100  # >= 1
    dimensions: int = 3  # >= 1
    replicas: tuple[int, int] = (1, 1)  # fewest and most, >= 1
    largest: float = 0.5  # > 0, up to 1

    def __post_init__(self) -> None:
        at_least(1, applications=self.applications, machines=self.machines, dimensions=self.dimensions)
        if not 1 <= self.replicas[0] <= self.replicas[1]:
            raise InputError(f"replicas is {self.replicas[0]} {self.replicas[1]}: must be two numbers >= 1, rising")
        positive(largest=self.largest)
        within(0, 1, largest=self.largest)

    def draw(self, seed: int) -> tuple[Instance, Fleet]:
        """The instance, and the fleet: the first `machines` are there, the others may be added without end."""
        rng = np.random.default_rng([seed, self.applications, self.machines, self.dimensions])
        shape = (self.applications, 1, self.dimensions)
        demand = self.largest * (1.0 - rng.random(shape))  # never 0
        replicas = rng.integers(self.replicas[0], self.replicas[1] + 1, self.applications)
        limit, own = rng.integers(1, MOST_TOGETHER + 1, self.applications), np.arange(self.applications)
        names = np.array([f"application-{i}" for i in own], dtype=object)
        resources = tuple(f"size{d + 1}" for d in range(self.dimensions))
        arcs = Affinity.of(self.applications, own, own, limit)
        machines = rng.uniform(LEAST, 1.0, ((1 + MORE) * self.machines, self.dimensions))
        instance = Instance(f"drawn-{seed}", names, replicas, demand, resources, arcs)
        return instance, Fleet(np.concatenate([machines, np.ones((1, self.dimensions))]))
