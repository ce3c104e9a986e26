"""Large files are read in pieces, archives are unpacked: what comes out is the same, and nothing is read twice."""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.traces.conftest import digest, write_file
from tvwrl.traces import read_trace
from tvwrl.traces.loaders import LOADERS
from tvwrl.traces.preparation import files
from tvwrl.traces.preparation import files as unpacking
from tvwrl.traces.preparation.files import blocks_of, parts_of
from tvwrl.traces.preparation.layout import Column, Table
from tvwrl.traces.preparation.loader import Part
from tvwrl.traces.preparation.prepare import prepare
from tvwrl.traces.preparation.reading import read_table
from tvwrl.traces.preparation.series import SeriesRules
from tvwrl.types import InputError

TWO = Table(("a", "b"), (Column("a", int), Column("b", int)))
NAMED = Table(("a", "b"), (Column("a", str), Column("b", int)), header=True, quoted=True)


def run(name: str, source: Path, out: Path, **options: Any) -> dict[str, Any]:
    return prepare(LOADERS[name](), str(source), out, SeriesRules(300, min_records=10), plots=False, **options)


def archive(path: Path, members: dict[str, list[str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as file:
        for name, lines in members.items():
            data = ("\n".join(lines) + "\n").encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            file.addfile(entry, io.BytesIO(data))
    return path


def container(slots: int, cpu: int = 50) -> list[str]:
    return [f"c_{k},m_1,{300 * t},{cpu + k},40,,,,,," for t in range(slots) for k in range(3)]


META = [f"c_{k},m_1,0,app_1,started,400,400,100" for k in range(3)]


def test_text_is_cut_at_line_ends_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE", 9)
    path = write_file(tmp_path / "x.csv", ["1,2", "3,4", "55,66", "7,8"])  # lines begin at bytes 0, 4, 8 and 14
    parts = parts_of("x", [path])
    assert [(part.name, part.span, part.size) for part in parts] == [
        ("x-00000-0000", (0, 14), 14),
        ("x-00000-0001", (14, 18), 4),
    ]
    assert [read_table(part, TWO).frame.rows() for part in parts] == [[(1, 2), (3, 4), (55, 66)], [(7, 8)]]


def test_rows_of_parquet_are_cut_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE_ROWS", 2)
    pl.DataFrame({"a": range(5)}).write_parquet(tmp_path / "x.parquet")
    assert [part.span for part in parts_of("x", [tmp_path / "x.parquet"])] == [(0, 2), (2, 4), (4, 5)]


def test_a_bad_row_of_a_piece_is_named_by_its_line_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE", 30)
    lines = [f"{i},{i}" for i in range(100)]
    lines[70] = "70,x"
    path = write_file(tmp_path / "x.csv", lines)
    found = [read_table(part, TWO) for part in parts_of("x", [path])]
    assert [line for rows in found for line in rows.examples] == [f"{path}: line 71: b is not a number: 'x'"]
    assert sum(rows.read for rows in found) == 100
    assert [a for rows in found for a in rows.frame["a"]] == [i for i in range(100) if i != 70]


def test_only_the_first_piece_has_the_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE", 8)
    path = write_file(tmp_path / "x.csv", ["a,b", "u,1", "v,2", '"w,w",x', "y,4"])
    found = [read_table(part, NAMED) for part in parts_of("x", [path])]
    assert [row for rows in found for row in rows.frame.rows()] == [("u", 1), ("v", 2), ("y", 4)]
    assert [line for rows in found for line in rows.examples] == [f"{path}: line 4: b is not a number: 'x'"]


def test_blocks_end_with_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 4)
    path = tmp_path / "x.csv"
    path.write_bytes(b'1,2\n3,"a\nb\nc"\n5,6\n')
    blocks = list(blocks_of(Part("x", "x", str(path), 0), quoted=True))
    assert blocks == [(0, b"1,2\n"), (1, b'3,"a\nb\nc"\n'), (4, b"5,6\n")]


def test_one_bad_row_changes_nothing_of_other_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 100)
    lines = [f"{i},{i}" for i in range(1000)]
    lines[500] = "500"
    rows = read_table(Part("x", "x", str(write_file(tmp_path / "x.csv.gz", lines)), 0), TWO)
    assert rows.frame["a"].to_list() == [i for i in range(1000) if i != 500]
    assert (rows.read, dict(rows.bad)) == (1000, {"wrong number of fields": 1})


SINGLE = {
    "alibaba2018": "container_usage.csv",
    "csv": "x.csv",
    "parquet": "x.parquet",
    "google2019": "instance_usage.csv",
}


def single(name: str, folder: Path, packed: bool = False) -> Path:
    """One file of 3 workloads and 400 slots."""
    own = ["time,workload_id,cpu,mem", *(f'{300 * t},"w,{k}",0.{k + 1},0.2' for t in range(400) for k in range(3))]
    path = folder / (SINGLE[name] + (".gz" if packed else ""))
    if name == "parquet":
        folder.mkdir()
        pl.read_csv(write_file(folder / "x.csv", own)).write_parquet(path)
        return path
    head = "start_time,end_time,collection_id,instance_index,average_usage.cpus,average_usage.memory"
    s = 300_000_000
    borg = [head, *(f"{t * s},{t * s + s},{k},0,0.{k + 1},0.2" for t in range(400) for k in range(3))]
    return write_file(path, {"alibaba2018": container(400), "csv": own, "google2019": borg}[name])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", SINGLE)
def test_pieces_give_the_same_bytes_as_the_whole(
    name: str, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if packed and name == "parquet":
        pytest.skip("is packed inside")
    source = single(name, tmp_path / "source", packed)
    whole = run(name, source, tmp_path / "whole")
    monkeypatch.setattr(files, "PIECE", 4_000)
    monkeypatch.setattr(files, "PIECE_ROWS", 130)
    monkeypatch.setattr(unpacking, "ROWS", 500)
    pieces = run(name, source, tmp_path / "pieces")
    assert digest(tmp_path / "pieces") == digest(tmp_path / "whole")
    assert pieces["rows"] == whole["rows"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pieces", "source", "whole"]


def test_what_is_wrong_with_unpacked_files_names_those_that_the_user_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    usage = archive(source / "container_usage.tar.gz", {"container_usage/a.csv": container(20)})
    meta = write_file(source / "container_meta.csv", ["c_0,\xe9"])
    meta.write_bytes(b"c_0,\xe9\n")
    with pytest.raises(InputError, match=rf"^{meta}: line 1: byte 0xe9"):
        run("alibaba2018", source, tmp_path / "out")
    write_file(meta, META)
    archive(usage, {"container_usage/a.csv": container(20), "container_usage/b.csv": []})
    with pytest.warns(UserWarning, match=rf"^{usage}::container_usage/b.csv: empty"):
        run("alibaba2018", source, tmp_path / "out")
    monkeypatch.setattr(unpacking, "ROWS", 500)
    large = write_file(tmp_path / "large" / "container_usage.csv.gz", [*container(400), "c_0"])
    write_file(tmp_path / "large" / "container_meta.csv", META)
    report = run("alibaba2018", large.parent, tmp_path / "named")
    assert report["examples"] == [f"{large}: line 1201: 1 fields, 11 are needed"]


@pytest.mark.parametrize(
    ("kept", "message"),
    [(0, "empty: an archive of 0 bytes; download it again"), (100, "it is truncated; copy or download it again")],
)
def test_damaged_archives_are_refused_with_what_to_do(kept: int, message: str, tmp_path: Path) -> None:
    source = archive(tmp_path / "source" / "container_usage.tar.gz", {"container_usage.csv": container(20)})
    source.write_bytes(source.read_bytes()[:kept])
    with pytest.raises(InputError, match=rf"container_usage\.tar\.gz: .*{message}"):
        run("alibaba2018", source.parent, tmp_path / "out")


@pytest.mark.parametrize("lines", [0, 1, 2000])
def test_how_far_a_truncated_file_can_be_read_is_said(lines: int, tmp_path: Path) -> None:
    """`lines` lines are flushed, so they can be unpacked whatever comes after them."""
    path = tmp_path / "x.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write("".join(f"{i},{i}\n" for i in range(lines)).encode())
        file.flush()
        whole = path.stat().st_size
        file.write(b"1,2\n" * 3000)
    path.write_bytes(path.read_bytes()[: whole + 1])
    where = f" past line {lines}" if lines else ""
    with pytest.raises(InputError, match=f"^{path}: cannot be read{where}: it is truncated"):
        list(blocks_of(Part("x", "x", str(path), 0)))


def test_archives_are_unpacked(tmp_path: Path) -> None:
    source = archive(tmp_path / "source" / "container_usage.tar.gz", {"some/folder/container_usage.csv": container(20)})
    report = run("alibaba2018", source.parent, tmp_path / "out")
    assert report["rows"]["read"] == {"container_usage": 60}
    assert len(read_trace(tmp_path / "out")) == 3
    whole = source.read_bytes()
    source.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"container_usage\.tar\.gz: .* it is truncated"):
        run("alibaba2018", source.parent, tmp_path / "cut")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source"]


def test_hidden_files_are_not_seen(tmp_path: Path) -> None:
    source = single("csv", tmp_path / "source")
    (source.parent / "._x.csv").write_bytes(b"\x00\x05\x16\x07")  # as macOS leaves them
    assert run("csv", source.parent, source.parent / "out")["workloads"]["kept"] == 3


def test_a_replaced_archive_is_read_without_the_old_one(tmp_path: Path) -> None:
    path = archive(tmp_path / "source" / "container_usage.tar.gz", {"container_usage.csv": container(20)})
    with pytest.raises(InputError, match="no workload remains"):  # which leaves the work folder
        prepare(LOADERS["alibaba2018"](), str(path.parent), tmp_path / "out", SeriesRules(300, min_records=100))
    assert list(tmp_path.glob(".out.work/unpacked/*/container_usage.csv"))
    archive(path, {"container_usage.csv": container(12, cpu=10)})
    report = run("alibaba2018", path.parent, tmp_path / "out")
    assert report["rows"]["read"] == {"container_usage": 36}
    assert sorted({x for trace in [read_trace(tmp_path / "out")] for x in trace.usage[:, 0]}) == [0.1, 0.11, 0.12]


LINES = {"container_usage": container(20), "container_meta": META, "machine_meta": ["m_1,0,1,1,96,100,USING"]}


@pytest.mark.parametrize(
    ("names", "warning"),
    [
        (
            ["container_usage.tar.gz::container_usage/container_usage.csv", "container_usage/container_usage.csv"],
            r"container_usage\.tar\.gz.* not read: .*there already",
        ),
        (
            ["container_usage_all.tar.gz::container_usage/part-0.csv", "container_usage/part-0.csv"],
            r"container_usage_all\.tar\.gz.* not read: .*there already",
        ),
        (
            ["container_usage.csv", "container_usage.csv.gz"],
            r"container_usage\.csv\.gz is not read: container_usage\.csv is in the same folder",
        ),
        # beside an archive, files of the same name are told apart; members that would leave the work folder stay there
        (["machine_meta.tar.gz::machine_meta.csv", "container_usage/part-0.csv", "container_meta/part-0.csv"], None),
        (["a.tar.gz::../../container_usage.csv", "b.tar.gz::/tmp/container_meta.csv"], None),
    ],
)
def test_a_table_in_archives_and_beside_them_is_read_once(
    names: list[str], warning: str | None, tmp_path: Path
) -> None:
    tables = {name: next(table for table in LINES if table in name) for name in names}
    for name, table in tables.items():
        path, _, member = name.partition("::")
        if member:
            archive(tmp_path / "source" / path, {member: LINES[table]})
        else:
            write_file(tmp_path / "source" / path, LINES[table])
    with pytest.warns(UserWarning, match=warning) if warning else contextlib.nullcontext():
        report = run("alibaba2018", tmp_path / "source", tmp_path / "out")
    assert report["rows"]["read"] == {table: len(LINES[table]) for table in tables.values()}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source"]


def test_leftovers_of_a_download_are_not_read(tmp_path: Path) -> None:
    rows = [f"{t}00000000,{t + 3}00000000,1,0,7,.1,.2,0,0,0,0,0,0,0,0,0,0,1,0,.1" for t in range(0, 60, 3)]
    path = write_file(tmp_path / "source" / "task_usage" / "part-00000-of-00500.csv.gz", rows)
    for end in (".part", ".part.json"):
        path.with_name(f"part-00001-of-00500.csv.gz{end}").write_bytes(path.read_bytes()[:40])
    assert run("google2011", tmp_path / "source", tmp_path / "out")["rows"]["read"] == {"task_usage": 20}
