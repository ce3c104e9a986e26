"""Beginnings of windows as numbers and strings, for files: arrays are compressed, as demand repeats itself."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from tvwrl.forecasting.beginnings import Beginnings
from tvwrl.traces import Windows

KINDS = {
    "demand": "<f4", "length": "<i8", "metadata": "<f4", "clock": "<f4", "fold": "<i8", "series": "<i8",
    "row": "<i8", "seen": "<i8",
}  # fmt: skip
WINDOW_PARTS = ("demand", "length", "metadata", "clock", "fold", "series")


def packed(learnt: Beginnings) -> dict[str, Any]:
    """Name -> shape and compressed bytes of every array."""
    windows = learnt.windows
    parts = {name: getattr(windows, name) for name in WINDOW_PARTS} | {"row": learnt.row, "seen": learnt.seen}
    return {
        name: [list(part.shape), base64.b64encode(zlib.compress(part.astype(KINDS[name]).tobytes())).decode()]
        for name, part in parts.items()
    }


def unpacked(content: dict[str, Any], resources: int) -> Beginnings:
    """The beginnings that `packed` described. Raises ValueError or LookupError for what does not fit together."""
    parts = {}
    for name, kind in KINDS.items():
        shape, text = content[name]
        try:
            parts[name] = np.frombuffer(zlib.decompress(base64.b64decode(text)), kind).reshape(shape)
        except zlib.error as error:
            raise ValueError(f"{name} cannot be unpacked: {error}") from None
    n, slots = parts["demand"].shape[:2]
    lengths, row, seen = parts["length"], parts["row"], parts["seen"]
    good = parts["demand"].shape[2] == resources and all(len(parts[name]) == n for name in WINDOW_PARTS)
    good = good and parts["metadata"].shape == (n, resources + 2) and len(row) == len(seen) and lengths.max() <= slots
    good = good and all(bool(np.isfinite(parts[name]).all()) for name in ("demand", "clock"))
    if not (good and row.min() >= 0 and row.max() < n and seen.min() >= 1 and (seen <= lengths[row]).all()):
        raise ValueError("the beginnings that it learnt from do not fit together")
    windows = Windows(**{name: parts[name] for name in WINDOW_PARTS})
    return Beginnings(windows, row.astype(np.int64), seen.astype(np.int64))
