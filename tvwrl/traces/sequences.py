"""Arrival sequences: windows cut from a trace's series, in units, arriving at a rate that offers a given load."""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from tvwrl.checks import at_least
from tvwrl.simulation import Scenario
from tvwrl.traces.past import EarlierUsage
from tvwrl.traces.splits import UNSEEN, Run, Split, split_trace
from tvwrl.traces.statistics import DAY_SECONDS
from tvwrl.traces.windows import Window, Windows, peak_over_first, stack_windows
from tvwrl.types import Float, ForecastTable, InputError, Int, SequenceSet, Strings, Trace

LONG_HOURS, LONGEST_HOURS, SHORTEST_HOURS = 30.0, 60.0, 3.0  # long-running = more than 30 h (paper)
BUSIEST_RATE = 0.8  # arrivals per possible placement; above it the queue grows without end
KIND_ATTEMPTS = 50
FEW = 5  # fewer workloads than this hardly make a sample of windows
GROSS = 4.0  # machines that the largest sample may be worth before it is pointed out
CALIBRATION_WINDOWS = 1000
_TABLE = tuple(field.name for field in fields(ForecastTable))
PERTURBATION, BACKGROUND = 1, 2  # random streams of a sequence beside that of its windows and arrivals


class Labels(Protocol):
    """What is asked of equivalence classes here."""

    @property
    def k(self) -> int: ...

    def label_table(self, windows: Windows, every: int) -> npt.NDArray[np.uint8]: ...


class Forecasts(Protocol):
    """What is asked of a forecaster of demand here."""

    def table(self, windows: Windows) -> ForecastTable: ...


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


def _dominates(demand: Float) -> npt.NDArray[np.bool_]:
    """(D,) whether the mean of a resource in a window's demand (length, D), in units, is larger than every other."""
    mean = demand.mean(axis=0)
    largest: npt.NDArray[np.bool_] = mean == mean.max()
    return largest if largest.sum() == 1 else np.zeros_like(largest)


