"""The Google 2011 loader: a case by hand, what is dropped, bad rows, and the real sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.traces.conftest import prepared, series, write_file
from tvwrl.traces.loaders.google2011 import Google2011
from tvwrl.traces.preparation.series import SeriesRules

S = 300_000_000  # microseconds in a slot
FEW = SeriesRules(300, longest_gap=1, min_records=2)


def usage(job: int, task: int, begin: int, cpu: float, mem: float, end: int | None = None) -> str:
    """A row of task_usage, 20 fields."""
    end = begin + S if end is None else end
    return f"{begin},{end},{job},{task},77,{cpu},{mem},0.1,0,0,0.2,0,0,0.3,0,2.5,0.01,1,0,{cpu}"


def event(time: int, job: int, task: int, kind: int, missing: str = "", request: str = "0.25,0.5") -> str:
    """A row of task_events, 13 fields."""
    return f"{time},{missing},{job},{task},77,{kind},user=,2,9,{request},0.0004,0"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes parts of tables as published; returns the folder."""

    def write(**tables: Sequence[Sequence[str]]) -> Path:
        for table, parts in tables.items():
            for i, rows in enumerate(parts):
                write_file(tmp_path / "source" / table / f"part-{i:05d}-of-00500.csv.gz", rows)
        return tmp_path / "source"

    return write


def run(source: Path, out: str = "out", loader: Any = None, rules: SeriesRules = FEW, **options: Any) -> Any:
    return prepared(loader or Google2011(), source, source.parent / out, rules, **options)


def test_by_hand(write: Callable[..., Path]) -> None:
    """Two parts; task 1-0 from slot 2, with a gap of one slot that is held and a record that reaches over a border."""
    first = [
        usage(1, 0, 2 * S, 0.1, 0.5),
        usage(2, 0, 2 * S, 0.2, 0.3),
        usage(1, 0, 3 * S, 0.2, 0.4),
        usage(1, 0, 3 * S, 0.2, 0.4),  # twice
    ]
    # Slot 4 of task 1-0 is missing. In slot 5 it is 0.4 for 240 s and 0.1 for 60 s: 0.34.
    second = [
        usage(1, 0, 5 * S, 0.4, 0.2, 5 * S + 240_000_000),
        usage(1, 0, 5 * S + 240_000_000, 0.1, 0.2, 6 * S + 60_000_000),
        usage(2, 0, 3 * S, 0.25, 0.35),
    ]
    events = [event(0, 1, 0, 0), event(5, 1, 0, 1), event(0, 2, 0, 0, request=",")]
    jobs = ["0,,1,0,user=,2,name1=,logical1=", "0,,2,0,user=,2,name2=,logical2="]
    trace, report = run(write(task_usage=[first, second], task_events=[events], job_events=[jobs]))
    found = series(trace)
    assert found["1-0"] == ([0, 1, 2, 3, 4], [[0.1, 0.5], [0.2, 0.4], [0.2, 0.4], [0.34, 0.2], [0.1, 0.2]])
    assert found["2-0"] == ([0, 1], [[0.2, 0.3], [0.25, 0.35]])
    row = list(trace.workload_id).index("1-0")
    assert trace.request[row].tolist() == [0.25, 0.5]
    assert np.isnan(trace.request[1 - row]).all()
    assert (trace.priority.tolist(), trace.scheduling_class.tolist()) == ([9.0, 9.0], [2.0, 2.0])
    assert sorted(trace.application) == ["1", "2"]
    assert report["rows"]["read"] == {"task_usage": 7, "task_events": 3, "job_events": 2}
    assert report["rows"]["dropped"] == {"duplicated rows": 1}
    assert report["coverage"] == pytest.approx(6 / 7)  # 4 of 5 slots, 2 of 2


def test_per_job_sums_the_tasks(write: Callable[..., Path]) -> None:
    rows = [usage(1, task, slot * S, 0.1 * (task + 1), 0.25) for slot in range(3) for task in range(2)]
    rows = [row for row in rows if not row.startswith(f"{S},{2 * S},1,1,")]  # a gap of task 1 is held before the sum
    events = [event(0, 1, task, 0) for task in range(2)] + [event(9 * S, 1, 1, 4)]
    jobs = ["0,,1,0,user=,2,name1=,logical1="]
    source = write(task_usage=[rows], task_events=[events], job_events=[jobs])
    trace, _ = run(source, loader=Google2011(per="job"))
    assert series(trace) == {"1": ([0, 1, 2], [[0.3, 0.5]] * 3)}
    assert trace.request.tolist() == [[0.5, 1.0]]
    assert trace.application.tolist() == ["logical1="]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([event(0, 1, 0, 0), event(9, 1, 0, 2), event(9, 1, 0, 1)], "workloads that were evicted"),
        ([event(0, 1, 0, 0), event(9, 1, 0, 3)], "workloads that failed"),
        ([event(0, 1, 0, 0), event(9, 1, 0, 5)], "workloads that were killed"),
        ([event(0, 1, 0, 0), event(9, 1, 0, 6)], "workloads that were lost"),
        ([event(0, 1, 0, 0, missing="1")], "workloads that were recorded only in part"),
    ],
)
def test_what_did_not_end_well_is_dropped(write: Callable[..., Path], rows: list[str], reason: str) -> None:
    samples = [usage(job, 0, slot * S, 0.1, 0.2) for slot in range(3) for job in (1, 2)]
    source = write(task_usage=[samples], task_events=[[*rows, event(0, 2, 0, 0), event(8, 2, 0, 4)]])
    trace, report = run(source)
    assert trace.workload_id.tolist() == ["2-0"]
    assert report["rows"]["dropped"] == {reason: 1}
    kept, _ = run(source, "kept", Google2011(keep_ended=True))
    assert len(kept) == 2


