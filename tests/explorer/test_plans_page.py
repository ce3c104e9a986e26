"""The explorer's page of plans in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.explorer.browsing import press, settle
from tests.planning.hand_plans import BATCH, DB, FULL, WEB, careless, first_fit, many, problem, results_of, running
from tvwrl.planning.explored import explore
from tvwrl.planning.instance import Fleet
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import Bundles, PlanningProblem

Show = Callable[..., Any]
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Writes a page of plans for a problem."""

    def write(of: PlanningProblem, *plans: Plan) -> Path:
        folder = tmp_path_factory.mktemp("plans")
        explore(results_of(of, folder, *plans), folder / "explorer.html")
        return folder / "explorer.html"

    return write


@pytest.fixture(scope="module")
def small(written: Write) -> Path:
    """The plans by hand, with what ran before."""
    return written(replace(problem(), running=running()), first_fit(), careless())


@pytest.fixture(scope="module")
def over_time(written: Write) -> Path:
    """Four times; web needs its two cores at the first alone."""
    return written(problem(times=4), first_fit())


def table(page: Any, where: str) -> list[str]:
    """Its rows as text, cells separated by a bar."""
    rows: list[str] = (
        page.locator(where)
        .locator("tbody tr")
        .evaluate_all("all => all.map(row => [...row.cells].map(cell => cell.innerText.trim()).join('|'))")
    )
    return rows


def test_the_verdict_says_what_the_plan_needs_and_why_some_replicas_are_not_placed(show: Show, small: Path) -> None:
    page = show(small)
    assert page.title() == page.inner_text("#title") == "hand"
    verdict = page.inner_text("#verdict")
    assert (
        "First-Fit uses 2 of 2 machines. 2 replicas are not placed, for 2 reasons. The most frequent (1 replica): anti"
        in verdict
    )
    assert "2 running replicas move." in verdict
    assert "For comparison: Tetris, 1 rescheduling uses 2." in verdict
    assert page.inner_text("#bound") == "No plan uses fewer than 2 machines."
    assert table(page, "#planners") == ["First-FitA|2|–|2|0|2|0.25", "Tetris, 1 rescheduling|2|0.0 %|0|2|2|0.00"]


def test_a_machine_shows_what_is_on_it_what_room_is_left_and_which_limits_it_reaches(show: Show, small: Path) -> None:
    page = show(small, "#machine=2")
    assert page.inner_text("#machine-title") == "Machine 2: 6 cpu, 4 mem"
    assert "2 replicas of 2 applications. Fullest: cpu, 83 %" in page.inner_text("#machine-words")
    assert "Room left: 1 cpu, 2 mem." in page.inner_text("#machine-words")
    assert table(page, "#contents") == ["db|1|3|1|1 on machine 1", "web|1|2|1|1 new"]
    assert page.locator("#machine-limits > ul li").all_inner_texts() == ["At most 1 replica of web on a machine"]
    assert page.inner_text("#machine-limits summary") == "1 application is excluded here"
    press(page, "ArrowLeft")
    assert table(page, "#contents") == ["web|1|2|1|here", "batch|1|1|1|1 on machine 2"]
    parts = page.locator("#machine-plot .part")
    assert parts.evaluate_all("all => all.map(one => one.style.width)") == ["33.3333%", "16.6667%", "25%", "25%"]


def test_lists_name_what_binds_what_is_left_over_and_what_moved(show: Show, small: Path) -> None:
    page = show(small, "#list=limits")
    assert page.locator("#list-choice button").all_inner_texts() == [
        "Limits that bind (3)",
        "Not placed (2)",
        "Moved (2)",
        "Emptiest machines (2)",
    ]
    assert table(page, "#list") == [
        "At most 1 replica of web on a machine|2 machines|1",
        "Beside web, at most 1 replica of batch|1 machine|1",
        "No batch beside db|1 machine|1",
    ]
    assert "3 affinity limits bind; all of them do so on a machine" in page.inner_text("#list-words")
    page.click("#list-choice button >> nth=1")
    settle(page)
    assert table(page, "#list")[1] == f"batch|1 of 2|{FULL}"
    page.click("#list-choice button >> nth=2")
    settle(page)
    assert table(page, "#list") == ["db|1|machine 1|machine 2", "batch|1|machine 2|machine 1"]
    page.click("#list-choice button >> nth=3")
    settle(page)
    assert table(page, "#list") == ["machine 1|50 %|2|2", "machine 2|83 %|2|2"]
    page.click("#list .link >> nth=1")
    settle(page)
    assert page.inner_text("#machine-title").startswith("Machine 2:")


