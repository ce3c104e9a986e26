"""A file of lines that stays small: at a size it gets a number and a new one begins; the oldest are deleted."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

PARTS = 8  # of which the newest is being written


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
        why = "No space left on device"
        try:
            if (self._stream.write(line) or 0) == len(line):
                self._size += len(line)
                return
        except OSError as error:
            why = error.strerror
        self._failed(f"{self._file}: {why}")
        if self._regular:
            with suppress(OSError):  # of a line that was written in part
                os.ftruncate(self._stream.fileno(), self._size)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _rotate(self) -> None:
        """Go on in a new file; in the old one if there can be none."""
        numbers = [number for number, _ in _numbered(self._file)]
        kept = self._file.with_name(f"{self._file.name}.{max(numbers, default=0) + 1}")
        try:
            self._file.rename(kept)
            try:
                stream = self._file.open("ab", buffering=0)
            except OSError:
                kept.rename(self._file)
                raise
            self._stream.close()
            self._stream, self._size = stream, 0
            for _, old in _numbered(self._file)[: 1 - PARTS]:
                old.unlink()
        except OSError as error:
            self._failed(f"{self._file}: it cannot be rotated: {error.strerror}")


def parts(file: Path) -> Sequence[Path]:
    """The files that `RotatingLines` keeps for `file`, the oldest first; `file` itself, whether it exists or not, last.

    >>> [part.name for part in parts(Path("decisions.jsonl"))]
    ['decisions.jsonl']
    """
    return [*(path for _, path in _numbered(file)), file]


def _numbered(file: Path) -> list[tuple[int, Path]]:
    """Number and path of each older part, by number."""
    ends = ((path.name.removeprefix(f"{file.name}."), path) for path in file.parent.glob("*"))
    return sorted((int(end), path) for end, path in ends if end.isascii() and end.isdecimal() and path.is_file())


def _mended(file: Path) -> int:
    """Bytes of a file, after what a killed process left behind its last whole line has been cut off."""
    with file.open("rb+") as stream:
        size = end = stream.seek(0, os.SEEK_END)
        tail = b""
        while end and b"\n" not in tail:
            begin = max(end - 65536, 0)
            stream.seek(begin)
            tail, end = stream.read(end - begin) + tail, begin
        last = tail.rpartition(b"\n")[2]
        if not last:
            return size
        with suppress(ValueError, RecursionError):
            json.loads(last)
            return size + stream.write(b"\n") if stream.seek(0, os.SEEK_END) else size
        return stream.truncate(size - len(last))
