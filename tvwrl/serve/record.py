"""The record of what was decided and where pods really went: lines of JSON, for `tvwrl what-if --record`."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

from tvwrl.serve.deciding import Decision
from tvwrl.serve.watching import Observed

PARTS = 8  # of which the newest is being written
LINE = 64 * 1024  # bytes; more than any line has
AWAITED = 20_000  # decisions that wait for their pod to appear in the metrics


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


class Record:
    """Remembers decisions until their pods appear in the metrics; appends both to `file` where there is one.

    `size`: bytes of the record that are kept at most: see `RotatingLines`
    `seen`: called with "as_decided" or "other" for every decided pod that appears on a node
    `failed`: called with why a line could not be written; pods are scheduled all the same
    """

    def __init__(
        self,
        file: Path | None,
        seen: Callable[[str], object],
        failed: Callable[[str], object] = str,
        clock: Callable[[], float] = time.time,
        size: int = 256 * 2**20,
    ) -> None:
        self._seen, self._clock = seen, clock
        self._awaited: OrderedDict[str, tuple[str, str | None]] = OrderedDict()  # uid -> pod, node
        self._lock = threading.Lock()
        self._lines = None if file is None else RotatingLines(file, size, failed)

    def decided(self, decision: Decision) -> None:
        """Keep a decision; of a pod that asks again, the last one counts."""
        with self._lock:
            pod, decided = decision.pod, (decision.pod.key, decision.node)
            known = self._awaited.pop(pod.uid, None)
            self._awaited[pod.uid] = decided
            while len(self._awaited) > AWAITED:
                self._awaited.popitem(last=False)
            if known != decided:
                self._write(pod.uid, *decided)

    def observed(self, observed: Observed) -> None:
        """Say of every awaited pod that runs now whether it is where it was to go."""
        with self._lock:
            running = observed.runs({uid: key for uid, (key, _) in self._awaited.items()})
            for uid, row in running.items():
                if observed.node[row] < 0:
                    continue
                key, node = self._awaited.pop(uid)
                placed = observed.nodes[observed.node[row]]
                if node is not None:
                    self._seen("as_decided" if node == placed else "other")
                self._write(uid, key, node, placed=placed)

    def close(self) -> None:
        """Close the file."""
        if self._lines is not None:
            self._lines.close()

    def _write(self, uid: str, pod: str, node: str | None, **facts: str) -> None:
        if self._lines is not None:
            line = {"time": round(self._clock(), 3), "pod": pod, "uid": uid, "node": node, **facts}
            self._lines.write(json.dumps(line).encode())
