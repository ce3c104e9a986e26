"""Kubernetes' own placement by declared requests: what a cluster does unless its scheduler is configured otherwise.

Source: kubernetes/kubernetes, `pkg/scheduler/framework/plugins/noderesources` (Apache-2.0), as in release 1.36:
pull request 135573 changed BalancedAllocation there. Nothing is copied; the formulas are reimplemented.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from tvwrl.checks import positive
from tvwrl.schedulers.base import PRODUCTION_RULE, registered
from tvwrl.schedulers.head_of_queue import FilterAndScore
from tvwrl.schedulers.knowledge import REQUESTS
from tvwrl.schedulers.production.facts import milli, requested, requests_fit
from tvwrl.simulation import Cluster, Mask
from tvwrl.types import Float, Int, Workload

MOST = 100  # the best score


class _Kubernetes(FilterAndScore):
    """The head of the queue goes to the machine with the most points.

    A machine passes if the requests of all its workloads fit (NodeResourcesFit): limits and usage do not count. Scores
    use CPU and memory (the first and the last resource) and the integer arithmetic of the source, whose rounding makes
    ties.

    Left out: Kubernetes takes a random one of the best machines and, from 100 machines on, scores only some of them;
    here all are scored and the first of the best is taken. Where nothing is declared, Kubernetes assumes 0.1 cores and
    200 MiB; here `Simulation.request` has a stand-in.

    `overcommit`: > 0, factor on a machine's capacity in the filter and in the scores. 1 in the source; other values are
        ours, and model an operator who reports larger machines
    """

    knowledge = REQUESTS
    options: ClassVar = {"overcommit": (1.0, 1.25, 1.5, 2.0, 3.0)}

    def __init__(self, overcommit: float = 1.0) -> None:
        positive(overcommit=overcommit)
        self.overcommit = overcommit

    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `FilterAndScore.passes`."""
        return requests_fit(cluster, workload, self.overcommit)

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        amounts = (requested(cluster, workload), cluster.reserved_requests, self.overcommit * cluster.capacity)
        wanted, before, size = (milli(amount[:, [0, -1]]) for amount in amounts)
        return self.points(wanted, before, size).astype(float)

    @abstractmethod
    def points(self, wanted: Int, before: Int, size: Int) -> Int:
        """(M,) whole numbers; all (M, 2): requests with and without the newcomer, and capacities."""


def least_allocated(wanted: Int, size: Int) -> Int:
    """(M,) LeastAllocated: floor(100 (size - wanted) / size), 0 above the size; the floored mean of both resources.

    >>> least_allocated(np.array([[4, 2], [3, 3], [9, 0]]), np.full((3, 2), 8))
    array([62, 62, 50])
    """
    free = MOST * (size - wanted) // np.maximum(size, 1)
    score: Int = np.maximum(free, 0).sum(axis=1) // 2
    return score


def most_allocated(wanted: Int, size: Int) -> Int:
    """(M,) MostAllocated: floor(100 wanted / size), 100 above the size; the floored mean of both resources.

    >>> most_allocated(np.array([[4, 2], [3, 3], [9, 0]]), np.full((3, 2), 8))
    array([37, 37, 50])
    """
    used = MOST * np.minimum(wanted, size) // np.maximum(size, 1)
    score: Int = used.sum(axis=1) // 2
    return score


def balanced_allocation(wanted: Int, before: Int, size: Int) -> Int:
    """(M,) BalancedAllocation: 75 if the newcomer changes nothing, up to 100 the more alike it makes the requested
    shares of CPU and memory, down to 50 the less.

    floor(50 + (50 + b - a) / 2), where b is floor(100 (1 - |cpu - memory| / 2)) of the shares with the newcomer, each
    at most 1, and a that of the shares without it. Up to release 1.35 the score was b (pull request 135573).

    >>> after, size = np.array([[4, 2], [3, 3], [9, 0]]), np.full((3, 2), 8)
    >>> balanced_allocation(after, np.array([[3, 1], [3, 0], [8, 0]]), size)
    array([75, 84, 75])
    """
    return MOST // 2 + (MOST // 2 + _balance(wanted, size) - _balance(before, size)) // 2


def _balance(requested: Int, size: Int) -> Int:
    """(M,) 50 to 100: how alike the requested shares of both resources are."""
    share = np.minimum(requested / np.maximum(size, 1), 1.0)
    deviation = np.abs((share[:, 0] - share[:, 1]) / 2)
    return ((1.0 - deviation) * MOST).astype(np.int64)


@registered("Least allocated (Kubernetes)", PRODUCTION_RULE)
class LeastAllocated(_Kubernetes):
    """NodeResourcesFit with LeastAllocated alone: see `least_allocated`."""

    name = "least-allocated"

    def points(self, wanted: Int, before: Int, size: Int) -> Int:
        """See `least_allocated`."""
        return least_allocated(wanted, size)


@registered("Most allocated (Kubernetes)", PRODUCTION_RULE)
class MostAllocated(_Kubernetes):
    """NodeResourcesFit with MostAllocated, which operators choose to pack machines: see `most_allocated`."""

    name = "most-allocated"

    def points(self, wanted: Int, before: Int, size: Int) -> Int:
        """See `most_allocated`."""
        return most_allocated(wanted, size)


@registered("Balanced (Kubernetes)", PRODUCTION_RULE)
class BalancedAllocation(_Kubernetes):
    """NodeResourcesBalancedAllocation alone: see `balanced_allocation`."""

    name = "balanced-allocation"

    def points(self, wanted: Int, before: Int, size: Int) -> Int:
        """See `balanced_allocation`."""
        return balanced_allocation(wanted, before, size)


@registered("Kubernetes default", PRODUCTION_RULE)
class KubeDefault(_Kubernetes):
    """Kubernetes' default profile, as in release 1.36: LeastAllocated and BalancedAllocation, with weight 1 each.

    Its other scorers are equal on all machines here, except the one that spreads replicas of a service over machines,
    which is left out because the simulation does not say which workloads are replicas.
    """

    name = "kube-default"

    def points(self, wanted: Int, before: Int, size: Int) -> Int:
        """The sum of both."""
        return least_allocated(wanted, size) + balanced_allocation(wanted, before, size)
