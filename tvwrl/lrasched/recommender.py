"""Recommends the size of a new application's replicas and their degree of collocation (LRASched, 3.2.2, 3.2.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvwrl.checks import within
from tvwrl.lrasched.predictors import Predictor, factorization_machine
from tvwrl.lrasched.profiles import Bool, Configuration, Profiles
from tvwrl.types import Float, InputError

Measured = Mapping[str, float]  # configuration -> performance, 0..1


@dataclass(frozen=True)
class Goal:
    """The performance to reach, and a margin beyond it against errors of prediction.

    Parameters
    ----------
    performance : float
        0 to 1.
    margin : float
        0 to 1.
    higher_is_better : bool
        False where performance is a latency and the goal an upper limit.

    Raises
    ------
    InputError
        A value is out of range.

    Examples
    --------
    >>> Goal(0.8, margin=0.02).met(np.array([0.81, 0.83]))
    array([False,  True])
    """

    performance: float
    margin: float = 0.0
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        within(0, 1, goal=self.performance, margin=self.margin)

    @property
    def limit(self) -> float:
        """Goal and margin together, 0..1; never beyond the best performance there is."""
        return (
            min(self.performance + self.margin, 1.0)
            if self.higher_is_better
            else max(self.performance - self.margin, 0.0)
        )

    def met(self, performance: Float) -> Bool:
        """Tell which performances reach the limit.

        Parameters
        ----------
        performance : Float
            (...) 0 to 1.
        """
        above = performance - self.limit
        return np.asarray((above if self.higher_is_better else -above) >= -1e-12)


@dataclass(frozen=True)
class Choice:
    """One decision: the configurations in order of preference, their performance, and the chosen one."""

    configurations: tuple[Configuration, ...]  # k of them, the preferred ones first
    performance: Float  # (k,) 0..1: measured where measured, else predicted
    predicted: Float  # (k,) 0..1, whether measured or not
    measured: Bool  # (k,)
    chosen: int
    reached: bool  # whether the chosen one meets the goal with its margin

    @property
    def configuration(self) -> Configuration:
        """The chosen one."""
        return self.configurations[self.chosen]

    @property
    def expected(self) -> float:
        """Performance of the chosen one, 0..1."""
        return float(self.performance[self.chosen])

    @classmethod
    def of(cls, configurations: Sequence[Configuration], predicted: Float, measured: Measured, goal: Goal) -> Choice:
        """Choose the first that meets the goal (paper: "just leads to"), or the best performing one if none does."""
        known = np.array([c.name in measured for c in configurations])
        performance = np.array(
            [measured.get(c.name, guess) for c, guess in zip(configurations, predicted, strict=True)]
        )
        met = goal.met(performance)
        best = np.argmax(performance) if goal.higher_is_better else np.argmin(performance)
        chosen = int(np.argmax(met)) if met.any() else int(best)
        return cls(tuple(configurations), performance, predicted, known, chosen, bool(met.any()))


@dataclass(frozen=True)
class Recommendation:
    """Size and degree of collocation for an application, and the measurements and predictions they rest on.

    Parameters
    ----------
    application : str
        Its name.
    goal : Goal
        What was asked for.
    size : Choice
        Among sizes, the smallest first.
    degree : Choice
        Among degrees of the chosen size, the largest first.
    assumed : bool
        No degree was measured: the predicted performance of the size replaces one.
    unused : tuple of str
        Measured degrees of sizes that were not considered.

    Examples
    --------
    >>> found.configuration.name, found.reached  # of `Recommender.recommend`  # doctest: +SKIP
    ('2c-4g-x4', True)
    """

    application: str
    goal: Goal
    size: Choice
    degree: Choice
    assumed: bool
    unused: tuple[str, ...] = ()

    @property
    def configuration(self) -> Configuration:
        """The recommended configuration."""
        return self.degree.configuration

    @property
    def reached(self) -> bool:
        """Whether the recommended configuration is expected to meet the goal with its margin."""
        return self.degree.reached

    def rows(self) -> list[dict[str, Any]]:
        """Both curves as a table: a row per decision and configuration."""
        return [
            {
                "decision": decision,
                "configuration": c.name,
                "cpu": c.cpu,
                "mem": c.mem,
                "collocation": c.collocation,
                "predicted": round(float(choice.predicted[i]), 6),
                "measured": round(float(choice.performance[i]), 6) if choice.measured[i] else "",
                "meets_goal": bool(self.goal.met(choice.performance[i])),
                "chosen": i == choice.chosen,
            }
            for decision, choice in (("size", self.size), ("degree", self.degree))
            for i, c in enumerate(choice.configurations)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The recommendation as JSON-able values."""
        chosen = self.configuration
        return {
            "application": self.application,
            "goal": self.goal.performance,
            "margin": self.goal.margin,
            "higher_is_better": self.goal.higher_is_better,
            "configuration": chosen.name,
            "cpu": chosen.cpu,
            "mem": chosen.mem,
            "collocation": chosen.collocation,
            "expected_performance": self.degree.expected,
            "reached": self.reached,
            "size_reached": self.size.reached,
            "degree_measured": bool(self.degree.measured[self.degree.chosen]),
            "curve": self.rows(),
        }


