"""Alibaba 2018: percent of a container's request become fractions of a machine, and names of tasks become a DAG."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.traces.conftest import check_usage, digest, prepared, write_file
from tvwrl.traces.loaders.alibaba2018 import Alibaba2018, decoded
from tvwrl.traces.preparation.series import SeriesRules
from tvwrl.types import InputError, Trace

RULES = SeriesRules(slot_seconds=300, min_records=1)
USAGE = """c_1,m_1,630,70,60,,,,,,
c_1,m_1,600,50,40,1.5,0.03,0,0.1,0.1,4
,m_1,700,10,10,1.5,0.03,0,0.1,0.1,4
c_1,m_1,900,20,20,,,,,,
c_2,m_2,600,100,50,1.5,0.03,0,0.1,0.1,4
c_2,m_2,900,,50,1.5,0.03,0,0.1,0.1,4
"""
META = """c_1,m_1,0,app_7,started,400,800,1.5
c_1,m_1,500,app_7,started,800,800,3
c_2,m_2,0,app_8,started,400,400,6
"""
OWN_SIZE = {"c_1": [[0.6, 0.5], [0.2, 0.2]], "c_2": [[1.0, 0.5]]}
MACHINES = "m_1,0,1,2,96,100,USING\nm_2,0,1,2,64,50,USING\nm_3,0,1,2,,,\n"


def write(folder: Path, **tables: str) -> Path:
    for name, content in tables.items():
        write_file(folder / f"{name}.csv.gz", content)
    return folder


def run(source: Path, loader: Any = None, **limits: Any) -> tuple[Trace, dict[str, Any]]:
    return prepared(loader or Alibaba2018(), source, source.parent / "out", RULES, **limits)


def test_a_case_worked_out_by_hand(tmp_path: Path) -> None:
    source = write(tmp_path / "in", container_usage=USAGE, container_meta=META, machine_meta=MACHINES)
    trace, report = run(source)
    assert report["rows"]["dropped"] == {"rows without an id": 1, "rows without cpu or mem": 1}
    assert report["rows"]["bad"] == {}
    # c_1 has 8 cores of 96 and 3 % of the memory: (50 + 70) / 2 % and 20 % of them; c_2 has 4 cores and 6 %.
    first = [[0.6 * 8 / 96, 0.5 * 0.03], [0.2 * 8 / 96, 0.2 * 0.03]]
    check_usage(trace, {"c_1": first, "c_2": [[4 / 96, 0.5 * 0.06]]})
    order = np.argsort(trace.workload_id)
    np.testing.assert_allclose(trace.request[order], [[8 / 96, 0.03], [4 / 96, 0.06]])
    assert trace.application[order].tolist() == ["app_7", "app_8"]
    assert "96 cores" in str(trace.reference_machine)


def test_without_container_meta_fractions_are_of_the_own_size(tmp_path: Path) -> None:
    trace, _ = run(write(tmp_path / "in", container_usage=USAGE))
    check_usage(trace, OWN_SIZE)
    assert np.isnan(trace.request).all()
    assert "own request" in str(trace.reference_machine)


def test_own_size_can_be_asked_for_and_keeps_the_application(tmp_path: Path) -> None:
    trace, _ = run(write(tmp_path / "in", container_usage=USAGE, container_meta=META), Alibaba2018(own_size=True))
    check_usage(trace, OWN_SIZE)
    assert sorted(trace.application) == ["app_7", "app_8"]


def test_the_reference_machine_can_be_given(tmp_path: Path) -> None:
    trace, _ = run(write(tmp_path / "in", container_usage=USAGE, container_meta=META), Alibaba2018(reference_cores=48))
    first = trace.workload_id.tolist().index("c_1")
    assert trace.series(first)[0, 0] == pytest.approx(0.6 * 8 / 48)
    assert "48 cores" in str(trace.reference_machine)


def test_containers_of_unknown_size_are_dropped(tmp_path: Path) -> None:
    meta = "c_1,m_1,0,app_7,started,400,800,1.5\nc_2,m_2,0,app_8,started,0,400,6\n"
    source = write(tmp_path / "in", container_usage=USAGE + "c_3,m_1,600,1,1,,,,,,\n", container_meta=meta)
    trace, report = run(source)
    assert report["rows"]["dropped"]["workloads of unknown size"] == 2
    assert trace.workload_id.tolist() == ["c_1"]


def test_folders_of_parts_give_the_same(tmp_path: Path) -> None:
    write(tmp_path / "in", container_usage=USAGE, container_meta=META, machine_meta=MACHINES)
    run(tmp_path / "in")
    (tmp_path / "out").rename(tmp_path / "whole")
    lines, meta = USAGE.splitlines(keepends=True), META.splitlines(keepends=True)
    parted = tmp_path / "parted"
    write(parted / "container_usage", **{"part-00000": "".join(lines[:2]), "part-00001": "".join(lines[2:])})
    write(parted / "container_meta", **{"part-00000": meta[2] + meta[1], "part-00001": meta[0]})
    write(parted / "machine_meta", **{"part-00000": MACHINES})
    run(parted)
    assert digest(tmp_path / "whole") == digest(tmp_path / "out")


@pytest.mark.parametrize(
    ("task", "kind", "number", "predecessors"),
    [
        ("M1", "M", 1, []),
        ("J5_2_4", "J", 5, [2, 4]),
        ("R12_11", "R", 12, [11]),
        ("MR3_1_Stg2", "MR", 3, [1]),
        ("task_LTU0MTQyNTI1", None, None, []),
        ("task_12_3", None, None, []),
        ("MergeTask", None, None, []),
        ("M", None, None, []),
    ],
)
def test_names_of_tasks_tell_the_dag(task: str, kind: str | None, number: int | None, predecessors: list[int]) -> None:
    row = pl.DataFrame({"task": [task]}).select(decoded(pl.col("task"))).row(0, named=True)
    assert row == {"kind": kind, "number": number, "predecessors": predecessors}


def test_batch_tasks_lie_beside_the_trace(tmp_path: Path) -> None:
    tasks = """M1,2,j_1,1,Terminated,100,160,100,0.5