def test_an_application_that_is_searched_for_tells_where_it_is_and_why_not_elsewhere(show: Show, small: Path) -> None:
    page = show(small)
    press(page, "/")
    page.keyboard.type("bat")
    press(page, "Enter")
    assert page.inner_text("#application-title") == "Application batch"
    words = page.inner_text("#application-words")
    assert "It has 2 replicas. 1 is on 1 machine. 1 is not placed: no machine with room allows it" in words
    assert table(page, "#application-tables .list >> nth=0") == ["machine 1|1|50 %"]
    assert table(page, "#application-tables .list >> nth=1") == [
        "Beside web, at most 1 replica of batch|1|1",
        "No batch beside db|1|1",
    ]
    assert "1 from 2 to 1" in page.inner_text("#application-tables")
    press(page, "Escape")
    assert page.is_hidden("#application")


def test_two_planners_beside_each_other(show: Show, small: Path) -> None:
    page = show(small, "#b=Tetris.1&list=differs")
    assert (
        "uses 2 machines, as many as A. All replicas are placed. 2 replicas violate a constraint."
        in page.inner_text("#verdict")
    )
    assert page.is_visible("#fault-key")
    assert table(page, "#list") == ["web|3|2|2|1|–", "batch|2|1|1|1|–"]
    press(page, "b")
    page.wait_for_selector("#list-choice :text('Violates a constraint')")
    assert page.input_value("#planner-a") == "1"
    page.click("#list-choice :text('Violates a constraint')")
    settle(page)
    assert "machine 1|2 replicas of 'web' beside 'web', which allows 1" in table(page, "#list")
    page.click("#list .link >> nth=0")
    settle(page)
    assert "Violates a constraint" in page.inner_text("#machine-faults")


def test_a_click_on_a_column_chooses_its_machine_in_its_plan(show: Show, small: Path) -> None:
    page = show(small, "#b=Tetris.1")
    box = page.locator("#map-b canvas >> nth=0").bounding_box()
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 60)
    settle(page)
    assert page.inner_text("#machine-title").startswith("B Machine 1")
    assert table(page, "#contents")[0].startswith("web|2|4|2")


def test_times_are_drawn_and_stepped_through(show: Show, over_time: Path) -> None:
    page = show(over_time, "#machine=1&application=0")
    assert page.inner_text("#time-words") == "Time 1 of 4"
    assert "50 % of its capacity at time 1" in page.inner_text("#machine-words")
    assert table(page, "#contents") == ["web|1|2|1", "batch|1|1|1"]
    assert page.is_visible("#application .uplot")
    press(page, "ArrowDown", "ArrowDown")
    assert page.inner_text("#time-words") == "Time 3 of 4"
    assert table(page, "#contents") == ["web|1|0|0", "batch|1|1|1"]
    page.focus("#time")
    press(page, "ArrowLeft")
    assert (page.inner_text("#time-words"), page.inner_text("#machine-title")) == (
        "Time 2 of 4",
        "Machine 1: 6 cpu, 4 mem",
    )
    press(page, "f")
    assert page.inner_text("#order [aria-pressed=true]") == "fullest first"


def test_a_deep_link_restores_the_view(show: Show, small: Path) -> None:
    page = show(small, "#a=Tetris.1&b=FF&machine=2&side=b&application=2&order=fill&list=moved")
    page.wait_for_timeout(400)
    again = show(small, page.evaluate("location.hash"))
    for where in ("#machine-title", "#application-title", "#list-words", "#order [aria-pressed=true]", "#verdict"):
        assert again.inner_text(where) == page.inner_text(where)
    assert again.inner_text("#machine-title").startswith("B Machine 2")
    for part in ("machine=3", "machine=0", "application=3", "time=1", "order=x"):
        page.evaluate("part => { location.hash = '#b=Tetris.1&' + part; }", part)
        page.wait_for_selector(f"#note:text-is('Ignored, because it does not fit this file: {part}')")


def test_groups_blacklists_pins_and_costs_are_told(show: Show, written: Write) -> None:
    given = problem()
    fleet = Fleet.of_kinds([[6.0, 4.0], [3.0, 4.0]], [1, 2], fixed=True, cost=[2.0, 1.0])
    given = replace(
        given,
        fleet=fleet,
        bundles=Bundles.of([{DB: 1, BATCH: 2}]),
        barred=np.array([[WEB, 1], [WEB, 2]]),
        running=running(),
        pinned=np.array([True, False, False]),
    )
    page = show(written(given, first_fit()), f"#application={DB}")
    assert "Affinity group: each of its replicas shares a machine with 2 of batch." in page.inner_text(
        "#application-words"
    )
    assert "which cost 3" in page.inner_text("#verdict")
    page.evaluate(f"location.hash = '#application={WEB}&machine=3'")
    page.wait_for_selector("#application-title:text('web')")
    words = page.inner_text("#application-words")
    assert "Its blacklist names 2 machines: 2–3." in words
    assert "have to stay where they are" in words
    assert page.inner_text("#machine-words") == "No replica is on this machine."


