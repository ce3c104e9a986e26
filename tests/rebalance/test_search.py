"""Moves that empty or relieve nodes: by hand, then on generated clusters, judged by the referee."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rebalance.fake_cluster import scattered
from tvwrl.planning import Affinity
from tvwrl.rebalance import (
    BatchLimits,
    Beside,
    Budget,
    ClusterState,
    Forecast,
    Goal,
    Term,
    batches_of,
    faults,
    find_moves,
    foresee,
    generated_cluster,
    make_plan,
    most_emptied,
    movable_now,
    state_of,
)
from tvwrl.types import InputError

NODES = 3


def cluster(at, request, **more):
    """Nodes of 4 cores and 16 GiB; pod i requests `request[i]` cores and as many GiB."""
    count, nodes = len(at), more.pop("nodes", NODES)
    at, request = np.array(at, np.int64), np.array(request, np.float64)
    state = ClusterState(
        "by hand",
        1e9,
        np.array([f"n{m}" for m in range(nodes)], object),
        np.tile([4.0, 16.0], (nodes, 1)),
        np.full(nodes, 110),
        np.ones(nodes, np.bool_),
        np.full(nodes, "", object),
        np.ones(nodes),
        np.array([f"shop/p{i}" for i in range(count)], object),
        np.array([f"u{i}" for i in range(count)], object),
        np.array([f"shop/deployment/d{i}" for i in range(count)], object),
        at,
        np.stack([request, request], axis=1),
        np.zeros(count, np.int64),
        np.zeros(count, np.bool_),
        np.full(count, "", object),
        np.zeros(count, np.int64),
        np.ones((1, nodes), np.bool_),
    )
    return replace(state, **more)


def load(state, share=0.5, times=2):
    """Every pod uses that share of its request at all times."""
    return np.repeat(state.request[:, None, :], times, axis=1) * share


def moved(state, use=None, beside=None, **goal):
    found = find_moves(state, load(state) if use is None else use, Goal(**{"most_moves": 10, **goal}), beside)
    return list(zip(found.pod.tolist(), found.target.tolist(), strict=True)), found.emptied.tolist()


def test_the_node_with_the_fewest_pods_is_emptied_onto_the_fullest():
    state = cluster([0, 0, 1, 1, 2], [1.0, 0.5, 1.0, 1.0, 1.0])
    assert moved(state, most_moves=1) == ([(4, 1)], [2])


def test_no_pod_goes_to_an_empty_node():
    assert moved(cluster([0, 1], [3.0, 3.0])) == ([], [])


def test_moves_are_as_many_as_allowed_and_a_node_is_emptied_whole_or_not_at_all():
    state = cluster([0, 0, 0, 1, 1, 2, 2], [0.1] * 7)
    assert moved(state, most_moves=1) == ([], [])
    assert len(moved(state, most_moves=3)[0]) == 2
    moves, emptied = moved(state, most_moves=4)
    assert len(moves) == 4
    assert len(emptied) == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stays", np.array(["", "", "local storage"], object)),
        ("open", np.array([False, False, True])),
        ("allowed", np.array([[False, False, True]])),
        ("most_pods", np.array([1, 1, 1])),
        ("budgets", (Budget("shop/b", np.array([2]), 0),)),
    ],
)
def test_what_keeps_a_pod_keeps_its_node(field, value):
    free = cluster([0, 1, 2], [1.0, 1.0, 1.0])
    assert moved(free, most_moves=1)[1]
    kept = replace(free, **{field: value})
    assert not [move for move in moved(kept, most_moves=1)[0] if move[0] == 2]


def test_pods_that_belong_to_a_node_do_not_keep_it_in_use_and_hold_room():
    state = cluster([0, 1, 1, 2], [3.0, 0.5, 1.0, 1.0], bound=np.array([False, False, True, False]))
    state = replace(state, stays=np.array(["kept", "", "", "kept"], object))
    assert moved(state) == ([(1, 0)], [1])  # the fullest has room
    tight = cluster([0, 0, 1, 2], [3.0, 1.0, 0.5, 3.5], bound=np.array([False, True, False, False]))
    tight = replace(tight, stays=np.array(["kept", "", "", "kept"], object))
    assert moved(tight) == ([(2, 2)], [1])  # a bound pod takes the room of node 0


def test_load_at_one_time_is_enough_to_refuse():
    state = cluster([0, 1], [0.5, 0.5], nodes=2)
    use = np.full((2, 3, 2), 0.1)
    use[:, 1, 0] = 1.9
    assert moved(state, use, limit=0.951)[1]  # 3.8 of 4 cores
    assert moved(state, use, limit=0.949) == ([], [])


def test_a_smaller_pod_makes_room_for_a_larger_one():
    # Pod 4 fits nowhere until pod 1 has left node 0 for node 1.
    state = cluster([0, 0, 1, 1, 2], [2.0, 1.0, 2.75, 0.0, 1.5])
    state = replace(state, stays=np.array(["kept", "", "kept", "kept", ""], object))
    assert moved(state) == ([(1, 1), (4, 0)], [2])
    batch = batches_of(state, find_moves(state, load(state), Goal(most_moves=10)))
    assert batch.tolist() == [0, 1]


def test_each_move_has_to_be_worth_its_price():
    state = cluster([0, 0, 1, 1], [1.0, 1.0, 0.5, 0.5], nodes=2)
    assert moved(state, price_per_move=11.9)[1] == [1]
    assert moved(state, price_per_move=12.0)[1] == []


def test_by_cost_the_dearer_node_is_emptied():
    state = cluster([0, 1], [1.0, 1.0], nodes=2, price=np.array([3.0, 1.0]))
    assert moved(state, name="cost", most_moves=1)[1] == [0]
    with pytest.raises(InputError, match="price of 1 nodes is unknown, such as n1"):
        moved(replace(state, price=np.array([3.0, np.nan])), name="cost")


def test_a_full_node_is_relieved_by_the_move_that_helps_most():
    state = cluster([0, 0, 0, 1], [1.0, 1.0, 1.0, 1.0])
    use = np.full((4, 2, 2), 0.1)
    use[:3, :, 0] = [[2.0], [1.5], [0.2]]
    found, emptied = moved(state, use, name="overload")
    assert found == [(0, 1)]
    assert emptied == []


def test_pods_change_places_by_way_of_a_third_node():
    """Node 0 is too full by 0.5; node 1 has no room for its large pod until its small one has left; node 3 is empty."""
    state = cluster([0, 0, 1, 1, 2], [0.1] * 5, stays=np.array(["kept", "", "kept", "", "kept"], object), nodes=4)
    use = np.full((5, 2, 2), 0.1)
    use[:, :, 0] = [[2.5], [2.0], [1.5], [1.0], [3.5]]
    found = find_moves(state, use, Goal("overload", 10, limit=1.0))
    assert list(zip(found.pod, found.source, found.target, strict=True)) == [(3, 1, 3), (1, 0, 1), (3, 3, 0)]
    assert batches_of(state, found).tolist() == [0, 1, 2]
    forecast = Forecast(use[:, None].astype(np.float32), 43200, np.full(5, 2))
    plan = make_plan(state, forecast, Goal("overload", 10, limit=1.0))
    assert faults(state, plan.moves, (), use, 1.0) == []
    assert plan.expected["overload_hours"].value == -24


@pytest.mark.parametrize("kind", ["anti-affinity", "affinity", "spread"])
def test_neighbours_decide_where_a_pod_may_go(kind):
    host = np.arange(NODES)
    one, two = np.array([0]), np.array([2])
    free = cluster([0, 1, 2], [2.0, 0.5, 1.0], stays=np.array(["kept", "kept", ""], object))
    assert moved(free)[0] == [(2, 0)]
    term = {
        "anti-affinity": Term("anti-affinity", two, one, host),
        "affinity": Term("affinity", two, np.array([1]), host),
        "spread": Term("spread", np.array([0, 2]), np.array([0, 2]), np.array([0, 1, 1]), 1),
    }[kind]
    assert moved(replace(free, terms=(term,)))[0] == [(2, 1)]


def test_limits_beside_other_applications_hold():
    state = cluster([0, 1, 2], [2.0, 0.5, 1.0], stays=np.array(["kept", "kept", ""], object))
    application = np.array([0, 1, 2])
    none_beside = Affinity.of(3, np.array([0]), np.array([2]), np.array([0]))
    assert moved(state, beside=Beside(application, none_beside))[0] == [(2, 1)]
    alike = Affinity.of(2, np.array([1]), np.array([1]), np.array([1]))
    assert moved(state, beside=Beside(np.array([1, 0, 1]), alike))[0] == [(2, 1)]


def test_budgets_owners_and_needs_divide_moves_into_batches():
    state = cluster([0, 0, 0, 1], [0.1] * 4, nodes=2)
    found = find_moves(state, load(state), Goal(most_moves=1))
    assert batches_of(state, found).tolist() == [0]
    state = replace(state, at=np.array([0, 0, 1, 1]), budgets=(Budget("shop/b", np.array([0, 1, 2, 3]), 1),))
    found = find_moves(state, load(state), Goal(most_moves=2))
    assert batches_of(state, found).tolist() == [0, 1]
    same_owner = replace(state, budgets=(), owner=np.full(4, "shop/deployment/d", object))
    assert batches_of(same_owner, found).tolist() == [0, 1]
    assert batches_of(same_owner, found, BatchLimits(per_owner=2)).tolist() == [0, 0]
    assert batches_of(same_owner, found, BatchLimits(pods=1, per_owner=2)).tolist() == [0, 1]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("goal", [Goal(most_moves=30), Goal("cost", 30, 0.5), Goal("overload", 10, limit=0.4)])
def test_the_referee_finds_no_fault_in_plans_of_generated_clusters(goal, seed):
    generated = generated_cluster(12, seed)
    state, forecast = generated.state, foresee(generated.past, generated.state)
    plan = make_plan(state, forecast, goal, generated.past)
    use = forecast.in_steps(goal.step_seconds).reshape(len(state), -1, 2).astype(np.float64)
    assert faults(state, plan.moves, plan.drained, use, goal.limit) == []
    assert len(plan.moves) <= goal.most_moves
    assert len(plan.drained) <= most_emptied(state, goal.most_moves)
    may = set(state.pod[movable_now(state)])
    assert {move.pod for move in plan.moves} <= may
    assert plan == make_plan(state, forecast, goal, generated.past)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "nothing"}, "goal"),
        ({"most_moves": -1}, "most_moves"),
        ({"price_per_move": float("nan")}, "price_per_move"),
        ({"limit": 0.0}, "limit"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_goals_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Goal(**options)


def test_a_cluster_in_which_nothing_can_move():
    generated = generated_cluster(12)
    forecast = foresee(generated.past, generated.state)
    kept = replace(generated.state, stays=np.full(len(generated.state), "kept", object))
    for goal in (Goal(), Goal("cost"), Goal("overload", limit=0.1)):
        plan = make_plan(kept, forecast, goal, generated.past)
        assert plan.moves == plan.drained == ()
        assert plan.expected["machine_hours"].value == plan.expected["overload_hours"].value == 0
        assert plan.stays["kept"] == (~kept.bound).sum()


def test_a_node_that_shrank_takes_nothing_that_it_has_no_room_for():
    state = cluster([0, 1, 2], [2.0, 0.5, 1.0], stays=np.array(["kept", "kept", ""], object))
    assert moved(state)[0] == [(2, 0)]
    smaller = replace(state, size=np.array([[2.5, 16.0], [4.0, 16.0], [4.0, 16.0]]))
    assert moved(smaller)[0] == [(2, 1)]
    less_than_it_runs = replace(state, size=np.array([[1.0, 16.0], [0.0, 0.0], [4.0, 16.0]]))
    assert moved(less_than_it_runs) == ([], [])


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_moves_do_not_depend_on_the_order_in_which_objects_are_listed(seed):
    draw = random.Random(seed)
    objects = scattered(12, 4, 10, seed=3, cores=4).api().objects()
    listed = {kind: draw.sample(list(some), len(some)) for kind, some in objects.by_kind.items()}
    one, other = state_of(objects), state_of(replace(objects, by_kind=listed))
    for name in ("pod", "node", "at", "group", "request", "stays", "allowed"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    found = [find_moves(state, state.request[:, None, :], Goal("machines", 20)) for state in (one, other)]
    assert len(found[0].pod) > 0
    assert found[0].pod.tolist() == found[1].pod.tolist()
    assert found[0].target.tolist() == found[1].target.tolist()
