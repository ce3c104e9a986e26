"""Google 2019: JSON lines, CSV and Parquet give what was worked out by hand; bad input is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.traces.conftest import check_usage, prepared, write_file
from tvwrl.traces.loaders.google2019 import Google2019
from tvwrl.traces.preparation import files
from tvwrl.traces.preparation.series import SeriesRules
from tvwrl.types import InputError, Trace

SAMPLE = Path("google2019", "instance_usage.parquet")
BIG = 374_000_000_000  # ids of collections do not fit into 32 bits
RULES = SeriesRules(300, min_records=1)


def usage(seconds: tuple[int, int], collection: int, index: int, cpu: Any, mem: Any, **other: Any) -> dict[str, Any]:
    """A row as the publisher's export writes it: integers are strings, resources are nested."""
    return {
        "start_time": str(seconds[0] * 1_000_000),
        "end_time": str(seconds[1] * 1_000_000),
        "collection_id": str(BIG + collection),
        "instance_index": str(index),
        "machine_id": "7",
        "alloc_collection_id": "0",
        "collection_type": "0",
        "average_usage": {"cpus": cpu, "memory": mem},
        "maximum_usage": {"cpus": 0.9},
        "cpu_usage_distribution": [0.1, 0.2, 0.3],
        "tail_cpu_usage_distribution": [0.4, 0.5],
    } | other


def event(seconds: int, kind: int, collection: int, index: int | None = None, **other: Any) -> dict[str, Any]:
    row = {"time": str(seconds * 1_000_000), "type": str(kind), "collection_id": str(BIG + collection)}
    row |= {"priority": "200", "scheduling_class": "3"}
    return row | ({} if index is None else {"instance_index": str(index)}) | other


def request(cpus: float, memory: float) -> dict[str, Any]:
    return {"resource_request": {"cpus": cpus, "memory": memory}}


USAGE = [
    usage((300, 600), 1, 0, 0.2, 0.1),
    usage((600, 900), 1, 0, 0.4, 0.1),
    usage((300, 400), 1, 1, 0.1, 0.2),  # 100 s and then 200 s of one slot: (0.1 + 2 * 0.4) / 3
    usage((400, 600), 1, 1, 0.4, 0.2, alloc_collection_id=str(BIG + 9)),
    usage((600, 900), 1, 1, 0.5, 0.3),
    usage((300, 600), 9, 0, 0.8, 0.8, collection_type="1"),  # the alloc that instance 1 runs in
    usage((300, 600), 2, 0, 0.6, 0.5),
    usage((300, 600), 2, 1, 0.7, 0.5),
    usage((300, 600), 3, 0, 0.3, 0.4),
]
INSTANCES = [
    event(0, 0, 1, 0, **request(0.5, 0.25)),
    event(700, 10, 1, 0, **request(0.6, 0.25)),
    event(0, 3, 1, 1, **request(0.5, 0.25), missing_type="0"),
    event(900, 7, 2, 0),
    event(0, 3, 2, 1, missing_type="3"),
    event(0, 3, 3, 0, priority="103", scheduling_class="1"),
    event(1000, 6, 3, 0, priority="103", scheduling_class="1"),
]
COLLECTIONS = [
    event(0, 0, 1, collection_logical_name="web"),
    event(0, 0, 2, collection_logical_name="batch"),
    event(950, 7, 2, collection_logical_name="batch"),
    event(0, 0, 3),
]
TABLES = {"instance_usage": USAGE, "instance_events": INSTANCES, "collection_events": COLLECTIONS}
MACHINES = [
    {"time": "0", "machine_id": "1", "type": "1", "capacity": {"cpus": 0.5, "memory": 1.0}},
    {"time": "0", "machine_id": "2", "type": "1", "capacity": {"cpus": 0.5, "memory": 1.0}},
    {"time": "0", "machine_id": "3", "type": "1", "capacity": {"cpus": 1.0, "memory": 0.5}},
    {"time": "5", "machine_id": "3", "type": "2"},
    {"time": "0", "machine_id": "4", "type": "1"},
]


def write_json(path: Path, rows: list[Any]) -> None:
    write_file(path, [row if isinstance(row, str) else json.dumps(row) for row in rows])


