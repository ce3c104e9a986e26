"""Figures of the provisioning paper: rankings and tables worked out by hand, files read, small figures made."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvwrl.papers import command
from tvwrl.papers.provisioning import figures
from tvwrl.papers.provisioning.figures import (
    ProvisioningStudy,
    agreement,
    mean_over,
    means_of,
    plots_of,
    tables_of,
)
from tvwrl.papers.provisioning.published import (
    EVERY,
    FIGURES,
    SPREAD,
    STUDIES,
    Claim,
    Measurement,
    Reference,
    paper_name,
    read_reference,
)
from tvwrl.planning import title_of_planner
from tvwrl.planning.base import make_planner
from tvwrl.runs import read_csv
from tvwrl.types import InputError

HEADER = "app_id\tnb_instances\tcore\tmemory\tinter_degree\tinter_aff\n"
SUMMARY = "set,graph,param,algo,n,mean_LB,mean_nodes,mean_dev_pct,sd_dev,mean_time_s,same_as_FF\n"
MEASURED = {"nodes": 106, "dev_pct": 6.0, "cpu_s": 2.5, "rss_mb": 9, "ub_fallback": True}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """500 applications of 2 replicas with limits between neighbours."""
    rows = [f"{i}\t2\t{1 + i % 7}\t{1 + i % 11}\t1\t[({i % 500 + 1}, {i % 2})]\n" for i in range(1, 501)]
    path = tmp_path / "base.csv"
    path.write_text(HEADER + "".join(rows))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A reference folder of one group and one instance."""
    folder = tmp_path / "reference"
    folder.mkdir()
    rows = ["density2D,arbitrary,1,FF,10,100.0,112.0,12.0,0.1,3.5,10", "density2D,arbitrary,1,WFD-AvgExpo,10,,,9,,26,1"]
    (folder / "published_summary.csv").write_text(SUMMARY + "\n".join(rows) + "\n")
    modes = {"as_published_code": {"FF": MEASURED}, "as_in_paper": {}}
    (folder / "reference.json").write_text(json.dumps({"instances": {"TClab_2D": modes}}))
    read_reference.cache_clear()
    return folder


def row(graph: str, value: int, algorithm: str, machines: int, seconds: float, **other: Any) -> dict[str, Any]:
    """A row with a bound of 100 machines."""
    given = {"study": "density2D", "graph": graph, "value": value, "number": 0, "algorithm": algorithm} | other
    given |= {"instance": graph, "machines": machines, "lower_bound": 100, "deviation_pct": machines - 100.0}
    return given | {"seconds": seconds}


@pytest.mark.parametrize(
    ("code", "paper"),
    [
        ("FFD-Degree", "Medea-TP"),
        ("WFD-AvgExpo", "WFD-AvgExp"),
        ("SpreadWFD-Avg", "SpreadWFD-Avg-BinSearch"),
        ("RefineWFD-Avg-3", "SpreadWFD-Avg-Decr3"),
        ("NCD-DotDivision", "NCD-TightFill"),
        ("FF", "FF"),
    ],
)
def test_names_of_the_released_code(code: str, paper: str) -> None:
    assert paper_name(code) == paper


def test_every_figure_asks_for_algorithms_that_exist() -> None:
    for figure in FIGURES.values():
        assert figure.study in STUDIES
        assert set(figure.algorithms) | set(figure.deviation) | set(figure.seconds) <= set(EVERY)
        for name in figure.algorithms:
            make_planner(name)
        for claim in figure.claims:
            assert set(claim.lower) | set(claim.higher) <= set(EVERY)
            assert not set(claim.lower) & set(claim.higher)


def test_rankings() -> None:
    claim = Claim("a and b before c", ("a", "b"), ("c", "d"))
    assert claim.holds({"a": 1.0, "b": 2.0, "c": 2.5})
    assert claim.holds({"a": 1.0, "b": 2.0, "c": 2.0}) is False
    assert claim.holds({"a": 1.0}) is None
    alike = Claim("alike", ("a", "b"), within=0.5)
    assert alike.holds({"a": 1.0, "b": 1.5})
    assert alike.holds({"a": 1.0, "b": 1.6}) is False
    assert alike.holds({"a": 1.0}) is None


