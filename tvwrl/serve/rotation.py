"""A file of lines that stays small: at a size it gets a number and a new one begins; the oldest are deleted."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

PARTS = 8  # of which the newest is being written
LINE = 64 * 1024  # bytes; more than any line has


class RotatingLines:
    """Appends lines of JSON to `file`, of which at most about `size` bytes are kept, in `PARTS` files.

    The newest has the name given; those before end in a number, which is larger for newer ones. A line that a killed
    process or a full disk left without its end is cut off, so that all lines of all parts are whole. What is no
    regular file, such as a pipe, is only written to.

    `failed`: called with why something could not be written, kept or deleted; never an exception
    """

    def __init__(self, file: Path, size: int, failed: Callable[[str], object] = str) -> None:
        """Raises OSError if the file cannot be opened."""
        self._file, self._most, self._failed = file, max(size // PARTS, 1), failed
        file.parent.mkdir(parents=True, exist_ok=True)
        self._stream = file.open("ab", buffering=0)
        self._regular = stat.S_ISREG(os.fstat(self._stream.fileno()).st_mode)
        self._size = _mended(file) if self._regular else 0

    def write(self, line: bytes) -> None:
        """Append a line, given without its end."""
        if self._stream.closed:
            return
        line += b"\n"
        if self._regular and self._size and self._size + len(line) > self._most:
            self._rotate()
        written, why = 0, os.strerror(errno.ENOSPC)
        try:
            written = self._stream.write(line) or 0
        except OSError as error:
            why = str(error.strerror)
        if written == len(line):
            self._size += written
            return
        self._failed(f"{self._file}: {why}")
        if self._regular and written:
            with suppress(OSError):
                os.ftruncate(self._stream.fileno(), os.fstat(self._stream.fileno()).st_size - written)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _rotate(self) -> None:
        """Go on in a new file; in the old one if there can be none."""
        number = max((number for number, _ in _numbered(self._file)), default=0) + 1
        kept = self._file.with_name(f"{self._file.name}.{number}")
        try:
            with suppress(FileNotFoundError):  # somebody took it away
                self._file.rename(kept)
            try:
                stream = self._file.open("ab", buffering=0)
            except OSError:
                kept.rename(self._file)
                raise
            self._stream.close()
            self._stream, self._size = stream, 0
            for _, old in _numbered(self._file)[: 1 - PARTS]:
                if old.is_file():
                    old.unlink()
        except OSError as error:
            self._failed(f"{self._file}: it cannot be rotated: {error.strerror}")


def read_lines(file: Path) -> Iterator[tuple[Path, int, str]]:
    """(part, line from 1, text) of all that `RotatingLines` keeps for `file`, the oldest first; without a last line
    that is still being written.

    Raises OSError and UnicodeDecodeError.
    """
    with file.open("rb") as newest:  # before the others are listed: it may get a number meanwhile
        for _, part in _numbered(file):
            with suppress(FileNotFoundError, IsADirectoryError), part.open("rb") as stream:  # deleted meanwhile
                if not os.path.sameopenfile(stream.fileno(), newest.fileno()):
                    yield from _whole(part, stream)
        yield from _whole(file, newest)


def _whole(part: Path, stream: BinaryIO) -> Iterator[tuple[Path, int, str]]:
    for number, line in enumerate(stream, 1):
        if line.endswith(b"\n") or _is_json(line):
            yield part, number, line.decode()


def _numbered(file: Path) -> list[tuple[int, Path]]:
    """Number and path of each older part, by number."""
    ends = [(path.name.removeprefix(f"{file.name}."), path) for path in file.parent.glob(f"{escape(file.name)}.*")]
    return sorted((int(end), path) for end, path in ends if end.isascii() and end.isdecimal())


def _mended(file: Path) -> int:
    """Bytes of a file, after what a killed process left behind its last whole line has been cut off."""
    with file.open("rb+") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - LINE, 0))
        last = stream.read().rpartition(b"\n")[2]
        if not last:
            return size
        if last.startswith(b"{") and not _is_json(last):
            return stream.truncate(size - len(last))
        return size + stream.write(b"\n")  # only its end is missing, or it is nothing of ours


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
