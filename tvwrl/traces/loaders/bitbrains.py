"""Bitbrains GWA-T-12: VMs of business-critical applications, fastStorage and Rnd, one file per VM and month."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

from tvwrl.deferring import deferred
from tvwrl.input_tables import no_column
from tvwrl.traces.preparation.files import files_of, header_of, parts_of, zip_members
from tvwrl.traces.preparation.layout import YEAR_10000, Column, Table, usage_column
from tvwrl.traces.preparation.loader import HOW_TO_GET, Extras, Loader, Part, Rows, not_found
from tvwrl.traces.preparation.reading import read_parquet, read_table

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")

FILES = 50  # VMs read at a time
MILLISECONDS = 100_000_000_000  # a time above this is in milliseconds, below in seconds
SLOT = 300_000_000  # microseconds; slot of the Parquet file
MHZ, KB = 1e3, 1e6  # roughly a small machine: the unit of the limit on usage and capacities
PUBLISHED = {  # titles of the columns, in lower case: the blanks and brackets differ between months
    "time": "timestamp",
    "cores": "cpu cores",
    "cap": "cpu capacity provisioned",
    "cpu": "cpu usage [mhz]",
    "memcap": "memory capacity provisioned",
    "mem": "memory usage [kb]",
}
USAGE = Table(
    fields=("month", "vm", "slot", "cpu", "mem"),
    columns=(
        *(Column("month", str), Column("vm", int), Column("slot", int)),
        *(usage_column("cpu", 10_000), usage_column("mem", 10_000)),
    ),
)
TIME = Column("time", lowest=0, rules=(("is beyond all dates", lambda value: value > YEAR_10000 * 1000),))
CAPACITY = (usage_column("cap", MHZ, optional=True), usage_column("memcap", KB, optional=True))
META = Table(
    fields=("month", "vm", "cores", "cap", "memcap"),
    columns=(
        *(Column("month", str), Column("vm", int), Column("cores", optional=True, lowest=0)),
        *CAPACITY,
    ),
    header=True,
)


@dataclass(frozen=True)
class Bitbrains(Loader):
    """Bitbrains GWA-T-12 (fastStorage, Rnd): folders or zips of one CSV per VM, or a Parquet file of them."""

    name: ClassVar[str] = "bitbrains"
    sample_seconds: ClassVar[int] = 300
    keys: ClassVar[tuple[str, ...]] = ("month", "vm")
    reference_machine: ClassVar[str] = (
        "the largest CPU capacity and the largest memory capacity of a VM in the data (capacities.parquet); "
        "the VM's own capacity where capacities are not known"
    )

    def parts(self, source: str) -> list[Part]:
        """Files of some VMs each, first for their usage, then for their capacities; or a Parquet file and its meta."""
        tables = parts_of("usage", files_of(source, ["*.parquet"]))
        if tables:
            return tables + parts_of("meta", files_of(source, ["*_meta.csv", "*_meta.csv.gz"]), usage=False)
        folders = _folders(source)
        if not folders:
            raise not_found(source, "<month>/<vm>.csv", HOW_TO_GET)
        months = _months(folders)
        bundles: list[tuple[str, int, tuple[Any, ...]]] = []  # folder, bytes, and month, time of the newest, names
        for place, files in sorted(folders.items()):
            files.sort()
            for i in range(0, len(files), FILES):
                names, sizes, times = zip(*files[i : i + FILES], strict=True)
                bundles.append((place, sum(sizes), (months[place], max(times), *names)))
        return [
            Part(table, f"{table}-{i:05d}", place, size, table == "vms", detail)
            for table in ("vms", "capacity")
            for i, (place, size, detail) in enumerate(bundles)
        ]

    def read(self, part: Part) -> Rows:
        """Usage in MHz and KB, or of the Parquet as fractions of the VM's own capacity; capacities of VMs."""
        if part.table == "usage":  # in hundredths of a percent
            rows = read_parquet(part, USAGE)
            begin = pl.col("slot") * SLOT
            usage = [pl.col(name) / 10_000 for name in ("cpu", "mem")]
            rows.frame = rows.frame.select("month", "vm", *usage, begin=begin, end=begin + SLOT)
            return rows
        if part.table == "meta":
            rows = read_table(part, META)
            rows.frame = _capacities([rows.frame])
            return rows
        total, frames = Rows(pl.DataFrame(), 0), []
        for name in part.detail[2:]:
            rows = _read_vm(part, f"{part.source}/{name}", int(name.removesuffix(".csv")))
            frames.append(rows.frame)
            if part.usage:  # the same rows are read for the capacities
                total.count(rows)
        total.frame = pl.concat(frames) if part.usage else _capacities(frames)
        return total

    def workloads(self, facts: dict[str, pl.DataFrame]) -> pl.DataFrame | None:
        """Request: the VM's capacity, as a fraction of the largest there is."""
        if not facts:
            return None
        known = _capacities([*facts.values()]).rename({"number": "vm"})
        absolute = "capacity" in facts  # usage is in MHz and KB, not of the VM's own capacity
        columns = []
        for name, column in (("cpu", "cap"), ("mem", "memcap")):
            own = pl.when(pl.col(column) > 0).then(pl.col(column))
            columns.append((own / own.max()).alias(f"request_{name}"))
            columns.append(((1 if absolute else own) / own.max()).alias(f"scale_{name}"))
        return known.select(*self.keys, *columns)

    def extras(self, source: str) -> Extras:
        """`capacities` of VMs: month, vm, cores, cap (MHz), memcap (KB); the largest that each VM ever has."""
        facts = [self.read(part).frame for part in self.parts(source) if not part.usage]
        return Extras({"capacities": _capacities(facts).rename({"number": "vm"})} if facts else {})


