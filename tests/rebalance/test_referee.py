"""The referee finds each fault by hand, and finds none in moves of which every one was checked by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.rebalance import Budget, ClusterState, PodMove, Term, faults
from tvwrl.rebalance.cluster_state import AFFINITY, ANTI_AFFINITY, SPREAD
from tvwrl.types import InputError


def column(values):
    found = np.empty(len(values), np.object_)
    found[:] = values
    return found


def cluster(at, request=None, nodes=3, **more):
    """Pods p0, p1, ... of one core and one GiB on nodes n0, n1, ... of four; everything may go everywhere."""
    number = len(at)
    request = np.ones((number, 2)) if request is None else np.asarray(request, np.float64)
    known = {
        "source": "here",
        "time": 0.0,
        "node": column([f"n{node}" for node in range(nodes)]),
        "size": np.full((nodes, 2), 4.0),
        "most_pods": np.full(nodes, 110),
        "open": np.ones(nodes, np.bool_),
        "kind": column([""] * nodes),
        "price": np.full(nodes, np.nan),
        "pod": column([f"p{pod}" for pod in range(number)]),
        "uid": column([f"u{pod}" for pod in range(number)]),
        "owner": column(["shop/deployment/cart"] * number),
        "at": np.asarray(at, np.int64),
        "request": request,
        "priority": np.zeros(number, np.int64),
        "bound": np.zeros(number, np.bool_),
        "stays": column([""] * number),
        "group": np.zeros(number, np.int64),
        "allowed": np.ones((1, nodes), np.bool_),
    }
    return ClusterState(**(known | more))


def moves(*given):
    """Moves "pod source target", or "pod source target batch"."""
    found = []
    for one in given:
        pod, source, target, *batch = one.split()
        found.append(PodMove(int(*batch) if batch else 0, pod, "", "", source, target, "", 0.0, ""))
    return found


def rows(*numbers):
    return np.array(numbers, np.int64)


def flags(*values):
    return np.array(values, np.bool_)


@pytest.mark.parametrize(
    ("more", "given", "said"),
    [
        ({}, ["p0 n0 n1"], None),
        ({}, [], None),
        ({}, ["p9 n0 n1"], "there is no pod p9"),
        ({}, ["p0 n0 n9"], "p0 goes to n9, which is no node"),
        ({}, ["p0 n1 n2"], "p0 is on n0, not on n1"),
        ({}, ["p0 n0 n0"], "p0 is on n0 already"),
        ({}, ["p0 n0 n1", "p0 n0 n2"], "p0 is moved twice"),
        ({}, ["p0 n0 n1 0", "p0 n1 n2 1"], None),
        ({}, ["p0 n0 n1 0", "p0 n0 n2 1"], "batch 1: p0 is on n1, not on n0"),
        ({}, ["p0 n0 n1 1", "p1 n0 n1 0"], "not in the order of their batches"),
        ({}, ["p0 n0 n1 -1"], "not in the order of their batches"),
        ({"stays": column(["is not ready", ""])}, ["p0 n0 n1"], r"p0 stays \(is not ready\) and is moved"),
        ({"bound": flags(True, False)}, ["p0 n0 n1"], "p0 belongs to its node"),
        ({"open": flags(True, False, True)}, ["p0 n0 n1"], "p0 goes to n1, which is closed"),
        ({"open": flags(False, True, True)}, ["p0 n0 n1"], None),
        ({"allowed": flags(False, False, True)[None]}, ["p0 n0 n1"], "do not let it go"),
        ({"allowed": flags(False, False, True)[None]}, ["p0 n0 n2"], None),
        ({"most_pods": rows(2, 1, 1)}, ["p0 n0 n1"], None),
        ({"most_pods": rows(2, 1, 1)}, ["p0 n0 n1", "p1 n0 n1"], "n1 would run 2 pods, and may run 1"),
        ({"size": np.array([[4, 4], [1.5, 4], [4, 4]])}, ["p0 n0 n1", "p1 n0 n1"], "2 cores of CPU would be requested"),
        ({"size": np.array([[4, 4], [4, 0.5], [4, 4]])}, ["p0 n0 n1"], "1 GiB of memory would be requested"),
        ({"size": np.array([[0, 0], [1, 1], [4, 4]])}, ["p0 n0 n1"], None),  # what it leaves may be overfull
        ({"request": np.zeros((2, 2)), "size": np.zeros((3, 2))}, ["p0 n0 n1"], None),
        (
            {"budgets": (Budget("b", rows(0, 1), 1),)},
            ["p0 n0 n1", "p1 n0 n1"],
            "2 of the pods of the budget b are moved",
        ),
        ({"budgets": (Budget("b", rows(0, 1), 1),)}, ["p0 n0 n1 0", "p1 n0 n1 1"], None),
        (
            {"budgets": (Budget("b", rows(0), 0),)},
            ["p0 n0 n1"],
            "1 of the pods of the budget b are moved, which allows 0",
        ),
        ({"budgets": (Budget("b", rows(0), 0),)}, ["p1 n0 n1"], None),
    ],
)
def test_one_fault_by_hand(more, given, said):
    found = faults(cluster([0, 0], **more), moves(*given))
    assert len(found) == (said is not None), found
    if said:
        with pytest.raises(AssertionError, match=said):
            raise AssertionError(found[0])


def test_a_pod_that_requests_nothing_finds_room_on_a_node_that_is_too_full():
    assert faults(cluster([0, 1], request=[[0, 0], [5, 5]]), moves("p0 n0 n1")) == []
    assert len(faults(cluster([0, 1], request=[[0.1, 0], [5, 5]]), moves("p0 n0 n1"))) == 2


def test_another_pod_of_the_same_name():
    one = moves("p0 n0 n1")[0]
    assert faults(cluster([0]), [one._replace(uid="u0")]) == []
    assert faults(cluster([0]), [one._replace(uid="old")]) == ["batch 0: p0 has the uid u0, not old"]


def test_a_swap_needs_room_while_nothing_has_left():
    """Each node is full, so both pods cannot be on their way; a third node serves as a stop."""
    state = cluster([0, 1], request=np.full((2, 2), 4.0))
    assert len(faults(state, moves("p0 n0 n1", "p1 n1 n0"))) == 4
    assert len(faults(state, moves("p0 n0 n1 0", "p1 n1 n0 1"))) == 2
    assert faults(state, moves("p0 n0 n2 0", "p1 n1 n0 1", "p0 n2 n1 2")) == []


ZONE = rows(0, 0, 1, 1, -1)


def far(*pods):
    return (Term(ANTI_AFFINITY, rows(*pods), rows(*pods), ZONE),)


@pytest.mark.parametrize(
    ("terms", "given", "said"),
    [
        (far(0, 1), ["p0 n0 n1"], None),
        (far(0, 1), ["p0 n0 n2"], "too near to p1"),
        (far(0, 1), ["p0 n0 n2", "p1 n2 n1"], None),  # they change places
        (far(0, 1), ["p0 n0 n4"], "lacks the label"),
        ((Term(ANTI_AFFINITY, rows(0), rows(1), ZONE),), ["p1 n2 n1"], "p1 goes to n1, too near to p0"),  # by symmetry
        ((Term(ANTI_AFFINITY, rows(0), rows(1), ZONE),), ["p1 n2 n4"], None),
        ((Term(ANTI_AFFINITY, rows(0), rows(0), ZONE),), ["p0 n0 n2"], None),  # not from itself
        (far(1, 2), ["p0 n0 n1"], None),  # these are too near already, and do not move
        (far(1, 2), ["p2 n3 n2"], "too near to p1"),  # but no scheduler would place one so again
        ((Term(AFFINITY, rows(1), rows(2), ZONE),), ["p1 n2 n3"], None),
        ((Term(AFFINITY, rows(1), rows(2), ZONE),), ["p1 n2 n0"], "no pod is that it must run with"),
        ((Term(AFFINITY, rows(1), rows(2), ZONE),), ["p2 n3 n0"], "p1 is left without a pod"),
        ((Term(AFFINITY, rows(1), rows(2), ZONE),), ["p1 n2 n0", "p2 n3 n1"], None),
        ((Term(AFFINITY, rows(1), rows(2), ZONE),), ["p1 n2 n0 0", "p2 n3 n1 1"], "batch 0: p1"),
        ((Term(AFFINITY, rows(1), rows(2), ZONE),), ["p1 n2 n4"], "lacks the label"),
        ((Term(AFFINITY, rows(0), rows(0), ZONE),), ["p0 n0 n2"], None),  # the first of its kind
        ((Term(AFFINITY, rows(0), rows(0, 1), ZONE),), ["p0 n0 n1"], "no pod is that it must run with"),
        ((Term(AFFINITY, rows(0), rows(2), ZONE),), ["p1 n2 n3"], None),  # alone before
        ((Term(AFFINITY, rows(0), rows(), ZONE),), ["p0 n0 n1"], "no pod is that it must run with"),
        ((Term(SPREAD, rows(0, 1, 2), rows(0, 1, 2), ZONE, 1),), ["p1 n2 n0"], None),
        ((Term(SPREAD, rows(0, 1, 2), rows(0, 1, 2), ZONE, 1),), ["p0 n0 n3"], "3 more run than elsewhere"),
        ((Term(SPREAD, rows(0, 1, 2), rows(0, 1, 2), ZONE, 3),), ["p0 n0 n3"], None),
        ((Term(SPREAD, rows(0, 1, 2), rows(0, 1, 2), ZONE, 1),), ["p1 n2 n3"], None),
        ((Term(SPREAD, rows(0, 1, 2), rows(0, 1, 2), ZONE, 1),), ["p1 n2 n4"], "lacks the label"),
        ((Term(SPREAD, rows(1), rows(0, 1, 2), ZONE, 1),), ["p0 n0 n3"], "the spread of p1 and its like grows to 3"),
        ((Term(SPREAD, rows(1), rows(2), ZONE, 1),), ["p1 n2 n3"], None),  # does not count itself
        ((Term(SPREAD, rows(0), rows(1, 2), ZONE, 1),), ["p0 n0 n3"], "2 more run than elsewhere"),
        ((Term(SPREAD, rows(0), rows(), rows(-1, -1, -1, -1, -1), 1),), ["p0 n0 n3"], "lacks the label"),
    ],
)
def test_neighbours_by_hand(terms, given, said):
    """Pods on nodes 0, 2 and 3; nodes 0 and 1 are in one zone, 2 and 3 in another, and 4 in none."""
    found = faults(cluster([0, 2, 3], nodes=5, terms=terms), moves(*given))
    assert len(found) >= 1 if said else found == []
    assert not said or said in found[0]


def test_drained_nodes_run_only_what_belongs_to_them():
    state = cluster([0, 0, 1], bound=flags(False, True, False))
    assert faults(state, moves("p0 n0 n1"), ["n0", "n2"]) == []
    assert faults(state, [], ["n0"]) == ["n0 is said to be drained and runs 1 pods, such as p0"]
    assert faults(state, [], ["n7"]) == ["n7 is said to be drained and is no node"]


def test_expected_load():
    state = cluster([0, 1, 1])
    load = np.zeros((3, 2, 2))
    load[:, 0, 0] = 1.5, 1.0, 1.0
    assert faults(state, moves("p0 n0 n1"), load=load) == []
    arriving, said = faults(state, moves("p0 n0 n1"), load=load, limit=0.8)
    assert arriving == "batch 0: n1 would exceed 80% of its size while pods arrive"
    assert said == "n1 is expected to use 3.5 cores of CPU in slot 0, above the limit of 3.2"
    load[1:, 0, 0] = 2.5  # too much before, and less after one has left for one that needs less
    load[0, 0, 0] = 0.5
    assert faults(state, moves("p1 n1 n2 0", "p0 n0 n1 1"), load=load, limit=0.8) == []
    load[0, 0, 0] = 1.5
    assert faults(state, moves("p1 n1 n0"), load=load, limit=0.8) != []
    for bad in (np.zeros((2, 2, 2)), np.zeros((3, 2)), np.full((3, 2, 2), np.nan), -np.ones((3, 2, 2))):
        with pytest.raises(InputError, match="load has"):
            faults(state, [], load=bad)
    with pytest.raises(InputError, match="limit is 0"):
        faults(state, [], limit=0)


@pytest.mark.parametrize(
    ("over", "wrong"),
    [(-1e-6, False), (1e-12, False), (1e-6, True), (0.01, True)],
)
def test_rounding_is_no_fault_and_a_millionth_is(over, wrong):
    """Of a node of four cores, requests and load beside a pod of one core on it."""
    request = np.array([[1.0, 1.0], [3.0 + 4 * over, 1.0]])
    found = faults(cluster([0, 1], request=request), moves("p0 n0 n1"))
    assert bool(found) == wrong
    load = np.array([[[1.0, 1.0]], [[3.0 + 4 * over, 1.0]]])
    found = faults(cluster([0, 1]), moves("p0 n0 n1"), load=load)
    assert len(found) == 2 * wrong  # while it arrives, and afterwards


def test_load_is_that_of_every_node_at_every_time():
    """Two pods arrive on two nodes; only the later node, at the last time and of memory, would have too much."""
    state = cluster([0, 0, 1, 2])
    load = np.ones((4, 3, 2))
    load[3, 2, 1] = 3.5
    found = faults(state, moves("p0 n0 n1", "p1 n0 n2"), load=load)
    assert found == [
        "batch 0: n2 would exceed 100% of its size while pods arrive",
        "n2 is expected to use 4.5 GiB of memory in slot 2, above the limit of 4",
    ]
    load[3, 2, 1], load[2, 2, 1] = 1.0, 3.5  # and so of the earlier one
    assert len(faults(state, moves("p0 n0 n1", "p1 n0 n2"), load=load)) == 2
    # A node that had too much and has less in the end is only at fault while pods arrive.
    load = np.array([1.0, 3.0, 3.0, 3.0])[:, None, None].repeat(2, axis=2)
    assert faults(cluster([0, 1, 1, 1]), moves("p1 n1 n2 0", "p0 n0 n1 1"), load=load) == [
        "batch 1: n1 would exceed 100% of its size while pods arrive"
    ]
    # What arrives counts beside all that is there, and beside what arrives with it.
    load = np.full((4, 1, 2), 1.5)
    assert len(faults(state, moves("p0 n0 n1"), load=load)) == 0
    assert len(faults(state, moves("p0 n0 n1", "p1 n0 n1"), load=load)) == 3
    # And what leaves in the same batch still counts while others arrive.
    assert faults(cluster([0, 1, 1]), moves("p0 n0 n1", "p1 n1 n2"), load=np.full((3, 1, 2), 1.5)) == [
        "batch 0: n1 would exceed 100% of its size while pods arrive"
    ]


@pytest.mark.parametrize(
    ("asked", "there", "wrong"), [("u0", "u0", False), ("u9", "u0", True), ("", "u0", False), ("u9", "", False)]
)
def test_a_pod_is_the_one_that_was_meant(asked, there, wrong):
    """A uid that one of them does not know says nothing."""
    move = moves("p0 n0 n1")[0]._replace(uid=asked)
    found = faults(cluster([0], uid=column([there])), [move])
    assert found == (["batch 0: p0 has the uid u0, not u9"] if wrong else [])
    # In a later batch, too.
    first = moves("p1 n0 n1 0")
    found = faults(cluster([0, 0], uid=column([there, "u1"])), [*first, move._replace(batch=1)])
    assert found == (["batch 1: p0 has the uid u0, not u9"] if wrong else [])


def near(domain, carrier, matched):
    """Whether another matched pod is in the domain of the carrier."""
    return any(domain[pod] == domain[carrier] >= 0 for pod in matched if pod != carrier)


def counts(domain, zones, matched):
    return {zone: sum(domain[pod] == zone for pod in matched) for zone in zones}


def legal(state, at, row, target):
    """Whether kube-scheduler would place a pod there once it has been evicted, its old node still holding it."""
    if state.stays[row] or target == at[row] or not state.open[target]:
        return False
    if not state.allowed[state.group[row], target]:
        return False
    there = [pod for pod in range(len(at)) if at[pod] == target]
    if len(there) + 1 > state.most_pods[target]:
        return False
    for resource in range(2):
        used = sum(state.request[pod, resource] for pod in [*there, row])
        if state.request[row].any() and used > state.size[target, resource] + 1e-9:
            return False
    if any(row in budget.pods and budget.allowed < 1 for budget in state.budgets):
        return False
    after = [int(target) if pod == row else int(where) for pod, where in enumerate(at)]
    for term in state.terms:
        domain = [int(term.domain[where]) for where in after]
        before = [int(term.domain[where]) for where in at]
        carriers, matched = set(term.carriers.tolist()), set(term.matched.tolist())
        if row in carriers and domain[row] < 0:
            return False
        others = {pod for pod in matched if pod != row}
        if term.kind == ANTI_AFFINITY:
            for pod in others if row in carriers else ():
                if domain[pod] == domain[row]:
                    return False
            for pod in carriers - {row} if row in matched else ():
                if domain[row] >= 0 and domain[pod] == domain[row]:
                    return False
        elif term.kind == AFFINITY:
            if row in carriers and not any(domain[pod] == domain[row] for pod in others):
                alone = row in matched and not any(domain[pod] >= 0 for pod in others)
                if not alone:
                    return False
            if any(near(before, one, matched) and not near(domain, one, matched) for one in carriers - {row}):
                return False
        else:
            zones = {int(one) for one in term.domain if one >= 0}
            if not zones:
                continue
            now, then = counts(domain, zones, matched), counts(before, zones, matched)
            if row in carriers and now[domain[row]] - min(now.values()) > term.skew:
                return False
            worst = max(now.values()) - min(now.values())
            if worst > term.skew and worst > max(then.values()) - min(then.values()):
                return False
    return True


@st.composite
def clusters(draw):
    number, nodes = draw(st.integers(1, 7)), draw(st.integers(2, 4))
    some = st.lists(st.integers(0, number - 1), unique=True, min_size=1).map(lambda one: rows(*sorted(one)))

    def each(strategy, size):
        return draw(st.lists(strategy, min_size=size, max_size=size))

    terms = tuple(
        Term(
            draw(st.sampled_from((AFFINITY, ANTI_AFFINITY, SPREAD))),
            draw(some),
            draw(some),
            rows(*each(st.integers(-1, 1), nodes)),
            draw(st.integers(1, 2)),
        )
        for _ in range(draw(st.integers(0, 2)))
    )
    return cluster(
        each(st.integers(0, nodes - 1), number),
        each(st.tuples(st.sampled_from([0, 0.5, 1, 2]), st.sampled_from([0, 1, 2])), number),
        nodes,
        open=flags(*each(st.sampled_from([True, True, True, False]), nodes)),
        most_pods=rows(*each(st.integers(1, 9), nodes)),
        stays=column(each(st.sampled_from(["", "", "", "is not ready"]), number)),
        group=rows(*each(st.integers(0, 1), number)),
        allowed=np.array([each(st.sampled_from([True, True, False]), nodes) for _ in range(2)]),
        terms=terms,
        budgets=(Budget("b", draw(some), draw(st.integers(0, 1))),),
    )


@given(clusters(), st.integers(0, 2**32 - 1))
def test_legal_moves_have_no_fault_and_others_have_one(state, seed):
    rng, at, found = np.random.default_rng(seed), state.at.copy(), []
    for batch in range(4):
        pairs = [(row, node) for row in range(len(at)) for node in range(len(state.node))]
        good = [pair for pair in pairs if legal(state, at, *pair)]
        bad = [pair for pair in pairs if not legal(state, at, *pair)]

        def move(row, target, batch=batch, at=at):
            return PodMove(batch, state.pod[row], "", "", state.node[at[row]], state.node[target], "", 0.0, "")

        for pair in bad:
            assert faults(state, [*found, move(*pair)]) != [], pair
        if not good:
            break
        row, target = good[rng.integers(len(good))]
        found.append(move(row, target))
        at[row] = target
        assert faults(state, found) == []
    empty = [name for node, name in enumerate(state.node) if not (at == node).any()]
    assert faults(state, found, empty) == []
    busy = [state.node[node] for node in at]
    assert faults(state, found, busy) != []
