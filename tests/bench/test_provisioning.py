"""Figures of the provisioning paper: names, rankings and tables worked out by hand, files read, work that goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tvwrl.bench.provisioning import ProvisioningSettings, reproduce, write_page
from tvwrl.bench.provisioning_cells import Cell, Workshop, complete_cells, merge
from tvwrl.bench.provisioning_published import EVERY, FIGURES, STUDIES, Claim
from tvwrl.bench.provisioning_reference import Outcome, Reference, paper_name, read_reference
from tvwrl.bench.provisioning_tables import agreement, outcomes, over, report
from tvwrl.markdown import MARK
from tvwrl.provisioning.registry import planner
from tvwrl.runs import read_csv
from tvwrl.types import InputError

HEADER = "app_id\tnb_instances\tcore\tmemory\tinter_degree\tinter_aff\n"
SUMMARY = "set,graph,param,algo,n,mean_LB,mean_nodes,mean_dev_pct,sd_dev,mean_time_s,same_as_FF\n"
MEASURED = {"nodes": 106, "dev_pct": 6.0, "cpu_s": 2.5, "rss_mb": 9, "ub_fallback": True}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """100 applications of 2 replicas with limits between neighbours."""
    rows = [f"{i}\t2\t{1 + i % 7}\t{1 + i % 11}\t1\t[({i % 100 + 1}, {i % 2})]\n" for i in range(1, 101)]
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
    return folder


def row(graph: str, value: int, algorithm: str, machines: int, seconds: float, **other: Any) -> dict[str, Any]:
    """A row as it is read back, of a bound of 100 machines."""
    given = {"study": "density2D", "graph": graph, "value": value, "number": 0, "algorithm": algorithm} | other
    given |= {"instance": graph, "machines": machines, "lower_bound": 100, "deviation_pct": machines - 100.0}
    return {name: str(one) for name, one in (given | {"seconds": seconds}).items()}


def test_names_of_the_released_code() -> None:
    assert paper_name("FFD-Degree") == "Medea-TP"
    assert paper_name("WFD-AvgExpo") == "WFD-AvgExp"
    assert paper_name("SpreadWFD-Avg") == "SpreadWFD-Avg-BinSearch"
    assert paper_name("RefineWFD-Avg-3") == "SpreadWFD-Avg-Decr3"
    assert paper_name("NCD-DotDivision") == "NCD-TightFill"
    assert paper_name("FF") == "FF"


def test_every_figure_asks_for_algorithms_that_there_are() -> None:
    for figure in FIGURES.values():
        assert figure.study in STUDIES
        assert set(figure.algorithms) | set(figure.deviation) | set(figure.seconds) <= set(EVERY)
        for name in figure.algorithms:
            planner(name)
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
    found = outcomes([*rows, row("g", 1, "WF", 101, 1.0)])
    assert found["g", 1]["FF"] == Outcome(11.0, 2.0, 111)
    assert over(list(found.values())) == {"FF": Outcome(7.5, 3.0)}  # WF is not in both
    ours = {"a": Outcome(1, 0), "b": Outcome(2, 0), "c": Outcome(3, 0)}
    theirs = {"a": Outcome(5, 0), "b": Outcome(5.05, 0), "c": Outcome(4, 0)}  # a and b do not differ there
    assert agreement(ours, theirs) == (0, 2)
    assert agreement(theirs, ours) == (1, 3)


def test_tables_by_hand(folder: Path) -> None:
    rows = [row("arbitrary", 1, "FF", 110, 0.5), row("arbitrary", 1, "WFD-AvgExp", 111, 1.5)]
    rows += [row("arbitrary", 5, "FF", 108, 0.25), row("TClab_2D", 0, "FF", 105, 0.125, study="known")]
    lines = [line.split("|") for line in report("fig4", FIGURES["fig4"], rows, read_reference(folder)).splitlines()]
    cells = [[cell.strip() for cell in line[1:-1]] for line in lines]
    assert ["algorithm", "1 %", "5 %", "mean", "text"] in cells
    assert ["FF", "10.00 (12.00)", "8.00", "9.00", "about 12.1"] in cells
    assert ["WFD-AvgExp", "11.00 (9.00)", "", "", "10.7"] in cells
    assert ["FF", "0.5 (3.5)", "0.25", "0.375", "< 5, 18, 33"] in cells
    # without a run in floating point the released code was computed in it
    assert ["FF", "5.00", "105", "106*", "-0.94", "106*", "0.125", "2.5", "2.5"] in cells
    claim = "WFD-AvgExp outperforms the other application-centric algorithms (5.3, 6)"
    assert [claim, "0 of 1", "1 of 1", "-", "-", "-"] in cells
    alone = report("fig3", FIGURES["fig3"], rows[:1], Reference())
    assert "mean of all" in alone
    assert "brackets" not in alone


def test_bad_reference_folders(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no published_summary"):
        read_reference(tmp_path)
    (folder / "published_summary.csv").write_text(SUMMARY + "density3D,arbitrary,1,FF,10,,,1,,1,1\n")
    with pytest.raises(InputError, match=r"published_summary.csv: .*density3D"):
        read_reference(folder)
    (folder / "published_summary.csv").write_text(SUMMARY)
    (folder / "reference.json").write_text('{"instances": {"x": {"as_in_paper": {}}}}')
    with pytest.raises(InputError, match=r"reference.json: .*as_published_code"):
        read_reference(folder)


def test_cells_that_several_figures_need_are_planned_once() -> None:
    first = Cell("density2D", "arbitrary", 1, 0, ("FF", "WF"))
    again = Cell("density2D", "arbitrary", 1, 0, ("WF", "BF"))
    second = Cell("density2D", "arbitrary", 1, 1, ("FF",))
    other = Cell("large2D", "arbitrary", 1, 0, ("FF",))
    merged = merge([first, second, again, other])
    assert [(cell.name, cell.algorithms) for cell in merged] == [
        ("density2D-arbitrary-1-0", ("FF", "WF", "BF")),
        ("large2D-arbitrary-1-0", ("FF",)),
        ("density2D-arbitrary-1-1", ("FF",)),
    ]


def test_rows_that_are_there_stay(base: Path, tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "out", str(base), str(base), {}, shrink=5)
    one = Cell("density2D", "arbitrary", 10, 0, ("FF",))
    lines: list[str] = []
    complete_cells(shop, [one], 1, lines.append)
    before = read_csv(shop.rows_file(one))
    assert [(row["algorithm"], row["applications"], row["limits"]) for row in before] == [("FF", "20", "38")]
    both = Cell("density2D", "arbitrary", 10, 0, ("Medea-TP", "FF"))
    complete_cells(shop, [both], 1, lines.append)
    complete_cells(shop, [both], 1, lines.append)
    assert [line.rpartition(" in ")[0] for line in lines] == ["density2D-arbitrary-10-0: 1 algorithms"] * 2
    assert [row["algorithm"] for row in shop.rows(both)] == ["Medea-TP", "FF"]
    assert shop.rows(one) == before
    shop.check([both])
    with pytest.raises(InputError, match="seed is 0 there, here 1"):
        Workshop(tmp_path / "out", str(base), str(base), {}, shrink=5, seed=1).check([])


def test_bad_settings(tmp_path: Path) -> None:
    for settings, said in (
        (ProvisioningSettings(graphs=("round",)), "graphs is round: must be different ones of arbitrary"),
        (ProvisioningSettings(densities=(1, 1)), "densities is 1, 1"),
        (ProvisioningSettings(applications=()), "applications is "),
        (ProvisioningSettings(instances=0), "instances is 0"),
        (ProvisioningSettings(seed=-1), "seed is -1"),
        (ProvisioningSettings(workers=0), "workers is 0"),
        (ProvisioningSettings(report_only=True), "report_only needs --out"),
    ):
        with pytest.raises(InputError, match=said):
            reproduce(["fig4"], settings, tmp_path / "out", print)
    assert not (tmp_path / "out").exists()


def test_what_is_written_by_hand_stays_on_the_page(tmp_path: Path) -> None:
    page, out = tmp_path / "page.md", tmp_path / "out"
    (out / "fig4").mkdir(parents=True)
    (out / "fig4" / "plot.png").write_bytes(b"picture")
    write_page(page, out, {"fig4": "## Figure 4\n\ntable\n"}, "old head")
    page.write_text("# By hand\n\nText." + page.read_text().removeprefix("# Provisioning"))
    write_page(page, out, {"fig4": "## Figure 4\n\nother\n"}, "head")
    expected = f"# By hand\n\nText.\n\n{MARK}\n\nhead\n\n## Figure 4\n\n![Figure 4](page/fig4.png)\n\nother\n"
    assert page.read_text() == expected
    assert (tmp_path / "page" / "fig4.png").read_bytes() == b"picture"
