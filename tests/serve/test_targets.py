"""Replacements of pods that were moved go where they should, if there is room; others as the policy decides."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tvwrl.types import InputError

pytest.importorskip("orjson")
pytest.importorskip("httptools")

from tvwrl.serve.deciding import NOTHING, Decision, NotReady
from tvwrl.serve.extender_messages import Pod, read_arguments, read_wish
from tvwrl.serve.targets import Targets


class First:
    """Takes the first node that is not full."""

    shadow = False

    def __init__(self, *full):
        self.full, self.asked = full, []

    def decide(self, pod, names):
        self.asked.append(list(names))
        passed = np.array([name not in self.full for name in names])
        node = next((name for name, good in zip(names, passed, strict=True) if good), None)
        return Decision(pod, node, passed, NOTHING, "first")


def pod(uid, controller="rs-1"):
    return Pod("shop", f"web-{uid}", uid, "shop/deployment/web", np.array([0.1, 1e6]), controller)


def told(clock=lambda: 0.0, node="b", avoid=("a",), seconds=300):
    targets = Targets(clock)
    targets.tell(json.dumps({"controller": "rs-1", "node": node, "avoid": list(avoid), "seconds": seconds}).encode())
    return targets


def test_the_next_pod_of_the_controller_goes_there_and_nowhere_else():
    targets = told(node="c")
    for _ in range(2):  # it may be asked about again
        decision = targets.decide(First(), pod("1"), ["a", "b", "c"])
        assert (decision.node, decision.passed.tolist()) == ("c", [False, False, True])
    assert targets.decide(First(), pod("2"), ["a", "b", "c"]).node == "a"
    assert targets.decide(First(), pod("1", "rs-2"), ["a", "b", "c"]).node == "c"


def test_another_controller_is_not_concerned():
    decision = told().decide(First(), pod("1", "rs-2"), ["a", "b"])
    assert (decision.node, decision.passed.tolist()) == ("a", [True, True])


@pytest.mark.parametrize("names", [["a", "c"], ["a", "b", "c"]])
def test_without_room_it_is_decided_as_usual_among_nodes_that_it_did_not_leave(names):
    decision = told().decide(First("b"), pod("1"), names)
    assert decision.node == "c"
    assert decision.passed.tolist() == [name == "c" for name in names]


def test_a_pod_rather_returns_than_waits():
    decision = told().decide(First("b", "c"), pod("1"), ["a", "b", "c"])
    assert decision.node == "a"
    assert told().decide(First("a", "b"), pod("1"), ["a", "b"]).node is None


def test_it_ends():
    now = [0.0]
    targets = told(lambda: now[0])
    assert len(targets) == 1
    now[0] = 301.0
    assert targets.decide(First(), pod("1"), ["a", "b"]).node == "a"
    assert len(targets) == 0


def test_it_can_be_taken_back():
    targets = told()
    for node in ("c", "b", "b"):
        targets.tell(json.dumps({"controller": "rs-1", "node": node, "seconds": 0}).encode())
    assert len(targets) == 0
    assert targets.decide(First(), pod("1"), ["a", "b"]).node == "a"


def test_two_pods_of_a_controller_have_a_target_each():
    targets = told()
    targets.tell(b'{"controller": "rs-1", "node": "c", "seconds": 60}')
    nodes = [targets.decide(First(), pod(uid), ["a", "b", "c"]).node for uid in "123"]
    assert nodes == ["b", "c", "a"]


def test_nothing_is_hidden_when_nothing_can_be_decided():
    class Blind:
        def decide(self, pod, names):
            raise NotReady("stale_metrics")

    with pytest.raises(NotReady, match="stale_metrics"):
        told().decide(Blind(), pod("1"), ["a", "b"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "node"),
        ({"node": "b", "seconds": 1}, "controller"),
        ({"controller": "x", "node": "B!", "seconds": 1}, "node"),
        ({"controller": "x", "node": "b"}, "seconds"),
        ({"controller": "x", "node": "b", "seconds": 4000}, "seconds"),
        ({"controller": "x", "node": "b", "seconds": True}, "seconds"),
        ({"controller": "x", "node": "b", "seconds": 1, "avoid": "a"}, "avoid"),
        ({"controller": "x", "node": "b", "seconds": 1, "avoid": [3]}, "avoid"),
    ],
)
def test_what_is_no_target_is_refused(body, field):
    with pytest.raises(InputError, match=field):
        read_wish(json.dumps(body).encode())


def test_there_are_not_too_many(monkeypatch):
    monkeypatch.setattr("tvwrl.serve.targets.MOST", 1)
    targets = told()
    with pytest.raises(InputError, match="1 targets"):
        targets.tell(b'{"controller": "rs-1", "node": "c", "seconds": 60}')


def test_the_controller_of_a_pod_is_read():
    owners = [{"kind": "ReplicaSet", "name": "web-7d4f9c6b5", "uid": "rs-1", "controller": True}]
    body = {"Pod": {"metadata": {"name": "web", "namespace": "shop", "ownerReferences": owners}}, "NodeNames": ["a"]}
    assert read_arguments(json.dumps(body).encode()).pod.controller == "rs-1"
