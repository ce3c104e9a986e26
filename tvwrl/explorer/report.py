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
    WAITING,
    Recording,
    costliest_decisions,
    machine_loads,
    shortened,
    why_none_is_costly,
)
from tvwrl.packing import fits
from tvwrl.plotting import FAINT, OTHERS, OURS, new_figure, tidy
from tvwrl.runs import whole_file
from tvwrl.types import Float, InputError, Int, Machines

EMPTY, FULL, OVER = "#F7F9FB", "#5B9DCB", "#A8071A"  # no load, as much as the capacity, and more
MOST_LINES = 40  # machines between which there are lines
MOST_NUMBERS = 11  # machines with a number; of more, every second, fifth, ... one has it
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)  # between machines with a number
SMALL, PLAIN = 7.0, 8.0  # points: the least that can be read in print, and of titles
HATCH = "////"
# How areas of each penalty are filled: with a colour, and with a hatch that can be told apart in grey
TERM_COLOURS = {
    "contention": "#0072B2",
    "under-utilisation": "#A6D4F2",
    "overshoot": OVER,
    "waiting": "#E69F00",
    "moves": "#009E73",
}
TERM_HATCHES = {"contention": "", "under-utilisation": "", "overshoot": HATCH, "waiting": "....", "moves": "//"}
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
COLUMNS = (0.03, 0.08, 0.26, 0.15, 0.15, 0.12, 0.21)  # shares of the table's width
NUMBERS = (1, 5)  # columns of the table that are aligned at the right
LANES = ("machine", "waiting", "overshoot\npenalty", "other\npenalties")


