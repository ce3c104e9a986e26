"""Run folders: their names, where a result came from, and files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tvwrl.types import InputError, summary

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LAST = Path("checkpoints/last.pt")  # of a training run: what it is resumed from
START = Path("checkpoints/start.pt")  # of a run of tvwrl learn-online: the policy that it began with
GENERATIONS = "generations"  # folder of a run of tvwrl train --moves: what each generation has learnt
OPTIONS = "config.yaml"  # of a training run: every option, as tvwrl train --config takes them
SEEDS = "seeds.json"  # of a folder with a training run for each of several seeds
RECORDED = ("tvwrl", "numpy", "numba", "gymnasium", "torch", "polars", "scikit-learn")


def is_disk_full(error: Exception) -> bool:
    """Whether an error says that the disk is full or a quota exhausted."""
    return isinstance(error, OSError) and error.errno in DISK_FULL


def check_new_folder(folder: Path) -> None:
    """Refuse a folder that already holds something, or is a file."""
    if folder.is_file():
        raise InputError(f"{folder} is a file: give a folder")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        advice = "give another folder, or remove this one"
        if any((folder / one).exists() for one in (LAST, GENERATIONS, SEEDS)):
            advice = f"continue its training ({how_to_continue(folder)}), {advice}"
        raise InputError(f"{folder} already exists and is not empty: {advice}")


def how_to_continue(folder: Path) -> str:
    """The command that continues the training run in a folder."""
    if (folder / GENERATIONS).is_dir():
        return shlex.join(["tvwrl", "train", "--moves", "--resume", str(folder)])
    command = "learn-online" if (folder / START).is_file() else "train"
    return shlex.join(["tvwrl", command, "--resume", str(folder)])


@dataclass(frozen=True, eq=False, repr=False)
class InFolder:
    """A result whose files are in a folder; if nobody named the folder, it is temporary and goes with this object.

    Parameters
    ----------
    folder : Path
        The folder of its files.
    _kept : TemporaryDirectory, optional
        Not for callers: removes a temporary folder together with this object; None: the folder is yours.
    """

    folder: Path
    _kept: TemporaryDirectory[str] | None

    def __repr__(self) -> str:
        return summary(self, folder=str(self.folder))

    def write(self, folder: str | Path) -> Path:
        """Copy all files to a new `folder`; returns it. Raises InputError if it is a file or not empty."""
        with whole_folder(Path(folder)) as partial:
            shutil.copytree(self.folder, partial, dirs_exist_ok=True)
        return Path(folder)


def folder_for(out: str | Path | None, name: str) -> tuple[Path, TemporaryDirectory[str] | None]:
    """The folder `out`, or if it is None `name` in a temporary folder, with what removes that one."""
    if out is not None:
        return Path(out).expanduser(), None
    kept = TemporaryDirectory(prefix="tvwrl-")
    return Path(kept.name) / name, kept


def default_folder(stem: str) -> Path:
    """`runs/<stem>-<timestamp>` below the current folder; a number is added until the name is free."""
    stem = re.sub(r"[^\w.+-]+", "-", stem).strip("-.") or "run"
    name = f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder, number = Path("runs") / name, 2
    while folder.exists():
        folder, number = Path("runs") / f"{name}-{number}", number + 1
    return folder


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else works on the folder within the block; the lock goes with the process, however that ends.

    Raises InputError if somebody does, in this process or another. The library filelock would leave a file beside
    every output folder.
    """
    lock, ours = folder.parent / f".{folder.name}.lock", False
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(folder.parent, os.W_OK):  # as where a volume is mounted: it has no room for a lock
        yield
        return
    while not ours:
        with lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{folder} is in use by another process: wait for it, or stop it") from None
            except OSError:  # a file system without locks
                pass
            with contextlib.suppress(FileNotFoundError):  # its last owner may have removed it meanwhile
                ours = os.path.samestat(lock.stat(), os.fstat(file.fileno()))
            if ours:
                try:
                    yield
                finally:
                    lock.unlink(missing_ok=True)


@contextlib.contextmanager
def in_turn(lock: Path) -> Iterator[None]:
    """One process at a time within the block; others wait for it. On a file system without locks nobody waits."""
    with lock.open("a") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _full_disk_names(path: Path) -> Iterator[None]:
    """Raise OSError with `path` where the disk is full or a quota exhausted: the errors of writing name no file."""
    try:
        yield
    except Exception as error:  # polars has errors of its own, with the system's words
        code = next((code for code in DISK_FULL if os.strerror(code) in str(error)), None)
        if code is None or getattr(error, "filename", None) is not None:
            raise
        raise OSError(code, os.strerror(code), str(path)) from error


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name if the block succeeds, and is removed if it does not.

    Raises OSError, naming `path`, if the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with _full_disk_names(path):
            yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_folder(folder: Path, within: Path | None = None) -> Iterator[Path]:
    """A temporary folder that takes the name `folder` if the block succeeds, and is removed if it does not.

    It lies beside `folder`, or in a folder `within` the same file system. Raises OSError, naming `folder`, if the disk
    is full.
    """
    check_new_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=within or folder.parent))
    partial.chmod(0o755)
    try:
        with _full_disk_names(folder):
            yield partial
        check_new_folder(folder)
        if folder.exists():
            folder.rmdir()
        os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file whole; numbers of numpy become numbers, paths text."""
    with whole_file(path) as partial:
        partial.write_text(json.dumps(content, indent=2, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table whole; its columns are those of all rows, in order of appearance. NaN is an empty field."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with whole_file(path) as partial, partial.open("w", newline="") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        table.writerows({name: "" if value != value else value for name, value in row.items()} for row in rows)


def read_csv(path: Path) -> list[dict[str, Any]]:
    """The rows of a table as text, so that writing them again changes nothing; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def provenance() -> dict[str, Any]:
    """Command, commit and versions behind a result."""
    versions = {"python": platform.python_version()}
    for name in RECORDED:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "commit": _commit(),
        "versions": versions,
        "cores": os.cpu_count(),
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _commit() -> str | None:
    """Commit of the checkout that the package lies in, with `+changes` if it was edited since, or None."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return None
