"""Compiled placement of batch instances: a scheduler's preference, then the lowest score among its candidates."""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.interference.observations import MonitoredMachines
from tvwrl.interference.score_kernels import Nodes, Trees, score_machine, score_scratch
from tvwrl.packing import exceeds
from tvwrl.schedulers import load_aware, risk_balancing, spread, stack, target_load_packing
from tvwrl.types import Float, Int, Int32

SPREAD, STACK, RANDOM, LOAD_AWARE, TARGET_LOAD_PACKING, RISK_BALANCING = range(6)  # kinds of schedulers


@njit(inline="always")
def takes_instance(machines: MonitoredMachines, m: int, cpu: float, memory: float) -> bool:
    """Whether machine m has room for one more instance of `cpu` cores and `memory`; never if its usage is NaN."""
    cores, size = machines.cpu[m] + cpu, machines.used_memory[m] + memory
    return not (exceeds(cores, machines.cores[m]) or exceeds(size, machines.memory[m]) or np.isnan(cores + size))


@njit(inline="always")
def update_usage(machines: MonitoredMachines, m: int, category: int, sign: int, cpu: float, memory: float) -> None:
    """Adds (sign 1) or removes (sign -1) one instance on machine m; categories outside 0..59 are not counted."""
    machines.cpu[m] += sign * cpu
    machines.batch_cpu[m] += sign * cpu
    machines.used_memory[m] += sign * memory
    if 0 <= category < machines.composition.shape[1]:
        machines.composition[m, category] += sign


@njit(inline="always")
def _preference(
    kind: int, machines: MonitoredMachines, m: int, more_cpu: float, more_memory: float, moments: Float
) -> float:
    """How much a scheduler of `kind` prefers machine m for one more; `moments` (2, 2) as of `load_aware.remember`."""
    cores, capacity = machines.cores[m], machines.memory[m]
    share, memory_share = (machines.cpu[m] + more_cpu) / cores, (machines.used_memory[m] + more_memory) / capacity
    preference: float = spread(share)
    if kind == RANDOM:
        preference = 0.0
    elif kind == STACK:
        preference = stack(share)
    elif kind == LOAD_AWARE:
        preference = load_aware(share, memory_share)
    elif kind == TARGET_LOAD_PACKING:
        preference = target_load_packing(share)
    elif kind == RISK_BALANCING:
        mean, deviation = moments[0, 0] + more_cpu / cores, np.sqrt(moments[0, 1])
        preference = risk_balancing(mean, deviation, moments[1, 0] + more_memory / capacity, np.sqrt(moments[1, 1]))
    return preference


@inner
def _best(preference: Float, chosen: Int) -> int:
    """Writes the most preferred machines into `chosen` (candidates,), best first, ties by number; returns how many.

    If every machine is a candidate they stay unsorted.
    """
    count, most = 0, len(chosen)
    if most == len(preference):
        for m in range(most):
            chosen[count] = m
            count += preference[m] > -np.inf
        return count
    for m in range(len(preference)):
        if preference[m] == -np.inf or (count == most and preference[m] <= preference[chosen[most - 1]]):
            continue
        place = count if count < most else most - 1
        while place > 0 and preference[chosen[place - 1]] < preference[m]:
            chosen[place] = chosen[place - 1]
            place -= 1
        chosen[place] = m
        count = min(count + 1, most)
    return count


@inner
def _drawn(preference: Float, chosen: Int, rng: np.random.Generator) -> int:
    """Draws different machines with room uniformly into `chosen` (candidates,); returns how many."""
    total, most, count = len(preference), len(chosen), 0
    for _ in range(8 * most):
        m = int(rng.random() * total)
        if preference[m] > -np.inf and not (chosen[:count] == m).any():
            chosen[count] = m
            count += 1
            if count == most:
                return count
    count = 0  # few have room: reservoir sampling over all of them
    seen = 0
    for m in range(total):
        if preference[m] > -np.inf:
            seen += 1
            place = count if count < most else int(rng.random() * seen)
            count = min(count + 1, most)
            if place < most:
                chosen[place] = m
    for i in range(count - 1, 0, -1):  # in a random order
        j = int(rng.random() * (i + 1))
        chosen[i], chosen[j] = chosen[j], chosen[i]
    return count