def write_all(folder: Path) -> Path:
    write_json(folder / "instance_usage-000000000000.json.gz", USAGE[:4])
    write_json(folder / "instance_usage-000000000001.json.gz", USAGE[4:])
    write_json(folder / "instance_events" / "000000000000.json.gz", INSTANCES[:4])
    write_json(folder / "instance_events" / "000000000001.json.gz", INSTANCES[4:])
    write_json(folder / "collection_events-000000000000.json.gz", COLLECTIONS)
    write_json(folder / "machine_events-000000000000.json.gz", MACHINES)
    return folder


def run(loader: Google2019, source: Path, out: Path, **options: Any) -> tuple[Trace, dict[str, Any]]:
    return prepared(loader, source, out, RULES, readers=2, **options)


def expect(trace: Trace, wanted: dict[str, list[list[float]]]) -> None:
    check_usage(trace, {str(BIG)[:-1] + name: usage for name, usage in wanted.items()})


def facts(out: Path) -> dict[str, tuple[Any, ...]]:
    frame = pl.read_parquet(out / "workloads.parquet")
    columns = ["workload_id", "application", "priority", "class", "request_cpu", "request_mem"]
    return {row[0].removeprefix(str(BIG)[:-1]): row[1:] for row in frame.select(columns).rows()}


BY_HAND = {"1-0": [[0.2, 0.1], [0.4, 0.1]], "1-1": [[0.3, 0.2], [0.5, 0.3]], "3-0": [[0.3, 0.4]]}


def test_the_published_json_gives_what_was_worked_out_by_hand(tmp_path: Path) -> None:
    trace, report = run(Google2019(), write_all(tmp_path / "in"), tmp_path / "out")
    expect(trace, BY_HAND)
    assert facts(tmp_path / "out") == {
        "1-0": ("web", 200, 3, 0.6, 0.25),
        "1-1": ("web", 200, 3, 0.5, 0.25),
        "3-0": (str(BIG + 3), 103, 1, None, None),
    }
    assert report["rows"]["dropped"] == {
        "alloc instances": 1,
        "workloads that were killed": 1,
        "workloads that were recorded only in part": 1,
    }
    machines = pl.read_parquet(tmp_path / "out" / "machines.parquet")
    assert machines.rows() == [(0.5, 1.0, 2), (1.0, 0.5, 1)]


def test_a_collection_is_the_sum_of_its_instances(tmp_path: Path) -> None:
    trace, report = run(Google2019(per="collection"), write_all(tmp_path / "in"), tmp_path / "out")
    expect(trace, {"1": [[0.5, 0.3], [0.9, 0.4]], "3": [[0.3, 0.4]]})
    assert facts(tmp_path / "out")["1"] == ("web", 200, 3, 1.1, 0.5)
    assert report["rows"]["dropped"] == {"alloc instances": 1, "workloads that were killed": 1}


def test_collection_events_alone_are_enough_for_collections(tmp_path: Path) -> None:
    write_json(tmp_path / "in" / "instance_usage.json.gz", USAGE)
    write_json(tmp_path / "in" / "collection_events.json.gz", COLLECTIONS)
    trace, _ = run(Google2019(per="collection"), tmp_path / "in", tmp_path / "out")
    expect(trace, {"1": [[0.5, 0.3], [0.9, 0.4]], "3": [[0.3, 0.4]]})
    assert facts(tmp_path / "out")["1"] == ("web", 200, 3, None, None)


def test_without_instance_events_those_of_the_collection_decide(tmp_path: Path) -> None:
    rows = [usage((300 * i, 300 * i + 300), collection, 0, 0.1, 0.2) for i in range(3) for collection in (1, 2)]
    write_json(tmp_path / "in" / "instance_usage-0.json.gz", rows)
    events = [event(0, 0, 1, priority="200", collection_logical_name="one"), event(0, 7, 2)]
    write_json(tmp_path / "in" / "collection_events-0.json.gz", events)
    trace, report = run(Google2019(), tmp_path / "in", tmp_path / "out")
    assert trace.workload_id.tolist() == [f"{BIG + 1}-0"]
    assert (trace.application.tolist(), trace.priority.tolist()) == (["one"], [200.0])
    assert report["rows"]["dropped"] == {"workloads that were killed": 1}


