"""A simulated cluster: services on machines, batch instances placed beside them, and what monitoring sees of both.

The clock keeps a record of where each instance went and nothing else; every figure (`Seen`) is counted from that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tvwrl.interference.arrivals import Arrivals
from tvwrl.interference.kernels import Trees
from tvwrl.interference.laws import Pressures
from tvwrl.interference.machines import Machines
from tvwrl.interference.observations import CATEGORIES
from tvwrl.interference.reports import Reports
from tvwrl.interference.rescheduling import move_instances
from tvwrl.interference.score import STALE_AFTER
from tvwrl.interference.world_kernels import Tasks, add_running, calendar_of, count_running, play, running_now
from tvwrl.schedulers.load_aware import REPORT_WEIGHT, no_history, remember
from tvwrl.types import Float, InputError, Int

UTILISATION = 0.45  # of the CPU, mean, by services and batch (Figure 13(b): 40 to 50 %)
SERVICE_SHARE = 0.12  # of the CPU, mean, by services (Figure 2: usually below 20 % of what they request)
MEMORY_ROOM = 2.0  # memory of a machine over what batch uses on average: never what is short
PER_MACHINE = 20  # service instances (Table 1)
NAMED = {"checkout": 8.0, "coupon": 11.0, "browse_product": 8.0}  # cores requested; the first two from Section 4
NAMED_SHARE = 0.35  # of machines with an instance of one of them: 3,500 instances of checkout on 10,000 machines
LEAST_SERVICES = PER_MACHINE + len(NAMED)
UNEVEN = 0.8  # of the default scheduler's shares: utilisation of machines from about 20 to 80 % (Figure 2)
EVENING = 0.3  # assumed: how far services' CPU rises above its mean at 8 pm


@dataclass(frozen=True, eq=False)
class Site:
    """M machines and the instances of S services on them, which stay where they are; row r is one instance."""

    services: tuple[str, ...]  # (S,)
    quota: Float  # (S,) cores that an instance requests, > 0
    first: Int  # (M + 1,) rows of machine m are first[m] .. first[m + 1] - 1
    service: Int  # (R,)
    use: Float  # (R,) cores in use on the mean of a day
    lots: Float  # (M,) rising to 1: the default scheduler gives machine m the share up from lots[m - 1]
    cores: float  # of each machine, > 0
    memory: float  # of each machine, > 0

    @property
    def count(self) -> int:
        """M."""
        return len(self.first) - 1

    @property
    def machine(self) -> Int:
        """(R,) machine of each row."""
        return np.repeat(np.arange(self.count), np.diff(self.first))

    def service_cpu(self, seconds: Float, begins: float) -> Float:
        """(T, M) cores that services use at `seconds` (T,) after hour `begins` of the day."""
        hour = begins + seconds / 3600
        daily = 1.0 + EVENING * np.cos(2 * np.pi * (hour - 20.0) / 24)
        return np.outer(daily, np.bincount(self.machine, self.use, self.count))

    def machines(self) -> Machines:
        """Arrays of the machines without batch work, services' CPU not yet in `cpu`."""
        zeros: Callable[[], Float] = lambda: np.zeros(self.count)  # noqa: E731
        return Machines(
            cores=np.full(self.count, self.cores),
            memory=np.full(self.count, self.memory),
            cpu=zeros(),
            batch_cpu=zeros(),
            used_memory=zeros(),
            composition=np.zeros((self.count, CATEGORIES), np.int32),
            heard=zeros(),
            first=self.first,
            service=self.service.astype(np.int32),
            quota=self.quota[self.service],
        )


