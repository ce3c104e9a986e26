"""The explorer of a results folder of plans: at the end of a command, and later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tvwrl
from tests.planning.hand_plans import first_fit, problem, results_of
from tvwrl.experiments.exploring.plan_explorer import explore_plans, write_explorer_of
from tvwrl.experiments.place_command import PlacementSettings, place
from tvwrl.types import InputError

TABLES = {
    "applications.csv": "application,replicas,cpu,mem\nweb,2,2,2\nhuge,1,99,1\n",
    "machines.csv": "cpu,mem,count\n4,4,2\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder of `tvwrl place`, in whose place the instance is too."""
    (tmp_path / "mine").mkdir()
    for name, text in TABLES.items():
        (tmp_path / "mine" / name).write_text(text)
    instance, out = str(tmp_path / "mine"), tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["tvwrl", "place", "--instance", instance, "--planners", "FF", "--out", str(out)])
    place(PlacementSettings(instance, planners=("FF",), out=out))
    return out


def test_the_page_is_made_again_as_it_was(folder: Path, tmp_path: Path) -> None:
    page = folder / "explorer.html"
    before = page.read_bytes()
    explore_plans(folder, tmp_path / "copy.html")
    assert (tmp_path / "copy.html").read_bytes() == before
    page.unlink()
    explore_plans(folder, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == before
    explore_plans(folder, page)
    explore_plans(folder, page)
    assert page.read_bytes() == before


def test_what_to_do_where_the_page_cannot_be_made_again(folder: Path, tmp_path: Path) -> None:
    (folder / "explorer.html").unlink()
    out = tmp_path / "again.html"
    (tmp_path / "mine" / "applications.csv").write_text("application,replicas,cpu,mem\nweb,3,2,2\n")
    with pytest.raises(InputError, match="has other applications than when it was planned: run tvwrl place again"):
        explore_plans(folder, out)
    (tmp_path / "mine" / "applications.csv").unlink()
    with pytest.raises(InputError, match=r"its instance cannot be opened any more: .*run tvwrl place again"):
        explore_plans(folder, out)
    facts = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(facts | {"command": ["notebook.py"]}))
    with pytest.raises(InputError, match=r"in Python, .*plans\.explore\(\)"):
        explore_plans(folder, out)
    with pytest.raises(InputError, match=r"has no run\.json: it is not a results folder"):
        explore_plans(tmp_path, out)
    assert not out.exists()


def test_a_page_that_cannot_be_made_is_no_fault_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tvwrl.planning.explored.MOST_ROWS", 1)
    write_explorer_of(results_of(problem(), tmp_path, first_fit()))
    assert capsys.readouterr().out.startswith("no explorer.html: the explorer shows 1 pairs")
    assert not list(tmp_path.iterdir())


def test_the_library_writes_it_when_asked(tmp_path: Path) -> None:
    found = tvwrl.place(problem(), "FF")
    assert found.explore() == found.folder / "explorer.html"
    assert found.explore(tmp_path / "new" / "page.html").stat().st_size > 50_000
