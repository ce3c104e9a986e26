"""Compositions: kept as instances start and end, equal to a recount, whole or not at all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.interference.compositions import Compositions
from tvwrl.interference.observations import CATEGORIES
from tvwrl.types import InputError

MACHINES = 3


def test_by_hand():
    kept = Compositions(MACHINES)
    kept.start(1, 59, 4)
    kept.start(np.array([0, 1, 1]), np.array([2, 59, 59]), np.array([1, 2, 3]))  # the same cell twice
    kept.end(np.array([1, 1]), np.array([59, 59]), 2)
    assert kept.counts[1, 59] == 5
    assert kept.counts[0, 2] == 1
    assert kept.counts.sum() == 6


rows = st.tuples(st.integers(0, MACHINES - 1), st.integers(0, CATEGORIES - 1), st.integers(0, 5))


@settings(max_examples=25)
@given(st.lists(st.tuples(st.lists(rows, min_size=1, max_size=6), st.floats(0, 1)), max_size=5), st.randoms())
def test_equal_to_a_recount(steps, random):
    """Instances start in batches, and some of those that run end; a recount of those that run says the same."""
    kept, running = Compositions(MACHINES), []
    for begun, share in steps:
        kept.start(*np.array(begun).T)
        running += [(machine, category) for machine, category, number in begun for _ in range(number)]
        random.shuffle(running)
        ending = round(share * len(running))
        ended, running = running[:ending], running[ending:]
        if ended:
            kept.end(*np.array(ended).T)
        recount = np.zeros((MACHINES, CATEGORIES), int)
        for cell in running:
            recount[cell] += 1
        assert (kept.counts == recount).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("start", [0, 3], [1, 1], 1), "row 1: machine is 3: must be a whole number from 0 to 2"),
        (("start", [0, -1], [1, 1], 1), "row 1: machine is -1"),
        (("start", 0, 60, 1), "row 0: category is 60: must be a whole number from 0 to 59"),
        (("start", 0, float("nan"), 1), "category is nan"),
        (("start", 0, 1.5, 1), "category is 1.5"),
        (("start", 0, 0, -1), "instances is -1"),
        (("end", 0, 6, 1), "machine 0, category 6: 1 instances end where 0 run"),
        (("end", [1, 1], [5, 5], [2, 2]), "machine 1, category 5: 4 instances end where 3 run"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(call, said):
    kept = Compositions(MACHINES)
    kept.start(1, 5, 3)
    before = kept.counts.copy()
    name, *arguments = call
    with pytest.raises(InputError, match=said):
        getattr(kept, name)(*map(np.array, arguments))
    assert (kept.counts == before).all()


def test_an_array_of_others_is_kept_in_place():
    counts = np.zeros((2, CATEGORIES), np.int32)
    Compositions(2, counts).start(1, 3)
    assert counts[1, 3] == 1
    with pytest.raises(InputError, match=r"shape \(2, 60\): must be \(3, 60\)"):
        Compositions(3, counts)
    with pytest.raises(InputError, match="contiguous"):
        Compositions(2, np.zeros((CATEGORIES, 2), np.int32).T)
