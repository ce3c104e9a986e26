"""The explorer's page of a plan of moves in a real browser: it speaks of pods, nodes and states."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.explorer.browsing import settle
from tests.explorer.test_plans_page import Show, table
from tests.rebalance.test_referee import cluster, column, moves
from tvwrl.rebalance import Forecast
from tvwrl.rebalance.page import _explore, _states
from tvwrl.rebalance.plan_of_moves import MovePlan


def plan(*given: str) -> MovePlan:
    return MovePlan(0.0, "here", "machines", tuple(moves(*given)), (), {}, {})


@pytest.fixture(scope="module")
def page_of_moves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pods leave n1 for n0 and n2 in two batches; names are words that the page replaces elsewhere."""
    names = ["shop/machine-1", "application/replica", "shop/planner", "shop/stays"]
    state = cluster([1, 1, 1, 0], pod=column(names))
    given = plan("shop/machine-1 n1 n0 0", "application/replica n1 n2 0", "shop/planner n1 n0 1")
    file = tmp_path_factory.mktemp("moves") / "explorer.html"
    _explore(file, state, Forecast(np.ones((4, 1, 24, 2), np.float32), 3600, np.full(4, 24)), given)
    return file


def test_it_shows_the_states_in_order_in_words_of_kubernetes(show: Show, page_of_moves: Path) -> None:
    page: Any = show(page_of_moves)
    settle(page)
    assert page.inner_text("#size") == "4 pods"
    assert table(page, "#planners") == ["as it is now|2|0", "after batch 0|3|2", "after the movesA|2|3"]
    assert "after the moves uses 2 of 3 nodes. All pods are placed. 3 pods move." in page.inner_text("#verdict")
    assert table(page, "#list") == [
        "shop/machine-1|node n1|node n0", "application/replica|node n1|node n2", "shop/planner|node n1|node n0",
    ]  # fmt: skip
    page.select_option("#planner-a", label="after batch 0")
    settle(page)
    assert table(page, "#list") == ["shop/machine-1|node n1|node n0", "application/replica|node n1|node n2"]
    spoken = page.inner_text("body")
    for name in ("shop/machine-1", "application/replica", "shop/planner"):
        spoken = spoken.replace(name, "")
    assert re.findall(r"(?i)machine|application|replica|planner|affinity", spoken) == []
    labels = page.evaluate("[...document.querySelectorAll('[aria-label]')].map(one => one.getAttribute('aria-label'))")
    assert re.findall(r"(?i)machine|replica|planner", " ".join(labels).replace("shop/machine-1", "")) == []


def test_a_plan_without_moves_shows_what_is_now(show: Show, tmp_path: Path) -> None:
    file = tmp_path / "explorer.html"
    _explore(file, cluster([0, 1]), Forecast(np.ones((2, 1, 24, 2), np.float32), 3600, np.full(2, 24)), plan())
    page: Any = show(file)
    assert table(page, "#planners") == ["as it is nowA|2|0"]


def test_of_many_batches_some_are_shown() -> None:
    state = cluster([0] * 60, nodes=2, request=np.zeros((60, 2)))
    given = plan(*(f"p{i} n0 n1 {i}" for i in range(60)))
    states = _states(state, given)
    assert list(states)[:3] == ["as it is now", "after batch 0", "after batch 2"]
    assert list(states)[-2:] == ["after batch 58", "after the moves"]
    assert len(states) == 26
    assert [int((at == 1).sum()) for at in states.values()][-2:] == [59, 60]
    assert states["as it is now"].tolist() == state.at.tolist() == [0] * 60
