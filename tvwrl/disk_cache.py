"""What takes long to prepare is kept on disk, by the content of all that it depends on, and shared by processes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from tvwrl.runs import whole_file

T = TypeVar("T")
OFF = "off"
MOST_BYTES = 4 * 2**30  # of the folder; beyond, what was used longest ago is removed
ENDING = ".kept"  # of the names of its files; nothing else in the folder is touched
SEAL = 16  # bytes at the beginning of a file: the BLAKE2 hash of what follows
# A change of what is written in these files, or of these libraries, makes everything anew
SOURCES = (
    "types.py", "disk_cache.py", "traces", "ec", "forecasting", "simulation/scenario.py", "envs/problem.py",
    "benchmark/tasks.py", "benchmark/environment.py", "benchmark/prepared",
)  # fmt: skip
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "torch")


def cache_folder() -> Path | None:
    """The folder of what is kept: that in the environment variable TVWRL_CACHE, else ~/.cache/tvwrl/prepared.

    Returns
    -------
    Path or None
        The folder, which need not exist; None if TVWRL_CACHE is "off": nothing is kept.
    """
    named = os.environ.get("TVWRL_CACHE") or "~/.cache/tvwrl/prepared"
    return None if named.lower() == OFF else Path(named).expanduser()


def cached(
    kind: str, parts: object, make: Callable[[], T], write: Callable[[T, BinaryIO], None], read: Callable[[BinaryIO], T]
) -> T:
    """What `make` returns, read from disk if it was made before from the same `parts` by the same code.

    Processes that want the same thing at the same time make it once. Where the folder cannot be written, or what is
    there cannot be read, it is made as if there were no cache.

    Parameters
    ----------
    kind : str
        What it is, as part of the file's name.
    parts : object
        All that it depends on: numbers, strings, arrays, dataclasses, and mappings and sequences of these.
    make : callable
        Makes it.
    write : callable
        Writes it to a binary file that it is given.
    read : callable
        Reads it from one.

    Examples
    --------
    >>> cached("classes", population, fit, write, read)  # doctest: +SKIP
    """
    folder = cache_folder()
    if folder is None:
        return make()
    file = folder / f"{kind}-{digest((parts, _code()))[:32]}{ENDING}"
    if (found := _read(file, read)) is not None:
        return found
    with _alone(file):
        if (found := _read(file, read)) is not None:  # another process made it meanwhile
            return found
        made = make()
        with contextlib.suppress(OSError):
            content = io.BytesIO()
            write(made, content)
            with whole_file(file) as partial:
                partial.write_bytes(_seal(content.getvalue()) + content.getvalue())
            _make_room(folder)
    return made


def cached_json(
    kind: str, parts: object, make: Callable[[], T], to_dict: Callable[[T], Any], from_dict: Callable[[Any], T]
) -> T:
    """`cached` for what can be written as JSON; what was just made has gone through JSON too.

    Parameters
    ----------
    kind, parts, make
        As of `cached`.
    to_dict : callable
        Makes plain numbers, lists, strings and dictionaries of it.
    from_dict : callable
        Makes it of these.
    """

    def again() -> T:
        return from_dict(json.loads(json.dumps(to_dict(make()))))

    def write(made: T, file: BinaryIO) -> None:
        file.write(json.dumps(to_dict(made)).encode())

    return cached(kind, parts, again, write, lambda file: from_dict(json.load(file)))


def digest(value: object) -> str:
    """SHA-256 (hex) of the content of numbers, strings, arrays, dataclasses, and mappings and sequences of these.

    Examples
    --------
    >>> digest({"load": 0.5, "demand": np.zeros(2)}) == digest({"demand": np.zeros(2), "load": 0.5})
    True
    >>> digest(np.zeros(2)) == digest(np.zeros((2, 1)))
    False
    """
    found = hashlib.sha256()
    for piece in _pieces(value):
        found.update(len(piece).to_bytes(8, "little"))
        found.update(piece)
    return found.hexdigest()


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.shape} {value.dtype.str}".encode()
        yield json.dumps(value.tolist()).encode() if value.dtype.kind == "O" else np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value).__qualname__.encode()
        yield from _pieces({field.name: getattr(value, field.name) for field in fields(value)})
    elif isinstance(value, Mapping):
        yield f"{{{len(value)}}}".encode()
        for name in sorted(value):
            yield from _pieces(name)
            yield from _pieces(value[name])
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield f"[{len(value)}]".encode()
        for one in value:
            yield from _pieces(one)
    elif value is None or isinstance(value, str | bytes | int | float | np.generic | Path):
        yield repr(value).encode()
    else:
        raise TypeError(f"{type(value).__name__} has no digest")


@cache
def _code() -> str:
    """A digest of the code and the libraries that make what is kept."""
    found = hashlib.sha256()
    package = Path(__file__).parent
    for name in SOURCES:
        place = package / name
        for file in sorted(place.rglob("*")) if place.is_dir() else (place,):
            if file.suffix in (".py", ".json", ".gz"):
                found.update(file.read_bytes())
    for library in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found.update(version(library).encode())
    return found.hexdigest()


def _read(file: Path, read: Callable[[BinaryIO], T]) -> T | None:
    """What the file has; None if it is missing or damaged."""
    try:
        content = memoryview(file.read_bytes())
    except OSError:
        return None
    if _seal(content[SEAL:]) != content[:SEAL]:
        return None
    found = read(io.BytesIO(content[SEAL:]))
    with contextlib.suppress(OSError):
        os.utime(file)  # it was used now
    return found


def _seal(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=SEAL).digest()


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Wait until no other process makes the file; without effect where no lock can be had."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context((file.parent / f".{file.name}.lock").open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_room(folder: Path) -> None:
    """Remove what was used longest ago until the folder has at most `MOST_BYTES`."""
    found = sorted(((one.stat(), one) for one in folder.glob(f"*{ENDING}")), key=lambda pair: -pair[0].st_mtime)
    total = 0
    for about, one in found:
        total += about.st_size
        if total > MOST_BYTES:
            one.unlink(missing_ok=True)
            one.with_name(f".{one.name}.lock").unlink(missing_ok=True)
