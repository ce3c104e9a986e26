"""How kernels are compiled: numba's decorators with a disk cache that is never stale or corrupt, and less to compile.

numba's own cache has three flaws. It writes an entry in three steps (read the index, write it, write the machine code)
without a lock, so two trainings started at the same time right after an installation could file the code of one
signature under another's name. And it recompiles functions in a file that changed, but not functions in other files
that call or use them, so machine code with outdated constants would stay in use. And it raises an error where the type
of an argument has moved to another module since.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba.core import event
from numba.core.caching import IndexDataCacheFile, _SourceFileBackedLocatorMixin
from numba.np import arrayobj

from tvwrl.compiling import Notice, announced

PACKAGE = Path(__file__).parent
IMPORTED = re.compile(r"^from ([\w.]+) import (\([^)]*\)|[^\n]*)", re.MULTILINE)

_save, _load_index = IndexDataCacheFile.save, IndexDataCacheFile._load_index
_stamp = _SourceFileBackedLocatorMixin.get_source_stamp


def _save_alone(self: Any, key: Any, data: Any) -> None:
    with (Path(self._cache_path) / ".lock").open("a") as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        _save(self, key, data)


IndexDataCacheFile.save = _save_alone


def _load_index_if_known(self: Any) -> Any:
    try:
        return _load_index(self)
    except (ImportError, AttributeError):  # of arguments whose types have moved to other modules since
        return {}


IndexDataCacheFile._load_index = _load_index_if_known


def source_stamp(file: Path, package: Path) -> str:
    """A hash of a source file, of the files in its package from which it imports constants or kernels, and of this."""
    waiting, seen = [file], {file}
    for one in waiting:  # which grows
        more = _imported(one, package) - seen
        seen |= more
        waiting += sorted(more)
    return hashlib.sha256(b"".join(_content(one).encode() for one in sorted({*seen, Path(__file__)}))).hexdigest()


@cache
def _imported(file: Path, package: Path) -> set[Path]:
    found = set()
    for module, names in IMPORTED.findall(_content(file)):
        first, *parts = module.split(".")
        if first != package.name:
            continue
        place = package.joinpath(*parts)
        behind = _behind_door(place)
        for word in re.findall(r"\w+", names):
            path = behind.get(word, place.with_suffix(".py"))
            for one in (path, place / f"{word}.py"):  # names may be modules of a package
                if one.is_file() and (word.isupper() or ".compiled import" in _content(one)):
                    found.add(one)
    return found


@cache
def _behind_door(room: Path) -> dict[str, Path]:
    """Name -> the file that it comes from, of what a room offers to others; empty for a module."""
    door = room / "__init__.pyi"
    if not door.is_file():
        return {}
    return {
        word: room.joinpath(*module.split(".")[1:]).with_suffix(".py")
        for module, names in IMPORTED.findall(_content(door))
        for word in re.findall(r"\w+", names)
    }


@cache
def _content(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _stamp_with_imports(self: Any) -> Any:
    file = Path(self._py_file)
    return source_stamp(file, PACKAGE) if file.is_relative_to(PACKAGE) else _stamp(self)


_SourceFileBackedLocatorMixin.get_source_stamp = _stamp_with_imports


class _Listener(event.Listener):  # type: ignore[misc]
    """Tells of kernels that are compiled, once the process has announced it."""

    def __init__(self) -> None:
        self._notice = Notice()

    def on_start(self, event: Any) -> None:
        if announced():
            self._notice.begin()

    def on_end(self, event: Any) -> None:
        if announced():
            self._notice.end()


event.register("numba:compile", _Listener())

# Where an array is assigned to a part of another one, numba compiles the text of a message that gives both shapes. That
# takes two seconds in every process that compiles; the message for other targets says the same without the shapes.
with contextlib.suppress(AttributeError):  # another version of numba
    arrayobj.ol_raise_with_shape_context_cpu.__code__ = arrayobj.ol_raise_with_shape_context_generic.__code__

njit: Any = partial(numba.njit, cache=True, no_cfunc_wrapper=True)

vectorize: Any = partial(numba.vectorize, cache=True)


def inner(function: Callable[..., Any], **options: Any) -> Any:
    """`njit` without the code by which Python would call the kernel; if Python does, it is compiled again, whole."""
    compiled = njit(no_cpython_wrapper=True, **options)(function)
    compiled._compile_for_args = lambda *_, **__: _whole(function, **options)
    compiled._insert = lambda *_, **__: None  # or Python would find the compiled code and jump to the missing one
    template, plain = compiled.get_call_template, numba.types.unliteral
    compiled.get_call_template = lambda args, kws: template(tuple(map(plain, args)), kws)  # once, not per constant
    return compiled


@cache
def _whole(function: Callable[..., Any], **options: Any) -> Any:
    """The inner kernel as a whole one; under a name of its own, as names are what the cache on disk goes by."""
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    copy.__module__, copy.__qualname__ = function.__module__, f"{function.__qualname__}_from_python"
    return njit(**options)(copy)
