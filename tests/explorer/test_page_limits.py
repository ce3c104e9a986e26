"""The explorer's page where something is missing: no episode, no costs, no forecast, half a file, an old browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.explorer.browsing import press, title

Tree = dict[str, Any]
Show = Callable[..., Any]


def emptied(tree: Tree) -> Tree:
    """Without workloads, decisions and slots."""
    work = {name: value[:0] for name, value in tree["workloads"].items()} | {"offset": np.zeros(1, int)}
    episodes = [{name: value[:0] for name, value in one.items()} for one in tree["episodes"]]
    return {"workloads": work, "background": None, "forecast": None, "episodes": episodes}


def test_an_empty_episode_is_said_to_be_empty(show: Show, trees: list[Tree], write: Callable[..., Path]) -> None:
    page = show(write([emptied(trees[0])]), "#b=policy")
    assert "made no decision" in page.inner_text("#decision")
    press(page, "Space", "ArrowRight", "j", "k", "c", "ArrowDown", "b")


def test_a_file_without_sequences_says_so(show: Show, write: Callable[..., Path]) -> None:
    page = show(write([]))
    assert "no episode" in page.inner_text("#verdict")
    press(page, "Space", "j", "b", "c", "ArrowDown", "Escape")


def test_a_workload_that_was_never_placed_says_so(
    show: Show, made_up: Callable[..., Tree], write: Callable[..., Path]
) -> None:
    tree = made_up(0)
    episode = tree["episodes"][0]
    k = int((episode["workload"] == 7).argmax())
    episode["machine"][7] = episode["start"][7] = episode["chosen"][k] = -1
    episode["machines"][k] = episode["machines"][k][::-1]
    page = show(write([tree]), f"#sequence=0&a=spread&decision={k}")
    assert title(page) == f"Slot {episode['slot'][k]}: w7 was left waiting"
    assert "It was never placed." in page.inner_text("#workload p")
    assert "1 workload was never placed" in page.inner_text("#verdict")
    press(page, "Escape", "/")
    page.keyboard.type("w12")
    press(page, "Enter", "ArrowLeft")
    assert "Back to this decision" in page.inner_text("#decision-around")


def test_a_workload_that_arrived_after_the_last_slot_can_be_looked_at(
    show: Show, made_up: Callable[..., Tree], write: Callable[..., Path]
) -> None:
    tree = made_up(0)
    for episode in tree["episodes"]:
        episode["machine"][59] = episode["start"][59] = -1
    tree["workloads"]["arrival"][59] = max(len(one["penalties"]) for one in tree["episodes"]) + 5
    page = show(write([tree]), "#sequence=0&workload=59")
    assert "It was never placed." in page.inner_text("#workload p")


def test_decisions_that_were_not_simulated_say_so(
    show: Show, made_up: Callable[..., Tree], write: Callable[..., Path]
) -> None:
    tree = made_up(0)
    for episode in tree["episodes"]:
        episode["costs"] = np.full_like(episode["costs"], np.nan)
        episode["scores"] = np.full_like(episode["scores"], np.nan)
    page = show(write([tree], left_out=["Alternatives took too long."]), "#decision=3")
    assert "No alternative was simulated." in page.inner_text("#verdict")
    assert "Alternatives took too long." in page.inner_text("#decision-words")
    assert "not simulated" in page.inner_text("#alternatives tbody tr >> nth=0")
    assert page.inner_text("#decision-list tr >> nth=0").endswith("not simulated")


@pytest.mark.parametrize("resources", [1, 3])
def test_any_number_of_resources_a_background_and_no_forecast(
    show: Show, made_up: Callable[..., Tree], write: Callable[..., Path], resources: int
) -> None:
    tree = made_up(0)
    for name in ("demand", "request"):
        tree["workloads"][name] = np.tile(tree["workloads"][name][:, :1], resources)
    tree |= {"background": np.ones((12, 10, resources)), "forecast": None}
    names = ["cpu", "mem", "disk"][:resources]
    file = write([tree], resources=names, capacity=np.full((10, resources), 32.0))
    page = show(file, f"#b=policy&slot=60&machine=3&resource={names[-1]}")
    assert page.inner_text("#machine-a h3") == f"A Machine 3: {names[-1]} by workload"
    assert page.locator("#shown button").count() == resources + 1


def test_forecasts_of_the_decision_only_are_read_further_ahead(
    show: Show, made_up: Callable[..., Tree], write: Callable[..., Path]
) -> None:
    tree = made_up(0)
    first = tree["workloads"]["offset"][:-1] + np.arange(60)
    for name in ("most", "spread"):
        tree["forecast"][name] = tree["forecast"][name][first]
    tree["forecast"]["every_age"] = False
    assert show(write([tree]), "#slot=40&machine=2&workload=5").is_visible("#workload .uplot")


@pytest.mark.parametrize("length", [0.2, 0.97])
def test_a_file_that_was_cut_off_is_said_to_be_damaged(show: Show, small: Path, tmp_path: Path, length: float) -> None:
    text = small.read_text()
    start = text.index('id="index"')
    cut = tmp_path / "explorer.html"
    cut.write_text(text[: start + int(length * (len(text) - start))])
    assert "damaged or incomplete" in show(cut, "#sequence=1").inner_text("#trouble")


def test_an_old_browser_is_told_which_ones_work(show: Show, small: Path) -> None:
    page = show(small, script="delete window.DecompressionStream")
    assert "Firefox" in page.inner_text("#trouble")
