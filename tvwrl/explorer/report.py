"""A page for papers on one episode, or on two of the same arrivals: loads, the queue, what it cost and which decisions
cost most."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.explorer.recording import (
    WAIT,
    Recording,
    check_same_arrivals,
    costliest_decisions,
    first_parting,
    machine_loads,
    slots_of,
    waiting_counts,
)
from tvwrl.explorer.words import (
    TERM_WORDS,
    alternative_in_words,
    number_in_words,
    savings,
    shortened,
    workload_in_words,
)
from tvwrl.packing import fits
from tvwrl.plotting import FAINT, OTHERS, OURS, new_figure, tidy
from tvwrl.runs import whole_file
from tvwrl.types import Float, InputError, Int, Machines

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


WIDTH = 7.0  # inches: two columns of a paper; in one column letters are half as high
DPI = 300  # of a PNG: in print
# Without the date and the version of the library the same episodes give the same bytes.
METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
INTERNALS: Any = {"svg.fonttype": "none", "svg.hashsalt": "tvwrl", "pdf.fonttype": 42, "hatch.linewidth": 0.5}
MARK: dict[str, Any] = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": "black", "linewidth": 0.7}
HEAD = ("", "slot", "workload", "choice", "cheapest", "regret", "largest term")
LANES = ("machine", "waiting", "overshoot\npenalty", "other\npenalties")
COLUMNS = (0.03, 0.08, 0.26, 0.15, 0.15, 0.12, 0.21)  # shares of the table's width


def draw_report(recordings: Sequence[Recording], machines: Machines, file: Path, decisions: int = 5) -> None:
    """Write a PNG, SVG or PDF, by the suffix of `file`, about one or two of `recordings` on these `machines`.

    From above: load of every machine over time, workloads waiting, penalties of each slot by term, for two recordings
    their difference so far, and a table of the costliest `decisions` of each, numbered as in the pictures.
    Raises InputError for another suffix or number of recordings, or for episodes of different arrivals.
    """
    from matplotlib import rc_context

    suffix = file.suffix.lower()
    if suffix not in METADATA:
        raise InputError(f"{file}: a report is one of {', '.join(METADATA)}")
    if len(recordings) not in (1, 2):
        raise InputError(f"{len(recordings)} recordings: a report is about one, or about two side by side")
    check_same_arrivals(recordings)
    with rc_context(INTERNALS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # names may be in any script
        figure = _Report(recordings, machines, decisions).draw()
        with whole_file(file) as partial:
            figure.savefig(partial, format=suffix[1:], dpi=DPI, metadata=METADATA[suffix])
            if suffix == ".svg":
                partial.write_text(_numbered(partial.read_text("utf-8")), "utf-8")


def _numbered(svg: str) -> str:
    """The same SVG with clip paths numbered as they come: matplotlib names them after addresses in memory."""
    for number, name in enumerate(re.findall(r'<clipPath id="(\w+)">', svg)):
        svg = svg.replace(f'<clipPath id="{name}">', f'<clipPath id="clip{number}">')
        svg = svg.replace(f'clip-path="url(#{name})"', f'clip-path="url(#clip{number})"')
    return svg


class _Report:
    def __init__(self, recordings: Sequence[Recording], machines: Machines, decisions: int) -> None:
        self._recordings, self._machines = recordings, machines
        self._slots = max(max(slots_of(recording) for recording in recordings), 1)  # of all, so that clocks agree
        self._costliest = [costliest_decisions(recording, decisions) for recording in recordings]
        self._parting = first_parting(*recordings) if len(recordings) == 2 else None

    def draw(self) -> Any:
        """The figure."""
        two = len(self._recordings) == 2
        rows = [max(1, len(found)) for found in self._costliest]
        tables = [0.4 + 0.155 * count for count in rows]
        pictures = [min(3.6, max(1.1, 0.15 * len(self._machines))), 0.4, 0.4, 0.8, *([0.8] if two else [])]
        figure = new_figure(WIDTH, sum(pictures) + sum(tables) + 0.85 + 0.25 * two, h_pad=0.03, w_pad=0.03, hspace=0.0)
        upper, lower = figure.subfigures(2, 1, height_ratios=(sum(pictures) + 0.85 + 0.25 * two, sum(tables)))
        self._draw_pictures(upper, pictures)
        cells = lower.subplots(len(tables), 1, squeeze=False, height_ratios=tables)[:, 0]
        for number, axis in enumerate(cells):
            self._draw_table(axis, number)
        return figure

    def _draw_pictures(self, figure: Any, heights: list[float]) -> None:
        count = len(self._recordings)
        grid = figure.add_gridspec(len(heights), count, height_ratios=heights)
        axes = np.array(
            [[figure.add_subplot(grid[row, column]) for column in range(count)] for row in range(len(LANES))]
        )
        for column, recording in enumerate(self._recordings):
            image = self._draw_loads(axes[0, column], recording, column)
            self._draw_queue(axes[1, column], recording)
            self._draw_penalties(axes[2, column], recording, ("overshoot",))
            self._draw_penalties(
                axes[3, column], recording, [term for term in TERM_WORDS.values() if term != "overshoot"]
            )
            self._mark_decisions(axes[:, column], column)
        add_load_bar(figure, image, axes[0, :])
        for row, what in enumerate(LANES):
            axes[row, 0].set_ylabel(what, fontsize=SMALL)
            highest = max(axis.get_ylim()[1] for axis in axes[row])
            for axis in axes[row, :] if row else ():
                axis.set_ylim(0, highest)
            for axis in axes[row, 1:]:
                axis.tick_params(labelleft=False)
        for axis in axes[:-1].ravel():
            axis.tick_params(labelbottom=False)
        last = axes[-1]
        if count == 2:
            last = [figure.add_subplot(grid[len(LANES), :])]
            self._draw_difference(last[0])
        for axis in {*axes.ravel(), *last}:
            axis.set_xlim(0, self._slots)
            count_slots(axis)
            if self._parting is not None:
                axis.axvline(self._parting, color="black", linestyle=(0, (3, 2)), linewidth=0.8)
        for axis in last:
            axis.set_xlabel("slot", fontsize=SMALL, labelpad=1)
        figure.legend(handles=term_patches(), loc="outside lower center", ncols=4, frameon=False, fontsize=SMALL)

    def _draw_loads(self, axis: Any, recording: Recording, column: int) -> Any:
        loads = machine_loads(recording.episode, self._machines, self._slots)
        image = draw_heat_map(axis, load_shares(loads, self._machines))
        number_machines(axis, np.arange(len(self._machines)))
        total = number_in_words(float(recording.penalties.sum()))
        letter = f"{'AB'[column]}: " if len(self._recordings) == 2 else ""
        title = f"{letter}{shortened(recording.episode.scheduler, 30)}, penalty {total}"
        axis.set_title(title, fontsize=PLAIN, parse_math=False)
        return image

    def _draw_queue(self, axis: Any, recording: Recording) -> None:
        counts = waiting_counts(recording.episode, self._slots)
        axis.stairs(counts, np.arange(self._slots + 1), fill=True, color=OTHERS)
        axis.set_ylim(0, max(1, int(counts.max(initial=0))))
        _finish(axis, 2)

    def _draw_penalties(self, axis: Any, recording: Recording, terms: Sequence[str]) -> None:
        """Those of each slot, stacked; overshoot has an axis of its own, as beside it no other would be seen."""
        values = dict(zip(TERM_WORDS.values(), recording.penalties.T, strict=True))
        below = np.zeros(len(recording.penalties))
        for term in terms if len(below) else ():
            edges = np.arange(len(below) + 1)
            style = term_style(term) | ({"hatch": ""} if term == "overshoot" else {})  # one slot is too narrow for it
            axis.stairs(below + values[term], edges, baseline=below, fill=True, **style)
            below = below + values[term]
        axis.set_ylim(0, max(1.0, 1.05 * float(below.max(initial=0.0))))
        _finish(axis, 2 if len(terms) == 1 else 3)

    def _mark_decisions(self, axes: Any, column: int) -> None:
        """The number of each costly decision where it was taken, on its machine or, if it was to wait, in the queue."""
        recording = self._recordings[column]
        for number, k in enumerate(self._costliest[column], start=1):
            machine = int(recording.chosen[k])
            axis, at = (axes[1], axes[1].get_ylim()[1] / 2) if machine == WAIT else (axes[0], machine)
            where = (int(recording.slot[k]) + 0.5, at)
            axis.annotate(
                str(number), where, ha="center", va="center", fontsize=SMALL, bbox=MARK, annotation_clip=False
            )

    def _draw_difference(self, axis: Any) -> None:
        """Penalties of B so far less those of A; where one has ended its sum stays."""
        sums = []
        for recording in self._recordings:
            padded = np.zeros(self._slots + 1)
            padded[1 : len(recording.penalties) + 1] = recording.penalties.sum(axis=1)
            sums.append(padded.cumsum())
        difference, at = sums[1] - sums[0], np.arange(self._slots + 1)
        axis.fill_between(at, difference, 0, where=difference >= 0, color=OTHERS, alpha=0.35, linewidth=0)
        axis.fill_between(at, difference, 0, where=difference <= 0, color=OURS, alpha=0.35, linewidth=0)
        axis.plot(at, difference, color="black", linewidth=0.9)
        axis.axhline(0, color="black", linewidth=0.5)
        end = float(difference[-1])
        outcome = (
            f"B costs {number_in_words(abs(end))} {'more' if end > 0 else 'less'} in total"
            if end
            else "they cost the same"
        )
        same, first = "All placements are the same", f"First different placement: slot {self._parting} (dashed line)"
        axis.set_title(f"{same if self._parting is None else first}; {outcome}", fontsize=PLAIN)
        axis.set_ylabel("B − A,\ncumulative", fontsize=SMALL)
        _finish(axis, 3)

    def _draw_table(self, axis: Any, number: int) -> None:
        recording, found = self._recordings[number], self._costliest[number]
        axis.set_axis_off()
        letter = f"{'AB'[number]}: " if len(self._recordings) == 2 else ""
        if not found:
            axis.set_title(f"{letter}{_why_none(recording)}", fontsize=PLAIN, loc="left")
            return
        after = shortened(recording.continued_by, 40)
        axis.set_title(
            f"{letter}costliest decisions, by regret (cost above the cheapest); {after} makes all later decisions",
            fontsize=PLAIN,
            loc="left",
            parse_math=False,
        )
        rows = [HEAD, *([str(place), *_row(recording, k)] for place, k in enumerate(found, start=1))]
        left = np.cumsum((0.0, *COLUMNS))
        for line, row in enumerate(rows):
            y = 1 - (line + 0.5) / len(rows)
            for column, text in enumerate(row):
                right = column in (1, 5)
                x = left[column + 1] - 0.03 if right else left[column]
                axis.text(
                    x,
                    y,
                    text,
                    fontsize=SMALL,
                    ha="right" if right else "left",
                    va="center",
                    parse_math=False,
                    color="#555555" if line == 0 else "black",
                    transform=axis.transAxes,
                )
        axis.axhline(1 - 1 / len(rows), color=OTHERS, linewidth=0.5)


def _why_none(recording: Recording) -> str:
    """Why there is no costly decision."""
    if len(recording) == 0:
        return "nothing was decided"
    simulated = bool(recording.simulated.any())
    return "no decision had a cheaper alternative" if simulated else "no alternative was simulated"


def _finish(axis: Any, ticks: int) -> None:
    """Small letters, few ticks with commas between thousands, a faint grid."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.yaxis.set_major_locator(MaxNLocator(ticks, integer=True))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.tick_params(labelsize=SMALL, length=2)
    tidy(axis, "y")


def _row(recording: Recording, k: int) -> list[str]:
    """A decision's cells below `HEAD`, without its number."""
    term, saved = next(iter(savings(recording, k).items()))
    return [
        f"{int(recording.slot[k]):,}",
        workload_in_words(recording, k, 26),
        alternative_in_words(int(recording.chosen[k])),
        alternative_in_words(int(recording.machines[k, recording.best[k]])),
        number_in_words(float(recording.regret[k])),
        f"{number_in_words(saved)} {TERM_WORDS[term]}",
    ]
