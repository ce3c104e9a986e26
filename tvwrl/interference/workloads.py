"""Workloads of the simulator as batch work: the category of each, slot by slot, from its use so far."""

from __future__ import annotations

import numpy as np

from tvwrl.interference.categories import Thresholds
from tvwrl.types import Float, Int, SequenceSet

CORES = 104.0  # cores of the largest machine: two of the paper's processors, with 26 cores of two threads each


def shares(demand: Float, largest: Float) -> tuple[Float, Float]:
    """CPU in cores and memory in percent of the largest machine, each (...), of demand (..., D) units.

    `largest` (D,) units: capacity of that machine. The first resource is CPU, the last is memory.
    """
    share = demand / largest
    return share[..., 0] * CORES, 100.0 * share[..., -1]


def categories(demand: Float, largest: Float, step_seconds: float, thresholds: Thresholds) -> Int:
    """(N, L) category of N workloads of demand (N, L, D) units after each has run l + 1 slots.

    By mean use and run time so far: entry l depends on no later slot, and entry 0 is what a scheduler may assume of a
    waiting workload. Paper: by the use of the whole life, predicted by the classifier; workloads have no task graph to
    predict it from.
    """
    length = demand.shape[1]
    cpu, memory = shares(_mean_so_far(demand), largest)
    lasted = np.broadcast_to(step_seconds * np.arange(1.0, length + 1), cpu.shape)
    return thresholds.category(cpu.ravel(), memory.ravel(), lasted.ravel()).reshape(cpu.shape)


def thresholds_of(sequences: SequenceSet, largest: Float, step_seconds: float) -> Thresholds:
    """Thresholds that split `sequences` evenly: usage slot by slot, makespan workload by workload.

    `largest` (D,): capacity of the largest machine in the demand's units; `step_seconds`: seconds of a slot.
    """
    runs = np.arange(sequences.demand.shape[2]) < sequences.length[..., None]
    so_far = np.stack([_mean_so_far(demand) for demand in sequences.demand])[runs]
    return Thresholds.even(*shares(so_far, largest), step_seconds * sequences.length.ravel().astype(np.float64))


def _mean_so_far(demand: Float) -> Float:
    """(N, L, D) mean of demand (N, L, D) up to each slot."""
    mean: Float = demand.cumsum(axis=1) / np.arange(1.0, demand.shape[1] + 1)[:, None]
    return mean
