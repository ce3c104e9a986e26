"""A rule like LARS, the lifetime-aware rescheduling of LAVA.

Source: Ling et al., MLSys 2025, arXiv 2412.09840 (read: the abstract and summaries of Google's description of October
2025). Nearly all of this rule is our reconstruction, hence `-like`.

What it says: hosts are emptied, for defragmentation and for maintenance; lifetimes are predicted anew as machines run
on; rescheduling by lifetime saves migrations. As the paper is known, the longest predicted rest of a life migrates
first, because the others may exit on their own while they wait; no text that we read says in which order.

What differs:

- Which hosts are emptied, and when, was not read; here the machine that is used least, if its mean share is at most
  `share` and the other machines in use have room for each of its workloads.
- What is left of a life comes from forecasts: the sum over the next 63 slots of the probability that it runs on.
- How many migrate at a time was not read; here the moves of a slot.
- Where they go is up to the allocator; here to the placing rule, among the other machines in use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from tvwrl.checks import within
from tvwrl.forecasting import SEGMENTS, Forecast
from tvwrl.schedulers.knowledge import FORECASTS
from tvwrl.schedulers.moving.base import MoveRule, move_rule
from tvwrl.simulation import Cluster, Running
from tvwrl.types import Float, Move

SLOTS = np.array([last - first + 1.0 for first, last in SEGMENTS])


@move_rule("Lifetime-aware rescheduling (LARS)")
class LarsLike(MoveRule):
    """Empties the machine that is used least; of its workloads, those with the longest life ahead leave first.

    Parameters
    ----------
    share : float, default 0.3
        Mean measured share of the capacity up to which a machine is emptied, 0 to 1; ours.

    Examples
    --------
    >>> LarsLike(share=0.2)
    <LarsLike name='lars-like', knows='demand forecasts'>
    """

    name, knowledge, needs_forecasts = "lars-like", FORECASTS, True
    options: ClassVar = {"share": (0.1, 0.15, 0.2, 0.3, 0.4, 0.5)}

    def __init__(self, share: float = 0.3) -> None:
        within(0, 1, share=share)
        self.share = share

    def ahead(self, cluster: Cluster, running: Running) -> Float:
        """(n,) slots that each workload is expected to run on, up to the horizon of forecasts."""
        alive: Float = Forecast(cluster.forecasts_of(running), cluster.capacity.shape[1]).alive
        expected: Float = alive @ SLOTS
        return expected

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `MoveRule.moves`."""
        running = cluster.running
        if not running.movable.any():
            return
        used = np.bincount(running.machine, minlength=len(cluster.machines)) > 0
        share = (cluster.load_after_moves / cluster.divisor).mean(axis=1)
        m = int(np.where(used, share, np.inf).argmin())
        here = np.flatnonzero(running.machine == m)
        if share[m] > self.share or not running.movable[here].any():
            return
        barred = np.flatnonzero(~used).tolist()
        here = here[running.movable[here]]
        if any(self.target(cluster, running, i, barred) is None for i in here.tolist()):
            return
        for i in here[np.argsort(-self.ahead(cluster, running)[here], kind="stable")].tolist():
            if not cluster.moves_left:
                return
            target = self.target(cluster, running, i, barred)
            if target is not None:
                yield Move(int(running.workload[i]), target)
