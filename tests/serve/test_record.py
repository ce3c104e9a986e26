"""The record of decisions: each once, and where its pod really went."""

import json
from dataclasses import replace

import numpy as np

from tests.serve.clusters import observed, pod
from tvwrl.serve.deciding import NOTHING, Decision
from tvwrl.serve.record import Record


def decided(name, node):
    return Decision(pod(name), node, np.ones(1, bool), NOTHING, "")


def test_by_hand(tmp_path):
    seen = []
    record = Record(tmp_path / "new" / "decisions.jsonl", seen.append, clock=lambda: 5.0)
    for name, node in (("p", "a"), ("q", "b"), ("q", "b"), ("r", None), ("r", None)):
        record.decided(decided(name, node))
    record.observed(observed({"a": (8, 32), "b": (8, 32)}, [("p", "a", "", [1], [1]), ("q", "a", "", [1], [1])]))
    record.observed(observed({"a": (8, 32)}, [("p", "a", "", [1], [1]), ("r", "a", "", [1], [1])]))
    record.close()
    lines = [json.loads(line) for line in (tmp_path / "new" / "decisions.jsonl").read_text().splitlines()]
    assert [(line["pod"], line["node"], line.get("placed")) for line in lines] == [
        ("default/p", "a", None), ("default/q", "b", None), ("default/r", None, None),
        ("default/p", "a", "a"), ("default/q", "b", "a"), ("default/r", None, "a"),
    ]  # fmt: skip
    assert {line["time"] for line in lines} == {5.0}
    assert seen == ["as_decided", "other"]  # a hold is neither


def test_goes_on_in_the_same_file(tmp_path):
    for name in ("p", "q"):
        record = Record(tmp_path / "d", lambda where: None)
        record.decided(decided(name, "a"))
        record.close()
    assert len((tmp_path / "d").read_text().splitlines()) == 2


def test_ended_pods_are_not_waited_for(tmp_path):
    record = Record(tmp_path / "d", lambda where: None)
    record.decided(decided("p", "a"))
    record.observed(replace(observed({"a": (8, 32)}, [("p", "a", "", [1], [1])]), running=0))
    assert len((tmp_path / "d").read_text().splitlines()) == 1