@inner
def _lowest_score(
    machines: MonitoredMachines,
    trees: Trees,
    weight: Float,
    kind: int,
    category: int,
    cpu: float,
    since: float,
    rng: np.random.Generator,
    preference: Float,
    chosen: Int,
    after: Float,
    scratch: tuple[Nodes, Float, Int32],
) -> int:
    """The machine of `chosen` with the lowest score after one more instance; the first if all are unknown.

    `machines` to `rng`: as of `place_instances`; a composition is changed and restored
    `preference` (M,) of the scheduler; `chosen` (n,) machines in its order
    `after` (M,): scores after the next instance, updated in place; -1: not computed yet
    `scratch`: from `score_scratch`
    """
    first, service, composition = machines.first, machines.service, machines.composition
    root, depth, feature, threshold, left, level, pressure = trees
    nodes, weights, values = scratch
    best: int = chosen[0]
    lowest, equal = np.inf, 0
    for m in chosen:
        if after[m] == -1.0:
            after[m] = np.inf
            if len(level) == 0:
                after[m] = (machines.cpu[m] + cpu) / machines.cores[m]
            elif machines.last_report[m] >= since:
                composition[m, category] += 1
                score = score_machine(
                    m, first, service, weight, composition,
                    root, depth, feature, threshold, left, level, pressure, nodes, weights, values,
                )  # fmt: skip
                composition[m, category] -= 1
                after[m] = np.inf if np.isnan(score) else score
        if after[m] < lowest:
            best, lowest, equal = m, after[m], 1
        elif after[m] == lowest:
            equal += 1
            if preference[m] > preference[best] or (kind == RANDOM and rng.random() * equal < 1.0):
                best = m
    return best


@njit
def place_instances(
    machines: MonitoredMachines,
    trees: Trees,
    weight: Float,
    history: Float,
    kind: int,
    category: int,
    cpu: float,
    memory: float,
    candidates: int,
    since: float,
    rng: np.random.Generator,
    placed: Int,
) -> int:
    """Places the instances of one task one after the other; returns how many found room.

    `machines`: updated in place
    `trees`: without nodes the score is the share of CPU in use
    `weight` (rows of machines.service,) >= 0
    `history` (M, 2, 2) as of `remember`; only RISK_BALANCING reads it
    `kind` of scheduler: one of the codes above
    `category` of the task, 0..59; outside, the scheduler decides alone and the composition stays as it is
    `cpu`, `memory`: that an instance uses, cores and the unit of machines.memory
    `candidates`: 1: the scheduler decides alone; M: PISM decides alone
    `since`: second; machines that last reported before it are unknown
    `rng`: only RANDOM reads it
    `placed` (instances,): receives the machines; -1 = no room

    Of the `candidates` machines with room that the scheduler prefers, each instance goes to the one with the lowest
    score after its arrival; ties go to the preferred machine, with RANDOM to any. Unknown machines, and those whose
    services were not learnt, are taken only if no candidate is known.
    """
    total = len(machines.cores)
    most = min(candidates, total) if 0 <= category < machines.composition.shape[1] else 1
    preference, chosen = np.full(total, -np.inf), np.empty(most, np.int64)
    after, scratch = np.full(total, -1.0), score_scratch(machines.first)
    for m in range(total):
        if takes_instance(machines, m, cpu, memory):
            preference[m] = _preference(kind, machines, m, cpu, memory, history[m])
    for i in range(len(placed)):
        count = _drawn(preference, chosen, rng) if kind == RANDOM and most < total else _best(preference, chosen)
        if count == 0:
            placed[i:] = -1
            return i
        best = chosen[0]
        if most > 1:
            best = _lowest_score(
                machines, trees, weight, kind, category, cpu, since, rng, preference, chosen[:count], after, scratch
            )
        placed[i] = best
        update_usage(machines, best, category, 1, cpu, memory)
        after[best], preference[best] = -1.0, -np.inf
        if takes_instance(machines, best, cpu, memory):
            preference[best] = _preference(kind, machines, best, cpu, memory, history[best])
    return len(placed)
