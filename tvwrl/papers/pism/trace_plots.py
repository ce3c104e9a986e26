"""Plots of the trace figures: arrivals over time, and distributions of usage with thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.interference.batch_tasks import BatchTasks
from tvwrl.interference.categories import CLASSES, Thresholds
from tvwrl.plotting import COLOURS, DPI, new_figure
from tvwrl.types import Float

KINDS = {"M": "map", "J": "join", "R": "reduce"}  # first letter of a task's name
UNITS = {"cpu": "cores of an instance", "memory": "memory of an instance, normalised", "makespan": "seconds"}


def kind_of(tasks: BatchTasks) -> Any:
    """(N,) first letter of each task's name."""
    return np.array([name[0] for name in tasks.task])


def plot_arrivals(file: Path, minutes: Mapping[str, Float], hours: Float) -> None:
    """A PNG of jobs, tasks and instances by minute (minutes,), and of tasks by hour (hours,)."""
    figure = new_figure(8, 5.2)
    above, below = figure.subplots(2)
    for colour, (name, values) in zip(COLOURS, minutes.items(), strict=False):
        above.plot(np.arange(len(values)), values, color=colour, label=name)
    above.set_yscale("log")
    above.set(xlabel="minute of the hour (real)", ylabel="arrive in a minute")
    above.legend(frameon=False, ncols=3)
    below.bar(np.arange(len(hours)), hours, width=1.0, color=COLOURS[4])
    below.set(xlabel="hour of the sample with usage (real)", ylabel="tasks in an hour")
    for axis in (above, below):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=DPI, format="png")


def plot_usage(file: Path, tasks: BatchTasks, thresholds: Thresholds) -> None:
    """A PNG of the distributions of CPU, memory and makespan over tasks, thresholds as dotted lines."""
    figure = new_figure(12, 3.8)
    kind = kind_of(tasks)
    for axis, name in zip(figure.subplots(1, 3), CLASSES, strict=True):
        values = getattr(tasks, name)
        for colour, (letter, label) in zip(COLOURS, {"": "all", **KINDS}.items(), strict=False):
            own = np.sort(values[kind == letter] if letter else values)
            axis.plot(own, np.linspace(0, 1, len(own)), color=colour, label=label, lw=2 if not letter else 1.2)
        for cut in getattr(thresholds, name):
            axis.axvline(cut, color="#555555", ls=":", lw=1)
        axis.set_xscale("log")
        axis.set(xlabel=f"{name}: {UNITS[name]}", ylabel="share of tasks (real)", ylim=(0, 1))
        axis.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, loc="upper left")
    figure.savefig(file, dpi=DPI, format="png")
