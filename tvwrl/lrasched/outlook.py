"""What an application's performance may be in every configuration, with the doubt that the user's own history shows.

A predictor says what to expect; how far it is off for each earlier application, predicted from measurements in the same
configurations and without it, is a curve of errors. The prediction plus each of these curves is one way in which the
new application may behave, and all are equally likely (leave-one-out, or jackknife, residuals; Barber and others,
Predictive inference with the jackknife+, 2021). Where the world is monotone, every curve is made so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tvwrl.checks import one_of
from tvwrl.lrasched.curves import Curves, Scale, filled, scales_of, settings
from tvwrl.lrasched.predictors import PREDICTORS, Predictor
from tvwrl.lrasched.profiles import Bool, Configuration, Profiles
from tvwrl.lrasched.target import Target
from tvwrl.types import Float, InputError, Int, summary

CURVES, AUTO = "curves", "auto"
COMPARED = (CURVES, "means")  # what auto chooses from, with all settings of curves
FOLDS = 5  # of the history, for predictors that cannot leave one application out by themselves
MOST = 400  # curves that are kept
FEWEST = 8  # earlier applications that were measured like the new one; with fewer, all others are asked too


@dataclass(frozen=True)
class Outlook:
    """How an application may perform: curves over configurations, each as likely as the others.

    Parameters
    ----------
    curves : Float
        (n, C) performance, in the units of the history.
    predictor : str
        What predicted it.
    error : float
        Mean absolute error with which it predicts earlier applications, as a share of their ranks, 0 to 1.

    Examples
    --------
    >>> found = Outlook(np.array([[0.7, 0.9], [0.5, 0.8], [0.6, 0.95]]), "means", 0.1)
    >>> found.probability(Target.parse("0.8"))
    array([0.  , 0.75])
    """

    curves: Float
    predictor: str
    error: float

    @property
    def expected(self) -> Float:
        """(C,) medians."""
        return np.asarray(np.median(self.curves, axis=0))

    def probability(self, target: Target) -> Float:
        """(C,) that the goal is met: n curves never give more than n / (n + 1).

        Parameters
        ----------
        target : Target
            The goal.
        """
        return np.asarray(target.met(self.curves).sum(axis=0) / (len(self.curves) + 1))

    def interval(self, level: float) -> Float:
        """(2, C) between which the performance lies with this probability; that of all curves where they are too few.

        Parameters
        ----------
        level : float
            0 to 1.
        """
        count = len(self.curves)
        outside = int(np.floor((count + 1) * (1.0 - level) / 2.0 + 1e-9))
        ordered = np.sort(self.curves, axis=0)
        return np.stack([ordered[max(outside - 1, 0)], ordered[min(count - outside, count - 1)]])


@dataclass
class PerformanceModel:
    """Learns from a history of applications; says what to expect of another one, and with what doubt.

    Parameters
    ----------
    profiles : Profiles
        Earlier applications, at least two.
    configurations : sequence of Configuration
        Those that count, each of which some application was measured in.
    higher_is_better : bool
        False for latencies.
    predictor : str
        `curves`, a key of `PREDICTORS`, or `auto`: the one that predicts the user's own history best.
    monotone : bool
        More CPU or memory is not worse, and more neighbours are not better.
    seed : int
        Of predictors that draw.

    Raises
    ------
    InputError
        Fewer than two applications, or a predictor that there is not.

    Examples
    --------
    >>> sizes = [Configuration("small", 1.0, 2.0), Configuration("large", 4.0, 8.0)]
    >>> history = Profiles.of_grid(["a", "b", "c"], ["small", "large"], np.array([[0.5, 0.9], [0.6, 1.0], [0.4, 0.8]]))
    >>> PerformanceModel(history, sizes).outlook({"small": 0.55}).expected.round(2)
    array([0.55, 0.95])
    """

    profiles: Profiles
    configurations: Sequence[Configuration]
    higher_is_better: bool = True
    predictor: str = AUTO
    monotone: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        one_of((AUTO, CURVES, *PREDICTORS), predictor=self.predictor)
        self._column = {one.name: i for i, one in enumerate(self.configurations)}
        self._better = not_worse(self.configurations)
        self._learn(self.profiles)

    def __repr__(self) -> str:
        return summary(self, applications=len(self.applications), predictor=self.predictor, monotone=self.monotone)

    @property
    def applications(self) -> tuple[str, ...]:
        """Names of those that were learnt from."""
        return self.profiles.applications

    def _learn(self, profiles: Profiles) -> None:
        names = [one.name for one in self.configurations]
        whole = profiles.grid()
        place = {name: i for i, name in enumerate(profiles.configurations)}
        grid = whole[:, [place[name] for name in names]]
        some = ~np.isnan(grid).all(axis=1)
        grid = grid[some]
        if len(grid) < 2:
            raise InputError(f"the history holds {len(grid)} applications: at least 2 are needed")
        self.profiles, self._grid, self._known = profiles, grid, ~np.isnan(grid)
        self._values = np.sort(grid[self._known])
        self._scales = {one.name: (one, filled(one.to(grid))) for one in scales_of(self._values)}

    def partial_fit(self, application: str, measured: Mapping[str, float]) -> PerformanceModel:
        """Learn what was measured of an application; measurements that are known already are replaced.

        Parameters
        ----------
        application : str
            A new name, or one of the history.
        measured : mapping of str to float
            Configuration -> performance.

        Returns
        -------
        PerformanceModel
            Itself.
        """
        names = list(self.profiles.applications)
        grid = self.profiles.grid()
        if application not in names:
            names.append(application)
            grid = np.vstack([grid, np.full((1, grid.shape[1]), np.nan)])
        place = {name: i for i, name in enumerate(self.profiles.configurations)}
        for name, value in measured.items():
            if name not in place:
                raise InputError(f"application {application!r}: unknown configuration {name!r}; known are: {', '.join(place)}")
            grid[names.index(application), place[name]] = value
        self._learn(Profiles.of_grid(names, self.profiles.configurations, grid))
        return self

    def outlook(self, measured: Mapping[str, float]) -> Outlook:
        """What to expect of an application that is none of the history.

        Parameters
        ----------
        measured : mapping of str to float
            Configuration -> performance; may be empty.
        """
        which = np.array([self._column[name] for name in measured], np.int64)
        values = np.array(list(measured.values()), np.float64)
        if len(values) and not set(which.tolist()) <= set(range(len(self.configurations))):
            raise InputError("unknown configuration")
        rows = np.flatnonzero(self._known[:, which].all(axis=1))
        if len(rows) < FEWEST:
            rows = np.arange(len(self._grid))
        found = min(self._candidates(which, values, rows), key=lambda one: one.error)
        errors = self._without_gaps(found.errors, rows)
        curves = self._sign * (found.expected[None] + errors)
        if self.monotone:
            curves = as_monotone(curves, self._better)
        return Outlook(found.scale.back(self._sign * curves), found.name, found.error)

    @property
    def _sign(self) -> float:
        return 1.0 if self.higher_is_better else -1.0

    def _candidates(self, which: Int, values: Float, rows: Int) -> Iterator[_Candidate]:
        """All predictions that are compared."""
        names = COMPARED if self.predictor == AUTO else (self.predictor,)
        for name in names:
            if name == CURVES:
                for scale, grid in self._scales.values():
                    given = scale.to(values)
                    for nearness, shrinkage in settings():
                        model = Curves(grid, nearness, shrinkage)
                        yield self._judged(name, scale, grid, model.predict(which, given), model.left_out(which), which, rows)
            else:
                yield self._by_predictor(name, which, values, rows)

    def _judged(
        self, name: str, scale: Scale, grid: Float, expected: Float, left_out: Float, which: Int, rows: Int
    ) -> _Candidate:
        """A candidate with its errors on the history."""
        held = np.zeros(self._grid.shape, np.bool_)
        held[rows] = self._known[rows]
        if len(which) < held.shape[1]:
            held[:, which] = False
        ranks = np.linspace(0.0, 1.0, len(self._values))
        truth, guess = self._grid[held], scale.back(left_out[held])
        error = np.abs(np.interp(guess, self._values, ranks) - np.interp(truth, self._values, ranks))
        return _Candidate(name, scale, expected, (grid - left_out)[rows], float(error.mean()) if len(error) else 0.0)

    def _by_predictor(self, name: str, which: Int, values: Float, rows: Int) -> _Candidate:
        """What a predictor of performance from 0 to 1 says; a part of the history at a time is left out of it."""
        scale, grid = min(self._scales.values(), key=lambda one: one[0].name != "logarithm")
        low, high = float(grid.min()), float(grid.max())
        span = max(high - low, 1e-9)
        everywhere = np.arange(grid.shape[1])
        left_out, folds = np.empty_like(grid), np.arange(len(grid)) % min(FOLDS, len(grid))
        unit, known = (grid - low) / span, self._known
        for fold in range(folds.max() + 1):
            learnt = np.flatnonzero(folds != fold)
            model = self._fitted(name, np.where(known, unit, np.nan)[learnt])
            for i, row in enumerate(np.flatnonzero(folds == fold), start=len(learnt)):
                model.learn(i, which, unit[row, which])
                left_out[row] = low + span * model.predict(i, everywhere)
        model = self._fitted(name, np.where(known, unit, np.nan))
        model.learn(len(grid), which, np.clip((scale.to(values) - low) / span, 0.0, 1.0))
        expected = low + span * model.predict(len(grid), everywhere)
        return self._judged(name, scale, grid, expected, left_out, which, rows)

    def _fitted(self, name: str, grid: Float) -> Predictor:
        model = PREDICTORS[name](self.seed)
        names = [str(i) for i in range(len(grid))]
        model.fit(Profiles.of_grid(names, [one.name for one in self.configurations], grid))
        return model

    def _without_gaps(self, errors: Float, rows: Int) -> Float:
        """Errors where nobody measured are taken to be as those of another application there."""
        gaps, rng = ~self._known[rows], np.random.default_rng(self.seed)
        if gaps.any():
            errors = errors.copy()
            for column in np.flatnonzero(gaps.any(axis=0)):
                seen = errors[~gaps[:, column], column]
                if len(seen):
                    errors[gaps[:, column], column] = rng.choice(seen, int(gaps[:, column].sum()))
        if len(errors) > MOST:
            errors = errors[rng.permutation(len(errors))[:MOST]]
        return errors


@dataclass(frozen=True)
class _Candidate:
    """A prediction: `expected` (C,) and `errors` (rows, C) on a scale, and the mean error in ranks."""

    name: str
    scale: Scale
    expected: Float
    errors: Float
    error: float


def not_worse(configurations: Sequence[Configuration]) -> Bool:
    """(C, C) where the first is at least as good as the second in a monotone world: as much CPU and memory, or more,
    and no more neighbours."""
    cpu, mem, degree = (
        np.array([getattr(one, name) for one in configurations]) for name in ("cpu", "mem", "collocation")
    )
    return np.asarray(
        (cpu[:, None] >= cpu) & (mem[:, None] >= mem) & (degree[:, None] <= degree)
    )


def as_monotone(curves: Float, better: Bool) -> Float:
    """The curves (n, C), higher being better, made monotone: half way between the least monotone curves above and the
    greatest below. `better` is what `not_worse` found."""
    below = np.stack([curves[:, row].max(axis=1) for row in better], axis=1)
    above = np.stack([curves[:, column].min(axis=1) for column in better.T], axis=1)
    return np.asarray((below + above) / 2.0)