class SequenceSampler:
    """Draws arrival sequences from a trace for a scenario.

    Half of the workloads are long (more than 30 h), half short, and each resource dominates equally many, as in the
    paper; where the trace cannot provide that, the nearest is used and `notes` records it.

    Parameters
    ----------
    trace : Trace
        The trace that windows are cut from.
    scenario : Scenario
        Slot length, units, load, machines and split.
    unit : array of float, optional
        (D,) input value of one unit, > 0; default: the 99.5th percentile of demand in all series that are not for
        testing counts as `scenario.peak_units`.

    Attributes
    ----------
    unit : array of float
        (D,) as above: a constant of the problem, as a machine's capacity is, so that all splits are measured alike.
    fold : array of int
        (n,) fold of every workload of the trace, as of `Splits`.
    holds_out : bool
        Whether validation has rows of its own, as of `Splits`.
    request_factor : array of float
        (D,) 1 or more: an undeclared request is taken to be this times demand in the first slot.
    notes : list of str
        Sentences about what the trace could not give.
    runs : dict
        By split, the stretches of series that windows are cut from.
    rate : dict
        By split, the arrivals per slot that offer the load.
    arrivals : dict
        By split, the workloads per sequence (N).

    Raises
    ------
    InputError
        Where the trace's interval does not divide the slot, where a rate cannot be served, and where demand can exceed
        every machine.

    Examples
    --------
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
        splits = split_trace(trace, scenario.split, self.ratio)
        self.fold = splits.fold
        self.runs = {split: self._repeat_days(runs) for split, runs in splits.runs.items()}
        self.holds_out = splits.holds_out
        self._held_out = ("validation", "test") if splits.holds_out else ("test",)
        self._note_series(splits.holds_out)
        not_test = self._repeat_days(splits.not_test)
        self.unit = self._constant_unit(not_test) if unit is None else unit
        self._check_fits()
        self._note_excess()
        self._long, self._short = self._length_ranges(not_test)
        self._most: dict[Split, int] = {}  # slots of the longest window
        for split, runs in self.runs.items():  # only what is held out or left for training may lack long series
            self._most[split] = min(reach := self._slots_of(runs), longest := self._long[1])
            if reach < longest:
                self._note(f"the longest {split} window is {reach} slots, not {longest}: no {split} series is longer")
        self._candidates: dict[tuple[Split, int], list[Run]] = {}
        self._demands: dict[int, Float] = {}
        self._told: dict[bool, EarlierUsage] = {}
        self._sums: dict[int, npt.NDArray[np.int64]] = {}
        self.rate: dict[Split, float] = {}
        self.arrivals: dict[Split, int] = {}
        for split in self.runs:
            self.rate[split], mean_length = self._calibrate(split)
            self._served(split, scenario.load, self.rate[split])
            at_a_time = math.ceil(3 * self.rate[split] * mean_length)
            self.arrivals[split] = scenario.workloads or min(max(40, at_a_time), 200)

    def _repeat_days(self, runs: list[Run]) -> list[Run]:
        """The runs; where all are too short for long-running workloads, those of a day with their days repeated."""
        day, longest = DAY_SECONDS // self.trace.slot_seconds, max(r.rows for r in runs)
        if day <= longest < (self._slots(LONG_HOURS) + 1) * self.ratio:
            return [replace(r, period=r.rows // day * day) for r in runs if r.rows >= day]
        return runs

    def _note_series(self, holds_out: bool) -> None:
        """Say so if series are too few or too short."""
        if not holds_out:
            self._note("no series can be held out for validation: it uses the training series")
        for split, runs in self.runs.items():
            if split == "validation" and not holds_out:
                continue
            if runs[0].period:
                self._note(f"{split} series are too short for long-running workloads: their days are repeated")
            if (sources := len({r.workload for r in runs})) < FEW:
                self._note(f"{split} windows come from {sources} workloads only: results may not generalise to others")

    def _slots(self, hours: float) -> int:
        return round(hours * 3600 / self.scenario.step_seconds)

    def _constant_unit(self, runs: list[Run]) -> Float:
        """(D,) input value of one unit: the 99.5th percentile of demand in the runs maps to `peak_units`."""
        ratio, pooled = self.ratio, []
        for run in runs:
            rows = self.trace.usage[run.first : run.first + run.rows // ratio * ratio]
            pooled.append(average_slots(rows, ratio, self.scenario.sample))
        top: Float = np.percentile(np.concatenate(pooled), 99.5, axis=0)
        if (top <= 0).any():
            name = self.trace.resources[int(np.argmin(top))]
            raise InputError(f"trace '{self.trace.name}': demand of {name} is zero nearly everywhere: nothing to place")
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

    def scale(self) -> str:
        """A sentence on the demand that fills a machine, in the trace's own values."""
        largest = self.machines.capacity.max(axis=0)
        pairs = zip(self.trace.resources, self.unit * largest, strict=True)
        full = ", ".join(f"{name} {demand:.3g}" for name, demand in pairs)
        sizes = " or ".join(f"{size:g}" for size in np.unique(largest))
        return (
            f"scale: demand of {full} fills a machine; the 99.5th percentile of a resource's demand "
            f"counts as {self.scenario.peak_units} units, the capacity is {sizes}"
        )

    def _slots_of(self, runs: list[Run]) -> int:
        """Slots of the longest window that the runs can give."""
        return max(10**9 if r.period else r.rows // self.ratio for r in runs)

    def _length_ranges(self, not_test: list[Run]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Shortest and longest window of the long and the short half, slots."""
        border, longest, shortest = (self._slots(h) for h in (LONG_HOURS, LONGEST_HOURS, SHORTEST_HOURS))
        longest, border, shortest = max(longest, 3), max(border, 2), max(shortest, 1)
        reach = min(self._slots_of(not_test), self._slots_of(self.runs["test"]))
        if reach < longest:
            self._note(f"the longest window is {reach} slots, not {longest}: no series is longer")
        if reach <= border:
            self._note(f"no series lasts more than {LONG_HOURS:g} h: all workloads are short")
            short = (min(shortest, reach), reach)
            return short, short
        return (border + 1, min(longest, reach)), (shortest, border)

    def _draw_place(self, split: Split, length: int, rng: np.random.Generator) -> tuple[Run, int]:
        """A random run that is long enough for a window of `length` slots, and the row of it where one begins."""
        rows = length * self.ratio
        if (split, length) not in self._candidates:
            self._candidates[split, length] = [r for r in self.runs[split] if r.period or r.rows >= rows]
        candidates = self._candidates[split, length]
        run = candidates[rng.integers(len(candidates))]
        return run, int(rng.integers(run.period or run.rows - rows + 1))

    def _cut(self, run: Run, begin: int, length: int) -> Float:
        """(length, D) demand of the window that begins at a row of the run."""
        demand = self._demand(run)
        if run.period:
            repeated: Float = demand[(begin + self.ratio * np.arange(length)) % run.period]
            return repeated
        return demand[begin : begin + length * self.ratio : self.ratio]

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

    def _dominated_by(self, kind: int, run: Run, begin: int, length: int) -> bool:
        """Whether the mean of resource `kind` is larger than that of every other, in the window that begins there."""
        if run.period or not self.scenario.quantise:
            return bool(_dominates(self._cut(run, begin, length))[kind])
        sums = self._running_sums(run)
        others = (sums[begin + length * self.ratio] - sums[begin]).tolist()
        mine = others.pop(kind)
        return all(mine > other for other in others)

    def _running_sums(self, run: Run) -> npt.NDArray[np.int64]:
        """(rows + ratio, D) at row r the sum of `_demand`, in whole units, at rows r - ratio, r - 2 ratio, ...

        Made once: sums of windows are their differences, which are exact, and most windows are drawn in vain.
        """
        if run.first not in self._sums:
            demand, ratio = self._demand(run), self.ratio
            rows = np.zeros(((math.ceil(len(demand) / ratio) + 1) * ratio, demand.shape[1]), np.int64)
            rows[ratio : ratio + len(demand)] = demand
            self._sums[run.first] = rows.reshape(-1, ratio, demand.shape[1]).cumsum(axis=0).reshape(rows.shape)
        return self._sums[run.first]

    def _note(self, text: str) -> None:
        """Warn of what the trace could not give, once."""
        if text not in self.notes:
            self.notes.append(text)
            warnings.warn(text, stacklevel=3)

    def _note_excess(self) -> None:
        """Name the largest sample if it is worth several machines: it may be a mistake, and is cut all the same."""
        largest = self.machines.capacity.max(axis=0)
        row, d = np.unravel_index(np.argmax(self.trace.usage / (self.unit * largest)), self.trace.usage.shape)
        units = self.trace.usage[row, d] / self.unit[d]
        if units > GROSS * largest[d]:
            owner = self.trace.workload_id[np.searchsorted(self.trace.offsets, row, "right") - 1]
            self._note(
                f"demand far above every machine's capacity: workload '{owner}', slot {self.trace.slot[row]}, column "
                f"{self.trace.resources[d]} is {self.trace.usage[row, d]:g}, which is {units:.0f} units (the 99.5th "
                f"percentile of its demand counts as {self.scenario.peak_units}); the largest machine has "
                f"{largest[d]:g}. It is cut to {self.scenario.peak_units}, like all demand above"
            )

    def windows(self, split: Split, count: int, rng: np.random.Generator) -> list[Window]:
        """Draw windows in random order: half long, half short, each resource dominating equally many.

        Parameters
        ----------
        split : {"train", "validation", "test"}
            Whose series they are cut from.
        count : int
            How many.
        rng : numpy.random.Generator
            What draws them.

        Returns
        -------
        list of Window
            The windows.
        """
        resources = len(self.trace.resources)
        recipe = [(i % 2 == 0, i // 2 % resources) for i in range(count)]
        drawn = []
        for long, kind in (recipe[i] for i in rng.permutation(count)):
            length = int(rng.integers(*(self._long if long else self._short), endpoint=True))
            length = min(length, self._most[split])
            for _ in range(KIND_ATTEMPTS):  # the resource `kind` is to have the larger mean in units
                run, begin = self._draw_place(split, length, rng)
                if self._dominated_by(kind, run, begin, length):
                    break
            fold = UNSEEN if split in self._held_out else int(self.fold[run.workload])
            slot = int(self.trace.slot[run.first + begin])
            begun = int(self.trace.slot[run.first]) if run.period else slot  # repeated days: the past comes again
            drawn.append(Window(run.workload, slot, self._cut(run, begin, length), fold, begun))
        return drawn

    def stacked(self, windows: Sequence[Window], split: Split) -> Windows:
        """The windows in one table, with what the scenario tells of earlier usage.

        Parameters
        ----------
        windows : sequence of Window
            n windows of this trace, at least one.
        split : {"train", "validation", "test"}
            Whose they are. Only those for testing are told of usage in rows for testing.
        """
        past = self._earlier(split == "test").before(windows) if self.scenario.own_past else None
        return stack_windows(windows, self.trace, self.unit, past)

    def _earlier(self, tests: bool) -> EarlierUsage:
        if tests not in self._told:
            scenario, hidden = self.scenario, np.zeros(len(self.trace.slot), np.bool_)
            for run in () if tests else self.runs["test"]:
                hidden[run.first : run.first + run.rows] = True
            self._told[tests] = EarlierUsage(
                self.trace, self.ratio, self.unit, scenario.peak_units, scenario.sample, hidden
            )
        return self._told[tests]

    def _calibrate(self, split: Split) -> tuple[float, float]:
        """Arrivals per slot that offer the load on the busier resource, and the mean length of a workload, slots."""
        windows = self.windows(split, CALIBRATION_WINDOWS, np.random.default_rng(0))
        shares = np.mean([_dominates(window.demand) for window in windows], axis=0)
        if shares.min() < 0.95 / len(shares):
            named = ", ".join(f"{share:.0%} most {r}" for share, r in zip(shares, self.trace.resources, strict=True))
            self._note(f"the mix of {split} windows is uneven: {named}, {1 - shares.sum():.0%} as much of several")
        if split == "train":
            self.request_factor = peak_over_first(windows)
        work = np.mean([w.demand.sum(axis=0) for w in windows], axis=0)
        share = float((work / self.machines.capacity.sum(axis=0)).max())
        return self.scenario.load / share, float(np.mean([len(w.demand) for w in windows]))

    def _served(self, split: Split, load: float, rate: float) -> float:
        """The arrivals per slot that offer the load, if they can be placed; at most as many in validation."""
        limit = self.scenario.placements_per_slot
        if limit is not None and rate > BUSIEST_RATE * limit:
            if split == "validation":  # short series must not refuse what training and testing can offer
                self._note(
                    f"validation at load {load:g} would need {rate:.2f} arrivals per slot: there are "
                    f"{BUSIEST_RATE * limit:g}, which offer less, with placements_per_slot = {limit}"
                )
                return BUSIEST_RATE * limit
            raise InputError(
                f"load {load:g} needs {rate:.2f} arrivals per slot, above {BUSIEST_RATE * limit:g} with "
                f"placements_per_slot = {limit}: lower the load (1 is the whole capacity; --load 0.3, or --loads "
                "0.3,0.5 in commands that have loads), raise placements_per_slot (--placements-per-slot), or use fewer "
                "machines (--machines)"
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
        """Draw arrival sequences, each of as many workloads.

        Sequence i depends on the seed, the split, its load and i alone.

        Parameters
        ----------
        split : {"train", "validation", "test"}
            Whose series the workloads are cut from.
        count : int
            How many sequences, >= 1.
        seed : int
            Seed of all that is drawn.
        classes : Classes
            What labels the workloads.
        forecasts : Forecaster, optional
            What forecasts their demand; default: nothing does.
        loads : sequence of float
            Loads that the sequences offer in turn; default: that of the scenario.

        Returns
        -------
        SequenceSet
            The sequences.

        Raises
        ------
        InputError
            For a load that cannot be served.
        """
        at_least(1, sequences=count)
        scenario, drawn, arrivals, background = self.scenario, [], [], []
        rates = [
            self._served(split, load, self.rate[split] * load / scenario.load) for load in loads or (scenario.load,)
        ]
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
        sequences = self._assemble(drawn, np.array(arrivals, dtype=np.int64), classes, forecasts, split)
        return replace(sequences, background=np.array(background)) if background else sequences

    def _assemble(
        self, drawn: list[list[Window]], arrival: Int, classes: Labels, forecasts: Forecasts | None, split: Split
    ) -> SequenceSet:
        trace = self.trace
        windows = self.stacked([window for row in drawn for window in row], split).reshape(*arrival.shape)
        workload_id: Strings = np.empty(arrival.shape, dtype=object)
        for s, row in enumerate(drawn):
            seen: dict[int, int] = {}
            for n, window in enumerate(row):
                seen[window.workload] = seen.get(window.workload, 0) + 1
                workload_id[s, n] = f"{trace.workload_id[window.workload]}#{seen[window.workload]}"
        return SequenceSet(
            resources=trace.resources,
            workload_id=workload_id,
            source_workload=trace.workload_id[windows.series],
            source_slot=np.array([[w.source_slot for w in row] for row in drawn], dtype=np.int64),
            arrival=arrival,
            length=windows.length,
            demand=windows.demand,
            request=windows.metadata[..., : len(trace.resources)],
            label=classes.label_table(windows, self.scenario.relabel_every),
            classes=classes.k,
            load=self.scenario.load,
            forecast=None if forecasts is None else forecasts.table(windows),
            request_factor=self.request_factor,
        )


BACKGROUND_SLOTS = 200  # period of the background load; no training episode is longer


def draw_arrivals(count: int, rate: float, burst: float, rng: np.random.Generator) -> Float:
    """(count,) slots, rising: batches of geometric size with mean `burst` >= 1 arrive in a Poisson process.

    `rate` > 0 is of workloads per slot whatever the batches are; burst = 1 is the plain Poisson process (paper).
    """
    between = rng.exponential(burst / rate, count)
    arrivals: Float = np.floor(np.cumsum(between)).repeat(rng.geometric(1.0 / burst, count))[:count]
    return arrivals


def perturb_demand(demand: Float, most: int, peak_units: int, rng: np.random.Generator) -> Float:
    """Demand (length, D) in whole units, each changed by -most..most at random, within 1..peak_units.

    Paper ("Robustness Against Noisy Environment"): discrete uniform noise of [-1, 1].
    """
    changed = demand + rng.integers(-most, most, demand.shape, endpoint=True)
    perturbed: Float = np.clip(changed, 1.0, float(peak_units))
    return perturbed


def draw_background(most: int, cluster: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """(P, M, D) whole units, uniform on 0..most for a `cluster` of shape (M, D): one random load per machine."""
    return rng.integers(most, size=(BACKGROUND_SLOTS, *cluster), dtype=np.uint8, endpoint=True)


def save_sequences(drawn: SequenceSet, file: BinaryIO) -> None:
    """Write arrival sequences, but not what draws their training sequences, to a file of numpy (.npz).

    Parameters
    ----------
    drawn : SequenceSet
        The sequences.
    file : binary file
        Where to.
    """
    table = (
        {} if drawn.forecast is None else {f"forecast.{name}": value for name, value in vars(drawn.forecast).items()}
    )
    own = {name: value for name, value in vars(drawn).items() if name not in ("forecast", "training")}
    arrays = {name: np.asarray(value) for name, value in (own | table).items() if value is not None}
    texts = {name: array.astype(np.str_) for name, array in arrays.items() if array.dtype.kind in "OU"}
    np.savez(file, allow_pickle=False, **(arrays | texts))


def load_sequences(file: BinaryIO) -> SequenceSet:
    """Read what `save_sequences` wrote.

    Parameters
    ----------
    file : binary file
        What has it.
    """
    with np.load(file, allow_pickle=False) as content:
        found: dict[str, Any] = {name: content[name] for name in content.files}
    table = {name: found.pop(f"forecast.{name}") for name in _TABLE if f"forecast.{name}" in found}
    texts = {name: array.astype(object) for name, array in found.items() if array.dtype.kind == "U"}
    plain = {"resources": tuple(found["resources"].tolist())}
    plain |= {name: found[name].item() for name in ("classes", "load")}
    return SequenceSet(**(found | texts | plain), forecast=ForecastTable(**table) if table else None)
