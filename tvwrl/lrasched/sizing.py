"""Which size a new application's replicas need, and how many of them may share a machine (paper 000, 3.2.2, 3.2.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.lrasched.predictors import Predictor, factorization_machine
from tvwrl.lrasched.profiles import Configuration, Profiles
from tvwrl.types import Float, InputError

PROFILED = 2  # configurations, then degrees, that a new application is measured in
Bool = npt.NDArray[np.bool_]
Measured = Mapping[str, float]  # configuration -> performance


@dataclass(frozen=True)
class Goal:
    """What performance has to reach, and by how much more, so that an error of prediction does not miss it."""

    performance: float  # 0..1
    margin: float = 0.0  # 0..1
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        for name, value in (("goal", self.performance), ("margin", self.margin)):
            if not 0 <= value <= 1:
                raise InputError(f"{name} is {value:g}: must be a number from 0 to 1")

    @property
    def limit(self) -> float:
        """The performance asked for, with the margin, 0..1: the best there is where the margin asks for more."""
        return (
            min(self.performance + self.margin, 1.0)
            if self.higher_is_better
            else max(self.performance - self.margin, 0.0)
        )

    def met(self, performance: Float) -> Bool:
        """Which of these reach it."""
        above = performance - self.limit
        return np.asarray((above if self.higher_is_better else -above) >= -1e-12)


@dataclass(frozen=True)
class Choice:
    """One decision: configurations in the order in which they are wanted, what they would do, which one is taken."""

    configurations: tuple[Configuration, ...]  # k of them, the most wanted first
    performance: Float  # (k,) 0..1: measured where measured, else predicted
    predicted: Float  # (k,) 0..1, before what was measured took its place
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
        """The first that meets the goal ("just leads to"); where none does, the one that performs best."""
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
    """Size and degree of collocation for an application, and what they rest on."""

    application: str
    goal: Goal
    size: Choice  # sizes, the smallest first
    degree: Choice  # degrees at the chosen size, the largest first
    assumed: bool  # no degree was measured: the size's predicted performance stood in for one
    unused: tuple[str, ...] = ()  # measured degrees of sizes that were not looked at: they bear on neither decision

    @property
    def configuration(self) -> Configuration:
        """What is recommended."""
        return self.degree.configuration

    @property
    def reached(self) -> bool:
        """Whether what is recommended is expected to meet the goal with its margin."""
        return self.degree.reached

    def rows(self) -> list[dict[str, Any]]:
        """The predicted curves, a row per configuration and decision."""
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
        """As JSON has it."""
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


class Recommender:
    """Learns from applications that were profiled exhaustively; recommends for new ones after few measurements.

    Sizes are compared at the smallest degree of collocation there is, by their share of the largest CPU plus their
    share of the largest memory; degrees by a predictor of the chosen size's rows alone, fitted when first asked for.
    What new applications were measured in is learnt too. `make(seed)`: a predictor that has learnt nothing.
    A configuration no application of the profiles was measured in is not offered, as predictions for it would rest on
    nothing; `left_out` names it.
    Raises InputError for a configuration of the profiles that the table lacks, or two with the same numbers.
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
        self.left_out = tuple(name for name in table if name not in measured)
        same: dict[tuple[float, float, int], str] = {}
        for one in known:
            if same.setdefault((*one.size, one.collocation), one.name) != one.name:
                twin = same[(*one.size, one.collocation)]
                raise InputError(f"configurations {twin!r} and {one.name!r} have the same cpu, mem and collocation")
        self.profiles, self.configurations, self.make, self.seed = profiles, {c.name: c for c in known}, make, seed
        alone, cpu, mem = (f(known) for f in (_least_degree, _largest("cpu"), _largest("mem")))
        sizes = [one for one in known if one.collocation == alone]
        self.sizes = sorted(sizes, key=lambda c: (c.cpu / cpu + c.mem / mem, c.cpu, c.name))  # the smallest first
        self._stages: dict[str, _Stage] = {}

    def degrees(self, size: Configuration) -> list[Configuration]:
        """The configurations of this size, the largest degree of collocation first."""
        same = [one for one in self.configurations.values() if one.size == size.size]
        return sorted(same, key=lambda c: -c.collocation)

    def recommend(self, application: str, measured: Measured, goal: float, margin: float = 0.0) -> Recommendation:
        """Size and degree from what was measured: at least one size, and any degrees.

        Where no degree of the chosen size was measured, the performance predicted for it alone stands in for one. The
        same application may be asked about again with more measurements. Paper: the size is settled first. Here: a size
        none of whose degrees is expected to meet the goal is passed over, as its own prediction was too hopeful; of
        such sizes alone the one expected to perform best is taken.
        Raises InputError for an application of the profiles, an unknown configuration, a performance or goal outside
        0..1, or no size measured.
        """
        asked = Goal(goal, margin, self.profiles.higher_is_better)
        self._check(application, measured)
        size = self._choose("sizes", self.sizes, application, measured, asked)
        enough = np.nonzero(asked.met(size.performance))[0] if size.reached else [size.chosen]
        missed: list[Recommendation] = []
        looked_at = {one.name for one in self.sizes}
        for i in enough:
            looked_at |= {one.name for one in self.degrees(self.sizes[i])}
            unused = tuple(name for name in measured if name not in looked_at)
            found = self._with_degree(application, replace(size, chosen=int(i)), measured, asked)
            if found.reached:
                return replace(found, unused=unused)
            missed.append(replace(found, unused=unused))
        return (max if asked.higher_is_better else min)(missed, key=lambda found: found.degree.expected)

    def _with_degree(self, application: str, size: Choice, measured: Measured, asked: Goal) -> Recommendation:
        """The degree for a size."""
        offered = self.degrees(size.configuration)
        known = {c.name: measured[c.name] for c in offered if c.name in measured}
        taken_as_known = known or {size.configuration.name: size.expected}
        if len(offered) == 1:
            degree = Choice.of(offered, size.predicted[[size.chosen]], known, asked)
        else:
            degree = self._choose(size.configuration.name, offered, application, known, asked, taken_as_known)
        return Recommendation(application, asked, size, degree, not known)

    def profile(
        self,
        application: str,
        measure: Callable[[Configuration], float],
        goal: float,
        margin: float = 0.0,
        rng: np.random.Generator | int = 0,
    ) -> Recommendation:
        """Measure the application in two random sizes, choose one, measure two random degrees of it, choose one.

        Paper: then it is done. Here: where a degree that was measured moves the choice to another size (it may be the
        size alone), degrees of that are measured in turn, so that what is recommended never rests on history alone.
        """
        rng = np.random.default_rng(rng)

        def some(offered: Sequence[Configuration]) -> Measured:
            chosen = rng.choice(len(offered), min(PROFILED, len(offered)), replace=False)
            return {offered[i].name: measure(offered[i]) for i in sorted(chosen) if offered[i].name not in measured}

        measured: dict[str, float] = {}
        measured |= some(self.sizes)
        profiled: set[tuple[float, float]] = set()
        while True:
            found = self.recommend(application, measured, goal, margin)
            size = found.size.configuration
            if size.size in profiled:
                return found
            profiled.add(size.size)
            measured |= some(self.degrees(size))

    def _choose(
        self,
        key: str,
        offered: Sequence[Configuration],
        application: str,
        measured: Measured,
        goal: Goal,
        learnt: Measured | None = None,
    ) -> Choice:
        if key not in self._stages:
            self._stages[key] = _Stage(self.profiles, [c.name for c in offered], self.make(self.seed))
        return Choice.of(offered, self._stages[key].predict(application, learnt or measured), measured, goal)

    def _check(self, application: str, measured: Measured) -> None:
        if application in self.profiles.applications:
            raise InputError(f"application {application!r} is among the profiles: it is not new")
        for name, value in measured.items():
            if name not in self.configurations:
                known = ", ".join(self.configurations)
                raise InputError(f"application {application!r}: unknown configuration {name!r}; known are: {known}")
            if not 0 <= value <= 1:
                raise InputError(
                    f"application {application!r}, configuration {name!r}: performance is {value:g}: must be a number "
                    "from 0 to 1"
                )
        if not any(one.name in measured for one in self.sizes):
            names = ", ".join(one.name for one in self.sizes)
            raise InputError(f"application {application!r}: measured in no size; measure two of: {names}")


