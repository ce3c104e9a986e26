"""Reproductions of the Aladdin+H paper's figures, small."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvwrl.bench import aladdin, aladdin_cells
from tvwrl.bench.aladdin import AladdinSettings
from tvwrl.bench.aladdin_cells import GENERATED, Cell, complete
from tvwrl.runs import read_csv
from tvwrl.types import InputError

QUICK = AladdinSettings(preset="smoke", schedulers=("Aladdin+H.4(LRF)", "Aladdin+H.4(SRF)", "Tetris.1", "TRIVIAL-cpu"))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(aladdin.SIZES, "smoke", {GENERATED: (30, 40)})
    monkeypatch.setitem(aladdin.STRESSED, "smoke", 30)


def test_rows_are_kept_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(GENERATED, 30, 0, 0.6, ("Tetris.1",))
    (row,) = complete(tmp_path, [cell], "", 2.0, 1)
    assert (row["machines"], row["replicas"], row["placed"]) == (30, 250, 250)
    assert row["machines_used"] >= row["bound"] > 1
    assert row["violations"] == row["above_limits"] + row["apart"]
    assert row["cpu_low"] <= row["cpu_pct"] <= row["cpu_high"] <= 100
    assert row["latency_ms"] == pytest.approx(1000 * row["seconds"] / 250)
    more = replace(cell, schedulers=("Graphene.1", "Tetris.1"))
    both = complete(tmp_path, [more], "", 2.0, 1)
    assert [one["scheduler"] for one in both] == ["Graphene.1", "Tetris.1"]
    assert both[1] == row
    monkeypatch.setattr(aladdin_cells, "place", None)  # nothing is left to do
    assert complete(tmp_path, [more], "", 2.0, 1) == both
    with pytest.raises(InputError, match=r"medea_seconds is 2\.0 there, here 3\.0"):
        complete(tmp_path, [cell], "", 3.0, 1)


def test_figures_share_cells_and_set_published_beside(tmp_path: Path) -> None:
    text = QUICK.reproduce("fig10", tmp_path)
    assert "almost 10,000" in text
    assert "published |" in text
    files = sorted((tmp_path / "cells").iterdir())
    before = [file.stat().st_mtime_ns for file in files]
    assert "Migrations" in QUICK.reproduce("fig11", tmp_path)
    assert [file.stat().st_mtime_ns for file in files] == before
    for name in ("fig10", "fig11"):
        made = {path.name for path in (tmp_path / name).iterdir()}
        assert made == {"rows.csv", "table.md", "run.json", "generated.png"}
        assert len(read_csv(tmp_path / name / "rows.csv")) == 2 * len(QUICK.schedulers)
    violations = {row["scheduler"]: float(row["violations"]) for row in read_csv(tmp_path / "fig10" / "rows.csv")}
    assert violations["Aladdin+H.4(LRF)"] == violations["Aladdin+H.4(SRF)"] == 0 < violations["TRIVIAL-cpu"]


def test_medea_is_left_out_of_large_clusters() -> None:
    settings = replace(QUICK, schedulers=("Medea(1,1,1)", "Tetris.1"), medea_machines=30)
    assert [cell.schedulers for cell in settings.cells(GENERATED)] == [("Medea(1,1,1)", "Tetris.1"), ("Tetris.1",)]


def test_repacking_lets_more_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(aladdin.STRESSED, "smoke", 100)
    text = replace(QUICK, loads=(0.93,), seeds=(0, 1)).reproduce("repack", tmp_path)
    assert "Violations of all: 0." in text
    rows = read_csv(tmp_path / "repack" / "rows.csv")
    left = {
        name: sum(float(row["left_out"]) for row in rows if row["scheduler"].endswith(name))
        for name in ("none", "blocked")
    }
    assert left["blocked"] < left["none"]
    assert (tmp_path / "repack" / "repack.png").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seeds": (1, 1)}, "seeds is 1, 1"),
        ({"schedulers": ("Tetris.1", "Tetris.1")}, "schedulers is Tetris.1, Tetris.1"),
        ({"schedulers": ("Best",)}, "there is no scheduler 'Best'"),
        ({"load": 1.5}, "load is 1.5"),
        ({"loads": (0.5, 0.0)}, "load is 0"),
        ({"medea_seconds": 0.0}, "medea_seconds is 0"),
        ({"workers": 0}, "workers is 0"),
    ],
)
def test_bad_settings(tmp_path: Path, wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(QUICK, **wrong).reproduce("fig10", tmp_path)
    assert not list(tmp_path.iterdir())