R2_1,1,j_1,1,Terminated,160,200,50,0.3
task_ab,1,j_2,1,Running,300,0,,
"""
    instances = """ins_1,M1,j_1,1,Terminated,100,140,m_1,1,1,50,60,0.1,0.2
ins_2,M1,j_1,1,Terminated,100,160,m_2,1,1,50,60,0.1,0.2
ins_3,M1,j_1,1,Failed,120,0,m_2,1,1,,,,
ins_4,R2_1,j_1,1,Terminated,160,oops,m_2,1,1,,,,
"""
    source = write(tmp_path / "in", container_usage=USAGE, batch_task=tasks)
    run(source)
    assert pl.read_parquet(tmp_path / "out" / "tasks.parquet")["duration"].to_list() == [None] * 3
    (tmp_path / "out").rename(tmp_path / "before")
    run(write(source, batch_instance=instances), max_bad_fraction=0.25)
    table = pl.read_parquet(tmp_path / "out" / "tasks.parquet")
    assert table.rows() == [
        ("j_1", "M1", "M", 1, [], 2, 100.0, 160.0, 100.0, 0.5, 50.0),
        ("j_1", "R2_1", "R", 2, [1], 1, 160.0, 200.0, 50.0, 0.3, None),
        ("j_2", "task_ab", None, None, [], 1, 300.0, None, None, None, None),
    ]
    assert table.columns[:6] == ["job", "task", "kind", "number", "predecessors", "instances"]


def test_bad_rows_of_batch_tasks_and_instances_are_counted(tmp_path: Path) -> None:
    task, instance = "M1,2,j_1,1,Terminated,100,160,100,0.5\n", "ins_1,M1,j_1,1,Terminated,100,140,m_1,1,1,,,,\n"
    tasks, instances = 3 * task + task.replace("2", "-1", 1), 3 * instance + "garbage\n"
    source = write(tmp_path / "in", container_usage=USAGE, batch_task=tasks)
    with pytest.raises(InputError, match=r"1 of 4 rows of batch_task are bad .* line 4: instances is negative"):
        run(source)
    write(source, batch_task=task, batch_instance=instances)
    _, report = run(source, max_bad_fraction=0.3)
    assert report["rows"]["bad"] == {"batch_instance: task is missing": 1}


def test_truncated_batch_instances_are_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "in", container_usage=USAGE, batch_task="M1,2,j_1,1,Terminated,100,160,100,0.5\n")
    rows = "".join(f"ins_{i},M1,j_1,1,Terminated,100,{i},m_1,1,1,50,60,0.1,0.2\n" for i in range(9999))
    (source / "batch_instance.csv.gz").write_bytes(gzip.compress(rows.encode())[:-2000])
    with pytest.raises(InputError, match=r"batch_instance.csv.gz: cannot be read past line .* truncated"):
        run(source)


def shape(nodes: list[dict[str, Any]]) -> tuple[str, ...]:
    """The same for jobs whose DAGs differ in the numbers of their tasks only."""
    before = {node["number"]: node["predecessors"] for node in nodes}
    after = {number: [n for n, tasks in before.items() if number in tasks] for number in before}
    label = {node["number"]: node["kind"] for node in nodes}
    for _ in nodes:
        around = {n: (label[n], sorted(label[p] for p in before[n]), sorted(label[s] for s in after[n])) for n in label}
        label = {n: hashlib.md5(repr(view).encode()).hexdigest() for n, view in around.items()}
    return tuple(sorted(label.values()))


@pytest.mark.real_data
def test_shapes_of_real_dags(real_data: Path) -> None:
    tasks = pl.read_csv(real_data / "batch" / "ali18_usage_tasks.csv.gz").with_columns(decoded(pl.col("task")))
    assert (len(tasks), tasks["job"].n_unique(), tasks["number"].null_count()) == (22409, 3690, 0)
    jobs = tasks.group_by("job").agg(pl.struct("kind", "number", "predecessors").alias("nodes"))["nodes"]
    shapes = Counter(shape(nodes) for nodes in jobs.to_list())
    assert (len(shapes), sum(count == 1 for count in shapes.values())) == (221, 55)


@pytest.mark.real_data
def test_the_real_sample(real_data: Path, tmp_path: Path) -> None:
    source = real_data / "alibaba2018"
    rules = SeriesRules(slot_seconds=3600, gaps="drop", min_records=1)
    trace, report = prepared(Alibaba2018(), source, tmp_path / "out", rules)
    assert report["rows"]["read"] == {"container_usage": 10000, "machine_meta": 17592}
    assert report["rows"]["dropped"] == {"rows without an id": 3503}
    assert "own request" in str(trace.reference_machine)
    assert len(trace) == 8
    with gzip.open(source / "container_usage.csv.gz", "rt") as file:
        rows = [line.split(",") for line in file]
    hours: dict[tuple[str, int], list[list[float]]] = {}
    for row in rows:
        if row[0]:
            hours.setdefault((row[0], int(row[2]) // 3600), []).append([float(row[3]) / 100, float(row[4]) / 100])
    owner = np.repeat(trace.workload_id, np.diff(trace.offsets))
    first = min(hour for _, hour in hours)
    found = {(str(w), int(s) + first): u for w, s, u in zip(owner, trace.slot, trace.usage, strict=True)}
    assert found.keys() == hours.keys()
    np.testing.assert_allclose([found[k] for k in hours], [np.mean(v, axis=0) for v in hours.values()])
