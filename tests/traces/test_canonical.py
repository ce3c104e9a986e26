"""The canonical trace: what is read, what is refused and with which message, and what the hash depends on."""

import gzip
import json
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvwrl.traces import read_trace, trace_hash, write_trace
from tvwrl.types import InputError, Trace

USAGE = {"workload_id": ["b", "a", "b", "a"], "slot": [3, 0, 4, 7], "cpu": [0.5, 0.1, 0.0, 0.2], "mem": [1, 2, 3, 4]}
HEADER = {"name": "small", "resources": ["cpu", "mem"], "slot_seconds": 300, "reference_machine": {"cpu": "4 cores"}}
CSV = "workload_id,slot,cpu,mem\nb,3,0.5,1\na,0,0.1,2\nb,4,0,3\na,7,0.2,4\n"


def folder_of(path, usage=USAGE, header=HEADER, workloads=None):
    path.mkdir(exist_ok=True)
    if usage is not None:
        pl.DataFrame(usage, strict=False).write_parquet(path / "usage.parquet")
    if workloads is not None:
        pl.DataFrame(workloads, strict=False).write_parquet(path / "workloads.parquet")
    if header is not None:
        (path / "trace.json").write_text(header if isinstance(header, str) else json.dumps(header))
    return path


def csv_of(path, text=CSV, name="data.csv"):
    file = path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def small_trace(folder):
    """The trace of CSV; nothing stays in the folder."""
    file = csv_of(folder)
    trace = read_trace(file, 300)
    file.unlink()
    return trace


def assert_equal(a: Trace, b: Trace):
    for field in fields(Trace):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if isinstance(x, np.ndarray):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y, err_msg=field.name)
        else:
            assert x == y, field.name


def refused(*parts, path, slot_seconds=None):
    with pytest.raises(InputError) as error:
        read_trace(path, slot_seconds)
    for part in parts:
        assert str(part) in str(error.value), f"{part!r} is not in: {error.value}"


def test_a_folder_worked_out_by_hand(tmp_path):
    workloads = {
        "workload_id": ["a", "b"],
        "application": ["web", None],
        "arrival": [None, 1],
        "priority": [None, 9],
        "class": [2.0, None],
        "request_mem": [0.25, None],
    }
    trace = read_trace(folder_of(tmp_path / "t", workloads=workloads))
    assert (trace.name, trace.resources, trace.slot_seconds, trace.source) == ("small", ("cpu", "mem"), 300, "real")
    assert trace.reference_machine == {"cpu": "4 cores"}
    assert trace.workload_id.tolist() == ["b", "a"]
    assert trace.offsets.tolist() == [0, 2, 4]
    assert trace.slot.tolist() == [3, 4, 0, 7]
    assert trace.usage.tolist() == [[0.5, 1], [0.0, 3], [0.1, 2], [0.2, 4]]
    assert trace.application.tolist() == ["", "web"]
    assert trace.arrival.tolist() == [1, 0]
    np.testing.assert_array_equal(trace.priority, [9, np.nan])
    np.testing.assert_array_equal(trace.scheduling_class, [np.nan, 2])
    np.testing.assert_array_equal(trace.request, [[np.nan, np.nan], [np.nan, 0.25]])


def test_without_workloads_all_of_it_is_unknown(tmp_path):
    header = {"resources": ["mem"], "slot_seconds": 60.0, "source": "synthetic", "name": None}
    trace = read_trace(folder_of(tmp_path / "plain", header=header), slot_seconds=60)
    assert (trace.name, trace.resources, trace.source, trace.slot_seconds) == ("plain", ("mem",), "synthetic", 60)
    assert trace.arrival.tolist() == [3, 0]
    assert trace.application.tolist() == ["", ""]
    assert np.isnan([*trace.priority, *trace.request.ravel()]).all()


def test_workloads_that_one_of_the_tables_lacks(tmp_path):
    workloads = {"workload_id": ["ghost", "a"], "priority": [1, 5], "team": ["x", "y"]}
    path = folder_of(tmp_path / "t", workloads=workloads)
    ghost, team = r"workloads\.parquet: 1 rows without usage ignored, first: row 1", "columns ignored: team"
    with pytest.warns(match=ghost), pytest.warns(match=team):
        trace = read_trace(path)
    np.testing.assert_array_equal(trace.priority, [np.nan, 5])


