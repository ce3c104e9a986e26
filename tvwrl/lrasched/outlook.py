"""What an application's performance may be in every configuration, with the doubt that the user's own history shows.

A predictor says what to expect; how far it is off for each earlier application, predicted from measurements in the same
configurations and without it, is a curve of errors. The prediction plus each of these curves is one way in which the
new application may behave, and all are equally likely (leave-one-out, or jackknife, residuals; Barber and others,
Predictive inference with the jackknife+, 2021). Where the world is monotone, every curve is made so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tvwrl.checks import one_of
from tvwrl.lrasched.curves import AS_IT_IS, LOGARITHM, LOGIT, SCALES, Curves, Scale, filled, scales_of, settings
from tvwrl.lrasched.history import FEWEST, History, not_worse
from tvwrl.lrasched.predictors import PREDICTORS, Predictor
from tvwrl.lrasched.profiles import Bool, Configuration, Profiles
from tvwrl.lrasched.target import Target
from tvwrl.types import Float, InputError, Int, summary

CURVES, AUTO = "curves", "auto"
COMPARED = (CURVES, "means")  # what auto chooses from, with all settings of curves
SLOWER = ("factorization-machine", "matrix-factorization")  # and of few measurements, as of more curves do better
FEW_CELLS = 1000  # measurements of earlier applications of which these are compared too
FOLDS = 5  # of the history, for predictors that cannot leave one application out by themselves
MOST = 400  # curves that are kept
NEAR = 0.5  # share of the history that is nearest, whose errors are taken, if these are enough
ENOUGH = 3.0  # times as many curves as a probability takes at least
SMALL = 40  # earlier applications, of which few at a time are left out
FILLED_FOLDS = (25, 5)  # of a history with gaps, which are filled without those that are left out: small, others
LARGE = 500  # earlier applications that are compared: of more, the nearest
MORE = 40  # of these at most


class How(NamedTuple):
    """A predictor, the scale on which it works, and its settings."""

    name: str
    scale: str
    nearness: float = 0.0
    shrinkage: float = 0.0


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
    how : How or None
        The settings behind it.
    limits : tuple of float
        Least and largest performance that there is.
    known : float
        Share of the errors behind the curves that were measured, and not drawn for gaps of the history, 0 to 1.

    Examples
    --------
    >>> found = Outlook(np.array([[0.7, 0.9], [0.5, 0.8], [0.6, 0.95]]), "means", 0.1)
    >>> found.probability(Target.parse("0.8"))
    array([0.  , 0.75])
    """

    curves: Float
    predictor: str
    error: float
    how: How | None = None
    limits: tuple[float, float] = (-np.inf, np.inf)
    known: float = 1.0

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
        """(2, C) between which the performance lies with this probability.

        Where there are too few curves to leave any out, it is as wide as all of them, and as Student's distribution of
        the same mean and variance, with as many degrees of freedom as errors were measured.

        Parameters
        ----------
        level : float
            0 to 1, neither included.
        """
        from scipy.special import stdtrit

        count, outside = len(self.curves), (1.0 - level) / 2.0
        found = np.quantile(self.curves, [outside, 1.0 - outside], axis=0, method="weibull")  # rank (n + 1) p
        if (count + 1) * outside > 1.0 - 1e-9 or count < 2:
            return np.asarray(found)
        scale = SCALES[self.how.scale] if self.how else AS_IT_IS
        curves = scale.to(self.curves)
        mean, spread = curves.mean(axis=0), curves.std(axis=0, ddof=1)
        half = stdtrit(max(self.known * count - 1.0, 1.0), (1.0 + level) / 2.0) * spread * np.sqrt(1.0 + 1.0 / count)
        ends = np.stack([np.minimum(found[0], scale.back(mean - half)), np.maximum(found[1], scale.back(mean + half))])
        return np.asarray(np.clip(ends, *self.limits))


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
        `curves`, a key of `PREDICTORS`, or `auto`: the one that predicts the user's own history best; of more than
        1,000 measurements, curves and means alone are compared.
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
        if self.higher_is_better and not self.profiles.higher_is_better:
            raise InputError("the profiles say that lower is better: give higher_is_better=False")
        self._better = not_worse(self.configurations)
        self._learn(self.profiles)

    def __repr__(self) -> str:
        return summary(self, applications=len(self.applications), predictor=self.predictor, monotone=self.monotone)

    @property
    def applications(self) -> tuple[str, ...]:
        """Names of those that were learnt from."""
        return self.profiles.applications

    def _learn(self, profiles: Profiles) -> None:
        self.profiles = profiles
        self.history = History(profiles, self.configurations, self.higher_is_better)
        self._grid, self._known, values = self.history.grid, self.history.known, self.history.values
        self._rank = self.history.rank(self._grid)
        self._possible = {one.name: one for one in scales_of(values)}
        share = self.higher_is_better and LOGIT.name in self._possible  # a latency below 1 s may exceed 1 elsewhere
        if not share:
            self._possible.pop(LOGIT.name, None)
        self._limits = (0.0 if values[0] >= 0.0 else -np.inf, 1.0 if share else np.inf)
        self._scaled: dict[str, Float] = {}
        self._parts: dict[str, list[Float]] = {}
        self._errors: dict[tuple[How, tuple[int, ...]], _Judged] = {}

    def _scale(self, name: str) -> tuple[Scale, Float]:
        """A scale, and the history on it without gaps."""
        if name not in self._scaled:
            self._scaled[name] = filled(self._possible[name].to(self._grid))
        return self._possible[name], self._scaled[name]

    def nearest(self, measured: Mapping[str, float]) -> PerformanceModel:
        """A model of the part of a large history that is nearest to what was measured, or this one if it is small.

        Parameters
        ----------
        measured : mapping of str to float
            Configuration -> performance.
        """
        if len(self._grid) <= LARGE:
            return self
        which, values = self.history.asked(measured)
        anyhow = np.random.default_rng(self.seed).permutation(len(self._grid))  # of equals, not the first of the file
        apart = np.abs(self._rank[:, which] - self.history.rank(values))
        order = anyhow[np.argsort(np.where(np.isnan(apart), 1.0, apart).sum(axis=1)[anyhow], kind="stable")]
        kept = np.zeros(len(order), np.bool_)
        kept[order[:LARGE]] = True
        for column in np.flatnonzero(~self._known[kept].any(axis=0)):
            kept[[row for row in order if self._known[row, column]][:FEWEST]] = True
        names = [str(i) for i in np.flatnonzero(kept)]
        part = Profiles.of_grid(names, [one.name for one in self.configurations], self._grid[kept])
        return replace(self, profiles=part)

    def _without(self, name: str) -> list[Float]:
        """The history on a scale without each fold's applications, and with gaps filled by the others alone."""
        if name not in self._parts:
            scale, self._parts[name] = self._possible[name], []
            folds = FILLED_FOLDS[len(self._grid) > SMALL]
            for fold in range(folds):
                kept = np.arange(len(self._grid)) % folds != fold
                part = np.where(self._known[kept], scale.to(self._grid[kept]), np.nan)
                nowhere = np.isnan(part).all(axis=0)  # measured of those alone that are left out
                self._parts[name].append(filled(np.where(nowhere, np.nanmean(part), part)))
        return self._parts[name]

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
        self.history.check(application, measured)
        names = list(self.profiles.applications)
        grid = self.profiles.grid()
        if application not in names:
            names.append(application)
            grid = np.vstack([grid, np.full((1, grid.shape[1]), np.nan)])
        place = {name: i for i, name in enumerate(self.profiles.configurations)}
        for name, value in measured.items():
            grid[names.index(application), place[name]] = value
        self._learn(Profiles.of_grid(names, self.profiles.configurations, grid, self.profiles.higher_is_better))
        return self

    def outlook(self, measured: Mapping[str, float], sure: float = 0.9, how: How | None = None) -> Outlook:
        """What to expect of an application that is none of the history.

        Parameters
        ----------
        measured : mapping of str to float
            Configuration -> performance; may be empty.
        sure : float
            Probability that has to be told from certainty, 0 to 1: the larger, the more errors it takes, also of
            applications that are less alike.
        how : How or None
            Settings to take; default: those that predict the history best.

        Raises
        ------
        InputError
            A configuration that was not learnt, or a value that is no finite number.
        """
        which, values = self.history.asked(measured)
        hows = self._compared(values) if how is None else [how]
        found = min((self._judged(one, which) for one in hows), key=lambda one: one.error)
        expected = self._expected(found.how, which, values)
        errors = found.errors[self._nearest(found, values, sure)]
        curves = self._sign * (expected[None] + errors)
        scale = self._possible[found.how.scale]
        known = self._sign * scale.to(values)
        if self.monotone:
            curves = as_monotone(curves, self._better)
        curves[:, which] = known  # others beside it are not made to fit: with noise, intervals would be too narrow
        curves = scale.back(self._sign * curves)
        low, high = self._limits
        limits = (low, np.inf if (values > high).any() else high)  # what was measured above 1 is no share
        return Outlook(np.clip(curves, *limits), found.how.name, found.error, found.how, limits, found.known)

    def probability(self, outlook: Outlook, measured: Mapping[str, float], target: Target) -> Float:
        """Tell how likely each configuration meets a goal: (C,) probabilities.

        What was measured to miss it does not meet it, nor what is no better, in a monotone world; what was measured to
        meet it does, and so does all that is as good or better, unless a still better one missed it.

        Parameters
        ----------
        outlook : Outlook
            What `outlook` said of these measurements.
        measured : mapping of str to float
            Configuration -> performance.
        target : Target
            The goal.
        """
        columns, values = self.history.asked(measured)
        better = self._better if self.monotone else np.eye(len(self._better), dtype=np.bool_)
        keeps = target.met(values)
        met, missed = better[:, columns[keeps]].any(axis=1), better[columns[~keeps]].any(axis=0)
        return np.asarray(np.where(missed, 0.0, np.where(met, 1.0, outlook.probability(target))))

    def _nearest(self, found: _Judged, values: Float, sure: float) -> Int:
        """The earlier applications whose errors count: those that were nearest where the new one was measured."""
        if found.columns.shape[1] != len(values) or not len(values):
            return np.random.default_rng(self.seed).permutation(len(found.errors))[:MOST]
        count = max(int(NEAR * len(found.errors)), int(ENOUGH * sure / max(1.0 - sure, 1e-9)))
        scale, grid = self._scale(found.how.scale)
        there = np.take_along_axis(grid[found.rows], found.columns, axis=1)
        apart = np.abs(scale.to(values) - there).sum(axis=1)
        return np.argsort(apart, kind="stable")[: min(count, MOST)]

    @property
    def _sign(self) -> float:
        return 1.0 if self.higher_is_better else -1.0

    def _compared(self, values: Float) -> list[How]:
        """All predictions that are compared, on scales that have room for what was measured."""
        room = {one.name for one in scales_of(np.append(values, self.history.values[[0, -1]]))}
        found, possible = list[How](), [name for name in self._possible if name in room]
        straight = LOGARITHM.name if LOGARITHM.name in possible else AS_IT_IS.name
        few = int(self._known.sum()) <= FEW_CELLS
        candidates = COMPARED + SLOWER * few if self.predictor == AUTO else (self.predictor,)
        for name in candidates:
            if name == CURVES:
                found += [How(name, scale, *rest) for scale in possible for rest in settings()]
            else:
                found.append(How(name, straight))
        return found

    def _judged(self, how: How, which: Int) -> _Judged:
        """Its errors on the history."""
        key = how, tuple(which.tolist())
        if key not in self._errors:
            self._errors[key] = self._judge(how, which)
        return self._errors[key]

    def _judge(self, how: How, which: Int) -> _Judged:
        scale, grid = self._scale(how.scale)
        rows, columns = self._alike(which)
        left_out = self._left_out(how, rows, columns)
        held = self._known[rows].copy()
        if len(which) < grid.shape[1]:
            np.put_along_axis(held, columns, False, axis=1)
        error = np.abs(self.history.rank(scale.back(left_out[held])) - self._rank[rows][held])
        same = np.array([np.array_equal(own, which) for own in columns], np.bool_)
        # where an application is predicted from, and the new one was not measured, its error is that of no prediction
        known = np.where(same[:, None], self._known[rows], held)
        errors = self._without_gaps(grid[rows] - left_out, known)
        share = float(known.mean()) if len(rows) else 1.0
        return _Judged(how, rows, columns, errors, float(error.mean()) if len(error) else 0.0, share)

    def _alike(self, which: Int) -> tuple[Int, Int]:
        """(n,) earlier applications, and (n, m) the configurations of each that are taken to be all that is known.

        These are those that were measured of the new one; where too few applications were measured there, others of
        their own.
        """
        count = len(which)
        full = np.flatnonzero(self._known[:, which].all(axis=1))
        columns = np.tile(which, (len(full), 1))
        if len(full) >= FEWEST:
            return full, columns
        rng = np.random.default_rng(self.seed)
        more = [row for row in range(len(self._grid)) if row not in full and self._known[row].sum() > count]
        more = more[: MORE - len(full)]
        if not len(full) and not more:  # nobody was measured as often: as often as some were
            count = max(int(np.sort(self._known.sum(axis=1))[-2]) - 1, 0)
            columns = columns[:, :count]
            more = np.flatnonzero(self._known.sum(axis=1) > count)[:MORE].tolist()
        others = [rng.choice(np.flatnonzero(self._known[row]), count, replace=False) for row in more]
        return (
            np.concatenate([full, np.array(more, np.int64)]),
            np.concatenate([columns, np.array(others, np.int64).reshape(-1, count)]),
        )

    def _left_out(self, how: How, rows: Int, columns: Int) -> Float:
        """(n, C) what is predicted of earlier applications, without themselves, from some columns (n, m) of each."""
        grid = self._scale(how.scale)[1]
        if how.name != CURVES:
            return self._folded(how, rows, columns)
        if not self._known.all():
            others = [Curves(part, how.nearness, how.shrinkage) for part in self._without(how.scale)]
            models = [others[row % len(others)] for row in rows]
        elif len(rows) and (columns == columns[0]).all():
            return np.asarray(Curves(grid, how.nearness, how.shrinkage).left_out(columns[0])[rows])
        else:
            models = [Curves(np.delete(grid, row, axis=0), how.nearness, how.shrinkage) for row in rows]
        found = [model.predict(own, grid[row, own]) for model, row, own in zip(models, rows, columns, strict=True)]
        return np.array(found).reshape(len(rows), grid.shape[1])

    def _expected(self, how: How, which: Int, values: Float) -> Float:
        """(C,) the prediction, on its scale."""
        scale, grid = self._scale(how.scale)
        if how.name == CURVES:
            return Curves(grid, how.nearness, how.shrinkage).predict(which, scale.to(values))
        low, span = self._range(np.append(grid.ravel(), scale.to(values)))
        model = self._fitted(how, (grid - low) / span, np.arange(len(grid)))
        model.learn(len(grid), which, (scale.to(values) - low) / span)
        return np.asarray(low + span * model.predict(len(grid), np.arange(grid.shape[1])))

    def _folded(self, how: How, rows: Int, columns: Int) -> Float:
        """As `_left_out`, by a predictor of performance from 0 to 1, without a part of the history at a time."""
        grid = self._scale(how.scale)[1]
        low, span = self._range(grid)
        unit, everywhere = (grid - low) / span, np.arange(grid.shape[1])
        found, folds = np.empty((len(rows), grid.shape[1])), np.arange(len(grid)) % min(FOLDS, len(grid))
        for fold in range(folds.max() + 1):
            learnt = np.flatnonzero(folds != fold)
            model = self._fitted(how, unit, learnt)
            for i, place in enumerate(np.flatnonzero(folds[rows] == fold), start=len(learnt)):
                model.learn(i, columns[place], unit[rows[place], columns[place]])
                found[place] = low + span * model.predict(i, everywhere)
        return found

    def _range(self, grid: Float) -> tuple[float, float]:
        low, high = float(grid.min()), float(grid.max())
        return low, max(high - low, 1e-9)

    def _fitted(self, how: How, unit: Float, rows: Int) -> Predictor:
        """A predictor that learnt what was measured of some applications."""
        model = PREDICTORS[how.name](self.seed)
        names = [one.name for one in self.configurations]
        grid = np.where(self._known, unit, np.nan)[rows]
        model.fit(Profiles.of_grid([str(i) for i in rows], names, grid))
        return model

    def _without_gaps(self, errors: Float, known: Bool) -> Float:
        """Errors (n, C) that are not known are drawn: as those of other applications there, from Student's
        distribution, as few may be known."""
        gaps, rng = ~known, np.random.default_rng(self.seed)
        if gaps.any():
            errors = errors.copy()
            pooled = errors[~gaps]
            for column in np.flatnonzero(gaps.any(axis=0)):
                seen, unseen = errors[~gaps[:, column], column], gaps[:, column]
                count = len(seen)
                alike = seen if count > 2 else pooled
                spread = alike.std(ddof=1) * np.sqrt(1.0 + 1.0 / max(count, 1)) if len(alike) > 1 else 0.0
                draws = rng.standard_t(max(count - 1, 2), int(unseen.sum()))
                errors[unseen, column] = (alike.mean() if len(alike) else 0.0) + spread * draws
        return errors


class _Judged(NamedTuple):
    """A way to predict; the earlier applications (n,) and what was taken to be measured of each, columns (n, m); its
    `errors` (n, C) on a scale, the mean `error` in ranks, and the share of the errors that were measured."""

    how: How
    rows: Int
    columns: Int
    errors: Float
    error: float
    known: float


def as_monotone(curves: Float, better: Bool) -> Float:
    """The curves (n, C), higher being better, made monotone: half way between the least monotone curves above and the
    greatest below. `better` is what `not_worse` found."""
    below = np.stack([curves[:, row].max(axis=1) for row in better], axis=1)
    above = np.stack([curves[:, column].min(axis=1) for column in better.T], axis=1)
    return np.asarray((below + above) / 2.0)
