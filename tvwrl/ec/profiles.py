"""What each class looks like: its usage by hour of the day, in shares of a machine, and a name made by plain rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.ec.representations import Population
from tvwrl.plotting import people_call
from tvwrl.traces import DAY_SECONDS
from tvwrl.types import Float, Int

HOURS = 24
QUARTILES = (25, 50, 75)
STEADY, BURSTY = 0.25, 1.0  # standard deviation / mean of the middle workload: below, above
FLAT, RHYTHM = 0.2, 0.5  # (highest - lowest hour) / mean of a class by hour: below, above


@dataclass(frozen=True)
class Profile:
    """The usage of a class' workloads, each as heavy as another, and a name."""

    label: int
    workloads: int
    by_hour: Float  # (HOURS, D, 3) quartiles over workloads of their means in that hour; NaN: nothing ran
    level: Float  # (D,) median over workloads of their means
    variation: float  # median over workloads of standard deviation / mean, of the resource that varies most
    rhythm: float  # (highest - lowest hour) / mean, of the resource where that is largest
    busiest: int  # hour of the highest median there
    habit: str  # how usage changes, in words
    size: str  # how much it is, in words

    @property
    def name(self) -> str:
        """What to call the class."""
        return f"{self.habit}, {self.size}"

    def to_dict(self) -> dict[str, Any]:
        """For report.json; hours in which nothing ran are None."""
        content = {
            name: getattr(self, name) for name in ("label", "workloads", "name", "variation", "rhythm", "busiest")
        }
        hours = self.by_hour.astype(object)
        hours[np.isnan(self.by_hour)] = None
        return content | {"level": self.level.tolist(), "quartiles_by_hour": hours.tolist()}


def profiles(population: Population, labels: Int, machine: Any = None) -> list[Profile]:
    """A profile of each class, in rising label.

    Usage is in shares of the trace's machine, or in units where it is not known what one is. Hours are those of the
    trace's clock, which begins at 0 with the trace. `machine`: a trace's `reference_machine`, whose number of cores
    names use where it is known.
    """
    unit = np.ones(len(population.resources)) if population.unit is None else population.unit
    begin = np.zeros(len(population), np.int64) if population.begin is None else population.begin
    step = population.step_seconds
    hourly = np.full((len(population), HOURS, len(unit)), np.nan)
    level, variation = np.empty((len(population), len(unit))), np.empty(len(population))
    for i, (series, start) in enumerate(zip(population.series, begin, strict=True)):
        share = series * unit
        seconds = (start + step * np.arange(len(share))) % DAY_SECONDS
        hour = (seconds * HOURS // DAY_SECONDS).astype(np.int64)
        count = np.bincount(hour, minlength=HOURS)
        for d in range(len(unit)):
            total = np.bincount(hour, share[:, d], HOURS)
            hourly[i, :, d] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        level[i] = share.mean(axis=0)
        variation[i] = (share.std(axis=0) / np.where(level[i] > 0, level[i], 1.0)).max()
    made = []
    for label in range(1, int(labels.max()) + 1):
        members = labels == label
        by_hour = _quartiles(hourly[members])
        rhythm, busiest = _rhythm(by_hour[:, :, 1])
        middle, varies = np.median(level[members], axis=0), float(np.median(variation[members]))
        words = describe(varies, rhythm, busiest), size(population, middle, machine)
        made.append(Profile(label, int(members.sum()), by_hour, middle, varies, rhythm, busiest, *words))
    return made


def describe(variation: float, rhythm: float, busiest: int) -> str:
    """How usage changes, in words.

    >>> describe(0.1, 0.05, 3), describe(0.6, 0.8, 14)
    ('steady, the same at all hours', 'varying, strong daily rhythm, busiest at hour 14')
    """
    restless = "steady" if variation < STEADY else "bursty" if variation > BURSTY else "varying"
    if rhythm < FLAT:
        return f"{restless}, the same at all hours"
    return f"{restless}, {'strong' if rhythm > RHYTHM else 'slight'} daily rhythm, busiest at hour {busiest}"


def size(population: Population, level: Float, machine: Any) -> str:
    """Mean usage in words: shares of a machine, with cores where it is known how many a machine has; or units."""
    if population.unit is None:
        parts = [f"{people_call(name)} {v:.2g}" for name, v in zip(population.resources, level, strict=True)]
        return " and ".join(parts) + " units"
    parts = [f"{people_call(name)} {100 * v:.2g} %" for name, v in zip(population.resources, level, strict=True)]
    cores = machine.get("cpu") if isinstance(machine, Mapping) else None
    if isinstance(cores, int | float) and "cpu" in population.resources:
        at = population.resources.index("cpu")
        parts[at] += f" ({level[at] * cores:.2g} cores)"
    return " and ".join(parts) + " of a machine"


def _quartiles(hourly: Float) -> Float:
    """(HOURS, D, 3) of (members, HOURS, D); NaN where no member ran in that hour."""
    found = np.full((*hourly.shape[1:], len(QUARTILES)), np.nan)
    known = np.isfinite(hourly).any(axis=0)
    found[known] = np.nanpercentile(hourly[:, known], QUARTILES, axis=0).T
    return found


def _rhythm(median: Float) -> tuple[float, int]:
    """Of (HOURS, D) medians: the largest relative range of a resource, and its busiest hour."""
    known = median[np.isfinite(median).all(axis=1)]
    if not len(known):
        return 0.0, 0
    mean = known.mean(axis=0)
    ranges = np.where(mean > 0, np.ptp(known, axis=0) / np.where(mean > 0, mean, 1.0), 0.0)
    d = int(ranges.argmax())
    return float(ranges[d]), int(np.nanargmax(median[:, d]))
