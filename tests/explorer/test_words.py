"""A decision in one sentence: what was done, and what would have cost less, by term."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.explorer.hand_made import MACHINES, later, recording
from tvwrl.explorer.recording import NONE
from tvwrl.explorer.words import decision_in_words, number_in_words, savings, shortened
from tvwrl.metrics import penalties
from tvwrl.penalties import PenaltyWeights


def test_the_hand_made_penalties_are_those_of_the_referee():
    found = penalties(recording().episode, MACHINES, PenaltyWeights())
    assert recording().penalties.sum(axis=0).tolist() == pytest.approx(list(found.values()))


@pytest.mark.parametrize(
    ("k", "sentence"),
    [
        (0, "Slot 0: a went to machine 0; its alternatives were not simulated"),
        (
            1,
            "Slot 1: b went to machine 0; machine 1 would have cost 59,925 less "
            "(60,000 less for overshoot, 76 more for under-utilisation)",
        ),
        (2, "Slot 2: c went to machine 1; no simulated alternative would have cost less"),
    ],
)
def test_decisions_worked_out_by_hand(k, sentence):
    assert decision_in_words(recording(), k) == sentence


def test_to_wait_is_said_of_choices_and_of_alternatives():
    assert decision_in_words(later(), 1).startswith("Slot 1: b was left waiting; machine 1 would have cost 50.5 less")
    plain = recording()
    costs = plain.costs.copy()
    costs[1, 2] = 0
    sentence = decision_in_words(replace(plain, costs=costs), 1)
    assert "; waiting one slot would have cost 60,175 less (60,000 less for overshoot, 124 less" in sentence


def test_one_alternative_is_none():
    plain = recording()
    machines = np.array([[0, NONE, NONE], [0, NONE, NONE], [1, NONE, NONE]])
    assert decision_in_words(replace(plain, machines=machines), 1).endswith("; there was no alternative")


def test_rounding_is_no_regret():
    plain = recording()
    costs = np.repeat(plain.costs[:, :1], 3, axis=1)
    costs[1, 1, 1] -= 1e-9
    assert decision_in_words(replace(plain, costs=costs), 1).endswith("would have cost less")


def test_savings_add_up_to_the_regret_and_begin_with_the_largest():
    found = savings(recording(), 1)
    assert sum(found.values()) == pytest.approx(recording().regret[1])
    assert found == pytest.approx({"overshoot": 60000, "contention": 1.4, "wait": 0, "under_utilisation": -76})
    assert next(iter(found)) == "overshoot"


def test_names_are_short_and_in_one_line():
    sentence = decision_in_words(recording(("a", "x\ny\x00<b>" + "z" * 1_000_000, "")), 1, 12)
    assert sentence.startswith("Slot 1: x y <b>zzzz… went to machine 0;")
    assert "a workload without a name" in decision_in_words(recording(("a", "b", "")), 2)
    assert shortened("\ud800x") == " x"


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.1234, "0.123"), (99.97, "100"), (1234567.8, "1,234,568"), (-2500, "-2,500")]
)
def test_numbers(value, text):
    assert number_in_words(value) == text
