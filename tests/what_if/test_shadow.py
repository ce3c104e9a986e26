"""Decisions of a server in shadow mode, by hand and badly written."""

from __future__ import annotations

import json

import pytest

from tests.what_if.conftest import ORIGIN, record
from tests.what_if.test_replay import places
from tvwrl.types import InputError
from tvwrl.what_if.compared import compare
from tvwrl.what_if.replay import Replay
from tvwrl.what_if.report import page
from tvwrl.what_if.shadow import shadow_placements

START = ORIGIN * 300


@pytest.fixture
def replay():
    daemon = {"name": "x/d", "node": "a", "slots": range(12), "owner": "x/daemonset/d"}
    pods = [{"name": f"x/{i}", "node": "ab"[i % 2], "slots": range(4 * i, 12)} for i in range(3)]
    again = {"name": "x/0", "node": "b", "slots": range(30, 40)}
    pods[0] = {"name": "x/0", "node": ["a"] * 12 + ["b"] * 10, "slots": [*range(12), *again["slots"]]}
    return Replay(record([*pods, daemon]))


def shadow(replay, tmp_path, *lines):
    file = tmp_path / "decisions.jsonl"
    file.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines))
    return shadow_placements(file, replay)


def decision(slot, pod, node):
    return {"time": START + 300 * slot, "pod": pod, "node": node, "score": 7}


def test_decisions_by_hand(replay, tmp_path):
    found = shadow(
        replay,
        tmp_path,
        decision(0, "x/0", "b"),
        decision(4, "x/1", None),
        "",
        decision(30, "x/0", "a"),
        decision(8, "x/gone", "a"),
        decision(8, "x/d", "b"),
        decision(8, "x/2", "vanished"),
    )
    assert (found.decided, found.held, found.unknown_pods, found.unknown_nodes) == (4, 1, 2, 1)
    assert places(replay, found.placed) == {"x/0": ("b", 0), "x/0#2": ("a", 30), "x/1": ("b", 4), "x/2": ("a", 8)}
    outcome = compare(replay, [found.placed]).outcomes[1]
    assert outcome.moved == 2


def test_the_last_decision_before_a_pod_runs_counts(replay, tmp_path):
    lines = decision(3, "x/1", None), decision(4, "x/1", "a"), decision(9, "x/1", "b")
    assert places(replay, shadow(replay, tmp_path, *lines).placed)["x/1"] == ("a", 4)


def test_decisions_of_other_days_do_not_count(replay, tmp_path):
    found = shadow(replay, tmp_path, decision(-9000, "x/gone", "b"), decision(-9, "x/0", "b"), decision(30, "x/2", "b"))
    assert (found.decided, found.unknown_pods) == (1, 1)
    assert places(replay, found.placed)["x/0"] == ("b", 0)
    assert places(replay, found.placed)["x/2"] == ("a", 8)


def test_a_last_line_that_is_being_written_is_left_out(replay, tmp_path):
    file = tmp_path / "decisions.jsonl"
    text = json.dumps(decision(0, "x/0", "b"))
    for rest in ("", text[:20], text):
        file.write_text(f"{text}\n{rest}")
        assert shadow_placements(file, replay).decided == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "decisions.jsonl: line 2: not JSON"),
        ("[" * 100_000, "decisions.jsonl: line 2: not JSON"),
        ("[1]", "line 2: needed: {"),
        ('{"time": 1, "pod": "x/1"}', "line 2: 'node' is missing"),
        ('{"time": "now", "pod": "x/1", "node": null}', 'line 2: time is "now": must be seconds since 1970'),
        ('{"time": NaN, "pod": "x/1", "node": null}', "line 2: time is NaN: must be seconds"),
        ('{"time": 1, "pod": 3, "node": null}', "line 2: pod is 3: must be namespace/name"),
        ('{"time": 1, "pod": "x/1", "node": 3}', "line 2: node is 3: must be a name, or null to hold"),
    ],
)
def test_bad_lines(replay, tmp_path, line, message):
    with pytest.raises(InputError, match=message):
        shadow(replay, tmp_path, decision(0, "x/0", "b"), line)


def test_older_parts_are_read(replay, tmp_path):
    """The newest, which has the name, says the most; a part may end in the middle of a line."""
    by_part = {
        ".9": [decision(0, "x/0", "a"), decision(0, "x/1", "b")],
        ".10": [decision(1, "x/0", "b")],
        "": [decision(2, "x/2", "b")],
    }
    for end, lines in by_part.items():
        (tmp_path / f"d{end}").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"time": 1, "po')
    found = shadow_placements(tmp_path / "d", replay)
    all_in_one = shadow(replay, tmp_path, *(line for lines in by_part.values() for line in lines))
    assert found.decided == all_in_one.decided == 3
    assert found.placed.machine.tolist() == all_in_one.placed.machine.tolist()


def test_bad_lines_of_older_parts_are_named(replay, tmp_path):
    (tmp_path / "d").write_text(json.dumps(decision(0, "x/0", "a")) + "\n")
    (tmp_path / "d.3").write_text("\nnot json\n")
    with pytest.raises(InputError, match=r"d\.3: line 2: not JSON"):
        shadow_placements(tmp_path / "d", replay)


def test_no_lines(replay, tmp_path):
    with pytest.raises(InputError, match="empty: no decisions"):
        shadow(replay, tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        shadow_placements(tmp_path / "none", replay)


@pytest.fixture
def many():
    """Twelve pods that begin one after the other."""
    pods = [{"name": f"x/{i}", "node": "ab"[i % 2], "slots": range(6 + 12 * i, 200)} for i in range(12)]
    return Replay(record([*pods, {"name": "x/all", "node": "a", "slots": range(200)}]))


def decisions(tmp_path, seconds, name="x/{}"):
    """One for each of these pods, so many seconds before it begins."""
    file = tmp_path / "decisions.jsonl"
    lines = [{"time": START + 300 * (6 + 12 * i) - seconds, "pod": name.format(i), "node": "b"} for i in range(12)]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


@pytest.mark.parametrize(("seconds", "differ"), [(0, False), (200, False), (-200, False), (4500, True)])
def test_clocks_that_differ_are_noticed(many, tmp_path, seconds, differ):
    found = shadow_placements(decisions(tmp_path, seconds), many)
    assert (found.decided, found.clocks_differ) == (12, differ)
    text = " ".join(page(compare(many, [found.placed]), many, found).split())
    assert ("decisions are dated 75 min before the start of their pods" in text) == differ


def test_a_clock_that_is_an_hour_ahead_is_refused(many, tmp_path):
    with pytest.raises(InputError, match="decisions are dated 60 min after the start of their pods: the clocks"):
        shadow_placements(decisions(tmp_path, -3600), many)


def test_pods_that_were_renamed_are_refused(many, tmp_path):
    with pytest.raises(InputError, match=r"none of the 12 pods with decisions.*such as 'y/0' here and 'x/0' there"):
        shadow_placements(decisions(tmp_path, 100, "y/{}"), many)