def flattened(row: dict[str, Any], between: str = ".") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= {f"{name}{between}{k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    return flat


@pytest.mark.parametrize(
    ("between", "array"), [(".", '"[0.1, 0.2]"'), ("_", "[0.1 0.2]"), (".", '"0.1,0.2"'), ("_", "")]
)
def test_csv_with_flattened_names_gives_the_same(tmp_path: Path, between: str, array: str) -> None:
    for table, rows in TABLES.items():
        flat = [flattened(row, between) for row in rows]
        names = list(dict.fromkeys(name for row in flat for name in row))[::-1]  # in any order
        lines = [",".join(array if "distribution" in n else str(row.get(n, "")) for n in names) for row in flat]
        write_file(tmp_path / "in" / f"{table}.csv.gz", [",".join(names), *lines])
    trace, report = run(Google2019(), tmp_path / "in", tmp_path / "out")
    expect(trace, BY_HAND)
    assert facts(tmp_path / "out")["1-0"] == ("web", 200, 3, 0.6, 0.25)
    assert not report["rows"]["bad"]


def test_parquet_with_nested_fields_gives_the_same(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    integers = ("time", "type", "start_time", "end_time", "collection_id", "instance_index", "collection_type")
    for table, rows in TABLES.items():
        frame = pl.DataFrame(rows, infer_schema_length=None)
        frame = frame.with_columns(pl.col(name).cast(pl.Int64) for name in integers if name in frame.columns)
        frame.write_parquet(tmp_path / "in" / f"{table}-000000000000.parquet")
    trace, _ = run(Google2019(), tmp_path / "in", tmp_path / "out")
    expect(trace, BY_HAND)
    assert facts(tmp_path / "out")["1-0"] == ("web", 200, 3, 0.6, 0.25)


def flat_usage(folder: Path, **other: Any) -> Path:
    """One instance: a record of a whole slot, and one that begins in the middle of the next."""
    columns = {"time": [300_000_000, 750_000_000], "collection_id": [BIG, BIG], "instance_index": [4, 4]}
    columns |= {"avg_cpu_usage": [0.2, 0.3], "avg_memory_usage": [0.1, 0.1]} | other
    folder.mkdir(exist_ok=True)
    pl.DataFrame(columns).write_parquet(folder / "instance_usage.parquet")
    return folder


def test_flat_records_last_to_the_next_five_minutes_and_their_limits_are_the_request(tmp_path: Path) -> None:
    limits = {"priority": [200, 200], "scheduling_class": [3, 3], "cpu_limit": [0.5, 0.6], "memory_limit": [0.2, 0.2]}
    for name, given, wanted in (("with", limits, (200, 3, 0.6, 0.2)), ("without", {}, (None,) * 4)):
        trace, _ = run(Google2019(), flat_usage(tmp_path / name, **given), tmp_path / f"out-{name}")
        expect(trace, {"0-4": [[0.2, 0.1], [0.3, 0.1]]})
        assert facts(tmp_path / f"out-{name}")["0-4"][1:] == wanted


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"start_time": "300', "line 2: not a JSON object"),
        ("[1, 2]", "line 2: not a JSON object"),
        (usage((300, 600), 1, 5, -0.25, 0.1), "line 2: average_usage.cpus is negative: '-0.25'"),
        (usage((300, 600), 1, 5, None, 0.1), "line 2: average_usage.cpus is missing"),
        (usage((300, 600), 1, 5, 0.1, 0.1, average_usage=None), "line 2: average_usage.cpus is missing"),
        (usage((300, 600), 1, 5, 0.1, 0.1, collection_id="x"), "line 2: collection_id is not a number: 'x'"),
        (usage((600, 300), 1, 5, 0.1, 0.1), "line 2: end_time is before start_time"),
        (json.dumps(usage((300, 600), 1, 5, 0.1, float("nan"))), "line 2: average_usage.memory is not finite"),
    ],
)
def test_a_bad_line_is_counted_named_and_left_out(tmp_path: Path, row: Any, message: str) -> None:
    file = tmp_path / "instance_usage.json.gz"
    write_json(file, [USAGE[0], row, USAGE[1], "", "{}", *USAGE[2:]])
    trace, report = run(Google2019(), file, tmp_path / "out", max_bad_fraction=0.5)
    expect(trace, BY_HAND | {"2-0": [[0.6, 0.5]], "2-1": [[0.7, 0.5]]})
    assert sum(report["rows"]["bad"].values()) == 2
    assert any(example.startswith(f"{file}: {message}") for example in report["examples"])
    assert f"{file}: line 5: start_time is missing" in report["examples"]
    with pytest.raises(InputError, match=r"2 of 11 rows of [a-z0-9_]+ are bad .* more than --max-bad-fraction 0.01"):
        run(Google2019(), file, tmp_path / "strict")
    assert not (tmp_path / "strict").exists()


