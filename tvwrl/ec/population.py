"""The workloads to divide into classes: a series of demand and the metadata of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvwrl.traces import DAY_SECONDS, Run, SequenceSampler, average_slots, metadata_of
from tvwrl.types import Float, InputError, Int, Strings, summary


@dataclass(frozen=True)
class Population:
    """n workloads, each with its longest stretch of usage without a gap."""

    resources: tuple[str, ...]  # (D,)
    workload_id: Strings  # (n,)
    series: list[Float]  # n of (length, D) units, >= 0
    metadata: Float  # (n, D + 2), as of `metadata_of`
    fold: Int  # (n,) 0..FOLDS - 1; UNSEEN: in none, so that whatever is fitted per fold sees it every time
    step_seconds: int  # length of a slot
    peak_units: int  # what the environment cuts demand to
    quantised: bool = True  # whether it rounds demand to whole units

    def __len__(self) -> int:
        return len(self.series)

    def __repr__(self) -> str:
        return summary(self, workloads=len(self), step_seconds=self.step_seconds, resources=self.resources)

    @property
    def slots_per_day(self) -> int:
        """Slots of the series in a day, at least 1."""
        return max(1, round(DAY_SECONDS / self.step_seconds))

    def select(self, chosen: Sequence[int] | Int) -> Population:
        """Some of the workloads."""
        index = np.asarray(chosen, np.int64)
        series = [self.series[i] for i in index]
        by_workload = {name: getattr(self, name)[index] for name in ("workload_id", "metadata", "fold")}
        return replace(self, series=series, **by_workload)


def population_of(sampler: SequenceSampler, runs: Sequence[Run] | None = None) -> Population:
    """The training workloads of a sampler in its slots and units, or those of other `runs` of its trace.

    Raises InputError if none of them covers a slot.

    >>> population = population_of(SequenceSampler(open_trace("google"), Scenario()))  # doctest: +SKIP
    >>> classes = EquivalenceClasses("temporal", n_classes=6).fit(population)  # doctest: +SKIP
    """
    trace, ratio, scenario = sampler.trace, sampler.ratio, sampler.scenario
    longest: dict[int, Run] = {}
    for run in sampler.runs["train"] if runs is None else runs:
        if run.rows >= ratio and (run.workload not in longest or run.rows > longest[run.workload].rows):
            longest[run.workload] = run
    if not longest:
        raise InputError(f"no workload of trace '{trace.name}' covers one slot of {scenario.step_seconds} s")
    series = []
    for run in longest.values():
        rows = trace.usage[run.first : run.first + run.rows - run.rows % ratio]
        series.append(average_slots(rows, ratio, scenario.sample) / sampler.unit)
    chosen = np.array(list(longest), np.int64)
    metadata = metadata_of(trace, chosen, sampler.unit)
    fold = sampler.fold[chosen]
    environment = scenario.step_seconds, scenario.peak_units, scenario.quantise
    return Population(trace.resources, trace.workload_id[chosen], series, metadata, fold, *environment)