PROFILED = 2  # number of sizes, then of degrees, in which a new application is measured


class Recommender:
    """Learns from exhaustively profiled applications; recommends for new ones after a few measurements.

    Sizes are compared at the smallest degree of collocation there is, and ordered by their share of the largest CPU
    plus their share of the largest memory. Each size has a predictor of its degrees, fitted when first needed. The
    predictors learn the measurements of new applications too. A configuration that no application was measured in is
    not offered, since predictions for it would rest on nothing; `left_out` names these.

    Parameters
    ----------
    profiles : Profiles
        Earlier applications, at least two.
    configurations : sequence of Configuration
        All that the profiles name.
    make : callable
        Takes a seed and returns an unfitted predictor: a value of `PREDICTORS`.
    seed : int
        Of the predictors.

    Raises
    ------
    InputError
        Fewer than two applications, a configuration of the profiles that `configurations` lacks, or two configurations
        with equal numbers.

    Examples
    --------
    >>> sizes = [Configuration("small", 1.0, 2.0), Configuration("large", 4.0, 8.0)]
    >>> grid = np.array([[0.5, 0.9], [0.6, 1.0], [0.4, 0.8]])
    >>> history = Profiles.of_grid(["a", "b", "c"], ["small", "large"], grid)
    >>> Recommender(history, sizes).recommend("new", {"small": 0.55, "large": 0.95}, goal=0.9).configuration.name
    'large'
    """

    def __init__(
        self,
        profiles: Profiles,
        configurations: Sequence[Configuration],
        make: Callable[[int], Predictor] = factorization_machine,
        seed: int = 0,
    ) -> None:
        table = {one.name: one for one in configurations}
        if missing := [name for name in profiles.configurations if name not in table]:
            raise InputError(f"configuration {missing[0]!r} of the profiles has no cpu and mem")
        if len(set(profiles.applications)) < 2 or not len(profiles):
            raise InputError(f"the profiles hold {len(profiles.applications)} applications: at least 2 are needed")
        measured = {profiles.configurations[c] for c in profiles.configuration}
        known = [table[name] for name in profiles.configurations if name in measured]
        if ((profiles.performance < 0.0) | (profiles.performance > 1.0)).any():
            raise InputError("the profiles hold performance outside 0 to 1, which this procedure needs")
        self.left_out = tuple(name for name in table if name not in measured)
        same: dict[tuple[float, float, int], str] = {}
        for one in known:
            if same.setdefault((*one.size, one.collocation), one.name) != one.name:
                twin = same[(*one.size, one.collocation)]
                raise InputError(f"configurations {twin!r} and {one.name!r} have the same cpu, mem and collocation")
        self.profiles, self.configurations, self.make, self.seed = profiles, {c.name: c for c in known}, make, seed
        degree, cpu, mem = min(c.collocation for c in known), max(c.cpu for c in known), max(c.mem for c in known)
        sizes = [one for one in known if one.collocation == degree]
        self.sizes = sorted(sizes, key=lambda c: (c.cpu / cpu + c.mem / mem, c.cpu, c.name))  # smallest first
        self._predictors: dict[str, _NamedPredictor] = {}

    def degrees(self, size: Configuration) -> list[Configuration]:
        """The configurations of one size, the largest degree of collocation first.

        Parameters
        ----------
        size : Configuration
            Any of that size.
        """
        same = [one for one in self.configurations.values() if one.size == size.size]
        return sorted(same, key=lambda c: -c.collocation)

    def recommend(self, application: str, measured: Measured, goal: float, margin: float = 0.0) -> Recommendation:
        """Recommend a size and a degree from measurements of at least one size and any number of degrees.

        Without a measured degree of the chosen size, the performance predicted for the size replaces one. The same
        application may come again with more measurements. Paper: the size is chosen once. Here: a size none of whose
        degrees is expected to meet the goal is passed over, because its own prediction was too optimistic; if all are,
        the one expected to perform best is chosen.

        Parameters
        ----------
        application : str
            A name that the profiles do not have.
        measured : mapping of str to float
            Configuration -> performance, 0 to 1.
        goal : float
            The performance to reach, 0 to 1.
        margin : float
            Beyond the goal, against errors of prediction, 0 to 1.

        Raises
        ------
        InputError
            An application of the profiles, an unknown configuration, a value out of range, or no measured size.
        """
        target = Goal(goal, margin, self.profiles.higher_is_better)
        self._check(application, measured)
        size = self._choose("sizes", self.sizes, application, measured, target, measured)
        candidates = np.nonzero(target.met(size.performance))[0] if size.reached else [size.chosen]
        missed: list[Recommendation] = []
        considered = {one.name for one in self.sizes}
        for i in candidates:
            considered |= {one.name for one in self.degrees(self.sizes[i])}
            unused = tuple(name for name in measured if name not in considered)
            chosen = replace(size, chosen=int(i))
            offered = self.degrees(chosen.configuration)
            known = {c.name: measured[c.name] for c in offered if c.name in measured}
            if len(offered) == 1:
                degree = Choice.of(offered, chosen.predicted[[chosen.chosen]], known, target)
            else:
                learnt = known or {chosen.configuration.name: chosen.expected}
                degree = self._choose(chosen.configuration.name, offered, application, known, target, learnt)
            found = Recommendation(application, target, chosen, degree, not known, unused)
            if found.reached:
                return found
            missed.append(found)
        return (max if target.higher_is_better else min)(missed, key=lambda found: found.degree.expected)

    def profile(
        self,
        application: str,
        measure: Callable[[Configuration], float],
        goal: float,
        margin: float = 0.0,
        rng: np.random.Generator | int = 0,
    ) -> Recommendation:
        """Measure the application in two random sizes, choose one, measure two random degrees of it, choose one.

        Paper: this ends it. Here: if a measured degree moves the choice to another size, degrees of that size are
        measured too, so that a recommendation never rests on other applications alone.

        Parameters
        ----------
        application : str
            A name that the profiles do not have.
        measure : callable
            Takes a configuration and returns the performance in it, 0 to 1.
        goal, margin : float
            As of `recommend`.
        rng : np.random.Generator or int
            Draws sizes and degrees; a seed makes one.
        """
        rng = np.random.default_rng(rng)

        def measure_some(offered: Sequence[Configuration]) -> Measured:
            chosen = rng.choice(len(offered), min(PROFILED, len(offered)), replace=False)
            return {offered[i].name: measure(offered[i]) for i in sorted(chosen) if offered[i].name not in measured}

        measured: dict[str, float] = {}
        measured |= measure_some(self.sizes)
        profiled: set[tuple[float, float]] = set()
        while True:
            found = self.recommend(application, measured, goal, margin)
            size = found.size.configuration
            if size.size in profiled:
                return found
            profiled.add(size.size)
            measured |= measure_some(self.degrees(size))

    def _choose(
        self,
        key: str,
        offered: Sequence[Configuration],
        application: str,
        measured: Measured,
        goal: Goal,
        learnt: Measured,
    ) -> Choice:
        if key not in self._predictors:
            names = [one.name for one in offered]
            self._predictors[key] = _NamedPredictor(self.profiles, names, self.make(self.seed))
        return Choice.of(offered, self._predictors[key].predict(application, learnt), measured, goal)

    def _check(self, application: str, measured: Measured) -> None:
        if application in self.profiles.applications:
            raise InputError(f"application {application!r} is among the profiles: it is not new")
        for name, value in measured.items():
            if name not in self.configurations:
                known = ", ".join(self.configurations)
                raise InputError(f"application {application!r}: unknown configuration {name!r}; known are: {known}")
            within(0, 1, **{f"application {application!r}, configuration {name!r}: performance": value})
        if not any(one.name in measured for one in self.sizes):
            names = ", ".join(one.name for one in self.sizes)
            raise InputError(f"application {application!r}: measured in no size; measure two of: {names}")


class _NamedPredictor:
    """A predictor of some configurations that knows applications and configurations by name."""

    def __init__(self, profiles: Profiles, names: list[str], predictor: Predictor) -> None:
        self.column = {name: i for i, name in enumerate(names)}
        columns = [profiles.configurations.index(name) for name in names]
        self.predictor, self.known = predictor, len(profiles.applications)
        self.new: dict[str, int] = {}
        self.learnt: dict[str, dict[str, float]] = {}
        predictor.fit(Profiles.of_grid(profiles.applications, names, profiles.grid()[:, columns]))

    def predict(self, application: str, measured: Measured) -> Float:
        """(configurations,) performance, after learning those measurements that are new."""
        number = self.new.setdefault(application, self.known + len(self.new))
        before = self.learnt.setdefault(application, {})
        fresh = {n: v for n, v in measured.items() if n in self.column and before.get(n) != v}
        if fresh:
            columns = np.array([self.column[name] for name in fresh], np.int64)
            self.predictor.learn(number, columns, np.array(list(fresh.values())))
            before.update(fresh)
        return self.predictor.predict(number, np.arange(len(self.column)))
