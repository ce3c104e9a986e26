"""Arrival sequences: windows cut from a trace's series, in units, arriving at a rate that offers a given load."""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from tvwrl.checks import at_least
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces.arrivals_and_noise import draw_arrivals, draw_background, perturb_demand
from tvwrl.traces.statistics import DAY_SECONDS
from tvwrl.types import Float, ForecastTable, InputError, Int, SequenceSet, Strings, Trace

Split = Literal["train", "validation", "test"]

TEST_SHARE = 0.3  # share of the series kept for testing, never drawn in training
LONG_HOURS, LONGEST_HOURS, SHORTEST_HOURS = 30.0, 60.0, 3.0  # long-running = more than 30 h (paper)
BUSIEST_RATE = 0.8  # arrivals per possible placement; above it the queue grows without end
KIND_ATTEMPTS = 50
FEW = 5  # fewer workloads than this hardly make a sample of windows
GROSS = 4.0  # machines that the largest sample may be worth before it is pointed out
CALIBRATION_WINDOWS = 1000
PERTURBATION, BACKGROUND = 1, 2  # random streams of a sequence beside that of its windows and arrivals


class Labels(Protocol):
    """What is asked of equivalence classes here."""

    @property
    def k(self) -> int: ...

    def label_table(self, demand: Float, length: Int, metadata: Float, every: int) -> npt.NDArray[np.uint8]: ...


class Forecasts(Protocol):
    """What is asked of a forecaster of demand here."""

    def table(self, demand: Float, length: Int, metadata: Float, known_peaks: bool) -> ForecastTable: ...


@dataclass(frozen=True)
class Run:
    """A stretch of one series without a gap: rows `first .. first + rows - 1` of the trace."""

    workload: int
    first: int
    rows: int
    period: int = 0  # rows after which it repeats (whole days); 0 = it does not


@dataclass(frozen=True)
class Window:
    """A workload to be: where it was cut from and what it needs."""

    workload: int
    source_slot: int
    demand: Float  # (length, D) units


def quantise(units: Float, peak_units: int) -> Float:
    """Demand in whole units from demand in fractions of a unit, both of any shape.

    Rounded half up, at least 1 and at most `peak_units`: a running workload always takes something. Nine decimals
    count: means of the same samples differ beyond them by the order of summation.
    """
    rounded: Float = np.clip(np.floor(np.round(units, 9) + 0.5), 1.0, float(peak_units))
    return rounded


def average_slots(rows: Float, ratio: int, sample: str) -> Float:
    """(n, D) slots of the environment from (n * ratio, D) samples of the trace: their mean, or max."""
    grouped = rows.reshape(-1, ratio, rows.shape[1])
    slots: Float = grouped.mean(axis=1) if sample == "mean" else grouped.max(axis=1)
    return slots


def gapless_runs(trace: Trace, workloads: Sequence[int]) -> list[Run]:
    """Stretches of consecutive slots of the given workloads."""
    runs = []
    for i in workloads:
        begin, end = int(trace.offsets[i]), int(trace.offsets[i + 1])
        breaks = np.flatnonzero(np.diff(trace.slot[begin:end]) != 1) + 1
        edges = [0, *breaks.tolist(), end - begin]
        runs += [Run(i, begin + a, b - a) for a, b in pairwise(edges)]
    return runs


def metadata_of(trace: Trace, workloads: Int, unit: Float) -> Float:
    """(..., D + 2) what is declared of workloads (...): requests in units, priority, scheduling class; NaN = not."""
    declared = (trace.priority[workloads][..., None], trace.scheduling_class[workloads][..., None])
    metadata: Float = np.concatenate((trace.request[workloads] / unit, *declared), axis=-1)
    return metadata


def split_workloads(trace: Trace) -> tuple[list[int], list[int]]:
    """Disjoint workloads (numbers) for training and testing; the same for every seed, so results compare across runs.

    Raises InputError for a trace of one workload.
    """
    if len(trace) < 2:
        raise InputError(
            f"trace '{trace.name}' has {len(trace)} workload: at least 2 are needed, "
            "because training and test sequences draw from different ones"
        )
    by_name = np.argsort(trace.workload_id, kind="stable")  # the order of rows in a file makes no difference
    order = np.random.default_rng(0).permutation(len(trace))
    test = max(1, round(TEST_SHARE * len(trace)))
    return by_name[np.sort(order[test:])].tolist(), by_name[np.sort(order[:test])].tolist()


def _dominates(window: Window) -> npt.NDArray[np.bool_]:
    """(D,) whether the mean of a resource, in units, is larger than that of every other."""
    mean = window.demand.mean(axis=0)
    largest: npt.NDArray[np.bool_] = mean == mean.max()
    return largest if largest.sum() == 1 else np.zeros_like(largest)


