"""Where published traces lie: the address of each, its tables and their parts, its licence and checksums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
        paths = self.path, self.published_path
        local, remote = (path.format(part=number, number=number + 1, cell=cell) for path in paths)
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


def publisher_of(name: str) -> Publisher:
    """The publisher of a trace. Raises InputError for an unknown one, and for one that takes an account."""
    if name == "tianchi":
        raise InputError(
            "tianchi: the contest's data is only available with an account; log in at "
            "https://tianchi.aliyun.com/competition/entrance/231663, download the zip by hand, "
            "then run: tvwrl prepare tianchi --source FILE"
        )
    if name not in PUBLISHERS:
        raise InputError(f"unknown trace {name!r}: not one of {', '.join(PUBLISHERS)}, tianchi")
    return PUBLISHERS[name]