def draw_site(machines: int, services: int, arrivals: Arrivals, seconds: int, rng: np.random.Generator) -> Site:
    """Services drawn onto machines, about `PER_MACHINE` each, and machines as large as `arrivals` of `seconds` need.

    Cores such that batch and services use `UTILISATION` of them on average. A service has at most one instance on a
    machine; checkout, coupon and browse_product are named and on `NAMED_SHARE` of them each, the others are about as
    popular as 1 / rank. Raises InputError for fewer than `LEAST_SERVICES` services or no machines.
    """
    if machines < 1 or services < LEAST_SERVICES:
        raise InputError(f"{machines} machines, {services} services: must be at least 1 and {LEAST_SERVICES}")
    names = (*NAMED, *(f"service{number}" for number in range(len(NAMED), services)))
    quota = np.array([NAMED.get(name, 2.0 ** rng.integers(0, 6)) for name in names])  # 1 .. 32 cores, Section 6.3.2
    rank = np.arange(1, services - len(NAMED) + 1) ** -0.5
    rows = []
    for machine in range(machines):
        own = np.flatnonzero((rng.random(len(NAMED)) < NAMED_SHARE) | (np.arange(len(NAMED)) == machine))
        others = rng.choice(len(rank), PER_MACHINE - len(own), replace=False, p=rank / rank.sum())
        rows.append(np.sort(np.concatenate([own, others + len(NAMED)])))
    service = np.concatenate(rows)
    cores = arrivals.cores() / (seconds * machines) / (UTILISATION - SERVICE_SHARE)
    busy = quota[service] * np.exp(0.5 * rng.normal(size=len(service)))
    lots = rng.uniform(1 - UNEVEN, 1 + UNEVEN, machines)
    held = float((arrivals.instances * arrivals.memory * arrivals.makespan).sum()) / (seconds * machines)
    return Site(
        services=names,
        quota=quota,
        first=np.arange(machines + 1) * PER_MACHINE,
        service=service,
        use=busy * (SERVICE_SHARE * cores * machines / busy.sum()),
        lots=np.cumsum(lots / lots.sum()),
        cores=cores,
        memory=MEMORY_ROOM * held,
    )


class Policy(NamedTuple):
    """How instances are placed: a scheduler's preference, and PISM among its best machines if there are candidates."""

    kind: int  # a code of `tvwrl.interference.kernels`
    candidates: int = 1  # 1: the scheduler alone
    trees: Trees | None = None  # levels by service; None: nothing learnt; `UTILISATION_ALONE`: CPU use is the score
    weight: Float | None = None  # (R,) of service instances in a machine's score
    moves: int = 0  # running instances that may leave a machine of high interference, a minute
    stale_after: float = STALE_AFTER  # seconds without a report, after which nothing is known of a machine


@dataclass(frozen=True, eq=False)
class Record:
    """Where every instance went. Its task, start and end follow from the arrivals."""

    site: Site
    arrivals: Arrivals
    machine: Int  # (instances,) where they began, in order of arrival; -1 = no machine had room
    moves: Int  # (n, 3) second, instance and machine that it went on to, in order of time
    begins: float  # hour of the day at second 0

    @property
    def task(self) -> Int:
        """(instances,) row of `arrivals`."""
        return np.repeat(np.arange(len(self.arrivals)), self.arrivals.instances)

    def stays(self) -> tuple[Int, Int, Int, Int]:
        """(stays,) each: task, machine, and seconds from and until before which an instance was there."""
        there = np.flatnonzero(self.machine >= 0)
        instance = np.concatenate([there, self.moves[:, 1]])
        start = np.concatenate([self.arrivals.second[self.task[there]], self.moves[:, 0]])
        machine = np.concatenate([self.machine[there], self.moves[:, 2]])
        task = self.task[instance]
        end = (self.arrivals.second + self.arrivals.makespan)[task]
        order = np.lexsort((np.arange(len(instance)), instance))  # of one instance: by time
        instance, start, machine, task, end = (part[order] for part in (instance, start, machine, task, end))
        left = np.flatnonzero(instance[1:] == instance[:-1])
        end[left] = start[left + 1]
        return task, machine, start, end

    @property
    def lost(self) -> int:
        """Instances that found no room."""
        return int((self.machine < 0).sum())


def no_trees(services: int) -> Trees:
    """Trees of services of which nothing is known."""
    one = np.zeros(1, np.int32)
    return Trees(
        np.full(services, -1, np.int32), np.zeros(services, np.int32), np.zeros(1, np.uint8), one, one, np.zeros(1)
    )


