"""A placement problem: a trace, a scenario and equivalence classes, from which arrival sequences are drawn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.disk_cache import cached_json
from tvwrl.ec import DEFAULT_CLASSES, OWN_LABELS, SMALLEST_K, Classes, EquivalenceClasses, OwnLabels, population_of
from tvwrl.forecasting import Forecaster, NetworkForecaster, fit_or_adapt, training_windows
from tvwrl.metrics import score_episode
from tvwrl.progress import Report, nothing, phase
from tvwrl.simulation import Scenario
from tvwrl.traces import SequenceSampler, Split, trace_hash
from tvwrl.types import Episode, Float, InputError, Machines, SequenceSet, Trace, summary

if TYPE_CHECKING:
    from tvwrl.schedulers import Runner, Scheduler

FUTURE_WINDOWS, FUTURE_SEED = 2000, 1_000_003  # training windows that futures are sampled from; seed of their sequences
QUICK_INITIALISATIONS = 10  # fewer than in tvwrl classes, because classes are fitted on the way here
PLACEMENT_V0_CLASSES = 6  # of the environment's observations, where the scenario does not say
EXAMPLES = 12_000  # beginnings that each classifier of classes learns from


@dataclass(frozen=True, eq=False)
class Problem:
    """A trace, a scenario and classes, which environments, training and evaluation share; `build` makes one.

    Parameters
    ----------
    trace : Trace
        Recorded usage of workloads.
    scenario : Scenario
        What happens in an episode and what is seen of it.
    sampler : SequenceSampler
        Draws arrival sequences of the trace at the scenario's load.
    classes : Classes
        Label workloads by how they use resources.
    forecaster : Forecaster, optional
        Forecasts demand, where somebody looks at forecasts.

    Examples
    --------
    >>> problem = Problem.build(open_trace("google"), Scenario(load=0.8))  # doctest: +SKIP
    >>> sequences = problem.sequences("test", 10, seed=0)  # doctest: +SKIP
    """

    trace: Trace
    scenario: Scenario
    sampler: SequenceSampler
    classes: Classes
    forecaster: Forecaster | None = None

    def __repr__(self) -> str:
        return summary(self, trace=self.trace, machines=len(self.machines), load=self.scenario.load)

    @classmethod
    def build(
        cls,
        trace: Trace,
        scenario: Scenario,
        classes: Classes | str = DEFAULT_CLASSES,
        unit: Float | None = None,
        forecaster: Forecaster | None = None,
        report: Report = nothing,
    ) -> Problem:
        """The problem of a trace: sets the arrival rate and fits on the training series whatever is not given.

        Parameters
        ----------
        trace : Trace
            Recorded usage of workloads.
        scenario : Scenario
            What happens in an episode and what is seen of it.
        classes : Classes or str, default 'aggregate'
            Fitted classes, or the representation to fit `scenario.classes` of them on (aggregate, dtw, temporal);
            "none" gives each workload a label of its own, as long as there are labels.
        unit : array of float, optional
            (D,) input value of one unit.
        forecaster : Forecaster, optional
            Fitted if the scenario shows forecasts or peaks.
        report : Report, default nothing
            Gets a line on the scale, and one as each step begins.

        Examples
        --------
        >>> problem = Problem.build(open_trace("google"), Scenario(load=0.8))  # doctest: +SKIP
        >>> sequences = problem.sequences("test", 10, seed=0)  # doctest: +SKIP
        """
        sampler = SequenceSampler(trace, scenario, unit)
        report(sampler.scale())
        if classes == "none":
            classes = OwnLabels(scenario.classes or OWN_LABELS)
        elif isinstance(classes, str):
            classes = _classes_of(sampler, classes, report)
        problem = cls(trace, scenario, sampler, classes, forecaster)
        return problem.with_forecasts(report) if scenario.looks_ahead else problem

    def with_forecasts(self, report: Report = nothing) -> Problem:
        """The same problem with a forecaster of demand; if it has none, what `fit_or_adapt` makes.

        Parameters
        ----------
        report : Report, default nothing
            Gets a line as each step begins.
        """
        if self.forecaster is not None:
            return self
        made = NetworkForecaster(self.scenario.peak_units, self.scenario.step_seconds)
        windows = training_windows(self.sampler)
        forecaster = cached_json(
            "forecaster",
            (made.get_params(), windows, trace_hash(self.trace)),
            lambda: fit_or_adapt(made, windows, self.trace, report),
            type(made).to_dict,
            type(made).from_dict,
        )
        return replace(self, forecaster=forecaster)

    def at_load(self, load: float) -> Problem:
        """The same problem at another offered load, with the same units, classes and forecaster.

        Parameters
        ----------
        load : float
            Offered load on the busier resource, as a share of the cluster's capacity.
        """
        if load == self.scenario.load:
            return self
        scenario = replace(self.scenario, load=load)
        return Problem.build(self.trace, scenario, self.classes, self.sampler.unit, self.forecaster)

    def at_price(self, price: float) -> Problem:
        """The same problem at another price of a move.

        Parameters
        ----------
        price : float
            K_m, >= 0.
        """
        return replace(self, scenario=replace(self.scenario, K_m=float(price)))

    def on_machines(self, count: int) -> Problem:
        """The same problem with another number of machines, at the same offered load.

        Placements per slot and workloads in a sequence grow with them.

        Parameters
        ----------
        count : int
            How many.

        Raises
        ------
        InputError
            For machines of several kinds.
        """
        scenario = self.scenario
        if scenario.machine_types:
            kinds = " ".join(scenario.machine_types)
            raise InputError(f"machines is {count}: machines are of several kinds ({kinds}), so their number is fixed")
        times, limit = count / scenario.machines, scenario.placements_per_slot
        larger = replace(
            scenario,
            machines=count,
            placements_per_slot=None if limit is None else max(1, round(limit * times)),
            workloads=max(1, round(self.sampler.arrivals["test"] * times)),
        )
        return Problem.build(self.trace, larger, self.classes, self.sampler.unit, self.forecaster)

    @property
    def machines(self) -> Machines:
        """The cluster's machines."""
        return self.sampler.machines

    def score(self, episode: Episode) -> dict[str, Any]:
        """The referee's scores of an episode (`score_episode`), by the scenario's weights.

        Parameters
        ----------
        episode : Episode
            What a scheduler did.
        """
        scenario = self.scenario
        weights = scenario.penalty_weights()
        return score_episode(episode, self.machines, weights, scenario.overshoot_per, scenario.step_seconds)

    def rewards(self, runner: Runner, scheduler: Scheduler) -> Float:
        """(S,) the reward of a scheduler on each sequence of a runner; NaN where it left workloads unplaced.

        Parameters
        ----------
        runner : Runner
            Plays sequences of this problem.
        scheduler : Scheduler
            Who decides.

        Examples
        --------
        >>> problem.rewards(runner, make_scheduler("spread")).mean()  # doctest: +SKIP
        """
        rows = [self.score(runner.play(scheduler, i)) for i in range(len(runner.sequences))]
        return np.array([row["reward"] for row in rows], np.float64)

    def sequences(self, split: Split, count: int, seed: int, loads: Sequence[float] = ()) -> SequenceSet:
        """Draw arrival sequences from the series of a split.

        Parameters
        ----------
        split : Split
            One of train, validation and test.
        count : int
            How many.
        seed : int
            Of all that is drawn.
        loads : Sequence[float], optional
            Offered loads of the sequences, in turn; default: the scenario's.
        """
        drawn = self.sampler.sequences(split, count, seed, self.classes, self.forecaster, loads)
        return replace(drawn, training=self._training)

    def __deepcopy__(self, memo: dict[int, Any]) -> Problem:
        """Itself, as it never changes: copies of environments share the trace."""
        return self

    def _training(self) -> SequenceSet:
        """Training sequences that futures are sampled from, drawn when first asked for."""
        return self._drawn

    @cached_property
    def _drawn(self) -> SequenceSet:
        labels = OwnLabels(self.classes.k)  # nobody looks at them
        count = -(-FUTURE_WINDOWS // self.sampler.arrivals["train"])
        return self.sampler.sequences("train", count, FUTURE_SEED, labels, self.forecaster)


def _classes_of(sampler: SequenceSampler, representation: str, report: Report) -> EquivalenceClasses:
    """The classes of the training series of a sampler's trace; see `Problem.build`."""
    wanted, name, population = sampler.scenario.classes, sampler.trace.name, population_of(sampler)
    made = EquivalenceClasses(representation, wanted, QUICK_INITIALISATIONS)

    def fit() -> EquivalenceClasses:
        known = {"trace": name}
        with phase(f"fitting classes of the workloads of '{name}'", report), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* classes were requested, but only")  # said below
            try:
                return made.fit(population, known, examples=EXAMPLES)
            except InputError:
                if wanted is not None:
                    raise
                few = replace(made, n_classes=SMALLEST_K)  # too few distinct workloads to choose k: each is a class
                return few.fit(population, known, examples=EXAMPLES)

    parts = representation, wanted, QUICK_INITIALISATIONS, EXAMPLES, population, name
    classes = cached_json("classes", parts, fit, EquivalenceClasses.to_dict, EquivalenceClasses.from_dict)
    if (wanted := wanted or SMALLEST_K) > classes.k:
        few = f"only {classes.k} of {len(population)} workloads of '{name}' are distinct"
        warnings.warn(f"{wanted} classes were requested, but {few}: there are {classes.k} classes", stacklevel=3)
    return classes


@lru_cache(maxsize=4)
def default_problem(scenario: Scenario) -> Problem:
    """The embedded synthetic `google` population, seeded, under a scenario; the same on every machine.

    Its classes are part of what `tvwrl/Placement-v0` shows, so they do not follow the default.
    """
    from tvwrl.traces import synthetic_trace

    scenario = replace(scenario, classes=scenario.classes or PLACEMENT_V0_CLASSES)
    return Problem.build(synthetic_trace("google", workloads=200, seed=0), scenario, "temporal")


@lru_cache(maxsize=8)
def default_sequences(scenario: Scenario, count: int) -> SequenceSet:
    """Training sequences of the default problem, drawn once and shared by all environments of the process."""
    return default_problem(scenario).sequences("train", count, seed=0)
