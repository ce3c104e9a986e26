"""What a plan claims to save, by hand: of which nodes, from when on, and less what waits for room."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.rebalance.test_referee import cluster, column
from tvwrl.rebalance import Forecast, Found, Goal, expected_worth, find_moves, make_plan
from tvwrl.rebalance.cluster_state import Waiting
from tvwrl.rebalance.eviction_budgets import EvictionBudgets
from tvwrl.rebalance.page import About, page, write
from tvwrl.rebalance.plan_of_moves import read_plan
from tvwrl.rebalance.search import most_emptied


def idle(state):
    """A forecast of one day in which no pod uses anything, in steps of an hour."""
    return Forecast(np.zeros((len(state), 1, 24, 2), np.float32), 3600, np.full(len(state), 24))


def worth(state, at, **more):
    return {name: one.value for name, one in expected_worth(state, np.array(at), idle(state), **more).items()}


def waiting(cores, allowed=(True, True, True), owner=""):
    return Waiting("shop/late", owner, np.array([cores, 1.0]), np.array(allowed))


@pytest.mark.parametrize("why", ["is being removed anyway", "is of the control plane"])
def test_a_node_that_goes_anyway_or_never_is_not_saved(why):
    state = cluster([0, 1, 2], price=np.array([1.0, 2.0, np.nan]))
    assert worth(state, [0, 0, 0]) | {"money": 0.0} == {
        "nodes": 2, "machine_hours": 48, "money": 0, "overload_hours": 0,
    }  # fmt: skip
    kept = replace(state, unsaved={"n2": why})
    assert worth(kept, [0, 0, 0]) == {"nodes": 1, "machine_hours": 24, "money": 48, "overload_hours": 0}
    assert worth(kept, [0, 1, 0]) == {"nodes": 0, "machine_hours": 0, "money": 0, "overload_hours": 0}
    assert worth(kept, [0, 2, 2])["machine_hours"] == 24  # it runs anyhow
    # The search does not try, and does not promise more than the others can give.
    found = find_moves(kept, np.zeros((3, 1, 2)), Goal("machines", 3))
    assert 2 not in found.emptied
    assert most_emptied(state, 3) == 3
    assert most_emptied(kept, 3) == 2
    plan = make_plan(kept, idle(kept), Goal("machines", 3))
    assert "n2" not in plan.drained
    assert f"a node that {why}: 1" in page(kept, plan, Goal("machines", 3)).replace("\n", " ")


def test_a_cordoned_node_is_saved_once_its_pods_are_gone_and_an_empty_one_never():
    state = cluster([0, 1], open=np.array([True, False, False]))
    assert worth(state, [0, 0])["machine_hours"] == 24
    plan = make_plan(state, idle(state), Goal("machines", 1))
    assert plan.drained == ("n1",)
    assert "1 node take no new pods already, such as n1" in page(state, plan, Goal("machines", 1)).replace("\n", " ")
    assert worth(cluster([0], open=np.array([True, False, False])), [0])["machine_hours"] == 0


def test_what_waits_takes_the_room_that_moves_make():
    """Nodes of four cores: p0 of three on n0, p1 of one on n1, and n2 takes no pods."""
    state = cluster([0, 1], request=[[3, 1], [1, 1]], open=np.array([True, True, False]))
    assert worth(state, [0, 0])["machine_hours"] == 24
    # Four cores fit on none now, and on n1 once it is empty.
    assert worth(replace(state, waiting=(waiting(4.0),)), [0, 0])["machine_hours"] == 0
    # Three cores go to n1 anyway; where that is empty, they need it all the same.
    assert worth(replace(state, waiting=(waiting(3.0),)), [0, 0])["machine_hours"] == 0
    # It may not go there, or is too large for all.
    assert worth(replace(state, waiting=(waiting(4.0, [True, False, True]),)), [0, 0])["machine_hours"] == 24
    assert worth(replace(state, waiting=(waiting(5.0),)), [0, 0])["machine_hours"] == 24
    # An empty node that would be opened for it without the plan, too: four nodes, of which n2 is empty.
    empty = cluster([0, 1], request=[[3, 1], [1, 1]])
    assert worth(replace(empty, waiting=(waiting(4.0),)), [0, 0])["machine_hours"] == 24


def test_what_is_kept_from_nodes_with_room_takes_those_that_are_emptied():
    """As by a rule of anti-affinity: n0 and n1 run a pod each that it avoids, and both have room."""
    state = cluster([0, 1], open=np.array([True, True, False]))
    fresh = replace(state, waiting=(waiting(0.5),))
    assert worth(fresh, [0, 0])["machine_hours"] == 24
    tried = replace(state, waiting=(waiting(0.5)._replace(tried=True),))
    assert worth(tried, [0, 0])["machine_hours"] == 0
    assert worth(tried, [0, 1])["machine_hours"] == 0


def test_nothing_is_saved_before_moves_are_made():
    state = cluster([0, 1])
    assert worth(state, [0, 0], done=np.array([2.5, 2.5, 0.0]))["machine_hours"] == 21.5
    assert worth(state, [0, 0], done=np.array([np.inf, np.inf, 0.0]))["machine_hours"] == 0
    late = replace(state, waiting=(waiting(4.0, [False, True, False]),))
    assert worth(late, [0, 0], done=np.full(3, 2.5))["machine_hours"] == 0  # no more is needed again than was saved


def test_relief_counts_from_when_it_comes():
    """Two pods of three cores on a node of four, all day; one leaves after six hours."""
    state = cluster([0, 0])
    forecast = Forecast(np.full((2, 1, 24, 2), 3.0, np.float32), 3600, np.full(2, 24))
    found = expected_worth(state, np.array([0, 1]), forecast, done=np.array([6.0, 6.0, 0.0]))
    assert found["overload_hours"].value == -2 * 18  # hours of CPU, and of memory


def leaving(number, **budgets):
    """The plan that moves so many pods of different owners and namespaces from n0 to n1, five in a batch."""
    state = cluster(
        [0] * number + [1],
        request=np.full((number + 1, 2), 0.1),
        owner=column([f"owner-{i}" for i in range(number + 1)]),
        pod=column([f"space-{i}/p" for i in range(number + 1)]),
    )
    rows = np.arange(number)
    moves = Found(rows, np.zeros(number, int), np.ones(number, int), np.array([0]))
    return make_plan(
        state, idle(state), Goal(most_moves=number), finds=lambda *_: moves, hourly=EvictionBudgets(**budgets)
    )


def test_savings_begin_when_the_budgets_let_the_last_move_be_made():
    """The first move six minutes from now, each batch two minutes, an hour more where a budget is spent."""
    assert leaving(5).expected["hours"].value == pytest.approx(0.1 + 2 / 60)
    assert leaving(5).expected["machine_hours"].value == pytest.approx(23.9 - 2 / 60)
    assert leaving(10).expected["hours"].value == pytest.approx(0.1 + 4 / 60)
    assert leaving(11).expected["hours"].value == 1.1  # ten an hour from one node
    assert leaving(11, hourly_per_node=99).expected["hours"].value == pytest.approx(0.1 + 6 / 60)
    assert leaving(11, hourly=3, hourly_per_node=99).expected["machine_hours"].value == 24 - 3.1
    assert leaving(4, hourly=0).expected["machine_hours"].value == 0
    assert sum(move.saving for move in leaving(11).moves) == pytest.approx(24 - 1.1)


def test_a_move_is_made_after_those_that_it_needs():
    """Three pods of a core leave n1 for n2, one an hour of their namespace, so that one of three cores fits there."""
    state = cluster(
        [0, 1, 1, 1, 2],
        request=np.array([[3.0, 1], [1, 1], [1, 1], [1, 1], [0.1, 0.1]]),
        owner=column([f"owner-{i}" for i in range(5)]),
        pod=column(["fast/p", "slow/p", "slow/q", "slow/r", "other/p"]),
    )
    moves = Found(np.array([1, 2, 3, 0]), np.array([1, 1, 1, 0]), np.array([2, 2, 2, 1]), np.array([0]))
    budgets = EvictionBudgets(hourly_per_namespace=1)
    plan = make_plan(state, idle(state), Goal(most_moves=4), finds=lambda *_: moves, hourly=budgets)
    assert plan.drained == ("n0",)
    assert plan.expected["machine_hours"].value == pytest.approx(24 - 2.1)


def test_every_move_saves_its_price_although_budgets_delay_it():
    """Two nodes of five pods, and one of one; with five evictions an hour, the second is empty an hour later."""
    state = cluster(
        [0] * 5 + [1] * 5 + [2],
        request=np.full((11, 2), 0.1),
        owner=column([f"owner-{i}" for i in range(11)]),
        pod=column([f"space-{i}/p" for i in range(11)]),
    )

    def drained(price, hourly):
        goal = Goal(most_moves=10, price_per_move=price)
        plan = make_plan(state, idle(state), goal, hourly=EvictionBudgets(hourly=hourly))
        assert all(move.saving >= price for move in plan.moves)
        assert plan.expected["machine_hours"].value >= price * len(plan.moves)
        return len(plan.drained)

    assert drained(4.0, 5) == 2
    assert drained(4.7, 10) == 2  # the first is empty after 0.1 h and a batch, the second after another
    assert drained(4.7, 5) == 1
    assert drained(4.79, 10) == 1  # that of one pod
    assert drained(0.0, 1) == 2


@pytest.mark.parametrize("goal", ["machines", "overload"])
def test_a_cluster_without_pods(goal, tmp_path):
    state = cluster([])
    plan = make_plan(state, idle(state), Goal(goal), hourly=EvictionBudgets())
    assert not plan.moves
    assert not plan.drained
    assert "Nothing to move" in write(tmp_path / "out", state, idle(state), plan, Goal(goal))


def test_a_plan_says_how_long_it_takes():
    def said(plan):
        return page(cluster([0]), plan, Goal(), About(longest_age=0.25)).replace("\n", " ")

    assert "1.1 h after the cluster was seen" in said(leaving(11))
    assert "--watch plans anew" in said(leaving(11))
    assert "do not allow all moves" in said(leaving(4, hourly=0))
    assert "--watch plans anew" not in page(cluster([0]), leaving(4), Goal(), About(longest_age=0.25))


def test_the_page_says_why_there_is_nothing_to_move():
    """Three pods of a core on each of two nodes of four cores; what a rule leaves is no fault of the search."""

    def said(state, goal, rule=""):
        plan = make_plan(state, idle(state), goal)
        assert not plan.moves
        return page(state, plan, goal, About(rule=rule)).replace("\n", " ")

    full = cluster([0, 0, 0, 1, 1, 1])
    assert "the emptiest node runs 3 pods, and 2 moves are allowed" in said(full, Goal(most_moves=2))
    assert "less than its price, 9 (--price-per-move)" in said(full, Goal(most_moves=9, price_per_move=9.0))
    assert "of no node have room elsewhere" in said(full, Goal(most_moves=9))
    assert "karpenter proposes none" in said(full, Goal(most_moves=9), "karpenter")
    stays = cluster([0, 1], stays=np.array(["a job", "a job"], object))
    assert "no pod may be moved now" in said(stays, Goal(most_moves=9))


def test_moves_that_empty_no_node_are_said_to_save_nothing():
    state = cluster([0, 0, 1])
    found = Found(np.array([0]), np.array([0]), np.array([1]), np.array([], np.int64))
    plan = make_plan(state, idle(state), Goal(most_moves=9), finds=lambda *_: found)
    assert [move.reason for move in plan.moves] == ["leaves n0, which is not emptied"]
    assert "1 move in 1 batch, which empty no node and so save nothing" in page(state, plan, Goal()).replace("\n", " ")


def test_what_is_not_known_is_null_in_the_file_of_a_plan(tmp_path):
    plan = leaving(4)
    text = json.dumps(plan.as_dict(), allow_nan=False)
    (tmp_path / "plan.json").write_text(text)
    assert np.isnan(read_plan(tmp_path / "plan.json").expected["machine_hours"].low)
