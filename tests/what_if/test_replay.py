"""A record replayed: by hand, within kube-scheduler's filters, and as properties of any rule."""

from __future__ import annotations

import numpy as np
import pytest

from tests.what_if.conftest import DAY, generated, record
from tvwrl.forecasting.pretrained import shipped_forecaster
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.head_of_queue import HeadOfQueue
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.types import InputError
from tvwrl.what_if.compared import compare
from tvwrl.what_if.replay import Replay

RULES = ("kube-default", "most-allocated", "best-fit", "random", "tetris", "forecast-fit", "expected-cost-backfill")


def play(replay, name):
    scheduler = make_scheduler(name)
    return replay.play(scheduler, shipped_forecaster() if scheduler.needs_forecasts else None)


def places(replay, placed):
    """Pod -> node and start."""
    recorded = replay.recorded
    return {
        recorded.pod[i]: (recorded.node_name[m] if m >= 0 else None, int(s))
        for i, m, s in zip(replay.pods, placed.machine, placed.start, strict=True)
    }


def test_pods_are_packed_and_one_that_does_not_fit_waits():
    """Two of 1.5 cores share a node of 4; a third of 3.5 has to have the other; a fourth waits until it has ended."""
    replay = Replay(
        record(
            [
                {"name": "x/1", "node": "a", "slots": range(24), "cpu": 1.5},
                {"name": "x/2", "node": "b", "slots": range(24), "cpu": 1.5},
                {"name": "x/3", "node": "b", "slots": range(6, 15), "cpu": 3.5},
                {"name": "x/4", "node": "b", "slots": range(7, 24), "cpu": 2.0},
            ]
        ),
        longest_hold=np.inf,
    )
    assert places(replay, play(replay, "best-fit")) == {
        "x/1": ("a", 0),
        "x/2": ("a", 0),
        "x/3": ("b", 6),
        "x/4": ("b", 18),  # slots of 30 minutes: it ends at 15, and the next decision is at 18
    }


def test_requests_are_kept_whatever_the_usage_unless_they_are_ignored():
    pods = [
        {"name": f"x/{i}", "node": "ab"[i % 2], "slots": range(12), "cpu": 0.1, "mem": 0.1, "request": (3, None)}
        for i in range(2)
    ]
    kept, ignored = Replay(record(pods)), Replay(record(pods), within_requests=False)
    assert len({node for node, _ in places(kept, play(kept, "best-fit")).values()}) == 2
    assert len({node for node, _ in places(ignored, play(ignored, "best-fit")).values()}) == 1
    days = compare(ignored, [play(ignored, "best-fit")]).outcomes[1].days[0]
    assert days[0].requests_over == 1.0


def test_a_pod_that_fits_nowhere_holds_up_no_other_and_is_never_placed():
    huge = {"name": "x/huge", "node": "a", "slots": range(12), "request": (5, 1)}
    small = {"name": "x/small", "node": "b", "slots": range(12), "request": (1, 1)}
    replay = Replay(record([huge, small]))
    for rule in ("kube-default", "best-fit"):
        found = places(replay, play(replay, rule))
        assert (found["x/huge"], found["x/small"][1]) == ((None, -1), 0)


def test_kubernetes_does_not_look_at_usage():
    """Both run at 3 of 4 cores and request 1: by requests both fit on the node that is left."""
    pods = [{"name": f"x/{i}", "node": "a", "slots": range(12), "cpu": 3, "request": (1, 1)} for i in range(2)]
    replay = Replay(record(pods, [("a", 4, 16)]))
    assert [node for node, _ in places(replay, play(replay, "kube-default")).values()] == ["a", "a"]
    assert compare(replay, [play(replay, "kube-default")]).outcomes[1].days[0][0].cpu_over == 1.0


def test_daemons_stay_and_take_room():
    daemon = {"name": "x/d", "node": "a", "slots": range(12), "cpu": 3, "owner": "x/daemonset/d", "request": (3.5, 1)}
    pod = {"name": "x/1", "node": "b", "slots": range(12), "cpu": 0.5, "request": (1, 1)}
    replay = Replay(record([daemon, pod]))
    assert places(replay, play(replay, "most-allocated")) == {"x/1": ("b", 0)}


def test_what_runs_at_first_may_stay():
    replay = Replay(generated(), keep_running=True)
    placed, actual = play(replay, "best-fit"), replay.as_placed()
    first = actual.start == 0
    assert (placed.machine[first] == actual.machine[first]).all()
    assert (placed.machine[~first] != actual.machine[~first]).any()


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_of_any_rule(rule, within):
    replay = Replay(generated(), within_requests=within)
    placed, again = play(replay, rule), play(replay, rule)
    assert np.array_equal(placed.machine, again.machine)
    assert np.array_equal(placed.start, again.start)
    done = placed.start >= 0
    assert (placed.start[done] >= replay.recorded.start[replay.pods][done]).all()
    late = placed.start[done] > replay.recorded.start[replay.pods][done]
    assert (placed.start[done][late] % replay.ratio == 0).all()
    outcome = compare(replay, [placed]).outcomes[1]
    assert len(outcome.days[0]) == 3
    if within or rule in ("kube-default", "most-allocated"):
        assert outcome.of("requests_over").sum() == 0


