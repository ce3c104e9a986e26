"""The picture of what planners needed: a row for each under its family, in words, the project's own in bold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tvwrl import plotting
from tvwrl.planning.registry import PLANNERS, family_of, title_of_planner
from tvwrl.planning.results import plot_trade_off, rows_of


def row(algorithm: str, deviation: float | str, seconds: float) -> dict[str, Any]:
    """A row of an instance whose bound is 100 machines."""
    given = {"instance": "hand", "planner": algorithm, "bound": 100}
    return given | {"above_bound_pct": deviation, "seconds": seconds}


def test_every_planner_has_a_family() -> None:
    assert {family_of(name) for name in (*PLANNERS, "MILP")} == {
        "application by application",
        "machine by machine",
        "in two phases",
        "all machines, replicas spread",
        "all machines, pairs matched",
        "within a time budget",
        "by flow through groups of machines",
        "without regard to constraints",
        "programmes for batches",
    }


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("FF", "First-Fit"),
        ("WFD-AvgExp", "Worst-Fit Decreasing, exp. average"),
        ("NCD-L2Norm", "Node-centric, L2 norm"),
        ("SpreadWFD-Avg-BinSearch", "Spread, average, binary search"),
        ("SpreadWF-Max-Decr4", "Spread as listed, maximum, 4 % steps"),
        ("Matching-Fitness-Decr2", "Match, fitness, 2 % steps"),
        ("FFD-Avg-Hybrid0.5", "FFD-Avg-Hybrid0.5"),
        ("Aladdin+H.4", "Aladdin+H, 4 groups, large first"),
        ("Aladdin+H.1(SRF)-none", "Aladdin+H, 1 group, small first, nothing moves"),
        ("Graphene.4", "Graphene, 4 reschedulings"),
        ("Medea(1,0.5,0.5)", "Medea, weights 1, 0.5, 0.5"),
        ("TRIVIAL-cpu", "TRIVIAL, CPU"),
        ("OCTOPUS-gpu", "OCTOPUS, gpu"),
        ("Aladdin+H.4+best", "Aladdin+H, 4 groups, large first, then search"),
    ],
)
def test_titles(name: str, title: str) -> None:
    assert title_of_planner(name) == title


def test_no_two_planners_have_one_title() -> None:
    names = (*PLANNERS, "MILP")
    assert len({title_of_planner(name) for name in names}) == len(names)


def test_rows_are_ranked_within_families_and_the_family_of_the_best_comes_first() -> None:
    rows = rows_of({"FF": 3.0, "NCD-L2Norm": 2.0, "BFD-Avg": 1.0, "best": 0.0}, ["best"])
    assert [row.name for row in rows] == [title_of_planner(name) for name in ("best", "BFD-Avg", "FF", "NCD-L2Norm")]
    assert [row.ours for row in rows] == [True, False, False, False]


def test_what_left_replicas_over_is_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []

    def keep(*size: float, **layout: float) -> Any:
        drawn.append(plain(*size, **layout))
        return drawn[-1]

    plain = plotting.new_figure
    monkeypatch.setattr(plotting, "new_figure", keep)
    monkeypatch.setattr(plotting, "DPI", 40)
    plot_trade_off([row("FF", 12.0, 0.0), row("best", 1.0, 30.0), row("BF", "", 1.0)], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    names = [label.get_text() for label in drawn[0].axes[0].get_yticklabels()]
    assert (
        title_of_planner("FF") in names
    )  # though it took less time than the clock can tell, and the axis is logarithmic
    assert title_of_planner("BF") not in names
    plot_trade_off([row("BF", "", 1.0)], tmp_path / "b.png")
    assert not (tmp_path / "b.png").exists()
