"""What all pictures share: colours, a figure that needs no display, axes without clutter, and a chart of estimates."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from tvwrl.checks import different
from tvwrl.types import InputError

# Okabe and Ito (2008): told apart with every common colour blindness; yellow is left out, too pale on white.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F")
OURS, OTHERS, PUBLISHED, RANGE = "#D55E00", "#4A5561", "#0072B2", "#BFDDF0"
FAINT, BAND = "#DDDDDD", "#F3F4F6"  # lines; every other row that has several points
DIAMOND: dict[str, Any] = {"ms": 6.5, "color": PUBLISHED, "mfc": "white", "mew": 1.3}  # a published value
MARKERS = "os^vPX*p"  # of what a chart shows several times in a row, such as loads
DPI = 150
WIDTH = 8.0  # inches: pages show pictures about 800 pixels wide, so that a letter of 9 points is 12 pixels high
HEADING = 24  # letters of a group's heading in a line, more if a row's name has more
LETTERS = (80, 34, 25, 18)  # across a panel, of one, two, three and more side by side
SHIFT = 0.4  # of the points of a row against each other, if there are several
SHORT_AXIS = 100  # largest over smallest value of a logarithmic axis, up to which it has labels between decades


def new_figure(width: float, height: float, **layout: Any) -> Any:
    """A matplotlib figure of this size in inches that needs no display; `layout`: its constrained layout's paddings."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(**layout))
    FigureCanvasAgg(figure)
    return figure


def people_call(resource: str) -> str:
    """A resource's name in words: CPU for cpu, memory for mem, and others as they are."""
    return {"cpu": "CPU", "mem": "memory"}.get(resource, resource)