def test_whole_number_ids_become_text(tmp_path):
    usage = USAGE | {"workload_id": [7, 3, 7, 3]}
    path = folder_of(tmp_path / "t", usage, workloads={"workload_id": [3, 7], "application": [1, 2]})
    trace = read_trace(path)
    assert trace.workload_id.tolist() == ["7", "3"]
    assert trace.application.tolist() == ["2", "1"]


@pytest.mark.parametrize(
    "text",
    [
        CSV.replace("\n", "\r\n") + "\r\n\r\n",
        "\ufeff" + CSV,
        CSV.replace(",", ", "),
        CSV.replace("b,", '"b",'),
        CSV.replace(",3,", ",3.0,"),
        gzip.compress(CSV.encode(), mtime=0),
    ],
    ids=["crlf", "byte-order-mark", "spaces", "quotes", "whole-floats", "gzip"],
)
def test_ways_of_writing_a_csv(tmp_path, text):
    expected = read_trace(csv_of(tmp_path), 300)
    trace = read_trace(csv_of(tmp_path, text, "data.CSV.gz" if isinstance(text, bytes) else "data.csv"), 300)
    assert trace.name == "data"
    assert_equal(trace, expected)


BAD_CELLS = [
    ("cpu", -0.25, "negative", "finite number >= 0"),
    ("cpu", float("nan"), "nan", "finite number >= 0"),
    ("cpu", None, "null", "finite number >= 0"),
    ("mem", float("inf"), "inf", "finite number >= 0"),
    ("mem", 1e300, "1e+300", "finite number >= 0 and <= 1e+06"),
    ("slot", -1, "negative", "whole number from 0"),
    ("slot", 4.5, "4.5", "whole number from 0"),
    ("slot", None, "null", "whole number from 0"),
    ("slot", 2**60, str(2**60)[:8], "whole number from 0"),
    ("slot", 3, "overlapping", "row 1"),
    ("slot", 2, "unsorted", "row 1"),
    ("workload_id", None, "null", "empty"),
    ("workload_id", "", "''", "empty"),
    ("workload_id", " ", "' '", "empty"),
]


@pytest.mark.parametrize(("column", "value", "shown", "limit"), BAD_CELLS)
def test_a_bad_cell_of_a_folder_and_of_a_csv(tmp_path, column, value, shown, limit):
    usage = USAGE | {column: [value if i == 2 else old for i, old in enumerate(USAGE[column])]}
    refused("usage.parquet", "row 3", f"column {column}", shown, limit, path=folder_of(tmp_path / "t", usage))
    file = csv_of(tmp_path, pl.DataFrame(usage, strict=False).write_csv(quote_style="never"))
    shown, limit = {"": "null", "nan": "NaN"}.get(str(value), shown), limit.replace("row 1", "line 2")
    refused("data.csv", "line 4", f"column {column}", shown, limit, path=file, slot_seconds=60)


@pytest.mark.parametrize(
    ("column", "values", "parts"),
    [
        ("cpu", ["0.1", "much", "0", "0"], ["row 2", "'much'", "not a number"]),
        ("cpu", [True, False, True, True], ["row 1", "True", "not a number"]),
        ("cpu", [[1.0], [1.0], [1.0], [1.0]], ["row 1", "not a number"]),
        ("workload_id", [1.0, 2.0, 1.0, 2.0], ["row 1", "1.0", "Float64", "text or whole numbers"]),
    ],
)
def test_a_column_of_the_wrong_type(tmp_path, column, values, parts):
    path = folder_of(tmp_path / "t", USAGE | {column: values})
    refused("usage.parquet", f"column {column}", *parts, path=path)


