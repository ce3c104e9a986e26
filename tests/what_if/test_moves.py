"""Recorded pods that a rule moves: by hand, as properties of any rule, and the whole command."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from tests.what_if.conftest import DAY, generated, record
from tvwrl.forecasting.pretrained import shipped_forecaster
from tvwrl.schedulers import CURRENT_LOAD, KubeDefault, MoveRule, Moving
from tvwrl.types import InputError, Move
from tvwrl.what_if.command import WhatIfSettings, what_if
from tvwrl.what_if.compared import compare, judged_of
from tvwrl.what_if.move_names import DEFAULT_MOVES, family, movers, named
from tvwrl.what_if.moves import compare_moves, front, usual_moves_per_hour
from tvwrl.what_if.referee import churn, whole_lives
from tvwrl.what_if.replay import Replay


class Scripted(MoveRule):
    """Slot -> moves of a pod to a node, by their names."""

    name, knowledge = "scripted", CURRENT_LOAD

    def __init__(self, replay, script):
        self.replay, self.script = replay, script

    def moves(self, cluster):
        recorded = self.replay.recorded
        pods, nodes = recorded.pod[self.replay.pods].tolist(), recorded.node_name[self.replay.nodes].tolist()
        for pod, node in self.script.get(cluster.slot, ()):
            yield Move(pods.index(pod), nodes.index(node))


class AtRandom(MoveRule):
    """Any pod to any node, whether there is room or not."""

    name, knowledge = "at-random", CURRENT_LOAD

    def reset(self, cluster, rng):
        self.rng = rng

    def moves(self, cluster):
        running = cluster.running
        for i in self.rng.permutation(np.flatnonzero(running.movable)):
            machine = int(self.rng.integers(len(cluster.machines)))
            if not cluster.moves_left:
                return
            if machine != running.machine[i]:
                yield Move(int(running.workload[i]), machine)


def moved(replay, script, moves_per_hour=100):
    return replay.play_moves(Moving(KubeDefault(), Scripted(replay, script)), moves_per_hour)


def where(replay, placed):
    """Pod -> its nodes, each with the slots in which it was there."""
    recorded, found = replay.recorded, {}
    for pod, node, begin, end in zip(*placed.segments, strict=True):
        found.setdefault(recorded.pod[replay.pods[pod]], []).append((recorded.node_name[node], int(begin), int(end)))
    return found


def three(**more):
    """Two pods on node a and one on b, for two hours."""
    return [
        {"name": f"x/{i}", "node": "aab"[i - 1], "slots": range(24), "cpu": 0.5, "request": (1, 1)} | more
        for i in (1, 2, 3)
    ]


def test_a_move_empties_a_node():
    """Decided in slot 5, so on the new node from slot 6 on: node b is in use for half an hour of two."""
    replay = Replay(record(three()), 300)
    placed = moved(replay, {5: [("x/3", "a")]})
    assert where(replay, placed) == {
        "x/1": [("a", 0, 24)], "x/2": [("a", 0, 24)], "x/3": [("b", 0, 6), ("a", 6, 24)],
    }  # fmt: skip
    before, after = compare(replay, [placed]).outcomes
    assert before.mean("machine_hours").value == 4.0
    assert after.mean("machine_hours").value == 2.5
    found = churn(judged_of(replay, 1.0), placed.segments)
    assert (found.evictions, found.evicted, found.often, found.returns) == (1, 1, 0, 0)
    assert (found.emptied, found.opened_again) == (1, 0)


def test_a_pod_that_comes_back_is_counted():
    replay = Replay(record(three()), 300)
    there_and_back = {2: [("x/3", "a")], 6: [("x/3", "b")], 9: [("x/3", "a")]}
    placed = moved(replay, there_and_back)
    assert where(replay, placed)["x/3"] == [("b", 0, 3), ("a", 3, 7), ("b", 7, 10), ("a", 10, 24)]
    found = churn(judged_of(replay, 1.0), placed.segments)
    assert (found.evictions, found.evicted, found.often, found.returns) == (3, 1, 1, 2)
    assert (found.emptied, found.opened_again) == (2, 1)


def test_what_would_arrive_at_an_emptied_node_goes_to_one_in_use():
    late = {"name": "x/4", "node": "b", "slots": range(8, 24), "cpu": 0.5, "request": (1, 1)}
    replay = Replay(record([*three(), late]), 300)
    assert where(replay, moved(replay, {5: [("x/3", "a")]}))["x/4"] == [("a", 8, 24)]
    assert where(replay, moved(replay, {}))["x/4"] == [("b", 8, 24)]
    assert where(replay, moved(replay, {7: [("x/3", "a")]}))["x/4"] == [("a", 8, 24)]  # emptied as it comes
    assert where(replay, moved(replay, {8: [("x/3", "a")]}))["x/4"] == [("b", 8, 24)]


def test_an_emptied_node_is_opened_again_where_no_other_has_room():
    late = {"name": "x/4", "node": "b", "slots": range(8, 24), "cpu": 0.5, "request": (3, 1)}
    replay = Replay(record([*three(), late]), 300)
    placed = moved(replay, {5: [("x/3", "a")]})
    assert where(replay, placed)["x/4"] == [("b", 8, 24)]
    assert churn(judged_of(replay, 1.0), placed.segments).opened_again == 1


def test_a_node_that_moves_have_filled_takes_no_other_pod():
    """Node a has 4 cores: with x/3 there, x/4 has to go to b, which is still in use; recorded requests may exceed."""
    pods = [*three(), {"name": "x/b", "node": "b", "slots": range(24), "cpu": 0.5, "request": (1, 1)}]
    late = {"name": "x/4", "node": "a", "slots": range(8, 24), "cpu": 0.5, "request": (2, 1)}
    replay = Replay(record([*pods, late]), 300)
    assert where(replay, moved(replay, {5: [("x/3", "a")]}))["x/4"] == [("b", 8, 24)]
    asks = {"name": "x/5", "node": "a", "slots": range(8, 24), "cpu": 0.5, "request": (3, 1)}
    replay = Replay(record([*pods, asks]), 300)
    assert where(replay, moved(replay, {}))["x/5"] == [("a", 8, 24)]


def test_moves_that_filters_forbid_are_left_out():
    """By requests, by usage, and by the number of pods."""
    replay = Replay(record(three(request=(2, 1))), 300)
    assert len(where(replay, moved(replay, {5: [("x/3", "a")]}))["x/3"]) == 1
    replay = Replay(record(three(cpu=1.5)), 300)
    assert len(where(replay, moved(replay, {5: [("x/3", "a")]}))["x/3"]) == 1
    many = [{"name": f"x/m{i}", "node": "a", "slots": range(24), "cpu": 0.01, "mem": 0.01} for i in range(110)]
    replay = Replay(record([*many, three()[2]]), 300)
    assert len(where(replay, moved(replay, {5: [("x/3", "a")]}))["x/3"]) == 1


def test_pods_of_a_daemon_set_neither_move_nor_keep_a_node_in_use():
    daemon = {"name": "x/d", "node": "b", "slots": range(24), "cpu": 0.1, "owner": "x/daemonset/d"}
    replay = Replay(record([*three(), daemon]), 300)
    placed = moved(replay, {5: [("x/3", "a")]})
    assert "x/d" not in where(replay, placed)
    assert compare(replay, [placed]).outcomes[1].mean("machine_hours").value == 2.5


def test_what_has_ended_before_it_moves_was_not_evicted():
    """Decided in the second slot of half an hour, at whose end the pod is over: it ends in slot 9 of 12."""
    pods = three()
    pods[2]["slots"] = range(9)
    replay = Replay(record(pods), 1800)
    placed = moved(replay, {1: [("x/3", "a")]})
    assert where(replay, placed)["x/3"] == [("b", 0, 9)]
    assert churn(judged_of(replay, 1.0), placed.segments).evictions == 0


@pytest.mark.parametrize(("seconds", "hourly"), [(300, 2), (300, 30), (1800, 4), (7200, 3)])
def test_no_hour_has_more_moves_than_allowed(seconds, hourly):
    replay = Replay(generated(), seconds)
    segments = replay.play_moves(Moving(KubeDefault(), AtRandom()), hourly).segments
    begins = np.sort(segments.begin[np.append(False, segments.pod[1:] == segments.pod[:-1])]) * 300
    window = max(3600, seconds)
    most = max(np.searchsorted(begins, begins + window) - np.arange(len(begins)))
    assert 0 < most <= hourly * window / 3600


def check(replay, placed):
    """Of any rule: lives are whole, and no move lets requests exceed a node."""
    recorded, segments = replay.recorded, placed.segments
    start = recorded.start[replay.pods]
    end = start + recorded.length[replay.pods]
    assert (segments.begin < segments.end).all()
    same = segments.pod[1:] == segments.pod[:-1]
    assert (segments.begin[1:][same] == segments.end[:-1][same]).all()
    assert (segments.node[1:][same] != segments.node[:-1][same]).all()
    first, last = np.append(True, ~same), np.append(~same, True)
    assert segments.pod[first].tolist() == list(range(len(start)))
    assert np.array_equal(segments.begin[first], start)
    assert np.array_equal(segments.end[last], end)
    requested = np.zeros((recorded.slots, *recorded.size.shape))
    for pod, node, begin, stop in zip(*segments, strict=True):
        requested[begin:stop, node] += np.nan_to_num(recorded.request[replay.pods[pod]])
    assert (requested <= recorded.size * (1 + 1e-9)).all()


@pytest.mark.parametrize("seed", range(4))
def test_of_moves_at_random(seed):
    replay = Replay(generated(pods=60, seed=seed), 1800)
    placed = replay.play_moves(Moving(KubeDefault(), AtRandom()), 20, rng=np.random.default_rng(seed))
    check(replay, placed)
    assert churn(judged_of(replay, 1.0), placed.segments).evictions > 20


@pytest.mark.parametrize("rule", [name for name in DEFAULT_MOVES if name != "machine-value"])
def test_of_any_rule(rule):
    replay = Replay(generated(), 1800)
    moving = movers([rule])[-1]
    forecaster = shipped_forecaster() if moving.needs_forecasts else None
    placed = replay.play_moves(moving, 10, forecaster)
    check(replay, placed)
    again = replay.play_moves(moving, 10, forecaster)
    assert all(map(np.array_equal, placed.segments, again.segments))


@pytest.mark.parametrize("seconds", [300, 1800])
def test_without_moves_all_is_as_placed(seconds):
    replay = Replay(generated(), seconds)
    placed, actual = moved(replay, {}), replay.as_placed()
    assert np.array_equal(placed.machine, actual.machine)
    assert np.array_equal(placed.start, actual.start)
    whole = whole_lives(judged_of(replay, 1.0), actual.machine, actual.start)
    assert all(map(np.array_equal, placed.segments, whole))
    one, other = compare(replay, [placed]).outcomes
    for quantity in ("machine_hours", "needed", "cpu_over", "memory_over", "requests_over", "wait_mean"):
        assert np.array_equal(one.of(quantity), other.of(quantity))


def test_another_order_of_pods_is_brought_into_the_own():
    recorded = generated()
    fine, coarse = Replay(recorded, 300), Replay(recorded, 1800)
    placed = coarse.play_moves(Moving(KubeDefault(), AtRandom()), 10)
    brought = fine.in_my_order(placed, coarse)
    assert sorted(map(str, where(fine, brought).items())) == sorted(map(str, where(coarse, placed).items()))


def test_names_of_rules_and_their_settings():
    names = [named(one) for one in movers(["karpenter", "most-allocated + karpenter(after=2)"])]
    assert names[0] == "karpenter"
    assert len(names) > 3
    assert names[-1] == "most-allocated + karpenter(after=2)"
    assert {family(name) for name in names} == {"karpenter", "most-allocated + karpenter"}
    assert {family(named(one)) for one in movers(())} >= set(DEFAULT_MOVES)


def test_points_that_no_other_dominates():
    assert front([(0, 5), (1, 3), (1, 4), (2, 3), (2, 3), (9, 0)]) == [True, True, False, False, False, True]
    assert front([(1, 1), (1, 1)]) == [True, True]
    assert front([(1, 2, 3), (1, 2, 2), (0, 9, 9), (1, 1, 4)]) == [False, True, True, True]


def test_one_in_a_hundred_pods_an_hour_but_at_least_one():
    assert usual_moves_per_hour(generated()) == 1
    many = [{"name": f"x/{i}", "node": "a", "slots": range(24), "cpu": 0.001, "mem": 0.001} for i in range(320)]
    assert usual_moves_per_hour(record(many)) == 3


def test_files_and_page(week, capsys):
    rules = ("karpenter(after=1)", "low-node-utilization(low=0.1)")
    what_if(WhatIfSettings(**week, moves=rules, price_per_machine_hour=0.5, currency="EUR", moves_per_hour=4))
    page, out = capsys.readouterr().out, week["out"]
    found = json.loads((out / "what-if.json").read_text())
    assert list(found["outcomes"]) == ["as-placed", *rules]
    assert found["moves_per_hour"] == 4
    placed, rule = found["outcomes"]["as-placed"], found["outcomes"]["karpenter(after=1)"]
    assert (placed["evictions"], placed["fewest_machine_hours"], placed["all_three"]) == (0, True, True)
    assert rule["evictions"] > 0
    assert rule["machine_hours"]["mean"] < placed["machine_hours"]["mean"]
    assert rule["saved_a_month"]["mean"] == pytest.approx(-rule["machine_hours_change"]["mean"] * 0.5 * 30)
    rows = pl.read_csv(out / "moves.csv")
    assert rows["rule"].to_list() == ["as-placed", *rules]
    assert rows["machine_hours_change"].to_list()[1] == pytest.approx(rule["machine_hours_change"]["mean"])
    assert "| karpenter(after=1) |" in page
    assert "Moved nothing, so all is as placed: `low-node-utilization(low=0.1)`" in " ".join(page.split())
    assert (out / "report.md").read_text().count("moves.png") == 1
    assert (out / "moves.png").stat().st_size > 10_000


def test_a_learnt_value_of_another_scenario_is_left_out_or_refused():
    replay = Replay(generated(), 1800)
    with pytest.raises(InputError, match="the learnt value is for quantise True, but it is False here"):
        compare_moves(replay, ["machine-value"])
    assert "quantise" in compare_moves(replay, (), orders=1).left_out["machine-value"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"moves": ("karpentr",)}, "did you mean karpenter"),
        ({"moves": ("spread + karpenter",)}, "spread places, but here it must be balanced-allocation, kube-default"),
        ({"moves": ("karpenter(afer=1)",)}, "karpenter has no option 'afer'; it has: after"),
        ({"moves": ("karpenter(after=-1)",)}, "after is -1"),
        ({"moves": ("rollout-moves",)}, "needs training workloads"),
        ({"moves": ("karpenter", "karpenter")}, "must be different"),
        ({"moves": (), "moves_per_hour": 0}, "moves_per_hour is 0: must be at least 1"),
        ({"moves_per_hour": 3}, "moves_per_hour is 3, but nothing moves: add --moves"),
        ({"moves": (), "keep_running": True}, "keep_running is True: has no effect with --moves"),
        ({"moves": (), "policies": ("run",)}, "policies is .*: has no effect with --moves"),
        ({"moves": (), "schedulers": ("best-fit",)}, "schedulers is .*: has no effect with --moves"),
        ({"moves": (), "longest_hold": 60.0}, "longest_hold is 60.0: has no effect with --moves"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        what_if(WhatIfSettings(prometheus="http://x", **options))


def test_a_record_of_one_slot_is_refused():
    replay = Replay(record([{"name": "x/1", "node": "a", "slots": range(6)}]), 1800)
    with pytest.raises(InputError, match="has 1800 s: a move takes effect in the next slot, so moves need more than"):
        compare_moves(replay, ["karpenter"])


def test_forecasts_need_slots_of_their_own_length():
    with pytest.raises(InputError, match=r"decision_seconds is 600: .* needs 1800"):
        compare_moves(Replay(generated(), 600), ["greedy-evacuate"])


def test_a_day_on_one_node():
    """Nothing can move, and the page says so."""
    replay = Replay(record([{"name": "x/1", "node": "a", "slots": range(DAY)}], [("a", 4, 16)]), 1800)
    assert compare_moves(replay, ["karpenter(after=0)"], orders=1).idle
