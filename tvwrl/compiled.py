"""numba's `njit` and `vectorize` with a disk cache that is never stale or corrupt.

numba's own cache has two flaws. It writes an entry in three steps (read the index, write it, write the machine code)
without a lock, so two trainings started at the same time right after an installation could file the code of one
signature under another's name. And it recompiles functions in a file that changed, but not functions in other files
that call or use them, so machine code with outdated constants would stay in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import re
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile, _SourceFileBackedLocatorMixin

PACKAGE = Path(__file__).parent
IMPORTED = re.compile(r"^from ([\w.]+) import (\([^)]*\)|[^\n]*)", re.MULTILINE)

_save = IndexDataCacheFile.save
_stamp = _SourceFileBackedLocatorMixin.get_source_stamp


def _save_alone(self: Any, key: Any, data: Any) -> None:
    with (Path(self._cache_path) / ".lock").open("a") as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        _save(self, key, data)


IndexDataCacheFile.save = _save_alone


def source_stamp(file: Path, package: Path) -> str:
    """A hash of a source file and of the files in its package from which it imports constants or kernels."""
    waiting, seen = [file], {file}
    for one in waiting:  # which grows
        more = _imported(one, package) - seen
        seen |= more
        waiting += sorted(more)
    return hashlib.sha256(b"".join(_content(one).encode() for one in sorted(seen))).hexdigest()


@cache
def _imported(file: Path, package: Path) -> set[Path]:
    found = set()
    for module, names in IMPORTED.findall(_content(file)):
        first, *parts = module.split(".")
        path = package.joinpath(*parts).with_suffix(".py")
        if first == package.name and path.is_file():
            constants = any(name.isupper() for name in re.findall(r"\w+", names))
            if constants or ".compiled import" in _content(path):
                found.add(path)
    return found


@cache
def _content(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _stamp_with_imports(self: Any) -> Any:
    file = Path(self._py_file)
    return source_stamp(file, PACKAGE) if file.is_relative_to(PACKAGE) else _stamp(self)


_SourceFileBackedLocatorMixin.get_source_stamp = _stamp_with_imports

njit: Any = partial(numba.njit, cache=True)
"""Compile a function for the CPU, as `numba.njit` does, and keep the machine code on disk."""

vectorize: Any = partial(numba.vectorize, cache=True)
"""Compile a function of scalars for arrays, as `numba.vectorize` does, and keep the machine code on disk."""
