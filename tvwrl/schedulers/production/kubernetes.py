"""Kubernetes' own placement by declared requests: what a cluster does unless its scheduler is configured otherwise.

Source: kubernetes/kubernetes, the code of `pkg/scheduler/framework/plugins/noderesources` at several commits up to
02d7708 (Apache-2.0). Nothing is copied; the formulas are reimplemented.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from tvwrl.checks import positive
from tvwrl.schedulers.head_of_queue import FilterAndScore
from tvwrl.schedulers.knowledge import REQUESTS
from tvwrl.schedulers.production.requests import milli, requested, requests_fit
from tvwrl.simulation.cluster import Cluster, Mask
from tvwrl.types import Float, Int, Workload

MOST = 100  # the best score

Scorer = Callable[[Int, Int], Int]  # (M, 2) requests with the workload and allocatable amounts -> (M,) 0 to 100


class _Kubernetes(FilterAndScore):
    """The head of the queue goes to the machine with the highest sum of `scorers`, each a whole number from 0 to 100.

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
    scorers: ClassVar[tuple[Scorer, ...]]

    def __init__(self, overcommit: float = 1.0) -> None:
        positive(overcommit=overcommit)
        self.overcommit = overcommit

    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `FilterAndScore.passes`."""
        return requests_fit(cluster, workload, self.overcommit)

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        wanted = milli(requested(cluster, workload)[:, [0, -1]])
        size = milli(self.overcommit * cluster.capacity[:, [0, -1]])
        score: Float = np.sum([scorer(wanted, size) for scorer in self.scorers], axis=0)
        return score


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


def balanced_allocation(wanted: Int, size: Int) -> Int:
    """(M,) BalancedAllocation: floor(100 (1 - |cpu - memory| / 2)) of the requested shares, each at most 1.

    Newer releases (pull request 135573, opened in December 2025) score instead how much more balanced the machine
    becomes. We read only the description of that change, so it is not implemented.

    >>> balanced_allocation(np.array([[4, 2], [3, 3], [9, 0]]), np.full((3, 2), 8))
    array([ 87, 100,  50])
    """
    share = np.minimum(wanted / np.maximum(size, 1), 1.0)
    deviation = np.abs((share[:, 0] - share[:, 1]) / 2)
    score: Int = ((1.0 - deviation) * MOST).astype(np.int64)
    return score


class LeastAllocated(_Kubernetes):
    """NodeResourcesFit with LeastAllocated alone: see `least_allocated`."""

    name, scorers = "least-allocated", (least_allocated,)


class MostAllocated(_Kubernetes):
    """NodeResourcesFit with MostAllocated, which operators choose to pack machines: see `most_allocated`."""

    name, scorers = "most-allocated", (most_allocated,)


class BalancedAllocation(_Kubernetes):
    """NodeResourcesBalancedAllocation alone: see `balanced_allocation`."""

    name, scorers = "balanced-allocation", (balanced_allocation,)


class KubeDefault(_Kubernetes):
    """Kubernetes' default profile: LeastAllocated and BalancedAllocation, with weight 1 each.

    Its other scorers are equal on all machines here, except the one that spreads replicas of a service over machines,
    which is left out because the simulation does not say which workloads are replicas.
    """

    name, scorers = "kube-default", (least_allocated, balanced_allocation)
