"""The six bar charts and the combined one are written, whatever is missing, and leave pyplot alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tvwrl.experiments import plots
from tvwrl.experiments.plots import plot_comparison
from tvwrl.schedulers.knowledge import CURRENT_LOAD, PEAKS
from tvwrl.types import InputError

CHARTS = ["utilisation_cpu", "utilisation_mem", "fragmentation_cpu", "fragmentation_mem", "overshoot_pct"]


def make_rows() -> pl.DataFrame:
    """Two schedulers at load 0.3, one of them also at 0.8; nothing overshoots."""
    columns = dict.fromkeys(CHARTS, 0.5) | {"peak_machines": 3, "wait_mean": 1.0, "unplaced": 0}
    columns |= {"reward": -1e5, "offered_load": 0.3, "decision_ms": 0.1, "overshoot_pct": 0.0}
    return pl.DataFrame(
        [
            {"scheduler": scheduler, "load": load, "sequence": i, "machines_used": 4 + i} | columns
            for scheduler, load in (("a", 0.3), ("b", 0.3), ("a", 0.8))
            for i in range(3)
        ]
    )


def test_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvwrl.experiments.plots.DPI", 50)  # less to draw
    files = plot_comparison(make_rows(), tmp_path / "plots")
    assert [file.stem for file in files] == [*CHARTS, "machines_used", "comparison"]
    for file in files:
        assert file.read_bytes().startswith(b"\x89PNG")
        assert file.stat().st_size > 2000


def test_no_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no rows"):
        plot_comparison(make_rows().clear(), tmp_path)


def test_import_loads_no_plotting_library() -> None:
    code = "import sys, tvwrl.experiments.plots; assert not {'matplotlib', 'polars'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_legend_has_a_column_for_each_group_of_knowledge():
    groups = {"a": PEAKS.group, "b": CURRENT_LOAD.group, "c": CURRENT_LOAD.group}
    _, labels, columns = plots._columns(["A", "B", "C"], ["a", "b", "c"], groups)
    assert columns == 2
    assert labels == [f"{CURRENT_LOAD.group}:", "b", "c", f"{PEAKS.group}:", "a", ""]
    assert plots._by_group(["a", "x", "b"], groups) == ["b", "a", "x"]
