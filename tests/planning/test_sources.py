"""Instances from files: the published format, the contest, traces; and what is refused, with file and row."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvwrl.planning.instance import NO_LIMIT, Instance
from tvwrl.planning.sources.open_problem import open_instance, windowed
from tvwrl.planning.sources.published_format import read_published
from tvwrl.traces.canonical import write_trace
from tvwrl.types import InputError, Trace

Make = Callable[..., Instance]
HEADER = "app_id\tnb_instances\tcore\tmemory\tinter_degree\tinter_aff\n"
GOOD = [
    "1\t3\t2\t8\t2\t[(3, 0), (1, 2)]",
    "2\t1\t0.5\t1e-05\t0\t[]",
    "3\t2\t4\t16\t1\t[(2, 4)]",
]
POINTS = 98


def write(path: Path, rows: list[str], header: str = HEADER) -> Path:
    """A published file."""
    path.write_text(header + "".join(row + "\n" for row in rows))
    return path


def arcs_of(instance: Instance) -> dict[tuple[str, str], int]:
    """Limits by names."""
    a, names = instance.affinity, instance.application
    rows = np.repeat(np.arange(len(names)), np.diff(a.start))
    return {(names[i], names[j]): int(limit) for i, j, limit in zip(rows, a.to, a.limit, strict=True)}


def assert_same(one: Instance, other: Instance) -> None:
    """Names, numbers and limits."""
    assert one.application.tolist() == other.application.tolist()
    assert one.resources == other.resources
    np.testing.assert_array_equal(one.replicas, other.replicas)
    np.testing.assert_array_equal(one.demand, other.demand)
    assert arcs_of(one) == arcs_of(other)


def test_published_by_hand(tmp_path: Path) -> None:
    instance = open_instance(write(tmp_path / "x.csv", GOOD))
    assert instance.name == "x"
    assert instance.resources == ("cpu", "mem")
    assert instance.application.tolist() == ["1", "2", "3"]
    assert instance.replicas.tolist() == [3, 1, 2]
    assert instance.demand.tolist() == [[[2, 8]], [[0.5, 1e-05]], [[4, 16]]]
    assert arcs_of(instance) == {("1", "3"): 0, ("1", "1"): 2, ("3", "2"): 4}
    assert instance.affinity.own.tolist() == [2, NO_LIMIT, NO_LIMIT]


def test_published_ids_in_any_order_and_series(tmp_path: Path) -> None:
    rows = ["70\t3\t[1.5, 2]\t[8, 8.25]\t1\t[(9, 1)]", "9\t1\t[1, 1.0]\t[0, 3]\t1\t[(70,0)]"]
    instance = open_instance(write(tmp_path / "x.csv", rows))
    assert instance.demand.tolist() == [[[1.5, 8], [2, 8.25]], [[1, 0], [1, 3]]]
    assert arcs_of(instance) == {("70", "9"): 1, ("9", "70"): 0}
    flat = open_instance(tmp_path / "x.csv", times=1)
    assert flat.demand.tolist() == [[[2, 9]], [[1, 3]]]  # maxima, rounded up


@pytest.mark.parametrize(
    ("row", "line"),
    {
        "1\t1\t1\t1\t0": "line 5: 5 columns: must be 6",
        "4\t2147483646\t1\t1\t0\t[]": "line 5: nb_instances is '2147483646': must be a whole number from 1 to",
        "4\t1\t1e308\t1\t0\t[]": "line 5: core is 1e\\+308: must be 0 to",
        "4\t0\t1\t1\t0\t[]": "line 5: nb_instances is '0': must be a whole number from 1 to 999999999",
        "4\t-2\t1\t1\t0\t[]": "line 5: nb_instances is '-2'",
        "four\t1\t1\t1\t0\t[]": "line 5: app_id is 'four'",
        "2\t1\t1\t1\t0\t[]": "line 5: app_id 2 is in line 3 already",
        "4\t1\t-1\t1\t0\t[]": "line 5: core is -1.0: must be 0 to 1e\\+18",
        "4\t1\t1\tmuch\t0\t[]": "line 5: memory is not a number",
        "4\t1\t1\tinf\t0\t[]": "line 5: memory is inf",
        "4\t1\t[1, 2]\t1\t0\t[]": "line 5: core is a list, unlike in line 2",
        "4\t1\t1\t1\t1\t[(5, 0)]": "line 5: affinity to application 5, which is not in the file",
        "4\t1\t1\t1\t2\t[(1, 0)]": r"line 5: inter_aff is not a list of 2 pairs \(app_id, limit\): '\[\(1, 0\)\]'",
        "4\t1\t1\t1\t1\t[(1, -1)]": "line 5: inter_aff is not a list of 1 pairs",
        "4\t1\t1\t1\t1\t[(1, 0),]": "line 5: inter_aff is not",
        "4\t1\t1\t1\t1\t[(1 2, 0)]": "line 5: inter_aff is not",
        "4\t1\t1\t1\t1\t(1, 0)": "line 5: inter_aff is not",
        "4\t1\t1\t1\t2\t[(1, 0), (1, 2)]": "line 5: the limit of these two applications is given a second",
        "4\t1\t1\t1\t1\t[(4, 0)]": "line 5: limit is 0: must be at least 1 for an application and itself",
    }.items(),
)
def test_bad_published_rows_are_named(tmp_path: Path, row: str, line: str) -> None:
    with pytest.raises(InputError, match=f"x.csv: {line}"):
        open_instance(write(tmp_path / "x.csv", [*GOOD, row]))


def test_unequal_series_are_refused(tmp_path: Path) -> None:
    good = "1\t1\t[1, 2]\t[1, 2]\t0\t[]"
    for row, message in (
        ("2\t1\t[1, 2, 3]\t[1, 2]\t0\t[]", "line 3: core has 3 numbers: must be 2, as core has in line 2"),
        ("2\t1\t[1, 2]\t[1]\t0\t[]", "line 3: memory has 1 numbers: must be 2"),
    ):
        with pytest.raises(InputError, match=message):
            open_instance(write(tmp_path / "x.csv", [good, row]))


def test_files_that_are_no_instance_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="empty: it has no applications"):
        open_instance(write(tmp_path / "x.csv", []))
    with pytest.raises(InputError, match="line 1: the columns must be app_id, nb_instances"):
        open_instance(write(tmp_path / "x.csv", GOOD, HEADER.replace("core", "cores")))
    cut = tmp_path / "y.csv.gz"
    cut.write_bytes(gzip.compress((HEADER + "\n".join(GOOD * 200)).encode())[:-60])
    with pytest.raises(InputError, match=r"y\.csv\.gz: line"):
        open_instance(cut)
    with pytest.raises(InputError, match="unknown trace"):
        open_instance("nowhere")
    with pytest.raises(InputError, match="times is 0"):
        open_instance(tmp_path / "x.csv", times=0)


def write_published(instance: Instance, path: Path) -> None:
    """Write an instance of two resources to a .csv or .csv.gz file."""
    affinity, names = instance.affinity, instance.application
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt") as file:
        file.write(HEADER)
        for i, replicas in enumerate(instance.replicas.tolist()):
            arcs = slice(affinity.start[i], affinity.start[i + 1])
            pairs = zip(names[affinity.to[arcs]], affinity.limit[arcs].tolist(), strict=True)
            listed = ", ".join(f"({j}, {limit})" for j, limit in pairs)
            sizes = "\t".join(_shown(instance.demand[i, :, d]) for d in range(2))
            file.write(f"{names[i]}\t{replicas}\t{sizes}\t{arcs.stop - arcs.start}\t[{listed}]\n")


def _shown(series: np.ndarray) -> str:
    """A number or a list of them, as the published files have them; whole numbers without a point where they can be."""
    if len(series) > 1:
        return str(series.tolist())
    return str(int(series[0])) if series[0].is_integer() else repr(float(series[0]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.sampled_from(["x.csv", "x.csv.gz"]))
def test_published_there_and_back(
    tmp_path: Path, instances: Callable[..., st.SearchStrategy[Instance]], data: st.DataObject, name: str
) -> None:
    drawn = data.draw(instances())
    values = st.floats(0, 1e6).map(lambda value: value + 0.0)
    count = drawn.demand.size
    demand = np.array(data.draw(st.lists(values, min_size=count, max_size=count))).reshape(drawn.demand.shape)
    names = np.array([str(3 * n + 1) for n in range(len(drawn))], dtype=object)
    instance = replace(drawn, demand=demand, application=names)
    write_published(instance, tmp_path / name)
    assert_same(read_published(tmp_path / name), instance)


def contest(folder: Path, **tables: str) -> Path:
    """A zip of the contest: two applications, three instances."""
    lists = ["|".join([*(f"{v}" for v in values), *["0.5"] * (POINTS - 2)]) for values in ((1.5, 2), (8, 7.25))]
    content = {
        "app_resources": f"app_1,{lists[0]},{lists[1]},60,0,1,0\napp_2,{lists[1]},{lists[0]},40,1,0,1\n",
        "app_interference": "app_1,app_2,0\napp_2,app_2,2\n",
        "instance_deploy": "inst_1,app_1,machine_2\ninst_2,app_2,\ninst_3,app_2,machine_1\n",
        "machine_resources": "machine_1,32,64,600,7,3,7\n",
    } | tables
    path = folder / "contest.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for table, text in content.items():
            archive.writestr(f"scheduling_preliminary_b_{table}_20180726.csv", text)
    return path


def test_contest_by_hand(tmp_path: Path) -> None:
    instance = open_instance(contest(tmp_path))
    assert instance.demand.shape == (2, POINTS, 2)
    assert instance.replicas.tolist() == [1, 2]
    assert instance.demand[0, :3].tolist() == [[1.5, 8], [2, 7.25], [0.5, 0.5]]
    assert arcs_of(instance) == {("app_1", "app_2"): 0, ("app_2", "app_2"): 3}  # 2 beside one are 3
    assert open_instance(tmp_path / "contest.zip", times=1).demand.tolist() == [[[2, 8]], [[8, 2]]]
    assert open_instance(tmp_path / "contest.zip", times=49).demand[0, :2].tolist() == [[2, 8], [0.5, 0.5]]


def test_bad_contest_rows_are_named(tmp_path: Path) -> None:
    for table, text, message in (
        ("app_interference", "app_1,app_2,0\napp_2,app_9,2\n", "row 2: app_b is 'app_9', which is no application"),
        ("app_interference", "app_1,app_2,0\napp_1,app_2,2\n", "row 2: the limit of these two"),
        ("app_interference", "app_1,app_2,0\napp_1,app_2,-2\napp_2,app_1,1\n", "1 bad rows; first: .*line 2: k is neg"),
        ("instance_deploy", "inst_1,app_1,machine_2\n", "replicas of application 'app_2' is 0: must be at least 1"),
        ("app_resources", contest_rows("1|2") + contest_rows("1", 97), "bad rows; first: .*line 2: cpu has not 98"),
    ):
        with pytest.raises(InputError, match=message):
            open_instance(contest(tmp_path, **{table: text}))


def contest_rows(first: str, more: int = 96) -> str:
    """A row of app_resources with a good memory list; twice, so that most rows are good where one is bad."""
    good = "|".join(["1"] * POINTS)
    name = "app_1" if first == "1|2" else "app_2"
    extra = f"app_3,{good},{good},1,0,0,0\n" if more != 96 else ""
    cpu = "|".join([first, *["1"] * more]) if more == 96 else "1|1"
    return f"{name},{cpu},{good},1,0,0,0\n{extra}"


def trace_of(make_trace: Callable[..., Trace]) -> Trace:
    """Replicas w0 and w2 of "web" and one of "db", slots 0 to 3, shares of a machine of 10 cores and 20 GiB."""
    trace = make_trace([[[0.1, 0.2], [0.3, 0.1]], [[0.5, 0.5]], [[0.2, 0.1]]], slots=[[0, 1], [2], [3]])
    names = np.array(["web", "", "web"], dtype=object)
    return replace(trace, application=names, reference_machine={"cpu": 10.0, "mem": 20.0})


def test_trace_with_applications(make_trace: Callable[..., Trace], tmp_path: Path) -> None:
    write_trace(trace_of(make_trace), tmp_path / "trace")
    instance = open_instance(tmp_path / "trace")
    assert instance.application.tolist() == ["web", "w1"]
    assert instance.replicas.tolist() == [2, 1]
    np.testing.assert_allclose(instance.demand[0], [[1, 4], [3, 2], [0, 0], [2, 2]])
    np.testing.assert_allclose(instance.demand[1], [[0, 0], [0, 0], [5, 10], [0, 0]])
    assert len(instance.affinity) == 0
    limits = {"app_a": ["web", "w1"], "app_b": ["web", "web"], "limit": [1, 0]}
    pl.DataFrame(limits).write_csv(tmp_path / "limits.csv")
    half = open_instance(tmp_path / "trace", times=2, affinity=tmp_path / "limits.csv")
    np.testing.assert_allclose(half.demand[0], [[3, 4], [2, 2]])
    assert arcs_of(half) == {("web", "web"): 1, ("w1", "web"): 0}
    pl.DataFrame({"app_a": ["web"], "app_b": ["web"], "k": [1]}).write_parquet(tmp_path / "trace" / "affinity.parquet")
    declared = pl.DataFrame({"application": ["w1", "web"], "replicas": [7, None]})
    declared.write_parquet(tmp_path / "trace" / "applications.parquet")
    beside = open_instance(tmp_path / "trace")
    assert arcs_of(beside) == {("web", "web"): 2}
    assert beside.replicas.tolist() == [2, 7]


def test_workloads_of_a_csv_are_replicas_of_their_application(tmp_path: Path) -> None:
    rows = ["web-1,0,web,0.3,0.1", "web-1,1,web,0.2,0.1", "web-2,0,web,0.4,0.1", "db,0,,0.5,0.1"]
    path = write(tmp_path / "usage.csv", rows, "workload_id,slot,application,cpu,mem\n")
    instance = open_instance(path, slot_seconds=300)
    assert dict(zip(instance.application, instance.replicas, strict=True)) == {"web": 2, "db": 1}
    assert instance.resources == ("cpu", "mem")
    assert instance.demand.tolist() == [[[0.4, 0.1], [0.2, 0.1]], [[0.5, 0.1], [0.0, 0.0]]]


def test_bad_affinity_tables_are_named(make_trace: Callable[..., Trace], tmp_path: Path) -> None:
    write_trace(trace_of(make_trace), tmp_path / "trace")
    for table, message in (
        ({"app_a": ["web"], "app_b": ["x"], "limit": [1]}, "row 1: app_b is 'x', which is no application"),
        ({"app_a": ["web"], "app_b": ["w1"]}, "no column 'limit'; the columns are: app_a, app_b"),
        ({"app_a": ["web"], "app_b": ["w1"], "limit": [0.5]}, "row 1: limit is 0.5: must be a whole number"),
        (
            {"app_a": ["web"], "app_b": ["w1"], "limit": [-1]},
            "row 1: limit is -1: must be a whole number from 0 to 2147483646",
        ),
        ({"app_a": ["web"] * 2, "app_b": ["w1"] * 2, "limit": [1, 2]}, "row 2: the limit of these two"),
    ):
        pl.DataFrame(table).write_parquet(tmp_path / "limits.parquet")
        with pytest.raises(InputError, match=message):
            open_instance(tmp_path / "trace", affinity=tmp_path / "limits.parquet")


@pytest.mark.real_data
def test_published_files_are_the_contest(published: Callable[[str], Instance], contest: Path) -> None:
    series, ours = published("TClab_TS"), open_instance(contest)
    assert [name.removeprefix("app_") for name in ours.application] == series.application.tolist()
    np.testing.assert_array_equal(ours.demand, series.demand)
    np.testing.assert_array_equal(ours.replicas, series.replicas)
    flat = published("TClab_2D")
    np.testing.assert_array_equal(windowed(ours, 1).demand, flat.demand)
    assert (len(ours), int(ours.replicas.sum()), len(flat.affinity)) == (9338, 68224, 24078)
    assert np.unique(ours.affinity.own, return_counts=True)[1].tolist() == [118, 45, 9171, 4]  # 1, 2, 3, 4 replicas
    assert len(ours.affinity) == 33416
