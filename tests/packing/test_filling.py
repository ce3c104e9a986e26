"""Filling one machine after another by hand: scores, limits of what is on the machine, when it is full."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.packing.affinity import UNLIMITED
from tvwrl.packing.filling import Queue, carry, limit_neighbours, list_runs, pull
from tvwrl.planning.base import Watch
from tvwrl.planning.instance import Fleet
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import SCORES, Filling


def test_pull_by_hand(make):
    problem = PackingProblem(make([1], [[2, 1]]), Fleet.of([4, 8]))
    residual, total, f = np.array([[2.0, 8.0]]), np.array([10.0, 16.0]), np.empty(2)
    expected = {"DotProduct": [2 / 16, 8 / 64], "Fitness": [2 / 2 / 10, 8 / 1 / 16], "TightFill": [1 / 2, 1 / 8]}
    for name, values in expected.items():
        pull(SCORES[name].score(problem), residual, 0, total, f)
        assert f == pytest.approx(values), name


def test_the_best_score_goes_first_and_as_often_as_it_fits(make, held, check):
    # Dot product on an empty machine of 8, 8: a 4 + 4, b 3 + 3, c 1 + 1 (times 8). Two of a fill it; then two of b and
    # c, twice.
    problem = PackingProblem(make([2, 2, 3], [[4, 4], [3, 3], [1, 1]]), Fleet.of([8, 8]))
    packing = Filling(SCORES["DotProduct"]).pack(problem, Watch())
    assert held(packing) == [{0: 2}, {1: 2, 2: 2}, {2: 1}]
    check(problem, packing)


def test_what_is_there_limits_what_comes_and_must_allow_it(make):
    # Two of a are there: b may come once by a -> b; c allows one of a, so it may not come.
    problem = PackingProblem(make([2, 2, 1], [[1, 1]] * 3, [(0, 1, 1), (2, 0, 1)]), Fleet.of([8, 8]))
    cap, touched = np.full(3, UNLIMITED, np.int32), np.empty(3, np.int32)
    count = limit_neighbours(problem.applications, 0, 2, cap, touched, np.int64(0))
    assert cap.tolist() == [UNLIMITED, 1, 0]
    assert sorted(touched[:count].tolist()) == [1, 2]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.data())
def test_carrying_many_is_as_many_passes_of_neighbour_swaps(sizes, data):
    count, of = len(sizes), np.array(sizes)
    at, classes = data.draw(st.integers(0, count - 1)), np.array(data.draw(st.permutations([0, 1, 1, 2, 3])))
    passes = data.draw(st.integers(1, count - at))
    expected = list(range(count))
    for _ in range(passes):
        for p in range(count - 1, at, -1):
            if classes[of[expected[p]]] < classes[of[expected[p - 1]]]:
                expected[p - 1 : p + 1] = expected[p], expected[p - 1]
    order, numbers = np.arange(count, dtype=np.int32), np.empty((4, count), np.int64)
    q = Queue(order, np.array([at]), *numbers[:2], np.array([count]), np.empty(count, np.int32), *numbers[2:])
    list_runs(q, of, count)
    carry(q, at, passes, classes)
    assert q.order.tolist() == expected
    runs = np.repeat(q.size[q.first[0] :], q.length[q.first[0] :])
    assert runs.tolist() == of[expected[at:]].tolist()


def published(problem, score):
    """{application: replicas} by machine: the published procedure, one neighbour swap after another."""
    a, left, first, listed = problem.applications, problem.replicas.tolist(), 0, list(range(len(problem.replicas)))
    plan, total, capacity = [], np.zeros(2), problem.capacity.astype(np.float32)
    share, demanded = (x.astype(np.float32) / capacity for x in (problem.demand, problem.total))
    limit = {(i, int(a.to[e])): a.limit[e] for i in listed for e in range(a.start[i], a.start[i + 1])}

    def value(i, residual):
        room = residual.astype(np.float32)
        if score == "L2Norm":
            return -((room / capacity - share[i]) ** 2).sum()
        if score == "TightFill":
            return (share[i] * capacity / room).sum()
        return (share[i] * room / (capacity if score == "DotProduct" else demanded * total.astype(np.float32))).sum()

    def fits(i, here, residual):
        allowed = all(here.get(i, 0) < limit.get((k, i), np.inf) for k in here)
        return (
            allowed
            and all(n <= limit.get((i, k), np.inf) for k, n in here.items())
            and all(problem.demand[i] <= residual)
        )

    while first < len(listed):
        residual, here, at = problem.capacity.copy(), {}, first
        total += residual
        while at < len(listed) and residual.all():
            values = [value(i, residual) for i in range(len(listed))]
            for p in range(len(listed) - 1, at, -1):
                if values[listed[p]] > values[listed[p - 1]]:
                    listed[p - 1 : p + 1] = listed[p], listed[p - 1]
            i = listed[at]
            while left[i] and fits(i, here, residual):
                here[i] = here.get(i, 0) + 1
                left[i] -= 1
                residual -= problem.demand[i]
                total -= problem.demand[i]
            if not left[i]:
                listed[first], listed[at] = listed[at], listed[first]
                first += 1
            at += 1
        plan.append(here)
    return plan


@pytest.mark.parametrize("score", SCORES)
def test_applications_of_equal_score_are_tried_in_the_published_order(make, held, score):
    rng = np.random.default_rng(1)
    for _ in range(30):
        count = int(rng.integers(2, 40))
        demand, replicas = rng.integers(1, 7, (count, 2)), rng.integers(1, 6, count)
        pairs = {(int(i), int(j)): int(rng.integers(0, 3)) for i, j in rng.integers(0, count, (count, 2)) if i != j}
        arcs = [(i, j, most) for (i, j), most in pairs.items()]
        problem = PackingProblem(make(replicas.tolist(), demand.tolist(), arcs), Fleet.of([12, 16]))
        assert held(Filling(SCORES[score]).pack(problem, Watch())) == published(problem, score)
