"""The compiled clock of the simulation: batch instances end, others arrive and are placed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tvwrl.interference.kernels import place_instances, takes

DEFAULT = -1  # kind of scheduler: draws machines, some more often than others; the others are those of `kernels`
TRIES = 8  # machines that it draws before an instance finds no room


class Tasks(NamedTuple):
    """Columns of `Arrivals` that the clock needs, and the first instance of each task."""

    second: Any  # (N,) int64
    cpu: Any  # (N,) float64
    memory: Any  # (N,) float64
    makespan: Any  # (N,) int64
    seen: Any  # (N,) int64
    first: Any  # (N + 1,) int64 instances of task i are first[i] .. first[i + 1] - 1


class Calendar(NamedTuple):
    """Who ends when: a linked list of instances per second, seconds taken modulo the longest makespan + 1."""

    head: Any  # (longest makespan + 1,) int64 instance that ends first, -1: none
    following: Any  # (instances,) int64 next that ends in the same second, -1: none
    task: Any  # (instances,) int64


@njit(cache=True)
def _draw_machines(machines, lots, seen, cpu, memory, rng, placed):  # type: ignore[no-untyped-def]
    """As `place_instances`, drawing from `lots` (M,), rising to 1: machine m has the share up from lots[m - 1]."""
    found = 0
    for i in range(len(placed)):
        placed[i] = -1
        for _ in range(TRIES):
            m = min(np.searchsorted(lots, rng.random(), side="right"), len(lots) - 1)
            if takes(m, cpu, memory, machines.cpu, machines.cores, machines.used_memory, machines.memory):
                machines.cpu[m] += cpu
                machines.batch_cpu[m] += cpu
                machines.used_memory[m] += memory
                if 0 <= seen < machines.composition.shape[1]:
                    machines.composition[m, seen] += 1
                placed[i] = m
                found += 1
                break
    return found


@njit(cache=True)
def play(machines, trees, weight, history, tasks, calendar, lots, kind, candidates, since, rng, span, placed):  # type: ignore[no-untyped-def]
    """Seconds and tasks `span` (begin, stop, first task, last task + 1): machines of their instances into `placed`.

    What ends in a second has left before what arrives in it comes. `lots`: of `DEFAULT` alone; `kind`,
    `candidates`, `since`, `rng`: as of `place_instances`. Returns instances without room.
    """
    begin, stop, task, last = span
    cpu, batch, memory, composition = machines.cpu, machines.batch_cpu, machines.used_memory, machines.composition
    head, following, owner = calendar.head, calendar.following, calendar.task
    ring, lost = len(head), 0
    for second in range(begin, stop):
        i = head[second % ring]
        head[second % ring] = -1
        while i >= 0:
            m, j = placed[i], owner[i]
            cpu[m] -= tasks.cpu[j]
            batch[m] -= tasks.cpu[j]
            memory[m] -= tasks.memory[j]
            # an unknown category was not booked; of what ends on a machine that does not report, nobody hears
            if 0 <= tasks.seen[j] < composition.shape[1] and machines.heard[m] >= begin:
                composition[m, tasks.seen[j]] -= 1
            i = following[i]
        while task < last and tasks.second[task] <= second:
            a, b = tasks.first[task], tasks.first[task + 1]
            lost += b - a
            if kind == DEFAULT:
                lost -= _draw_machines(
                    machines, lots, tasks.seen[task], tasks.cpu[task], tasks.memory[task], rng, placed[a:b]
                )
            else:
                lost -= place_instances(
                    machines, trees, weight, history, kind, tasks.seen[task], tasks.cpu[task], tasks.memory[task],
                    candidates, since, rng, placed[a:b],
                )  # fmt: skip
            end = (second + tasks.makespan[task]) % ring
            for i in range(a, b):
                if placed[i] >= 0:
                    following[i] = head[end]
                    head[end] = i
            task += 1
    return lost


@njit(cache=True)
def running_now(tasks, owner, span, placed, now, out):  # type: ignore[no-untyped-def]
    """Counts by category in `out` (M, 60) what runs when second `now` begins, of instances `span` (first, last + 1)."""
    for i in range(span[0], span[1]):
        j = owner[i]
        if placed[i] >= 0 and tasks.second[j] + tasks.makespan[j] >= now and 0 <= tasks.seen[j] < out.shape[1]:
            out[placed[i], tasks.seen[j]] += 1
    return out


@njit(cache=True)
def add_running(begin, end, machine, value, out):  # type: ignore[no-untyped-def]
    """Adds `value` (n,) of what runs in rows `begin` .. `end` - 1 (n,) on `machine` (n,) to `out` (T, M)."""
    for i in range(len(machine)):
        for t in range(begin[i], end[i]):
            out[t, machine[i]] += value[i]


@njit(cache=True)
def count_running(begin, end, machine, category, out):  # type: ignore[no-untyped-def]
    """Counts what runs in rows `begin` .. `end` - 1 (n,) on `machine` (n,) by `category` (n,) in `out` (T, M, 60)."""
    for i in range(len(machine)):
        for t in range(begin[i], end[i]):
            if 0 <= category[i] < out.shape[2]:
                out[t, machine[i], category[i]] += 1


def calendar_of(instances: np.ndarray[Any, Any], longest: int) -> Calendar:
    """An empty one for tasks with `instances` (N,) each, that run up to `longest` seconds."""
    total = int(instances.sum())
    return Calendar(
        np.full(longest + 1, -1, np.int64),
        np.full(total, -1, np.int64),
        np.repeat(np.arange(len(instances)), instances),
    )
