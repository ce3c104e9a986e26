"""Numbers for a browser: a tree of dictionaries, lists and arrays as one compressed text that a page can hold."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np

TYPES = ("u1", "u2", "i2", "i4", "f4", "f8")  # of arrays; others become the first of these that holds all values
SCALES, EXACT = (1, 10, 100), 1e-12  # of whole numbers, and the share of a number that may be lost


def packed(tree: Any) -> str:
    """The tree as base64 of a gzip file: the length of the JSON text (4 bytes, little-endian), the text, the arrays.

    In the JSON an array is {"$": offset, "type": one of `TYPES`, "shape": [...]}, where its whole numbers stand for
    tenths or hundredths also "scale": 10 or 100; offsets count from the end of the
    text, padded to a multiple of 8, and are multiples of 8 themselves. NaN occurs in arrays only.

    >>> packed({"slot": np.arange(3)})[:4]
    'H4sI'
    """
    arrays: list[bytes] = []
    offset = 0

    def plain(part: Any) -> Any:
        nonlocal offset
        if isinstance(part, dict):
            return {str(name): plain(value) for name, value in part.items()}
        if isinstance(part, list | tuple):
            return [plain(value) for value in part]
        if not isinstance(part, np.ndarray):
            return part.item() if isinstance(part, np.generic) else part
        whole, scale = _whole(part)
        values = np.ascontiguousarray(_small(whole))
        found = {"$": offset, "type": values.dtype.str[1:], "shape": list(values.shape)}
        found |= {"scale": scale} if scale > 1 else {}
        content = values.tobytes()
        arrays.append(content + bytes(-len(content) % 8))
        offset += len(arrays[-1])
        return found

    text = json.dumps(plain(tree), allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-(4 + len(text)) % 8)
    whole = len(text).to_bytes(4, "little") + text + b"".join(arrays)
    return base64.b64encode(gzip.compress(whole, 6, mtime=0)).decode("ascii")


def _whole(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int]:
    """The same numbers as whole numbers, and what to divide them by; double precision that has more digits stays as it
    is. Costs are often tenths, and take a quarter less space so."""
    if values.dtype != np.float64 or values.size == 0 or not np.isfinite(values).all():
        return values, 1
    for scale in SCALES:
        rounded = np.rint(values * scale)
        if np.abs(rounded).max() < 2**31 and np.allclose(rounded / scale, values, rtol=EXACT, atol=0.0):
            return rounded.astype(np.int64), scale
    return values, 1


def _small(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers in the smallest of `TYPES` for whole numbers; floats keep their width."""
    if values.dtype.kind == "f":
        return values.astype("<f4" if values.dtype.itemsize <= 4 else "<f8")
    for kind in TYPES[:4]:
        limits = np.iinfo(kind)
        if values.size == 0 or (values.min() >= limits.min and values.max() <= limits.max):
            return values.astype(f"<{kind}" if kind != "u1" else kind)
    return values.astype("<f8")
