"""Downloads a published trace from its publisher's own address: resumes, retries, checks disk space and checksums."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from tqdm import tqdm

from tvwrl.traces.download import Client, Patience
from tvwrl.types import InputError


@dataclass(frozen=True)
class Table:
    """Where the files of one table lie; {part}, {number} (part + 1) and {cell} are filled in."""

    path: str  # below the folder that it is fetched to, and below the address of a mirror
    parts: int | None = 1  # files; None: as many as the server has
    default: bool = True  # whether it is fetched if no tables are named
    published_path: str = ""  # below the publisher's address, where that differs

    def names(self, number: int, cell: str) -> tuple[str, str]:
        """Path of part `number`, from 0: below the folder, and below the publisher's address."""
        local, remote = (
            path.format(part=number, number=number + 1, cell=cell) for path in (self.path, self.published_path)
        )
        return local, remote or local


@dataclass(frozen=True)
class Publisher:
    """A publisher's address and what lies there."""

    base: str
    page: str  # says what the trace is
    licence: str
    size: str  # for the user to read
    tables: Mapping[str, Table]
    checksums: str = ""  # SHA-256 list: path below the base address, or an address
    sha256: Mapping[str, str] = field(default_factory=dict)  # path: sum, where they are only given on a page
    cells: str = ""  # one letter each
    folder: str = ""  # below the folder that it is fetched to: what the next step reads


_PART = "/part-{part:05d}-of-00500.csv.gz"
_SHARD = "clusterdata_2019_{cell}/%s-{part:012d}.json.gz"
_READINGS = "vm_cpu_readings/vm_cpu_readings-file-{number}-of-195.csv.gz"
_ALIBABA_SHA256 = {  # as the page gives them
    "machine_meta": "b5b1b786b22cd413a3674b8f2ebfb2f02fac991c95df537f363ef2797c8f6d55",
    "container_meta": "febd75e693d1f208a8941395e7faa7e466e50d21c256eff12a815b7e2fa2053f",
    "container_usage": "b4bd3b1b82f5407c1b0dd47fe736ff5152c4b016a9c30cb26f988e2d1c5e5031",
    "machine_usage": "3e6ee87fd204bb85b9e234c5c75a5096580fdabc8f085b224033080090753a7a",
    "batch_task": "7c4b32361bd1ec2083647a8f52a6854a03bc125ca5c202652316c499fbf978c6",
    "batch_instance": "e73e5a9326669aa079ba20048ddd759383cabe1fe3e58620aa75bd034e2450c6",
}

