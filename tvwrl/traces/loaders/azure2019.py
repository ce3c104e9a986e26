"""Azure public dataset V2 (VMs of 2019): vmtable and vm_cpu_readings. It records CPU only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tvwrl.checks import positive
from tvwrl.deferring import deferred
from tvwrl.traces.preparation.files import parts_of, tables_of
from tvwrl.traces.preparation.layout import Column, Table, alike, usage_column
from tvwrl.traces.preparation.loader import CONTRADICTS, HOW_TO_GET, Loader, Part, Rows, newest_facts, not_found
from tvwrl.traces.preparation.reading import read_table

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")

INTERVAL = 300_000_000  # microseconds covered by a reading
OPEN_BUCKETS = {"vmcorecountbucket": {">24": "30"}, "vmmemorybucket": {">64": "70"}}  # as the publisher takes them
CATEGORIES = {"Delay-insensitive": 0.0, "Interactive": 1.0}


def _size(bucket: str) -> pl.Expr:
    """A bucket as a number; null if it is not one above 0."""
    size = pl.col(bucket).replace(OPEN_BUCKETS[bucket]).cast(pl.Float64, strict=False)
    return pl.when((size > 0) & size.is_finite()).then(size)


def _size_column(bucket: str) -> Column:
    return Column(bucket, str, rules=(("is not a number above 0", lambda _: _size(bucket).is_null()),))


READINGS = Table(
    fields=("timestamp", "vmid", "mincpu", "maxcpu", "avgcpu"),
    columns=(Column("timestamp", int, lowest=0), Column("vmid", str), usage_column("avgcpu", 100)),
)
VMTABLE = Table(
    fields=(
        *("vmid", "subscriptionid", "deploymentid", "vmcreated", "vmdeleted", "maxcpu", "avgcpu", "p95maxcpu"),
        *("vmcategory", *OPEN_BUCKETS),
    ),
    columns=(
        *(Column("vmid", str), *alike("deploymentid", "vmcategory", kind=str, optional=True)),
        *map(_size_column, OPEN_BUCKETS),
    ),
)


@dataclass(frozen=True)
class Azure2019(Loader):
    """Azure VM trace of 2019 (public dataset V2): vmtable.csv.gz and vm_cpu_readings-file-*-of-195.csv.gz, no header.

    A workload is a VM: its CPU is the average reading, in percent of its cores; its memory, which is not recorded,
    is constant at what it has. Cores and memory are given as buckets, by their upper end; the open ones, >24 cores and
    >64 GB, are taken as 30 and 70, as in the publisher's own analysis. A VM without a row in vmtable is left out.
    The class is 0 for delay-insensitive VMs, 1 for interactive ones, unknown for the others.
    """

    reference_cores: float = 30
    """Cores of the reference machine; default: the largest bucket."""
    reference_memory: float = 70
    """Memory of the reference machine, GB; default: the largest bucket."""

    name: ClassVar[str] = "azure2019"
    keys: ClassVar[tuple[str, ...]] = ("vmid",)

    def __post_init__(self) -> None:
        positive(reference_cores=self.reference_cores, reference_memory=self.reference_memory)

    @property
    def reference_machine(self) -> dict[str, Any]:
        """What 1.0 means."""
        return {"cpu": f"{self.reference_cores:g} cores", "mem": f"{self.reference_memory:g} GB"}

    def parts(self, source: str) -> list[Part]:
        """Files of the published names, anywhere below the source."""
        found = []
        for table, file in (("vm_cpu_readings", "vm_cpu_readings-file-*-of-195.csv.gz"), ("vmtable", "vmtable.csv.gz")):
            files = tables_of(source, table)
            if not files:
                raise not_found(source, file, HOW_TO_GET)
            found += parts_of(table, files, usage=table == "vm_cpu_readings")
        return found

    def read(self, part: Part) -> Rows:
        """Usage as a fraction of the VM's own size; facts about VMs as they are."""
        if not part.usage:
            return read_table(part, VMTABLE)
        rows = read_table(part, READINGS)
        begin = pl.col("timestamp") * 1_000_000
        cpu, mem = pl.col("avgcpu") / 100, pl.lit(1.0)
        rows.frame = rows.frame.select("vmid", begin=begin, end=begin + INTERVAL, cpu=cpu, mem=mem)
        return rows

    def workloads(self, facts: dict[str, pl.DataFrame]) -> pl.DataFrame | None:
        """Deployment, category and size of the VMs."""
        cores, memory = map(_size, OPEN_BUCKETS)
        size = {"cpu": cores / self.reference_cores, "mem": memory / self.reference_memory}
        known = facts["vmtable"]
        newest = newest_facts(known, ("vmid",), ("deploymentid", "vmcategory", *OPEN_BUCKETS))
        return (
            known.group_by("vmid", maintain_order=True)
            .agg(newest)
            .select(
                "vmid",
                CONTRADICTS,
                pl.col("deploymentid").alias("application"),
                pl.col("vmcategory").replace_strict(CATEGORIES, default=None, return_dtype=pl.Float64).alias("class"),
                *(value.alias(f"{use}_{name}") for name, value in size.items() for use in ("request", "scale")),
            )
        )
