"""What is seen of a workload, as a fixed number of inputs: features of its first slots, and what was declared."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tvwrl.compiled import njit
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
    out[:, 1:, 0] = np.log1p(np.arange(1, slots + 1.0)) / np.log1p(LONGEST)
    _fill_prefix_features(np.ascontiguousarray(demand, np.float64), out)
    return out


@njit
def _fill_prefix_features(demand, out):  # type: ignore[no-untyped-def]
    """Everything but the slots seen.

    `demand`: (N, L, D)
    `out`: (N, L + 1, 1 + D * PER_RESOURCE); see `prefix_features`
    """
    count, slots, resources = demand.shape
    for i in range(count):
        for d in range(resources):
            total = squares = follows = change = timed = 0.0
            least = most = before = demand[i, 0, d] if slots else 0.0
            for t in range(slots):
                now = demand[i, t, d]
                seen = t + 1.0
                total += now
                squares += now**2
                follows += now * before if t else 0.0
                change += abs(now - before)
                timed += now * seen
                least, most = min(least, now), max(most, now)
                pairs = max(seen - 1.0, 1.0)
                mean = total / seen
                variance = max(squares / seen - mean**2, 0.0)
                together = (follows / pairs - mean**2) / variance if variance > 1e-9 else 0.0
                covariance = timed / seen - mean * (seen + 1.0) / 2.0  # with the time
                row = out[i, t + 1, 1 + d :: resources]
                row[0], row[1], row[2], row[3] = mean, np.sqrt(variance), least, most
                row[4] = change / pairs
                row[5] = covariance / max((seen**2 - 1.0) / 12.0, 0.25)  # slope
                row[6] = min(max(together, -1.0), 1.0) if seen > 2 else 0.0
                row[7] = now
                for back in range(1, min(RECENT, t) + 1):
                    row[7 + back] = demand[i, t - back, d]
                before = now


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
