"""Azure 2019: CPU in percent of a VM's cores becomes a fraction of the machine, memory stays at the VM's size."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.traces.conftest import check_usage, prepared, write_file
from tvwrl.traces.loaders.azure2019 import Azure2019
from tvwrl.traces.preparation.series import SeriesRules
from tvwrl.types import InputError, Trace

RULES = SeriesRules(300, min_records=1)
VMS = [  # vmid, subscription, deployment, created, deleted, max, avg and p95 CPU, category, cores, memory
    "vm/a+1=,sub1,dep1,0,2591400,90.5,10.25,80.5,Interactive,2,4",
    "vmb,sub1,dep1,0,2591400,90.5,10.25,80.5,Delay-insensitive,>24,>64",
    "vmc,sub2,dep2,300,600,90.5,10.25,80.5,Unknown,4,32",
]
READINGS = [  # time, vmid, min, max and average CPU
    "0,vm/a+1=,1.5,90.0,30.0",
    "0,vmb,1.5,90.0,50.0",
    "0,stranger,1.5,90.0,50.0",
    "300,vm/a+1=,1.5,90.0,60.0",
    "300,vmc,0,0,0",
    "300,vmb,1.5,90.0,25.0",
]
CORES, GB = 30, 70  # the default machine
BY_HAND = {
    "vm/a+1=": [[0.3 * 2 / CORES, 4 / GB], [0.6 * 2 / CORES, 4 / GB]],
    "vmb": [[0.5, 1.0], [0.25, 1.0]],
    "vmc": [[0.0, 32 / GB]],
}


def write(folder: Path, vms: list[str] = VMS, packed: bool = True, **readings: list[str]) -> Path:
    """The published folders; readings in two parts unless others are given."""
    parts = readings or {"1": READINGS[:3], "2": READINGS[3:]}
    tables = {f"vm_cpu_readings/vm_cpu_readings-file-{n}-of-195.csv": rows for n, rows in parts.items()}
    for name, rows in (tables | {"vmtable/vmtable.csv": vms}).items():
        write_file(folder / (name + ".gz" * packed), rows)
    return folder


def run(source: Path, out: Path, loader: Any = None, **options: Any) -> tuple[Trace, dict[str, Any]]:
    return prepared(loader or Azure2019(), source, out, RULES, readers=2, **options)


@pytest.mark.parametrize("packed", [True, False])
def test_the_published_layout_gives_what_was_worked_out_by_hand(tmp_path: Path, packed: bool) -> None:
    trace, report = run(write(tmp_path / "in", packed=packed), tmp_path / "out")
    check_usage(trace, BY_HAND)
    assert trace.reference_machine == {"cpu": "30 cores", "mem": "70 GB"}
    assert report["rows"]["dropped"] == {"workloads of unknown size": 1}
    columns = ["workload_id", "arrival", "application", "priority", "class", "request_cpu", "request_mem"]
    facts = pl.read_parquet(tmp_path / "out" / "workloads.parquet").select(columns).sort("workload_id").rows()
    assert facts == [
        ("vm/a+1=", 0, "dep1", None, 1, 2 / CORES, 4 / GB),
        ("vmb", 0, "dep1", None, 0, 1, 1),
        ("vmc", 1, "dep2", None, None, 4 / CORES, 32 / GB),
    ]


def test_the_reference_machine_is_an_option(tmp_path: Path) -> None:
    trace, _ = run(write(tmp_path / "in"), tmp_path / "out", Azure2019(reference_cores=60, reference_memory=140))
    check_usage(trace, {name: (np.array(values) / 2).tolist() for name, values in BY_HAND.items()})
    assert trace.reference_machine == {"cpu": "60 cores", "mem": "140 GB"}


def test_facts_that_are_empty_are_unknown_and_of_several_the_newest_counts(tmp_path: Path) -> None:
    vms = [VMS[1], "vm/a+1=,,,,,,,,,2,4", "vmb,,,,,,,,,8,16"]
    trace, report = run(write(tmp_path / "in", vms), tmp_path / "out")
    check_usage(trace, {"vm/a+1=": BY_HAND["vm/a+1="], "vmb": [[4 / CORES, 16 / GB], [2 / CORES, 16 / GB]]})
    assert dict(zip(trace.workload_id, trace.application, strict=True)) == {"vm/a+1=": "", "vmb": "dep1"}
    assert np.isnan(trace.scheduling_class).sum() == 1
    assert sum(report["rows"]["noted"].values()) == 1  # vmb has two sizes


@pytest.mark.parametrize("size", ["many,32", "4,>128", "0,32", "4,-1", "4,inf"])
def test_a_vm_with_an_unreadable_size_is_named_and_left_out(tmp_path: Path, size: str) -> None:
    vms = [*VMS[:2], f"vmc,sub2,dep2,300,600,90.5,10.25,80.5,Unknown,{size}"]
    trace, report = run(write(tmp_path / "in", vms), tmp_path / "out", max_bad_fraction=0.5)
    check_usage(trace, {name: BY_HAND[name] for name in ("vm/a+1=", "vmb")})
    assert sum(report["rows"]["bad"].values()) == 1
    assert re.search(r"vmtable.csv.gz: line 3: vm\w+bucket is not a number above 0: '", report["examples"][0])


def test_both_tables_are_needed(tmp_path: Path) -> None:
    (write(tmp_path / "in") / "vmtable" / "vmtable.csv.gz").unlink()
    with pytest.raises(InputError, match=r"no vmtable.csv.gz here; docs/how-to/prepare-a-trace.md"):
        run(tmp_path / "in", tmp_path / "out")
