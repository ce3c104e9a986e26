"""Batch instances of the simulated cluster, second by second, compiled: some end, others arrive and are placed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.interference.placement_kernels import place_instances, takes_instance, update_usage

DEFAULT = -1  # kind of the default scheduler, which draws machines unevenly; other kinds: `placement_kernels`
TRIES = 8  # machines that the default scheduler draws before it rejects an instance


class Tasks(NamedTuple):
    """Columns of `Arrivals` that the clock needs, and the first instance of each task."""

    second: Any  # (N,) int64
    cpu: Any  # (N,) float64
    memory: Any  # (N,) float64
    makespan: Any  # (N,) int64
    category: Any  # (N,) int64 that the scheduler assumes
    first: Any  # (N + 1,) int64 instances of task i are first[i] .. first[i + 1] - 1


class Calendar(NamedTuple):
    """Which instances end when: a linked list per second, seconds modulo the longest makespan + 1."""

    head: Any  # (longest makespan + 1,) int64 first instance of the list, -1: none
    following: Any  # (instances,) int64 next instance that ends in the same second, -1: none
    task: Any  # (instances,) int64


def empty_calendar(instances: np.ndarray[Any, Any], longest: int) -> Calendar:
    """A calendar for tasks of `instances` (N,) that run up to `longest` seconds."""
    total = int(instances.sum())
    return Calendar(
        np.full(longest + 1, -1, np.int64),
        np.full(total, -1, np.int64),
        np.repeat(np.arange(len(instances)), instances),
    )


@inner
def _draw_machines(machines, cumulative_share, category, cpu, memory, rng, placed):  # type: ignore[no-untyped-def]
    """As `place_instances`, but machines are drawn with the probabilities of `cumulative_share` (M,)."""
    found = 0
    for i in range(len(placed)):
        placed[i] = -1
        for _ in range(TRIES):
            m = min(np.searchsorted(cumulative_share, rng.random(), side="right"), len(cumulative_share) - 1)
            if takes_instance(machines, m, cpu, memory):
                update_usage(machines, m, category, 1, cpu, memory)
                placed[i] = m
                found += 1
                break
    return found


@njit
def play(  # type: ignore[no-untyped-def]
    machines, trees, weight, history,  # as of `place_instances`
    tasks,  # `Tasks`
    calendar,  # `Calendar`, updated in place
    cumulative_share,  # (M,) rising to 1; only DEFAULT reads it
    kind, candidates, since, rng,  # as of `place_instances`
    span,  # begin and end second, first task and last task + 1 to arrive
    placed,  # (instances,) int64, receives the machines of the tasks' instances
):  # fmt: skip
    """Advances the cluster second by second; instances that end leave before others arrive."""
    begin, stop, task, last = span
    head, following, owner = calendar.head, calendar.following, calendar.task
    ring = len(head)
    for second in range(begin, stop):
        i = head[second % ring]
        head[second % ring] = -1
        while i >= 0:
            m, j = placed[i], owner[i]
            # the scheduler does not learn what ends on a machine that does not report
            category = tasks.category[j] if machines.last_report[m] >= begin else -1
            update_usage(machines, m, category, -1, tasks.cpu[j], tasks.memory[j])
            i = following[i]
        while task < last and tasks.second[task] <= second:
            cpu, memory, category = tasks.cpu[task], tasks.memory[task], tasks.category[task]
            a, b = tasks.first[task], tasks.first[task + 1]
            if kind == DEFAULT:
                _draw_machines(machines, cumulative_share, category, cpu, memory, rng, placed[a:b])
            else:
                place_instances(
                    machines, trees, weight, history, kind, category, cpu, memory, candidates, since, rng, placed[a:b]
                )
            end = (second + tasks.makespan[task]) % ring
            for i in range(a, b):
                if placed[i] >= 0:
                    following[i] = head[end]
                    head[end] = i
            task += 1


@njit
def count_running_now(tasks, owner, span, placed, now, out):  # type: ignore[no-untyped-def]
    """Counts in `out` (M, 60) what runs when second `now` begins, of instances `span` (first, last + 1)."""
    for i in range(span[0], span[1]):
        j = owner[i]
        if placed[i] >= 0 and tasks.second[j] + tasks.makespan[j] >= now and 0 <= tasks.category[j] < out.shape[1]:
            out[placed[i], tasks.category[j]] += 1
    return out


@njit
def add_running(begin, end, machine, value, out):  # type: ignore[no-untyped-def]
    """Adds `value` (n,) of what runs in rows `begin` .. `end` - 1 (n,) on `machine` (n,) to `out` (T, M)."""
    for i in range(len(machine)):
        for t in range(begin[i], end[i]):
            out[t, machine[i]] += value[i]


@njit
def count_running(begin, end, machine, category, out):  # type: ignore[no-untyped-def]
    """Counts what runs in rows `begin` .. `end` - 1 (n,) on `machine` (n,) by `category` (n,) in `out` (T, M, 60)."""
    for i in range(len(machine)):
        for t in range(begin[i], end[i]):
            if 0 <= category[i] < out.shape[2]:
                out[t, machine[i], category[i]] += 1
