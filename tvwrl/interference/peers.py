"""What load-aware schedulers in use today, and the paper's own baselines, prefer: one number of a machine, compiled.

Shares are of the machine's capacity, with the arriving instance added to what is in use. Higher is better. Published
formulas: Koordinator, plugin LoadAwareScheduling (`leastUsedScore`, usage thresholds 65 % CPU and 95 % memory, equal
weights); Kubernetes scheduler-plugins, Trimaran (KEP 61): TargetLoadPacking (target 40 %) and
LoadVariationRiskBalancing (margin 1, sensitivity 1).
"""

from __future__ import annotations

import numpy as np
from numba import njit

STACK_SHARE = 0.8  # of the CPU: "very few servers have more than 80% CPU utilization" (6.1.3)
CPU_LIMIT, MEMORY_LIMIT = 0.65, 0.95  # LoadAware leaves machines alone that would pass these
TARGET_SHARE = 0.4
MARGIN, SENSITIVITY = 1.0, 1.0


@njit(cache=True, inline="always")
def spread(cpu):  # type: ignore[no-untyped-def]
    """Lowest CPU utilisation (6.1.3)."""
    return -cpu


@njit(cache=True, inline="always")
def stack(cpu):  # type: ignore[no-untyped-def]
    """As close to the threshold as possible, from below; those that would pass it come after, least above it first."""
    return cpu if cpu <= STACK_SHARE else STACK_SHARE - cpu


@njit(cache=True, inline="always")
def load_aware(cpu, memory):  # type: ignore[no-untyped-def]
    """Mean free share. Koordinator: a machine above a limit takes nothing. Here: it comes after all others, as batch
    instances do not wait."""
    free = 0.5 * (max(0.0, 1.0 - cpu) + max(0.0, 1.0 - memory))
    return free - 1.0 if cpu > CPU_LIMIT or memory > MEMORY_LIMIT else free


@njit(cache=True, inline="always")
def target_load_packing(cpu):  # type: ignore[no-untyped-def]
    """Rises from the target to 1 as an emptier machine comes up to it, then falls from the target to 0 when full."""
    if cpu <= TARGET_SHARE:
        return (1.0 - TARGET_SHARE) * cpu / TARGET_SHARE + TARGET_SHARE
    return TARGET_SHARE * max(0.0, 1.0 - cpu) / (1.0 - TARGET_SHARE)


@njit(cache=True, inline="always")
def risk_balancing(cpu, cpu_deviation, memory, memory_deviation):  # type: ignore[no-untyped-def]
    """1 - risk of the riskier resource; risk = (mean + margin x deviation^(1 / sensitivity)) / 2, both within [0, 1].

    `cpu`, `memory`: recent means, the instance added; the deviations are of the recent utilisation.
    """
    return min(_safety(cpu, cpu_deviation), _safety(memory, memory_deviation))


@njit(cache=True, inline="always")
def _safety(mean, deviation):  # type: ignore[no-untyped-def]
    spread_out = min(1.0, max(0.0, MARGIN * max(deviation, 0.0) ** (1.0 / SENSITIVITY)))
    return 1.0 - 0.5 * (min(1.0, max(0.0, mean)) + spread_out)


@njit(cache=True)
def remember(machines, history, weight):  # type: ignore[no-untyped-def]
    """Moves the moments of utilisation that LoadVariationRiskBalancing needs on by one report, in place.

    `history` (M, 2, 2): mean and variance of the share of CPU, then of memory; exponentially weighted, `weight` in
    (0, 1] of the newest (load-watcher keeps windows of 5, 10 or 15 minutes; weight 2 / (n + 1) spans n reports).
    """
    for m in range(len(history)):
        for r in range(2):
            share = machines.cpu[m] / machines.cores[m] if r == 0 else machines.used_memory[m] / machines.memory[m]
            step = share - history[m, r, 0]
            history[m, r, 0] += weight * step
            history[m, r, 1] = (1.0 - weight) * (history[m, r, 1] + weight * step * step)


def no_history(count: int) -> np.ndarray[tuple[int, int, int], np.dtype[np.float64]]:
    """Moments of `count` machines before the first report."""
    return np.zeros((count, 2, 2))
