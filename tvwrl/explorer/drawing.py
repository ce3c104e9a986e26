"""What the explorer's pictures share: the heat map of machines over time, and colours of the four penalties.

Told apart by every eye and on a printer without colour: load goes from white to a middling blue, overshoot is the
darkest of all and hatched, and the penalties differ in lightness as well as in hue or have a pattern.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvwrl.explorer.words import TERM_WORDS
from tvwrl.packing import fits
from tvwrl.plotting import FAINT
from tvwrl.types import Float, Int, Machines

EMPTY, FULL, OVER = "#F7F9FB", "#5B9DCB", "#A8071A"  # no load, as much as the capacity, and more
MOST_LINES = 40  # machines between which there are lines
HATCH = "////"
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)  # between machines with a number
SMALL, PLAIN = 7.0, 8.0  # points: the least that can be read in print, and of titles
TERM_COLOURS = {"contention": "#0072B2", "under-utilisation": "#A6D4F2", "overshoot": OVER, "waiting": "#E69F00"}
TERM_HATCHES = {"contention": "", "under-utilisation": "", "overshoot": HATCH, "waiting": "...."}


def load_shares(loads: Float, machines: Machines, chosen: Int | None = None) -> Float:
    """(M, T) load of the fullest resource as a share of its capacity: 0..1 where it fits, above 1 where it does not.

    `loads`: (T, M, D) units. NaN: the machine is switched off. `chosen`: only these machines, in this order.
    """
    rows = np.arange(len(machines)) if chosen is None else chosen
    loads, capacity = loads[:, rows], machines.capacity[rows]
    share = (loads / np.where(capacity > 0, capacity, 1.0)).max(axis=2)
    fitting = fits(loads, capacity, capacity)
    share = np.where(fitting, np.minimum(share, 1.0), np.maximum(share, np.nextafter(1.0, 2.0)))
    share[:, (capacity == 0).all(axis=1)] = np.nan
    shares: Float = share.T
    return shares


def colour_map() -> Any:
    """Load as a share of the capacity -> colour; what is above 1 and machines that are off have their own."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("load", [EMPTY, FULL]).with_extremes(over=OVER, bad=FAINT)


def draw_heat_map(axis: Any, shares: Float, first_slot: int = 0) -> Any:
    """Machines downwards, slots to the right from `first_slot` on; returns what a colour bar is made for.

    Overshoot is drawn once more as hatched boxes of a least width: a slot may be narrower than a pixel.
    """
    image = axis.imshow(
        shares,
        cmap=colour_map(),
        vmin=0.0,
        vmax=1.0,
        aspect="auto",
        interpolation="none",  # in an SVG the cells themselves, not what they look like at one resolution
        extent=(first_slot, first_slot + shares.shape[1], shares.shape[0] - 0.5, -0.5),
    )
    over = np.pad(shares > 1.0, ((0, 0), (1, 1))).astype(np.int8)
    for row, changes in enumerate(np.diff(over, axis=1)):
        begin, end = np.flatnonzero(changes == 1), np.flatnonzero(changes == -1)
        spans = [(first_slot + int(a), int(b - a)) for a, b in zip(begin, end, strict=True)]
        if spans:
            axis.broken_barh(spans, (row - 0.5, 1.0), facecolor=OVER, edgecolor=OVER, linewidth=0.5)
            axis.broken_barh(spans, (row - 0.5, 1.0), facecolor="none", edgecolor="white", hatch=HATCH, linewidth=0)
    for row in range(1, shares.shape[0] if shares.shape[0] <= MOST_LINES else 0):
        axis.axhline(row - 0.5, color="white", linewidth=0.8)
    axis.tick_params(labelsize=SMALL, length=2)
    count_slots(axis)
    return image


def count_slots(axis: Any) -> None:
    """Whole slots along the x axis, with commas between thousands."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def number_machines(axis: Any, numbers: Int, most: int = 11) -> None:
    """Label rows with the machines' numbers, every second, fifth, ... one where there are more than `most`."""
    step = next(step for step in STEPS if len(numbers) <= most * step)
    rows = np.arange(0, len(numbers), step)
    axis.set_yticks(rows, [str(number) for number in numbers[rows]])


def add_load_bar(figure: Any, image: Any, axes: Any) -> None:
    """What the heat map's colours mean, to the right of `axes`."""
    bar = figure.colorbar(image, ax=axes, extend="max", aspect=20, pad=0.01, ticks=[0, 0.5, 1])
    bar.ax.set_yticklabels(["0", "half", "full"])
    bar.ax.tick_params(labelsize=SMALL, length=2)
    bar.ax.set_title("over", fontsize=SMALL, color=OVER, pad=3)
    bar.set_label("load of the fullest resource", fontsize=SMALL)
    bar.outline.set_linewidth(0.4)


def term_patches() -> list[Any]:
    """Handles of a legend of the four penalties."""
    from matplotlib.patches import Patch

    return [Patch(label=term, **term_style(term)) for term in TERM_WORDS.values()]


def term_style(term: str) -> dict[str, Any]:
    """How areas and bars of a penalty are filled."""
    hatch = TERM_HATCHES[term]
    return {"facecolor": TERM_COLOURS[term], "hatch": hatch, "edgecolor": "white" if hatch else "none", "linewidth": 0}
