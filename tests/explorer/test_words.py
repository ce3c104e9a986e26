"""Penalties worked out by hand, names in one line, and numbers as words."""

from __future__ import annotations

import pytest

from tests.explorer.hand_made import MACHINES, recording
from tvwrl.explorer.recording import shortened
from tvwrl.explorer.report import number_in_words
from tvwrl.metrics import penalties
from tvwrl.penalties import PenaltyWeights


def test_the_hand_made_penalties_are_those_of_the_referee():
    found = penalties(recording().episode, MACHINES, PenaltyWeights())
    assert recording().penalties.sum(axis=0).tolist() == pytest.approx(list(found.values())[:4])


def test_names_are_short_and_in_one_line():
    assert shortened("x\ny\x00<b>" + "z" * 1_000_000, 12) == "x y <b>zzzz…"
    assert shortened("\ud800x") == " x"


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.1234, "0.123"), (99.97, "100"), (1234567.8, "1,234,568"), (-2500, "-2,500")]
)
def test_numbers(value, text):
    assert number_in_words(value) == text
