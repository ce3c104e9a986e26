"""Workloads of the simulator as batch work: which category each is taken for, slot by slot, as monitoring sees it."""

from __future__ import annotations

import numpy as np

from tvwrl.interference.categories import Thresholds
from tvwrl.types import Float, Int, SequenceSet

CORES = 104.0  # of the largest machine: two of the paper's processors, with 26 cores of two threads each


def shares(demand: Float, largest: Float, cores: float = CORES) -> tuple[Float, Float]:
    """CPU in cores and memory in percent of the largest machine, (...) each, of demand (..., D) units.

    `largest` (D,) units: its capacity. The first resource is the CPU, the last memory.
    """
    share = demand / largest
    return share[..., 0] * cores, 100.0 * share[..., -1]


def categories(demand: Float, largest: Float, step_seconds: float, thresholds: Thresholds, cores: float = CORES) -> Int:
    """(N, L) category of N workloads of demand (N, L, D) units, when each has run l + 1 slots.

    By mean use and time so far, which is all that can be known then: entry l reads nothing of a later slot, and entry 0
    is what a scheduler may take a waiting workload for. Paper: by what the whole life will use, which the classifier
    predicts; here no graph of tasks tells it.
    """
    length = demand.shape[1]
    cpu, memory = shares(_mean_so_far(demand), largest, cores)
    lasted = np.broadcast_to(step_seconds * np.arange(1.0, length + 1), cpu.shape)
    return thresholds.category(cpu.ravel(), memory.ravel(), lasted.ravel()).reshape(cpu.shape)


def thresholds_of(sequences: SequenceSet, largest: Float, step_seconds: float, cores: float = CORES) -> Thresholds:
    """Thresholds with about as many workloads of `sequences` in each class, slot by slot; of makespan, whole lives."""
    runs = np.arange(sequences.demand.shape[2]) < sequences.length[..., None]
    so_far = np.stack([_mean_so_far(demand) for demand in sequences.demand])[runs]
    return Thresholds.even(*shares(so_far, largest, cores), step_seconds * sequences.length.ravel().astype(np.float64))


def _mean_so_far(demand: Float) -> Float:
    """(N, L, D) mean of demand (N, L, D) up to each slot."""
    mean: Float = demand.cumsum(axis=1) / np.arange(1.0, demand.shape[1] + 1)[:, None]
    return mean