class _Stage:
    """A predictor of some configurations, with the new applications that it has met."""

    def __init__(self, profiles: Profiles, names: list[str], predictor: Predictor) -> None:
        self.place = {name: i for i, name in enumerate(names)}
        columns = [profiles.configurations.index(name) for name in names]
        self.predictor, self.known = predictor, len(profiles.applications)
        self.new: dict[str, int] = {}
        self.learnt: dict[str, dict[str, float]] = {}
        predictor.fit(Profiles.of_grid(profiles.applications, names, profiles.grid()[:, columns]))

    def predict(self, application: str, measured: Measured) -> Float:
        """(configurations,) performance, after learning what was not learnt before."""
        number = self.new.setdefault(application, self.known + len(self.new))
        before = self.learnt.setdefault(application, {})
        fresh = {n: v for n, v in measured.items() if n in self.place and before.get(n) != v}
        if fresh:
            cells = np.array([self.place[name] for name in fresh], np.int64)
            self.predictor.learn(number, cells, np.array(list(fresh.values())))
            before.update(fresh)
        return self.predictor.predict(number, np.arange(len(self.place)))


def _least_degree(configurations: Sequence[Configuration]) -> int:
    return min(one.collocation for one in configurations)


def _largest(field: str) -> Callable[[Sequence[Configuration]], float]:
    return lambda configurations: max(getattr(one, field) for one in configurations)
