"""Alibaba Tianchi scheduling contest of 2018: applications, affinity, deployment, machines, and batch jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from tvwrl.checks import positive
from tvwrl.deferring import deferred
from tvwrl.traces.canonical import LARGEST_USAGE
from tvwrl.traces.preparation.files import files_of, zip_members
from tvwrl.traces.preparation.layout import Column, Rule, Table, alike, drop_bad, usage_column
from tvwrl.traces.preparation.loader import Extras, Loader, Part, Rows, newest_facts, not_found
from tvwrl.traces.preparation.reading import read_table
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")

POINTS = 98  # points of a series
STEP = 900_000_000  # microseconds between two points
CORES, MEMORY = 92.0, 288.0  # of the contest's largest machines, cores and GiB
TABLE = re.compile(
    r"(?:.*?_)??(?:(?P<before>[a-e])_)?"  # scheduling_preliminary_b_app_resources_20180726.csv
    r"(?P<table>app_resources|app_interference|instance_deploy|machine_resources|job_info)"
    r"(?:\.(?P<after>[a-e]))?(?:_\d+)?\.csv(?:\.gz)?"  # job_info.a.csv
)
LIMITS = ("disk", "P", "M", "PM")  # disk in GiB; numbers of instances of kinds P, M and both

APP_RESOURCES = Table(
    fields=("application", "cpu", "mem", *LIMITS),
    columns=(*alike("application", "cpu", "mem", kind=str), *alike(*LIMITS, lowest=0)),
)
MACHINES = Table(
    fields=("machine", "cpu", "mem", *LIMITS),
    columns=(Column("machine", str), *(usage_column(name, 1000) for name in ("cpu", "mem", *LIMITS))),
)
AFFINITY = Table(("app_a", "app_b", "k"), (*alike("app_a", "app_b", kind=str), Column("k", int, lowest=0)))
DEPLOYMENT = Table(
    fields=("instance", "application", "machine"),
    columns=(*alike("instance", "application", kind=str), Column("machine", str, optional=True)),
    loose=True,
)
LINES = Table(("line",), (Column("line", str),), separator="\x1f")  # rows of any number of fields
STORED = {"machine_resources": MACHINES, "app_interference": AFFINITY, "instance_deploy": DEPLOYMENT}
NAMES = {"machine_resources": "machines", "app_interference": "affinity", "instance_deploy": "deployment"}
NAMES |= {"job_info": "tasks"}
JOB_COLUMNS = (
    *(*alike("job", "task", kind=str), Column("number", int)),
    *alike("cpu", "mem", "instances", "minutes", lowest=0),
)


@dataclass(frozen=True)
class Tianchi(Loader):
    """Alibaba Tianchi contest of 2018: the zip, or a folder; affinity, deployment, machines and jobs are stored too."""

    per: Literal["application", "instance"] = "application"
    """A workload is an application, or each instance of the deployment, with the series of its application."""
    data_set: str | None = None
    """Letter of the deployment, machines and jobs to use; default: the first one found of each."""
    reference_cores: float | None = None
    """Cores of the reference machine; default: the largest in machine_resources, 92 without that table."""
    reference_memory: float | None = None
    """Memory of the reference machine, GiB; default: the largest in machine_resources, 288 without that table."""

    name: ClassVar[str] = "tianchi"
    slot_seconds: ClassVar[int] = 900
    min_records: ClassVar[int] = POINTS

    def __post_init__(self) -> None:
        positive(reference_cores=self.reference_cores, reference_memory=self.reference_memory)

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that name a workload."""
        return (self.per,)

    @property
    def reference_machine(self) -> dict[str, float]:
        """What 1.0 means: cores, and GiB."""
        return {"cpu": self.reference_cores or CORES, "mem": self.reference_memory or MEMORY}

    def at(self, source: str) -> Tianchi:
        """With the largest machine of machine_resources as the reference."""
        largest: dict[str, float] = {}
        if "machine_resources" in (parts := self._tables(source)):
            machines = read_table(parts["machine_resources"], MACHINES).frame
            largest = machines.select("cpu", "mem").max().row(0, named=True)
        cores, memory = (largest.get(name) or default for name, default in (("cpu", CORES), ("mem", MEMORY)))
        cores, memory = self.reference_cores or cores, self.reference_memory or memory
        return replace(self, reference_cores=cores, reference_memory=memory)

    def parts(self, source: str) -> list[Part]:
        """The series, and the workloads they belong to."""
        found = self._tables(source)
        if "app_resources" not in found:
            raise not_found(source, "app_resources*.csv or zip with it", FETCH)
        if self.per == "application":
            return [found["app_resources"], replace(found["app_resources"], name="applications", usage=False)]
        if "instance_deploy" not in found:
            raise not_found(source, "instance_deploy*.csv, which --per instance needs,", FETCH)
        deployment = found["instance_deploy"]
        detail = (deployment.source, *deployment.stamp)
        return [replace(found["app_resources"], detail=detail), replace(deployment, usage=False)]

    def read(self, part: Part) -> Rows:
        """The series as fractions of the reference machine, or which applications or instances there are."""
        if part.table == "instance_deploy":
            rows = read_table(part, DEPLOYMENT)
            rows.frame = rows.frame.select("instance", "application")
            return rows
        if not part.usage:  # these rows are counted with the usage
            return Rows(read_table(part, APP_RESOURCES).frame.select("application"), 0)
        lists = tuple(_list_column(name, unit) for name, unit in self.reference_machine.items())
        columns = (APP_RESOURCES.columns[0], *lists, *APP_RESOURCES.columns[3:])
        rows = read_table(part, replace(APP_RESOURCES, columns=columns))
        usage = [_points(pl.col(name)) / unit for name, unit in self.reference_machine.items()]
        series = rows.frame.select("application", *usage)
        if self.per == "instance":
            instances = read_table(Part("instance_deploy", "", part.detail[0], 0), DEPLOYMENT).frame
            series = instances.select("instance", "application").join(series, on="application").drop("application")
        begin = (pl.int_range(pl.len()) % POINTS * STEP).alias("begin")
        frame = series.explode(self.resources).with_columns(begin, (begin + STEP).alias("end"))
        rows.frame = frame.select(*self.keys, "begin", "end", *self.resources)
        return rows

    def workloads(self, facts: dict[str, pl.DataFrame]) -> pl.DataFrame | None:
        """The application of each workload."""
        known = facts["app_resources" if self.per == "application" else "instance_deploy"]
        return known.group_by(self.keys, maintain_order=True).agg(newest_facts(known, self.keys, ("application",)))

    def extras(self, source: str) -> Extras:
        """Machines, applications with their number of replicas, affinity, deployment and tasks: what there is of them.

        Units: cpu in cores, mem and disk in GiB, k in instances of app_b that may be beside app_a.
        """
        found = self._tables(source)
        rows = {table: read_table(found[table], layout) for table, layout in STORED.items() if table in found}
        if "job_info" in found:
            rows["job_info"] = _tasks(found["job_info"])
        tables = {NAMES[table]: those.frame for table, those in rows.items()}
        if "app_resources" in found:
            applications = read_table(found["app_resources"], APP_RESOURCES).frame.select("application", *LIMITS)
            replicas = pl.lit(None, pl.Int64).alias("replicas")  # unknown without a deployment
            if "deployment" in tables:
                counts = tables["deployment"].group_by("application").agg(pl.len().cast(pl.Int64).alias("replicas"))
                applications = applications.join(counts, on="application", how="left", maintain_order="left")
                replicas = pl.col("replicas").fill_null(0)
            tables["applications"] = applications.select("application", replicas, *LIMITS)
        parts = {"app_resources", "instance_deploy" if self.per == "instance" else ""}
        return Extras(tables, {table: those for table, those in rows.items() if table not in parts})

    def _tables(self, source: str) -> dict[str, Part]:
        """The first file of each table with the letter asked for; those beside app_resources come first."""
        files = sorted(_files(source), key=lambda file: (file[1], file[2].source))
        letters = sorted({letter for _, letter, _ in files} - {""})
        if self.data_set is not None and letters and self.data_set not in letters:
            raise InputError(f"{source}: no data set '{self.data_set}' here; there are: {', '.join(letters)}")
        files = [file for file in files if self.data_set is None or file[1] in ("", self.data_set)]
        main = next((_archive_or_folder(part) for table, _, part in files if table == "app_resources"), "")
        tables: dict[str, Part] = {}
        for table, _, part in sorted(files, key=lambda file: _archive_or_folder(file[2]) != main):
            tables.setdefault(table, part)
        return tables


