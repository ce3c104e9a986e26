"""Preparation of many files: killed and gone on with, on a Ray cluster, on a full disk."""

from __future__ import annotations

import errno
import functools
import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.traces.conftest import digest
from tvwrl.traces import read_trace
from tvwrl.traces.loaders.google2011 import Google2011
from tvwrl.traces.preparation import prepare as preparing
from tvwrl.traces.preparation import shares as shares_of_trace
from tvwrl.traces.preparation.prepare import prepare
from tvwrl.traces.preparation.series import SeriesRules, record_type
from tvwrl.types import InputError

ROOT = Path(__file__).resolve().parents[3]
RULES = SeriesRules(300, min_records=10)
S = 300_000_000


def usage(job: int, slot: int) -> str:
    value = f"{0.001 * (job % 90) + 0.0001 * (slot % 7):.6f}"
    return f"{slot * S},{(slot + 1) * S},{job},0,7,{value},{value},0,0,0,0,0,0,0,0,0,0,1,0,{value}"


@functools.cache
def contents(part: int) -> bytes:
    """20 slots of 300 tasks."""
    rows = [usage(job, slot) for slot in range(20 * part, 20 * part + 20) for job in range(300)]
    return gzip.compress(("\n".join(rows) + "\n").encode(), mtime=0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Eight parts."""
    folder = tmp_path / "source" / "task_usage"
    folder.mkdir(parents=True)
    for part in range(8):
        (folder / f"part-{part:05d}-of-00500.csv.gz").write_bytes(contents(part))
    return folder.parent


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small input is divided as if it were large."""
    monkeypatch.setattr(preparing, "SHARE_BYTES", 40_000)


def run(source: Path, out: Path, **options: Any) -> dict[str, Any]:
    return prepare(Google2011(), str(source), out, RULES, plots=False, **options)


def test_shares_make_no_difference_to_the_series(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = run(source, tmp_path / "one")
    monkeypatch.setattr(preparing, "SHARE_BYTES", 40_000)
    many = run(source, tmp_path / "many", readers=4)
    assert {k: one[k] for k in ("slots", "workloads", "rows")} == {k: many[k] for k in ("slots", "workloads", "rows")}
    left, right = (read_trace(tmp_path / name) for name in ("one", "many"))
    for trace in (left, right):
        assert len(trace) == 300
    order = [list(right.workload_id).index(name) for name in left.workload_id]
    assert (left.usage == right.select(order).usage).all()


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bytes(source: Path, tmp_path: Path, shares: None) -> None:
    run(source, tmp_path / "whole")
    code = (
        "import time; from pathlib import Path; from tvwrl.traces.loaders.google2011 import Google2011;"
        "from tvwrl.traces.preparation import prepare as p; from tvwrl.traces.preparation.series import SeriesRules;"
        "p.SHARE_BYTES = 40_000; read = Google2011.read;"
        "Google2011.read = lambda self, part: (time.sleep(0.3), read(self, part))[1];"
        f"p.prepare(Google2011(), {str(source)!r}, Path({str(tmp_path / 'out')!r}), SeriesRules(300, min_records=10),"
        " readers=1, plots=False)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as process:
        deadline = time.time() + 600
        while len(done := list(tmp_path.glob(".out.work/*-shares-*/task_usage-*.json"))) < 3 and time.time() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert 3 <= len(done) < 8
    times = {path: path.stat().st_mtime_ns for path in done}
    assert not (tmp_path / "out").exists()

    checked = []
    reading = Google2011.read
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Google2011, "read", lambda self, part: (checked.append(part.name), reading(self, part))[1])
        run(source, tmp_path / "out")
    assert not {path.stem for path in times} & set(checked)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")
    assert not (tmp_path / ".out.work").exists()


def test_a_changed_part_is_read_again(source: Path, tmp_path: Path) -> None:
    path = source / "task_usage" / "part-00003-of-00500.csv.gz"
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(InputError, match="part-00003"):
        run(source, tmp_path / "out", readers=1)
    path.write_bytes(good)
    run(source, tmp_path / "out")
    run(source, tmp_path / "whole")
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.outside
def test_on_a_ray_cluster(source: Path, tmp_path: Path, shares: None) -> None:
    ray = pytest.importorskip("ray")
    run(source, tmp_path / "here")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        report = run(source, tmp_path / "there", ray="local")
        broken = source / "task_usage" / "part-00007-of-00500.csv.gz"
        broken.write_bytes(b"no gzip")
        with pytest.raises(InputError, match="part-00007"):
            run(source, tmp_path / "broken", ray="local")
    finally:
        ray.shutdown()
    assert report["workloads"] == {"seen": 300, "kept": 300}
    assert digest(tmp_path / "there") == digest(tmp_path / "here")


def test_no_ray_cluster_at_an_address(source: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(InputError, match=r"--ray nowhere:1: "):
        run(source, tmp_path / "out", ray="nowhere:1")


@pytest.mark.parametrize("step", ["write_parquet", "write_ipc", "sink_parquet"])
def test_a_full_disk_is_explained(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(pl.LazyFrame if step == "sink_parquet" else pl.DataFrame, step, full)
        with pytest.raises(InputError, match=r"no space left on the disk; make room.*finished parts are kept"):
            run(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.rglob("*.partial"))
    run(source, tmp_path / "out")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a file system takes root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_full_and_then_is_not(source: Path, disk: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no space left on the disk; make room.*finished parts are kept"):
        run(source, disk / "out", readers=1)
    assert not (disk / "out").exists()
    assert not list(disk.rglob("*.partial"))
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    run(source, disk / "out")
    run(source, tmp_path / "whole")
    assert digest(disk / "out") == digest(tmp_path / "whole")


@pytest.mark.parametrize("rows", [4, 4000])
def test_records_are_not_lost_on_a_full_disk(rows: int) -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        shares_of_trace._write(np.zeros(rows, record_type(["cpu", "mem"])), Path("/dev/full"))
    assert caught.value.errno == errno.ENOSPC


def test_a_fault_in_what_is_stored_beside_ends_the_run_before_the_long_work(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = source / "machine_events" / "part-00000-of-00001.csv"
    machines.parent.mkdir()
    lines = [f"0,{i},0,p,0.5,{-1 if i == 1 else 1}" for i in range(4)]
    machines.write_text("\n".join(lines))
    with monkeypatch.context() as patch:
        patch.setattr(preparing, "read_part", None)
        with pytest.raises(InputError, match=r"1 of 4 rows of machine_events are bad .* line 2: mem is negative"):
            run(source, tmp_path / "out")
    report = run(source, tmp_path / "out", max_bad_fraction=0.3)
    assert report["rows"]["read"] == {"machine_events": 4, "task_usage": 48_000}
    assert report["rows"]["bad"] == {"machine_events: mem is negative": 1}
    assert pl.read_parquet(tmp_path / "out" / "machines.parquet").rows() == [(0.5, 1.0, 3)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source"]


def test_limits_are_checked(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="readers is 0: must be at least 1"):
        run(source, tmp_path / "out", readers=0)
    with pytest.raises(InputError, match="max_bad_fraction is 2: must be 0 to 1"):
        run(source, tmp_path / "out", max_bad_fraction=2)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    with pytest.raises(InputError, match="already exists and is not empty"):
        run(source, tmp_path / "out")
    with pytest.raises(InputError, match="gaps is 'fill': must be one of drop, hold, interpolate"):
        SeriesRules(slot_seconds=300, gaps="fill")  # type: ignore[arg-type]