# Taken from the publishers' pages and scripts (`page`) and from public programs that fetch these files. Not confirmed
# against the servers: how SHA256SUM of google2011 spells its paths, how many files a table of google2019 has, the
# address of azure2019 (its older list still names Azure Blob Storage) and that its files carry a digest there,
# the sizes of bitbrains.
PUBLISHERS: dict[str, Publisher] = {
    "google2011": Publisher(
        base="https://storage.googleapis.com/clusterdata-2011-2/",
        page="https://github.com/google/cluster-data/blob/master/ClusterData2011_2.md",
        licence="CC-BY 4.0",
        size="41 GB compressed, a part of task_usage about 90 MB",
        tables={
            "machine_events": Table("machine_events/part-00000-of-00001.csv.gz"),
            "job_events": Table("job_events" + _PART, 500),
            "task_events": Table("task_events" + _PART, 500),
            "task_usage": Table("task_usage" + _PART, 500),
        },
        checksums="SHA256SUM",
    ),
    "google2019": Publisher(
        base="https://storage.googleapis.com/",
        page="https://github.com/google/cluster-data/blob/master/ClusterData2019.md",
        licence="CC-BY 4.0",
        size="hundreds of GB per cell compressed, a part of instance_usage about 500 MB",
        tables={
            table: Table(_SHARD % table, None)
            for table in ("machine_events", "collection_events", "instance_events", "instance_usage")
        },
        cells="abcdefgh",
        folder="clusterdata_2019_{cell}",
    ),
    "alibaba2018": Publisher(
        base="https://aliopentrace.oss-cn-beijing.aliyuncs.com/v2018Traces/",
        page="https://github.com/alibaba/clusterdata/tree/master/cluster-trace-v2018",
        licence="for research and study",
        size="49 GB compressed: container_usage 28 GB, batch_instance 20 GB, machine_usage 1.7 GB, the others 0.1 GB",
        tables={
            table: Table(f"{table}.tar.gz", default=not table.startswith(("machine_usage", "batch")))
            for table in _ALIBABA_SHA256
        },
        sha256={f"{table}.tar.gz": stated for table, stated in _ALIBABA_SHA256.items()},
    ),
    # The publisher moved it from Azure Blob Storage to the assets of a release, which cannot have folders.
    "azure2019": Publisher(
        base="https://github.com/Azure/AzurePublicDataset/releases/download/dataset-v2/",
        page="https://github.com/Azure/AzurePublicDataset/blob/master/AzurePublicDatasetV2.md",
        licence="CC-BY 4.0",
        size="156 GB compressed: vmtable 0.4 GB, a part of vm_cpu_readings about 0.9 GB",
        tables={
            "vmtable": Table("vmtable/vmtable.csv.gz", published_path="trace_data_vmtable_vmtable.csv.gz"),
            "vm_cpu_readings": Table(
                _READINGS, 195, published_path="trace_data_vm_cpu_readings_" + _READINGS.partition("/")[2]
            ),
        },
        checksums="https://api.github.com/repos/Azure/AzurePublicDataset/releases/tags/dataset-v2",
    ),
    "bitbrains": Publisher(
        base="https://atlarge-research.com/gwa-traces/",
        page="https://atlarge-research.com/gwa-t-12/",
        licence="free to use if Bitbrains is acknowledged and the paper on the page cited",
        size="less than 1 GB compressed",
        tables={"fastStorage": Table("gwa_t_12_fastStorage.zip"), "rnd": Table("gwa_t_12_rnd.zip")},
    ),
}


def fetch(
    name: str,
    folder: Path,
    parts: str | None = None,
    tables: Sequence[str] | None = None,
    base_url: str | None = None,
    cell: str | None = None,
    report: Callable[[str], None] = tqdm.write,
    patience: Patience | None = None,
) -> list[Path]:
    """Download files of the trace `name` into `folder` and return their paths; those that are there are kept.

    `parts` are numbers of files from 0, as `0-9`, `0,3,7-8` or `all` (None: 0), for tables that come in several;
    `tables` names tables (None: those that the loader needs); `cell` is a letter for google2019 (None: a);
    `base_url` is a mirror that lays the files out as `folder` has them, with a SHA256SUM or without, or the publisher's
    own address; `report` is given lines for the user. Sizes are in bytes. An interrupted download leaves `<file>.part`,
    which is gone on from. Raises InputError for unknown names and parts, for a server that refuses or stays away, for a
    full disk and for a wrong checksum; it names the URL or file and what to do.
    """
    publisher, patience = _publisher(name), patience or Patience()
    chosen = _choose(name, publisher, tables, parts)
    cell = _check_cell(name, publisher, cell)
    base = _check_address(base_url) if base_url else publisher.base
    mirror = base != publisher.base
    _announce(name, publisher, chosen, parts, report)
    client = Client(report, patience)
    where = "SHA256SUM" if mirror else publisher.checksums
    sums = (client.read_sums(urljoin(base, where)) if where else {}) | dict(publisher.sha256)
    paths: list[Path] = []
    for table, numbers in chosen.items():
        for number in numbers:
            local, published = publisher.tables[table].names(number, cell)
            remote = local if mirror else published
            if number > 0 and not isinstance(numbers, Sequence) and not client.exists(base + remote):
                report(f"{table}: {number} parts are all that there are")
                break
            title = f"file {len(paths) + 1}{_total(chosen)}: {local}"
            client.fetch_file(base + remote, folder / local, _find_sum(sums, remote), title)
            paths.append(folder / local)
    return paths


def source_folder(name: str, folder: Path, cell: str | None = None) -> Path:
    """The folder that the loader reads after `fetch(name, folder, cell=cell)`."""
    publisher = _publisher(name)
    return folder / publisher.folder.format(cell=_check_cell(name, publisher, cell))