def simulate(
    site: Site,
    arrivals: Arrivals,
    policy: Policy,
    rng: np.random.Generator,
    begins: float,
    watch: Callable[[int, Machines], None] | None = None,
    silent: float = 0.0,
) -> Record:
    """Play `arrivals` on the site under `policy`; machines report every minute, but for a share `silent` of them.

    `watch`: called with second and machines at each minute's end, to look on or to stop early by raising.
    """
    machines, history = site.machines(), no_history(site.count)
    reports = Reports(machines, silent, rng)
    trees = policy.trees or no_trees(len(site.services))
    weight = np.ones(len(site.service)) if policy.weight is None else policy.weight
    first = np.concatenate([[0], np.cumsum(arrivals.instances)])
    columns = (arrivals.second, arrivals.cpu, arrivals.memory, arrivals.makespan, arrivals.seen)
    tasks, calendar = Tasks(*columns, first), calendar_of(arrivals.instances, int(arrivals.makespan.max(initial=1)))
    placed = np.full(first[-1], -1, np.int64)
    minutes = int(arrivals.second.max(initial=-1)) // 60 + 1
    edges = np.searchsorted(arrivals.second, 60 * np.arange(minutes + 1))
    use = np.diff(site.service_cpu(np.arange(0.0, 60.0 * minutes, 60.0), begins), axis=0, prepend=0.0)
    began, moved = placed.copy(), [np.zeros((0, 3), np.int64)]
    who = (policy.kind, policy.candidates)
    for minute in range(minutes):
        now, todo = 60 * minute, edges[minute : minute + 2]
        since = now - policy.stale_after
        span = (first[np.searchsorted(arrivals.second, now - len(calendar.head))], first[todo[0]])
        machines.cpu[:] += use[minute]
        really = partial(running_now, tasks, calendar.task, span, placed, now)
        reports.come(machines, now, lambda: really(np.zeros_like(machines.composition)))  # noqa: B023
        remember(machines.shares(), history, REPORT_WEIGHT)
        if policy.moves:
            moves = np.full((policy.moves * site.count, 4), now, np.int64)
            here = moves[:, 1:]  # instance, from, to
            known = (now, span, policy.moves)
            done = move_instances(machines, trees, weight, tasks, calendar.task, *known, placed, here)
            moved.append(moves[:done][:, [0, 1, 3]])
        limits = (now, now + 60, *todo)
        play(
            machines,
            trees,
            weight,
            history,
            tasks,
            calendar,
            site.lots,
            *who,
            since,
            rng,
            limits,
            placed,
        )
        began[first[todo[0]] : first[todo[1]]] = placed[first[todo[0]] : first[todo[1]]]
        if watch is not None:
            watch(now + 60, machines)
    return Record(site, arrivals, began, np.concatenate(moved), begins)


class Seen(NamedTuple):
    """The cluster at T times, counted from a record."""

    seconds: Float  # (T,)
    composition: Any  # (T, M, 60) int32 instances by the category that the scheduler took them for
    batch_cpu: Float  # (T, M) cores
    pressures: Pressures


def look(record: Record, seconds: Float) -> Seen:
    """What ran where at each of `seconds` (T,), rising; an instance runs from its start and until before its end."""
    site, arrivals = record.site, record.arrivals
    task, machine, start, end = record.stays()
    rows = (np.searchsorted(seconds, start), np.searchsorted(seconds, end), machine)
    shape = (len(seconds), site.count)

    def total(value: Float) -> Float:
        found = np.zeros(shape)
        add_running(*rows, value[task], found)
        return found

    composition = np.zeros((*shape, CATEGORIES), np.int32)
    count_running(*rows, arrivals.seen[task], composition)
    batch, services = total(arrivals.cpu), site.service_cpu(seconds, record.begins)
    return Seen(
        seconds=seconds,
        composition=composition,
        batch_cpu=batch,
        pressures=Pressures(
            bandwidth=total(arrivals.cpu * arrivals.intensity),
            cache=total(arrivals.intensity),
            queue=batch / (site.cores - services),
            cpu=(batch + services) / site.cores,
        ),
    )
