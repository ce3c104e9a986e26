"""Decisions: one best node, holds that end, and no decision where nothing is known."""

import numpy as np
import pytest

from tests.serve.clusters import GIB, decider, observed, pod
from tvwrl.schedulers.base import Opinion, Scheduler
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.serve.deciding import Decider, NotReady, points_of
from tvwrl.serve.policies import open_policy
from tvwrl.types import InputError

TWO = {"a": (8, 32), "b": (8, 32)}


def test_one_node_is_best_and_the_others_follow_in_order():
    """Best-Fit: c has least room (2 cores used, then 1, then 0); d is full."""
    nodes = dict.fromkeys("abcd", (8, 32))
    rows = [("p", "b", "", [1, 1], [1, 1]), ("q", "c", "", [2, 2], [1, 1]), ("r", "d", "", [8, 8], [1, 1])]
    asked = decider()
    asked.renew(observed(nodes, rows))
    decision = asked.decide(pod(request=(1, GIB)), ["d", "c", "b", "a"])
    assert decision.node == "c"
    assert decision.passed.tolist() == [False, True, True, True]
    assert decision.scores.of(["d", "c", "b", "a"]) == [0, 10, 9, 4]


def test_only_nodes_asked_about_are_chosen():
    asked = decider()
    asked.renew(observed(TWO, [("p", "a", "", [4, 4], [1, 1])]))
    assert asked.decide(pod(request=(1, GIB)), ["b"]).node == "b"


def test_points():
    possible = np.array([True, True, False, True, True])
    value = np.array([3.0, 1.0, 9.0, -np.inf, 1.0])
    assert points_of(value, possible, 0).tolist() == [10, 9, 0, 4, 9]
    assert points_of(None, possible, 1).tolist() == [0, 10, 0, 0, 0]
    assert points_of(value, np.array([True, False, False, False, False]), 0).tolist() == [10, 0, 0, 0, 0]


def test_a_pod_that_fits_nowhere_is_held_and_not_for_ever():
    now = [0.0]
    asked = decider(longest_hold=100.0, clock=lambda: now[0], stale=1e9)
    asked.renew(observed(TWO, [("p", "a", "", [8, 8], [1, 1]), ("q", "b", "", [7.5, 7.5], [1, 1])]))
    decision = asked.decide(pod(request=(4, GIB)), list(TWO))
    assert decision.node is None
    assert not decision.passed.any()
    assert "held by best-fit" in decision.reason
    now[0] = 101.0
    with pytest.raises(NotReady, match="held_for_too_long"):
        asked.decide(pod(request=(4, GIB)), list(TWO))


def test_nothing_is_decided_without_fresh_metrics():
    now = [0.0]
    asked = decider(clock=lambda: now[0], stale=60.0)
    assert not asked.ready
    with pytest.raises(NotReady, match="no_metrics"):
        asked.decide(pod(), list(TWO))
    asked.renew(observed(TWO, []))
    assert asked.ready
    now[0] = 61.0
    assert not asked.ready
    with pytest.raises(NotReady, match="stale_metrics"):
        asked.decide(pod(), list(TWO))


def test_old_samples_make_metrics_stale_however_often_they_are_read():
    from dataclasses import replace

    asked = decider(stale=60.0)
    asked.renew(replace(observed(TWO, []), sample_age=61.0))
    assert not asked.ready


def test_nodes_without_metrics_may_be_taken_but_are_never_preferred():
    asked = decider()
    asked.renew(observed({"a": (8, 32)}, []))
    decision = asked.decide(pod(request=(1, GIB)), ["new", "a"])
    found = (decision.node, decision.passed.tolist(), decision.scores.of(["new", "a"]))
    assert found == ("a", [True, True], [0, 10])
    full = decider()
    full.renew(observed({"a": (8, 32)}, [("p", "a", "", [8, 8], [1, 1])]))
    decision = full.decide(pod(request=(1, GIB)), ["new", "a"])
    assert (decision.node, decision.passed.tolist()) == (None, [True, False])
    with pytest.raises(NotReady, match="unknown_nodes"):
        full.decide(pod(), ["x", "y"])


