"""Random draws of a sequence: arrival times, noise on demand, and background load on the machines."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tvwrl.types import Float

BACKGROUND_SLOTS = 200  # period of the background load; no training episode is longer


def draw_arrivals(count: int, rate: float, burst: float, rng: np.random.Generator) -> Float:
    """(count,) slots, rising: batches of geometric size with mean `burst` >= 1 arrive in a Poisson process.

    `rate` > 0 is of workloads per slot whatever the batches are; burst = 1 is the plain Poisson process (paper).
    """
    between = rng.exponential(burst / rate, count)
    arrivals: Float = np.floor(np.cumsum(between)).repeat(rng.geometric(1.0 / burst, count))[:count]
    return arrivals


def perturb_demand(demand: Float, most: int, peak_units: int, rng: np.random.Generator) -> Float:
    """Demand (length, D) in whole units, each changed by -most..most at random, within 1..peak_units.

    Paper ("Robustness Against Noisy Environment"): discrete uniform noise of [-1, 1].
    """
    changed = demand + rng.integers(-most, most, demand.shape, endpoint=True)
    perturbed: Float = np.clip(changed, 1.0, float(peak_units))
    return perturbed


def draw_background(most: int, cluster: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """(P, M, D) whole units, uniform on 0..most for a `cluster` of shape (M, D): one random load per machine."""
    return rng.integers(most, size=(BACKGROUND_SLOTS, *cluster), dtype=np.uint8, endpoint=True)
