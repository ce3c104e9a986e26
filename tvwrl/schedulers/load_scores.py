"""Compiled scores of one machine by its load: of load-aware schedulers in use today and of paper 003's baselines.

Shares are of the machine's capacity, with the arriving instance added to what is in use. Higher is better. Published
formulas: Koordinator, plugin LoadAwareScheduling (`leastUsedScore`, usage thresholds 65 % CPU and 95 % memory, equal
weights); Kubernetes scheduler-plugins, Trimaran (KEP 61): TargetLoadPacking (target 40 %) and
LoadVariationRiskBalancing (margin 1, sensitivity 1). Koordinator and the plugins are under Apache-2.0; no code was
copied. What else these schedulers do, such as rounding and filters, is in `production/`.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import njit
from tvwrl.types import Float

STACK_SHARE = 0.8  # share of the CPU: "very few servers have more than 80% CPU utilization" (paper 003, 6.1.3)
CPU_LIMIT, MEMORY_LIMIT = 0.65, 0.95  # LoadAware avoids machines that would exceed these
TARGET_SHARE = 0.4
MARGIN, SENSITIVITY = 1.0, 1.0
REPORT_WEIGHT = 2.0 / 16.0  # weight of the newest report in the moving moments, which span about 15 reports


@njit(inline="always")
def spread(cpu: float) -> float:
    """Lowest CPU utilisation (paper 003, 6.1.3)."""
    return -cpu


@njit(inline="always")
def stack(cpu: float) -> float:
    """Highest CPU utilisation up to the threshold; machines above it come last, the least loaded first."""
    return cpu if cpu <= STACK_SHARE else STACK_SHARE - cpu


@njit(inline="always")
def load_aware(cpu: float, memory: float) -> float:
    """Mean free share. Koordinator: a machine above a limit takes nothing. Here: it comes after all others, because
    batch instances do not wait."""
    free = 0.5 * (max(0.0, 1.0 - cpu) + max(0.0, 1.0 - memory))
    return free - 1.0 if cpu > CPU_LIMIT or memory > MEMORY_LIMIT else free


@njit(inline="always")
def target_load_packing(cpu: float, target: float = TARGET_SHARE) -> float:
    """Rises from `target` (empty) to 1 (at the target); above it, falls from `target` to 0 (full)."""
    if cpu <= target:
        return (1.0 - target) * cpu / target + target
    return target * max(0.0, 1.0 - cpu) / (1.0 - target)


@njit(inline="always")
def risk_balancing(
    cpu: float,
    cpu_deviation: float,
    memory: float,
    memory_deviation: float,
    margin: float = MARGIN,
    sensitivity: float = SENSITIVITY,
) -> float:
    """1 - risk of the riskier resource; risk = (mean + margin x deviation^(1 / sensitivity)) / 2, both within [0, 1].

    `cpu`, `memory`: recent means, the instance added; the deviations are of the recent utilisation.
    """
    cpu_safety = _safety(cpu, cpu_deviation, margin, sensitivity)
    return min(cpu_safety, _safety(memory, memory_deviation, margin, sensitivity))


@njit(inline="always")
def _safety(mean: float, deviation: float, margin: float, sensitivity: float) -> float:
    deviation_share: float = min(1.0, max(0.0, margin * max(deviation, 0.0) ** (1.0 / sensitivity)))
    return 1.0 - 0.5 * (min(1.0, max(0.0, mean)) + deviation_share)


def remember(share: Float, history: Float, weight: float) -> None:
    """Add one report to the moments of utilisation that LoadVariationRiskBalancing needs, in place.

    `share`: (M, 2) share of CPU and of memory in use
    `history`: (M, 2, 2) exponentially weighted mean and variance of each
    `weight`: of the new report, in (0, 1]; 2 / (n + 1) spans n reports (load-watcher: windows of 5, 10 or 15 minutes)
    """
    step = share - history[..., 0]
    history[..., 0] += weight * step
    history[..., 1] = (1.0 - weight) * (history[..., 1] + weight * step**2)


def no_history(count: int) -> Float:
    """(count, 2, 2) moments of machines before the first report."""
    return np.zeros((count, 2, 2))
