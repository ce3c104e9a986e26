"""Matching by hand: the best pair of application and machine takes one replica, again and again."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.packing.matching import match
from tvwrl.planning.instance import Fleet
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import SCORES


def matched(problem, machines, score, steps=99):
    """A packing of at most `machines` machines after at most `steps` steps, and whether more steps may help."""
    packing = problem.packing(machines, opened=True)
    arguments = (
        problem.applications,
        packing,
        problem.pairs(packing),
        problem.sizes,
        SCORES[score].score(problem),
        steps,
    )
    return packing, match(*arguments)


def test_the_best_pair_goes_first(make, held, check):
    # Dot products, over 64: a (4, 2) is worth 48 on the empty machine, b (2, 4) as much and comes later, c (1, 1) 16.
    # After a the first machine has 4, 6: b is worth 32 there, 48 on the second; then c 10 on the first, 10 on the
    # second: the first.
    problem = PackingProblem(make([1, 1, 1], [[4, 2], [2, 4], [1, 1]]), Fleet.of([8, 8]))
    packing, _ = matched(problem, 2, "DotProduct")
    assert held(packing) == [{0: 1, 2: 1}, {1: 1}]
    check(problem, packing)


def test_it_goes_on_where_it_stopped_until_nothing_fits(make, held):
    problem = PackingProblem(make([3], [[5, 5]]), Fleet.of([8, 8]))
    packing, more = matched(problem, 2, "DotProduct", steps=1)
    assert (held(packing), more) == ([{0: 1}, {}], True)
    packing, more = matched(problem, 2, "DotProduct")
    assert (held(packing), more) == ([{0: 1}, {0: 1}], False)
    assert packing.left.tolist() == [1]


def best_pairs(problem, machines, score):
    """Replicas by (machine, application) if every pair is scored anew for every replica; ties as listed."""
    demand, residual = problem.demand, np.repeat(problem.kinds[:1], machines, axis=0)
    alike = [int((demand == one).all(axis=1).argmax()) for one in demand]  # equal demand counts as one size
    left, made = problem.replicas.copy(), {}
    while True:
        pairs = [
            (-(demand[i] * residual[m] * score.weight).sum(), m, alike[i], i)
            for m in range(machines)
            for i in np.flatnonzero(left)
            if (demand[i] <= residual[m]).all()
        ]
        if not pairs:
            return made
        *_, m, _, i = min(pairs)
        made[m, i] = made.get((m, i), 0) + 1
        residual[m] -= demand[i]
        left[i] -= 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=4))
def test_it_is_what_scoring_every_pair_anew_gives(make, held, rows):
    problem = PackingProblem(make([row[0] for row in rows], [row[1:] for row in rows]), Fleet.of([8, 8]))
    packing, _ = matched(problem, 3, "DotProduct")
    found = {(m, i): count for m, machine in enumerate(held(packing)) for i, count in machine.items()}
    assert found == best_pairs(problem, 3, SCORES["DotProduct"].score(problem))
