"""Figures of the LRASched paper, small."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from tvwrl.experiments.engine import complete, read_cell_rows
from tvwrl.experiments.reproducing import RunOptions, reproduce
from tvwrl.papers import LRASCHED, command
from tvwrl.papers.lrasched import figures, testbed
from tvwrl.papers.lrasched.figures import GapStudy, LearningStudy, PlacementStudy, PlanningTimeStudy
from tvwrl.papers.lrasched.placement import HEURISTICS, MILP
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.runs import read_csv
from tvwrl.types import InputError

LEARNING = LearningStudy(seeds=(3, 4), earlier=12, arriving=6)
PLACEMENT = PlacementStudy(seeds=(0, 1), largest_sizes=(0.5,), scales=1, milp_seconds=1.0)
GAP = GapStudy(seeds=(0, 1), largest_sizes=(0.5,), milp_seconds=1.0)
TESTBED, PLANNING = figures.TestbedStudy(seeds=(0,), milp_seconds=0.0), PlanningTimeStudy(seeds=(0,), milp_seconds=0.3)
STUDIES = (LEARNING, TESTBED, PLACEMENT, GAP, PLANNING)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "SCALES", ((12, 4),))
    monkeypatch.setattr(figures, "SMALL", (8, 3))
    monkeypatch.setattr(figures, "DIMENSIONS", (2, 3))
    monkeypatch.setattr(figures, "MACHINES", (5, 20))


@pytest.mark.parametrize("name", LRASCHED.figures)
def test_every_figure_is_made_of_its_cells(tmp_path: Path, name: str) -> None:
    (study,) = (study for study in STUDIES if type(study).__name__ == LRASCHED.figures[name][0])
    reproduce(study, [name], "lrasched", RunOptions(tmp_path))
    text, rows = (tmp_path / name / "table.md").read_text(), read_csv(tmp_path / name / "rows.csv")
    assert text.startswith(f"# {LRASCHED.titles[name]}\n")
    assert "simulated" in text
    assert len(rows) >= len(study.cells(name))
    assert any((tmp_path / name).glob("*.png")) == (name != "gap")


@pytest.mark.parametrize("name", [name for name in LRASCHED.figures if name not in ("table2", "fig2", "fig5")])
def test_every_figure_can_do_without_the_programme(tmp_path: Path, name: str) -> None:
    """It has a published value, which then has nothing to stand beside."""
    (study,) = (study for study in STUDIES if type(study).__name__ == LRASCHED.figures[name][0])
    reproduce(replace(study, milp_seconds=0.0), [name], "lrasched", RunOptions(tmp_path))  # type: ignore[call-arg]
    text = (tmp_path / name / "table.md").read_text()
    assert "| LRASched " in text
    assert f"| {MILP} " not in text
    assert any((tmp_path / name).glob("*.png")) == (name != "gap")


def test_only_figures_of_several_scales_let_them_be_chosen() -> None:
    offering = {
        name
        for name in map(LRASCHED.command, LRASCHED.figures)
        if "scales" in {field.name for field in fields(command(name))}
    }
    assert offering == {"lrasched-fig8", "lrasched-fig9", "lrasched-fig10"}


def test_table_2_prints_mean_and_worst_error_of_its_rows() -> None:
    rows = [
        {"data": "x", "seed": seed, "predictor": name, "rmse": error, "worst_rmse": 2 * error, "latency_ms": 1.0 + seed}
        for name, errors in (("FTRL factorization machine", (0.1, 0.3)), ("mean of application", (0.4, 0.5)))
        for seed, error in enumerate(errors)
    ]
    lines = figures.table2(rows).text.splitlines()
    table = [[text.strip() for text in line.split("|")] for line in lines if line.startswith("| ")]
    found = {line[1]: line[2:-1] for line in table}
    assert found["FTRL factorization machine"] == ["0.200 [0.100, 0.300]", "0.243", "0.600", "1.0000", "1.15"]
    assert found["mean of application"] == ["0.450 [0.400, 0.500]", "", "1.000", "1.0000", ""]
    assert "-0.250 [-0.300, -0.200] to mean of application" in lines[-1]


def test_the_programme_places_at_least_as_much_as_the_heuristics(tmp_path: Path) -> None:
    study = replace(GAP, seeds=(0,), replica_range=(1, 2), milp_seconds=2.0)
    asked = study.cells("gap")[: len(HEURISTICS) + 1]  # those of two dimensions
    assert complete(tmp_path, asked) == {}
    rows = {row["scheme"]: row for row in figures.with_best_bound(read_cell_rows(tmp_path, asked))}
    assert len({row["bound_pct"] for row in rows.values()}) == 1
    for row in rows.values():
        assert 0 < row["placed_pct"] <= row["bound_pct"] + 1e-9
        assert 0 < row["utilisation_pct"] <= 100
        assert row["machines_used"] >= 3
        assert row["replicas"] == "1-2"
    placed = [rows[name]["placed_pct"] for name in (MILP, "LRASched-Search", "LRASched")]
    assert placed == sorted(placed, reverse=True)


def test_a_damaged_cell_or_another_time_limit_is_refused_by_name(tmp_path: Path) -> None:
    """A cell cut off at 60 bytes once gave a wrong mean without a word."""
    study, options = replace(GAP, milp_seconds=0.0, seeds=(0,)), RunOptions(tmp_path)
    reproduce(study, ["gap"], "lrasched", options)
    whole = (tmp_path / "gap" / "table.md").read_text()
    (tmp_path / "gap" / "table.md").unlink()
    cell = tmp_path / "cells" / "batches" / "8-3-2-1to1-0.5-seed0" / "LRASched"
    content = (cell / "rows.json").read_bytes()
    (cell / "rows.json").write_bytes(content[:60])
    with pytest.raises(InputError, match=r"batches/8-3-2-1to1-0\.5-seed0/LRASched: .*rows\.json is damaged"):
        reproduce(study, ["gap"], "lrasched", options)
    assert not (tmp_path / "gap" / "table.md").exists()
    (cell / "rows.json").write_bytes(content)
    reproduce(study, ["gap"], "lrasched", options)
    assert (tmp_path / "gap" / "table.md").read_text() == whole
    reproduce(replace(study, milp_seconds=1.0), ["gap"], "lrasched", options)
    with pytest.raises(InputError, match=r"milp_seconds is 1\.0 there, 2\.0 here"):
        reproduce(replace(study, milp_seconds=2.0), ["gap"], "lrasched", options)


def test_growth_is_the_exponent_on_large_clusters() -> None:
    rows = [{"scheme": "a", "machines": m, "ms": 2.0 * m**0.5} for m in (100, 1_000, 10_000, 100_000)]
    assert figures.growth(rows, "a") == pytest.approx(0.5)
    assert np.isnan(figures.growth(rows[:2], "a"))


@pytest.mark.parametrize(
    ("study", "name", "message"),
    [
        (replace(LEARNING, seeds=(1, 1)), "table2", "seeds is 1, 1: must be different values"),
        (replace(LEARNING, arriving=1), "fig5", "arriving is 1: must be at least 2"),
        (replace(LEARNING, data=Path("none")), "table2", r"erms_inflection\.csv\.gz: no such file"),
        (figures.TestbedStudy(milp_seconds=-1.0), "fig6", "milp_seconds is -1"),
        (figures.TestbedStudy(margin=-0.1), "fig6", "margin is -0.1"),
        (PlanningTimeStudy(seeds=(-1,)), "fig11", "seeds is -1"),
        (replace(PLACEMENT, largest_sizes=(0.5, 0.5)), "fig8", r"largest_sizes is 0\.5, 0\.5"),
        (replace(PLACEMENT, largest_sizes=(1.5,)), "fig8", r"largest is 1\.5"),
        (replace(PLACEMENT, replica_range=(3, 1)), "fig9", "replicas is 3 1"),
        (replace(PLACEMENT, scales=4), "fig10", "scales is 4: must be 1 to"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(
    tmp_path: Path, study: LearningStudy, name: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        reproduce(study, [name], "lrasched", RunOptions(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["LRASched", "FFD-AntiAffinity", MILP])
def test_the_testbed_places_what_fits(scheme: str) -> None:
    bed, plan = testbed.draw_testbed(0, 0.02), testbed.place_on_testbed(0, scheme, 0.02, 2.0)
    verdict = validate(PlanningProblem(bed.instance, bed.fleet), plan)
    assert verdict.feasible, verdict.examples
    assert 5 < verdict.whole < testbed.ARRIVING  # the machines are too few for all
    apart = [row["p99_ms"] == row["apart_ms"] for row in testbed.response_times(0, scheme, 0.02, 2.0)]
    assert all(apart) or scheme != "FFD-AntiAffinity"


def test_a_trial_is_smaller_and_what_is_set_holds():
    usual, smoke = LearningStudy(), LearningStudy(preset="smoke")
    assert len(smoke.cells("fig5")) < len(usual.cells("fig5"))
    assert LearningStudy(preset="smoke", seeds=(7,)).cells("fig2") == LearningStudy(seeds=(7,)).cells("fig2")
    counts = [len(PlanningTimeStudy(preset=one).cells("fig11")) for one in ("smoke", "medium", "paper")]
    assert counts[0] <= counts[1] < counts[2]