def draw_report(recordings: Sequence[Recording], machines: Machines, file: Path, decisions: int = 5) -> None:
    """Draw one recording, or two beside each other, on a page for papers.

    From above: load of every machine over time, workloads waiting, penalties of each slot by term, for two recordings
    their difference so far, and a table of the costliest decisions of each, numbered as in the pictures.

    Parameters
    ----------
    recordings : sequence of Recording
        One, or two of the same arrivals.
    machines : Machines
        Those that the episodes ran on.
    file : Path
        What to write: its suffix is .png, .svg or .pdf.
    decisions : int
        Rows of each table, at most, >= 0.

    Returns
    -------
    None
        It is in the file. The same recordings give the same bytes.

    Raises
    ------
    InputError
        For another suffix or number of recordings, and for episodes of different arrivals.

    Examples
    --------
    >>> draw_report([recording], runner.machines, Path("report.pdf"))  # doctest: +SKIP
    """
    from matplotlib import rc_context

    suffix = file.suffix.lower()
    if suffix not in METADATA:
        raise InputError(f"{file}: a report is one of {', '.join(METADATA)}")
    if len(recordings) not in (1, 2):
        raise InputError(f"{len(recordings)} recordings: a report is about one, or about two side by side")
    first = recordings[0].episode
    for other in (recording.episode for recording in recordings[1:]):
        if not (np.array_equal(first.workload_id, other.workload_id) and np.array_equal(first.arrival, other.arrival)):
            raise InputError(
                f"'{first.scheduler}' and '{other.scheduler}' were recorded on different arrivals: "
                "a report compares schedulers on the same sequence only"
            )
    with rc_context(INTERNALS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # names may be in any script
        figure = _Report(recordings, machines, decisions).draw()
        with whole_file(file) as partial:
            figure.savefig(partial, format=suffix[1:], dpi=DPI, metadata=METADATA[suffix])
            if suffix == ".svg":  # matplotlib names clip paths after addresses in memory: number them as they come
                svg = partial.read_text("utf-8")
                for number, name in enumerate(re.findall(r'<clipPath id="(\w+)">', svg)):
                    svg = svg.replace(f'<clipPath id="{name}">', f'<clipPath id="clip{number}">')
                    svg = svg.replace(f'clip-path="url(#{name})"', f'clip-path="url(#clip{number})"')
                partial.write_text(svg, "utf-8")


def load_shares(loads: Float, machines: Machines) -> Float:
    """(M, T) load of the fullest resource as a share of its capacity: 0..1 where it fits, above 1 where it does not.

    `loads`: (T, M, D) units. NaN: the machine is switched off.
    """
    capacity = machines.capacity
    share = (loads / np.where(capacity > 0, capacity, 1.0)).max(axis=2)
    fitting = fits(loads, capacity, capacity)
    share = np.where(fitting, np.minimum(share, 1.0), np.maximum(share, np.nextafter(1.0, 2.0)))
    share[:, (capacity == 0).all(axis=1)] = np.nan
    shares: Float = share.T
    return shares


def number_in_words(value: float) -> str:
    """Three digits or, from 100 on, all before the decimal point, with commas between thousands.

    >>> number_in_words(31204.4), number_in_words(2.3456)
    ('31,204', '2.35')
    """
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def _term_style(term: str) -> dict[str, Any]:
    """How areas and bars of a penalty are filled."""
    hatch = TERM_HATCHES[term]
    return {"facecolor": TERM_COLOURS[term], "hatch": hatch, "edgecolor": "white" if hatch else "none", "linewidth": 0}


class _Report:
    def __init__(self, recordings: Sequence[Recording], machines: Machines, decisions: int) -> None:
        self._recordings, self._machines = recordings, machines
        ends = [max(len(one.penalties), int(one.episode.finish.max(initial=0))) for one in recordings]
        self._slots = max(*ends, 1)  # of all, so that clocks agree
        self._costliest = [costliest_decisions(recording, decisions) for recording in recordings]
        self._letters = ("A: ", "B: ") if len(recordings) == 2 else ("",)
        self._parting: int | None = None  # first slot in which one places a workload otherwise than the other
        if len(recordings) == 2:
            one, other = (recording.episode for recording in recordings)
            differ = (one.start != other.start) | (one.machine != other.machine)
            starts = np.concatenate([one.start[differ], other.start[differ]])
            self._parting = int(starts[starts >= 0].min()) if differ.any() else None

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
        """A column for each recording, of lanes one above the other; below both, of two, their difference."""
        from matplotlib.patches import Patch
        from matplotlib.ticker import MaxNLocator

        count = len(self._recordings)
        grid = figure.add_gridspec(len(heights), count, height_ratios=heights)
        axes = np.array([[figure.add_subplot(grid[lane, column]) for column in range(count)] for lane in range(4)])
        for column, recording in enumerate(self._recordings):
            image = self._draw_loads(axes[0, column], recording, self._letters[column])
            waiting = self._waiting(recording)
            axes[1, column].stairs(waiting, np.arange(self._slots + 1), fill=True, color=OTHERS)
            axes[1, column].set_ylim(0, max(1, int(waiting.max(initial=0))))
            _finish(axes[1, column], 2)
            self._draw_penalties(axes[2, column], recording, ["overshoot"])
            self._draw_penalties(axes[3, column], recording, [term for term in recording.terms if term != "overshoot"])
            self._mark_decisions(axes[:, column], column)
        bar = figure.colorbar(image, ax=axes[0, :], extend="max", aspect=20, pad=0.01, ticks=[0, 0.5, 1])
        bar.ax.set_yticklabels(["0", "half", "full"])
        bar.ax.tick_params(labelsize=SMALL, length=2)
        bar.ax.set_title("over", fontsize=SMALL, color=OVER, pad=3)
        bar.set_label("load of the fullest resource", fontsize=SMALL)
        bar.outline.set_linewidth(0.4)
        for lane, what in enumerate(LANES):
            axes[lane, 0].set_ylabel(what, fontsize=SMALL)
            highest = max(axis.get_ylim()[1] for axis in axes[lane])
            for axis in axes[lane, :] if lane else ():
                axis.set_ylim(0, highest)
            for axis in axes[lane, 1:]:
                axis.tick_params(labelleft=False)
        for axis in axes[:-1].ravel():
            axis.tick_params(labelbottom=False)
        last = axes[-1]
        if count == 2:
            last = [figure.add_subplot(grid[len(LANES), :])]
            self._draw_difference(last[0])
        for axis in {*axes.ravel(), *last}:
            axis.set_xlim(0, self._slots)
            axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
            axis.xaxis.set_major_formatter("{x:,.0f}")
            if self._parting is not None:
                axis.axvline(self._parting, color="black", linestyle=(0, (3, 2)), linewidth=0.8)
        for axis in last:
            axis.set_xlabel("slot", fontsize=SMALL, labelpad=1)
        patches = [Patch(label=term, **_term_style(term)) for term in self._recordings[0].terms]
        figure.legend(handles=patches, loc="outside lower center", ncols=4, frameon=False, fontsize=SMALL)

    def _draw_loads(self, axis: Any, recording: Recording, letter: str) -> Any:
        """Machines downwards, slots to the right; returns what a colour bar is made for.

        Overshoot is drawn once more as hatched boxes of a least width: a slot may be narrower than a pixel.
        """
        from matplotlib.colors import LinearSegmentedColormap

        shares = load_shares(machine_loads(recording.episode, self._machines, self._slots), self._machines)
        colours = LinearSegmentedColormap.from_list("load", [EMPTY, FULL]).with_extremes(over=OVER, bad=FAINT)
        image = axis.imshow(
            shares,
            cmap=colours,
            vmin=0.0,
            vmax=1.0,
            aspect="auto",
            interpolation="none",  # in an SVG the cells themselves, not what they look like at one resolution
            extent=(0, shares.shape[1], shares.shape[0] - 0.5, -0.5),
        )
        over = np.pad(shares > 1.0, ((0, 0), (1, 1))).astype(np.int8)
        for row, changes in enumerate(np.diff(over, axis=1)):
            begin, end = np.flatnonzero(changes == 1), np.flatnonzero(changes == -1)
            spans = [(int(a), int(b - a)) for a, b in zip(begin, end, strict=True)]
            if spans:
                axis.broken_barh(spans, (row - 0.5, 1.0), facecolor=OVER, edgecolor=OVER, linewidth=0.5)
                axis.broken_barh(spans, (row - 0.5, 1.0), facecolor="none", edgecolor="white", hatch=HATCH, linewidth=0)
        for row in range(1, shares.shape[0] if shares.shape[0] <= MOST_LINES else 0):
            axis.axhline(row - 0.5, color="white", linewidth=0.8)
        axis.tick_params(labelsize=SMALL, length=2)
        step = next(step for step in STEPS if len(shares) <= MOST_NUMBERS * step)
        axis.set_yticks(range(0, len(shares), step))
        total = number_in_words(float(recording.penalties.sum()))
        title = f"{letter}{shortened(recording.episode.scheduler, 30)}, penalty {total}"
        axis.set_title(title, fontsize=PLAIN, parse_math=False)
        return image

    def _waiting(self, recording: Recording) -> Int:
        """(T,) workloads that have arrived and do not run yet."""
        episode, slots = recording.episode, self._slots
        until = np.where(episode.start >= 0, episode.start, slots)
        changes = np.zeros(slots + 1, np.int64)
        np.add.at(changes, np.minimum(episode.arrival, slots), 1)
        np.add.at(changes, np.minimum(np.maximum(until, episode.arrival), slots), -1)
        counts: Int = changes.cumsum()[:slots]
        return counts

    def _draw_penalties(self, axis: Any, recording: Recording, terms: Sequence[str]) -> None:
        """Those of each slot, stacked; overshoot has an axis of its own, as beside it no other would be seen."""
        values = dict(zip(recording.terms, recording.penalties.T, strict=True))
        below = np.zeros(len(recording.penalties))
        for term in terms if len(below) else ():
            edges = np.arange(len(below) + 1)
            style = _term_style(term) | ({"hatch": ""} if term == "overshoot" else {})  # one slot is too narrow for it
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
            style = {"ha": "center", "va": "center", "fontsize": SMALL, "bbox": MARK}
            axis.annotate(str(number), where, annotation_clip=False, **style)

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
        """The costliest decisions of a recording, a row for each."""
        recording, found = self._recordings[number], self._costliest[number]
        axis.set_axis_off()
        after = shortened(recording.continued_by, 40)
        title = f"costliest decisions, by regret (cost above the cheapest); {after} makes all later decisions"
        title = self._letters[number] + (title if found else why_none_is_costly(recording))
        axis.set_title(title, fontsize=PLAIN, loc="left", parse_math=False)
        if not found:
            return
        rows = [HEAD]
        for place, k in enumerate(found, start=1):
            own, best = recording.own[k], recording.best[k]
            saved = dict(zip(recording.terms, recording.costs[k, own] - recording.costs[k, best], strict=True))
            largest = max(saved, key=saved.__getitem__)
            chosen, cheapest = (
                WAITING if machine == WAIT else f"machine {machine}"
                for machine in (recording.chosen[k], recording.machines[k, best])
            )
            name = shortened(recording.episode.workload_id[recording.workload[k]], 26) or "a workload without a name"
            regret, most = (number_in_words(float(cost)) for cost in (recording.regret[k], saved[largest]))
            rows.append((str(place), f"{recording.slot[k]:,}", name, chosen, cheapest, regret, f"{most} {largest}"))
        left = np.cumsum((0.0, *COLUMNS))
        for line, row in enumerate(rows):
            y = 1 - (line + 0.5) / len(rows)
            style = {"fontsize": SMALL, "va": "center", "parse_math": False, "transform": axis.transAxes}
            style["color"] = "black" if line else "#555555"
            for column, text in enumerate(row):
                if column in NUMBERS:
                    axis.text(left[column + 1] - 0.03, y, text, ha="right", **style)
                else:
                    axis.text(left[column], y, text, ha="left", **style)
        axis.axhline(1 - 1 / len(rows), color=OTHERS, linewidth=0.5)


def _finish(axis: Any, ticks: int) -> None:
    """Small letters, few ticks with commas between thousands, a faint grid."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.yaxis.set_major_locator(MaxNLocator(ticks, integer=True))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.tick_params(labelsize=SMALL, length=2)
    tidy(axis, "y")
