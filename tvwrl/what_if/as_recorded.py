"""Pods arrive where a record says, and a rule moves them, behind kube-scheduler's filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvwrl.packing import room_now
from tvwrl.schedulers import BySearch, Moving, Scheduler, Scored, best
from tvwrl.simulation import Cluster, Running
from tvwrl.types import Float, Move, Placement, Workload
from tvwrl.what_if.as_kubernetes import AsKubernetes, Limits
from tvwrl.what_if.recorded import HOUR


class AsRecorded(AsKubernetes):
    """A rule that moves pods which otherwise run where they were recorded (`Limits.pinned`).

    A node without pods, from which one was moved since it last got any, is closed: what was recorded there goes where
    Kubernetes puts it among the nodes in use. If none has room, the recorded node is opened again.

    `moving`: the rule that moves, and the profile by which kube-scheduler places what it evicts
    `moves_per_hour`: most moves that are decided within an hour, >= 1
    """

    def __init__(self, moving: Moving, limits: Limits, moves_per_hour: int) -> None:
        assert isinstance(moving.placing, Scored), "only a profile of kube-scheduler places here"
        super().__init__(moving.placing, limits)
        self.name, self.knowledge, self.needs_forecasts = moving.name, moving.knowledge, moving.needs_forecasts
        self._rule, self._profile, self._moves_per_hour = moving.rule, moving.placing, moves_per_hour
        self._rule.placing = _Evicted(self)

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare the rule and the profile for a new episode."""
        super().reset(cluster, rng)
        self._rule.reset(cluster, rng)
        self._left = np.zeros(len(self._pods), np.bool_)  # nodes that a pod was moved from since they were opened
        self._decided: list[int] = []  # slot of each move

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        self._release(cluster.slot)
        for workload in pending:
            machine = self._arrives_at(cluster, workload)
            self._left[machine] &= self._pods[machine] > 0
            yield self._placed(workload, machine, cluster.slot)

    def _arrives_at(self, cluster: Cluster, workload: Workload) -> int:
        """The recorded node, unless it was emptied by moves, or pods that were moved there have taken the room."""
        i, home = workload.index, int(self._limits.pinned[workload.index])
        closed = bool(self._left[home]) and not self._pods[home]
        if not closed and (self._within(i, [home])[0] or not self._has_strangers(home, cluster.slot)):
            return home
        open_to, in_use = self._within(i), self._pods > 0
        options = [open_to & in_use, np.arange(len(in_use)) == home if closed else open_to]
        found = next((one for one in options if one.any()), None)
        machine = None if found is None else best(found, self._profile.score(cluster, workload))
        return home if machine is None else machine

    def _has_strangers(self, machine: int, slot: int) -> bool:
        """Whether a pod runs there that was recorded elsewhere."""
        there = (self._machine == machine) & (self._until > slot)
        return bool((self._limits.pinned[there] != machine).any())

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `Scheduler.moves`; what exceeds the filters, or the moves of an hour, is left out."""
        self._release(cluster.slot)
        since = cluster.slot - HOUR / cluster.scenario.step_seconds
        self._decided = [slot for slot in self._decided if slot > since]
        for move in self._rule.moves(self._shown(cluster)) if self._may_move else ():
            if not self._admits(cluster, move):
                continue
            source, size = self._machine[move.workload], self._limits.request[move.workload]
            self._left[move.machine] &= self._pods[move.machine] > 0
            self._left[source] = True
            self._reserved[source] -= size
            self._reserved[move.machine] += size
            self._pods[[source, move.machine]] += -1, 1
            self._machine[move.workload] = move.machine
            self._decided.append(cluster.slot)
            yield move
            if not self._may_move:
                return

    @property
    def _may_move(self) -> bool:
        return len(self._decided) < self._moves_per_hour

    def _admits(self, cluster: Cluster, move: Move) -> bool:
        """Whether the node has room for the pod by requests, by the number of pods, and by usage."""
        running = cluster.running
        usage = running.usage[running.workload == move.workload][0]
        room = room_now(cluster.load_after_moves, usage, cluster.capacity)
        return bool(room[move.machine] and self._within(move.workload, [move.machine])[0])

    def _shown(self, cluster: Cluster) -> Cluster:
        """What the rule sees: for our search by expected cost, room is what requests leave, as it knows no others."""
        rule = self._rule
        if not isinstance(rule, BySearch) or type(rule).moves is not BySearch.moves:
            return cluster
        if not rule.search.costs.value.first.size and np.isfinite(self._limits.room).all():
            return _ByRequests(cluster, self._limits, self._reserved)
        return cluster

    def target(self, cluster: Cluster, workload: Workload) -> int | None:
        """Where Kubernetes puts a pod that is evicted: on a node in use."""
        mask = self._within(workload.index) & (self._pods > 0) & (cluster.capacity[:, 0] > 0)
        mask &= room_now(cluster.load, workload.first_demand, cluster.capacity)
        return best(mask, self._profile.score(cluster, workload)) if mask.any() else None


class _Evicted(Scheduler):
    """Places pods that are evicted, for rules that only say which ones have to leave."""

    def __init__(self, of: AsRecorded) -> None:
        self.name, self.knowledge, self._of = of.name, of.knowledge, of

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        for workload in pending:
            machine = self._of.target(cluster, workload)
            if machine is not None:
                yield Placement(workload, machine)


class _ByRequests(Cluster):
    """A cluster in which pods use what they request. Forecasts are what they were."""

    def __init__(self, cluster: Cluster, limits: Limits, reserved: Float) -> None:
        super().__init__(cluster.simulation, cluster.b)
        self._limits, self._reserved_now = limits, reserved

    @property
    def capacity(self) -> Float:
        """(M, D) units for requests."""
        return self._limits.room

    @property
    def running(self) -> Running:
        """What runs, with its requests as usage."""
        running = super().running
        return running._replace(usage=self._limits.request[running.workload])

    @property
    def load_after_moves(self) -> Float:
        """(M, D) units that are requested."""
        return self._reserved_now
