"""Compiled summary of label grids: per machine what the `shared` policy sees."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit


def feature_count(resources: int, history: int, classes: int) -> int:
    """Features of one machine: see `machine_features`."""
    return resources * (history + 4 + 2 * classes)


def machine_features(grid: npt.NDArray[np.uint8], classes: int) -> npt.NDArray[np.float32]:
    """(B, M, F) features from label grids (B, M, D, h, C), all as shares of the grid's C columns.

    Per resource: the load in each of the h rows (oldest first); its mean, maximum and standard deviation over the
    rows; the machine's own size; the units of each class in the newest row; and their mean over all rows.
    """
    batch, machines, resources, history, _ = grid.shape
    out = np.zeros((batch, machines, feature_count(resources, history, classes)), np.float32)
    _summarise(grid, classes, out)
    return out


@njit(cache=True)
def _summarise(grid, classes, out):  # type: ignore[no-untyped-def]
    batch, machines, resources, history, columns = grid.shape
    width = history + 4 + 2 * classes
    share = np.float32(1.0 / columns)
    for b in range(batch):
        for m in range(machines):
            for d in range(resources):
                first = d * width
                now, often = first + history + 3, first + history + 3 + classes  # where label 0 would stand
                total = squares = most = np.float32(0.0)
                for r in range(history):
                    used = 0
                    for c in range(columns):
                        label = grid[b, m, d, r, c]
                        if label == 0 or label == classes + 1:
                            continue
                        used += 1
                        if label > classes:  # background is load, but of no class
                            continue
                        out[b, m, often + label] += share / history
                        if r == history - 1:
                            out[b, m, now + label] += share
                    load = np.float32(used) * share
                    out[b, m, first + r] = load
                    total += load
                    squares += load * load
                    most = max(most, load)
                mean = total / history
                size = 0
                for c in range(columns):
                    size += grid[b, m, d, history - 1, c] != classes + 1
                out[b, m, first + history] = mean
                out[b, m, first + history + 1] = most
                out[b, m, first + history + 2] = np.sqrt(max(squares / history - mean * mean, np.float32(0.0)))
                out[b, m, first + history + 3] = np.float32(size) * share
