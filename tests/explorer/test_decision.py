"""The picture of one decision: which alternatives it shows, in which order, and what its bars add up to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.explorer.hand_made import MACHINES, empty, later, on_many, on_one_resource, recording
from tvwrl.explorer.decision import MOST, alternatives_shown, draw_decision, figure_pixels
from tvwrl.types import InputError


def axes_of(figure):
    """Left: machines; right: alternatives."""
    return figure.axes[:2]


def test_the_title_says_what_happened_and_the_cheapest_comes_first():
    figure = draw_decision(recording(), 1, MACHINES)
    assert figure.get_suptitle().startswith("Slot 1: b went to machine 0; machine 1 would have cost 59,925 less")
    _, right = axes_of(figure)
    names = [label.get_text() for label in right.get_yticklabels()]
    assert names == ["machine 1", "waiting one slot", "machine 0 (chosen)"]
    assert [text.get_text() for text in right.texts] == ["cheapest", "+50.5", "+59,925"]


def test_bars_leave_out_what_all_alternatives_pay():
    _, right = axes_of(draw_decision(recording(), 1, MACHINES))
    widths = np.array([bar.get_width() for bar in right.patches]).reshape(4, 3).T
    np.testing.assert_allclose(widths, [[0, 76, 0, 0], [0.5, 26, 0, 100], [1.4, 0, 60000, 0]])
    assert right.get_xlabel() == "cost above the 174 that all of these share"


def test_chosen_and_cheapest_are_marked_in_the_heat_map():
    left, _ = axes_of(draw_decision(recording(), 1, MACHINES))
    marks = {line.get_marker(): (line.get_xdata()[0], line.get_ydata()[0]) for line in left.lines}
    assert (marks["o"], marks["D"]) == ((1.5, 0), (1.5, 1))


def test_pixels_are_rgb():
    pixels = figure_pixels(draw_decision(recording(), 1, MACHINES))
    assert (pixels.dtype, pixels.shape[2]) == (np.uint8, 3)
    assert pixels.std() > 0


def test_at_most_twelve_alternatives_with_the_choice_and_their_machines_alone():
    many, machines = on_many(200)  # the choice of decision 1 is the dearest of 200
    shown = alternatives_shown(many, 1)
    assert shown.tolist() == [*range(199, 199 - MOST + 1, -1), 0]
    left, right = axes_of(draw_decision(many, 1, machines))
    assert right.get_title() == "cost of 12 of 200 alternatives, from this slot to the end"
    assert len(left.get_yticklabels()) == MOST


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("one", "machines"),
    [
        (recording(), MACHINES),
        (later(), MACHINES),
        on_one_resource(),
        on_many(200),
        (recording(("$a$\n" + "x" * 1_000_000, "<b>日本", "")), MACHINES),
    ],
)
def test_every_decision_can_be_drawn(one, machines):
    for k in range(len(one)):
        assert figure_pixels(draw_decision(one, k, machines)).std() > 0


def test_what_was_not_played_on_is_said():
    _, right = axes_of(draw_decision(recording(), 0, MACHINES))
    assert [text.get_text() for text in right.texts] == ["Its alternatives were not simulated."]
    unknown = replace(recording(), costs=np.full((3, 3, 4), np.nan))
    many, machines = on_many(200)
    nothing = replace(many, costs=np.full_like(many.costs, np.nan))
    assert figure_pixels(draw_decision(unknown, 1, MACHINES)).std() > 0
    assert figure_pixels(draw_decision(nothing, 1, machines)).std() > 0


def test_there_must_be_such_a_decision():
    for one, k in ((recording(), 3), (recording(), -1), (empty(), 0)):
        with pytest.raises(InputError, match="decision is"):
            draw_decision(one, k, MACHINES)