@pytest.mark.parametrize(
    ("workloads", "parts"),
    [
        ({"application": ["x"]}, ["no column 'workload_id'", "application"]),
        ({"workload_id": ["a", "b", "a"]}, ["row 3", "column workload_id", "'a'", "duplicate of row 1"]),
        ({"workload_id": ["a", None]}, ["row 2", "column workload_id", "null"]),
        ({"workload_id": ["a", "b"], "request_cpu": [0.5, -0.5]}, ["row 2", "request_cpu", "-0.5", ">= 0"]),
        ({"workload_id": ["a"], "arrival": [-3]}, ["row 1", "column arrival", "-3", "whole number"]),
        ({"workload_id": ["a"], "priority": ["high"]}, ["row 1", "column priority", "'high'", "not a number"]),
        ({"workload_id": ["a"], "class": [float("inf")]}, ["row 1", "column class", "inf", "finite"]),
        ({"workload_id": ["a"], "application": [1.5]}, ["row 1", "column application", "1.5", "text"]),
    ],
)
def test_bad_workloads(tmp_path, workloads, parts):
    refused("workloads.parquet", *parts, path=folder_of(tmp_path / "t", workloads=workloads))


@pytest.mark.parametrize(
    ("header", "parts"),
    [
        ("{", ["cannot be read as JSON"]),
        ("[" * 100_000, ["cannot be read as JSON"]),
        ("[1]", ["JSON object"]),
        ({"slot_seconds": 300}, ["field resources", "missing among slot_seconds"]),
        ({"resources": ["cpu"]}, ["field slot_seconds", "missing among resources"]),
        (HEADER | {"resources": []}, ["field resources", "[]", "one or more"]),
        (HEADER | {"resources": [1]}, ["field resources", "[1]", "list"]),
        (HEADER | {"resources": ["cpu", "cpu"]}, ["field resources", "['cpu', 'cpu']", "differ"]),
        (HEADER | {"resources": ["slot"]}, ["field resources", "['slot']", "differ"]),
        (HEADER | {"slot_seconds": 0}, ["slot_seconds", "0", "> 0"]),
        (HEADER | {"slot_seconds": 0.5}, ["slot_seconds", "0.5", "whole number"]),
        (HEADER | {"slot_seconds": "300"}, ["slot_seconds", "'300'", "whole number"]),
        (HEADER | {"slot_seconds": True}, ["slot_seconds", "True", "whole number"]),
        (HEADER | {"source": "guess"}, ["field source", "'guess'", "'real' or 'synthetic'"]),
        (HEADER | {"name": 3}, ["field name", "3", "text"]),
    ],
)
def test_a_bad_header(tmp_path, header, parts):
    refused("trace.json", *parts, path=folder_of(tmp_path / "t", header=header))


@pytest.mark.parametrize("column", ["workload_id", "slot", "mem"])
def test_a_missing_column(tmp_path, column):
    usage = {name: values for name, values in USAGE.items() if name != column}
    refused("usage.parquet", f"no column {column!r}", ", ".join(usage), path=folder_of(tmp_path / "t", usage))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["empty"]),
        ("workload_id,slot,cpu\na,0,much\n", ["line 2", "column cpu", "'much'", "not a number"]),
        ("workload_id,slot,cpu\n", ["empty"]),
        ("workload_id,slot\na,0\n", ["<resource>", "workload_id, slot"]),
        ("workload_id,cpu\na,0\n", ["no column 'slot'", "workload_id, cpu"]),
        ("workload_id;slot;cpu\na;0;1\n", ["no column 'workload_id'", "workload_id;slot;cpu", "--separator ';'"]),
        (",workload_id,slot,cpu\n0,a,0,1\n", ["line 1", "index=False"]),
        ("workload_id,slot,cpu,cpu\na,0,1,1\n", ["line 1", "name of its own"]),
        ("workload_id,slot,cpu\na,0,1\na,1,1,5\n", ["line 3", "column 4", "'5'", "3 fields"]),
        ("workload_id,slot,cpu\na,0,1\na,1\n", ["line 3", "column cpu", "null"]),
        ("workload_id,slot,cpu\na,0,1\n\na,1,1\n", ["line 3", "workload_id", "null"]),
        (b"workload_id,slot,cpu\na,0,\xff\n", ["line 2", "byte 0xff is not UTF-8"]),
        (b"\x1f\x8b\x08\x00", ["cannot be read"]),
        ('workload_id,slot,cpu\n"a,0,1\n', ["data.csv"]),
    ],
)
def test_a_bad_csv(tmp_path, text, parts):
    refused("data.csv", *parts, path=csv_of(tmp_path, text), slot_seconds=300)