def test_machines_are_called_by_their_names(show: Show, written: Write) -> None:
    """Also where a name looks like a number or like the words around it, and in links."""
    given = problem()
    names = np.array(["007", 'machine 2: left, "a"'], dtype=object)
    given = replace(given, fleet=replace(given.fleet, name=names), running=running(), barred=np.array([[DB, 0]]))
    file = written(given, first_fit(), careless())
    page = show(file, "#machine=007&list=moved")
    assert page.inner_text("#machine-title") == "Machine 007: 6 cpu, 4 mem"
    assert table(page, "#list") == [f"db|1|machine 007|machine {names[1]}", f"batch|1|machine {names[1]}|machine 007"]
    press(page, "/")
    page.keyboard.type("LEFT")
    press(page, "Enter")
    assert page.inner_text("#machine-title") == f"Machine {names[1]}: 6 cpu, 4 mem"
    page.wait_for_timeout(400)
    again = show(file, page.evaluate("location.hash"))
    assert again.inner_text("#machine-title") == page.inner_text("#machine-title")
    assert table(again, "#contents")[0] == "db|1|3|1|1 on machine 007"
    again.evaluate(f"location.hash = '#application={DB}'")
    again.wait_for_selector("#application-title:text('db')")
    assert "Its blacklist names 1 machine: 007." in again.inner_text("#application-words")
    page = show(file, "#a=Tetris.1&list=faults")
    assert "machine 007|2 replicas of 'web' beside 'web', which allows 1" in table(page, "#list")
    page.evaluate("location.hash = '#machine=1'")
    page.wait_for_selector("#note:text-is('Ignored, because it does not fit this file: machine=1')")


@pytest.mark.parametrize(("machines", "times"), [(10_000, 1), (3000, 98)])
def test_thousands_of_machines_are_shown(show: Show, written: Write, machines: int, times: int) -> None:
    given, plan = many(machines, times=times)
    file = written(given, plan)
    assert file.stat().st_size < 5_000_000
    page = show(file, f"#order=fill&machine={machines}&list=emptiest")
    assert page.inner_text("#machine-title").startswith(f"Machine {machines}:")
    assert page.locator("#list tbody tr").count() == 100
    page.click("#more")
    assert page.locator("#list tbody tr").count() == 200
    press(page, "ArrowLeft", "Shift+ArrowRight")
    assert page.is_visible("#mean-key")


HOSTILE = ("<img src=x onerror=alert(1)>" + "x" * 1_000_000, "</script><script>alert(2)</script>", "\u202e\x00&lt;b")


def test_names_are_never_executed(show: Show, written: Write) -> None:
    given = problem(HOSTILE)
    instance = replace(given.instance, name=HOSTILE[1], resources=(HOSTILE[1], HOSTILE[0]))
    plan = replace(first_fit(), reasons={WEB: HOSTILE[0], BATCH: HOSTILE[1]})
    fleet = replace(given.fleet, name=np.array(HOSTILE[:2], dtype=object))
    page = show(written(replace(given, instance=instance, fleet=fleet), plan), "#application=0&list=unplaced")
    press(page, "/")
    page.keyboard.type("<")
    settle(page)
    assert page.locator("img, svg, #page script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert HOSTILE[0][:28] in page.inner_text("#application-title")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_fault(show: Show, small: Path, over_time: Path, theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    file, link = (
        (small, "#b=Tetris.1&side=b&machine=1&application=0")
        if theme == "light"
        else (over_time, "#machine=1&application=0")
    )
    page = show(file, link, color_scheme=theme)
    page.click("#about summary")
    found = axe.Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")] == []


def test_a_telephone_shows_one_column(show: Show, small: Path) -> None:
    page = show(small, "#b=Tetris.1&application=0", width=420, height=900)
    assert page.evaluate("document.documentElement.scrollWidth") == 420


def test_a_plan_that_places_nothing_is_shown(show: Show, written: Write) -> None:
    none = np.empty(0, np.int64)
    for fixed in (True, False):
        given = problem()
        given = replace(given, fleet=replace(given.fleet, fixed=fixed))
        page = show(written(given, Plan("FF", none, none, none, 0)))
        assert "6 replicas are not placed." in page.inner_text("#verdict")
        press(page, "ArrowRight", "ArrowDown", "f", "b", "Escape")


def test_a_file_that_was_cut_off_is_said_to_be_damaged(show: Show, small: Path, tmp_path: Path) -> None:
    text = small.read_text()
    (tmp_path / "explorer.html").write_text(text[: text.index('id="sequence-0"')])
    assert "damaged or incomplete" in show(tmp_path / "explorer.html").inner_text("#trouble")