def test_lines_are_counted_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 1000)
    file = tmp_path / "instance_usage.json.gz"
    rows: list[Any] = [usage((300 * i, 300 * i + 300), 1, 0, i / 100, 0.5) for i in range(60)]
    rows[40] = "{"
    write_json(file, rows)
    trace, report = run(Google2019(), file, tmp_path / "out", max_bad_fraction=0.5)
    assert report["examples"] == [f"{file}: line 41: not a JSON object: '{{'"]
    wanted = np.arange(60) / 100
    wanted[40] = 0.39  # held
    np.testing.assert_allclose(trace.usage[:, 0], wanted)


def test_lines_without_an_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 1000)
    file = tmp_path / "instance_usage.json.gz"
    file.write_bytes(gzip.compress(b"[" + b"1," * 3000))
    with pytest.raises(InputError, match=r"instance_usage.json.gz: line 1 is longer than .* not a instance_usage file"):
        run(Google2019(), file, tmp_path / "out")


def test_a_table_without_a_needed_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "instance_usage.csv").write_text("time,collection_id,avg_cpu_usage\n0,1,0.5\n")
    with pytest.raises(
        InputError, match=r"instance_usage.csv: no column 'instance_index'; the columns are: time, coll"
    ):
        run(Google2019(), tmp_path / "instance_usage.csv", tmp_path / "out")
    file = tmp_path / "instance_usage.parquet"
    pl.DataFrame({"time": [0], "collection_id": [1], "instance_index": [0]}).write_parquet(file)
    with pytest.raises(InputError, match=r"instance_usage.parquet: no column 'average_usage.cpus'"):
        run(Google2019(), file, tmp_path / "out")


def test_bad_rows_of_a_flat_table_are_named(tmp_path: Path) -> None:
    lines = [f"{300_000_000 * i},{BIG},0,{i / 100},0.5" for i in range(20)]
    lines[7] = f"2100000000,{BIG},0,-1,0.5"
    header = "time,collection_id,instance_index,avg_cpu_usage,avg_memory_usage"
    file = tmp_path / "instance_usage.csv"
    file.write_text("\n".join([header, *lines, ""]))
    _, report = run(Google2019(), file, tmp_path / "out", max_bad_fraction=0.1)
    assert report["examples"] == [f"{file}: line 9: average_usage.cpus is negative: '-1'"]


@pytest.mark.real_data
def test_the_real_sample(real_data: Path, tmp_path: Path) -> None:
    rules = SeriesRules(300, longest_gap=0, min_records=1)
    trace, report = prepared(Google2019(), real_data / SAMPLE, tmp_path / "out", rules, readers=2)
    raw = pl.read_parquet(real_data / SAMPLE).to_pandas()
    assert report["rows"]["read"]["instance_usage"] == len(raw)
    assert not report["rows"]["bad"]
    raw["id"] = raw.collection_id.astype(str) + "-" + raw.instance_index.astype(str)
    raw["slot"] = raw.time // 300_000_000
    assert len(trace.slot) == len(raw.drop_duplicates(["id", "slot"]))
    assert sorted(trace.workload_id) == sorted(raw.id.unique())
    whole = raw[~raw.duplicated(["id", "slot"], keep=False)].set_index(["id", "slot"])
    owner = np.repeat(trace.workload_id.astype(str), np.diff(trace.offsets))
    first = raw.slot.min()
    got = {(i, s + first): u for i, s, u in zip(owner, trace.slot, trace.usage, strict=True)}
    wanted = whole[["avg_cpu_usage", "avg_memory_usage"]].to_numpy(float)
    np.testing.assert_allclose(np.array([got[key] for key in whole.index]), wanted, rtol=1e-6)
    last = raw.sort_values("time").groupby("id").last().loc[trace.workload_id.astype(str)]
    np.testing.assert_allclose(trace.request, last[["cpu_limit", "memory_limit"]].to_numpy(float), rtol=1e-6)
    np.testing.assert_allclose(trace.priority, last.priority.to_numpy(float))
