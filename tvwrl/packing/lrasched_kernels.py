"""Compiled placement of whole applications on open machines: all replicas of one or none (LRASched's phase 1).

The machine with the best score takes the next replica. A score is linear in what is left of a machine, so it is
computed once per application, and again only for the machine that took a replica.

Arguments and sizes as in `packing.affinity`; `fitness`: Fitness; `scratch`: Scratch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import NOT_YET, Applications, Packing, forget_limits, limit_machines, put, settle
from tvwrl.packing.fit import int64, short, uint64
from tvwrl.types import Bool, Float, Int, Int32


def measure(demand: Float) -> tuple[Float, Float]:
    """Total demand (K,) of a batch, and the measure (n,) of its applications: their shares of it, summed (Eq. 20).

    `demand` (n, K) of all replicas of each application. The total is 1 where nothing is needed.
    """
    total = demand.sum(axis=0)
    total[total == 0] = 1.0
    return total, (demand / total).sum(axis=1)


@njit
def fitness_weights(demand: Float, total: Float, free: Float, weight: Float) -> None:
    """Write w_k = s_k / (S_k F_k) to `weight` (K,): the fitness of a machine with residual C is sum_k w_k C_k (Eq. 21).

    `demand` (K,) s of one replica; `total` (K,) S of the batch; `free` (K,) F of all machines. A dimension that is free
    nowhere counts nothing.
    """
    for k in range(len(weight)):
        weight[k] = demand[k] / total[k] / free[k] if free[k] > 0.0 else 0.0


def fitness(demand: Float, total: Float, residual: Float) -> Float:
    """(M,) fitness of machines with `residual` (M, K) for a replica with `demand` (K,); `total` (K,): see `measure`."""
    weight = np.empty(len(demand))
    fitness_weights(demand, total, residual.sum(axis=0), weight)
    found: Float = (residual * weight).sum(axis=1)
    return found


NOWHERE = -np.inf  # score of a machine that cannot take another replica


class Fitness(NamedTuple):
    """What machines are scored by: sum_k s_k C_k / (S_k F_k) for a demand s and residual C (paper 000, Eq. 21).

    S is the demand and F what is free altogether. All S infinite: scores are 0, so the first machine takes it.
    """

    demand: Float  # (K,) S: demand of all applications of the batch; negative: the least fit first
    free: Float  # (K,) F: residual of all open machines, kept up to date
    least: Float  # (K,) r_min: a machine with less than that left of anything is a fragment (Eq. 16, 17)
    fragment: float  # share of its fitness that a machine loses if it would become a fragment, 0 to 1


class Scratch(NamedTuple):
    """Memory of `place_whole` and `improve`; nothing is kept in it between calls."""

    score: Float  # (M,) float64
    weight: Float  # (K,) float64
    before: Float  # (G, K) float64: residuals of the machines that the application at hand was put on; G: most replicas


@inner
def _score(
    demand: Float,  # (A, K) float64, as in `Applications`
    needed: Float,  # (A, K) float64, as in `Applications`
    i: int,
    residual: Float,  # (M, K) float64
    begin: int,  # first machine to score
    end: int,  # the machine after the last one
    cap: Int32,  # (M,) replicas of i that affinity allows on each machine
    weight: Float,  # (K,) float64: s_k / (S_k F_k), see `fitness.fitness_weights`
    least: Float,  # (K,) as in `Fitness`
    fragment: float,  # 0 to 1, as in `Fitness`
    score: Float,  # (M,) float64, receives the scores
) -> None:
    """Write the scores of machines begin .. end - 1 for one more replica of i, NOWHERE where it has no room."""
    row, count = uint64(i), uint64(len(weight))
    for m in range(uint64(begin), uint64(end)):
        full, fitness = cap[m] < 1, 0.0
        for k in range(count):
            full |= short(residual[m, k], needed[row, k])
            fitness += weight[k] * residual[m, k]
        if fragment > 0.0 and not full:
            was, stays = True, True
            for k in range(count):
                was &= not short(residual[m, k], least[k])
                stays &= not short(residual[m, k], least[k] + demand[row, k])
            if was and not stays:
                fitness -= fragment * abs(fitness)  # lower in any case: `improve` negates all fitness
        score[m] = NOWHERE if full else fitness


@inner
def _take_back(p: Packing, i: int, before: Float) -> None:
    """Undo what `put` did for i, to the last bit."""
    for n in range(p.used[i]):
        m = p.machine[p.first[i] + n]
        p.residual[m] = before[n]
        p.left[i] += p.held[m]
        p.held[m] = NOT_YET
    p.used[i] = 0


@inner
def _place_one(a: Applications, p: Packing, i: int, fitness: Fitness, scratch: Scratch) -> bool:
    """Place all replicas of i on open machines, or none. Returns whether it could."""
    demand, needed, residual, cap, held, own = a.demand, a.needed, p.residual, p.cap, p.held, a.own[i]
    score, weight, opened = scratch.score, scratch.weight, p.open[0]
    fitness_weights(demand[i], fitness.demand, fitness.free, weight)
    looked = limit_machines(a, p, i, p.left[i])
    _score(demand, needed, i, residual, 0, opened, cap, weight, fitness.least, fitness.fragment, score)
    while p.left[i] > 0 and opened > 0:
        m = int64(np.argmax(score[:opened]))
        if score[m] == NOWHERE:
            break
        if held[m] == NOT_YET:
            scratch.before[p.used[i]] = residual[m]
        put(a, p, i, m, 1)
        _score(demand, needed, i, residual, m, m + 1, cap, weight, fitness.least, fitness.fragment, score)
        if held[m] >= min(cap[m], own):
            score[m] = NOWHERE
    forget_limits(a, p, i, looked)
    if p.left[i] > 0:
        _take_back(p, i, scratch.before)
        return False
    settle(p, i)
    fitness.free[:] -= a.replicas[i] * demand[i]
    return True


@njit
def place_whole(a: Applications, p: Packing, order: Int, fitness: Fitness, scratch: Scratch) -> int:
    """Place the applications of `order` (n,) one after another, each wholly or not at all. Returns how many are."""
    placed = 0
    for i in order:
        placed += _place_one(a, p, i, fitness, scratch)
    return placed


@inner
def _remove(a: Applications, p: Packing, i: int, fitness: Fitness) -> None:
    """Take all replicas of i off."""
    for r in range(p.first[i], p.first[i] + p.used[i]):
        p.residual[p.machine[r]] += p.count[r] * a.demand[i]
    p.left[i], p.used[i] = a.replicas[i], 0
    fitness.free[:] += a.replicas[i] * a.demand[i]


@inner
def _empty(a: Applications, p: Packing, batch: Int, fitness: Fitness, chosen: Bool) -> int:
    """Take off the applications of `batch` (n,) that have a replica on a machine `chosen` (M,). Returns how many."""
    gone = 0
    for i in batch:
        for r in range(p.first[i], p.first[i] + p.used[i]):
            if chosen[p.machine[r]]:
                _remove(a, p, i, fitness)
                gone += 1
                break
    return gone


@inner
def _refill(a: Applications, p: Packing, order: Int, fitness: Fitness, scratch: Scratch, patience: int) -> None:
    """Place in this order, until `patience` in a row found no place."""
    failed = 0
    for i in order:
        failed = 0 if _place_one(a, p, i, fitness, scratch) else failed + 1
        if failed == patience:
            break


@inner
def _copy(p: Packing, free: Float, to: Packing, to_free: Float) -> None:
    """What `_remove` and `_place_one` change, from one packing to another."""
    to.residual[: p.open[0]], to.left[:], to.used[:] = p.residual[: p.open[0]], p.left, p.used
    to.machine[:], to.count[:], to_free[:] = p.machine, p.count, free


@njit
def improve(
    a: Applications,
    p: Packing,
    spare: Packing,  # Packing of the same shape, scratch: the best one so far
    batch: Int,  # (n,) applications that may be taken off and placed
    size: Float,  # (A,) float64 >= 0, of all replicas of an application together, such as `fitness.measure`
    fitness: Fitness,
    scratch: Scratch,
    steps: int,  # how often to empty and refill
    patience: int,  # refilling stops after so many applications in a row without a place
    rng: np.random.Generator,
) -> bool:
    """Empty one to three random machines and refill them, small applications first; keep what is no worse.

    Better is more applications of `batch` placed, then less `size` of those that are. Refilling takes the fittest
    machine or, at random every other time, the least fit. So that orders differ, it multiplies sizes by random factors,
    whose logarithms have the standard deviation 0.3. Returns whether more are placed than before.
    """
    free, chosen = fitness.free.copy(), np.zeros(p.open[0], np.bool_)
    tight = Fitness(-fitness.demand, fitness.free, fitness.least, fitness.fragment)
    placed, total = _worth(p, batch, size)
    begun = placed
    _copy(p, fitness.free, spare, free)
    for _ in range(steps):
        chosen[:] = False
        for _ in range(rng.integers(1, 4)):
            chosen[rng.integers(0, p.open[0])] = True
        _empty(a, p, batch, fitness, chosen)
        waiting = batch[p.left[batch] > 0]
        order = waiting[np.argsort(size[waiting] * np.exp(0.3 * rng.standard_normal(len(waiting))))]
        _refill(a, p, order, tight if rng.random() < 0.5 else fitness, scratch, patience)
        now, now_total = _worth(p, batch, size)
        if now > placed or (now == placed and now_total <= total):
            placed, total = now, now_total
            _copy(p, fitness.free, spare, free)
        else:
            _copy(spare, free, p, fitness.free)
    return placed > begun


@inner
def _worth(p: Packing, batch: Int, size: Float) -> tuple[int, float]:
    """How many applications are placed, and their size."""
    placed, total = 0, 0.0
    for i in batch:
        if p.left[i] == 0:
            placed, total = placed + 1, total + size[i]
    return placed, total


def scratch_for(packing: Packing, replicas: Int32) -> Scratch:
    """Memory for the applications (A,) and machines of a packing."""
    machines, dimensions = packing.residual.shape
    return Scratch(
        np.empty(machines),
        np.empty(dimensions),
        np.empty((int(replicas.max()), dimensions)),
    )
