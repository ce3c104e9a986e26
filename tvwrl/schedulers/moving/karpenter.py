"""Karpenter's consolidation: machines are emptied whose workloads fit on the other machines in use.

Source: kubernetes-sigs/karpenter at 2266468, `pkg/controllers/disruption` (Apache-2.0): the policies
`WhenEmptyOrUnderutilized` and `Balanced`. The policy `WhenEmpty` moves nothing: it ends nodes that are empty, and an
empty machine counts as switched off here.

What differs:

- No trace has prices; a machine costs what it has, as a share of the largest machine. Commands that start a cheaper
  node in place of others are left out.
- Priorities and costs of deletion: no trace has them, so every workload costs 1 to evict.
- Workloads that must not be disrupted are those that may not move in this slot, for any reason.
- Pods that wait are not part of the simulation.
- Whether pods fit is asked of requests; here of measured usage too. Usage may exceed requests, and a machine that was
  filled beyond its requests may need `overcommit`.
- A node that is emptied is cordoned, and its pods are gone in minutes. Here its workloads leave as fast as the moves of
  a slot allow; if the placing rule puts a newcomer there, or finds no room for one that should leave, the command ends.
- A node that was emptied is gone before the next round; here it counts as being emptied until the next slot.
- Pods go to nodes that run: the placing rule chooses among machines in use that are not being emptied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from tvwrl.checks import at_least, positive, within
from tvwrl.packing import fits
from tvwrl.schedulers.knowledge import REQUESTS
from tvwrl.schedulers.moving.base import MoveRule, move_rule
from tvwrl.simulation import Cluster, Mask, Running
from tvwrl.types import Float, Int, Move

BASE_COST = 1.0  # of disrupting a node, beside its pods
BALANCED = 2.0  # `BalancedK`


class Round(NamedTuple):
    """What is known when a command is looked for."""

    running: Running
    item: Float  # (n, 2 D) request and usage of each workload
    room: Float  # (M, 2 D) what is left for them
    size: Float  # (M, 2 D) of which capacity
    used: Mask  # (M,) machines on which workloads run
    resting: Mask  # (M,) machines that are under `consolidateAfter`
    price: Float  # (M,)
    cost: Float  # (M,) of disrupting a machine


@move_rule("Consolidation (Karpenter)")
class Karpenter(MoveRule):
    """Empties the machines with the best ratio of price to disruption, if others have room for what runs there.

    The policy `WhenEmptyOrUnderutilized`. A machine's disruption is 1 + its workloads. Machines are candidates if all
    their workloads may move, in order of that ratio. The command is to empty the first n of them, with the largest n of
    at least 2 that a binary search finds; else the first that alone can be emptied. A simulation says whether the
    workloads fit: the largest request of CPU first, then of memory, each on the first machine with room.

    Parameters
    ----------
    after : float, default 0
        Hours since a workload last came to a machine or left it until it may be emptied or take workloads
        (`consolidateAfter`), >= 0.
    budget : float, default 0.1
        Share of the machines in use that are emptied at a time, rounded up (`budgets`), 0 to 1; 0: none.
    overcommit : float, default 1.0
        Factor on the capacity that requests must fit, above 0; ours.

    Examples
    --------
    >>> Karpenter(after=1)
    <Karpenter name='karpenter', knows='declared requests'>
    """

    name, knowledge = "karpenter", REQUESTS.and_also("load of machines now")
    options: ClassVar = {"after": (0.0, 1.0, 2.0, 4.0), "budget": (0.1, 0.2, 0.5), "overcommit": (1.0, 1.25, 1.5, 2.0)}

    def __init__(self, after: float = 0.0, budget: float = 0.1, overcommit: float = 1.0) -> None:
        at_least(0, after=after)
        within(0, 1, budget=budget)
        positive(overcommit=overcommit)
        self.after, self.budget, self.overcommit = after, budget, overcommit

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget which machines are being emptied and when workloads came and left."""
        self._emptied: dict[int, set[int]] = {}  # machine -> workloads that should leave it
        self._ended: set[int] = set()  # machines that could not be emptied in this slot
        self._where: set[tuple[int, int]] = set()  # workloads and their machines
        self._event = np.full(len(cluster.machines), -math.inf)  # last slot in which a workload came or left
        self._rests = self.after * 3600 / cluster.scenario.step_seconds

    def approves(self, seen: Round, machines: Sequence[int]) -> bool:
        """Whether emptying these machines is worth it; subclasses may say no."""
        return True

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `MoveRule.moves`."""
        running = cluster.running
        where = set(zip(running.workload.tolist(), running.machine.tolist(), strict=True))
        self._event[[machine for _, machine in where ^ self._where]] = cluster.slot
        self._where, self._ended = where, set()
        for m, leaving in list(self._emptied.items()):
            there = set(running.workload[running.machine == m].tolist())
            if not there or there - leaving:
                del self._emptied[m]
        for m in list(self._emptied):
            yield from self._empty(cluster, m)
        while cluster.moves_left and (command := self._command(cluster)):
            running = cluster.running
            for m in command:
                self._emptied[m] = set(running.workload[running.machine == m].tolist())
            for m in command:
                yield from self._empty(cluster, m)

    def _empty(self, cluster: Cluster, m: int) -> Iterator[Move]:
        """Move away what should leave a machine, as far as the moves of the slot allow."""
        running = cluster.running
        used = np.bincount(running.machine, minlength=len(cluster.machines)) > 0
        used[list(self._emptied)] = False
        barred = np.flatnonzero(~used).tolist()
        for i in np.flatnonzero((running.machine == m) & running.movable).tolist():
            if not cluster.moves_left:
                return
            target = self.target(cluster, running, i, barred)
            if target is None:
                del self._emptied[m]
                self._ended.add(m)
                return
            yield Move(int(running.workload[i]), target)
            self._where -= {(int(running.workload[i]), m)}
            self._where |= {(int(running.workload[i]), target)}
            self._event[[m, target]] = cluster.slot

    def _command(self, cluster: Cluster) -> list[int]:
        """The machines to be emptied next; none if no command is found."""
        running, size = cluster.running, cluster.capacity
        count = np.bincount(running.machine, minlength=len(size))
        allowed = math.ceil(round(self.budget * np.count_nonzero(count), 9)) - len(self._emptied)
        if allowed <= 0:
            return []
        seen = Round(
            running=running,
            item=np.hstack([cluster.requests_of(running), running.usage]),
            room=np.hstack([self.overcommit * size - cluster.reserved_requests, size - cluster.load_after_moves]),
            size=np.hstack([self.overcommit * size, size]),
            used=count > 0,
            resting=cluster.slot - self._event < self._rests,
            price=(size / size.max(axis=0)).mean(axis=1),
            cost=BASE_COST + count.astype(np.float64),
        )
        stays = np.bincount(running.machine[~running.movable], minlength=len(size)) > 0
        may = seen.used & ~stays & ~seen.resting
        may[[*self._emptied, *self._ended]] = False
        candidates: list[int] = [m for m in np.argsort(-seen.price / seen.cost, kind="stable").tolist() if may[m]]
        return self._several(seen, candidates[:allowed]) or self._single(seen, candidates)

    def _several(self, seen: Round, candidates: list[int]) -> list[int]:
        """The first n candidates, with the largest n >= 2 that a binary search finds."""
        found, least, most = 0, 2, len(candidates)
        while least <= most:
            middle = (least + most) // 2
            if self._fit(seen, candidates[:middle]) and self.approves(seen, candidates[:middle]):
                found, least = middle, middle + 1
            else:
                most = middle - 1
        return candidates[:found]

    def _single(self, seen: Round, candidates: list[int]) -> list[int]:
        """The first candidate that can be emptied alone."""
        return next(([m] for m in candidates if self.approves(seen, [m]) and self._fit(seen, [m])), [])

    def _fit(self, seen: Round, machines: Sequence[int]) -> bool:
        """Whether what runs on these machines, and on those being emptied, fits on the others in use."""
        open_ = seen.used.copy()
        open_[[*machines, *self._emptied]] = False
        room = seen.room.copy()
        leaves: Int = np.flatnonzero(np.isin(seen.running.machine, [*machines, *self._emptied]))
        resources = seen.item.shape[1] // 2
        order = np.lexsort((-seen.item[leaves, resources - 1], -seen.item[leaves, 0]))
        for i in leaves[order].tolist():
            takes = open_ & fits(seen.item[i], room, seen.size)
            if seen.running.machine[i] in machines:
                takes &= ~seen.resting
            if not takes.any():
                return False
            room[takes.argmax()] -= seen.item[i]
        return True


@move_rule("Balanced consolidation (Karpenter)")
class KarpenterBalanced(Karpenter):
    """Empties machines as `karpenter`, if the share of the price that this saves is worth the share of the disruption.

    The policy `Balanced`: the first share, divided by the second, must be at least 1 / `k`. Both are of all machines in
    use.

    Parameters
    ----------
    k : float, default 2
        How much disruption a saving is worth (`BalancedK`), above 0.
    **options : float
        As of `karpenter`.

    Examples
    --------
    >>> KarpenterBalanced(k=3)
    <KarpenterBalanced name='karpenter-balanced', knows='declared requests'>
    """

    name = "karpenter-balanced"
    options: ClassVar = {"k": (1.0, 1.5, 2.0, 3.0), **Karpenter.options}

    def __init__(self, k: float = BALANCED, **options: float) -> None:
        super().__init__(**options)
        positive(k=k)
        self.k = k

    def approves(self, seen: Round, machines: Sequence[int]) -> bool:
        """Whether emptying these machines saves enough."""
        chosen, used = list(machines), seen.used
        score = worth(seen.price[chosen].sum(), seen.cost[chosen].sum(), seen.price[used].sum(), seen.cost[used].sum())
        return score >= 1.0 / self.k


def worth(savings: float, disruption: float, price: float, cost: float) -> float:
    """The share of the price that is saved, by the share of the cost of disruption."""
    if savings <= 0 or price <= 0 or cost <= 0:
        return 0.0
    return (savings / price) / (disruption / cost) if disruption > 0 else math.inf
