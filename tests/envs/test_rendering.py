"""Frames of the cluster: size, colours and layouts; and the viewer without a screen."""

import warnings
from dataclasses import replace
from unittest.mock import MagicMock

import numpy as np
import pytest

from tvwrl.envs.rendering import ABSENT, CUT, OVERSHOOT, ClusterPicture, Viewer, clock, draw_cluster, label_colours

RESOURCES = ("cpu", "mem", "disk")


def empty(machines=2, resources=2, rows=5, columns=8, classes=3, places=2):
    return ClusterPicture(
        grid=np.zeros((machines, resources, rows, columns), np.uint8),
        overshoot=np.zeros((machines, resources, rows)),
        capacity=np.full((machines, resources), float(columns)),
        load=np.zeros((machines, resources)),
        resources=RESOURCES[:resources],
        classes=classes,
        slot=0,
        queue_labels=np.zeros(places, np.int64),
        queue_requests=np.full((places, resources), np.nan),
    )


def busy(picture, seed=0):
    """The same cluster with random labels, overshoot and a full queue."""
    rng = np.random.default_rng(seed)
    places, resources = picture.queue_requests.shape
    return replace(
        picture,
        grid=rng.integers(0, picture.classes + 1, picture.grid.shape).astype(np.uint8),
        overshoot=rng.uniform(0, 20, picture.overshoot.shape),
        load=picture.capacity * rng.uniform(0, 3, picture.capacity.shape),
        slot=123_456,
        queue_labels=rng.integers(1, picture.classes + 1, places),
        queue_requests=rng.uniform(0, 1000, (places, resources)),
        backlog=98_765,
        title="a title that is far too long for the frame " * 20,
    )


def body(frame):
    """The part of a frame with the machines, without the queue and the legend on its right."""
    return frame[:, : frame.shape[1] - 232 - 16]


def count(frame, colour):
    return int((frame == np.asarray(colour, np.uint8)).all(axis=-1).sum())


