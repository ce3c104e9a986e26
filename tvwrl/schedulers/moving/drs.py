"""A rule like VMware's Distributed Resource Scheduler (DRS).

Source: Gulati et al., VMware Distributed Resource Management, VMware Technical Journal 2012 (read: the abstract);
VMware's manuals and clustering books as others quote them. There is no code to check it on, hence `-like`.

What is described: DRS looks at the cluster every five minutes. A host's load is the sum of what its virtual machines
are entitled to, as a share of its capacity, for CPU and for memory. The cluster's imbalance is the standard deviation
of the hosts' loads. While that exceeds a target, DRS makes the migration that lowers it most, unless its cost exceeds
its benefit, or the benefit is too small. The target falls with the migration threshold, from 1 (only what rules demand)
to 5, and with the root of the number of hosts: a recommendation's priority is 6 - ceil(imbalance / 0.1 x root). (That
formula is from a knowledge base article, 1007485, of which no copy could be read.)

What differs:

- What a workload is entitled to is what it was measured to use: no trace has reservations, limits and shares.
- How CPU and memory are weighed was not read; here the mean of the resources' deviations.
- How cost and benefit are weighed was not read; here a move must lower the imbalance by more than `goodness`.
- A round every slot; rules of affinity, and power management, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least, one_of
from tvwrl.packing import fits
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.schedulers.moving.base import MoveRule, move_rule
from tvwrl.simulation import Cluster, Running
from tvwrl.types import Float, Move

STEP = 0.1  # of imbalance, times the root of the number of hosts, between two priorities


def imbalance(share: Float) -> float:
    """The standard deviation of the loads (M, D) of hosts, as shares of their capacity; the mean of the resources."""
    return float(share.std(axis=0).mean())


def target_imbalance(level: float, hosts: int) -> float:
    """Up to where a cluster is balanced, at a migration threshold of `level`."""
    return STEP * (5.0 - level) / float(np.sqrt(hosts))


@move_rule("Balance (DRS)")
class DrsLike(MoveRule):
    """Makes the move that lowers the standard deviation of the machines' loads most, until that is small enough.

    Parameters
    ----------
    level : float, default 3
        The migration threshold, 2 (conservative) to 5 (aggressive).
    goodness : float, default 0.01
        What a move must lower the deviation by, share of the capacity, >= 0; ours.

    Examples
    --------
    >>> DrsLike(level=5)
    <DrsLike name='drs-like', knows='current load and history'>
    """

    name, knowledge = "drs-like", CURRENT_LOAD
    options: ClassVar = {"level": (2, 3, 4, 5), "goodness": (0.0, 0.005, 0.01, 0.02, 0.05)}

    def __init__(self, level: float = 3, goodness: float = 0.01) -> None:
        one_of((2, 3, 4, 5), level=level)
        at_least(0, goodness=goodness)
        self.level, self.goodness = level, goodness

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `MoveRule.moves`."""
        on = cluster.capacity[:, 0] > 0
        target = target_imbalance(self.level, int(on.sum()))
        while cluster.moves_left:
            running, load = cluster.running, cluster.load_after_moves
            now = imbalance((load / cluster.divisor)[on])
            if now <= target or not running.movable.any():
                return
            gain = now - self._after(cluster, running, load)
            gain[~running.movable] = -np.inf
            gain[np.arange(len(gain)), running.machine] = -np.inf
            room = fits(running.usage[:, None], cluster.capacity - load, cluster.capacity)
            gain[~(room & on)] = -np.inf
            i, m = divmod(int(gain.argmax()), gain.shape[1])
            if gain[i, m] <= self.goodness:
                return
            yield Move(int(running.workload[i]), m)

    def _after(self, cluster: Cluster, running: Running, load: Float) -> Float:
        """(n, M) the imbalance once a workload has moved to a machine."""
        size, on = cluster.divisor, cluster.capacity[:, 0] > 0
        share, hosts = load / size, on.sum()
        old = share[running.machine]
        leaves = running.usage / size[running.machine]
        comes = running.usage[:, None] / size
        total = share[on].sum(axis=0) - leaves[:, None] + comes
        square = np.square(share[on]).sum(axis=0) + (np.square(old - leaves) - np.square(old))[:, None]
        square = square + np.square(share + comes) - np.square(share)
        variance = square / hosts - np.square(total / hosts)
        after: Float = np.sqrt(np.maximum(variance, 0.0)).mean(axis=2)
        return after
