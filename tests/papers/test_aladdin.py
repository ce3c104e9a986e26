"""Figures of the Aladdin+H paper, small."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tvwrl.experiments.engine import complete, read_cell_rows
from tvwrl.experiments.reproducing import RunOptions, reproduce
from tvwrl.papers.aladdin import figures
from tvwrl.papers.aladdin.cells import PlacementCell
from tvwrl.papers.aladdin.figures import (
    ALADDIN,
    BASELINES,
    FAMILIES,
    OTHERS,
    REPACKED,
    Preset,
    RepackStudy,
    SizeStudy,
    family_of,
    plot_largest,
)
from tvwrl.planning import title_of_planner
from tvwrl.planning.sources.open_problem import GENERATED
from tvwrl.runs import read_csv
from tvwrl.types import InputError

QUICK = SizeStudy(preset="smoke", planners=("Aladdin+H.4(LRF)", "Aladdin+H.4(SRF)", "Tetris.1", "TRIVIAL-cpu"))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(figures.PRESETS, "smoke", Preset((30, 40), (), 100))


def test_a_cell_is_one_planner_on_one_problem(tmp_path: Path) -> None:
    cell = PlacementCell(GENERATED, 30, 0, 0.6, "Tetris.1")
    assert complete(tmp_path, [cell]) == {}
    (row,) = read_cell_rows(tmp_path, [cell])
    assert (row["machines"], row["replicas"], row["placed"]) == (30, 250, 250)
    assert row["machines_used"] >= row["bound"] > 1
    assert row["violations"] == row["above_limits"] + row["apart"]
    assert row["cpu_low"] <= row["cpu_pct"] <= row["cpu_high"] <= 100
    assert row["latency_ms"] == pytest.approx(1000 * row["seconds"] / 250)
    assert read_cell_rows(tmp_path, [replace(cell, medea_seconds=3.0)]) == [row]  # which Tetris does not depend on
    assert replace(cell, planner="Medea(1,1,1)").request()["medea_seconds"] == 2.0


def test_figures_share_cells_and_name_those_that_fail(tmp_path: Path) -> None:
    reproduce(QUICK, ["fig10"], "aladdin", RunOptions(tmp_path))
    text = (tmp_path / "fig10" / "table.md").read_text()
    assert "almost 10,000" in text
    assert "published |" in text
    rows = read_csv(tmp_path / "fig10" / "rows.csv")
    violations = {row["planner"]: int(row["violations"]) for row in rows}
    assert len(rows) == 2 * len(QUICK.planners)
    assert violations["Aladdin+H.4(LRF)"] == violations["Aladdin+H.4(SRF)"] == 0 < violations["TRIVIAL-cpu"]
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").rglob("*.json")}
    asked = replace(QUICK, planners=("TRIVIAL-disk", *QUICK.planners, "Medea(1,1,1)"), medea_machines=30)
    with pytest.raises(InputError, match=r"cell generated-40-0\.75-seed0/TRIVIAL-disk: resource is 'disk'"):
        reproduce(asked, ["fig11"], "aladdin", RunOptions(tmp_path))
    assert all(path.stat().st_mtime_ns == time for path, time in made.items())
    assert (tmp_path / "cells" / "generated-30-0.75-seed0" / "Medea(1,1,1)" / "cell.json").is_file()
    reproduce(replace(asked, planners=asked.planners[1:]), ["fig11"], "aladdin", RunOptions(tmp_path))
    assert {path.name for path in (tmp_path / "fig11").iterdir()} == {
        "rows.csv",
        "table.md",
        "run.json",
        "generated.png",
    }
    assert len(read_csv(tmp_path / "fig11" / "rows.csv")) == 2 * len(QUICK.planners) + 1


def test_repacking_places_more_replicas(tmp_path: Path) -> None:
    study = RepackStudy("smoke", (0, 1), tuple(f"Aladdin+H.4(SRF)-{way}" for way in ("none", "blocked")), (0.93,))
    reproduce(study, ["repack"], "aladdin", RunOptions(tmp_path))
    assert "Violations of all: 0." in (tmp_path / "repack" / "table.md").read_text()
    rows = read_csv(tmp_path / "repack" / "rows.csv")
    left = {
        way: sum(int(row["left_out"]) for row in rows if row["planner"].endswith(way)) for way in ("none", "blocked")
    }
    assert left["blocked"] < left["none"]
    assert (tmp_path / "repack" / "repack.png").exists()


def test_no_two_planners_have_one_title_and_all_have_a_family() -> None:
    names = (*ALADDIN, *BASELINES, *REPACKED, *OTHERS)
    assert len({title_of_planner(name) for name in names}) == len(names)
    assert {family_of(name) for name in names} == set(FAMILIES.values())


def row(planner: str, machines: int, violations: int, seed: int = 0) -> dict[str, Any]:
    """A row of a generated problem whose bound is 6,000 machines."""
    given = {"instance": GENERATED, "planner": planner, "machines": machines, "seed": seed, "replicas": 8 * machines}
    return given | {"violations": violations, "machines_used": machines / 2, "bound": 6000.0}


def test_the_picture_is_of_the_largest_cluster_and_says_what_was_published_only_for_the_papers_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, Any] = {}

    def keep(file: Path, rows: Any, panels: Any, **said: Any) -> None:
        drawn.update(rows=rows, panels=panels, **said)

    monkeypatch.setattr(figures, "draw_estimates", keep)
    rows = [row("Aladdin+H.4(LRF)", 12_000, 0), row("Tetris.1", 12_000, 3), row("Tetris.4", 12_000, 2)]
    rows += [row("Graphene.1", 12_000, 1), row("Medea(1,1,1)", 1_000, 0)]
    plot_largest(tmp_path / "a.png", rows, ("violations", "machines_used"))
    assert [one.name for one in drawn["rows"]] == [
        title_of_planner(name) for name in ("Aladdin+H.4(LRF)", "Graphene.1", "Tetris.4", "Tetris.1")
    ]
    violations, machines = drawn["panels"]
    assert violations.published == {
        title_of_planner("Aladdin+H.4(LRF)"): [(0, 0)],
        title_of_planner("Tetris.1"): [(10_000, 10_000)],
        title_of_planner("Tetris.4"): [(331, 331)],
        title_of_planner("Graphene.1"): [(8_000, math.inf)],
    }
    assert not machines.published
    assert drawn["caption"] == "96,000 replicas, 12,000 machines (at least 6,000 needed)"
    plot_largest(tmp_path / "a.png", [row("Tetris.1", 100, 3, seed) for seed in (0, 1)], ("violations",))
    assert not drawn["panels"][0].published
    assert drawn["caption"] == "800 replicas, 100 machines, means over 2 seeds"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seeds": (1, 1)}, "seeds is 1, 1"),
        ({"planners": ("Tetris.1", "Tetris.1")}, "planners is Tetris.1, Tetris.1"),
        ({"planners": ("Best",)}, "there is no planner 'Best'"),
        ({"demand": 1.5}, "demand is 1.5"),
    ],
)
def test_bad_options(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(QUICK, **wrong).cells("fig10")
    with pytest.raises(InputError, match=r"demands is 0\.0"):
        RepackStudy(demands=(0.5, 0.0)).cells("repack")
