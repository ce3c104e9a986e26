"""What a pod requests, as Kubernetes counts it: the one definition that the loader, what-if and the server share.

A pod requests the larger of what its containers need together (with its sidecars, which run beside them) and of what
one of its init containers needs (with the sidecars started before it), plus the overhead of its runtime class. A
request that is made for the pod itself stands for that of its containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tvwrl.types import Float


@dataclass(frozen=True)
class Requested:
    """The parts of what pods request: arrays of one shape; NaN where there is none."""

    containers: Float  # sum of the containers
    sidecars: Float  # sum of the sidecars
    steps: Float  # the most that one other init container needs with the sidecars before it
    overhead: Float  # of the pod's runtime class
    pod: Float  # resources of the pod itself

    @property
    def total(self) -> Float:
        """What the pods request.

        >>> part = np.array([1.0]), np.array([0.5]), np.array([2.0]), np.array([0.25]), np.array([np.nan])
        >>> Requested(*part).total
        array([2.25])
        """
        by_containers = np.fmax(plus(self.containers, self.sidecars), self.steps)
        return plus(np.where(np.isnan(self.pod), by_containers, self.pod), self.overhead)


def requested(
    containers: Iterable[Float], init: Sequence[tuple[Float, bool]], overhead: Float, pod: Float
) -> Requested:
    """The parts of one pod, from what each of its containers requests of D resources.

    `containers`: (D,) each
    `init`: (D,) of each init container in their order, and whether it is a sidecar
    `overhead`, `pod`: (D,)
    """
    nothing = np.full_like(overhead, np.nan)
    total, sidecars, steps = nothing, nothing, nothing
    for asked, sidecar in init:
        if sidecar:
            sidecars = plus(sidecars, asked)
        else:
            steps = np.fmax(steps, plus(sidecars, asked))
    for asked in containers:
        total = plus(total, asked)
    return Requested(total, sidecars, steps, overhead, pod)


def plus(one: Float, other: Float) -> Float:
    """The sum, in which NaN is nothing; NaN only where both are."""
    return np.where(np.isnan(one), other, np.where(np.isnan(other), one, one + other))
