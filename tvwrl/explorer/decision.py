"""One decision as a picture: what the machines looked like around it, and what each alternative would have cost."""

from __future__ import annotations

import warnings
from textwrap import fill
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.explorer.derived import machine_loads, slots_of
from tvwrl.explorer.drawing import (
    SMALL,
    add_load_bar,
    draw_heat_map,
    load_shares,
    number_machines,
    term_patches,
    term_style,
)
from tvwrl.explorer.recording import NONE, Recording
from tvwrl.explorer.words import TERM_WORDS, alternative_in_words, decision_in_words, number_in_words
from tvwrl.plotting import new_figure, tidy
from tvwrl.types import InputError, Int, Machines

SIZE = (10.0, 4.6)  # inches
DPI = 100
BEFORE, AFTER = 12, 28  # slots shown before and after the decision
MOST = 12  # alternatives shown
MOST_ROWS = 24  # machines shown; of more, those of the alternatives only
LETTERS = 115  # of the title in a line
NAME = 40  # letters of a workload's name in the title
CHOSEN: dict[str, Any] = {"marker": "o", "ms": 8, "mfc": "white", "mec": "black", "mew": 1.4, "ls": ""}
CHEAPEST: dict[str, Any] = {"marker": "D", "ms": 6.5, "mfc": "white", "mec": "black", "mew": 1.4, "ls": ""}


def draw_decision(recording: Recording, k: int, machines: Machines) -> Any:
    """A matplotlib figure of decision `k`, with a sentence on it as its title.

    Left: load of the machines around it, as it came, with the chosen machine (ring) and the cheapest (diamond). Right:
    the penalties from the decision on of at most `MOST` alternatives, cheapest first, beyond what all of these pay.
    Raises InputError if there is no decision `k`.
    """
    if not 0 <= k < len(recording):
        raise InputError(f"decision is {k}: the recording has {len(recording)}, counted from 0")
    figure = new_figure(*SIZE, w_pad=0.05, h_pad=0.05)
    figure.set_dpi(DPI)
    figure.suptitle(_in_lines(decision_in_words(recording, k, NAME)), fontsize=10, parse_math=False)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    shown = alternatives_shown(recording, k)
    _draw_loads(figure, left, recording, k, machines, recording.machines[k, shown])
    _draw_alternatives(right, recording, k, shown)
    if np.isfinite(recording.regret[k]):
        legend = {"loc": "outside lower right", "ncols": 4, "frameon": False, "fontsize": 8}
        figure.legend(handles=term_patches(), **legend)
    return figure


def _in_lines(sentence: str) -> str:
    """Broken before the bracket if it is too long for one line."""
    parts = [sentence] if len(sentence) <= LETTERS else sentence.replace(" (", "\n(").split("\n")
    return "\n".join(fill(part, LETTERS) for part in parts)


def figure_pixels(figure: Any) -> npt.NDArray[np.uint8]:
    """(H, W, 3) RGB of a figure, as TensorBoard takes it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # names may be in any script
        figure.canvas.draw()
    return np.array(figure.canvas.buffer_rgba(), dtype=np.uint8)[..., :3]


def alternatives_shown(recording: Recording, k: int) -> Int:
    """At most `MOST` columns of decision `k`'s alternatives that were simulated, cheapest first; among them the choice.

    Where none was simulated: the choice alone.
    """
    own, total = int(recording.own[k]), recording.totals[k]
    known = np.flatnonzero(np.isfinite(total) & (recording.machines[k] != NONE))
    if own not in known:
        known = np.append(known, own) if len(known) else np.array([own])
    order = known[np.argsort(total[known], kind="stable")]  # NaN last
    if own not in order[:MOST]:
        order = np.append(order[: MOST - 1], own)
    return order[:MOST]


def _draw_loads(figure: Any, axis: Any, recording: Recording, k: int, machines: Machines, alternatives: Int) -> None:
    slot, chosen = int(recording.slot[k]), int(recording.chosen[k])
    end = max(slots_of(recording), slot + 1)
    first, last = max(0, slot - BEFORE), min(end, slot + AFTER)
    numbers = np.arange(len(machines))
    if len(machines) > MOST_ROWS:
        numbers = np.sort(alternatives[alternatives >= 0])
        numbers = numbers if len(numbers) else np.arange(MOST_ROWS)
    loads = machine_loads(recording.episode, machines, end)[first:last]
    image = draw_heat_map(axis, load_shares(loads, machines, numbers), first)
    number_machines(axis, numbers, MOST)
    known = ", diamond = cheapest" if np.isfinite(recording.regret[k]) else ""
    cheapest = int(recording.machines[k, recording.best[k]])
    for machine, mark, name in ((cheapest, CHEAPEST, "cheapest"), (chosen, CHOSEN, "chosen")):
        if machine in numbers and (name == "chosen" or known):
            axis.plot(slot + 0.5, int(np.flatnonzero(numbers == machine)[0]), **mark)
    axis.axvline(slot, color="black", linewidth=0.8, linestyle=(0, (3, 2)))
    axis.set_title(f"load around the decision: ring = chosen{known}", fontsize=9)
    axis.set_xlabel("slot", fontsize=8)
    axis.set_ylabel("machine", fontsize=8)
    add_load_bar(figure, image, axis)


def _draw_alternatives(axis: Any, recording: Recording, k: int, shown: Int) -> None:
    costs = recording.costs[k, shown]
    names = [alternative_in_words(int(machine)) for machine in recording.machines[k, shown]]
    names = [f"{name} (chosen)" if at == recording.own[k] else name for name, at in zip(names, shown, strict=True)]
    if not np.isfinite(costs).all():
        axis.set_axis_off()
        axis.text(0.5, 0.5, "Its alternatives were not simulated.", ha="center", va="center", fontsize=10)
        return
    shared = costs.min(axis=0)  # of each term: bars stay true to each other, and the differences can be seen
    beyond, places = costs - shared, np.arange(len(shown))
    left = np.zeros(len(shown))
    for term, values in zip(TERM_WORDS.values(), beyond.T, strict=True):
        axis.barh(places, values, 0.68, left=left, **term_style(term))
        left = left + values
    longest = float(left.max()) or 1.0
    for place, (end, total) in enumerate(zip(left, costs.sum(axis=1), strict=True)):
        more = float(total - costs[0].sum())
        text = f"+{number_in_words(more)}" if place else "cheapest"
        axis.text(end + 0.02 * longest, place, text, va="center", fontsize=8)
    axis.set(xlim=(0, 1.24 * longest), ylim=(max(len(shown), 4) - 0.4, -0.6))
    axis.set_yticks(places, names, fontsize=8)
    for label, at in zip(axis.get_yticklabels(), shown, strict=True):
        label.set_weight("bold" if at == recording.own[k] else "normal")
    _finish(axis, recording, k, float(shared.sum()))


def _finish(axis: Any, recording: Recording, k: int, shared: float) -> None:
    """Title, ticks and legend of the alternatives' axis."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    known = int(np.isfinite(recording.totals[k]).sum())
    some = f"{MOST} of {known} alternatives" if known > MOST else "each alternative"
    axis.set_title(f"cost of {some}, from this slot to the end", fontsize=9)
    axis.set_xlabel(f"cost above the {number_in_words(shared)} that all of these share", fontsize=8)
    axis.xaxis.set_major_locator(MaxNLocator(4))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number_in_words(value)))
    axis.tick_params(axis="x", labelsize=SMALL)
    axis.tick_params(axis="y", length=0)
    tidy(axis, "x")
