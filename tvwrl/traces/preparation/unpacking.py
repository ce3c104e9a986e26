"""Cuts the tables inside .tar.gz archives into compressed files of whole lines, so that they are read side by side."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tqdm import tqdm

from tvwrl.runs import whole_folder
from tvwrl.traces.preparation.reading import files_of
from tvwrl.types import InputError

BLOCK = 256 << 20  # bytes of text in a file


def unpack(source: str, work: Path) -> str:
    """The folder to read instead of `source`: itself, if it holds no .tar.gz.

    Else a folder in `work` with links to the other files and, for each member `a/table.csv` of an archive, a folder
    `table` of files of about `BLOCK` bytes. Raises InputError for a damaged archive.
    """
    archives = files_of(source, ["*.tar.gz", "*.tgz"])
    if not archives:
        return source
    for path in files_of(source, ["*"]):
        link = work / "unpacked" / "links" / path.name
        if path not in archives and not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path.resolve())
    for archive in archives:
        folder = work / "unpacked" / f"{archive.name}-{archive.stat().st_mtime_ns}"
        if not folder.exists():
            with whole_folder(folder) as partial:
                _unpack(archive, partial)
    return str(work / "unpacked")


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isfile() else None
                if content is not None:
                    _cut(content, folder / Path(member.name).name.partition(".")[0], member.size)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{archive}: truncated or damaged: {error}") from None


def _cut(content: IO[bytes], folder: Path, size: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tqdm(total=size, desc=f"unpacking {folder.name}", unit="B", unit_scale=True, disable=None, leave=False) as bar:
        for i, block in enumerate(_blocks(content)):
            with gzip.open(folder / f"part-{i:05d}.csv.gz", "wb", compresslevel=1) as file:
                file.write(block)
            bar.update(len(block))


def _blocks(content: IO[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines."""
    rest = b""
    while chunk := content.read(BLOCK):
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            yield rest + head + newline
            rest = tail
        else:
            rest += chunk
    if rest:
        yield rest
