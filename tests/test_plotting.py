"""The chart of estimates: a row for each in the order given, under headings, with what was published; no pixels."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from tvwrl import plotting
from tvwrl.plotting import NOTHING, OTHERS, OURS, Panel, Point, Row, draw_estimates, scale_logarithmically
from tvwrl.types import InputError

ROWS = [Row("spread", "sees load"), Row("agent", "sees forecasts", True), Row("fit", "sees forecasts")]
POINTS = {"spread": [Point(4.0, 3.0, 5.0)], "agent": [Point(1.0, 0.5, 1.5)], "fit": [NOTHING]}


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch):
    """The last figure that was drawn."""
    drawn = []

    def keep(*size: float, **layout: float):
        drawn.append(plain(*size, **layout))
        return drawn[-1]

    plain = plotting.new_figure
    monkeypatch.setattr(plotting, "new_figure", keep)
    monkeypatch.setattr(plotting, "DPI", 40)
    return lambda: drawn[-1]


def labels(axis) -> list[str]:
    """Names at the rows, from top to bottom."""
    at = sorted(zip(axis.get_yticks(), (label.get_text() for label in axis.get_yticklabels()), strict=True))
    return [text for _, text in at]


def test_rows_stand_in_order_under_the_headings_of_their_groups(tmp_path: Path, figure):
    draw_estimates(tmp_path / "a.png", ROWS, [Panel("penalty", POINTS)], note="sequences")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    (axis,) = figure().axes
    assert labels(axis) == ["sees load", "spread", "sees forecasts", "agent", "fit"]
    assert axis.get_ylim()[0] > axis.get_ylim()[1]  # downwards


def test_points_lie_in_their_rows_and_ours_are_in_the_strong_colour(tmp_path: Path, figure):
    draw_estimates(tmp_path / "a.png", ROWS, [Panel("penalty", POINTS)])
    (axis,) = figure().axes
    place = dict(zip(labels(axis), sorted(axis.get_yticks()), strict=True))
    dots = {tuple(line.get_xydata()[0]): line.get_color() for line in axis.lines if line.get_marker() == "o"}
    assert dots[1.0, place["agent"]] == OURS
    assert dots[4.0, place["spread"]] == OTHERS
    intervals = [tuple(line.get_xdata()) for line in axis.lines if len(line.get_xdata()) == 2]
    assert (0.5, 1.5) in intervals
    bold = {label.get_text() for label in axis.get_yticklabels() if label.get_weight() == "bold"}
    assert bold == {"agent"}


def test_published_values_are_diamonds_and_ranges_bands(tmp_path: Path, figure):
    panel = Panel("penalty", POINTS, {"spread": [(3.5, 3.5)], "agent": [(1.0, 2.0)]})
    draw_estimates(tmp_path / "a.png", ROWS, [panel])
    (axis,) = figure().axes
    assert [float(line.get_xdata()[0]) for line in axis.lines if line.get_marker() == "d"] == [3.5]
    (band,) = axis.patches
    assert (band.get_x(), band.get_width()) == (1.0, 1.0)
    (legend,) = figure().legends
    assert {text.get_text() for text in legend.get_texts()} >= {"published", "published range"}


def test_published_limits_point_to_where_the_value_may_lie(tmp_path: Path, figure):
    panel = Panel("penalty", POINTS, {"spread": [(3.0, math.inf)], "agent": [(-math.inf, 2.0)]})
    draw_estimates(tmp_path / "a.png", ROWS, [panel])
    (axis,) = figure().axes
    limits = {line.get_marker(): float(line.get_xdata()[0]) for line in axis.lines if line.get_marker() in ("<", ">")}
    assert limits == {">": 3.0, "<": 2.0}
    assert not axis.patches


def test_the_caption_says_what_is_shown(tmp_path: Path, figure):
    def caption(points, **said):
        draw_estimates(tmp_path / "a.png", ROWS, [Panel("penalty", points)], **said)
        return figure().legends[0].get_title().get_text()

    assert caption(POINTS, note="sequences") == "Means over sequences; lines: 95 % intervals"
    assert caption(POINTS, caption="one run", lines="ranges") == "one run; lines: ranges"
    assert caption({"agent": [Point(1.0)]}, note="sequences") == "Means over sequences"


def test_panels_that_name_an_axis_have_the_same_ends(tmp_path: Path, figure):
    panels = [Panel(f"{value}", {"agent": [Point(value)]}, axis="penalty") for value in (1.0, 9.0)]
    draw_estimates(tmp_path / "a.png", ROWS, panels)
    first, second = figure().axes
    assert first.get_xlim() == second.get_xlim()
    assert first.get_xlim()[1] > 9


def test_several_points_of_a_row_have_marks_of_their_own(tmp_path: Path, figure):
    points = {row.name: [Point(1.0), Point(2.0), Point(3.0)] for row in ROWS}
    draw_estimates(tmp_path / "a.png", ROWS, [Panel("penalty", points)], ["load 0.3", "load 0.5", "load 0.8"])
    (axis,) = figure().axes
    marks = {line.get_marker() for line in axis.lines} - {"None", ""}
    assert len(marks) == 3
    (legend,) = figure().legends
    assert [text.get_text() for text in legend.get_texts()][-3:] == ["load 0.3", "load 0.5", "load 0.8"]


@pytest.mark.parametrize(
    ("rows", "panels", "series", "message"),
    [
        ([], [Panel("penalty", {})], ("",), "nothing to draw"),
        (ROWS, [], ("",), "nothing to draw"),
        ([*ROWS, Row("fit")], [Panel("penalty", POINTS)], ("",), "rows is spread, agent, fit, fit: must be different"),
        (ROWS, [Panel("penalty", POINTS | {"other": [NOTHING]})], ("",), "'penalty' has 'other', which is not a row"),
        (ROWS, [Panel("penalty", POINTS)], ("a", "b"), "row 'spread': has 1 points, not 2"),
        (ROWS, [Panel("penalty", {"fit": [Point(0.0)]}, logarithmic=True)], ("",), "must be above 0"),
    ],
)
def test_bad_charts_are_refused(rows, panels, series, message, tmp_path: Path):
    with pytest.raises(InputError, match=message):
        draw_estimates(tmp_path / "a.png", rows, panels, series)
    assert not (tmp_path / "a.png").exists()


def test_an_axis_is_logarithmic_only_if_it_can_be():
    assert Panel("x", {"a": [Point(1.0, 0.5, 2.0)]}, logarithmic=None).is_logarithmic
    assert not Panel("x", {"a": [Point(0.0)]}, logarithmic=None).is_logarithmic


@pytest.mark.parametrize(("low", "high"), [(0.3, 0.3), (0.06, 0.75), (0.011, 0.9), (1e-6, 1.0)])
def test_labels_of_an_axis_do_not_overlap(low: float, high: float) -> None:
    figure = Figure(figsize=(3.6, 2.4), dpi=80)
    axes = figure.add_subplot()
    axes.plot(np.geomspace(low, high, 9), np.geomspace(low, high, 9))
    scale_logarithmically(axes.xaxis)
    boxes = label_boxes(axes.xaxis, figure)
    assert boxes
    assert all(right.x0 > left.x1 for left, right in itertools.pairwise(boxes))


def label_boxes(axis: Axis, figure: Figure) -> list[Any]:
    """Of the labels that are shown, from left to right."""
    figure.draw_without_rendering()
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    shown = [tick for tick in ticks if tick.label1.get_text() and low <= tick.get_loc() <= high]
    return sorted((tick.label1.get_window_extent() for tick in shown), key=lambda box: box.x0)
