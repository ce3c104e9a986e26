"""Which representation to take, and whether its classes help to forecast at all: by evidence against chance.

A representation's classes help to forecast if they are found again with other seeds and in samples of the workloads,
are recognised at run time more often than by guessing the commonest class, and gain a forecaster more than random
classes do. If those of none do, forecasts need no classes, and the most recognisable of the stable ones are shown to
agents.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.disk_cache import cached_json
from tvwrl.ec.classes import EquivalenceClasses
from tvwrl.ec.classifier import SPLITS, ClassifierReport, report_classifier
from tvwrl.ec.representations import Population
from tvwrl.ec.stability import RESAMPLES, SEEDS, STABLE, Stability, stability
from tvwrl.progress import say, ticking
from tvwrl.types import Bool, InputError, Int

if TYPE_CHECKING:
    from tvwrl.ec.linear_gain import LinearForecasts, LinearGain
    from tvwrl.ec.prediction_gain import GainReport, Judged
    from tvwrl.forecasting import ForecastSettings

PREFERRED = ("aggregate", "dtw", "temporal")  # order in which equal evidence is resolved, the cheapest first
LIKELY = 0.05  # largest p of a gain that is not called chance, divided by the number of representations tried


@dataclass
class Candidate:
    """A representation with its classes, clustered, and the evidence for them. None: not measured."""

    classes: EquivalenceClasses
    seconds: dict[str, float]  # by step
    stability: Stability | None = None
    recognition: ClassifierReport | None = None
    linear: LinearGain | None = None  # what the classes gain a linear forecaster
    no_forecasts: str = ""  # why nothing was forecast
    gain: GainReport | None = None  # what they gain LSTNet, as in the paper

    @property
    def name(self) -> str:
        """The representation's."""
        return self.classes.representation

    def objections(self, tried: int) -> list[str]:
        """Why its classes are not said to help to forecast, in words; none if they are.

        `tried`: representations compared, as the best of several gains is chance more often than one.
        """
        found = []
        if (stable := self.stability) is not None and not stable.stable:
            found.append(
                f"its classes are not found again (adjusted Rand index {stable.over_seeds:.2f} over seeds, "
                f"{stable.over_resamples:.2f} over samples; needed: {STABLE:g})"
            )
        if self.recognition is None:
            found.append("there are too few workloads, or applications, to hold some out")
        elif not self.recognition.recognisable:
            found.append("its classes are not recognised at run time more often than by guessing the commonest")
        if self.linear is None:
            found.append(self.no_forecasts or "nothing was forecast")
        elif not self.linear.beats_last_value:
            found.append("the forecaster is no better than the last value, so a gain over it means nothing")
        elif not self.linear.gain > 0:
            found.append("forecasts by class are not better than those of one model of all workloads")
        elif not self.linear.p * tried <= LIKELY:
            found.append(
                f"random classes gain as much too often (p = {self.linear.p:.3f}; at most {LIKELY / tried:.3f} with "
                f"{tried} representation{'s' * (tried > 1)} tried)"
            )
        return found

    def to_cache(self) -> dict[str, Any]:
        """Plain numbers and lists of all that was measured but LSTNet's gain."""
        parts: dict[str, Any] = {"stability": self.stability, "recognition": self.recognition, "linear": self.linear}
        content: dict[str, Any] = {name: None if part is None else part.to_dict() for name, part in parts.items()}
        classes = self.classes.clustering_to_dict()
        return content | {"classes": classes, "seconds": self.seconds, "no_forecasts": self.no_forecasts}

    def to_dict(self) -> dict[str, Any]:
        """For report.json."""
        parts: dict[str, Any] = {"search": self.classes.search_, "stability": self.stability}
        parts |= {"recognition": self.recognition, "linear": self.linear, "gain": self.gain}
        content = {name: None if part is None else part.to_dict() for name, part in parts.items()}
        return {"representation": self.name, "k": self.classes.k} | content | {"seconds": self.seconds}


@dataclass
class Comparison:
    """The candidates, the one chosen, and the reason."""

    candidates: list[Candidate]
    chosen: Candidate
    why: str
    helps: bool  # whether the chosen classes help to forecast, by the evidence
    chance: GainReport | None = None  # what labels gain LSTNet when dealt out at random: those of the highest gain