def test_what_is_not_there(tmp_path):
    refused(tmp_path / "x", "no such file or folder", path=tmp_path / "x")
    refused("no trace.json", path=tmp_path)
    refused("no usage.parquet", path=folder_of(tmp_path / "t", usage=None))
    refused("usage.parquet", "empty", path=folder_of(tmp_path / "none", pl.DataFrame(USAGE).clear()))
    (tmp_path / "notes.txt").write_text(CSV)
    refused("notes.txt", ".csv", path=tmp_path / "notes.txt", slot_seconds=300)
    (tmp_path / "t.parquet").touch()
    refused("t.parquet", "tvwrl prepare parquet", path=tmp_path / "t.parquet", slot_seconds=300)
    (tmp_path / "d.csv.gz").mkdir()
    refused("d.csv.gz", "no trace.json", path=tmp_path / "d.csv.gz")


@pytest.mark.parametrize("name", ["usage.parquet", "workloads.parquet"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_parquet(tmp_path, name, share):
    path = folder_of(tmp_path / "t", workloads={"workload_id": ["a", "b"]})
    content = (path / name).read_bytes()
    (path / name).write_bytes(content[: int(share * len(content))])
    refused(name, "empty or not a parquet file", path=path)


def test_slot_seconds_wrong_missing_or_contradicted(tmp_path):
    for value in (0, -1, 1.5, "300", True, float("nan"), float("inf")):
        refused("data.csv", "slot_seconds", repr(value), path=csv_of(tmp_path), slot_seconds=value)
    refused("data.csv", "--slot-seconds 300", "slot_seconds=300", path=csv_of(tmp_path))
    refused("trace.json", "300", "60", path=folder_of(tmp_path / "t"), slot_seconds=60)


@st.composite
def traces(draw):
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(str.strip)
    ids = draw(st.lists(text.filter(bool), min_size=1, max_size=4, unique=True))
    slots = [sorted(draw(st.sets(st.integers(0, 2**53), min_size=1, max_size=4))) for _ in ids]
    n, r, d = len(ids), sum(map(len, slots)), draw(st.integers(1, 3))
    number = st.floats(0, 1e6)
    unknown = st.one_of(st.floats(0, 1e300), st.just(np.nan))

    def array(values, count):
        return np.array(draw(st.lists(values, min_size=count, max_size=count)))

    return Trace(
        name=draw(text),
        resources=("cpu", "mem", "disk, é")[:d],
        slot_seconds=draw(st.integers(1, 10**6)),
        workload_id=np.array(ids, dtype=object),
        offsets=np.cumsum([0, *map(len, slots)]),
        slot=np.concatenate(slots).astype(np.int64),
        usage=array(number, r * d).reshape(r, d),
        application=array(text, n).astype(object),
        arrival=array(st.integers(0, 2**53), n).astype(np.int64),
        priority=array(unknown, n),
        scheduling_class=array(unknown, n),
        request=array(st.one_of(number, st.just(np.nan)), n * d).reshape(n, d),
        reference_machine=draw(st.sampled_from([None, "4 cores", {"cpu": [1, 2.5]}])),
        source=draw(st.sampled_from(["real", "synthetic"])),
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trace=traces(), data=st.data())
def test_round_trip_and_hash(tmp_path_factory, trace, data):
    folder = tmp_path_factory.mktemp("round") / "t"
    write_trace(trace, folder)
    again = read_trace(folder)
    assert_equal(again, trace)
    assert trace_hash(again) == trace_hash(trace)
    order = data.draw(st.permutations(range(len(trace))))
    assert trace_hash(trace.select(order)) == trace_hash(trace)


def test_hash_does_not_depend_on_rows_or_format(tmp_path):
    trace = read_trace(csv_of(tmp_path), 300)
    header, b3, a0, b4, a7 = CSV.splitlines()
    assert trace_hash(read_trace(csv_of(tmp_path, "\n".join([header, a0, a7, b3, b4])), 300)) == trace_hash(trace)
    write_trace(trace, tmp_path / "t")
    assert trace_hash(read_trace(tmp_path / "t")) == trace_hash(trace)
    assert trace_hash(trace)[:12] == "9d9671c4c9de", "a hash of an earlier session no longer holds"


def test_hash_depends_on_every_field(tmp_path):
    trace = read_trace(csv_of(tmp_path), 300)
    changed = {
        "name": "x",
        "resources": ("cpu", "disk"),
        "slot_seconds": 60,
        "workload_id": np.array(["b", "c"], dtype=object),
        "slot": trace.slot + 1,
        "usage": trace.usage + 1e-12,
        "application": np.array(["", "web"], dtype=object),
        "arrival": trace.arrival + 1,
        "priority": np.array([0.0, np.nan]),
        "scheduling_class": np.array([0.0, np.nan]),
        "request": np.zeros((2, 2)),
        "reference_machine": "4 cores",
        "source": "synthetic",
        "offsets": np.array([0, 1, 4]),
    }
    assert changed.keys() == {field.name for field in fields(Trace)}
    hashes = {trace_hash(replace(trace, **{name: value})) for name, value in changed.items()}
    assert len(hashes | {trace_hash(trace)}) == len(changed) + 1
    assert trace_hash(replace(trace, usage=trace.usage * np.where(trace.usage == 0, -1.0, 1.0))) == trace_hash(trace)


def test_a_failing_write_leaves_nothing(tmp_path, monkeypatch):
    trace = small_trace(tmp_path)
    monkeypatch.setattr("pathlib.Path.write_text", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_trace(trace, tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("spoil", "part"),
    [
        (lambda trace: replace(trace, usage=-trace.usage), "column cpu"),
        (lambda trace: replace(trace, slot_seconds=0), "slot_seconds"),
        (lambda trace: replace(trace, workload_id=np.array(["a", "a"], dtype=object)), "slot"),
        (lambda trace: replace(trace, offsets=np.array([0, 4, 4])), "'a' is empty"),
        (lambda trace: trace.select([]), "empty"),
    ],
)
def test_what_could_not_be_read_is_not_written(tmp_path, spoil, part):
    bad = spoil(small_trace(tmp_path))
    with pytest.raises(InputError, match=part) as error:
        write_trace(bad, tmp_path / "t")
    assert str(tmp_path / "t") in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_write_refuses_a_folder_in_use(tmp_path):
    trace = read_trace(csv_of(tmp_path), 300)
    (tmp_path / "empty").mkdir()
    write_trace(trace, tmp_path / "empty")
    write_trace(trace, tmp_path / "deep" / "er")
    assert_equal(read_trace(tmp_path / "empty"), trace)
    for used, why in (("empty", "empty already exists and is not empty"), ("data.csv", "data.csv is a file")):
        with pytest.raises(InputError, match=why):
            write_trace(trace, tmp_path / used)
    assert (tmp_path / "data.csv").read_text() == CSV


def test_the_examples_of_the_documentation(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    text = (Path(__file__).parents[2] / "docs" / "reference" / "trace-format.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(code, {})
    sample = csv_of(tmp_path, re.search(r"```csv\n(.*?)```", text, re.DOTALL)[1])
    by_folder, by_csv = read_trace("my-trace"), read_trace(sample, 300)
    assert by_folder.workload_id.tolist() == ["batch-7", "web-1"]
    assert by_folder.application.tolist() == ["", "web"]
    np.testing.assert_array_equal(by_folder.select([1, 0]).usage, by_csv.usage)


def test_a_csv_without_the_length_of_a_slot_is_refused_for_what_it_lacks(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("workload_id,slot,cpu\na,1,0.2\n")
    refused("data.csv", "--slot-seconds 300", path=file)
    file.write_text("workload,slot,cpu\na,1,0.2\n")
    refused("data.csv", "no column 'workload_id'", "workload, slot, cpu", path=file)