def _folders(source: str) -> dict[str, list[tuple[str, int, int]]]:
    """Name, bytes and time of modification of the files <vm>.csv of each folder of a month; of zips if there are none.

    A folder in a zip is "archive.zip::folder".
    """
    found: dict[str, list[tuple[str, int, int]]] = {}
    for path in files_of(source, ["*.csv"]):
        if path.stem.isdigit():
            state = path.stat()
            found.setdefault(str(path.parent.resolve()), []).append((path.name, state.st_size, state.st_mtime_ns))
    if found:
        return found
    for archive in files_of(source, ["*.zip"]):
        for member in zip_members(archive):
            name = PurePosixPath(member.filename)
            if name.suffix == ".csv" and name.stem.isdigit() and len(name.parts) > 1:
                found.setdefault(f"{archive}::{name.parent}", []).append((name.name, member.file_size, 0))
    return found


def _months(places: Collection[str]) -> dict[str, str]:
    """A name for each folder of a month: the folder's own, with "rnd-" before it if its group or archive is Rnd.

    VMs of fastStorage and Rnd have the same numbers, so folders that would still share a name are named by the part of
    their paths that differs.
    """
    months, paths = {}, {}
    for place in places:
        archive, archived, _ = place.partition("::")
        paths[place] = PurePosixPath(place.replace(".zip::", "/").replace("::", "/"))
        group = f"{paths[place].parent.name} {PurePosixPath(archive).name if archived else ''}"
        months[place] = f"rnd-{paths[place].name}" if "rnd" in group.lower() else paths[place].name
    for month, count in Counter(months.values()).items():
        if count > 1:
            alike = [place for place in places if months[place] == month]
            common = os.path.commonpath([paths[place] for place in alike])
            months |= {place: "-".join(paths[place].relative_to(common).parts) for place in alike}
    return months


def _read_vm(part: Part, place: str, number: int) -> Rows:
    """The usage of one VM, whose file is at `place`, or its largest capacities."""
    titles = [title.lower() for title in header_of(place, ";")] or list(PUBLISHED.values())  # none: an empty file
    fields = [next((n for n, start in PUBLISHED.items() if t.startswith(start)), f"{t} (not read)") for t in titles]
    for field, title in PUBLISHED.items():
        if fields.count(field) != 1 and field != "cores":
            raise no_column(place, title, titles)
    cores = [Column("cores", optional=True, lowest=0)] if "cores" in fields else []
    columns = [*cores, *CAPACITY]
    if part.usage:  # with the capacities, so that bad ones are counted
        columns += [TIME, usage_column("cpu", MHZ), usage_column("mem", KB)]
    rows = read_table(Part(part.table, "", place, 0), Table(tuple(fields), tuple(columns), ";", header=True))
    keys = [pl.lit(part.detail[0]).alias("month"), pl.lit(number, pl.Int64)]
    if not part.usage:
        largest = [pl.col(column.name).max() for column in columns]
        known = rows.frame.select(keys[0], keys[1].alias("number"), *largest)
        rows.frame = known.head(len(rows.frame))  # of a file without rows nothing is known
        return rows
    unit = pl.when(pl.col("time") > MILLISECONDS).then(1_000).otherwise(1_000_000)
    moment = (pl.col("time") * unit).round().cast(pl.Int64)
    times = [moment.alias("begin"), moment.alias("end")]
    rows.frame = rows.frame.select(keys[0], keys[1].alias("vm"), *times, "cpu", "mem")
    return rows


def _capacities(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """One row per VM: month, number, cores, cap (MHz), memcap (KB), each the largest there is.

    Its number is not called vm, so that every share of the workloads gets all VMs and finds the same largest.
    """
    renamed = [frame.rename({"vm": "number"}, strict=False) for frame in frames]
    together = pl.concat(renamed, how="diagonal")
    if "cores" not in together.columns:
        together = together.with_columns(pl.lit(None, pl.Float64).alias("cores"))
    largest = [pl.col(name).max() for name in ("cores", "cap", "memcap")]
    return together.group_by("month", "number", maintain_order=True).agg(*largest)