def test_a_node_that_vanishes_takes_what_was_assumed_on_it_along():
    asked = decider("spread")
    asked.renew(observed(TWO, []))
    assert asked.decide(pod("p", request=(4, GIB)), list(TWO)).node == "a"
    asked.renew(observed({"b": (8, 32)}, []))
    assert asked.decide(pod("q", request=(1, GIB)), ["a", "b"]).node == "b"
    asked.renew(observed(TWO, []))
    assert asked.decide(pod("r", request=(1, GIB)), list(TWO)).node == "a"


def test_a_shadow_counts_its_own_decisions_until_pods_show_up_elsewhere():
    asked = decider("spread", shadow=True)
    asked.renew(observed(TWO, []))
    found = [asked.decide(pod(f"p{i}", request=(2, GIB)), list(TWO)).node for i in range(4)]
    assert found == ["a", "b", "a", "b"]
    asked.renew(observed(TWO, [(f"p{i}", "a", "", [2, 2], [1, 1]) for i in range(4)]))  # Kubernetes put all on a
    assert asked.decide(pod("q", request=(1, GIB)), list(TWO)).node == "b"


def test_late_decisions_are_withdrawn_but_not_those_after_them():
    asked = decider("spread")
    asked.renew(observed(TWO, []))
    late = asked.decide(pod("p", request=(4, GIB)), ["a"])
    again = asked.decide(pod("p", request=(4, GIB)), ["a"])
    asked.withdraw(late)
    assert asked.decide(pod("q", request=(1, GIB)), list(TWO)).node == "b"
    asked.withdraw(again)
    assert asked.decide(pod("r", request=(2, GIB)), list(TWO)).node == "a"


def test_a_pod_that_others_sent_elsewhere_counts_there():
    asked = decider("spread")
    asked.renew(observed(TWO, []))
    assert asked.decide(pod("p", request=(4, GIB)), list(TWO)).node == "a"
    asked.move("uid-p", "b")
    assert asked.decide(pod("q", request=(1, GIB)), list(TWO)).node == "a"
    asked.move("uid-p", None)  # it was not bound
    assert asked.decide(pod("r", request=(1, GIB)), list(TWO)).node == "b"
    asked.move("nobody", "a")


class Unsure(Scheduler):
    """Likes machine 0 a little better than the others, and to hold with a probability of 0.6."""

    name, knowledge = "unsure", CURRENT_LOAD

    def schedule(self, cluster, pending):
        raise AssertionError("its opinion is enough")

    def opinion(self, cluster, workload):
        return Opinion(np.array([True, True]), np.array([0.25, 0.15, 0.6]), "probability")


def test_a_policy_holds_for_the_median_time():
    """Held with 0.6, then with 0.36 < 0.5: each pod waits once. With b alone, 0.6 / 0.75 = 0.8, 0.64, 0.51, 0.41."""
    _, sight = open_policy("best-fit", None)
    asked = Decider(Unsure(), sight, 60.0, 60.0, 900.0)
    asked.renew(observed(TWO, []))
    assert [asked.decide(pod("p"), list(TWO)).node for _ in range(2)] == [None, "a"]
    assert [asked.decide(pod("q"), ["b"]).node for _ in range(4)] == [None, None, None, "b"]


@pytest.mark.parametrize("name", ["tetris", "clairvoyant", "rollout(spread)", "expected-cost-peak"])
def test_what_no_cluster_knows_cannot_be_served(name):
    with pytest.raises(InputError, match=r"no real cluster|training sequences"):
        open_policy(name, None)


def test_slots_of_another_length_are_refused_where_forecasts_need_theirs():
    with pytest.raises(InputError, match="slot_length is 300"):
        open_policy("forecast-fit", 300)
    assert open_policy("best-fit", 300)[1].scenario.step_seconds == 300
