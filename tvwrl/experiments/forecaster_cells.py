"""Forecasters as cells: each is fitted, judged by proper scores and by the reward of a scheduler that believes it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.envs import Problem
from tvwrl.experiments.engine import ROWS, Cell, Rows, folder_of
from tvwrl.forecasting import (
    FILE,
    SEGMENTS,
    SHARES,
    Forecaster,
    NetworkForecaster,
    Scores,
    fit_or_adapt,
    judged_beginnings,
    make_forecaster,
    read_forecaster,
    score,
    training_windows,
    write_forecaster,
)
from tvwrl.runs import write_json
from tvwrl.schedulers import Runner, make_scheduler
from tvwrl.simulation import Scenario
from tvwrl.traces import SequenceSampler, Split, Windows, open_trace, share_workloads, trace_hash
from tvwrl.types import InputError, Trace

JUDGE = "expected-cost"  # the scheduler that believes a forecaster
SCORES, REWARDS = "scores.json", "rewards.json"
SAVED = "network"  # the forecaster that can be saved
SHIPPED = "from_shipped"  # measure: whether it started from the weights that ship with the package
OWN, POOLED, OTHERS = "own", "pooled", "others"  # series that one learns from


@dataclass(frozen=True)
class Comparison:
    """What forecasters are compared on."""

    trace: str
    slot_seconds: int | None
    also: tuple[str, ...]
    scenario: Scenario
    loads: tuple[float, ...]
    sequences: int
    windows: int
    seed: int

    def problem(self, load: float, forecaster: Forecaster | None = None) -> Problem:
        """The problem at a load; labels are no matter, as the scheduler that judges looks at none."""
        scenario = replace(self.scenario, load=load)
        return Problem.build(self.opened, scenario, "none", self.sampler.unit, forecaster)

    @property
    def opened(self) -> Trace:
        """The trace to forecast."""
        return _opened(self.trace, self.slot_seconds)

    @property
    def sampler(self) -> SequenceSampler:
        """Draws windows of the trace."""
        return _sampler(self.trace, self.slot_seconds, replace(self.scenario, load=self.loads[0]))

    @property
    def _others(self) -> list[tuple[str, int | None, Scenario]]:
        """What opens the samplers of other traces."""
        scenario = replace(self.scenario, **WINDOWS_ALONE)
        return [(name, self.slot_seconds if name.endswith(".csv") else None, scenario) for name in self.also]

    def training(self, sources: str) -> list[Windows]:
        """Windows of training series: the trace's own, then those of others; or others' alone, without folds."""
        own = (self.trace, self.slot_seconds, self.sampler.scenario)
        chosen = [own] * (sources != OTHERS) + self._others * (sources != OWN)
        found = [_windows(*one, self.windows, self.seed) for one in chosen]
        return found if sources != OTHERS else [one.without_folds() for one in found]

    def request(self) -> dict[str, Any]:
        """What every result depends on; a trace counts by its content."""
        scenario = replace(self.scenario, load=self.loads[0])
        asked = {"trace_hash": trace_hash(self.opened), "scenario": asdict(scenario), "loads": self.loads}
        return asked | {"sequences": self.sequences, "windows": self.windows, "seed": self.seed}

    def others_by_hash(self) -> dict[str, str]:
        """Name -> hash of the other traces."""
        return {name: trace_hash(_opened(name, slot_seconds)) for name, slot_seconds, _ in self._others}

    def check(self) -> None:
        """Raise InputError, naming the trace and the field, for traces that cannot be learnt from together, and for
        loads that cannot be offered."""
        first = self.opened
        hashes = {trace_hash(first): self.trace}
        others = [(name, _opened(name, slot_seconds)) for name, slot_seconds, _ in self._others]
        for name, trace in [(self.trace, first), *others]:
            if trace.resources != first.resources:
                raise InputError(
                    f"also: trace '{name}' has the resources {', '.join(trace.resources)}, but '{self.trace}' has "
                    f"{', '.join(first.resources)}: must be the same in the same order"
                )
            if self.scenario.step_seconds % trace.slot_seconds:
                raise InputError(
                    f"step_seconds is {self.scenario.step_seconds}: must be a multiple of the slot_seconds of trace "
                    f"'{name}', {trace.slot_seconds}; give another --step-seconds, or leave it out"
                )
            if trace is not first and (same := hashes.setdefault(trace_hash(trace), name)) != name:
                raise InputError(f"also: trace '{name}' is '{same}' under another name: leave it out")
            if trace is not first and share_workloads(first, trace):
                raise InputError(
                    f"also: trace '{name}' shares workload names with '{self.trace}', so forecasters could see its "
                    "test series: leave it out, or rename its workloads if they are different ones"
                )
        if self.trace in self.also or len(set(self.also)) < len(self.also):
            raise InputError(f"also is {', '.join(self.also)}: must be different traces, without '{self.trace}'")
        for load in self.loads:
            self.problem(load)
        for one in self._others:
            _sampler(*one)


# Of other traces only windows are drawn, so it does not matter whether they could be served; nor have all applications.
WINDOWS_ALONE: dict[str, Any] = {"placements_per_slot": None, "split": "workloads"}


@dataclass(frozen=True)
class ForecasterCell(Cell):
    """A forecaster judged on validation or test: by scores, and by rewards of `JUDGE`."""

    comparison: Comparison
    candidate: str
    sources: str
    split: Split
    fitted: Path | None = None  # a file of the fitted forecaster; default: fit it

    @property
    def name(self) -> str:
        return f"{self.split}/{self.title}"

    @property
    def title(self) -> str:
        """The candidate, and what it learnt from, in the name of a folder."""
        return self.candidate if self.candidate != SAVED else f"{self.candidate}-{self.sources}"

    def request(self) -> dict[str, Any]:
        others = {} if self.sources == OWN else self.comparison.others_by_hash()
        asked = {"candidate": self.candidate, "sources": self.sources, "split": self.split, "also": others}
        return self.comparison.request() | asked | {"fitted": self.fitted}

    def run(self, folder: Path) -> None:
        """Leave rows of the report, scores, rewards, and the fitted forecaster if it can be saved."""
        compared = self.comparison
        forecaster, seconds = self._forecaster()
        if self.candidate == SAVED and self.fitted is None:
            write_forecaster(folder / FILE, forecaster, compared.sampler)
        scores = score(forecaster, judged_beginnings(compared.sampler, self.split, compared.seed))
        write_json(folder / SCORES, {name: np.asarray(value).tolist() for name, value in vars(scores).items()})
        rewards = {str(load): self._rewards(load, forecaster) for load in compared.loads}
        write_json(folder / REWARDS, rewards)
        rows = self._rows(scores, rewards, seconds)
        if isinstance(forecaster, NetworkForecaster):
            rows.append(self._named() | {"measure": SHIPPED, "at": None, "value": float(forecaster.adapted_)})
        write_json(folder / ROWS, rows)

    def _forecaster(self) -> tuple[Forecaster, float]:
        """The fitted forecaster, and the seconds that it took."""
        compared = self.comparison
        if self.fitted is not None:
            return read_forecaster(self.fitted, compared.sampler), 0.0
        own, *also = compared.training(self.sources)
        scenario = compared.scenario
        made = make_forecaster(self.candidate, scenario.peak_units, scenario.step_seconds, compared.seed)
        begun = time.monotonic()
        if isinstance(made, NetworkForecaster) and self.sources == OWN:
            return fit_or_adapt(made, own, compared.opened), time.monotonic() - begun
        return made.fit(own, also), time.monotonic() - begun

    def _rewards(self, load: float, forecaster: Forecaster) -> list[float]:
        """The rewards of `JUDGE` on the sequences of the split at a load."""
        problem = self.comparison.problem(load, forecaster)
        drawn = problem.sequences(self.split, self.comparison.sequences, self.comparison.seed)
        runner = Runner(drawn, problem.machines, problem.scenario, self.comparison.seed)
        scheduler = make_scheduler(JUDGE)
        return [float(problem.score(runner.play(scheduler, i))["reward"]) for i in range(len(drawn))]

    def _named(self) -> dict[str, Any]:
        return {"split": self.split, "forecaster": self.candidate, "learnt_from": self.sources}

    def _rows(self, scores: Scores, rewards: dict[str, list[float]], seconds: float) -> Rows:
        """What report.csv says of it: a row for every measure."""
        named = self._named()
        rows: Rows = [named | {"measure": "fit_seconds", "at": None, "value": seconds}] if self.fitted is None else []
        for measure in ("crps", "running_crps", "brier", "within_50", "within_90"):
            for (first, last), value in zip(SEGMENTS, getattr(scores, measure), strict=True):
                rows.append(named | {"measure": measure, "at": f"{first}-{last}", "value": float(value)})
        for measure in ("peak_crps", "peak_within_50", "peak_within_90"):
            rows.append(named | {"measure": measure, "at": "peak", "value": float(getattr(scores, measure))})
        for share, value in zip(SHARES, scores.calibration, strict=True):
            rows.append(named | {"measure": "calibration", "at": str(share), "value": float(value)})
        for load, values in rewards.items():
            rows += [named | {"measure": "reward", "at": f"{load}/{i}", "value": v} for i, v in enumerate(values)]
        return rows


def cells_of(comparison: Comparison, candidates: Sequence[str]) -> list[ForecasterCell]:
    """The forecasters on validation: each learns from the trace, the one that can be saved from others too."""
    learns = {SAVED: [OWN, *([POOLED, OTHERS] if comparison.also else [])]}
    return [
        ForecasterCell(comparison, name, sources, "validation")
        for name in candidates
        for sources in learns.get(name, [OWN])
    ]


def judged_on_test(out: Path, cell: ForecasterCell) -> ForecasterCell:
    """The cell that judges on test the forecaster that a finished cell judged on validation."""
    file = folder_of(out, cell) / FILE
    return replace(cell, split="test", fitted=file if cell.candidate == SAVED else None)


@lru_cache(maxsize=8)
def _opened(name: str, slot_seconds: int | None) -> Trace:
    return open_trace(name, slot_seconds)


@lru_cache(maxsize=8)
def _sampler(name: str, slot_seconds: int | None, scenario: Scenario) -> SequenceSampler:
    return SequenceSampler(_opened(name, slot_seconds), scenario)


@lru_cache(maxsize=8)
def _windows(name: str, slot_seconds: int | None, scenario: Scenario, count: int, seed: int) -> Windows:
    return training_windows(_sampler(name, slot_seconds, scenario), count, seed)
