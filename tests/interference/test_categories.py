"""Categories: thresholds by hand, borders, thresholds out of a histogram, bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.interference.categories import CATEGORY_NAMES, CLASSES, Thresholds, category_of, classes_of, natural_breaks
from tvwrl.interference.observations import CATEGORIES
from tvwrl.types import InputError

HAND = Thresholds((0.5, 1.5), (1.0, 2.0, 3.0, 4.0), (10.0, 60.0, 600.0))


def test_categories_by_hand():
    """A class begins at its threshold: 0.5 cores are of class 1. Index (cpu * 5 + memory) * 4 + makespan."""
    cpu, memory, makespan = np.array([[0.0, 0.0, 0.0], [0.5, 0.99, 600.0], [1.6, 4.0, 1e6], [1.49, 2.5, 10.0]]).T
    assert HAND.classes(cpu, memory, makespan).tolist() == [[0, 0, 0], [1, 0, 3], [2, 4, 3], [1, 2, 1]]
    category = HAND.category(cpu, memory, makespan)
    assert category.tolist() == [0, 23, 59, 29]
    assert [CATEGORY_NAMES[i] for i in category] == ["[0, 0, 0]", "[1, 0, 3]", "[2, 4, 3]", "[1, 2, 1]"]


def test_every_category_has_one_name_and_comes_back():
    every = np.arange(CATEGORIES)
    assert category_of(classes_of(every)).tolist() == every.tolist()
    assert len(set(CATEGORY_NAMES)) == CATEGORIES
    assert classes_of(every).max(axis=0).tolist() == [count - 1 for count in CLASSES.values()]


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=20))
def test_more_usage_is_never_of_a_lower_class(values):
    usage = np.sort(np.array(values))
    assert (np.diff(HAND.classes(usage, usage, usage), axis=0) >= 0).all()


def test_natural_breaks_lie_between_groups():
    values = np.array([0.011, 0.01, 0.1, 11.0, 9.0, 0.009, 10.0, 1.0])
    assert np.searchsorted(natural_breaks(values, 4, "cpu"), np.sort(values)).tolist() == [0, 0, 0, 1, 2, 3, 3, 3]


@given(st.lists(st.integers(0, 12), min_size=4, max_size=30), st.integers(2, 4))
def test_no_other_cut_of_the_histogram_varies_less(powers, classes):
    """Against every choice of cuts between different values, which lie in bins of their own."""
    from itertools import combinations

    logs = np.sort(np.array(powers, np.float64))
    different = np.unique(logs)
    if len(different) < classes:
        return

    def scatter(cuts):
        parts = np.split(logs, np.searchsorted(logs, cuts))
        return sum(((part - part.mean()) ** 2).sum() for part in parts)

    breaks = natural_breaks(np.exp(logs), classes, "cpu")
    least = min(scatter(different[list(at)]) for at in combinations(range(1, len(different)), classes - 1))
    assert scatter(np.log(breaks)) <= least + 0.2 * len(logs)  # a bin's middle stands for its values


def test_thresholds_are_given_or_found():
    rng = np.random.default_rng(1)
    usage = np.exp(rng.normal(0, 2, (3, 500)))
    found = Thresholds.from_usage(*usage)
    assert found.cpu == (0.5, 1.5)
    assert found.memory == natural_breaks(usage[1], 5, "memory")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cpu": (0.5,)}, "thresholds of cpu are 0.5: must be 2"),
        ({"cpu": (1.5, 0.5)}, "1.5, 0.5: must be 2 rising"),
        ({"memory": (0.0, 1.0, 2.0, 3.0)}, "thresholds of memory"),
        ({"makespan": (1.0, 2.0, float("nan"))}, "thresholds of makespan"),
        ({"makespan": (1.0, 2.0, float("inf"))}, "thresholds of makespan"),
    ],
)
def test_bad_thresholds_are_refused(wrong, message):
    given = {"cpu": HAND.cpu, "memory": HAND.memory, "makespan": HAND.makespan}
    with pytest.raises(InputError, match=message):
        Thresholds(**(given | wrong))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
def test_bad_usage_is_refused(value):
    good, bad = np.ones(3), np.array([1.0, value, 1.0])
    with pytest.raises(InputError, match=rf"row 1: memory is {value}"):
        HAND.category(good, bad, good)
    with pytest.raises(InputError, match="row 1: cpu"):
        Thresholds.from_usage(bad, good, good)


def test_too_few_values_are_refused():
    with pytest.raises(InputError, match="2 different values are too few for 3 classes"):
        natural_breaks(np.array([1.0, 1.0, 2.0]), 3, "cpu")
    with pytest.raises(InputError, match="no value > 0"):
        natural_breaks(np.zeros(4), 3, "cpu")
