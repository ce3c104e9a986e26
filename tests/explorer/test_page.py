"""The explorer's page in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.explorer.browsing import press, settle, title, until

Tree = dict[str, Any]
Show = Callable[..., Any]
NAMES = ("spread", "best-fit", "policy")  # of the schedulers in conftest.py


def costliest(episode: Tree) -> tuple[int, Any]:
    """The costliest decision, and the total cost of its alternatives."""
    total = episode["costs"].sum(axis=2)
    return int((total[:, 0] - total.min(axis=1)).argmax()), total  # the choice is the first alternative


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "").replace("−", "-")) for found in re.findall(r"[−-]?\d[\d,]*\.?\d*", text)]


def title_of(episode: Tree, k: int) -> str:
    return f"Slot {episode['slot'][k]}: w{episode['workload'][k]} went to machine {episode['chosen'][k]}"


def slot(page: Any) -> int:
    return int(page.input_value("#slot"))


def test_the_page_opens_at_the_costliest_decision_and_says_what_it_cost(
    show: Show, small: Path, trees: list[Tree]
) -> None:
    page = show(small)
    found = [costliest(tree["episodes"][0]) for tree in trees]
    regret = [total[k, 0] - total[k].min() for k, total in found]
    sequence = int(np.argmax(regret))
    episode = trees[sequence]["episodes"][0]
    assert page.title() == page.inner_text("#title") == "made-up <b>folder</b>"
    assert title(page) == title_of(episode, found[sequence][0])
    assert f"would have cost {regret[sequence]:,.0f} less" in page.inner_text("#decision-words")
    assert f"spread cost {episode['penalties'].sum():,.0f} over {len(episode['penalties'])} slots" in page.inner_text(
        "#verdict"
    )
    assert page.evaluate("Number(document.body.dataset.readyMs)") > 0


def test_alternatives_have_the_numbers_of_the_data(show: Show, small: Path, trees: list[Tree]) -> None:
    episode = trees[0]["episodes"][1]
    k, total = costliest(episode)
    page = show(small, f"#sequence=0&a=best-fit&decision={k}")
    lines = page.locator("#alternatives tbody tr")
    rows = lines.evaluate_all("all => all.map(row => [...row.cells].map(cell => cell.innerText))")
    order = np.argsort(total[k], kind="stable")
    assert len(rows) == len(order)
    for (name, *cells), a in zip(rows, order, strict=True):
        machine = episode["machines"][k, a]
        assert name.startswith("waiting one slot" if machine < 0 else f"machine {machine}")
        score = [] if machine < 0 else [pytest.approx(episode["scores"][k, a], rel=1e-3)]
        costs = [[pytest.approx(value, abs=0.51)] for value in [*episode["costs"][k, a], total[k, a]]]
        difference = [] if a == 0 else [pytest.approx(total[k, a] - total[k, 0], abs=0.51)]
        assert [numbers(cell) for cell in cells] == [score, *costs, difference]
        assert ("chosen" in name, "cheapest" in name) == (a == 0, a == order[0])


def test_an_alternative_that_is_clicked_shows_its_machine(show: Show, small: Path) -> None:
    page = show(small)
    row = page.locator("#alternatives tbody tr[data-machine='7']")
    row.locator("td").nth(2).click()
    until(page, "document.querySelector('#machine-a h3').textContent.startsWith('Machine 7:')")
    assert "current" in row.get_attribute("class")


def test_the_clock_plays_and_pauses(show: Show, small: Path) -> None:
    page = show(small, "#slot=3")
    page.select_option("#speed", "90")
    page.click("#play")
    until(page, "document.getElementById('slot').value > 8")
    press(page, "Space")
    assert page.inner_text("#play") == "Play"
    stopped = slot(page)
    page.wait_for_timeout(80)
    assert slot(page) == stopped


def test_keys_step_from_slot_to_slot_and_from_decision_to_decision(show: Show, small: Path, trees: list[Tree]) -> None:
    episode = trees[0]["episodes"][0]
    page = show(small, "#sequence=0&a=spread&decision=4")
    assert title(page) == title_of(episode, 4)
    press(page, "j")
    assert title(page) == title_of(episode, 5)
    press(page, "Shift+ArrowRight", "k", "k")
    assert title(page) == title_of(episode, 4)
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft")
    assert slot(page) == episode["slot"][4] + 1
    press(page, "c")
    assert title(page) == title_of(episode, costliest(episode)[0])
    press(page, "Escape", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowDown")
    assert page.inner_text("#machine-a h3").startswith("Machine 1:")


def test_help_lists_the_keys(show: Show, small: Path) -> None:
    page = show(small)
    press(page, "?")
    assert "play or pause" in page.inner_text("#keys")
    press(page, "Escape")
    assert not page.is_visible("#keys")


def test_a_click_on_the_heat_map_chooses_a_machine_and_a_slot(show: Show, small: Path, trees: list[Tree]) -> None:
    page = show(small, "#sequence=0")
    work, episode = trees[0]["workloads"], trees[0]["episodes"][0]
    slots = max(len(one["penalties"]) for one in trees[0]["episodes"])
    canvas = page.locator("#map-a canvas").first
    box = canvas.bounding_box()
    left, right, top, bottom = 68, 12, 82, 34  # of the grid in the canvas: scales.js, heatmap.js
    at = {
        "x": left + (50.5 / slots) * (box["width"] - left - right),
        "y": top + (4.5 / 10) * (box["height"] - top - bottom),
    }
    canvas.hover(position=at)
    here = (episode["machine"] == 4) & (episode["start"] <= 50) & (episode["start"] + work["length"] > 50)
    rows = (work["offset"][:-1] + 50 - episode["start"])[here]
    load = work["demand"][rows].astype(int).sum(axis=0)
    assert f"Machine 4, slot 50\ncpu: {load[0]} of 32" in page.inner_text("#tip")
    canvas.click(position=at)
    settle(page)
    assert slot(page) == 50
    assert page.inner_text("#machine-a h3") == "Machine 4: cpu by workload"
    assert page.inner_text("#machine-a .now").startswith(f"Slot 50: {load[0]} of 32 used")


def test_a_workload_is_found_by_its_name(show: Show, small: Path, trees: list[Tree]) -> None:
    page = show(small, "#sequence=0")
    press(page, "/")
    page.keyboard.type("w37")
    press(page, "Enter")
    assert page.inner_text("#workload h3") == "Workload w37: cpu over its life"
    assert f"It arrived in slot {trees[0]['workloads']['arrival'][37]}." in page.inner_text("#workload p")
    page.fill("#search", "machine 8")
    press(page, "Enter")
    assert page.inner_text("#machine-a h3").startswith("Machine 8:")


def test_two_schedulers_show_where_they_part_first_and_how_their_costs_differ(
    show: Show, small: Path, trees: list[Tree]
) -> None:
    page = show(small, "#sequence=1&a=spread")
    page.select_option("#scheduler-b", label="policy")
    page.wait_for_selector("#map-b canvas")
    one, other = trees[1]["episodes"][0], trees[1]["episodes"][2]
    parts = (one["machine"] != other["machine"]) | (one["start"] != other["start"])
    first = np.minimum(one["start"], other["start"])[parts].min()
    assert page.inner_text("#parting").startswith(f"First difference: slot {first}, w")
    more = other["penalties"].sum() - one["penalties"].sum()
    assert f"which is {abs(more):,.0f} {'more' if more > 0 else 'less'}" in page.inner_text("#verdict")
    page.click("#parting button")
    page.fill("#slot", page.get_attribute("#slot", "max"))
    settle(page)
    words = page.inner_text("#difference-words")
    assert f"B costs {abs(more):,.0f} {'more' if more > 0 else 'less'} than A" in words
    press(page, "b")
    until(page, "document.getElementById('scheduler-a').selectedOptions[0].text === 'policy'")


def test_all_schedulers_of_a_sequence_can_be_compared(show: Show, small: Path, trees: list[Tree]) -> None:
    page = show(small, "#sequence=0&a=spread")
    page.click("#all summary")
    rows = page.locator("#all-schedulers tbody tr")
    costs = sorted((one["penalties"].sum(), name) for one, name in zip(trees[0]["episodes"], NAMES, strict=True))
    assert rows.locator("th").all_inner_texts() == [name for _, name in costs]
    page.click("#all-schedulers tr:has-text('policy') .link")
    page.wait_for_selector("#map-b canvas")
    assert "policy cost" in page.inner_text("#verdict")


def test_the_list_keeps_the_decisions_in_which_two_schedulers_differ(
    show: Show, small: Path, trees: list[Tree]
) -> None:
    one, other = trees[0]["episodes"][0], trees[0]["episodes"][1]
    page = show(small, "#sequence=0&a=spread&b=best-fit")
    page.check("#only-different")
    page.click("#order button:has-text('By time')")
    parts = (one["machine"] != other["machine"]) | (one["start"] != other["start"])
    expected = [f"w{i} to machine {one['machine'][i]}" for i in one["workload"] if parts[i]]
    assert page.locator("#decision-list .link").all_inner_texts() == expected


def test_the_costliest_decisions_of_all_sequences_lead_to_their_sequence(show: Show, small: Path) -> None:
    page = show(small, "#sequence=0")
    page.click("#scope button:has-text('All sequences')")
    row = page.locator("#decision-list tr", has_text="sequence 1").first
    name = row.locator(".link").inner_text()
    row.locator(".link").click()
    until(page, "document.getElementById('sequence').value === '1'")
    settle(page)
    assert name.replace(" to ", " went to ") in title(page)


def test_a_deep_link_restores_the_view(show: Show, small: Path) -> None:
    page = show(small, "#sequence=1&a=policy&b=spread&decision=7&slot=40&machine=2&shown=mem&resource=mem")
    before = (title(page), slot(page), page.inner_text("#machine-a h3"), page.inner_text("#parting"))
    assert before[1:3] == (40, "A Machine 2: mem by workload")
    until(page, "location.hash.includes('slot=40')")
    again = show(small, page.evaluate("location.hash"))
    after = (title(again), slot(again), again.inner_text("#machine-a h3"), again.inner_text("#parting"))
    assert after == before
    assert again.inner_text("#shown [aria-pressed=true]") == "mem"
    assert again.is_hidden("#note")


def test_a_part_of_a_link_that_means_nothing_is_left_out(show: Show, small: Path) -> None:
    page = show(small, "#sequence=1")
    for part in ("slot=banana", "a=nobody", "decision=999", "machine=10", "machine=-2", "what=1", "%", "slot=%E0%A4%A"):
        page.evaluate("part => { location.hash = '#sequence=1&' + part; }", part)
        until(page, f"document.getElementById('note').textContent.endsWith(': {part}')")
        assert page.is_visible("#note")
        assert page.input_value("#sequence") == "1"
    page.evaluate("location.hash = '#sequence=0&slot=5'")
    page.wait_for_selector("#note", state="hidden")
    settle(page)
    assert (page.input_value("#sequence"), slot(page)) == ("0", 5)


def test_a_thousand_machines_are_shown(show: Show, made_up: Callable[..., Tree], write: Callable[..., Path]) -> None:
    tree = made_up(0, machines=1000, workloads=3000, schedulers=2, slots=300)
    page = show(write([tree], 1000, 2), "#b=best-fit&machine=777&slot=90")
    assert page.inner_text("#machine-b h3").startswith("B Machine 777:")
    press(page, "ArrowDown", "c", "j")
    assert page.locator("#decision-list tr").count() == 100
    page.click("#more-decisions")
    assert page.locator("#decision-list tr").count() == 200


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "<!--<script>" + "x" * 1_000_000,
    "'\"><svg onload=alert(3)>\u202e\x00",
    "javascript:alert(4)",
)


def test_names_are_never_executed(show: Show, made_up: Callable[..., Tree], write: Callable[..., Path]) -> None:
    tree = made_up(0, workloads=len(HOSTILE))
    tree["workloads"]["name"] = tree["workloads"]["source"] = list(HOSTILE)
    file = write([tree], title=HOSTILE[1], left_out=list(HOSTILE), trace={"name": HOSTILE[0], "source": "real"})
    page = show(file, "#b=policy")
    press(page, "c", "j", "j", "k", "/")
    page.keyboard.type("<")
    settle(page)
    assert page.locator("img, svg, #page script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert HOSTILE[0] in page.inner_text("#decision-list")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_fault(show: Show, small: Path, theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = show(small, "#b=policy", color_scheme=theme)
    page.click("#about summary")
    found = axe.Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")] == []


def test_a_telephone_shows_one_column(show: Show, small: Path) -> None:
    page = show(small, "#b=policy", width=420, height=900)
    assert page.evaluate("document.documentElement.scrollWidth") == 420


def test_the_theme_can_be_chosen(show: Show, small: Path) -> None:
    page = show(small, color_scheme="light")
    paper = "getComputedStyle(document.querySelector('section')).backgroundColor"
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    page.select_option("#theme", "dark")
    assert page.evaluate(paper) != "rgb(255, 255, 255)"
