"""Kubernetes' descheduler: LowNodeUtilization and HighNodeUtilization.

Source: kubernetes-sigs/descheduler at 7d2b28b, `pkg/framework/plugins/nodeutilization` (Apache-2.0). A plugin chooses
which pods to evict, and the scheduler places them again; here the placing rule says where a workload goes.

What differs:

- The order of pods on a node is that of priorities and classes of service, which no trace has, and for equal pods
  arbitrary; here the longest-running first.
- Nodes are sorted by the sum of millicores and bytes, which bytes dominate; here by memory, then by CPU.
- Thresholds are one per resource, and pods are a resource; here one for all resources of the trace.
- An evicted pod may return to its node or find no other; here a workload moves only to where the placing rule finds
  room (`nodeFit`, which is off there by default).
- Evictions are limited per node, namespace and run; here by the moves of a slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least, one_of, whole, within
from tvwrl.schedulers.knowledge import CURRENT_LOAD, REQUESTS
from tvwrl.schedulers.moving.base import MoveRule, move_rule
from tvwrl.simulation import Cluster, Mask, Running
from tvwrl.types import Float, InputError, Int, Move

LOW, HIGH = 0.2, 0.5  # upstream has no defaults; these are its documentation's
SHARES = (0.2, 0.3, 0.4, 0.5)


def by_usage(load: Float) -> Int:
    """Machines (M, D) in order of their memory, and where that is equal, of their CPU; the least first."""
    return np.lexsort((load[:, 0], load[:, -1]))


class Evicting(MoveRule):
    """A plugin that moves workloads away from some machines, as long as others have room in total."""

    def evict(
        self, cluster: Cluster, running: Running, sources: Int, own: Float, load: Float, limit: Float, room: Float
    ) -> Iterator[Move]:
        """Move workloads away from each of the `sources` until its load is within the limit.

        Parameters
        ----------
        cluster : Cluster
            What it sees of the cluster.
        running : Running
            What runs in this slot.
        sources : array of int
            Machines, in this order.
        own : array of float
            (n, D) what a workload counts.
        load : array of float
            (M, D) what a machine counts; changed.
        limit : array of float
            (M, D) a machine that exceeds this in no resource keeps what it has.
        room : array of float
            (D,) what may be moved in total; changed.
        """
        for m in sources.tolist():
            for i in np.flatnonzero((running.machine == m) & running.movable).tolist():
                if not cluster.moves_left:
                    return
                if np.all(load[m] <= limit[m]) or np.any(room <= 0):
                    break
                target = self.target(cluster, running, i)
                if target is None:
                    continue
                yield Move(int(running.workload[i]), target)
                load[m] -= own[i]
                room -= own[i]


@move_rule("LowNodeUtilization")
class LowNodeUtilization(Evicting):
    """Moves workloads from machines that are used too much, as long as there are machines that are used little.

    The plugin with `metricsUtilization`: a machine's share is its measured usage. It is used little if no resource
    exceeds `low`, too much if one exceeds `high`. What may be moved in total is what the first lack of `high`.

    Parameters
    ----------
    low : float, default 0.2
        Share of the capacity (`thresholds`), 0 to 1; at most `high`, unless both are deviations.
    high : float, default 0.5
        Share of the capacity (`targetThresholds`), 0 to 1.
    deviation : float, default 0
        1: both are deviations from the mean share of all machines (`useDeviationThresholds`).
    nodes : float, default 0
        Nothing moves unless more machines than that are used little (`numberOfNodes`), a whole number >= 0.

    Examples
    --------
    >>> LowNodeUtilization(low=0.3)
    <LowNodeUtilization name='low-node-utilization', knows='current load and history'>
    """

    name, knowledge = "low-node-utilization", CURRENT_LOAD
    options: ClassVar = {
        "low": (0.0, 0.1, *SHARES),
        "high": (0.1, *SHARES, 0.6, 0.7, 0.8, 0.9),
        "deviation": (0, 1),
        "nodes": (0, 1, 2),
    }

    def __init__(self, low: float = LOW, high: float = HIGH, deviation: float = 0, nodes: float = 0) -> None:
        within(0, 1, low=low, high=high)
        one_of((0, 1), deviation=deviation)
        at_least(0, nodes=nodes)
        whole(nodes=nodes)
        if low > high and not deviation:
            raise InputError(f"low is {low:g}: must be at most high, which is {high:g}, as in the plugin")
        self.low, self.high, self.deviation, self.nodes = low, high, deviation, nodes

    def thresholds(self, share: Float, on: Mask) -> tuple[Float, Float]:
        """The two thresholds (D,) of the machines' shares (M, D), of which some are `on`."""
        if not self.deviation:
            return np.full(share.shape[1], self.low), np.full(share.shape[1], self.high)
        mean = share[on].mean(axis=0)
        return np.clip(mean - self.low, 0.0, 1.0), np.clip(mean + self.high, 0.0, 1.0)

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `MoveRule.moves`."""
        running, load = cluster.running, cluster.load_after_moves
        on = cluster.capacity[:, 0] > 0
        share = load / cluster.divisor
        lower, upper = self.thresholds(share, on)
        little = on & np.all(share <= lower, axis=1)
        much = on & ~little & np.any(share > upper, axis=1)
        if little.sum() <= self.nodes or little.sum() == on.sum():
            return
        limit = upper * cluster.capacity
        room = (limit - load)[little].sum(axis=0)
        order = by_usage(load)[::-1]
        yield from self.evict(cluster, running, order[much[order]], running.usage, load, limit, room)


@move_rule("HighNodeUtilization")
class HighNodeUtilization(Evicting):
    """Moves workloads from machines of which little is requested, as long as the others have room in total.

    A machine's share is what its workloads request. Little is requested if no resource exceeds `low`. Meant for
    placing rules that fill machines, as `most-allocated` does.

    Parameters
    ----------
    low : float, default 0.2
        Share of the capacity (`thresholds`), 0 to 1.
    nodes : float, default 0
        Nothing moves unless little is requested of more machines than that (`numberOfNodes`), a whole number >= 0.

    Examples
    --------
    >>> HighNodeUtilization(low=0.4)
    <HighNodeUtilization name='high-node-utilization', knows='declared requests'>
    """

    name, knowledge = "high-node-utilization", REQUESTS
    options: ClassVar = {"low": (0.1, *SHARES, 0.6), "nodes": (0, 1, 2)}

    def __init__(self, low: float = LOW, nodes: float = 0) -> None:
        within(0, 1, low=low)
        at_least(0, nodes=nodes)
        whole(nodes=nodes)
        self.low, self.nodes = low, nodes

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `MoveRule.moves`."""
        running, requested = cluster.running, cluster.reserved_requests
        on = cluster.capacity[:, 0] > 0
        little = on & np.all(requested / cluster.divisor <= self.low, axis=1)
        if little.sum() <= self.nodes or little.sum() == on.sum():
            return
        room = (cluster.capacity - requested)[on & ~little].sum(axis=0)
        order, never = by_usage(requested), np.full(requested.shape, -1.0)
        own = cluster.requests_of(running)
        yield from self.evict(cluster, running, order[little[order]], own, requested, never, room)
