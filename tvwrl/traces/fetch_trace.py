"""Downloads a published trace from its publisher or a mirror: which files, to where. How: `http_download`."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import tyro

from tvwrl.progress import say
from tvwrl.traces.catalogue import data_folder
from tvwrl.traces.http_download import Client
from tvwrl.traces.http_requests import RetryPolicy, is_address
from tvwrl.traces.publishers import Table, publisher_of
from tvwrl.types import InputError


@dataclass(frozen=True)
class FetchOptions:
    """Download a published trace from its publisher's own address.

    Without --parts, it downloads only the first part of each table that has several, and all of the small tables
    with facts about machines and workloads. An interrupted download continues where it stopped when the same command
    is run again; complete files are kept.
    """

    name: tyro.conf.Positional[str]
    """google2011, google2019, alibaba2018, azure2019 or bitbrains."""
    parts: str | None = None
    """Parts to download, counted from 0: 0-9, or 0,3,7-8, or all; default: 0."""
    tables: tuple[str, ...] = ()
    """Tables to download; default: those that the loader needs. The error for an unknown name lists all."""
    cell: str | None = None
    """Cell of google2019, a to h; default: a."""
    out: Path | None = None
    """Output folder; default: raw/<name> in TVWRL_DATA (~/.cache/tvwrl if that is not set)."""
    base_url: str | None = None
    """Address of a mirror with the same layout as --out, with or without a SHA256SUM, e.g.
    <base-url>/task_usage/part-00000-of-00500.csv.gz for google2011; docs/reference/loaders.md lists the files of every
    trace."""

    @property
    def folder(self) -> Path:
        """The folder to download to."""
        return self.out or data_folder() / "raw" / self.name

    @property
    def source(self) -> Path:
        """The folder that the loader reads afterwards."""
        publisher = publisher_of(self.name)
        return self.folder / publisher.folder.format(cell=self.checked_cell())

    def checked_cell(self) -> str:
        """The letter of the cell, "" for a trace without cells. Raises InputError for a cell that there is not."""
        cells = publisher_of(self.name).cells
        if self.cell is not None and (len(self.cell) != 1 or self.cell not in cells):
            needed = f"one of {', '.join(cells)}" if cells else "left out: this trace has no cells"
            raise InputError(f"{self.name}: cell is {self.cell!r}: must be {needed}")
        return self.cell or cells[:1]

    def files(self) -> dict[str, Iterable[int]]:
        """Numbers of the files to fetch, by table. Raises InputError for tables and parts that there are not."""
        known = publisher_of(self.name).tables
        if unknown := [table for table in self.tables if table not in known]:
            raise InputError(f"{self.name} has no table {unknown[0]!r}: its tables are {', '.join(known)}")
        chosen = list(dict.fromkeys(self.tables or [table for table in known if known[table].default]))
        if self.parts not in (None, "all") and all(known[table].parts == 1 for table in chosen):
            raise InputError(f"{self.name}: {', '.join(chosen)} are not published in parts: leave --parts out")
        return {table: (0,) if known[table].parts == 1 else self._numbers(known[table]) for table in chosen}

    def _numbers(self, table: Table) -> Iterable[int]:
        if self.parts == "all":
            return itertools.count() if table.parts is None else range(table.parts)
        numbers: set[int] = set()
        limit = 100_000 if table.parts is None else table.parts
        for piece in ("0" if self.parts is None else self.parts).split(","):
            first, dash, last = (end.strip() for end in piece.partition("-"))
            if not (first.isdecimal() and (last.isdecimal() or not dash) and int(first) <= int(last or first)):
                raise InputError(f"parts are {self.parts!r}: must be like 0-9, or 0,3,7-8, or all")
            if int(last or first) >= limit:
                there = f"parts 0-{limit - 1}, counted from 0"
                raise InputError(f"{self.name} has {there}: there is no part {last or first}")
            numbers.update(range(int(first), int(last or first) + 1))
        return sorted(numbers)


def fetch(options: FetchOptions, report: Callable[[str], None] = say, retries: RetryPolicy | None = None) -> list[Path]:
    """Download the files that the options ask for and return their paths; those that are there are kept.

    `report` receives lines for the user. An interrupted download leaves `<file>.part`, from which the next one goes on.
    Raises InputError for unknown names and parts, for a server that refuses or stays away, for a full disk and for a
    wrong checksum; it names the URL or file and what to do.

    >>> paths = fetch(FetchOptions("google2011", parts="0-9", out=Path("raw")))  # doctest: +SKIP
    """
    name, publisher, chosen, cell = options.name, publisher_of(options.name), options.files(), options.checked_cell()
    base = _check_address(options.base_url) if options.base_url else publisher.base
    mirror = base != publisher.base
    report(f"{name}, {publisher.licence} ({publisher.page}): {publisher.size}")
    several = [table for table in chosen if publisher.tables[table].parts != 1]
    if options.parts is None and several:
        report(f"only the first part of {', '.join(several)}; give --parts 0-9, or all, for more")
    client = Client(report, retries or RetryPolicy())
    where = "SHA256SUM" if mirror else publisher.checksums
    sums = (client.read_sums(urljoin(base, where)) if where else {}) | dict(publisher.sha256)
    lengths = [len(numbers) for numbers in chosen.values() if isinstance(numbers, Sequence)]
    total = f" of {sum(lengths)}" if len(lengths) == len(chosen) else ""
    paths: list[Path] = []
    for table, numbers in chosen.items():
        for number in numbers:
            local, published = publisher.tables[table].names(number, cell)
            remote = local if mirror else published
            if number > 0 and not isinstance(numbers, Sequence) and not client.exists(base + remote):
                report(f"{table}: {number} parts are all that exist")
                break
            title = f"file {len(paths) + 1}{total}: {local}"
            client.fetch_file(base + remote, options.folder / local, _find_sum(sums, remote), title)
            paths.append(options.folder / local)
    return paths


def fetch_and_report(options: FetchOptions, report: Callable[[str], object] = print) -> None:
    """Download the files that the options ask for, and pass `report` the command that prepares them."""
    try:
        paths = fetch(options)
    except KeyboardInterrupt:
        say(f"run the same command again to continue; the downloaded part is in {options.folder}")
        raise
    report(f"{len(paths)} {'file' if len(paths) == 1 else 'files'} in {options.folder}; next:")
    report(f"tvwrl prepare {options.name} --source {shlex.quote(str(options.source))}")


def split_cell(name: str, url: str) -> tuple[str, str | None]:
    """The address above the folder of a cell, and the cell, if `url` leads to such a folder; else `url` and None."""
    publisher, base = publisher_of(name), _check_address(url)
    for cell in publisher.cells:
        above = base.removesuffix(publisher.folder.format(cell=cell) + "/")
        if above != base:
            return above, cell
    return url, None


def _check_address(url: str) -> str:
    if not is_address(url):
        raise InputError(f"base URL is {url!r}: must be like https://host/folder")
    return url.rstrip("/") + "/"


def _find_sum(sums: Mapping[str, str], path: str) -> str | None:
    return next((stated for name, stated in sums.items() if name == path or name.endswith("/" + path)), None)
