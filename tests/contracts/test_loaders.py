"""What every registered loader keeps to: the same usage out of every format, bad input named, nothing half-written."""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.traces.conftest import digest, prepared, write_file
from tvwrl.traces.loaders import LOADERS
from tvwrl.traces.preparation import prepare as preparing
from tvwrl.traces.preparation.prepare import OWN_TABLES
from tvwrl.traces.preparation.series import SeriesRules
from tvwrl.types import InputError

Record = tuple[int, int, float, float]  # workload 0 or 1, slot, cpu and mem as fractions


def records(slots: int) -> list[Record]:
    """Two workloads side by side: 0 rises and falls, 1 is constant."""
    return [(w, t, 0.3 if w else 0.1 + 0.01 * (t % 5), 0.2 + 0.2 * w) for t in range(slots) for w in range(2)]


def google2011(folder: Path, rows: list[Record]) -> Path:
    def line(w: int, t: int, cpu: float, mem: float) -> str:
        return f"{t * 300_000_000},{(t + 1) * 300_000_000},{w},0,7,{cpu},{mem},0,0,0,0,0,0,0,0,0,0,1,0,{cpu}"

    return write_file(folder / "task_usage" / "part-00000-of-00500.csv.gz", [line(*r) for r in rows])


def google2019(folder: Path, rows: list[Record]) -> Path:
    def line(w: int, t: int, cpu: float, mem: float) -> str:
        times = {"start_time": str(t * 300_000_000), "end_time": str((t + 1) * 300_000_000)}
        names = {"collection_id": str(w), "instance_index": "0", "machine_id": "7", "collection_type": "0"}
        return json.dumps(times | names | {"average_usage": {"cpus": cpu, "memory": mem}, "assigned_memory": 0.5})

    return write_file(folder / "instance_usage" / "instance_usage-000000000000.json.gz", [line(*r) for r in rows])


def alibaba2018(folder: Path, rows: list[Record]) -> Path:
    write_file(folder / "container_meta.csv", [f"{w},m_1,0,app_{w},started,9600,9600,100" for w in range(2)])
    lines = [f"{w},m_1,{t * 300},{100 * cpu:.10g},{100 * mem:.10g},,,,,," for w, t, cpu, mem in rows]
    return write_file(folder / "container_usage.csv.gz", lines)


def tianchi(folder: Path, rows: list[Record]) -> Path:
    write_file(folder / "machine_resources.csv", ["machine_1,100,100,1000,7,7,7"])
    series = {w: [r for r in rows if r[0] == w] for w in dict.fromkeys(r[0] for r in rows)}
    columns = {w: ["|".join(f"{100 * r[d]:.10g}" for r in found) for d in (2, 3)] for w, found in series.items()}
    return write_file(folder / "app_resources.csv", [f"{w},{cpu},{mem},10,1,1,1" for w, (cpu, mem) in columns.items()])


VM = (
    "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\tCPU usage [%];\t"
    "Memory capacity provisioned [KB];\tMemory usage [KB]"
)
OWN = "time,workload_id,cpu,mem"


def bitbrains(folder: Path, rows: list[Record]) -> Path:
    for w in (1, 0):
        lines = [
            f"{1_376_314_800 + 300 * t};\t4;\t1000;\t{1000 * cpu:.10g};\t{100 * cpu:.10g};\t8000;\t{8000 * mem:.10g}"
            for v, t, cpu, mem in rows
            if v == w
        ]
        path = write_file(folder / "fastStorage" / "2013-8" / f"{w}.csv", [VM, *lines])
    return path


def azure2019(folder: Path, rows: list[Record]) -> Path:
    # 24 of 30 cores and 32 of 70 GiB are the buckets; usage is of the VM's own cores, memory stays at the request.
    write_file(folder / "vmtable.csv.gz", [f"{w},s,d,0,9,1,1,1,Unknown,24,32" for w in range(2)])
    lines = [f"{t * 300},{w},0,100,{100 * cpu * 30 / 24:.12g}" for w, t, cpu, _ in rows]
    return write_file(folder / "vm_cpu_readings-file-1-of-195.csv.gz", lines)


def csv(folder: Path, rows: list[Record]) -> Path:
    return write_file(folder / "mine.csv.gz", [OWN, *(f"{t * 300},{w},{c},{m}" for w, t, c, m in rows)])