def compare(
    population: Population,
    makes: Sequence[Callable[[], EquivalenceClasses]],
    settings: ForecastSettings,
    wanted: str | None = None,
    by_network: bool = False,
) -> Comparison:
    """Cluster by every representation, gather the evidence, and choose one.

    What was measured of a representation is kept on disk, so that the same call continues after an interruption.

    Parameters
    ----------
    population : Population
        The workloads.
    makes : sequence of callable
        Each makes classes that are not fitted yet.
    settings : ForecastSettings
        Of the forecasts that classes are to help.
    wanted : str, optional
        The representation to choose whatever the evidence.
    by_network : bool
        Whether to train LSTNet too, for the paper's gain, which decides nothing.

    Raises
    ------
    InputError
        Where workloads cannot be clustered as asked.
    """
    forecasts, candidates = _Forecasts(population, settings), []
    for make in makes:
        classes, seconds = make(), time.perf_counter()
        say(f"{classes.representation}: clustering, stability, recognition at run time, gain of forecasts")
        candidate = cached_json(
            "evidence",
            (classes.get_params(), asdict(settings), population),
            partial(_gather, make, population, forecasts),
            Candidate.to_cache,
            partial(_from_cache, make),
        )
        kept = time.perf_counter() - seconds < sum(candidate.seconds.values())
        spent = "kept from an earlier call" if kept else f"{sum(candidate.seconds.values()):.1f} s"
        say(f"{candidate.name}: {candidate.classes.k} classes, {spent}")
        candidates.append(candidate)
    comparison = _choose(candidates, wanted)
    if by_network:
        comparison.chance = network_gains(population, candidates, settings)
    return comparison


def clustered(population: Population, makes: Sequence[Callable[[], EquivalenceClasses]]) -> list[Candidate]:
    """Cluster by every representation, and measure nothing else.

    Parameters
    ----------
    population : Population
        The workloads.
    makes : sequence of callable
        Each makes classes that are not fitted yet.

    Raises
    ------
    InputError
        Where workloads cannot be clustered as asked.

    Examples
    --------
    >>> found = clustered(population, [partial(EquivalenceClasses, "dtw")])  # doctest: +SKIP
    """
    found = [Candidate(make(), {}) for make in makes]
    for candidate in found:
        _cluster(candidate, population)
    return found


def _cluster(candidate: Candidate, population: Population) -> None:
    classes = candidate.classes
    ks = classes.ks if classes.n_classes is None else [classes.n_classes]
    with _step(candidate, "clustering", len(ks) * classes.n_init) as progress:
        classes.cluster(population, progress)


@contextmanager
def _step(candidate: Candidate, what: str, total: int) -> Iterator[Callable[[], Any]]:
    """Show progress, which what it gives counts, and keep the seconds."""
    begun = time.perf_counter()
    with ticking(f"{candidate.name}: {what}", total=total) as bar:
        yield bar.update
    candidate.seconds[what] = time.perf_counter() - begun


class _Forecasts:
    """The linear forecasts of a population, made where they are needed first."""

    def __init__(self, population: Population, settings: ForecastSettings) -> None:
        self.population, self.settings = population, settings

    @cached_property
    def made(self) -> LinearForecasts | str:
        """The forecasts, or why there are none."""
        from tvwrl.ec.linear_gain import LinearForecasts

        try:
            return LinearForecasts(self.population, self.settings)
        except InputError as error:  # too little to forecast is no reason to have no classes
            return str(error)


def _gather(make: Callable[[], EquivalenceClasses], population: Population, forecasts: _Forecasts) -> Candidate:
    """A representation clustered, with all evidence but LSTNet's."""
    from tvwrl.ec.linear_gain import PERMUTATIONS

    found = Candidate(make(), {})
    _cluster(found, population)
    classes = found.classes
    represented = classes.representation_
    with _step(found, "stability", SEEDS + RESAMPLES) as progress:
        own = classes.labels_[represented.rows_]
        found.stability = stability(represented, own, classes.n_init, classes.random_state, progress)
    with _step(found, "recognition", SPLITS) as progress:
        found.recognition = report_classifier(population, classes.labels_, classes.random_state, progress=progress)
    with _step(found, "gain", PERMUTATIONS) as progress:
        if isinstance(forecasts.made, str):
            found.no_forecasts = forecasts.made
        else:
            found.linear = forecasts.made.gain(classes.labels_, progress=progress)
    return found