def test_means_and_pairs_by_hand() -> None:
    rows = [row("g", 1, "FF", 110, 1.0), row("g", 1, "FF", 112, 3.0, number=1), row("g", 5, "FF", 104, 4.0)]
    found = means_of([*rows, row("g", 1, "WF", 101, 1.0)])
    assert found["g", 1]["FF"] == Measurement(11.0, 2.0, 111)
    assert mean_over(list(found.values())) == {"FF": Measurement(7.5, 3.0)}  # WF is not in both
    ours = {"a": Measurement(1, 0), "b": Measurement(2, 0), "c": Measurement(3, 0)}
    theirs = {"a": Measurement(5, 0), "b": Measurement(5.05, 0), "c": Measurement(4, 0)}  # a and b do not differ there
    assert agreement(ours, theirs, []) == (2, 0, 0)
    assert agreement(theirs, ours, []) == (3, 1, 0)
    # c is better there; here a and c differ by 2 on each of three instances, b is better on one and worse on two
    machines = {"a": (101, 102, 103), "b": (104, 103, 105), "c": (103, 104, 105)}
    rows = [row("g", 1, name, of[i], 1.0, number=i) for name, of in machines.items() for i in range(3)]
    assert agreement(ours, theirs, rows) == (2, 0, 1)
    assert agreement(ours, ours, rows) == (3, 3, 0)


def test_tables_by_hand(folder: Path) -> None:
    rows = [row("arbitrary", 1, "FF", 110, 0.5), row("arbitrary", 1, "WFD-AvgExp", 111, 1.5)]
    rows += [row("arbitrary", 5, "FF", 108, 0.25), row("TClab_2D", 0, "FF", 105, 0.125, study="known")]
    lines = [line.split("|") for line in tables_of("fig4", rows, read_reference(folder)).splitlines()]
    cells = [[cell.strip() for cell in line[1:-1]] for line in lines]
    assert ["algorithm", "1 %", "5 %", "mean", "text"] in cells
    assert ["FF", "10.00 (12.00)", "8.00", "9.00", "about 12.1"] in cells
    assert ["WFD-AvgExp", "11.00 (9.00)", "", "", "10.7"] in cells
    assert ["FF", "0.5 (3.5)", "0.25", "0.375", "< 5, 18, 33"] in cells
    # without a run in floating point the released code was computed in it
    assert ["FF", "5.00", "105", "106*", "-0.94", "106*", "0.125", "2.5", "2.5"] in cells
    claim = "WFD-AvgExp outperforms the other application-centric algorithms (5.3, 6)"
    assert [claim, "0 of 1", "1 of 1", "-", "-", "-"] in cells
    alone = tables_of("fig3", rows[:1], Reference())
    assert "mean of all" in alone
    assert "brackets" not in alone


