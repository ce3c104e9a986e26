"""Penalties worked out by hand, what an alternative saves by term, and names in one line."""

from __future__ import annotations

import pytest

from tests.explorer.hand_made import MACHINES, recording
from tvwrl.explorer.words import number_in_words, savings, shortened, workload_in_words
from tvwrl.metrics import penalties
from tvwrl.penalties import PenaltyWeights


def test_the_hand_made_penalties_are_those_of_the_referee():
    found = penalties(recording().episode, MACHINES, PenaltyWeights())
    assert recording().penalties.sum(axis=0).tolist() == pytest.approx(list(found.values()))


def test_savings_add_up_to_the_regret_and_begin_with_the_largest():
    found = savings(recording(), 1)
    assert sum(found.values()) == pytest.approx(recording().regret[1])
    assert found == pytest.approx({"overshoot": 60000, "contention": 1.4, "wait": 0, "under_utilisation": -76})
    assert next(iter(found)) == "overshoot"


def test_names_are_short_and_in_one_line():
    assert workload_in_words(recording(("a", "x\ny\x00<b>" + "z" * 1_000_000, "")), 1, 12) == "x y <b>zzzz…"
    assert workload_in_words(recording(("a", "b", "")), 2) == "a workload without a name"
    assert shortened("\ud800x") == " x"


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.1234, "0.123"), (99.97, "100"), (1234567.8, "1,234,568"), (-2500, "-2,500")]
)
def test_numbers(value, text):
    assert number_in_words(value) == text
