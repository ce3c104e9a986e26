"""A scheduler behind kube-scheduler's filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvwrl.packing import fits
from tvwrl.schedulers import (
    Backfill,
    BalancedAllocation,
    HeadOfQueue,
    KubeDefault,
    LeastAllocated,
    MostAllocated,
    Scheduler,
    best,
)
from tvwrl.simulation import Cluster
from tvwrl.types import Float, Int, Placement, Workload

KUBERNETES = (BalancedAllocation, KubeDefault, LeastAllocated, MostAllocated)
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Limits:
    """What kube-scheduler never exceeds; N pods in order of arrival, M nodes."""

    request: Float  # (N, D) units, 0 = not declared
    room: Float  # (M, D) units for requests, without those of pods that stay on their nodes; infinite: no limit
    pods: Int  # (M,) pods
    pinned: Int  # (N,) the node on which a pod stays, -1 = any
    longest_hold: float  # slots for which a scheduler may let a pod wait that has room


class AsKubernetes(Scheduler):
    """A scheduler behind kube-scheduler's filters: requests fit, and the number of pods.

    A pod that fits nowhere does not hold up those behind it, as in Kubernetes; only a trained policy serves its queue
    in its own order. Kubernetes' own rules look at requests alone, whatever the load is, as in a real cluster. A pod
    that is held for too long goes where Kubernetes' default profile puts it, as behind `tvwrl serve`.

    Attribute: `let_go`, how many were held for so long.
    """

    def __init__(self, served: Scheduler, limits: Limits) -> None:
        self.name, self.knowledge, self.served, self._limits = served.name, served.knowledge, served, limits
        self.looks_at_grid, self.needs_forecasts = served.looks_at_grid, served.needs_forecasts
        self._alone, self._default, self.let_go = isinstance(served, HeadOfQueue | Backfill), KubeDefault(), 0

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare the scheduler for a new episode."""
        self.served.reset(cluster, rng)
        count = len(self._limits.request)
        self._machine, self._until, self._asked = (np.full(count, -1) for _ in range(3))
        self._reserved, self._pods, self._slot = np.zeros_like(self._limits.room), np.zeros_like(self._limits.pods), -1

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        self._release(cluster.slot)
        pinned = [workload for workload in pending if self._limits.pinned[workload.index] >= 0]
        for workload in pinned:
            yield self._placed(workload, int(self._limits.pinned[workload.index]), cluster.slot)
        overdue = list(self._overdue(cluster, pending))
        for workload in overdue:
            open_to = self._open_to(workload)
            if open_to.any():  # those before it may have taken the room
                self.let_go += 1
                score = self._default.score(cluster, workload)
                machine = best(open_to, score)
                assert machine is not None
                yield self._placed(workload, machine, cluster.slot)
        if pinned or overdue:
            return  # the runner asks again, with the queue without them
        if self._alone:
            yield from self._one_by_one(cluster, pending)
            return
        for placement in self.served.schedule(cluster, pending):
            machine = self._instead(cluster, placement)
            if machine is not None:
                yield self._placed(placement.workload, machine, cluster.slot)

    def _overdue(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Workload]:
        """Pods that were held for too long while requests left room for them."""
        for workload in pending:
            i = workload.index
            if not self._open_to(workload).any():
                self._asked[i] = -1
                continue
            if self._asked[i] < 0:
                self._asked[i] = cluster.slot
            held = cluster.slot - self._asked[i]
            if held and held >= self._limits.longest_hold:
                yield workload

    def _one_by_one(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        for workload in pending:
            open_to = self._open_to(workload)
            if not open_to.any():
                continue
            seen = cluster if open_to.all() else cluster.without(np.flatnonzero(~open_to).tolist())
            machine = self._choice(seen, workload, open_to)
            if machine is not None:
                yield self._placed(workload, machine, cluster.slot)

    def _choice(self, cluster: Cluster, workload: Workload, open_to: Mask) -> int | None:
        if isinstance(self.served, KUBERNETES):
            return best(self.served.passes(cluster, workload) & open_to, self.served.score(cluster, workload))
        return next((placement.machine for placement in self.served.schedule(cluster, [workload])), None)

    def _instead(self, cluster: Cluster, placement: Placement) -> int | None:
        """The machine of a placement, or the next best that is open to the pod; None: none is, so it waits."""
        open_to = self._open_to(placement.workload)
        if open_to[placement.machine]:
            return placement.machine
        opinion = self.served.opinion(cluster, placement.workload) if open_to.any() else None
        if opinion is None or opinion.scores is None:
            return None
        return best(opinion.possible & open_to, opinion.scores[: len(open_to)])

    def _open_to(self, workload: Workload) -> Mask:
        """(M,) machines that kube-scheduler's filters leave."""
        return self._within(workload.index)

    def _within(self, i: int, machines: Sequence[int] | slice = slice(None)) -> Mask:
        """Which of some machines have room for pod i by requests and by the number of pods."""
        room = self._limits.room[machines]
        wanted = self._reserved[machines] + self._limits.request[i]
        mask: Mask = fits(wanted, room, room) & (self._pods[machines] < self._limits.pods[machines])
        return mask

    def _placed(self, workload: Workload, machine: int, slot: int) -> Placement:
        i = workload.index
        self._machine[i], self._until[i] = machine, slot + workload.length
        self._reserved[machine] += self._limits.request[i]
        self._pods[machine] += 1
        return Placement(workload, machine)

    def _release(self, slot: int) -> None:
        """Forget the pods that have ended, once a slot."""
        if slot == self._slot:
            return
        self._slot = slot
        runs = np.flatnonzero(self._until > slot)
        self._reserved[:], self._pods[:] = 0, 0
        np.add.at(self._reserved, self._machine[runs], self._limits.request[runs])
        np.add.at(self._pods, self._machine[runs], 1)
