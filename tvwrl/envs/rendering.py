"""How a cluster looks at one slot: a frame drawn from plain arrays, and a window that shows frames."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.packing import exceeds, fits
from tvwrl.types import Float, Int

Bytes = npt.NDArray[np.uint8]
Canvas = npt.NDArray[np.uint32]  # (height, width), one word per pixel: painted several times faster than RGB
PLACE_VALUES = np.eye(3, 4, dtype=np.uint8).view(np.uint32)[:, 0]  # of red, green, blue in a word, on any processor
# No class has a colour near the overshoot's red; CUT ends a row with more overshoot than is drawn.
FREE, ABSENT, OVERSHOOT, CUT = (243, 245, 248), (74, 78, 84), (225, 20, 30), (120, 0, 12)
BACKGROUND = (168, 172, 180)
WHITE, INK, FAINT, FULL = (255, 255, 255), (40, 44, 52), (120, 126, 136), (0, 60, 120)
# Okabe and Ito's colours, then those that lie farthest from all before under normal, protan and deutan vision.
CLASSES = "0072B2E69F00009E7356B4E9F0E442CC79A72A2AE04B0F872EE06BF00FFF87873CFFB496B400878C5A2B7FEBDD78C35A"
LARGEST_FRAME = 1984  # pixels per side; sides are multiples of 16, as video encoders want them
LARGEST_PIXEL = 16
MOST_GRIDS = 200  # machines drawn with their grids; more get one block each
MARGIN, TOP, NAME, CAPTION = 16, 44, 18, 15  # heights of the title, a machine's number, the text above a grid
COLUMN, PLACE, SWATCH = 54, 26, 24  # width of a request in the queue, heights of a place and of a legend's row
PLACES, SWATCHES, SWATCH_ROW = 20, 48, 8  # most places and classes shown, classes per row of the legend


@dataclass(frozen=True, eq=False)
class ClusterPicture:
    """All that a frame shows, as plain arrays: M machines, D resources, h rows of C pixels, G classes, Q places."""

    grid: Bytes  # (M, D, h, C) oldest row first; 0 free, 1..G class, G + 1 beyond capacity, G + 2 background
    overshoot: Float  # (M, D, h) units above capacity, >= 0
    capacity: Float  # (M, D) units, > 0
    load: Float  # (M, D) units in this slot, >= 0
    resources: tuple[str, ...]  # (D,)
    classes: int  # G
    slot: int
    queue_labels: Int  # (Q,) class 1..G of the waiting workload, 0 = empty place
    queue_requests: Float  # (Q, D) units, NaN = unknown
    backlog: int = 0  # workloads waiting beyond the Q places
    title: str = ""
    background: bool = False  # whether there is load of no class
    slot_seconds: int = 0  # length of a slot, for the day and the time since slot 0; 0 leaves them out
    pixel: int = LARGEST_PIXEL  # side of a grid's pixel at most: small ones leave the text large in small frames


class _Plan(NamedTuple):
    size: tuple[int, int]  # height and width of the frame
    pixel: int  # side of a grid's pixel, or of a resource's square if not `grids`
    across: int  # machines side by side
    tile: tuple[int, int]  # height and width of one machine, with the gap to the next
    excess: int  # overshoot pixels beside each row
    side: int  # x of the queue and the legend
    grids: bool


@lru_cache(maxsize=64)
def _plan(
    machines: int, resources: int, rows: int, columns: int, classes: int, places: int, pixel: int = LARGEST_PIXEL
) -> _Plan:
    """Where things go: it depends on the cluster's shape only, so that all frames of a video have one size."""
    excess = min(8, max(2, math.ceil(columns / 2)))
    side_width = max(232, 40 + COLUMN * resources)
    side_height = 138 + PLACE * min(places, PLACES) + SWATCH * math.ceil(min(classes, SWATCHES) / SWATCH_ROW)
    largest = (LARGEST_FRAME - TOP - MARGIN, LARGEST_FRAME - side_width - 3 * MARGIN - 48)
    usual = 1280 * pixel // LARGEST_PIXEL
    sizes = [(size, 640, usual) for size in range(pixel, 5, -1)] + [
        (size, *largest) for size in range(min(pixel, 8), 0, -1)
    ]
    styles = (True, False)[machines > MOST_GRIDS :]  # blocks also where even the smallest grids need more room
    for grids, (pixel, height, width) in product(styles, sizes):
        panel = (columns + excess) * pixel + 3
        tile = (NAME + CAPTION * (panel >= 50) + rows * pixel + 18, resources * (panel + 8) + 16)
        tile = tile if grids else (pixel + 3, resources * pixel + 4)
        down = math.ceil(machines / max(1, width // tile[1]))
        across = math.ceil(machines / down)
        if across * tile[1] <= width and down * tile[0] <= height:
            break
    side = max(across * tile[1], 240) + (0 if grids else 48) + 2 * MARGIN
    height = TOP + max(down * tile[0], side_height) + MARGIN
    size = (-(-height // 16) * 16, -(-(side + side_width + MARGIN) // 16) * 16)
    return _Plan(size, pixel, across, tile, excess, side, grids)


def _pack(colours: Any) -> Canvas:
    return np.asarray(np.asarray(colours).astype(np.uint8) @ PLACE_VALUES)


@lru_cache(maxsize=16)
def label_colours(classes: int) -> Bytes:
    """(G + 3, 3) RGB of labels: free, classes, absent, background; beyond 16 classes the colours repeat, darker."""
    base = np.frombuffer(bytes.fromhex(CLASSES), np.uint8).reshape(-1, 3)
    number = np.arange(classes)
    colours = base[number % len(base)] * 0.72 ** (number // len(base))[:, None]
    return np.vstack([[FREE], colours, [ABSENT], [BACKGROUND]]).astype(np.uint8)


@lru_cache(maxsize=8192)
def _letters(text: str, size: int) -> Float:
    """(height, width) share of ink in 0..1; cached, as texts come back every frame and drawing them is slow."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=size)
    image = Image.new("L", (max(1, math.ceil(font.getlength(text))), size + 4))
    ImageDraw.Draw(image).text((0, 0), text, fill=255, font=font)
    return np.asarray(image, dtype=np.float32)[..., None] / 255


def _write(canvas: Canvas, y: int, x: int, text: str, size: int = 12, colour: Any = INK, room: int = 10**6) -> None:
    """Text with its upper left corner at (y, x), cut off after `room` pixels and at the canvas' edge."""
    ink = _letters(text, size)[: canvas.shape[0] - y, : min(room, canvas.shape[1] - x)]
    area = canvas.view(np.uint8).reshape(*canvas.shape, 4)[y : y + ink.shape[0], x : x + ink.shape[1], :3]
    area[...] = area + (np.array(colour, np.float32) - area) * ink


def _squares(colours: Canvas, side: int) -> Canvas:
    """(..., h, w) colours as squares, (..., h * side, w * side), with white lines between them where there is room."""
    squares = colours.repeat(side, axis=-2).repeat(side, axis=-1)
    if side >= 4:
        squares[..., side - 1 :: side, :] = squares[..., side - 1 :: side] = _pack(WHITE)
    return squares


def _draw_grids(canvas: Canvas, picture: ClusterPicture, plan: _Plan) -> None:
    """Machines left to right and downwards; in each, its resources side by side, the newest row at the bottom."""
    colours = np.where(picture.overshoot[..., None] > np.arange(plan.excess), _pack(OVERSHOOT), _pack(WHITE))
    colours[..., -1][picture.overshoot > plan.excess] = _pack(CUT)
    excess = _squares(colours, plan.pixel)
    grids = _squares(_pack(label_colours(picture.classes))[picture.grid], plan.pixel)
    if (picture.grid == picture.classes + 1).any():
        np.copyto(grids, _pack(FAINT), where=(grids == _pack(ABSENT)) & (np.indices(grids.shape[-2:]).sum(0) % 5 == 0))
    *_, height, width = grids.shape
    panel = width + 3 + excess.shape[-1]
    for machine, d in np.ndindex(*picture.load.shape):
        top, left = TOP + machine // plan.across * plan.tile[0], MARGIN + machine % plan.across * plan.tile[1]
        y, x = top + plan.tile[0] - height - 18, left + d * (panel + 8)
        canvas[y : y + height, x : x + width] = grids[machine, d]
        canvas[y - 1 : y + height + 2, x + width] = canvas[y + height + 1, x : x + width] = _pack(INK)
        canvas[y : y + height, x + width + 3 : x + panel] = excess[machine, d]
        if d == 0:
            _write(canvas, top, left, f"{'machine ' * (plan.tile[1] >= 90)}{machine}", 13, room=plan.tile[1] - 4)
        if y - top > NAME:
            load, capacity = picture.load[machine, d], picture.capacity[machine, d]
            colour = OVERSHOOT if exceeds(float(load), float(capacity)) else FAINT
            _write(canvas, y - CAPTION, x, f"{load:.3g}/{capacity:.3g} {picture.resources[d]}", 11, colour, panel)


def _draw_blocks(canvas: Canvas, picture: ClusterPicture, plan: _Plan) -> None:
    """One block per machine, in it one square per resource, coloured by load / capacity."""
    (machines, resources), (tall, wide), side = picture.load.shape, plan.tile, plan.pixel
    down = math.ceil(machines / plan.across)
    blocks = np.full((down * plan.across, tall, wide), _pack(WHITE), np.uint32)
    blocks[:machines, :side, : side * resources] = np.repeat(
        _shade(picture.load / np.maximum(picture.capacity, 1.0)), side, 1
    )[:, None]
    body = blocks.reshape(down, plan.across, tall, wide).swapaxes(1, 2).reshape(down * tall, plan.across * wide)
    canvas[TOP : TOP + body.shape[0], MARGIN + 48 : MARGIN + 48 + body.shape[1]] = body
    for row in range(0, down, math.ceil(13 / tall)):
        _write(canvas, TOP + row * tall, MARGIN, str(row * plan.across), 11, FAINT, 44)


def _shade(share: Float) -> Canvas:
    """Colours of load / capacity: from the free colour at 0 to dark blue at 1, and red above 1."""
    blend = FREE + (np.array(FULL) - FREE) * np.clip(share, 0, 1)[..., None]
    return np.where(fits(share[..., None], 1.0, 1.0), _pack(blend), _pack(OVERSHOOT))


def _tile(canvas: Canvas, y: int, x: int, label: int, classes: int, height: int, width: int) -> None:
    """A class as a tile of its colour with its number on it, so that it can be told without seeing colour."""
    colour = label_colours(classes)[label]
    canvas[y : y + height, x : x + width] = _pack(colour)
    ink = INK if colour @ np.array([0.299, 0.587, 0.114]) > 140 else WHITE
    _write(canvas, y + (height - 15) // 2, x + width // 2 - 4 * len(str(label)), str(label), 12, ink)


def _draw_queue(canvas: Canvas, picture: ClusterPicture, x: int) -> int:
    """The waiting workloads, head of the queue first; returns the y below them."""
    hidden = picture.backlog + np.count_nonzero(picture.queue_labels[PLACES:])
    _write(canvas, TOP, x, f"queue: requests    +{hidden} more waiting" if hidden else "queue: requests", 13)
    for d, resource in enumerate(picture.resources):
        _write(canvas, TOP + 20, x + 40 + d * COLUMN, resource, 11, FAINT, COLUMN - 4)
    for place, label in enumerate(picture.queue_labels[:PLACES].tolist()):
        y = TOP + 38 + place * PLACE
        canvas[y : y + PLACE - 4, x : x + 30] = _pack(FREE)
        if label:
            _tile(canvas, y, x, label, picture.classes, PLACE - 4, 30)
            for d, units in enumerate(picture.queue_requests[place]):
                _write(canvas, y + 3, x + 40 + d * COLUMN, f"{units:.3g}".replace("nan", "?"), room=COLUMN - 4)
    return TOP + 38 + PLACE * min(len(picture.queue_labels), PLACES)


def _draw_legend(canvas: Canvas, picture: ClusterPicture, grids: bool, x: int, y: int) -> None:
    _write(canvas, y + 8, x, "classes", 13)
    for number in range(min(picture.classes, SWATCHES)):
        down, right = number // SWATCH_ROW * SWATCH, number % SWATCH_ROW * 28
        _tile(canvas, y + 28 + down, x + right, number + 1, picture.classes, 20, 25)
    y += 32 + SWATCH * math.ceil(min(picture.classes, SWATCHES) / SWATCH_ROW)
    if grids:
        unknown = ((x + 170, BACKGROUND, "unknown"),) if picture.background else ()
        for start, colour, text in ((x, FREE, "free"), (x + 70, ABSENT, "no capacity"), *unknown):
            canvas[y : y + 14, start : start + 20] = _pack(colour)
            _write(canvas, y, start + 26, text, 11, FAINT)
    else:
        canvas[y : y + 14, x : x + 80] = _shade(np.linspace(0, 1, 80))
        _write(canvas, y, x + 88, "load, none to full", 11, FAINT)
    _write(canvas, y + 20, x, f"{'bottom row: this slot; ' * grids}red: overshoot", 11, FAINT)
    _write(canvas, y + 36, x, f"in each machine: {', '.join(picture.resources)}", 11, FAINT)


def draw_cluster(picture: ClusterPicture) -> Bytes:
    """The frame, (height, width, 3) RGB of at most 1984 x 1984 pixels; its size depends on M, D, h, C, G, Q only."""
    plan = _plan(*picture.grid.shape, picture.classes, len(picture.queue_labels), picture.pixel)
    canvas = np.full(plan.size, _pack(WHITE))
    _write(canvas, 12, MARGIN, picture.title, 16, room=plan.side - 2 * MARGIN)
    _write(canvas, 12, plan.side, f"slot {picture.slot}{clock(picture)}", 16)
    (_draw_grids if plan.grids else _draw_blocks)(canvas, picture, plan)
    _draw_legend(canvas, picture, plan.grids, plan.side, _draw_queue(canvas, picture, plan.side))
    return np.stack([canvas.view(np.uint8)[:, channel::4] for channel in range(3)], axis=-1)


def clock(picture: ClusterPicture) -> str:
    """The day, from 1, and the time since slot 0, as in ", day 2, 13:30"; empty if the length of a slot is unknown."""
    minutes = picture.slot * picture.slot_seconds // 60
    return f", day {1 + minutes // 1440}, {minutes // 60 % 24:02}:{minutes % 60:02}" if picture.slot_seconds else ""


class Viewer:
    """Shows frames in a window that does not block; without a screen it warns once and does nothing."""

    def __init__(self) -> None:
        self._pyplot = import_module("matplotlib.pyplot")  # slow to load, and only needed here
        self._figure: Any = None
        self._silent = False

    def show(self, frame: Bytes) -> None:
        """Show one frame, (height, width, 3) RGB; a window that was closed by hand stays closed."""
        if self._figure is None and not self._silent:
            self._open(frame)
        if not self._silent and self._pyplot.fignum_exists(self._figure.number):
            self._figure.axes[0].images[0].set_data(frame)
            self._figure.canvas.draw_idle()
            self._figure.canvas.flush_events()

    def _open(self, frame: Bytes) -> None:
        try:
            self._figure = self._pyplot.figure(figsize=(frame.shape[1] / 100, frame.shape[0] / 100), dpi=100)
            self._silent = self._figure.canvas.required_interactive_framework is None
        except Exception:  # each toolkit has its own error for a screen that cannot be reached
            self._silent = True
        if self._silent:
            self.close()
            warnings.warn('no screen to draw on; render_mode="rgb_array" returns the frames instead', stacklevel=3)
        else:
            self._figure.add_axes((0, 0, 1, 1), frame_on=False).imshow(frame)
            self._figure.show()

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._figure is not None:
            self._pyplot.close(self._figure)
        self._figure = None
