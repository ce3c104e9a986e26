"""What is seen of a workload, as a fixed number of inputs: features of its first slots, and what was declared."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tvwrl.types import Float

Inputs = npt.NDArray[np.float32]

RECENT = 4  # last slots that are seen as they were
PER_RESOURCE = 8 + RECENT
LONGEST = 120  # slots of the longest window that workloads are cut to, about
FARTHEST = 5.0  # standard deviations to which inputs are cut


def prefix_features(demand: Float) -> Float:
    """(N, L + 1, 1 + D * PER_RESOURCE) features of the first 0, 1, ..., L slots of `demand` (N, L, D).

    The logarithm of the slots seen; per resource mean, standard deviation, least, most, mean absolute change, slope,
    autocorrelation one slot apart, last, and the last `RECENT` slots. All are 0 before the first slot.
    """
    count, slots, resources = demand.shape
    out = np.zeros((count, slots + 1, 1 + resources * PER_RESOURCE))
    if not slots:
        return out
    seen = np.arange(1, slots + 1.0)[:, None]
    out[:, 1:, 0] = np.log1p(seen[:, 0]) / np.log1p(LONGEST)
    mean = np.cumsum(demand, axis=1) / seen
    variance = np.maximum(np.cumsum(demand**2, axis=1) / seen - mean**2, 0.0)
    change = np.diff(demand, axis=1, prepend=demand[:, :1])
    follows = np.concatenate([np.zeros_like(mean[:, :1]), np.cumsum(demand[:, 1:] * demand[:, :-1], axis=1)], axis=1)
    pairs = np.maximum(seen - 1, 1)
    together = np.where(variance > 1e-9, (follows / pairs - mean**2) / np.maximum(variance, 1e-9), 0.0)
    time = np.cumsum(demand * seen, axis=1) / seen - mean * (seen + 1) / 2  # covariance with the time
    slope = time / np.maximum((seen**2 - 1) / 12, 0.25)
    statistics = [
        mean,
        np.sqrt(variance),
        np.minimum.accumulate(demand, axis=1),
        np.maximum.accumulate(demand, axis=1),
        np.cumsum(np.abs(change), axis=1) / pairs,
        slope,
        np.clip(together, -1.0, 1.0) * (seen > 2),
        demand,
    ]
    for back in range(1, RECENT + 1):
        before = np.zeros_like(demand)
        before[:, back:] = demand[:, :-back]
        statistics.append(before)
    out[:, 1:, 1:] = np.concatenate(statistics, axis=2)
    return out


def scale_of(inputs: Inputs) -> tuple[Inputs, Inputs]:
    """(I,) means and standard deviations of inputs (m, I); 1 for those that are constant."""
    spread = inputs.std(axis=0)
    return inputs.mean(axis=0), np.where(spread > 1e-6, spread, 1.0).astype(np.float32)


def scaled(inputs: Inputs, shift: Inputs, width: Inputs) -> Inputs:
    """(m, I) inputs in standard deviations from the mean, cut off far away."""
    found: Inputs = np.clip((inputs - shift) / width, -FARTHEST, FARTHEST).astype(np.float32)
    return found


def masked(metadata: Float) -> Float:
    """(..., 2 P) values, 0 where unknown, and a mask, 1 where known."""
    known = np.isfinite(metadata)
    masked: Float = np.concatenate([np.where(known, metadata, 0.0), known], axis=-1)
    return masked