def test_pictures_have_a_point_for_each_value_or_graph_with_what_was_published(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, Any] = {}

    def keep(file: Path, rows: Any, panels: Any, series: Any, **said: Any) -> None:
        drawn.update(rows=[row.name for row in rows], panels=panels, series=series, **said)

    monkeypatch.setattr(figures, "draw_estimates", keep)

    def draw(figure: str, rows: Any) -> None:
        plots_of(figure, rows, read_reference(folder))["plot"](tmp_path / "a.png")

    first, spread = title_of_planner("FF"), title_of_planner(SPREAD)
    rows = [row("arbitrary", 1, "FF", 110, 0.5), row("arbitrary", 1, SPREAD, 101, 0.0)]
    draw("fig4", rows)
    above, seconds = drawn["panels"]
    assert drawn["rows"] == [spread, first]  # the best family first
    assert drawn["series"] == ["arbitrary graph"]
    assert drawn["caption"] == "Density 1 %; one instance each; lower is better"
    assert above.published == {first: [(12.0, 12.0)]}
    assert seconds.published == {first: [(3.5, 3.5)]}
    assert seconds.points[spread][0].value > 0  # a logarithmic axis has no 0
    more = [row("arbitrary", 5, "FF", 108, 0.25, number=number) for number in range(2)]
    draw("fig4", [*rows, *more])
    assert drawn["series"] == ["density 1 %", "density 5 %"]
    assert drawn["caption"] == "Means over 1 to 2 instances each; lower is better"
    assert [point.value for point in drawn["panels"][0].points[first]] == [10.0, 8.0]
    assert np.isnan(drawn["panels"][0].points[spread][1].value)
    assert drawn["panels"][0].published == {}  # at 5 % nothing was published
    draw("fig3", [row(graph, 1, "FF", 110 + 2 * number, 1.0, number=number) for graph in "ab" for number in range(2)])
    (point,) = drawn["panels"][0].points[first]
    assert (point.value, point.low, point.high) == (11.0, 10.0, 12.0)


@pytest.mark.parametrize(
    ("summary", "measured", "message"),
    [
        (None, None, "has no published_summary"),
        ("density3D,arbitrary,1,FF,10,,,1,,1,1\n", None, r"published_summary.csv: .*density3D"),
        ("", '{"instances": {"x": {"as_in_paper": {}}}}', r"reference.json: .*as_published_code"),
    ],
)
def test_bad_reference_folders(folder: Path, summary: str | None, measured: str | None, message: str) -> None:
    if summary is None:
        (folder / "published_summary.csv").unlink()
    else:
        (folder / "published_summary.csv").write_text(SUMMARY + summary)
    if measured is not None:
        (folder / "reference.json").write_text(measured)
    with pytest.raises(InputError, match=message):
        read_reference(folder)


def test_a_figure_is_continued_shares_plans_and_goes_to_a_page(base: Path, folder: Path, tmp_path: Path) -> None:
    (folder / "small_500_threshold_d10_s103.csv.gz").write_text(base.read_text())  # not compressed; known to Figure 3
    out, page = tmp_path / "out", tmp_path / "page.md"
    options = {"base": str(base), "densities": (10,), "out": out}
    command("provisioning-fig4")(**options, page=page).run()
    assert {path.name for path in (out / "fig4").iterdir()} == {"rows.csv", "table.md", "plot.png", "run.json"}
    assert "![Figure 4: affinity densities, fixed demand](page.png)" in page.read_text()
    rows = read_csv(out / "fig4" / "rows.csv")
    assert [row["algorithm"] for row in rows] == list(FIGURES["fig4"].algorithms)
    assert {(row["applications"], row["limits"]) for row in rows} == {("10", "9")}
    command("provisioning-fig4")(**options, report_only=True).run()
    assert read_csv(out / "fig4" / "rows.csv") == rows
    with pytest.raises(InputError, match="made for another request: seed is 0 there, 3 here"):
        command("provisioning-fig4")(**options, seed=3).run()
    drawn, known = ProvisioningStudy(base=str(base)), ProvisioningStudy(base=str(base), reference_data=folder)
    new = [cell.name for cell in known.cells("fig3") if cell.name not in {one.name for one in drawn.cells("fig3")}]
    assert new == [f"small_500_threshold_d10_s103/{name}" for name in EVERY]


def test_bad_options(base: Path) -> None:
    study = ProvisioningStudy(base=str(base))
    for wrong, figure, message in (
        ({"graphs": ("round",)}, "fig4", "graphs is 'round': must be one of arbitrary"),
        ({"densities": (1, 1)}, "fig4", "densities is 1, 1"),
        ({"instances": 0}, "fig4", "instances is 0"),
        ({}, "fig6", "demand at one time"),
        ({"base": "nowhere"}, "fig4", "nowhere"),
    ):
        with pytest.raises(InputError, match=message):
            replace(study, **wrong).cells(figure)  # type: ignore[arg-type]