class SequenceSampler:
    """Draws arrival sequences from a trace for a scenario.

    Half of the workloads are long (more than 30 h), half short, and each resource dominates equally many, as in the
    paper; where the trace cannot provide that, the nearest is used and `notes` records it.

    Attributes: `unit` (D,) input value of one unit, set on the training series unless it is given; `notes` list of
    sentences about what the trace could not give; and by split the `runs` that windows are cut from, `rate` arrivals
    per slot, `arrivals` workloads per sequence (N).

    Raises InputError where the trace's interval does not divide the slot, where a rate cannot be served, and where
    demand can exceed every machine.

    >>> sampler = SequenceSampler(open_trace("google"), Scenario(load=0.8))  # doctest: +SKIP
    >>> sequences = sampler.sequences("train", 10, seed=0, classes=classes)  # doctest: +SKIP
    """

    def __init__(self, trace: Trace, scenario: Scenario, unit: Float | None = None) -> None:
        if scenario.step_seconds % trace.slot_seconds:
            raise InputError(
                f"step_seconds is {scenario.step_seconds}: must be a multiple of the trace's "
                f"slot_seconds, {trace.slot_seconds}"
            )
        self.trace, self.scenario = trace, scenario
        self.notes: list[str] = []
        self.ratio = scenario.step_seconds // trace.slot_seconds
        self.machines = scenario.cluster(trace.resources)
        self.runs = self._split()
        self.unit = self._fit_unit() if unit is None else unit
        self._check_fits()
        self._note_excess()
        self._long, self._short = self._length_ranges()
        self._candidates: dict[tuple[Split, int], list[Run]] = {}
        self._demands: dict[int, Float] = {}
        self.rate: dict[Split, float] = {}
        self.arrivals: dict[Split, int] = {}
        for split in ("train", "test"):
            self.rate[split], mean_length = self._calibrate(split)
            at_a_time = math.ceil(3 * self.rate[split] * mean_length)
            self.arrivals[split] = scenario.workloads or min(max(40, at_a_time), 200)
        self.rate["validation"], self.arrivals["validation"] = self.rate["train"], self.arrivals["train"]

    def _split(self) -> dict[Split, list[Run]]:
        trace = self.trace
        if self.scenario.split == "workloads":
            train, test = (gapless_runs(trace, part) for part in split_workloads(trace))
        else:
            runs = gapless_runs(trace, np.argsort(trace.workload_id, kind="stable").tolist())
            cuts = [round((1 - TEST_SHARE) * run.rows) for run in runs]
            train = [replace(r, rows=cut) for r, cut in zip(runs, cuts, strict=True)]
            test = [replace(r, first=r.first + cut, rows=r.rows - cut) for r, cut in zip(runs, cuts, strict=True)]
        train, test = self._usable("train", train), self._usable("test", test)
        return {"train": train, "validation": train, "test": test}

    def _usable(self, name: Split, runs: list[Run]) -> list[Run]:
        """The runs that cover a slot of the environment; where all are short, with their days repeated."""
        runs = [r for r in runs if r.rows >= self.ratio]
        if not runs:
            raise InputError(
                f"no {name} series of trace '{self.trace.name}' covers one slot of {self.scenario.step_seconds} s"
            )
        day, longest = DAY_SECONDS // self.trace.slot_seconds, max(r.rows for r in runs)
        if day <= longest < (self._slots(LONG_HOURS) + 1) * self.ratio:
            self._note(f"{name} series are too short for long-running workloads: their days are repeated")
            runs = [replace(r, period=r.rows // day * day) for r in runs if r.rows >= day]
        if (sources := len({r.workload for r in runs})) < FEW:
            self._note(f"{name} windows come from {sources} workloads only: results may not generalise to others")
        return runs

    def _slots(self, hours: float) -> int:
        return round(hours * 3600 / self.scenario.step_seconds)

    def _fit_unit(self) -> Float:
        """(D,) input value of one unit: the 99.5th percentile of training demand maps to `peak_units`."""
        ratio, pooled = self.ratio, []
        for run in self.runs["train"]:
            rows = self.trace.usage[run.first : run.first + run.rows // ratio * ratio]
            pooled.append(average_slots(rows, ratio, self.scenario.sample))
        top: Float = np.percentile(np.concatenate(pooled), 99.5, axis=0)
        if (top <= 0).any():
            name = self.trace.resources[int(np.argmin(top))]
            raise InputError(f"trace '{self.trace.name}': demand of {name} is zero nearly everywhere, nothing to place")
        return top / self.scenario.peak_units

    def _check_fits(self) -> None:
        capacity, peak = self.machines.capacity, self.scenario.peak_units
        if self.scenario.background > capacity.min():
            raise InputError(
                f"background is {self.scenario.background}: must be at most the smallest capacity of a machine, "
                f"{capacity.min():g} units"
            )
        if not (self.machines.capacity >= self.scenario.peak_units).all(axis=1).any():
            raise InputError(
                f"demand of up to {peak} units (peak_units) is above every machine's capacity "
                f"(the largest has {capacity.max(axis=0).tolist()} units): raise capacity or lower peak_units"
            )

    def _length_ranges(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Shortest and longest window of the long and the short half, slots."""
        border, longest, shortest = (self._slots(h) for h in (LONG_HOURS, LONGEST_HOURS, SHORTEST_HOURS))
        longest, border, shortest = max(longest, 3), max(border, 2), max(shortest, 1)
        reach = min(
            max(10**9 if r.period else r.rows // self.ratio for r in self.runs[split]) for split in ("train", "test")
        )
        if reach < longest:
            self._note(f"the longest window is {reach} slots, not {longest}: no series is longer")
        if reach <= border:
            self._note(f"no series lasts more than {LONG_HOURS:g} h: all workloads are short")
            short = (min(shortest, reach), reach)
            return short, short
        return (border + 1, min(longest, reach)), (shortest, border)

    def _draw_window(self, split: Split, length: int, rng: np.random.Generator) -> Window:
        """A window of `length` slots of a random series that is long enough."""
        rows = length * self.ratio
        if (split, length) not in self._candidates:
            self._candidates[split, length] = [r for r in self.runs[split] if r.period or r.rows >= rows]
        candidates = self._candidates[split, length]
        run = candidates[rng.integers(len(candidates))]
        demand = self._demand(run)
        if run.period:
            begin = int(rng.integers(run.period))
            window = demand[(begin + self.ratio * np.arange(length)) % run.period]
        else:
            begin = int(rng.integers(run.rows - rows + 1))
            window = demand[begin : begin + rows : self.ratio]
        return Window(run.workload, int(self.trace.slot[run.first + begin]), window)

    def _demand(self, run: Run) -> Float:
        """(rows, D) demand in units of the environment's slot that begins at each row of the run; made once."""
        if run.first not in self._demands:
            rows = np.arange(run.period + self.ratio - 1) % run.period if run.period else np.arange(run.rows)
            samples = self.trace.usage[run.first + rows]
            slots = np.lib.stride_tricks.sliding_window_view(samples, self.ratio, axis=0)  # (rows, D, ratio)
            units = (slots.mean(axis=2) if self.scenario.sample == "mean" else slots.max(axis=2)) / self.unit
            most = self.scenario.peak_units
            self._demands[run.first] = quantise(units, most) if self.scenario.quantise else np.minimum(units, most)
        return self._demands[run.first]

    def _note(self, text: str) -> None:
        """Warn of what the trace could not give, once."""
        if text not in self.notes:
            self.notes.append(text)
            warnings.warn(text, stacklevel=3)

    def _note_mix(self, split: Split, windows: list[Window]) -> None:
        """Say so if resources do not dominate equally many windows."""
        shares = np.mean([_dominates(window) for window in windows], axis=0)
        if shares.min() < 0.95 / len(shares):
            named = ", ".join(f"{share:.0%} most {r}" for share, r in zip(shares, self.trace.resources, strict=True))
            self._note(f"the mix of {split} windows is uneven: {named}, {1 - shares.sum():.0%} as much of several")

    def _note_excess(self) -> None:
        """Name the largest sample if it is worth several machines: it may be a mistake, and is cut all the same."""
        largest = self.machines.capacity.max(axis=0)
        row, d = np.unravel_index(np.argmax(self.trace.usage / (self.unit * largest)), self.trace.usage.shape)
        units = self.trace.usage[row, d] / self.unit[d]
        if units > GROSS * largest[d]:
            owner = self.trace.workload_id[np.searchsorted(self.trace.offsets, row, "right") - 1]
            self._note(
                f"demand far above every machine's capacity: workload '{owner}', slot {self.trace.slot[row]}, column "
                f"{self.trace.resources[d]} is {self.trace.usage[row, d]:g}, which is {units:.0f} units; the largest "
                f"machine has {largest[d]:g}. It is cut to {self.scenario.peak_units}, like all demand above"
            )

    def _draw_kind(self, split: Split, length: int, kind: int, rng: np.random.Generator) -> Window:
        """A window whose resource `kind` has the larger mean in units, if one turns up."""
        for _ in range(KIND_ATTEMPTS):
            window = self._draw_window(split, length, rng)
            if _dominates(window)[kind]:
                return window
        return window

    def windows(self, split: Split, count: int, rng: np.random.Generator) -> list[Window]:
        """`count` windows in random order: half long, half short, each resource dominating equally many."""
        resources = len(self.trace.resources)
        recipe = [(i % 2 == 0, i // 2 % resources) for i in range(count)]
        return [
            self._draw_kind(split, int(rng.integers(*(self._long if long else self._short), endpoint=True)), kind, rng)
            for long, kind in (recipe[i] for i in rng.permutation(count))
        ]

    def _calibrate(self, split: Split) -> tuple[float, float]:
        """Arrivals per slot that offer the load on the busier resource, and the mean length of a workload, slots."""
        windows = self.windows(split, CALIBRATION_WINDOWS, np.random.default_rng(0))
        self._note_mix(split, windows)
        work = np.mean([w.demand.sum(axis=0) for w in windows], axis=0)
        share = float((work / self.machines.capacity.sum(axis=0)).max())
        rate = self._served(self.scenario.load, self.scenario.load / share)
        return rate, float(np.mean([len(w.demand) for w in windows]))

    def _served(self, load: float, rate: float) -> float:
        """The arrivals per slot that offer the load, if they can be placed."""
        limit = self.scenario.placements_per_slot
        if limit is not None and rate > BUSIEST_RATE * limit:
            raise InputError(
                f"load {load:g} needs {rate:.2f} arrivals per slot, above {BUSIEST_RATE * limit:g} with "
                f"placements_per_slot = {limit}: raise placements_per_slot, lower the load or use fewer machines"
            )
        return rate

    def sequences(
        self,
        split: Split,
        count: int,
        seed: int,
        classes: Labels,
        forecasts: Forecasts | None = None,
        loads: Sequence[float] = (),
    ) -> SequenceSet:
        """`count` arrival sequences, with forecasts of demand where `forecasts` makes them.

        They offer the scenario's load, or in turn those of `loads`, by as many workloads each. Sequence i depends on
        the seed, the split, its load and i alone. Raises InputError for a load that cannot be served.
        """
        at_least(1, sequences=count)
        scenario, drawn, arrivals, background = self.scenario, [], [], []
        rates = [self._served(load, self.rate[split] * load / scenario.load) for load in loads or (scenario.load,)]
        for i in range(count):
            key = [seed, zlib.crc32(split.encode()), i]
            rng = np.random.default_rng(key)
            windows = self.windows(split, self.arrivals[split], rng)
            arrivals.append(draw_arrivals(self.arrivals[split], rates[i % len(rates)], scenario.burst, rng))
            if (most := scenario.perturb) > 0:
                noise, peak = np.random.default_rng([*key, PERTURBATION]), scenario.peak_units
                windows = [replace(w, demand=perturb_demand(w.demand, most, peak, noise)) for w in windows]
            drawn.append(windows)
            if (most := scenario.background) > 0:
                noise = np.random.default_rng([*key, BACKGROUND])
                background.append(draw_background(most, self.machines.capacity.shape, noise))
        sequences = self._assemble(drawn, np.array(arrivals, dtype=np.int64), classes, forecasts)
        return replace(sequences, background=np.array(background)) if background else sequences

    def _assemble(
        self, drawn: list[list[Window]], arrival: Int, classes: Labels, forecasts: Forecasts | None
    ) -> SequenceSet:
        trace, (count, workloads) = self.trace, arrival.shape
        length = np.array([[len(w.demand) for w in row] for row in drawn], dtype=np.int64)
        source = np.array([[w.workload for w in row] for row in drawn], dtype=np.int64)
        demand = np.zeros((count, workloads, int(length.max()), len(trace.resources)))
        workload_id: Strings = np.empty((count, workloads), dtype=object)
        for s, row in enumerate(drawn):
            seen: dict[int, int] = {}
            for n, window in enumerate(row):
                demand[s, n, : len(window.demand)] = window.demand
                seen[window.workload] = seen.get(window.workload, 0) + 1
                workload_id[s, n] = f"{trace.workload_id[window.workload]}#{seen[window.workload]}"
        metadata = metadata_of(trace, source, self.unit)
        return SequenceSet(
            resources=trace.resources,
            workload_id=workload_id,
            source_workload=trace.workload_id[source],
            source_slot=np.array([[w.source_slot for w in row] for row in drawn], dtype=np.int64),
            arrival=arrival,
            length=length,
            demand=demand,
            request=metadata[..., : len(trace.resources)],
            label=classes.label_table(demand, length, metadata, self.scenario.relabel_every),
            classes=classes.k,
            load=self.scenario.load,
            forecast=None
            if forecasts is None
            else forecasts.table(demand, length, metadata, self.scenario.observe_peak),
        )
