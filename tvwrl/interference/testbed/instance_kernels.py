"""Batch instances of the simulated cluster, second by second, compiled: some end, others arrive and are placed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.interference.observations import MonitoredMachines
from tvwrl.interference.placement_kernels import place_instances, takes_instance, update_usage
from tvwrl.interference.score_kernels import Trees, score_one
from tvwrl.types import Float, Int, Int32

DEFAULT = -1  # kind of the default scheduler, which draws machines unevenly; other kinds: `placement_kernels`
TRIES = 8  # machines that the default scheduler draws before it rejects an instance


class Tasks(NamedTuple):
    """Columns of `Arrivals` that the clock needs, and the first instance of each task."""

    second: Int  # (N,)
    cpu: Float  # (N,)
    memory: Float  # (N,)
    makespan: Int  # (N,)
    category: Int  # (N,) that the scheduler assumes
    first: Int  # (N + 1,) instances of task i are first[i] .. first[i + 1] - 1


class Calendar(NamedTuple):
    """Which instances end when: a linked list per second, seconds modulo the longest makespan + 1."""

    head: Int  # (longest makespan + 1,) first instance of the list, -1: none
    following: Int  # (instances,) next instance that ends in the same second, -1: none
    task: Int  # (instances,)


def empty_calendar(instances: Int, longest: int) -> Calendar:
    """A calendar for tasks of `instances` (N,) that run up to `longest` seconds."""
    total = int(instances.sum())
    return Calendar(
        np.full(longest + 1, -1, np.int64),
        np.full(total, -1, np.int64),
        np.repeat(np.arange(len(instances)), instances),
    )


@inner
def _draw_machines(
    machines: MonitoredMachines,
    cumulative_share: Float,
    category: int,
    cpu: float,
    memory: float,
    rng: np.random.Generator,
    placed: Int,
) -> int:
    """As `place_instances`, but machines are drawn with the probabilities of `cumulative_share` (M,)."""
    found = 0
    for i in range(len(placed)):
        placed[i] = -1
        for _ in range(TRIES):
            m = min(int(np.searchsorted(cumulative_share, rng.random(), side="right")), len(cumulative_share) - 1)
            if takes_instance(machines, m, cpu, memory):
                update_usage(machines, m, category, 1, cpu, memory)
                placed[i] = m
                found += 1
                break
    return found


@njit
def play(
    machines: MonitoredMachines,
    trees: Trees,
    weight: Float,
    history: Float,
    tasks: Tasks,
    calendar: Calendar,
    cumulative_share: Float,
    kind: int,
    candidates: int,
    since: float,
    rng: np.random.Generator,
    span: tuple[int, int, int, int],
    placed: Int,
) -> None:
    """Advances the cluster second by second; instances that end leave before others arrive.

    `machines` to `history` and `kind` to `rng`: as of `place_instances`
    `calendar`: updated in place
    `cumulative_share` (M,): rising to 1; only DEFAULT reads it
    `span`: begin and end second, first task and last task + 1 to arrive
    `placed` (instances,): receives the machines of the tasks' instances
    """
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
def count_running_now(tasks: Tasks, owner: Int, span: tuple[int, int], placed: Int, now: int, out: Int32) -> Int32:
    """Counts in `out` (M, 60) what runs when second `now` begins, of instances `span` (first, last + 1)."""
    for i in range(span[0], span[1]):
        j = owner[i]
        if placed[i] >= 0 and tasks.second[j] + tasks.makespan[j] >= now and 0 <= tasks.category[j] < out.shape[1]:
            out[placed[i], tasks.category[j]] += 1
    return out


@njit
def add_running(begin: Int, end: Int, machine: Int, value: Float, out: Float) -> None:
    """Adds `value` (n,) of what runs in rows `begin` .. `end` - 1 (n,) on `machine` (n,) to `out` (T, M)."""
    for i in range(len(machine)):
        for t in range(begin[i], end[i]):
            out[t, machine[i]] += value[i]


@njit
def count_running(begin: Int, end: Int, machine: Int, category: Int, out: Int32) -> None:
    """Counts what runs in rows `begin` .. `end` - 1 (n,) on `machine` (n,) by `category` (n,) in `out` (T, M, 60)."""
    for i in range(len(machine)):
        for t in range(begin[i], end[i]):
            if 0 <= category[i] < out.shape[2]:
                out[t, machine[i], category[i]] += 1


SHARE = 0.2  # share of the machines that count as having high scores; as many count as low


@njit
def move_instances(
    machines: MonitoredMachines,
    trees: Trees,
    weight: Float,
    tasks: Tasks,
    owner: Int,
    now: int,
    span: tuple[int, int],
    most: int,
    placed: Int,
    moves: Int,
) -> int:
    """Moves instances from the machines with the highest scores to those with the lowest; returns how many.

    From the worst machine on, the category whose departure lowers the score most gives up the instance that has
    longest to run. It goes to the low-scored machine with room whose score with it is least, provided that the sum of
    both scores falls. Paper: says neither how many move nor which.

    `machines`, `placed` (instances,) machine of each: updated in place
    `weight` (rows of machines.service,) >= 0
    `owner` (instances,): task of each instance
    `now`: second; machines that did not report at it take no part
    `span`: first and last + 1 of the instances that may run now
    `most`: instances that may leave one machine
    `moves` (n, 3): receives rows (now, instance, destination)
    """
    score = np.empty(len(machines.cores))
    for m in range(len(score)):
        score[m] = score_one(machines, trees, weight, m) if machines.last_report[m] >= now else np.nan
    known = np.flatnonzero(~np.isnan(score))
    order = known[np.argsort(score[known])]
    some = int(SHARE * len(order))
    head, following = _running(machines.composition.shape, tasks, owner, now, span, placed)
    done = 0
    for place in range(len(order) - 1, len(order) - 1 - some, -1):
        source = order[place]
        for _ in range(min(most, len(moves) - done)):
            i, target = _move_one(machines, trees, weight, tasks, owner, source, order[:some], score, head[source])
            if i < 0:
                break
            head[source, tasks.category[owner[i]]] = following[i - span[0]]
            placed[i] = target
            moves[done, 0], moves[done, 1], moves[done, 2] = now, i, target
            done += 1
    return done


@inner
def _move_one(
    machines: MonitoredMachines,
    trees: Trees,
    weight: Float,
    tasks: Tasks,
    owner: Int,
    source: int,
    targets: Int,
    score: Float,
    head: Int,
) -> tuple[int, int]:
    """Books one instance from machine `source` to one of `targets` (n,).

    Returns the instance and its new machine, both -1 if no move lowers the sum of the two scores.
    `machines` to `owner`: as of `move_instances`
    `score` (M,) of all machines: updated in place for the two
    `head` (60,): the instance of each category on `source` that may leave; -1: none
    """
    lowest, category = _best_departure(machines, trees, weight, source, score[source], head)
    if category < 0:
        return -1, -1
    i = head[category]
    cpu, memory = tasks.cpu[owner[i]], tasks.memory[owner[i]]
    target, after = _best_target(machines, trees, weight, targets, category, cpu, memory)
    if target < 0 or lowest + after >= score[source] + score[target]:
        return -1, -1
    update_usage(machines, source, category, -1, cpu, memory)
    update_usage(machines, target, category, 1, cpu, memory)
    score[source], score[target] = lowest, after
    return i, target


@inner
def _score_with(machines: MonitoredMachines, trees: Trees, weight: Float, m: int, category: int, change: int) -> float:
    """Score of machine m with `change` instances of the category more."""
    machines.composition[m, category] += change
    score = score_one(machines, trees, weight, m)
    machines.composition[m, category] -= change
    return score


@inner
def _best_departure(
    machines: MonitoredMachines, trees: Trees, weight: Float, source: int, score: float, head: Int
) -> tuple[float, int]:
    """Lowest score of a machine without one of its instances, and that instance's category; -1: none lowers it."""
    lowest, category = score, -1
    for c in range(len(head)):
        if head[c] >= 0:
            without = _score_with(machines, trees, weight, source, c, -1)
            if without < lowest:
                lowest, category = without, c
    return lowest, category


