"""Which files a source holds, in which pieces they are read, and what is in a piece."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import hashlib
import io
import itertools
import shutil
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from tqdm import tqdm

from tvwrl.input_tables import DAMAGE, decoded, refuse_spreadsheet_line, unreadable
from tvwrl.runs import whole_folder
from tvwrl.traces.preparation.loader import Part
from tvwrl.types import InputError

PIECE = 64 << 20  # bytes of text that are read at a time, so that memory does not grow with a file
PIECE_ROWS = 1_000_000  # rows of Parquet that are read at a time
ROW = 48  # bytes counted per row of Parquet, whatever its compression
BLOCK = 2 << 20  # bytes that are looked at together where a piece has bad rows


def files_of(source: str | Path, patterns: Sequence[str]) -> list[Path]:
    """Files below `source` (or itself) that match one of the patterns, sorted by name.

    Ignores hidden files, and a file.gz beside the unpacked file with a warning.
    """
    root = Path(source)
    if root.is_file():
        return [root] if any(root.match(pattern) for pattern in patterns) else []
    found = {path for pattern in patterns for path in root.rglob(pattern) if path.is_file()}
    seen = []
    for path in sorted(found):
        if path.suffix == ".gz" and path.with_suffix("") in found:
            warnings.warn(f"{path} is not read: {path.stem} is in the same folder", stacklevel=1)  # once, whoever asks
        elif not any(name.startswith(".") for name in path.relative_to(root).parts):
            seen.append(path)
    return seen


def zip_members(path: Path) -> list[zipfile.ZipInfo]:
    """What a zip holds. Raises InputError for a damaged one."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except (OSError, zipfile.BadZipFile) as error:
        raise _broken_archive(path, error) from None


def tables_of(source: str | Path, table: str) -> list[Path]:
    """Text files of a published table: in a folder of its name, or with the name in front."""
    return files_of(source, [f"{table}{place}.csv{packed}" for place in ("/*", "*") for packed in ("", ".gz")])


def parts_of(table: str, files: Sequence[Path], usage: bool = True) -> list[Part]:
    """The files of a table, large ones in pieces: ranges of bytes that end with a line, or of rows of Parquet."""
    parts = []
    for i, path in enumerate(files):
        name, spans, unit = f"{table}-{i:05d}", _spans(path), ROW if path.suffix == ".parquet" else 1
        if len(spans) < 2:
            size = max(path.stat().st_size, unit * spans[0][1] if spans else 0)
            parts.append(Part(table, name, str(path), size, usage))
            continue
        for k, span in enumerate(spans):
            parts.append(Part(table, f"{name}-{k:04d}", str(path), unit * (span[1] - span[0]), usage, span=span))
    return parts


def _spans(path: Path) -> list[tuple[int, int]]:
    """The pieces of a file; one or none if it is read in one go, as what is packed always is."""
    if path.suffix in (".gz", ".zip"):
        return []
    if path.suffix == ".parquet":
        import polars as pl

        try:
            rows = int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return []  # damaged: its reader refuses it
        return [(begin, min(begin + PIECE_ROWS, rows)) for begin in range(0, rows, PIECE_ROWS)]
    size, ends = path.stat().st_size, [0]
    with path.open("rb") as file:
        while ends[-1] < size:
            file.seek(min(ends[-1] + PIECE, size))
            file.readline()
            ends.append(file.tell())
    return list(itertools.pairwise(ends))


@contextlib.contextmanager
def open_bytes(source: str) -> Iterator[IO[bytes]]:
    """The content of a file, unpacked: plain, .gz, or a member of a zip ("archive.zip::member")."""
    path, _, member = source.partition("::")
    if member:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            yield file
    elif path.endswith(".gz"):
        with gzip.open(path) as unpacked:
            yield unpacked  # type: ignore[misc]
    else:
        with Path(path).open("rb") as file:
            yield file


def text_of(part: Part) -> str | bytes:
    """What polars is to read: the path of a file, or the bytes of a piece or of a member of a zip."""
    if part.span is None and "::" not in part.source:
        return part.source
    with _open_piece(part) as file:
        return file.read()


@contextlib.contextmanager
def _open_piece(part: Part) -> Iterator[IO[bytes]]:
    with open_bytes(part.source) as file:
        if part.span is None:
            yield file
        else:
            file.seek(part.span[0])
            yield io.BytesIO(file.read(part.span[1] - part.span[0]))


def blocks_of(part: Part, quoted: bool = False) -> Iterator[tuple[int, bytes]]:
    """The text of a part in blocks of whole rows of about BLOCK bytes, each with the number of lines before it.

    A row of a `quoted` table can have line ends between quotes. Raises InputError for a damaged file. The mark that
    UTF-8 may begin with is no part of the text.
    """
    line, rest = 0, b""
    if part.span is not None:
        left = part.span[0]
        with open_bytes(part.source) as file:
            while left:
                chunk = file.read(min(left, BLOCK))
                line += chunk.count(b"\n")
                left -= len(chunk)
    try:
        with _open_piece(part) as file:
            while chunk := file.read(BLOCK):
                rest += chunk if rest or line else chunk.removeprefix(codecs.BOM_UTF8)
                end = rest.rfind(b"\n") + 1
                if not end and len(rest) > 2 * BLOCK:
                    limit = f"longer than {2 * BLOCK >> 20} MiB"
                    raise InputError(f"{part.source}: line {line + 1} is {limit}: not a {part.table} file")
                if not end or (quoted and rest.count(b'"', 0, end) % 2):
                    continue
                block, rest = rest[:end], rest[end:]
                yield line, block
                line += block.count(b"\n")
            if rest:
                yield line, rest
    except DAMAGE as error:
        lines = _whole_lines(part.source)
        raise unreadable(part.source, f" past line {lines}" if lines else "", error) from None


