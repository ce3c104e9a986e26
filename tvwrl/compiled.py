"""numba's `njit` and `vectorize` with a cache on disk that several processes may fill at the same time.

numba writes an entry in three steps (read the index, write it, write the machine code) without a lock. Two trainings
started side by side right after an installation could therefore file the code of one signature under another's name.
"""

from __future__ import annotations

import contextlib
import fcntl
from functools import partial
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile

_save = IndexDataCacheFile.save


def _save_alone(self: Any, key: Any, data: Any) -> None:
    with (Path(self._cache_path) / ".lock").open("a") as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        _save(self, key, data)


IndexDataCacheFile.save = _save_alone

njit: Any = partial(numba.njit, cache=True)
"""Compile a function for the CPU, as `numba.njit` does, and keep the machine code on disk."""

vectorize: Any = partial(numba.vectorize, cache=True)
"""Compile a function of scalars for arrays, as `numba.vectorize` does, and keep the machine code on disk."""
