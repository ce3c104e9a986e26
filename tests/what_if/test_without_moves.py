"""What carried-out moves were worth, by hand, and records that are none."""

from __future__ import annotations

import json

import pytest

from tests.what_if.conftest import ORIGIN, record
from tests.what_if.test_replay import places
from tvwrl.types import InputError
from tvwrl.what_if.command import WhatIfSettings, what_if
from tvwrl.what_if.replay import Replay
from tvwrl.what_if.without_moves import page, without_moves, worth_of

START = ORIGIN * 300


@pytest.fixture
def replay():
    """x/1 runs on a for 12 slots; its replacement x/2 on b for 12, and its x/3 on c; x/0 is on b all the time."""
    pods = [
        {"name": "x/0", "node": "b", "slots": range(36)},
        {"name": "x/1", "node": "a", "slots": range(12)},
        {"name": "x/2", "node": "b", "slots": range(12, 24)},
        {"name": "x/3", "node": "c", "slots": range(24, 36)},
    ]
    return Replay(record(pods, [(name, 4, 16) for name in "abc"]))


def replaced(slot, pod, source, replacement, node, **more):
    facts = {"pod": pod, "source": source, "replacement": replacement, "node": node}
    return {"time": START + 300 * slot, "event": "replaced", "dry_run": False, **facts, **more}


def written(tmp_path, *lines):
    file = tmp_path / "moves.jsonl"
    file.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines))
    return file


def test_a_pod_that_was_moved_twice_stays_where_it_was_first(replay, tmp_path):
    lines = (
        {"time": START, "event": "planned", "pod": "x/1"},
        replaced(12.5, "x/1", "a", "x/2", "b"),
        replaced(24.5, "x/2", "b", "x/3", "c"),
        replaced(24.5, "x/0", "b", "x/3", "c", dry_run=True),
        replaced(25, "x/9", "b", "x/8", "c"),
    )
    found, compared = worth_of(written(tmp_path, *lines), replay)
    assert (found.moved, found.strangers, found.nowhere) == (2, 1, 0)
    assert places(replay, found.placed) == {"x/0": ("b", 0), "x/1": ("a", 0), "x/2": ("a", 12), "x/3": ("a", 24)}
    # As it was: a for 1 h, b for 3 h, c for 1 h; without moves: a and b for 3 h each.
    assert compared.change(compared.others[0], "machine_hours").value == pytest.approx(1.0)
    assert "machine-hours saved a day: 1.0" in page(found, compared)


def test_another_may_have_moved_it_in_between(replay, tmp_path):
    """x/2 was on c when it was evicted, so that it would have been there anyway."""
    lines = replaced(12.5, "x/1", "a", "x/2", "b"), replaced(24.5, "x/2", "c", "x/3", "b")
    found = without_moves(written(tmp_path, *lines), replay)
    assert places(replay, found.placed)["x/3"] == ("c", 24)


def test_nodes_that_are_not_in_the_record(replay, tmp_path):
    found = without_moves(written(tmp_path, replaced(12.5, "x/1", "gone", "x/2", "b")), replay)
    assert (found.moved, found.nowhere) == (0, 1)
    assert places(replay, found.placed)["x/2"] == ("b", 12)


def test_a_name_that_comes_again(tmp_path):
    """A pod of a StatefulSet has the name of the one that it replaces."""
    slots = [*range(12), *range(30, 40)]
    replay = Replay(record([{"name": "x/0", "node": ["a"] * 12 + ["b"] * 10, "slots": slots}]))
    found = without_moves(written(tmp_path, replaced(30, "x/0", "a", "x/0", "b")), replay)
    assert places(replay, found.placed) == {"x/0": ("a", 0), "x/0#2": ("a", 30)}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: is not JSON"),
        ("[1]", "line 1: is not an object"),
        (replaced(0, "x/1", "a", "x/2", "") | {"node": 3}, "line 1: node must be a text"),
        (replaced(0, "x/1", "a", "x/2", "b") | {"time": "now"}, "line 1: time"),
        ({"time": 1.0, "event": "evicted"}, "no pod was moved"),
    ],
)
def test_bad_records(replay, tmp_path, line, message):
    with pytest.raises(InputError, match=message):
        without_moves(written(tmp_path, line), replay)
    with pytest.raises(InputError, match="cannot be read"):
        without_moves(tmp_path / "none.jsonl", replay)


def test_the_command(week, tmp_path, capsys):
    moves = written(tmp_path, replaced(80, "x/p9", "n0", "x/p2", "n2"))
    what_if(WhatIfSettings(**week, record_of_moves=moves))
    assert "# What were these 1 moves worth?" in capsys.readouterr().out
    figures = json.loads((week["out"] / "what-if.json").read_text())
    assert figures["moved"] == 1
    with pytest.raises(InputError, match="moves is"):
        WhatIfSettings(**week, record_of_moves=moves, moves=("none",)).check()