FETCH = "download it with a browser, from https://tianchi.aliyun.com/competition/entrance/231663 (it needs an account)"


def _files(source: str) -> Iterator[tuple[str, str, Part]]:
    """Table, letter ("" for none) and part of every file named like one of the contest's, also inside zips."""
    for path in files_of(source, ["*.csv", "*.csv.gz", "*.zip"]):
        members = [(path.name, str(path), path.stat().st_size)]
        if path.suffix == ".zip":
            listed = zip_members(path)
            members = [(Path(m.filename).name, f"{path}::{m.filename}", m.compress_size) for m in listed]
        for name, place, size in members:
            if match := TABLE.fullmatch(name):
                table = match["table"]
                yield table, match["before"] or match["after"] or "", Part(table, table, place, size)


def _archive_or_folder(part: Part) -> str:
    """The archive or folder that a file is in."""
    path, archived, _ = part.source.partition("::")
    return path if archived else str(Path(path).parent)


def _points(text: pl.Expr) -> pl.Expr:
    """The numbers of a list in text; null where one cannot be read."""
    return text.str.split("|").list.eval(pl.element().str.strip_chars().cast(pl.Float64, strict=False))


def _list_column(name: str, unit: float) -> Column:
    """A column with lists of POINTS numbers, of which `unit` make one reference machine."""
    value, highest = pl.element(), LARGEST_USAGE * unit

    def any_point(text: pl.Expr, wrong: pl.Expr) -> pl.Expr:
        return _points(text).list.eval(wrong).list.any()

    rules: tuple[Rule, ...] = (
        (f"has not {POINTS} points", lambda text: _points(text).list.len() != POINTS),
        ("is not a number", lambda text: any_point(text, value.is_null() | ~value.is_finite())),
        ("is negative", lambda text: any_point(text, value < 0)),
        (f"is above {highest:g}", lambda text: any_point(text, value > highest)),
    )
    return Column(name, str, rules=rules)


def _tasks(part: Part) -> Rows:
    """job, task (its name), number, predecessors (numbers of tasks of the job), cpu, mem, instances, minutes.

    cpu (cores), mem (GiB) and minutes are those of one instance.
    """
    rows = read_table(part, LINES)
    fields = pl.col("line").str.strip_chars().str.split(",")
    task = fields.list.get(0)
    number = pl.element().str.extract(r"-(\d+)$").cast(pl.Int64)
    numbers = [
        fields.list.get(i + 1, null_on_oob=True).cast(pl.Float64, strict=False).alias(column.name)
        for i, column in enumerate(JOB_COLUMNS[3:])
    ]
    rows.frame = rows.frame.select(
        task.str.extract(r"^(.+)-\d+$").alias("job"),
        task.alias("task"),
        task.str.extract(r"-(\d+)$").cast(pl.Int64).alias("number"),
        fields.list.slice(5).list.eval(number).list.drop_nulls().alias("predecessors"),
        *numbers,
    )
    rows = drop_bad(rows, part.source, Table(tuple(rows.frame.columns), JOB_COLUMNS))
    rows.frame = rows.frame.with_columns(pl.col("instances").cast(pl.Int64))
    return rows
