"""Tianchi: lists of points become series, and the contest's other tables lie beside them."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.traces.conftest import prepared, write_file
from tvwrl.traces.loaders.tianchi import Tianchi
from tvwrl.traces.preparation.series import SeriesRules
from tvwrl.types import InputError, Trace

RULES = SeriesRules(slot_seconds=900, min_records=98)


def points(*values: float) -> str:
    """98 points: the values, the last one again and again."""
    return "|".join(f"{v:.3f}" for v in [*values, *[values[-1]] * (98 - len(values))])


TABLES = {
    "app_resources": f"app_1,{points(23, 46)},{points(36)},60,0,1,0\n"
    f"app_2,{points(4.6)},{points(28.8, 144)},40,1,0,1\n",
    "app_interference": "app_1,app_2,0\napp_2,app_2,2\n",
    "instance_deploy": "inst_1,app_1,machine_2\ninst_2,app_2,\ninst_3,app_2,machine_1\n",
    "machine_resources": "machine_1,32,64,600,7,3,7\nmachine_2,46,144,1024,7,7,9\n",
    "job_info": "7-1,0.50,0.25,111,98,\n7-2,1,2,3,4,7-1\n7-12,1,2,3,4,7-1,7-2\n",
}
PRELIMINARY = "scheduling_preliminary_b_{}_20180726.csv"


def write(folder: Path, tables: dict[str, str] = TABLES, name: str = "{}.csv") -> Path:
    for table, content in tables.items():
        write_file(folder / name.format(table), content)
    return folder


def pack(path: Path, tables: dict[str, str] = TABLES, name: str = PRELIMINARY) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for table, content in tables.items():
            archive.writestr(name.format(table), content)
    return path


def run(source: Path, out: Path, loader: Any = None, **limits: Any) -> tuple[Trace, dict[str, Any]]:
    return prepared(loader or Tianchi(), source, out, RULES, **limits)


def test_a_case_worked_out_by_hand(tmp_path: Path) -> None:
    trace, report = run(write(tmp_path / "in"), tmp_path / "out")
    beside = {"app_interference": 2, "instance_deploy": 3, "machine_resources": 2, "job_info": 3}
    assert report["rows"]["read"] == {"app_resources": 2} | beside
    assert (trace.slot_seconds, trace.workload_id.tolist()) == (900, ["app_1", "app_2"])
    # Of the largest machine: 46 cores, 144 GiB.
    assert trace.reference_machine == {"cpu": 46.0, "mem": 144.0}
    assert np.diff(trace.offsets).tolist() == [98, 98]
    np.testing.assert_array_equal(trace.slot, [*range(98), *range(98)])
    np.testing.assert_allclose(trace.series(0)[:3], [[0.5, 0.25], [1, 0.25], [1, 0.25]])
    np.testing.assert_allclose(trace.series(1)[:3], [[0.1, 0.2], [0.1, 1], [0.1, 1]])
    assert trace.application.tolist() == ["app_1", "app_2"]
    extras = {
        "machines": [("machine_1", 32, 64, 600, 7, 3, 7), ("machine_2", 46, 144, 1024, 7, 7, 9)],
        "applications": [("app_1", 1, 60, 0, 1, 0), ("app_2", 2, 40, 1, 0, 1)],
        "affinity": [("app_1", "app_2", 0), ("app_2", "app_2", 2)],
        "deployment": [("inst_1", "app_1", "machine_2"), ("inst_2", "app_2", None), ("inst_3", "app_2", "machine_1")],
        "tasks": [
            ("7", "7-1", 1, [], 0.5, 0.25, 111, 98),
            ("7", "7-2", 2, [1], 1, 2, 3, 4),
            ("7", "7-12", 12, [1, 2], 1, 2, 3, 4),
        ],
    }
    for name, rows in extras.items():
        assert pl.read_parquet(tmp_path / "out" / f"{name}.parquet").rows() == rows


def test_a_workload_per_instance(tmp_path: Path) -> None:
    trace, report = run(write(tmp_path / "in"), tmp_path / "out", Tianchi(per="instance"))
    beside = {"app_interference": 2, "machine_resources": 2, "job_info": 3}
    assert report["rows"]["read"] == {"app_resources": 2, "instance_deploy": 3} | beside
    assert trace.workload_id.tolist() == ["inst_1", "inst_2", "inst_3"]
    assert trace.application.tolist() == ["app_1", "app_2", "app_2"]
    np.testing.assert_allclose(trace.series(0)[:2], [[0.5, 0.25], [1, 0.25]])
    for i in (1, 2):
        np.testing.assert_allclose(trace.series(i)[:2], [[0.1, 0.2], [0.1, 1]])
        np.testing.assert_array_equal(trace.slot[98 * i : 98 * i + 98], range(98))


def test_only_the_series_are_needed(tmp_path: Path) -> None:
    source = write(
        tmp_path / "in", {"app_resources": TABLES["app_resources"]}, "scheduling_preliminary_{}_20180606.csv.gz"
    )
    trace, _ = run(source, tmp_path / "out")
    assert trace.reference_machine == {"cpu": 92.0, "mem": 288.0}
    np.testing.assert_allclose(trace.series(0)[0], [0.25, 0.125])
    assert {path.stem for path in (tmp_path / "out").glob("*.parquet")} == {"usage", "workloads", "applications"}
    assert pl.read_parquet(tmp_path / "out" / "applications.parquet")["replicas"].to_list() == [None, None]
    with pytest.raises(InputError, match=r"instance_deploy.*--per instance needs"):
        run(source, tmp_path / "other", Tianchi(per="instance"))


def test_data_sets_of_the_semifinal(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {name: TABLES[name] for name in ("app_resources", "app_interference")})
    write(source, {"machine_resources": "machine_1,92,288,1024,7,7,9\n", "job_info": "1-1,1,1,1,1,\n"}, "{}.a.csv.gz")
    write(source, {"machine_resources": "machine_1,32,64,600,7,3,7\n", "job_info": "2-1,1,1,1,1,\n"}, "{}.c.csv")
    for letter, cores, job in ((None, 92.0, "1"), ("a", 92.0, "1"), ("c", 32.0, "2")):
        out = tmp_path / f"out-{letter}"
        trace, _ = run(source, out, Tianchi(data_set=letter))
        assert trace.reference_machine["cpu"] == cores
        assert pl.read_parquet(out / "tasks.parquet")["job"].to_list() == [job]
    with pytest.raises(InputError, match="no data set 'b' here; there are: a, c"):
        run(source, tmp_path / "out", Tianchi(data_set="b"))


def test_tables_beside_the_series_go_before_those_elsewhere(tmp_path: Path) -> None:
    pack(tmp_path / "in" / "preliminary.zip", {name: TABLES[name] for name in TABLES if name != "job_info"})
    (tmp_path / "in" / "semifinal").mkdir()
    other = {"machine_resources": "machine_1,92,288,1024,7,7,9\n", "job_info": "1-1,1,1,1,1,\n"}
    write(tmp_path / "in" / "semifinal", other, "{}.a.csv.gz")
    trace, _ = run(tmp_path / "in", tmp_path / "out")
    assert trace.reference_machine["cpu"] == 46
    assert len(pl.read_parquet(tmp_path / "out" / "tasks.parquet")) == 1


def test_the_reference_machine_can_be_given(tmp_path: Path) -> None:
    trace, _ = run(write(tmp_path / "in"), tmp_path / "out", Tianchi(reference_cores=23, reference_memory=72))
    np.testing.assert_allclose(trace.series(0)[0], [1, 0.5])


@pytest.mark.parametrize(
    ("cpu", "rule"),
    [
        ("|".join(["1"] * 97), "cpu has not 98 points"),
        (points(1) + "|1", "cpu has not 98 points"),
        ("one|" + "|".join(["1"] * 97), "cpu is not a number"),
        ("|" + "|".join(["1"] * 97), "cpu is not a number"),
        ("nan|" + "|".join(["1"] * 97), "cpu is not a number"),
        (points(1, -0.5, 1), "cpu is negative"),
    ],
)
def test_bad_series_are_named(tmp_path: Path, cpu: str, rule: str) -> None:
    bad = f"app_3,{cpu},{points(1)},60,0,0,0\n"
    good, last = TABLES["app_resources"].splitlines(keepends=True)
    source = write(tmp_path / "in", TABLES | {"app_resources": good + bad + last})
    with pytest.raises(InputError, match=f"1 of 3 rows of [a-z0-9_]+ are bad.*app_resources.csv: line 2: {rule}"):
        run(source, tmp_path / "out")
    trace, report = run(source, tmp_path / "out", max_bad_fraction=0.5)
    assert report["rows"]["bad"] == {f"app_resources: {rule}": 1}
    assert trace.workload_id.tolist() == ["app_1", "app_2"]


def test_bad_rows_beside_the_series_are_counted(tmp_path: Path) -> None:
    jobs = TABLES["job_info"] + "7-13,-1,2,3,4,\n"
    source = write(tmp_path / "in", TABLES | {"job_info": jobs})
    with pytest.raises(InputError, match=r"1 of 4 rows of job_info are bad .*row 4: cpu is negative"):
        run(source, tmp_path / "out")
    _, report = run(source, tmp_path / "out", max_bad_fraction=0.25)
    assert report["rows"]["bad"] == {"job_info: cpu is negative": 1}
    assert len(pl.read_parquet(tmp_path / "out" / "tasks.parquet")) == 3


@pytest.mark.slow
@pytest.mark.real_data
def test_the_real_sample(real_data: Path, tmp_path: Path) -> None:
    trace, report = run(real_data / "tianchi", tmp_path / "out")
    assert report["rows"]["read"]["app_resources"] == 9338
    assert report["workloads"] == {"seen": 9338, "kept": 9338}
    assert trace.reference_machine == {"cpu": 92.0, "mem": 288.0}
    with zipfile.ZipFile(next((real_data / "tianchi").glob("preliminary*.zip"))) as archive:
        content = {name: archive.read(name).decode().splitlines() for name in archive.namelist()}
    lines = {
        table: next(v for name, v in content.items() if f"_{table}_" in name) for table in TABLES if "job" not in table
    }
    total, row = np.zeros(2), dict(zip(trace.workload_id.tolist(), range(len(trace)), strict=True))
    for i, fields in enumerate(csv.reader(lines["app_resources"])):
        expected = np.array([fields[1].split("|"), fields[2].split("|")], dtype=float).T / [92, 288]
        total += expected.sum(axis=0)
        if i % 50 == 0:
            np.testing.assert_allclose(trace.series(row[fields[0]]), expected)
    np.testing.assert_allclose(trace.usage.sum(axis=0), total)
    tables = {path.stem: pl.read_parquet(path) for path in (tmp_path / "out").glob("*.parquet")}
    counts = {name: len(tables[name]) for name in ("machines", "applications", "affinity", "deployment", "tasks")}
    assert counts == {"machines": 6000, "applications": 9338, "affinity": 33416, "deployment": 68224, "tasks": 5241}
    assert tables["applications"]["replicas"].sum() == 68224
    assert tables["deployment"]["machine"].null_count() == sum(x.endswith(",") for x in lines["instance_deploy"])
    tasks = tables["tasks"]
    assert tasks["predecessors"].list.len().sum() == 4148
    jobs = dict(zip(tasks["task"].to_list(), tasks["predecessors"].to_list(), strict=True))
    assert jobs["6801-3"] == [1, 2]


@pytest.mark.real_data
def test_the_real_semifinal_has_no_series(real_data: Path) -> None:
    source = str(real_data / "tianchi" / "semifinal")
    with pytest.raises(InputError, match="no app_resources"):
        Tianchi().parts(source)
    extras = Tianchi(data_set="b").extras(source).tables
    assert {name: len(table) for name, table in extras.items()} == {"tasks": 5637}
    assert extras["tasks"]["predecessors"].list.len().sum() == 4541
    machines = Tianchi(data_set="e").extras(source).tables["machines"]
    assert len(machines) == 8000