def parquet(folder: Path, rows: list[Record]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    frame = pl.DataFrame(rows, schema=["workload_id", "time", "cpu", "mem"], orient="row")
    frame.with_columns(pl.col("time") * 300).write_parquet(folder / "mine.parquet")
    return folder / "mine.parquet"


@dataclass(frozen=True)
class Sample:
    """How a format is written, and what is particular about it."""

    write: Callable[[Path, list[Record]], Path]  # returns the file that is damaged in tests
    ids: tuple[str, str] = ("0", "1")
    slots: int = 320
    mem: tuple[float, float] | None = None  # where it is not what was written
    series: bool = False  # a row is a whole series, not a record
    text: bool = True
    second: str = ""  # name of another file of usage, beside the one that is written
    header: str = ""  # the first line, where files have one


SAMPLES = {
    "google2011": Sample(google2011, ("0-0", "1-0"), second="part-00001-of-00500.csv.gz"),
    "google2019": Sample(google2019, ("0-0", "1-0"), second="instance_usage-000000000001.json.gz"),
    "alibaba2018": Sample(alibaba2018, second="container_usage-2.csv.gz"),
    "tianchi": Sample(tianchi, slots=98, series=True),
    "bitbrains": Sample(bitbrains, ("2013-8-0", "2013-8-1"), second="7.csv", header=VM),
    "azure2019": Sample(azure2019, mem=(32 / 70, 32 / 70), second="vm_cpu_readings-file-2-of-195.csv"),
    "csv": Sample(csv, second="other.csv.gz", header=OWN),
    "parquet": Sample(parquet, text=False, second="other.parquet"),
}
RECORDS = [name for name, sample in SAMPLES.items() if not sample.series]
GZ = ["google2011", "google2019", "alibaba2018", "azure2019", "csv"]


def run(name: str, source: Path, out: Path, gaps: str = "hold", **options: Any) -> tuple[Any, dict[str, Any]]:
    loader = LOADERS[name]()
    rules = SeriesRules(loader.slot_seconds, gaps, 2, loader.min_records)
    return prepared(loader, source, out, rules, **options)


def check(trace: Any, sample: Sample) -> None:
    """The trace holds exactly the records."""
    assert sorted(trace.workload_id) == list(sample.ids)
    for w, workload in enumerate(sample.ids):
        i = list(trace.workload_id).index(workload)
        wanted = np.array([r[2:] for r in records(sample.slots) if r[0] == w])
        if sample.mem is not None:
            wanted[:, 1] = sample.mem[w]
        assert np.allclose(trace.series(i), wanted, rtol=1e-9, atol=0)
        assert trace.slot[trace.offsets[i] : trace.offsets[i + 1]].tolist() == list(range(sample.slots))


def test_every_loader_has_a_sample() -> None:
    assert set(LOADERS) == {*SAMPLES, "prometheus"}  # which is asked in tests/traces/loaders/prometheus


@pytest.mark.parametrize("name", SAMPLES)
def test_usage_comes_out_as_it_was_written(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    sample.write(tmp_path / "source", records(sample.slots))
    trace, report = run(name, tmp_path / "source", tmp_path / "out", plots=name == "csv")
    check(trace, sample)
    assert (trace.name, trace.source, trace.slot_seconds) == (name, "real", LOADERS[name]().slot_seconds)
    assert trace.reference_machine is not None or name in ("csv", "parquet")
    assert report["workloads"] == {"seen": 2, "kept": 2}
    assert report["coverage"] == 1.0
    assert report["described"] == 2
    beside = {path.stem for path in (tmp_path / "out").glob("*.parquet")} - {"usage", "workloads"}
    assert report["beside"] == {path: len(pl.read_parquet(tmp_path / "out" / f"{path}.parquet")) for path in beside}
    assert not report["rows"]["bad"]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"usage.parquet", "workloads.parquet", "trace.json", "report.json", "report.md"} <= written
    assert ("report.png" in written) == (name == "csv")
    assert f"2 of 2 workloads kept; {2 * sample.slots} slots" in (tmp_path / "out" / "report.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source"]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = SAMPLES[name]
    sample.write(tmp_path / "source", records(sample.slots))
    run(name, tmp_path / "source", tmp_path / "whole", readers=1)
    with monkeypatch.context() as patch:
        patch.setattr(preparing, "make_share", _stop)
        with pytest.raises(KeyboardInterrupt):
            run(name, tmp_path / "source", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    loader = LOADERS[name]
    read = loader.read

    def read_no_usage(self: Any, part: Any) -> Any:
        assert not part.usage, f"{part.name} is read again"
        return read(self, part)

    monkeypatch.setattr(loader, "read", read_no_usage)
    run(name, tmp_path / "source", tmp_path / "out", readers=3)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source", "whole"]


def _stop(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", ["tianchi", "bitbrains"])
def test_the_zip_as_published_gives_the_same(name: str, inside: bool, tmp_path: Path) -> None:
    plain, sample = tmp_path / "plain", SAMPLES[name]
    sample.write(plain, records(sample.slots))
    archive = tmp_path / "zipped" / "all.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in plain.rglob("*.csv"):
            packed.write(path, path.relative_to(plain))
    trace, _ = run(name, archive.parent if inside else archive, tmp_path / "out")
    check(trace, sample)


REFERENCES = [
    (name, field.name)
    for name, loader in LOADERS.items()
    for field in fields(loader)  # type: ignore[arg-type]
    if field.name in ("reference_cores", "reference_memory")
]


@pytest.mark.parametrize(("name", "option"), REFERENCES)
@pytest.mark.parametrize("size", [0.0, -1.0, float("nan"), float("inf")])
def test_a_reference_machine_without_a_size_is_refused(name: str, option: str, size: float) -> None:
    with pytest.raises(InputError, match=rf"{option} is .*: must be a number > 0"):
        LOADERS[name](**{option: size})


@pytest.mark.parametrize("name", RECORDS)
def test_gaps(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    missing = [r for r in records(640) if r[:2] not in ((0, 300), (0, 301), (1, 310), (1, 311), (1, 312))]
    sample.write(tmp_path / "source", missing)
    held, report = run(name, tmp_path / "source", tmp_path / "held")
    first, second = (list(held.workload_id).index(workload) for workload in sample.ids)
    assert np.allclose(held.series(first)[299:302, 0], 0.14)  # slot 299 is held for two
    assert 310 not in held.slot[held.offsets[second] : held.offsets[second + 1]]  # three slots are too long a gap
    assert report["coverage"] == pytest.approx((638 + 637) / 1280)
    filled, _ = run(name, tmp_path / "source", tmp_path / "filled", gaps="interpolate")
    assert np.allclose(filled.series(first)[299:303, 0], [0.14, 0.14 - 0.02 / 3, 0.14 - 0.04 / 3, 0.12])
    left, _ = run(name, tmp_path / "source", tmp_path / "left", gaps="drop")
    assert len(left.slot) == 638 + 637


@pytest.mark.parametrize("name", RECORDS)
def test_duplicates_are_dropped_and_order_does_not_matter(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    rows = records(sample.slots)
    sample.write(tmp_path / "source", [*rows[::-1], rows[17], rows[17]])
    trace, report = run(name, tmp_path / "source", tmp_path / "out")
    check(trace, sample)
    assert report["rows"]["dropped"] == {"duplicated rows": 2}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("cpu", [-0.5, float("nan"), 1e300])
def test_a_bad_value_is_counted_and_named(name: str, cpu: float, tmp_path: Path) -> None:
    sample, rows = SAMPLES[name], records(sample_slots := SAMPLES[name].slots)
    rows[40] = (*rows[40][:2], cpu, rows[40][3])  # slot 20 of workload 0
    path = sample.write(tmp_path / "source", rows)
    trace, report = run(name, tmp_path / "source", tmp_path / "out")
    assert len(trace.slot) == 2 * sample_slots  # the gap is held
    assert sum(report["rows"]["bad"].values()) == 1
    assert str(path) in report["examples"][0] or path.name in report["examples"][0]
    assert any(f"{word} " in report["examples"][0] for word in ("line", "row"))
    assert cpu != 1e300 or re.search(r"cpus? is above \d[\de+]*", report["examples"][0]) is not None
    with pytest.raises(InputError, match=r"1 of \d+ rows of .* are bad \(0\.\d+%\), more than --max-bad-fraction 0"):
        run(name, tmp_path / "source", tmp_path / "strict", max_bad_fraction=0)
    assert not (tmp_path / "strict").exists()


@pytest.mark.parametrize("name", SAMPLES)
def test_records_above_one_machine_are_counted_and_the_largest_is_named(name: str, tmp_path: Path) -> None:
    sample, rows = SAMPLES[name], records(SAMPLES[name].slots)
    for row, cpu in ((40, 1.25), (61, 1.5), (80, 1.0)):  # slot 20 of workload 0, 30 of 1, 40 of 0
        rows[row] = (*rows[row][:2], cpu, rows[row][3])
    sample.write(tmp_path / "source", rows)
    trace, report = run(name, tmp_path / "source", tmp_path / "out")
    found = report["above"]
    assert set(found) == {"cpu"}
    assert found["cpu"]["usage"] == pytest.approx(1.5)
    assert {"records": 2, "workload": sample.ids[1]}.items() <= found["cpu"].items()
    assert found["cpu"]["time"] == report["time"]["first"] + 30 * LOADERS[name]().slot_seconds * 1_000_000
    assert trace.usage[:, 0].max() == pytest.approx(1.5)
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| more than a reference machine | records | most | of workload |" in " ".join(text.split())
    sample.write(tmp_path / "source", records(sample.slots))
    _, report = run(name, tmp_path / "source", tmp_path / "none")
    assert report["above"] == {}
    assert "reference machine |" not in (tmp_path / "none" / "report.md").read_text()


def text_without_rows(sample: Sample) -> dict[str, bytes]:
    """What a file of text may hold that has no rows."""
    return {"nothing": b"", "blank lines": b"\n\n", "a mark": b"\xef\xbb\xbf"} | (
        {"a header": f"{sample.header}\n".encode(), "a header without an end": sample.header.encode()}
        if sample.header
        else {}
    )


def packed(path: Path, text: bytes) -> bytes:
    return gzip.compress(text) if path.suffix == ".gz" else text


WITHOUT_ROWS = [(name, "zero bytes") for name in RECORDS] + [
    (name, what)
    for name in RECORDS
    for what in (text_without_rows(SAMPLES[name]) if SAMPLES[name].text else ["a schema"])
]


def write_without_rows(sample: Sample, path: Path, what: str) -> None:
    if what == "zero bytes":
        path.write_bytes(b"")
    elif what == "a schema":
        frame = pl.DataFrame(schema={"workload_id": pl.Int64, "time": pl.Int64, "cpu": pl.Float64, "mem": pl.Float64})
        frame.write_parquet(path)
    else:
        path.write_bytes(packed(path, text_without_rows(sample)[what]))


@pytest.mark.parametrize(("name", "what"), WITHOUT_ROWS)
def test_nothing_but_empty_files_is_refused(name: str, what: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    path = sample.write(tmp_path / "source", records(sample.slots))
    for file in (path, path.with_name(sample.second)):
        write_without_rows(sample, file, what)
    for other in path.parent.glob("1.csv"):  # of bitbrains, a VM of its own
        other.unlink()
    with pytest.raises(InputError, match=rf"({path.name}|{sample.second}): empty: it holds no rows of "):
        run(name, tmp_path / "source", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "what"), WITHOUT_ROWS)
def test_an_empty_file_among_good_ones_is_counted_and_warned_of(name: str, what: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    path = sample.write(tmp_path / "source", records(sample.slots)).with_name(sample.second)
    write_without_rows(sample, path, what)
    with pytest.warns(UserWarning, match=f"{path.name}: empty: it holds no rows; the other files are used"):
        trace, report = run(name, tmp_path / "source", tmp_path / "out")
    check(trace, sample)
    assert list(report["rows"]["dropped"].values()) == [1]
    assert "| dropped: files without rows of " in (tmp_path / "out" / "report.md").read_text()


TEXT = [name for name, sample in SAMPLES.items() if sample.text]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", TEXT)
def test_text_in_another_encoding_is_named(name: str, encoding: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    path = sample.write(tmp_path / "source", records(sample.slots))
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    path.write_bytes(packed(path, text.decode().encode(encoding)))
    iconv = encoding.upper().replace("-LE", "LE").replace("-BE", "BE")
    with pytest.raises(InputError, match=rf"{path.name}: line 1: this is {iconv}, .* iconv -f {iconv} -t UTF-8 "):
        run(name, tmp_path / "source", tmp_path / "out")
    path.write_bytes(packed(path, text + b"\xe9t\xe9\n"))
    with pytest.raises(InputError, match=rf"{path.name}: line \d+: byte 0xe9 .*iconv -f ISO-8859-1 -t UTF-8"):
        run(name, tmp_path / "source", tmp_path / "out")


@pytest.mark.parametrize("name", TEXT)
def test_a_mark_before_utf_8_is_no_part_of_the_text(name: str, tmp_path: Path) -> None:
    """Nor where a fault further on makes every row be looked at by itself."""
    sample = SAMPLES[name]
    path = sample.write(tmp_path / "source", records(sample.slots))
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for fault in (b"", b"no row\n"):
        path.write_bytes(packed(path, b"\xef\xbb\xbf" + text + fault))
        trace, report = run(name, tmp_path / "source", tmp_path / f"out{len(fault)}", max_bad_fraction=0.5)
        check(trace, sample)
        assert sum(report["rows"]["bad"].values()) == bool(fault)


@pytest.mark.parametrize("lost", [1, 4, 30])
@pytest.mark.parametrize("name", GZ)
def test_a_truncated_gz_among_good_ones_is_refused_with_what_to_do(name: str, lost: int, tmp_path: Path) -> None:
    """Not counted as an empty file: some of its rows may be readable, and how many are lost cannot be told."""
    sample = SAMPLES[name]
    path = sample.write(tmp_path / "source", records(sample.slots))
    other = path.with_name(sample.second.removesuffix(".gz") + ".gz")
    other.write_bytes(path.read_bytes()[:-lost])
    with pytest.raises(InputError, match=rf"{other.name}: .*it is truncated; .*download it again \(gzip -t FILE"):
        run(name, tmp_path / "source", tmp_path / "out")


@pytest.mark.parametrize("name", [name for name in RECORDS if SAMPLES[name].text])
def test_a_row_cut_off_is_counted_and_named(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    path = sample.write(tmp_path / "source", records(sample.slots))
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = data.decode().splitlines()
    lines[40] = lines[40][: len(lines[40]) // 3]
    write_file(path, lines)
    _, report = run(name, tmp_path / "source", tmp_path / "out")
    assert sum(report["rows"]["bad"].values()) == 1
    assert "line 41" in report["examples"][0]


@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_foreign_and_absent_files_are_refused(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    path = sample.write(tmp_path / "source", [r for r in records(sample.slots) if not r[0]])
    whole = path.read_bytes()
    contents = [b"", b"PAR1", whole[: len(whole) // 2]] if name in GZ or not sample.text else [b""]
    foreign = b"these are not\nthe rows\nthat are needed\n" * 20
    for content in [*contents, gzip.compress(foreign) if path.suffix == ".gz" else foreign]:
        path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            run(name, tmp_path / "source", tmp_path / "out")
        assert path.name in str(caught.value), content
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("hello")
    (tmp_path / "cut.zip").write_bytes(b"PK but no archive")
    how = "; " if name not in OWN_TABLES else ""
    for source, message in (
        ("nowhere", "nowhere: no such file or folder"),
        ("empty", f"empty: the folder is empty: no .* here{how}"),
        ("other", f"other: no .* here{how}"),
        ("cut.zip", "cut.zip: "),
    ):
        with pytest.raises(InputError, match=message):
            run(name, tmp_path / source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", SAMPLES)
def test_series_that_are_too_short_leave_nothing(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    sample.write(tmp_path / "source", records(sample.slots))
    loader = LOADERS[name]()
    rules = SeriesRules(loader.slot_seconds, min_records=sample.slots + 1)
    advice = f"try --min-records {sample.slots} or fewer, a larger --longest-gap, or longer --slot-seconds"
    with pytest.raises(InputError, match=rf"no workload remains \(--min-records {sample.slots + 1}.*{advice}"):
        prepared(loader, tmp_path / "source", tmp_path / "out", rules)
    assert not (tmp_path / "out").exists()