def _whole_lines(source: str) -> int:
    """How many lines of a damaged file can be read, from its beginning."""
    lines = 0
    with contextlib.suppress(*DAMAGE), open_bytes(source) as file:
        for _ in file:
            lines += 1
    return lines


def _broken_archive(path: Path, error: BaseException) -> InputError:
    """What is wrong with an archive. One without content is refused: it should hold a whole table."""
    if not path.stat().st_size:
        return InputError(f"{path}: empty: an archive of 0 bytes; download it again, or remove it")
    if isinstance(error, zipfile.BadZipFile):
        return InputError(f"{path}: not a zip, or truncated: {error}")
    return unreadable(str(path), "", error)


def header_of(source: str, separator: str = ",") -> list[str]:
    """The names in the first line of a file, none if it is empty.

    Raises InputError for a damaged file, and where names are missing or repeated.
    """
    try:
        with open_bytes(source) as binary:
            first = decoded(source, 0, binary.readline()).removeprefix("\ufeff")
            blank = not first.strip()
            if blank and not any(line.strip() for line in binary):
                return []
    except DAMAGE as error:
        raise unreadable(source, "", error) from None
    if blank:
        raise InputError(f"{source}: line 1 is blank: it must hold the names of the columns")
    refuse_spreadsheet_line(source, first, separator)
    if "\0" in first or "\r" in first.rstrip("\r\n"):
        raise InputError(f"{source}: line 1 holds null bytes or carriage returns: not a text file with line feeds")
    names = [name.strip() for name in next(csv.reader([first], delimiter=separator))]
    if len(set(names)) < len(names):
        raise InputError(f"{source}: line 1: two columns have the same name: {', '.join(names)}")
    return names


ARCHIVES = (".tar.gz", ".tgz")
ROWS = 4_000_000  # most rows of a .gz that are read in one go; more are unpacked. A part of Google 2011 has 2.4 million
TEXT = 1 << 30  # most bytes of text in a .gz read in one go, for tables with long rows
SAMPLE = 1 << 20  # bytes at the beginning of a .gz from which its size is estimated
CHUNK = 8 << 20  # bytes that are copied at a time


def as_given(text: str, names: Mapping[str, str]) -> str:
    """Some text with the `names` from `unpack`: of what the user has, not of what was unpacked."""
    for unpacked, given in names.items():
        text = text.replace(unpacked, given)
    return text


def unpack(source: str, work: Path) -> tuple[str, dict[str, str]]:
    """The folder to read instead of `source`, and how what begins the paths in it is called where it comes from.

    It is `source` itself, if nothing in it has to be unpacked, else a folder in `work` with the unpacked files and
    links to all others, both below it as they are below `source`. What is there of other archives, or of older versions
    of these, is removed. Raises InputError for a damaged archive.
    """
    files = files_of(source, ["*"])
    archives = {path for path in files if path.name.endswith(ARCHIVES)}
    plain = [path for path in files if path not in archives]
    for archive in sorted(archives):  # is what is in table.tar.gz there, as table.csv or in a folder of that name?
        table = archive.name.partition(".")[0]
        inside = archive.parent / table
        there = [p for p in plain if p.name in (f"{table}.csv", f"{table}.csv.gz") or p.is_relative_to(inside)]
        if there:
            warnings.warn(f"{archive} is not read: {there[0]} is there already", stacklevel=2)
            archives.remove(archive)
    packed = archives | {path for path in plain if path.suffix == ".gz" and _is_large(path)}
    if not packed:
        return source, {}
    root, folder = Path(source), work / "unpacked"
    root = root.parent if root.is_file() else root
    stores = {}  # for what is in a file: another one when the file has changed
    for path in sorted(packed):
        state = path.stat()
        key = f"{path.relative_to(root)} {state.st_size} {state.st_mtime_ns}"
        stores[path] = folder / f"{path.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
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
    names: dict[str, str] = {}
    for path, store in stores.items():
        place = store / path.relative_to(root).parent
        names |= {f"{place}/": f"{path}::"} if path in archives else {str(place / path.stem): str(path)}
    names |= {str(folder / "links"): str(root), str(folder): str(root)}
    return str(only[0] if Path(source).is_file() and len(only) == 1 else folder), names


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
                inside = [part for part in PurePosixPath(member.name).parts if part not in ("/", "..")]
                name = str(PurePosixPath(*inside))
                if (path.parent / name).is_file():
                    warnings.warn(f"{path}: {name} in it is not read: it is there already", stacklevel=3)
                elif content := tar.extractfile(member) if member.isfile() else None:
                    _copy(content, folder / name)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _broken_archive(path, error) from None


def _copy(content: IO[bytes], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    bar = tqdm(desc=f"unpacking {path.name}", unit="B", unit_scale=True, disable=None, leave=False)
    with path.open("wb") as file, bar:
        while chunk := content.read(CHUNK):
            file.write(chunk)
            bar.update(len(chunk))
