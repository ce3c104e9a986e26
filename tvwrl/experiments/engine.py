"""The loop that completes the cells of every experiment: finished cells are checked and used again, missing ones run.

An experiment is a list of cells. `OUT/cells/<name>/` holds what a cell left. `cell.json` in it says what was asked for;
at the end it lists the files, which makes the cell finished. Without that list the cell was interrupted and runs again.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tvwrl.checks import at_least
from tvwrl.markdown import markdown_table
from tvwrl.parallel import run_calls
from tvwrl.progress import Report, say, ticking
from tvwrl.runs import is_disk_full, locked, provenance, write_json
from tvwrl.types import InputError

Rows = list[dict[str, Any]]
ENOUGH = 3  # ends of cells that tell how long the others may take
CELLS, MANIFEST, ROWS, ERROR = "cells", "cell.json", "rows.json", "error.txt"


class Cell(ABC):
    """One measurement that is made once and kept: a frozen dataclass whose fields say what is asked for.

    Example: one scheduler on one drawn problem, of one seed.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Its folder below `OUT/cells`; different for all cells of an experiment."""

    @property
    def group(self) -> str:
        """Cells of a group run one after another in one process, where caches can share what is expensive to make."""
        return self.name

    def request(self) -> dict[str, Any]:
        """Everything the result depends on, compared field by field before a result is used.

        Values as JSON can hold them, and paths: a file counts by its content, a folder by the names and sizes of its
        files.
        """
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @abstractmethod
    def run(self, folder: Path) -> None:
        """Leave the result in the folder, which may hold what an interrupted attempt left.

        Parameters
        ----------
        folder : Path
            Where to leave it; the folder is there.
        """

    def check(self, folder: Path) -> None:  # noqa: B027 most cells leave nothing that needs it
        """Refuse a finished result that cannot be used.

        Parameters
        ----------
        folder : Path
            The folder of the finished cell.

        Raises
        ------
        InputError
            If the result cannot be used. That no file changed is checked already.
        """

    def progress(self, folder: Path) -> str:
        """How far an unfinished cell is, in a few words.

        Parameters
        ----------
        folder : Path
            The folder of the cell.
        """
        return "begun" if folder.exists() else ""


class RowsCell(Cell):
    """A cell whose result is rows of a table."""

    @abstractmethod
    def measure(self) -> Rows:
        """The rows; values are None, bool, int, float (NaN too) or str, and come back as such."""

    def run(self, folder: Path) -> None:
        """Measure, and keep the rows."""
        write_json(folder / ROWS, self.measure())

    def check(self, folder: Path) -> None:
        """Raise InputError if there are no rows."""
        if not (folder / ROWS).is_file():
            raise InputError(f"{folder / ROWS} is missing: remove {folder} to make it again")


LONGEST = 200  # bytes of a folder's name; most file systems allow 255


def as_folder(name: str) -> str:
    """A name as that of a single folder, in the name of a cell: what names a file has slashes.

    >>> as_folder("spread + machine-value=../value.npz")
    'spread + machine-value=..%2Fvalue.npz'
    """
    found = name.replace("%", "%25").replace("/", "%2F")
    if len(found.encode()) <= LONGEST:
        return found
    return f"{found[: LONGEST // 4]}...{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def folder_of(out: Path, cell: Cell) -> Path:
    """Where a cell's result is kept."""
    return out / CELLS / cell.name


def is_finished(out: Path, cell: Cell) -> bool:
    """Whether a cell's result is there. Raises InputError, naming it, where it is damaged, or was made or begun for
    another request."""
    folder = folder_of(out, cell)
    if not (folder / MANIFEST).is_file():
        return False
    again = f"remove {folder} to make it again"
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        made, digests = dict(manifest["request"]), manifest.get("files")
        digests = None if digests is None else dict(digests)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{folder / MANIFEST} is damaged ({error}): {again}") from error
    check_request(folder, made, cell.request())
    if digests is None:
        return False
    for name, digest in digests.items():
        if not (folder / name).is_file():
            raise InputError(f"{folder / name} is missing: {again}")
        if _digest(folder / name) != digest:
            raise InputError(f"{folder / name} is damaged (it changed after it was written): {again}")
    cell.check(folder)
    return True