@inner
def _best_target(
    machines: MonitoredMachines, trees: Trees, weight: Float, among: Int, category: int, cpu: float, memory: float
) -> tuple[int, float]:
    """The machine with room whose score with the instance is least, and that score; -1: none has room."""
    target, after = -1, np.inf
    for m in among:
        if takes_instance(machines, m, cpu, memory):
            score = _score_with(machines, trees, weight, m, category, 1)
            if score < after:
                target, after = m, score
    return target, after


@inner
def _running(
    shape: tuple[int, int], tasks: Tasks, owner: Int, now: int, span: tuple[int, int], placed: Int
) -> tuple[Int, Int]:
    """Linked lists of running instances by machine and category, longest to run first.

    Returns heads (M, 60) and followers of instances from `span[0]` on; -1: none.
    """
    begin, stop = span
    head = np.full(shape, -1, np.int64)
    following = np.full(stop - begin, -1, np.int64)
    left = np.empty(stop - begin, np.int64)
    for j in range(stop - begin):
        left[j] = tasks.second[owner[begin + j]] + tasks.makespan[owner[begin + j]] - now
    for j in np.argsort(left):
        i = begin + j
        m, c = placed[i], tasks.category[owner[i]]
        if left[j] > 0 and m >= 0 and 0 <= c < shape[1]:
            following[j] = head[m, c]
            head[m, c] = i
    return head, following
