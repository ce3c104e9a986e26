"""Simulates a cluster: batch instances arrive, are placed beside services, move, and end.

The simulation records where each instance ran and nothing else; every figure is computed from that record
(`take_snapshots`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from tvwrl.interference.observations import CATEGORIES, MonitoredMachines
from tvwrl.interference.score import STALE_AFTER
from tvwrl.interference.score_kernels import UTILISATION_ALONE, Trees
from tvwrl.interference.testbed.arrivals import Arrivals
from tvwrl.interference.testbed.deployment import Deployment
from tvwrl.interference.testbed.instance_kernels import (
    Tasks,
    add_running,
    count_running,
    count_running_now,
    empty_calendar,
    move_instances,
    play,
)
from tvwrl.interference.testbed.laws import Pressures
from tvwrl.schedulers import REPORT_WEIGHT, no_history, remember
from tvwrl.types import Float, InputError, Int, Int32

SILENCE = 30.0  # mean minutes that a machine stays silent


class Reports:
    """Keeps `composition` and `last_report` of the machines as a scheduler knows them from their reports.

    A silent machine keeps running. The scheduler still sees its last reported composition: within a minute it adds what
    it places there itself, but does not learn what ends there. CPU and memory in use are always known, because a
    machine itself refuses instances that do not fit. `silent`: mean share of silent machines, which fall silent and
    recover at random; 0 draws no random numbers. Raises InputError for a share outside [0, 1).
    """

    def __init__(self, machines: MonitoredMachines, silent: float, rng: np.random.Generator) -> None:
        if not 0 <= silent < 1:
            raise InputError(f"silent is {silent:g}: must be a share of machines, at least 0 and below 1")
        self._silent, self._rng = silent, rng
        count = len(machines.cores)
        self._is_silent = rng.random(count) < silent if silent else np.zeros(count, bool)
        self._reported = machines.composition.copy()

    def deliver(self, machines: MonitoredMachines, now: float, count_running: Callable[[], Int32]) -> None:
        """Update the machines with the reports of second `now`; `count_running` gives the true composition (M, 60)."""
        if not self._silent:
            machines.last_report[:] = now
            return
        probability = np.where(self._is_silent, 1.0, self._silent / (1.0 - self._silent)) / SILENCE
        self._is_silent ^= self._rng.random(len(self._is_silent)) < probability
        reporting = ~self._is_silent
        machines.last_report[reporting] = now
        self._reported[reporting] = count_running()[reporting]
        machines.composition[:] = self._reported


class PlacementRule(NamedTuple):
    """How instances are placed: by a scheduler, or by PISM among the machines that the scheduler prefers."""

    kind: int  # of scheduler: a code of `placement_kernels`, or `instance_kernels.DEFAULT`
    candidates: int = 1  # that PISM chooses from; 1: the scheduler decides alone
    trees: Trees = UTILISATION_ALONE  # of services; without any the score is CPU utilisation
    weight: Float | None = None  # (R,) of service instances in a machine's score, default 1
    moves: int = 0  # running instances that may leave a machine of high interference per minute
    stale_after: float = STALE_AFTER  # seconds after which a machine's last report no longer counts


@dataclass(frozen=True, eq=False)
class Record:
    """Where every instance ran; its task, start and end follow from the arrivals."""

    deployment: Deployment
    arrivals: Arrivals
    machine: Int  # (instances,) first machine, in order of arrival; -1 = no machine had room
    moves: Int  # (n, 3) second, instance and destination of each move, in order of time

    @property
    def task(self) -> Int:
        """(instances,) row of `arrivals`."""
        return np.repeat(np.arange(len(self.arrivals)), self.arrivals.instances)

    def stays(self) -> tuple[Int, Int, Int, Int]:
        """Task, machine, begin and end (stays,) of every stay of an instance on one machine; it leaves before `end`."""
        placed = np.flatnonzero(self.machine >= 0)
        instance = np.concatenate([placed, self.moves[:, 1]])
        start = np.concatenate([self.arrivals.second[self.task[placed]], self.moves[:, 0]])
        machine = np.concatenate([self.machine[placed], self.moves[:, 2]])
        task = self.task[instance]
        end = (self.arrivals.second + self.arrivals.makespan)[task]
        order = np.lexsort((np.arange(len(instance)), instance))  # of one instance: by time
        instance, start, machine, task, end = (part[order] for part in (instance, start, machine, task, end))
        left = np.flatnonzero(instance[1:] == instance[:-1])
        end[left] = start[left + 1]
        return task, machine, start, end


def simulate(
    deployment: Deployment,
    arrivals: Arrivals,
    rule: PlacementRule,
    rng: np.random.Generator,
    watch: Callable[[int, MonitoredMachines], None] | None = None,
    silent: float = 0.0,
) -> Record:
    """Place `arrivals` on the deployment's machines by `rule`, minute by minute.

    Machines report every minute, except a changing share `silent` of them. `watch` is called with the second and the
    machines at the end of each minute. Raises InputError for a share outside [0, 1).
    """
    machines, history = deployment.machines(), no_history(deployment.count)
    reports = Reports(machines, silent, rng)
    weight = np.ones(len(deployment.service)) if rule.weight is None else rule.weight
    first = np.concatenate([[0], np.cumsum(arrivals.instances)])
    tasks = Tasks(arrivals.second, arrivals.cpu, arrivals.memory, arrivals.makespan, arrivals.assumed, first)
    calendar = empty_calendar(arrivals.instances, int(arrivals.makespan.max(initial=1)))
    placed = np.full(first[-1], -1, np.int64)
    minutes = int(arrivals.second.max(initial=-1)) // 60 + 1
    edges = np.searchsorted(arrivals.second, 60 * np.arange(minutes + 1))
    added_cpu = np.diff(deployment.service_cpu(np.arange(0.0, 60.0 * minutes, 60.0)), axis=0, prepend=0.0)
    began, moved = placed.copy(), [np.zeros((0, 3), np.int64)]
    for minute in range(minutes):
        now, (task, last) = 60 * minute, edges[minute : minute + 2]
        may_run = first[np.searchsorted(arrivals.second, now - len(calendar.head))], first[task]
        machines.cpu[:] += added_cpu[minute]
        none = np.zeros_like(machines.composition)
        reports.deliver(machines, now, partial(count_running_now, tasks, calendar.task, may_run, placed, now, none))
        remember(machines.shares(), history, REPORT_WEIGHT)
        if rule.moves:
            moves = np.empty((rule.moves * deployment.count, 3), np.int64)
            done = move_instances(
                machines, rule.trees, weight, tasks, calendar.task, now, may_run, rule.moves, placed, moves
            )
            moved.append(moves[:done])
        play(
            machines, rule.trees, weight, history, tasks, calendar, deployment.cumulative_share,
            rule.kind, rule.candidates, now - rule.stale_after, rng, (now, now + 60, task, last), placed,
        )  # fmt: skip
        began[first[task] : first[last]] = placed[first[task] : first[last]]
        if watch is not None:
            watch(now + 60, machines)
    return Record(deployment, arrivals, began, np.concatenate(moved))


class Snapshots(NamedTuple):
    """The cluster at T times."""

    seconds: Float  # (T,)
    composition: Int32  # (T, M, 60) instances by the category that the scheduler assumed
    batch_cpu: Float  # (T, M) cores
    pressures: Pressures


def take_snapshots(record: Record, seconds: Float) -> Snapshots:
    """The cluster at each of `seconds` (T,), rising; an instance runs from its start until just before its end."""
    deployment, arrivals = record.deployment, record.arrivals
    task, machine, start, end = record.stays()
    rows = (np.searchsorted(seconds, start), np.searchsorted(seconds, end), machine)
    shape = (len(seconds), deployment.count)

    def total(value: Float) -> Float:
        found = np.zeros(shape)
        add_running(*rows, value[task], found)
        return found

    composition = np.zeros((*shape, CATEGORIES), np.int32)
    count_running(*rows, arrivals.assumed[task], composition)
    batch, services = total(arrivals.cpu), deployment.service_cpu(seconds)
    return Snapshots(
        seconds=seconds,
        composition=composition,
        batch_cpu=batch,
        pressures=Pressures(
            bandwidth=total(arrivals.cpu * arrivals.intensity),
            cache=total(arrivals.intensity),
            queue=batch / (deployment.cores - services),
            cpu=(batch + services) / deployment.cores,
        ),
    )