def test_as_placed_is_what_happened():
    recorded = generated()
    replay = Replay(recorded)
    (actual,) = compare(replay, []).outcomes
    busy = np.zeros((3 * DAY, 8), bool)
    for node, start, used in zip(recorded.node, recorded.start, recorded.usage, strict=True):
        busy[start : start + len(used), node] = True
    expected = busy.sum(axis=1).reshape(3, DAY)
    assert actual.of("in_use")[0].tolist() == pytest.approx(expected.mean(axis=1).tolist())
    assert actual.of("needed")[0].tolist() == expected.max(axis=1).tolist()
    assert (actual.of("wait_mean") == 0).all()
    assert actual.moved == 0


def test_slots_that_do_not_fit():
    with pytest.raises(InputError, match="decision_seconds is 1000: must be a multiple of the record's interval"):
        Replay(generated(), 1000)
    with pytest.raises(InputError, match=r"decision_seconds is 600: forecast-fit needs 1800"):
        play(Replay(generated(), 600), "forecast-fit")


def test_short_pods_one_after_another_need_no_more_room_than_one():
    """288 jobs of one slot each on one node: decided in their own slots, all start at once, where there is room."""
    jobs = [{"name": f"x/job-{i}", "node": "a", "slots": [i], "cpu": 3, "request": (3, 1)} for i in range(288)]
    recorded = record(jobs, [("a", 4, 16)])
    placed = Replay(recorded, 300).play(make_scheduler("kube-default"))
    assert (placed.start - recorded.start[Replay(recorded, 300).pods] == 0).all()
    coarse = Replay(recorded, 1800)
    later = coarse.play(make_scheduler("kube-default"))
    outcome = compare(coarse, [later]).outcomes[1]
    assert outcome.unplaced == (later.start >= recorded.slots).sum() > 0  # what comes after the record is not done


def test_placements_of_other_slots_are_brought_into_the_same_order():
    recorded = generated()
    fine, coarse = Replay(recorded, 300), Replay(recorded, 1800)
    placed = coarse.as_placed()
    brought = fine.in_my_order(placed, coarse)
    np.testing.assert_array_equal(brought.machine, fine.as_placed().machine)
    np.testing.assert_array_equal(brought.start, fine.as_placed().start)


class Holds(HeadOfQueue):
    """Lets everything wait."""

    name, knowledge = "holds", CURRENT_LOAD

    def choose(self, cluster, workload):
        return None


def test_pods_that_are_held_for_too_long_go_where_kubernetes_puts_them():
    """Three pods of a day: held for 900 s, so for three slots; then on the node with the most room for requests."""
    pods = [{"name": f"x/{i}", "node": "a", "slots": range(288), "request": (1, 1)} for i in range(3)]
    replay = Replay(record(pods), 300)
    placed = replay.play(Holds())
    assert (placed.start.tolist(), placed.let_go) == ([3, 3, 3], 3)
    assert sorted(placed.machine.tolist()) in ([0, 0, 1], [0, 1, 1])
    assert Replay(record(pods), 300, longest_hold=0.0).play(Holds()).start.tolist() == [1, 1, 1]


def test_no_time_lets_requests_exceed_a_node():
    pods = [{"name": f"x/{i}", "node": "ab"[i % 2], "slots": range(288), "request": (3, 1)} for i in range(3)]
    placed = Replay(record(pods), 300).play(make_scheduler("best-fit"))
    assert ((placed.start < 0) | (placed.start >= 288)).sum() == 1
    assert placed.let_go == 0


def test_forecasts_are_told_what_the_pods_of_an_owner_used_before():
    """Pods of one owner, of which the second begins two hours later; a forecaster that does not ask is told nothing."""
    replay = Replay(
        record(
            [
                {"name": "shop/1", "node": "a", "slots": range(24), "cpu": 2.0, "owner": "shop"},
                {"name": "shop/2", "node": "b", "slots": range(24, 36), "cpu": 1.0, "owner": "shop"},
                {"name": "x/3", "node": "b", "slots": range(24, 36), "cpu": 1.0, "owner": "other"},
            ]
        )
    )
    windows = replay._windows(np.ones(2), "mean")
    forecaster = shipped_forecaster()
    assert replay._told(windows, forecaster) is windows
    forecaster.informed_ = shipped_forecaster()
    past = replay._told(windows, forecaster).past
    names = replay.recorded.pod[replay.pods].tolist()
    known = dict(zip(names, np.isfinite(past[:, 0, :, 0]).sum(axis=1).tolist(), strict=True))
    assert known == {"shop/1": 0, "shop/2": 4, "x/3": 0}
    second = past[names.index("shop/2")]
    assert np.nanmax(second[0, :, 0]) == pytest.approx(windows.demand[names.index("shop/1"), 0, 0])
