"""A chart for each metric and one of those that matter most: schedulers ranked within what they know, no raw names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tvwrl.experiments import plots
from tvwrl.experiments.plots import plot_comparison, plot_lines, plot_places
from tvwrl.plotting import OURS
from tvwrl.schedulers.knowledge import CURRENT_LOAD, FORECASTS
from tvwrl.types import InputError

CHARTS = ["utilisation_cpu", "utilisation_mem", "fragmentation_cpu", "fragmentation_mem"]
RUN = "google-20261123-172926"
KNOWN = {"tetris": CURRENT_LOAD, "spread": CURRENT_LOAD, RUN: FORECASTS, "expected-cost": FORECASTS}


def make_rows() -> pl.DataFrame:
    """Four schedulers at load 0.3, one of them also at 0.8; nothing overshoots, and spread leaves workloads out."""
    columns = dict.fromkeys(CHARTS, 0.5) | {"peak_machines": 3, "wait_mean": 1.0}
    columns |= {"offered_load": 0.3, "decision_ms": 0.1, "overshoot_pct": 0.0}
    rewards = {"spread": -1e5, "tetris": -4e5, RUN: -2e5, "expected-cost": -3e5}
    played = [*((name, 0.3) for name in rewards), (RUN, 0.8)]
    return pl.DataFrame(
        [
            {"scheduler": name, "load": load, "sequence": i, "reward": rewards[name], "machines_used": 4 + i}
            | {"unplaced": int(name == "spread")}
            | columns
            for name, load in played
            for i in range(3)
        ]
    )


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch):
    """What charts were asked for: file name -> rows, panels, series."""
    found = {}
    monkeypatch.setattr(
        plots,
        "draw_estimates",
        lambda file, rows, panels, series=("",), note="", **_: found.update({file.name: (rows, panels, series)}),
    )
    return found


def test_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvwrl.plotting.DPI", 30)  # less to draw
    files = plot_comparison(make_rows(), tmp_path / "plots", knowledge=KNOWN)
    assert [file.stem for file in files] == [
        "reward", "overshoot_pct", "machines_used", "wait_mean", *CHARTS, "comparison",
    ]  # fmt: skip
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


def test_schedulers_are_ranked_within_what_they_know_and_have_no_raw_names(tmp_path: Path, drawn) -> None:
    plot_comparison(make_rows(), tmp_path, knowledge=KNOWN)
    rows, panels, series = drawn["comparison.png"]
    assert [row.name for row in rows] == ["Tetris", "Spread", "Learnt policy", "Expected cost"]  # spread left some out
    assert [row.group for row in rows] == [CURRENT_LOAD.group] * 2 + [FORECASTS.group] * 2
    assert [row.ours for row in rows] == [False, False, True, True]
    assert list(series) == ["load 0.3", "load 0.8"]
    penalty = panels[0].points
    assert penalty["Learnt policy"][0] == (200.0, 200.0, 200.0)
    assert np.isnan(penalty["Tetris"][1].value)
    assert all("better" in panel.title for panel in panels)


def test_no_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no rows"):
        plot_comparison(make_rows().clear(), tmp_path)


def test_places_are_panels_and_lines_are_rows(tmp_path: Path, drawn) -> None:
    plot_places(tmp_path / "a.png", ["x", "y"], {"mine": np.ones((2, 3)), "theirs": np.zeros((2, 3))}, "ms", ("mine",))
    rows, panels, _ = drawn["a.png"]
    assert [(row.name, row.ours) for row in rows] == [("mine", True), ("theirs", False)]
    assert [panel.title for panel in panels] == ["x", "y"]


def test_published_values_stand_in_the_panel_of_their_place(tmp_path: Path, drawn) -> None:
    plot_places(tmp_path / "a.png", ["x", "y"], {"mine": np.ones((2, 3))}, "ms", published={"y": {"mine": 0.5}})
    assert [dict(panel.published) for panel in drawn["a.png"][1]] == [{}, {"mine": [(0.5, 0.5)]}]


def test_lines_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvwrl.experiments.plots.DPI", 30)
    plot_lines(tmp_path / "a.png", ["1", "2"], {"": {"one": np.ones((2, 3))}}, "machines", "ms")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_no_two_lines_look_alike_and_ours_are_in_the_strong_colour() -> None:
    styles = plots._styles([*"abcdefghij"], "cd")
    looks = [(style["color"], style["marker"], style["ls"]) for style in styles.values()]
    assert len(set(looks)) == len(looks) == 10
    assert {name for name, style in styles.items() if style["color"] == OURS} == {"c", "d"}


def test_import_loads_no_plotting_library() -> None:
    code = "import sys, tvwrl.experiments.plots; assert not {'matplotlib', 'polars'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