class AnotherRequest(InputError):
    """What a folder holds was made or begun for a request that differs from the one asked."""


def check_request(folder: Path, made: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raise AnotherRequest, naming the fields, where what is asked differs from what the folder was `made` for."""
    if found := ", ".join(_differences(_plain(made), _plain(asked))):
        raise AnotherRequest(
            f"{folder} was made for another request: {found}; give another --out, or remove {folder} to make it again"
        )


def read_cell_rows(out: Path, cells: Sequence[Cell]) -> Rows:
    """The rows that finished cells left, in order. Raises InputError for a cell that is missing or damaged."""
    found: Rows = []
    for cell in cells:
        if not is_finished(out, cell):
            raise InputError(f"{folder_of(out, cell)} is not finished")
        found += json.loads((folder_of(out, cell) / ROWS).read_text(encoding="utf-8"))
    return found


def complete(
    out: Path,
    cells: Sequence[Cell],
    workers: int = 1,
    ray: str | None = None,
    report: Report = say,
    deadline: float = math.inf,
) -> dict[str, str]:
    """Run the cells that are missing in the folder `out`, `workers` groups at a time in processes, or on the Ray
    cluster at `ray`.

    A cell that another process works on fails, unless it is finished when all others have ended. A full disk (OSError),
    KeyboardInterrupt and SystemExit end everything, with every finished cell kept.

    Parameters
    ----------
    out : Path
        The folder of the experiment; its `cells/` holds what is finished.
    cells : Sequence[Cell]
        What to measure; equal ones are measured once.
    workers : int, default 1
        Groups of cells that are measured in parallel, >= 1.
    ray : str, optional
        Address of a Ray cluster to work on; default: this machine.
    report : Report, default say
        Called with a line of progress now and then, and with one for each failure.
    deadline : float, default math.inf
        When the last cell may begin, in the seconds of `time.time()`.

    Returns
    -------
    dict[str, str]
        Name -> error of the cells that failed, whose traceback is in `error.txt` of their folders. All others are
        finished, but for those that were not begun by the deadline.

    Raises
    ------
    InputError
        Before anything runs, if a finished cell was made for another request.
    """
    cells = distinct(cells)
    failed: dict[str, str] = {}
    missing = [cell for cell in cells if not _usable(out, cell, failed)]
    for name, error in failed.items():
        report(f"{name}: {error}")
    groups: dict[str, list[Cell]] = {}
    for cell in missing:
        groups.setdefault(cell.group, []).append(cell)
    lost, ends, begun = 0, [(0, 0.0)], time.monotonic()
    with ticking("cells", report, total=len(missing), unit="cell") as bar:
        if bar.disable and missing:  # no terminal, but a log that should show that work goes on
            several = f"{len(missing)} cells; the first may take longer, as it prepares what the others use too"
            report(f"measuring {several if len(missing) > 1 else missing[0].name}")
        for own, errors in _outcomes(out, list(groups.values()), workers, ray, deadline, bar.set_postfix_str):
            bar.update(len(own))
            failed |= errors
            for name, error in errors.items():
                report(f"{name}: failed: {error}")
            lost += len(errors)
            ends.append((ends[-1][0] + len(own), time.monotonic() - begun))
            if bar.disable:
                report(f"{_so_far(ends, len(missing), lost)}: {own[-1].name}")
    # Another run in this folder may have finished cells that were locked here.
    return {cell.name: failed[cell.name] for cell in cells if cell.name in failed and not _finished_by_now(out, cell)}


def _so_far(ends: Sequence[tuple[int, float]], total: int, failed: int) -> str:
    """How many cells have ended and failed, and how long the others may take; `ends`: cells that had ended after so
    many seconds, from (0, 0) on."""
    ended, seconds = ends[-1]
    text = f"{ended} of {total} cells ended in {tqdm.format_interval(seconds)}"
    if failed:
        text += f", {failed} failed"
    if len(ends) > ENOUGH and ended < total:
        first, prepared = ends[1]  # which may have prepared what all others need, so it tells nothing about them
        left = (seconds - prepared) / (ended - first) * (total - ended)
        text += f", about {tqdm.format_interval(left)} left"
    return text


def damaged(out: Path, cells: Sequence[Cell]) -> dict[str, str]:
    """Name -> error of the cells whose result is damaged. Raises InputError if one was made for another request."""
    found: dict[str, str] = {}
    for cell in distinct(cells):
        _usable(out, cell, found)
    return found


def refuse_failed(failed: Mapping[str, str]) -> None:
    """Raise InputError, naming each cell, if cells failed."""
    if failed:
        raise InputError("; ".join(f"cell {name}: {error}" for name, error in failed.items()))


def distinct(cells: Sequence[Cell]) -> list[Cell]:
    """Each cell once, in order of appearance. Raises InputError if two that differ have one name."""
    found: dict[str, Cell] = {}
    for cell in cells:
        if found.setdefault(cell.name, cell) != cell:
            raise InputError(f"two different cells have the name {cell.name}: measure them in separate folders (--out)")
    return list(found.values())


def overview(out: Path, cells: Sequence[Cell]) -> str:
    """Markdown: what of the cells is finished, begun, damaged or missing in `out`."""
    lines, finished = [], 0
    for cell in distinct(cells):
        try:
            done = is_finished(out, cell)
            state = "finished" if done else cell.progress(folder_of(out, cell))
            finished += done
        except InputError as error:
            state = str(error)
        lines.append([cell.name, state])
    return f"{markdown_table(['cell', 'state'], lines)}\n\n{finished} of {len(lines)} cells are finished"


@dataclass(frozen=True)
class CellOptions:
    """Where results are kept, and how many cells run at once."""

    out: Path | None = None
    """Output folder; default: runs/<name>-<timestamp>. Give the same folder again to continue an interrupted
    command."""
    workers: int = 1
    """How many trainings or evaluations run at the same time, each in its own process."""
    ray: str | None = None
    """Ray cluster to run on: HOST:PORT, auto or local; all its machines must share --out."""
    dry_run: bool = False
    """Only list what would be measured, and what --out already has."""

    def check_run(self) -> None:
        """Raise InputError for values out of range."""
        at_least(1, workers=self.workers)

    def complete(self, out: Path, cells: Sequence[Cell], deadline: float = math.inf) -> dict[str, str] | None:
        """Complete the cells and print how to continue; returns name -> error of those that failed (`engine.complete`).

        With `dry_run` it only prints which are finished, and returns None.
        """
        cells = distinct(cells)
        if self.dry_run:
            print(overview(out, cells))
            return None
        given = list(sys.argv)
        if not any(word.partition("=")[0] in ("--out", "--resume") for word in given):
            given += ["--out", str(out)]
        again = shlex.join(given)
        say(f"{len(cells)} cells in {out}; if stopped, continue with:\n  {again}")
        try:
            return complete(out, cells, self.workers, self.ray, deadline=deadline)
        except (KeyboardInterrupt, SystemExit):
            say(f"stopped; continue with:\n  {again}")
            raise


def _usable(out: Path, cell: Cell, failed: dict[str, str]) -> bool:
    """Whether there is nothing left to run; a damaged cell is noted in `failed`, as nobody asked to replace it."""
    try:
        return is_finished(out, cell)
    except AnotherRequest:
        raise
    except InputError as error:
        failed[cell.name] = str(error)
        return True


def _finished_by_now(out: Path, cell: Cell) -> bool:
    """Whether a cell that failed here is finished all the same."""
    try:
        return is_finished(out, cell)
    except InputError:
        return False


def _outcomes(
    out: Path,
    groups: Sequence[Sequence[Cell]],
    workers: int,
    ray: str | None,
    deadline: float,
    show: Callable[[str], None],
) -> Iterator[tuple[Sequence[Cell], dict[str, str]]]:
    """Cells and the errors of those that failed: cell by cell in this process, else group by group as they end.

    `show` gets the name of a cell that begins in this process.
    """
    if workers == 1 and not ray:
        for own in _until(deadline, ([cell] for group in groups for cell in group)):
            show(own[0].name)
            yield own, _complete_group(out, own)
        return
    calls = ((_complete_group, (out, group)) for group in _until(deadline, groups))
    for position, errors in run_calls(calls, workers, ray, processes=True, keep_going=True):
        if isinstance(errors, Exception):  # its process died: what it had finished stays
            if is_disk_full(errors):
                raise errors
            died, errors = str(errors), {}
            errors |= {cell.name: died for cell in groups[position] if not _usable(out, cell, errors)}
        yield groups[position], errors


def _until(deadline: float, groups: Iterable[Sequence[Cell]]) -> Iterator[Sequence[Cell]]:
    return takewhile(lambda group: time.time() < deadline, groups)


def _complete_group(out: Path, cells: Sequence[Cell]) -> dict[str, str]:
    """Run cells that share a process; name -> error of those that failed."""
    errors: dict[str, str] = {}
    for cell in cells:
        try:
            with locked(out / CELLS / cell.group):
                _complete_cell(cell, out)
        except Exception as error:
            if is_disk_full(error):  # so would all others
                raise
            errors[cell.name] = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    return errors


def _complete_cell(cell: Cell, out: Path) -> None:
    """Run a cell whose lock is ours, so that nobody else works in its folder; leave the traceback there if it fails."""
    folder = folder_of(out, cell)
    try:
        if is_finished(out, cell):  # another run in this folder was quicker
            return
        begun = time.monotonic()
        request = {"request": _plain(cell.request())}
        write_json(folder / MANIFEST, request)
        cell.run(folder)
        cell.check(folder)
        (folder / ERROR).unlink(missing_ok=True)
        files = {
            path.relative_to(folder).as_posix(): _digest(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != MANIFEST
        }
        made = provenance()
        facts = {name: made[name] for name in ("commit", "cores", "written")} | {"seconds": time.monotonic() - begun}
        write_json(folder / MANIFEST, request | facts | {"files": files})
    except Exception as error:
        if not is_disk_full(error):
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / ERROR).write_text(traceback.format_exc(), encoding="utf-8")
        raise


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain(request: Mapping[str, Any]) -> dict[str, Any]:
    """As it reads back from JSON; a path counts by what lies there, not by how it is spelled."""
    content: dict[str, Any] = json.loads(json.dumps(request, default=_content))
    return content


def _content(value: object) -> str:
    if not isinstance(value, Path) or not value.exists():
        return str(value)
    if value.is_file():
        return _file_content(value, value.stat().st_mtime_ns, value.stat().st_size)
    files = sorted(
        (path.relative_to(value).as_posix(), path.stat().st_size) for path in value.rglob("*") if path.is_file()
    )
    return f"folder {hashlib.sha256(json.dumps(files).encode()).hexdigest()}"


@lru_cache(maxsize=64)
def _file_content(path: Path, modified: int, size: int) -> str:
    """The digest of a file; cached, so that a file is read again only after it has changed."""
    return f"file {_digest(path)}"


def _differences(made: Mapping[str, Any], asked: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """`field is A there, here B`, with dots between the names of nested fields."""
    for name in dict.fromkeys((*made, *asked)):
        found, wanted = made.get(name), asked.get(name)
        if isinstance(found, dict) and isinstance(wanted, dict):
            yield from _differences(found, wanted, f"{within}{name}.")
        elif found != wanted and not (found != found and wanted != wanted):  # NaN is not equal to itself
            yield f"{within}{name} is {found} there, {wanted} here"