def test_without_job_events_a_job_ended_if_all_its_tasks_did(write: Callable[..., Path]) -> None:
    rows = [usage(job, task, slot * S, 0.1, 0.2) for slot in range(3) for job in (1, 2) for task in range(2)]
    killed = [event(S, 1, 0, 5), event(S, 1, 1, 2), event(S, 2, 0, 5), event(0, 2, 1, 0)]
    trace, report = run(write(task_usage=[rows], task_events=[killed]), loader=Google2011(per="job"))
    assert trace.workload_id.tolist() == ["2"]
    assert report["rows"]["dropped"] == {"workloads that were evicted": 1}


def test_events_in_several_parts_are_put_together(write: Callable[..., Path]) -> None:
    samples = [usage(1, task, slot * S, 0.1, 0.2) for slot in range(3) for task in range(2)]
    parts = [[event(0, 1, 0, 0, request="0.1,0.1"), event(0, 1, 1, 0)], [event(9, 1, 0, 8, request="0.3,0.3")]]
    parts.append([event(7, 1, 1, 5)])
    trace, report = run(write(task_usage=[samples], task_events=parts))
    assert trace.workload_id.tolist() == ["1-0"]
    assert trace.request.tolist() == [[0.3, 0.3]]  # the last update
    assert report["rows"]["dropped"] == {"workloads that were killed": 1}


@pytest.mark.real_data
def test_the_real_sample(real_data: Path, tmp_path: Path) -> None:
    rules = SeriesRules(300)
    trace, _ = prepared(Google2011(), real_data / "google2011", tmp_path / "out", rules)
    raw = pl.read_parquet(real_data / "google2011" / "job_usage.parquet")
    assert len(trace) == raw["job"].n_unique() == 172
    assert len(trace.slot) == len(raw)
    mean = raw.group_by("job").agg(pl.col("cpu_pct", "mem_pct").cast(pl.Float64).mean() / 100)
    expected = {str(job): (cpu, mem) for job, cpu, mem in mean.iter_rows()}
    for i, name in enumerate(trace.workload_id):
        assert np.allclose(trace.series(i).mean(0), expected[name], rtol=1e-6)
    machines = pl.read_parquet(tmp_path / "out" / "machines.parquet")
    assert machines.columns == ["cpu", "mem", "machines"]
    assert machines["machines"].sum() > 12_000
    assert machines["cpu"].max() == 1.0


@pytest.mark.real_data
def test_the_real_task_events(real_data: Path, write: Callable[..., Path], tmp_path: Path) -> None:
    """Generated usage for tasks of the real events: outcome and request are those of the file."""
    path = next((real_data / "google2011").glob("task_events*"))
    names = ["time", "missing", "job", "task", "machine", "event", "user", "class", "priority", "cpu", "mem", "x", "y"]
    raw = pl.read_csv(path, has_header=False, new_columns=names, infer_schema_length=None)
    tasks = raw.select("job", "task").unique(maintain_order=True)[::5000]
    rows = [usage(job, task, slot * S, 0.1, 0.2) for job, task in tasks.iter_rows() for slot in range(3)]
    source = write(task_usage=[rows])
    (source / path.name).symlink_to(path)
    trace, report = run(source)
    ended = raw.filter(pl.col("event").is_in([2, 3, 5, 6]) | pl.col("missing").is_not_null())
    good = tasks.join(ended, on=["job", "task"], how="anti")
    assert sorted(trace.workload_id) == sorted(f"{job}-{task}" for job, task in good.iter_rows())
    assert report["rows"]["read"]["task_events"] == len(raw) == 450_146
    assert report["rows"]["bad"] == {}
    last = raw.sort("time", maintain_order=True).group_by("job", "task").agg(pl.col("cpu").drop_nulls().last())
    expected = {f"{job}-{task}": cpu for job, task, cpu in last.iter_rows()}
    got = dict(zip(trace.workload_id, trace.request[:, 0].tolist(), strict=True))
    assert got == pytest.approx({name: expected[name] for name in got}, nan_ok=True)
