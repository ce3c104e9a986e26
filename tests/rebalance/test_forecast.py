"""The next day as the days before: what a pod used, and what others of its owner used where it did not run."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.rebalance import expected_worth, foresee, generated_cluster, state_of_record
from tvwrl.rebalance.from_record import LEFT_OUT, as_now, with_record
from tvwrl.rebalance.move_rule import Rebalance
from tvwrl.schedulers import Moving, make_scheduler
from tvwrl.types import InputError
from tvwrl.what_if import Recorded, Replay, Trust

SLOT, DAY = 3600, 24  # seconds, slots of a day
NO_TRUST = Trust(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0.0, 0, 0, 0)


def record(pods, slots, nodes=2):
    """Pods (name, owner, node, start, cores in each slot) on nodes of 4 cores and 4 GiB, which request a core."""
    names, owners, node, start, usage = zip(*pods, strict=True)
    return Recorded(
        "by hand",
        0,
        SLOT,
        slots,
        np.array([4.0, 4.0]),
        np.array(names, object),
        np.array(owners, object),
        np.array(node),
        np.array(start),
        tuple(np.stack([np.array(used), np.full(len(used), 1.0)], axis=1) / 4.0 for used in usage),
        np.full((len(pods), 2), 0.25),
        np.zeros(len(pods), np.bool_),
        np.array([f"n{m}" for m in range(nodes)], object),
        np.ones((nodes, 2)),
        np.full(nodes, "", object),
        np.full(nodes, 2.0),
        ((),) * nodes,
        NO_TRUST,
    )


def course(days, level=1.0):
    """Cores hour by hour: the hour of the day, times a level."""
    return level * np.tile(np.arange(DAY, dtype=float), days) / DAY


def test_each_past_day_is_one_way_of_the_next():
    used = np.concatenate([course(1), course(1, 2.0), course(1, 3.0)])
    recorded = record([("shop/a", "shop/deployment/a", 0, 0, used)], 3 * DAY)
    forecast = foresee(recorded, state_of_record(recorded))
    assert forecast.days == 3
    np.testing.assert_allclose(forecast.use[0, :, :, 0].ravel(), used, rtol=1e-6)
    assert forecast.seen.tolist() == [72]
    assert foresee(recorded, state_of_record(recorded), longest=2).days == 2


def test_a_day_that_is_not_whole_is_left_out_at_the_beginning():
    used = np.concatenate([np.full(5, 9.0), course(2)])
    recorded = record([("shop/a", "shop/deployment/a", 0, 0, used)], 2 * DAY + 5)
    np.testing.assert_allclose(
        foresee(recorded, state_of_record(recorded)).use[0, :, :, 0].ravel(), course(2), rtol=1e-6
    )


def test_a_young_pod_is_taken_to_do_what_others_of_its_owner_did():
    old = course(2)
    recorded = record(
        [
            ("shop/old", "shop/deployment/a", 0, 0, old),
            ("shop/new", "shop/deployment/a", 1, 36, 2 * old[36:]),
            ("shop/last", "shop/deployment/a", 1, 47, old[47:]),
        ],
        2 * DAY,
    )
    state = state_of_record(recorded)
    use = foresee(recorded, state).use[..., 0].reshape(3, -1)
    row = {name: i for i, name in enumerate(state.pod)}
    # While the new pod did not run, the old one was alone: that is what a replica used. It used as much as both
    # together would have in its twelve hours, 4/3 of their mean, which counts 12/13.
    expected = old[:36] * (12 / 13 * 4 / 3 + 1 / 13)
    np.testing.assert_allclose(use[row["shop/new"], :36], expected, rtol=2e-2)
    np.testing.assert_allclose(use[row["shop/new"], 36:], 2 * old[36:], rtol=1e-6)
    assert np.isfinite(use).all()


def test_a_pod_of_which_nothing_is_known_uses_what_it_requests():
    recorded = record([("shop/a", "shop/deployment/a", 0, 0, course(1))], DAY)
    state = state_of_record(recorded)
    state = replace(state, pod=np.array(["shop/unseen"], object), owner=np.array([""], object))
    assert (foresee(recorded, state).use == 1.0).all()


def test_less_than_a_day_is_refused():
    recorded = record([("shop/a", "shop/deployment/a", 0, 0, course(1)[:23])], 23)
    with pytest.raises(InputError, match=r"23\.0 hours of usage.*needs 24"):
        foresee(recorded, state_of_record(recorded))


def test_the_state_of_a_record_is_what_runs_at_its_end():
    recorded = record(
        [
            ("shop/gone", "shop/deployment/a", 0, 0, course(1)[:20]),
            ("shop/here", "shop/deployment/a", 0, 0, course(1)),
            ("shop/moved", "shop/deployment/a", 0, 0, course(1)[:12]),
            ("shop/moved#2", "shop/deployment/a", 1, 12, course(1)[12:]),
            ("shop/alone", "shop/pod/alone", 1, 0, course(1)),
            ("shop/job", "shop/job/job", 1, 20, course(1)[20:]),
        ],
        DAY,
    )
    state = state_of_record(recorded)
    found = {name: (at, why != "") for name, at, why in zip(state.pod, state.at, state.stays, strict=True)}
    assert found == {
        "shop/here": (0, False),
        "shop/moved": (1, False),
        "shop/alone": (1, True),
        "shop/job": (1, True),
    }
    assert state.request.tolist() == [[1.0, 1.0]] * 4
    assert state.unknown


def test_owners_of_a_record_are_called_as_kubernetes_calls_them():
    pods = [
        ("shop/gone", "web", 0, 0, course(1)[:20]),
        ("shop/here", "web", 0, 0, course(1)),
        ("shop/other", "db", 0, 0, course(1)),
    ]
    recorded = record(pods, DAY)
    state = state_of_record(recorded)
    assert state.pod.tolist() == ["shop/here", "shop/other"]
    known = replace(state, owner=np.array(["shop/deployment/web", "shop/statefulset/db"], object))
    assert as_now(recorded, known).owner.tolist() == ["shop/deployment/web"] * 2 + ["shop/statefulset/db"]
    strangers = replace(known, pod=np.array(["here", "other"], object))
    with pytest.raises(InputError, match=r"no pod of by hand is in it.*shop/gone.*here"):
        as_now(recorded, strangers)


def test_a_node_that_was_resized_counts_at_its_size_now():
    """The record has the largest: four cores and four GiB."""
    recorded = record([("shop/a", "web", 0, 0, course(1)), ("shop/b", "web", 1, 0, course(1))], DAY)
    now = replace(state_of_record(recorded), size=np.array([[2.0, 1.0], [0.0, 0.0]]))
    assert (as_now(recorded, now).size * recorded.reference).tolist() == [[2, 1], [4, 4]]  # of b nothing is known
    assert with_record(now, recorded).size.tolist() == now.size.tolist()


def test_what_was_left_out_of_a_record_is_missed_in_its_state():
    recorded = record([("shop/a", "web", 0, 0, course(1))], DAY)
    assert LEFT_OUT not in state_of_record(recorded).unknown
    for name in ("unknown_node", "unsized_node", "half_recorded"):
        assert LEFT_OUT in state_of_record(replace(recorded, trust=replace(NO_TRUST, **{name: 1}))).unknown


def test_a_state_does_not_depend_on_the_order_of_a_record():
    pods = [("shop/a", "web", 0, 0, course(1)), ("shop/b", "web", 1, 0, course(1, 2.0))]
    one, other = (state_of_record(record(rows, DAY)) for rows in (pods, pods[::-1]))
    assert one.pod.tolist() == other.pod.tolist() == ["shop/a", "shop/b"]
    assert one.at.tolist() == other.at.tolist() == [0, 1]


def test_what_comes_is_counted_by_owners_however_they_are_called():
    recorded = record([("shop/a", "web", 0, 0, course(1)), ("shop/b", "web", 1, 0, course(1))], DAY)
    state = state_of_record(recorded)
    state = replace(state, owner=np.array(["shop/deployment/web"] * 2, object))
    recorded = as_now(recorded, state)
    assert expected_worth(state, np.zeros(2, int), foresee(recorded, state), recorded)["machine_hours"].value == 24


def test_worth_by_hand():
    """Moving the only pod of node 1 to node 0 saves a node for a day, and overloads node 0 for the last hours."""
    high = np.where(np.arange(DAY) >= 20, 3.0, 0.5)
    pods = [("shop/a", "shop/deployment/a", 0, 0, high), ("shop/b", "shop/deployment/b", 1, 0, high)]
    recorded = record(pods, DAY)
    state = state_of_record(recorded)
    forecast = foresee(recorded, state)
    worth = expected_worth(state, np.array([0, 0]), forecast, recorded)
    assert worth["nodes"].value == 1
    assert worth["machine_hours"].value == 24
    assert worth["money"].value == 48
    assert worth["overload_hours"].value == 4
    assert expected_worth(state, state.at, forecast, recorded)["machine_hours"].value == 0


def test_what_comes_over_the_day_needs_nodes_again():
    """Five batch pods of a core run for six hours of each day: with one node for them less, another has to open."""
    pods = [("shop/a", "shop/deployment/a", 0, 0, course(2)), ("shop/b", "shop/deployment/b", 1, 0, course(2))]
    pods += [(f"shop/{d}-{i}", "shop/cronjob/c", 0, d * DAY + 6, course(1)[:6]) for d in range(2) for i in range(5)]
    recorded = record(pods, 2 * DAY)
    state = state_of_record(recorded)
    worth = expected_worth(state, np.zeros(2, int), foresee(recorded, state), recorded)
    # Five cores: 0.9 x 6 of the two nodes together hold them, 0.9 x 2 of the one that is left do not.
    assert worth["machine_hours"].value == 24 - 6
    assert expected_worth(state, np.zeros(2, int), foresee(recorded, state))["machine_hours"].value == 24


@pytest.mark.parametrize("seed", range(3))
def test_a_forecast_holds_on_a_day_that_was_not_seen(seed):
    """The mean over the cluster of what pods use on the eighth day is within a tenth of the forecast."""
    generated = generated_cluster(30, seed)
    state, forecast = generated.state, foresee(generated.past, generated.state)
    row = {name: i for i, name in enumerate(generated.whole.pod)}
    really = forecasted = 0.0
    for i, name in enumerate(state.pod):
        used = generated.whole.usage[row[name]][7 * 288 - generated.whole.start[row[name]] :]
        really += used[:, 0].sum() * generated.whole.reference[0]
        forecasted += forecast.use[i, :, : len(used), 0].mean(axis=0).sum()
    assert forecasted == pytest.approx(really, rel=0.1)


def test_on_the_first_day_requests_may_fill_a_node():
    recorded = record([(f"shop/{i}", "shop/deployment/a", i % 2, 0, np.full(6, 0.5)) for i in range(4)], 6)
    rule = Rebalance(price=0.0, limit=0.5, share=1.0)
    placed = Replay(recorded, SLOT).play_moves(Moving(make_scheduler("most-allocated"), rule), 10)
    last = placed.segments.end == 6
    assert len(np.unique(placed.segments.node[last])) == 1
