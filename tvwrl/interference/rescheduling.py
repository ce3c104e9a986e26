"""Which running batch instances leave machines of high interference for machines of low interference (6.1.2)."""

from __future__ import annotations

import numpy as np
from numba import njit

from tvwrl.interference.kernels import score_one, takes

SHARE = 0.2  # of the machines are high, as many low, by predicted score


@njit(cache=True)
def move_instances(  # type: ignore[no-untyped-def]
    machines, trees, weight, tasks, owner, now, span, most, placed, moves
):
    """Moves up to `most` instances from each of the machines with the highest scores to those with the lowest.

    From the worst on: the instance whose category lowers the score most by going, of those the one that has longest to
    run, goes to that machine of the lowest that has room and the least score with it; and only if the two scores
    together fall. Paper: does not say how many or which. Instances `span` (first, last + 1) may run at second `now`;
    `owner` (instances,): their tasks. Fills in `machines`, `placed` (instances,) and rows (instance, from, to) of
    `moves` (n, 3); returns how many moved. Machines that did not report at second `now`, or
    with nothing known of their services, stay out of it.
    """
    score = np.empty(len(machines.cores))
    for m in range(len(score)):
        score[m] = score_one(machines, trees, weight, m) if machines.heard[m] >= now else np.nan
    known = np.flatnonzero(~np.isnan(score))
    order = known[np.argsort(score[known])]
    some = int(SHARE * len(order))
    head, following = _running(machines.composition.shape, tasks, owner, now, span, placed)
    done = 0
    for place in range(len(order) - 1, len(order) - 1 - some, -1):
        source = order[place]
        for _ in range(min(most, len(moves) - done)):
            lowest, kind = _relief(machines, trees, weight, source, score[source], head[source])
            if kind < 0:
                break
            i = head[source, kind]
            cpu, memory = tasks.cpu[owner[i]], tasks.memory[owner[i]]
            target, after = _target(machines, trees, weight, order[:some], kind, cpu, memory)
            if target < 0 or lowest + after >= score[source] + score[target]:
                break
            _book(machines, source, kind, -1, cpu, memory)
            _book(machines, target, kind, 1, cpu, memory)
            score[source], score[target] = lowest, after
            head[source, kind] = following[i - span[0]]
            placed[i] = target
            moves[done, 0], moves[done, 1], moves[done, 2] = i, source, target
            done += 1
    return done


@njit(cache=True)
def _book(machines, m, kind, sign, cpu, memory):  # type: ignore[no-untyped-def]
    machines.cpu[m] += sign * cpu
    machines.batch_cpu[m] += sign * cpu
    machines.used_memory[m] += sign * memory
    machines.composition[m, kind] += sign


@njit(cache=True)
def _relief(machines, trees, weight, source, score, head):  # type: ignore[no-untyped-def]
    """The lowest score that a machine has without one of its instances, and that one's category; -1: none lowers it."""
    lowest, kind = score, -1
    for c in range(len(head)):
        if head[c] >= 0:
            machines.composition[source, c] -= 1
            one = score_one(machines, trees, weight, source)
            machines.composition[source, c] += 1
            if one < lowest:
                lowest, kind = one, c
    return lowest, kind


@njit(cache=True)
def _target(machines, trees, weight, among, kind, cpu, memory):  # type: ignore[no-untyped-def]
    """The machine with room that has the least score with the instance, and that score; -1: none has room."""
    target, after = -1, np.inf
    for m in among:
        if takes(m, cpu, memory, machines.cpu, machines.cores, machines.used_memory, machines.memory):
            machines.composition[m, kind] += 1
            one = score_one(machines, trees, weight, m)
            machines.composition[m, kind] -= 1
            if one < after:
                target, after = m, one
    return target, after


@njit(cache=True)
def _running(shape, tasks, owner, now, span, placed):  # type: ignore[no-untyped-def]
    """Linked lists of running instances by machine and category, longest to run first: heads, and followers of
    instances from `span` on."""
    begin, stop = span
    head = np.full(shape, -1, np.int64)
    following = np.full(stop - begin, -1, np.int64)
    left = np.empty(stop - begin, np.int64)
    for j in range(stop - begin):
        left[j] = tasks.second[owner[begin + j]] + tasks.makespan[owner[begin + j]] - now
    for j in np.argsort(left):
        i = begin + j
        m, c = placed[i], tasks.seen[owner[i]]
        if left[j] > 0 and m >= 0 and 0 <= c < shape[1]:
            following[j] = head[m, c]
            head[m, c] = i
    return head, following