def tidy(axis: Any, grid: str = "both") -> None:
    """A faint grid behind the data, along `grid` (x, y or both), and no frame above and to the right."""
    axis.grid(axis=grid, color=FAINT, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def scale_logarithmically(axis: Any) -> None:
    """Make a drawn x or y axis (`axes.xaxis`) logarithmic, with plain numbers that do not run into each other: at 1, 2
    and 5, or if it is long at decades only."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    if high < SHORT_AXIS * low:
        axis.set_view_interval(low / 1.5, high * 1.5, ignore=True)  # there is a label then, however short it was
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}" if value >= 1e-4 else f"{value:.0e}"))
    axis.set_minor_formatter(NullFormatter())


class Point(NamedTuple):
    """A mean and its 95 % interval; the ends are NaN where there is no interval, all three where nothing is known."""

    value: float
    low: float = math.nan
    high: float = math.nan


NOTHING = Point(math.nan)


class Row(NamedTuple):
    """A row of a chart of estimates."""

    name: str  # what people call it
    group: str = ""  # rows of a group stand under its heading; rows without come under none
    ours: bool = False  # drawn in the strong colour


@dataclass(frozen=True)
class Panel:
    """One quantity of a chart, by name of the row: a point for each of the chart's series."""

    title: str  # with the unit, and which direction is better
    points: Mapping[str, Sequence[Point]]
    published: Mapping[str, Sequence[tuple[float, float]]] = field(
        default_factory=dict
    )  # (low, high): alike, a range, or one end infinite where only a limit was published
    logarithmic: bool | None = False  # None: if it can be, as all values are above 0
    axis: str = ""  # panels that name the same axis have the same ends

    @property
    def is_logarithmic(self) -> bool:
        """Whether its axis is."""
        return all(value > 0 for value in _values(self)) if self.logarithmic is None else self.logarithmic


def draw_estimates(
    file: Path,
    rows: Sequence[Row],
    panels: Sequence[Panel],
    series: Sequence[str] = ("",),
    note: str = "",
    across: int | None = None,
    sides: tuple[str, str] = ("this project's", "others"),
    caption: str = "",
    lines: str = "95 % intervals",
) -> None:
    """A PNG of points with intervals: one row each, in the order given, under the headings of their groups.

    Panels share the rows and stand side by side, at most `across`; default: three, or two if there are four. `series`
    names what is shown several times in a row: of two, the first is a ring. Published values are diamonds, ranges
    bands, limits triangles that point to where the value may lie.

    Below stand `note`, what the means are over, or another `caption`; what the `lines` of points are, if any has one;
    and `sides`, what the strong colour and the other stand for.

    Raises InputError if there is nothing to draw, a row occurs twice, a panel has a row that is not there or another
    number of points than there are series, or a value on a logarithmic axis is not above 0.
    """
    _check(rows, panels, series)
    places = _places(rows, len(series))
    across = min(across or (2 if len(panels) == 4 else 3), len(panels))
    down = -(-len(panels) // across)
    bottom = max(places.values()) + 0.5 + 0.5 * _height(len(series))
    figure = new_figure(WIDTH, 0.21 * bottom * down + 0.55 * down + 0.85, w_pad=0.06, h_pad=0.06)
    axes = figure.subplots(down, across, squeeze=False, sharey=True)
    for place, axis in enumerate(axes.ravel()):
        if place >= len(panels):
            axis.set_visible(False)
            continue
        _draw_panel(axis, panels[place], rows, places, len(series))
        _scale(axis, [panel for panel in panels if panel is panels[place] or panel.axis == panels[place].axis != ""])
        _tick(axis, letters := LETTERS[min(across, len(LETTERS)) - 1])
        axis.set_title(_wrapped(panels[place].title, letters), fontsize=9.5)
    for axis in axes[:, 0]:
        _name_rows(axis, rows, places)
    axes[0, 0].set_ylim(bottom, 0.2 if rows[0].group else 0.4)
    said = caption or (f"Means over {note}" if note else "")
    if _has_intervals(panels):
        said = f"{said}; lines: {lines}" if said else f"Lines: {lines}"
    _add_legend(figure, rows, panels, series, said, sides)
    figure.savefig(file, dpi=DPI, format="png")


def _check(rows: Sequence[Row], panels: Sequence[Panel], series: Sequence[str]) -> None:
    if not rows or not panels:
        raise InputError("no rows or no panels: nothing to draw")
    different(rows=[row.name for row in rows], series=series)
    for panel in panels:
        strangers = sorted({*panel.points, *panel.published} - {row.name for row in rows})
        if strangers:
            raise InputError(f"panel '{panel.title}' has '{strangers[0]}', which is not a row of this chart")
        for name, points in [*panel.points.items(), *panel.published.items()]:
            if len(points) != len(series):
                raise InputError(f"panel '{panel.title}', row '{name}': has {len(points)} points, not {len(series)}")
        if panel.logarithmic and not all(value > 0 for value in _values(panel)):
            raise InputError(f"panel '{panel.title}' is logarithmic: all its values must be above 0")


def _values(panel: Panel) -> Iterable[float]:
    """Every number of a panel that is known: means, ends of intervals, published values."""
    every = [*panel.points.values(), *panel.published.values()]
    return (value for points in every for point in points for value in point if math.isfinite(value))


def _has_intervals(panels: Sequence[Panel]) -> bool:
    return any(math.isfinite(point.low) for panel in panels for points in panel.points.values() for point in points)


def _height(series: int) -> float:
    """Of a row, in rows of one point."""
    return 1.0 + SHIFT * max(0.4 * (series > 1), series - 1.6)


def _places(rows: Sequence[Row], series: int) -> dict[str, float]:
    """Row -> y of its middle, downwards, and heading, which begins with a line feed, so that no row has its name."""
    places, bottom, group, letters = {}, 0.5, "", max(HEADING, *(len(row.name) for row in rows))
    for row in rows:
        if row.group != group:
            group = row.group
            heading = f"\n{_wrapped(group, letters)}"
            places[heading] = bottom + 0.5 * heading.count("\n") + 0.2
            bottom += heading.count("\n") + 0.3
        places[row.name] = bottom + 0.5 * _height(series)
        bottom += _height(series)
    return places


def _wrapped(text: str, width: int) -> str:
    """In lines of at most `width` letters; what is in brackets begins one if all does not fit in one."""
    parts = [text] if len(text) <= width else text.replace(" (", "\n(").split("\n")
    return "\n".join(fill(part, width) for part in parts)


def _draw_panel(axis: Any, panel: Panel, rows: Sequence[Row], places: Mapping[str, float], series: int) -> None:
    for number, row in enumerate(rows):
        if number % 2 == 0 and series > 1:
            middle, half = places[row.name], 0.5 * _height(series)
            axis.axhspan(middle - half, middle + half, color=BAND, linewidth=0, zorder=0)
        colour = OURS if row.ours else OTHERS
        points, published = panel.points.get(row.name, ()), panel.published.get(row.name, ())
        several = sum(math.isfinite(point.value) for point in points) > 1 or len(published) > 1
        for turn in range(series):
            at = places[row.name] + SHIFT * (turn - (series - 1) / 2) * several
            if published:
                _draw_published(axis, at, *published[turn], MARKERS[turn % len(MARKERS)] if series > 2 else "d")
            if points:
                value, low, high = points[turn]
                axis.plot((low, high), (at, at), color=colour, linewidth=1.8, solid_capstyle="butt", zorder=3)
                axis.plot(value, at, ls="", ms=5, zorder=4, **_mark(turn, series, colour))
    for name, at in list(places.items())[1:]:
        if name.startswith("\n"):
            axis.axhline(at - 0.2 - 0.5 * name.count("\n"), color=FAINT, linewidth=0.8)
    if min(_values(panel), default=0.0) < 0 < max(_values(panel), default=0.0):
        axis.axvline(0, color=OTHERS, linewidth=0.9, zorder=1)  # a change for the better on one side of it
    axis.tick_params(axis="x", labelsize=9)
    axis.tick_params(axis="y", length=0)
    tidy(axis, "x")


def _draw_published(axis: Any, at: float, low: float, high: float, mark: str) -> None:
    if math.isfinite(high - low) and low < high:
        axis.barh(at, high - low, 0.4, low, color=RANGE, zorder=1)
    else:
        marker = mark if low == high else "<" if math.isfinite(high) else ">"
        axis.plot(high if marker == "<" else low, at, marker, zorder=2, **DIAMOND)


def _mark(turn: int, series: int, colour: str) -> dict[str, Any]:
    """A mark for each of several points in a row: ring and dot for two, else of other shapes."""
    ring = series == 2 and turn == 0
    marker = MARKERS[turn % len(MARKERS)] if series > 2 else "o"
    return {"marker": marker, "color": colour, "mfc": "white" if ring else colour, "mew": 1.3 if ring else 0.5}


def _scale(axis: Any, panels: Sequence[Panel]) -> None:
    """Ends that fit all `panels` with this axis; a linear one begins at 0 unless all values are far from it."""
    values = [value for panel in panels for value in _values(panel)]
    if not values:
        return
    low, high = min(values), max(values)
    if panels[0].is_logarithmic:
        axis.set_xscale("log")
        axis.set_xlim(*_decades(low, high))
    elif low >= 0 and low < 0.6 * high:
        axis.set_xlim(-0.04 * high, 1.06 * high)
    else:
        margin = (0.1 * abs(high) if high - low < 0.02 * abs(high) else 0.05 * (high - low)) or 1.0
        axis.set_xlim(low - margin, high + margin)


def _decades(low: float, high: float) -> tuple[float, float]:
    """Ends of a logarithmic axis with a margin, at the next power of 10 if that is near, as it has a label."""
    margin = max(1.05, (high / low) ** 0.05)
    below, above = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
    return min(low, below if below > low / 2 else low) / margin, max(high, above if above < 2 * high else high) * margin


def _tick(axis: Any, letters: int) -> None:
    """Few enough ticks that their labels stay apart on an axis as long as so many letters."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axis.xaxis.set_major_formatter(FuncFormatter(_plainly))
    low, high = axis.get_xlim()
    if axis.get_xscale() == "linear":
        longest = len(_plainly(float(f"{high:.2g}"))) + 1
        axis.xaxis.set_major_locator(MaxNLocator(min(4, max(2, letters // longest))))
        return
    decades = math.log10(high / low)
    many = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if letters > LETTERS[2] else (1.0, 3.0)
    subs = (1.0,) if decades > 1.7 else (1.0, 3.0) if decades > 1.2 else many
    axis.xaxis.set_major_locator(LogLocator(subs=subs))
    axis.xaxis.set_minor_locator(NullLocator())


def _plainly(value: float, _: object = None) -> str:
    return f"{value:,.6g}"


def _name_rows(axis: Any, rows: Sequence[Row], places: Mapping[str, float]) -> None:
    """Names left of the rows, ours in bold, and headings in italics."""
    axis.set_yticks(list(places.values()), [name.removeprefix("\n") for name in places])
    axis.tick_params(axis="y", labelsize=9)
    ours = {row.name for row in rows if row.ours}
    for label, name in zip(axis.get_yticklabels(), places, strict=True):
        if name.startswith("\n"):
            label.set(style="italic", color="#555555")
        elif name in ours and len(ours) < len(rows):
            label.set(weight="bold")


def _add_legend(
    figure: Any,
    rows: Sequence[Row],
    panels: Sequence[Panel],
    series: Sequence[str],
    said: str,
    sides: tuple[str, str],
) -> None:
    """Below the panels: what colours and marks mean, under a line on what is shown."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    given = [pair for panel in panels for pairs in panel.published.values() for pair in pairs]
    line: dict[str, Any] = {"marker": "o", "lw": 1.8 * _has_intervals(panels), "ms": 5}
    names = dict(zip((True, False), sides, strict=True)) if len({row.ours for row in rows}) > 1 else {}
    if given and not names and len(series) == 1:
        names = {rows[0].ours: "measured"}
    handles: list[Any] = [
        Line2D([], [], color=OURS if ours else OTHERS, label=name, **line) for ours, name in names.items()
    ]
    if len(series) > 1:
        handles += [
            Line2D([], [], ls="", ms=5, label=name, **_mark(turn, len(series), "#222222"))
            for turn, name in enumerate(series)
        ]
    if any(low == high for low, high in given):
        marker, label = ("o", "published (hollow)") if len(series) > 2 else ("d", "published")
        handles += [Line2D([], [], ls="", marker=marker, label=label, **DIAMOND)]
    if any(low < high and math.isfinite(high - low) for low, high in given):
        handles += [Patch(color=RANGE, label="published range")]
    if any(high == math.inf for _, high in given):
        handles += [Line2D([], [], ls="", marker=">", label="published: more than", **DIAMOND)]
    if any(low == -math.inf for low, _ in given):
        handles += [Line2D([], [], ls="", marker="<", label="published: at most", **DIAMOND)]
    most = 5 if sum(len(handle.get_label()) for handle in handles) < 60 else 4
    columns = -(-len(handles) // max(1, -(-len(handles) // most)))  # as few lines as can be, filled evenly
    legend = figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=max(1, columns),
        frameon=False,
        fontsize=9,
        title=fill(said, 100),
        title_fontsize=9,
    )
    legend.get_title().set_multialignment("center")


def ranked(rows: Iterable[Row], cost: Mapping[str, float], groups: Collection[str] = ()) -> list[Row]:
    """The rows in the order of `groups`, others last, and within a group by rising cost (by name of the row).

    >>> rows = [Row("b", "x"), Row("a", "x"), Row("c", "y")]
    >>> [row.name for row in ranked(rows, {"a": 1, "b": 2, "c": 3}, ["y", "x"])]
    ['c', 'a', 'b']
    """
    order = list(groups)
    return sorted(rows, key=lambda row: (order.index(row.group) if row.group in order else len(order), cost[row.name]))