SHAPES = [
    {"machines": 1},
    {"machines": 1, "resources": 1, "rows": 1, "columns": 1, "classes": 1, "places": 1},
    {"machines": 10, "rows": 20, "classes": 15, "places": 5},
    {"machines": 4, "resources": 3},
    {"machines": 24, "rows": 20},
    {"machines": 25, "rows": 20},
    {"machines": 200, "rows": 20},
    {"machines": 201, "rows": 20},
    {"machines": 1000, "rows": 20},
    {"machines": 1000, "resources": 3, "rows": 2},
    {"machines": 100, "rows": 400, "columns": 64},
    {"classes": 200, "places": 50},
    {"places": 0},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_frame_has_one_size_whatever_the_load(shape):
    picture = empty(**shape)
    frames = [draw_cluster(picture), draw_cluster(busy(picture)), draw_cluster(busy(picture, seed=1))]
    assert {frame.dtype for frame in frames} == {np.dtype(np.uint8)}
    assert len({frame.shape for frame in frames}) == 1
    height, width, channels = frames[0].shape
    assert channels == 3
    assert max(height, width) <= 1984
    assert height % 16 == width % 16 == 0
    assert frames[0].flags.c_contiguous


@pytest.mark.parametrize("machines", [1, 10, 200, 1000])
def test_a_free_cluster_is_nearly_white_and_has_no_red(machines):
    picture = empty(machines=machines, rows=20)
    frame = draw_cluster(picture)
    assert body(frame).mean() > 235
    assert count(frame, OVERSHOOT) == count(frame, CUT) == 0


def test_overshoot_is_one_red_square_per_unit_begun():
    picture = empty(machines=1)
    one, two = picture.overshoot.copy(), picture.overshoot.copy()
    one[0, 0, 4] = 1.0
    two[0, 0, 4] = 1.2
    reds = [count(draw_cluster(replace(picture, overshoot=over)), OVERSHOOT) for over in (one, two)]
    assert reds[0] > 0
    assert reds[1] == 2 * reds[0]


def test_overshoot_beyond_what_is_drawn_ends_in_dark_red():
    picture = empty(machines=1)
    overshoot = picture.overshoot.copy()
    overshoot[0, 1, 0] = 4.0
    exact = draw_cluster(replace(picture, overshoot=overshoot))
    overshoot[0, 1, 0] = 400.0
    more = draw_cluster(replace(picture, overshoot=overshoot))
    assert count(exact, CUT) == 0
    assert count(more, CUT) > 0
    assert count(more, CUT) + count(more, OVERSHOOT) == count(exact, OVERSHOOT)


def test_a_row_that_overshoots_is_red_beside_itself():
    picture = empty(machines=1, rows=5)
    heights = []
    for row in (0, 4):
        overshoot = np.zeros((1, 2, 5))
        overshoot[0, 0, row] = 1
        frame = draw_cluster(replace(picture, overshoot=overshoot))
        heights.append(np.argwhere((frame == OVERSHOOT).all(axis=-1))[:, 0].mean())
    assert heights[0] < heights[1]  # the newest row, the last, is at the bottom


def test_every_label_of_the_grid_has_its_own_colour():
    picture = empty(machines=1, classes=15, columns=16)
    colours = label_colours(15)
    assert len({tuple(colour) for colour in colours}) == 18
    free = draw_cluster(picture)
    grid = picture.grid.copy()
    grid[0, 0, 0] = [*range(1, 16), 17]  # the last is background
    frame = draw_cluster(replace(picture, grid=grid))
    gained = {count(frame, colour) - count(free, colour) for colour in colours[[*range(1, 16), 17]]}
    assert len(gained) == 1  # as many pixels of each
    assert gained.pop() > 0


def test_more_classes_than_colours_stay_apart_for_one_round():
    colours = label_colours(32)[1:33]
    assert len({tuple(colour) for colour in colours}) == 32


def test_pixels_beyond_a_machines_capacity_are_dark():
    picture = empty(machines=2)
    grid = picture.grid.copy()
    grid[1, :, :, 5:] = picture.classes + 1
    capacity = picture.capacity.copy()
    capacity[1] = 5
    less = draw_cluster(replace(picture, grid=grid, capacity=capacity))
    assert less.shape == draw_cluster(picture).shape
    assert count(less, ABSENT) > 2 * count(draw_cluster(picture), ABSENT)


@pytest.mark.parametrize("resources", [1, 2, 3])
def test_many_machines_show_their_load_as_shades(resources):
    picture = empty(machines=1000, resources=resources)
    load = picture.load.copy()
    load[::2] = picture.capacity[::2]
    half = draw_cluster(replace(picture, load=load))
    assert body(half).mean() < body(draw_cluster(picture)).mean() - 20
    assert count(half, OVERSHOOT) == 0
    load[0, 0] += 0.5
    assert count(draw_cluster(replace(picture, load=load)), OVERSHOOT) > 0


def test_the_queue_shows_classes_requests_and_backlog():
    picture = empty(machines=1)
    plain = draw_cluster(picture)
    labels, requests = np.array([2, 0]), np.array([[1.5, 2.0], [np.nan, np.nan]])
    queued = draw_cluster(replace(picture, queue_labels=labels))
    assert count(queued, label_colours(3)[2]) > count(plain, label_colours(3)[2])
    assert (draw_cluster(replace(picture, queue_labels=labels, queue_requests=requests)) != queued).any()
    assert (draw_cluster(replace(picture, queue_labels=labels, backlog=3)) != queued).any()


@pytest.mark.parametrize("backend", ["Agg", "TkAgg"])
def test_without_a_screen_the_viewer_warns_once_and_goes_on(monkeypatch, backend):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    for variable in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(variable, raising=False)
    pyplot.switch_backend("Agg")
    if backend != "Agg":  # a toolkit that cannot reach its screen fails when it opens a window

        def refuse(*_, **__):
            raise ImportError("no display")

        monkeypatch.setattr(pyplot, "figure", refuse)
    frame = draw_cluster(empty(machines=1))
    viewer = Viewer()
    with pytest.warns(UserWarning, match="rgb_array"):
        viewer.show(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        viewer.show(frame)
        viewer.close()
        viewer.close()
    assert not pyplot.get_fignums()


def test_a_window_is_drawn_until_it_is_closed_by_hand(monkeypatch):
    from matplotlib import pyplot

    screen, opened, closed = MagicMock(number=7), [7], []
    drawn = screen.axes.__getitem__.return_value.images.__getitem__.return_value.set_data
    monkeypatch.setattr(pyplot, "figure", lambda **_: screen)
    monkeypatch.setattr(pyplot, "fignum_exists", lambda number: number in opened)
    monkeypatch.setattr(pyplot, "close", closed.append)
    viewer, frame = Viewer(), draw_cluster(empty(machines=1))
    viewer.show(frame)
    viewer.show(frame)
    assert drawn.call_count == 2
    opened.clear()
    viewer.show(frame)
    assert drawn.call_count == 2
    viewer.close()
    assert closed == [screen]


def test_the_time_is_counted_from_slot_0():
    assert clock(replace(empty(), slot=75, slot_seconds=1800)) == ", day 2, 13:30"
    assert clock(empty()) == ""


def test_small_pixels_make_small_frames():
    large = draw_cluster(empty(machines=6, rows=20))
    small = draw_cluster(replace(empty(machines=6, rows=20), pixel=8))
    assert small.shape[1] < large.shape[1]