def split_cell(name: str, url: str) -> tuple[str, str | None]:
    """The address above the folder of a cell, and the cell, if `url` leads to such a folder; else `url` and None."""
    publisher, base = _publisher(name), _check_address(url)
    for cell in publisher.cells:
        above = base.removesuffix(publisher.folder.format(cell=cell) + "/")
        if above != base:
            return above, cell
    return url, None


def _publisher(name: str) -> Publisher:
    if name == "tianchi":
        raise InputError(
            "tianchi: the contest's data can only be had with an account; log in at "
            "https://tianchi.aliyun.com/competition/entrance/231663, download the zip by hand, "
            "and go on with: python scripts/prepare_trace.py tianchi --source FILE"
        )
    if name not in PUBLISHERS:
        raise InputError(f"unknown trace {name!r}: not one of {', '.join(PUBLISHERS)}, tianchi")
    return PUBLISHERS[name]


def _choose(
    name: str, publisher: Publisher, tables: Sequence[str] | None, parts: str | None
) -> dict[str, Iterable[int]]:
    """Numbers of the files to fetch, by table."""
    known = publisher.tables
    if unknown := [table for table in tables or () if table not in known]:
        raise InputError(f"{name} has no table {unknown[0]!r}: its tables are {', '.join(known)}")
    chosen = list(dict.fromkeys(tables or [table for table in known if known[table].default]))
    if parts not in (None, "all") and all(known[table].parts == 1 for table in chosen):
        raise InputError(f"{name}: {', '.join(chosen)} are not published in parts: leave --parts out")
    return {table: (0,) if known[table].parts == 1 else _numbers(name, known[table], parts) for table in chosen}


def _announce(
    name: str, publisher: Publisher, chosen: Iterable[str], parts: str | None, report: Callable[[str], None]
) -> None:
    report(f"{name}, {publisher.licence} ({publisher.page}): {publisher.size}")
    several = [table for table in chosen if publisher.tables[table].parts != 1]
    if parts is None and several:
        report(f"only the first part of {', '.join(several)}; give --parts 0-9, or all, for more")


def _total(chosen: Mapping[str, Iterable[int]]) -> str:
    """How many files it will be, where that is known."""
    lengths = [len(numbers) for numbers in chosen.values() if isinstance(numbers, Sequence)]
    return f" of {sum(lengths)}" if len(lengths) == len(chosen) else ""


def _numbers(name: str, table: Table, parts: str | None) -> Iterable[int]:
    if parts == "all":
        return itertools.count() if table.parts is None else range(table.parts)
    numbers: set[int] = set()
    limit = 100_000 if table.parts is None else table.parts
    for piece in ("0" if parts is None else parts).split(","):
        first, dash, last = (end.strip() for end in piece.partition("-"))
        if not (first.isdecimal() and (last.isdecimal() or not dash) and int(first) <= int(last or first)):
            raise InputError(f"parts are {parts!r}: must be like 0-9, or 0,3,7-8, or all")
        if int(last or first) >= limit:
            raise InputError(f"{name} has parts 0-{limit - 1}, counted from 0: there is no part {last or first}")
        numbers.update(range(int(first), int(last or first) + 1))
    return sorted(numbers)


def _check_cell(name: str, publisher: Publisher, cell: str | None) -> str:
    if cell is not None and (len(cell) != 1 or cell not in publisher.cells):
        cells = f"one of {', '.join(publisher.cells)}" if publisher.cells else "left out: this trace has no cells"
        raise InputError(f"{name}: cell is {cell!r}: must be {cells}")
    return cell or publisher.cells[:1]


def _check_address(url: str) -> str:
    with contextlib.suppress(ValueError):  # a port that is no number
        split = urlsplit(url)
        well_formed = split.scheme in ("http", "https") and split.hostname and split.port != 0
        if well_formed and url.isascii() and url.isprintable() and " " not in url:
            return url.rstrip("/") + "/"
    raise InputError(f"base URL is {url!r}: must be like https://host/folder")


def _find_sum(sums: Mapping[str, str], path: str) -> str | None:
    return next((stated for name, stated in sums.items() if name == path or name.endswith("/" + path)), None)
