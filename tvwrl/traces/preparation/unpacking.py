"""Unpacks what cannot be read in pieces: .tar.gz archives, and large .gz files of text."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tarfile
import warnings
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from tqdm import tqdm

from tvwrl.runs import whole_folder
from tvwrl.traces.preparation.files import files_of
from tvwrl.types import InputError

ARCHIVES = (".tar.gz", ".tgz")
ROWS = 4_000_000  # most rows of a .gz that are read in one go; more are unpacked. A part of Google 2011 has 2.4 million
TEXT = 1 << 30  # most bytes of text in a .gz read in one go, for tables with long rows
SAMPLE = 1 << 20  # bytes at the beginning of a .gz from which its size is estimated
CHUNK = 8 << 20  # bytes that are copied at a time


def unpack(source: str, work: Path) -> str:
    """The folder to read instead of `source`: itself, if nothing in it has to be unpacked.

    Else a folder in `work` with the unpacked files and links to all others, both below it as they are below `source`.
    What is there of other archives, or of older versions of these, is removed. Raises InputError for a damaged archive.
    """
    files = files_of(source, ["*"])
    archives = {path for path in files if path.name.endswith(ARCHIVES)}
    plain = [path for path in files if path not in archives]
    archives -= {path for path in archives if _is_unpacked(path, plain)}
    packed = archives | {path for path in plain if path.suffix == ".gz" and _is_large(path)}
    if not packed:
        return source
    root, folder = Path(source), work / "unpacked"
    root = root.parent if root.is_file() else root
    stores = {path: folder / _stamp(path.relative_to(root), path) for path in sorted(packed)}
    for found in folder.iterdir() if folder.exists() else ():
        if found not in stores.values():
            shutil.rmtree(found)
    for path in set(plain) - packed:
        link = folder / "links" / path.relative_to(root)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path.resolve())
    for path, store in stores.items():
        if not store.exists():
            with whole_folder(store) as partial:
                _unpack(path, partial / path.relative_to(root).parent)
    only = [found for found in folder.rglob("*") if found.is_file()]
    return str(only[0] if Path(source).is_file() and len(only) == 1 else folder)


def _stamp(name: Path, path: Path) -> str:
    """Name of a folder for what is in a file, another one when the file has changed."""
    state = path.stat()
    key = hashlib.sha256(f"{name} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()[:12]
    return f"{path.name}-{key}"


def _is_unpacked(archive: Path, files: list[Path]) -> bool:
    """Whether what is in table.tar.gz lies among the other files, as table.csv or in a folder of that name."""
    table = archive.name.partition(".")[0]
    names = {f"{table}.csv", f"{table}.csv.gz"}
    there = [path for path in files if path.name in names or path.is_relative_to(archive.parent / table)]
    if there:
        warnings.warn(f"{archive} is not read: {there[0]} is there already", stacklevel=3)
    return bool(there)


def _is_large(path: Path) -> bool:
    """Whether a .gz holds so much text, estimated from its beginning, that it must be read in pieces."""
    size = path.stat().st_size
    try:
        with path.open("rb") as raw, gzip.open(raw) as file:
            text = file.read(SAMPLE)
            packed = raw.tell()
    except (OSError, EOFError, zlib.error):
        return False  # its reader reports the cause
    return max(len(text) / TEXT, text.count(b"\n") / ROWS) * size > packed


def _unpack(path: Path, folder: Path) -> None:
    try:
        if not path.name.endswith(ARCHIVES):
            with gzip.open(path) as file:
                _copy(file, folder / path.stem)  # type: ignore[arg-type]
            return
        with tarfile.open(path, "r|gz") as tar:
            for member in tar:
                name = _inside(member.name)
                if (path.parent / name).is_file():
                    warnings.warn(f"{path}: {name} in it is not read: it is there already", stacklevel=3)
                elif content := tar.extractfile(member) if member.isfile() else None:
                    _copy(content, folder / name)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{path}: truncated or damaged: {error}") from None


def _inside(name: str) -> str:
    """The path of a member of an archive without what would lead out of a folder."""
    return str(PurePosixPath(*(part for part in PurePosixPath(name).parts if part not in ("/", ".."))))


def _copy(content: IO[bytes], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    bar = tqdm(desc=f"unpacking {path.name}", unit="B", unit_scale=True, disable=None, leave=False)
    with path.open("wb") as file, bar:
        while chunk := content.read(CHUNK):
            file.write(chunk)
            bar.update(len(chunk))