def _from_cache(make: Callable[[], EquivalenceClasses], content: dict[str, Any]) -> Candidate:
    """What `Candidate.to_cache` described."""
    from tvwrl.ec.linear_gain import LinearGain

    kinds: dict[str, Callable[[dict[str, Any]], Any]] = {
        "stability": Stability.from_dict,
        "recognition": ClassifierReport.from_dict,
        "linear": LinearGain.from_dict,
    }
    parts = {name: None if content[name] is None else read(content[name]) for name, read in kinds.items()}
    classes = make()
    classes.restore_clustering(content["classes"])
    measured = parts["stability"], parts["recognition"], parts["linear"]
    return Candidate(classes, content["seconds"], *measured, content["no_forecasts"])


def network_gains(
    population: Population, candidates: Sequence[Candidate], settings: ForecastSettings
) -> GainReport | None:
    """Measure the paper's gain: LSTNet trained on all workloads and on each class, each of which is kept on disk.

    Parameters
    ----------
    population : Population
        The workloads.
    candidates : sequence of Candidate
        Clustered; their `gain` is set.
    settings : ForecastSettings
        Of LSTNet.

    Returns
    -------
    GainReport or None
        What the labels of the highest effective gain reach when they are dealt out at random; None if series are too
        short to forecast.

    Examples
    --------
    >>> chance = network_gains(population, candidates, ForecastSettings())  # doctest: +SKIP
    """
    from tvwrl.ec.prediction_gain import AgnosticForecast, GainReport, agnostic_forecast, prediction_gain

    of_all: list[AgnosticForecast] = []  # trained where a gain is not kept yet

    def keep(members: Bool, least: int, make: Callable[[], Judged]) -> Judged:
        parts = population, asdict(settings), members, least
        return cached_json("lstnet", parts, make, lambda judged: (judged[0].tolist(), judged[1]), _judged)

    def trained(name: str, labels: Int) -> GainReport:
        if not of_all:
            with _shown("all workloads") as show:
                of_all.append(agnostic_forecast(population.series, population.slots_per_day, settings, show, keep))
        with _shown(name) as show:
            return prediction_gain(of_all[0], labels, show, keep)

    def gain_of(name: str, labels: Int) -> GainReport:
        parts = population, asdict(settings), labels
        return cached_json("gain", parts, partial(trained, name, labels), GainReport.to_dict, GainReport.from_dict)

    try:
        for candidate in candidates:
            candidate.gain = gain_of(candidate.name, candidate.classes.labels_)
    except InputError:  # too little to forecast
        return None
    best = max(candidates, key=lambda c: c.gain.effective_gain if c.gain else 0.0)
    dealt = np.random.default_rng(settings.seed).permutation(best.classes.labels_)
    return gain_of("labels dealt out at random", dealt)


def _judged(content: list[Any]) -> Judged:
    """What was kept of trained models."""
    return np.array(content[0], np.float64), content[1]


@contextmanager
def _shown(name: str) -> Iterator[Callable[[int, int], None]]:
    """Progress of trainings: models done, models in all."""
    say(f"LSTNet, {name}: training and forecasting")
    with ticking(f"LSTNet, {name}") as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield show


def _choose(candidates: list[Candidate], wanted: str | None) -> Comparison:
    ranked = sorted(candidates, key=lambda c: PREFERRED.index(c.name))
    helping = [c for c in ranked if not c.objections(len(candidates))]
    if wanted is not None:
        chosen = next(c for c in ranked if c.name == wanted)
        return Comparison(candidates, chosen, "it was asked for", chosen in helping)
    if helping:
        best = max(helping, key=lambda c: c.linear.gain if c.linear else 0.0)
        return Comparison(candidates, best, "of those whose classes help to forecast, it gains most", True)
    stable = [c for c in ranked if c.stability is None or c.stability.stable]
    told = [c for c in stable if c.recognition is not None and c.recognition.recognisable]
    if told:
        best = max(told, key=lambda c: c.recognition.advantage.mean if c.recognition else 0.0)
        return Comparison(candidates, best, "of those with stable classes, its are recognised best at run time", False)
    why = (
        "its classes are the most stable, but are not recognised at run time"
        if stable
        else ("no classes are stable; its are the least unstable")
    )
    best = max(stable or ranked, key=lambda c: c.stability.least if c.stability else 0.0)
    return Comparison(candidates, best, why, False)
