"""Which representation to take: each is clustered by its best k; the one whose classes help forecasting most wins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.ec.classes import EquivalenceClasses
from tvwrl.ec.representations import Population
from tvwrl.progress import ticking
from tvwrl.types import InputError, Int

if TYPE_CHECKING:
    from tvwrl.ec.prediction_gain import GainReport
    from tvwrl.forecasting import ForecastSettings

PREFERRED = ("temporal", "dtw", "aggregate")  # order in which equal gains are resolved; the first is the paper's choice


@dataclass
class Candidate:
    """A representation with its classes, clustered, and what they gain."""

    classes: EquivalenceClasses
    seconds: float  # of representing and clustering, all k and initialisations
    gain: GainReport | None = None  # None: not measured

    @property
    def name(self) -> str:
        """The representation's."""
        return self.classes.representation

    def to_dict(self) -> dict[str, Any]:
        """For report.json."""
        search, gain = self.classes.search_, self.gain
        return {
            "representation": self.name,
            "k": self.classes.k,
            "search": search.to_dict() if search else None,
            "gain": gain.to_dict() if gain else None,
            "seconds": self.seconds,
        }


@dataclass
class Comparison:
    """The candidates, the one chosen, and the reason."""

    candidates: list[Candidate]
    chosen: Candidate
    why: str
    chance: GainReport | None = None  # what the chosen labels gain when dealt out at random


def compare(
    population: Population,
    makes: Sequence[Callable[[], EquivalenceClasses]],
    settings: ForecastSettings | None,
    wanted: str | None = None,
) -> Comparison:
    """Cluster by every representation, measure what the forecaster gains by the classes, and choose one.

    Without `settings` nothing is forecast; `wanted` names the representation to choose whatever its gain.

    Raises InputError where workloads cannot be clustered as asked.
    """
    candidates = []
    for classes in (make() for make in makes):
        begun = time.perf_counter()
        ks = classes.ks if classes.n_classes is None else [classes.n_classes]
        with ticking(f"clustering by {classes.representation}", total=len(ks) * classes.n_init) as bar:
            classes.cluster(population, bar.update)
        candidates.append(Candidate(classes, time.perf_counter() - begun))
    why_not, gain_of = "the forecaster was left out", None
    if settings is not None:
        try:
            gain_of = _gain_function(population, settings)
        except InputError as error:  # too little to forecast is no reason to have no classes
            why_not = str(error)
    if gain_of:
        for candidate in candidates:
            candidate.gain = gain_of(candidate.name, candidate.classes.labels_)
    comparison = _choose(candidates, wanted, why_not)
    if gain_of and settings:
        dealt = np.random.default_rng(settings.seed).permutation(comparison.chosen.classes.labels_)
        comparison.chance = gain_of("labels dealt out at random", dealt)
    return comparison


def _gain_function(population: Population, settings: ForecastSettings) -> Callable[[str, Int], GainReport]:
    """A function from the name of a progress bar and labels to their gain; trains the model of all workloads once."""
    from tvwrl.ec.prediction_gain import agnostic_forecast, prediction_gain

    @contextmanager
    def shown(name: str) -> Iterator[Callable[[int, int], None]]:
        with ticking(f"forecaster, {name}") as bar:

            def show(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            yield show

    def gain_of(name: str, labels: Int) -> GainReport:
        with shown(name) as show:
            return prediction_gain(of_all, labels, show)

    with shown("all workloads") as show:
        of_all = agnostic_forecast(population.series, population.slots_per_day, settings, show)
    return gain_of


def _choose(candidates: list[Candidate], wanted: str | None, why_not: str) -> Comparison:
    by_name = {candidate.name: candidate for candidate in candidates}
    first = next(by_name[name] for name in PREFERRED if name in by_name)
    default = "the paper's choice" if first.name == PREFERRED[0] else "the first that is left of the paper's order"
    if wanted is not None:
        return Comparison(candidates, by_name[wanted], "it was asked for")
    if len(candidates) == 1:
        return Comparison(candidates, first, "no other was compared")
    gains = {name: c.gain.effective_gain for name, c in by_name.items() if c.gain is not None}
    if not gains:
        return Comparison(candidates, first, f"{default}; no gain was measured: {why_not}")
    if not all(c.gain.beats_plain_rules for c in candidates if c.gain is not None):
        why = f"{default}; the forecaster does not beat plain rules here, so gains mean nothing"
        return Comparison(candidates, first, why)
    best = max((by_name[name] for name in PREFERRED if name in gains), key=lambda c: gains[c.name])
    if gains[best.name] == 0:
        return Comparison(candidates, first, f"{default}; no classes help the forecaster")
    return Comparison(candidates, best, "its classes have the highest effective prediction gain")
