"""The interference score of machines: 0 to 100, calibrated, explainable, and unaffected by stale reports (5.4, 5.5).

And how much each service counts for its machine's score: the four weightings of Section 5.4.2.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.checks import one_of
from tvwrl.interference.categories import CLASSES, Thresholds
from tvwrl.interference.observations import CATEGORIES, Levels, MonitoredMachines, Observations, check_machines
from tvwrl.interference.predictor import LEAF_THRESHOLD, LevelPredictor
from tvwrl.interference.score_kernels import Trees, score_machines
from tvwrl.runs import whole_file
from tvwrl.types import Float, InputError, Int

STALE_AFTER = 600.0  # seconds; ten reports of a minute missed
EQUAL = 1e-6  # levels by which equal scores may differ through rounding
HELD_OUT = 0.25  # share of the recording, its end, on which scores are calibrated
VERSION = 2  # version of the file format
PARTS = ("weights", "knots", "percent")
TREE_TYPES = dict.fromkeys(("root", "depth", "threshold", "left", "pressure"), "int32") | {
    "feature": "uint8",
    "level": "float64",
}


FEW, ORDERS = 5, 60  # categories on a machine of which all orders are tried, and orders of more
LEAST_WEIGHT = 0.01  # least weight, share of the mean: with weight 0 throughout a machine would have no score


def _measured(observations: Observations, measure: Callable[[Float, Float], float]) -> Float:
    """(services,) `measure` of each service's response times and batch CPU; 0 for fewer than two records."""

    def of(rows: Int) -> float:
        return measure(observations.response_ms[rows], observations.batch_cpu[rows]) if len(rows) > 1 else 0.0

    with np.errstate(invalid="ignore", divide="ignore"):
        return np.array([of(rows) for rows in observations.by_service()])


WEIGHTINGS: dict[str, Callable[[Observations], Float]] = {
    "fair": lambda seen: np.ones(len(seen.services)),
    # cores that an instance of the service requested
    "cpu-quota": lambda seen: seen.quota.astype(np.float64),
    # correlation of response time and CPU use of batch work; negative values count as 0
    "corr": lambda seen: _measured(seen, lambda ms, cpu: float(np.corrcoef(ms, cpu)[0, 1])),
    # coefficient of variation of response time
    "cv": lambda seen: _measured(seen, lambda ms, cpu: float(ms.std() / ms.mean())),
}


def service_weights(name: str, observations: Observations) -> Float:
    """(services,) weights > 0 with mean 1. Raises InputError for an unknown name."""
    one_of(WEIGHTINGS, weighting=name)
    found = WEIGHTINGS[name](observations)
    found = np.where(np.isfinite(found) & (found > 0), found, 0.0)
    mean = found.mean()
    found = np.maximum(found, LEAST_WEIGHT * mean) if mean > 0 else np.ones_like(found)
    weights: Float = found / found.mean()
    return weights


class Contribution(NamedTuple):
    """Contribution of one category's instances to a machine's score."""

    category: int
    instances: int
    points: float  # of 100: its share of the score above that of an empty machine


@dataclass(eq=False)
class InterferenceScore:
    """Score of a machine: weighted mean of the levels predicted for its services, on a scale of 0 to 100.

    Scale: the percentage of observed machines that suffer less: 0 is the quietest machine seen, 50 the median, 100 the
    worst. The map from predicted mean level to that percentage is an isotonic regression on records that no tree has
    seen. A machine without services scores 0.

    A machine is unknown if its last report is older than `stale_after` seconds or from the future, if its usage is not
    a number, or if none of its services was learnt. It then scores the mean of the known machines, and `choose` takes
    it only if no candidate is known. If the clock goes back, a warning is given once.

    Parameters
    ----------
    trees : Trees
        A decision tree per service, from the batch work on its machine to its level.
    weights : array of float
        (services,) how much each service counts, > 0.
    services : tuple of str
        Names of the services, in the order of `MonitoredMachines.service`.
    k : int
        Number of levels, >= 2.
    knots : array of float
        (knots,) mean levels predicted, rising.
    percent : array of float
        (knots,) score at each of them, 0..100, not falling.
    thresholds : Thresholds, optional
        Borders of the categories that it was learnt from.
    stale_after : float
        Seconds after which a machine's last report no longer counts, >= 0.
    about : str
        Description of what it was learnt from.

    Examples
    --------
    >>> score = InterferenceScore.load(Path("score.npz"))  # doctest: +SKIP
    >>> score.of(machines, now)  # (M,) 0..100  # doctest: +SKIP
    >>> score.choose(machines, now, category, candidates)  # machine with the lowest score  # doctest: +SKIP
    """

    trees: Trees
    weights: Float
    services: tuple[str, ...]
    k: int
    knots: Float
    percent: Float
    thresholds: Thresholds | None = None
    stale_after: float = STALE_AFTER
    about: str = ""
    _latest: float = field(default=-np.inf, init=False)
    _warned: set[str] = field(default_factory=set, init=False)
    _rows: tuple[Any, Float] | None = field(default=None, init=False)

    @classmethod
    def fit(
        cls,
        observations: Observations,
        k: int = 10,
        weighting: str = "corr",
        random_state: int = 0,
        skip_rare: bool = False,
        thresholds: Thresholds | None = None,
    ) -> InterferenceScore:
        """Learn trees from the first three quarters of the recording and the scale from the last one.

        Parameters
        ----------
        observations : Observations
            What monitoring recorded.
        k : int
            Number of levels, >= 2.
        weighting : {"fair", "cpu-quota", "corr", "cv"}
            How much services count (Section 5.4.2).
        random_state : int
            Seed of the trees.
        skip_rare : bool
            Leave out services with fewer than k response times, instead of refusing them.
        thresholds : Thresholds, optional
            Borders of the categories, to be kept with the score.

        Raises
        ------
        InputError
            As `Levels.of`, for an unknown weighting, or if all records have the same time.
        """
        from scipy.stats import rankdata
        from sklearn.isotonic import IsotonicRegression

        begins = np.quantile(observations.seconds, 1 - HELD_OUT) if len(observations.seconds) else 0.0
        early = observations.seconds < begins
        if not early.any():
            raise InputError(
                "observations: all have the same time; trees learn from the earlier records, the scale from later ones"
            )
        learnt, later = (observations.only(np.flatnonzero(part)) for part in (early, ~early))
        levels = Levels.of(learnt, k, skip_rare)
        predictor = LevelPredictor(random_state=random_state).fit(learnt, levels)
        weights = service_weights(weighting, learnt)
        predicted, observed = mean_levels(later, predictor.predict(later), levels, weights)
        if not len(predicted):
            raise InputError("observations: no service in their last quarter was learnt: record them all to the end")
        # knots of predicted mean level -> percentage of observed mean levels that are lower, ties counting half
        fitted = IsotonicRegression().fit(predicted, 100 * (rankdata(observed) - 0.5) / len(observed))
        knots, percent = (np.asarray(x, np.float64) for x in (fitted.X_thresholds_, fitted.y_thresholds_))
        return cls(predictor.trees_, weights, observations.services, k, knots, percent, thresholds)

    def weight_rows(self, machines: MonitoredMachines) -> Float:
        """(rows of machines.service,) weights, as kernels take them; anything for services that were not learnt.

        Parameters
        ----------
        machines : MonitoredMachines
            The machines and their services.
        """
        if self._rows is None or self._rows[0] is not machines.service:
            self._rows = machines.service, np.take(self.weights, machines.service, mode="clip")
        return self._rows[1]

    def mean_level(self, machines: MonitoredMachines, category: int = -1, which: Int | None = None) -> Float:
        """(n,) weighted mean of the levels 1..k predicted for the services of machines.

        NaN if none of a machine's services was learnt, 0 without services.

        Parameters
        ----------
        machines : MonitoredMachines
            M machines.
        category : int
            Category 0..59 of one more instance; -1: none.
        which : array of int, optional
            (n,) numbers of machines; default: all M.

        Raises
        ------
        InputError
            For another category, a machine out of range, or inconsistent arrays.
        """
        if not -1 <= category < CATEGORIES:
            raise InputError(f"category is {category}: must be -1 or 0 to {CATEGORIES - 1}")
        which = np.arange(len(machines.cores)) if which is None else np.asarray(which, np.int64)
        check_machines(machines, which)
        found = np.empty(len(which))
        score_machines(machines, self.trees, self.weight_rows(machines), category, which, found)
        return found

    def on_scale(self, mean_level: Float) -> Float:
        """(n,) scores 0..100 of mean levels; NaN stays NaN, and 0 (no services) stays 0.

        Parameters
        ----------
        mean_level : array of float
            (n,) as of `mean_level`.
        """
        found: Float = np.where(mean_level == 0, 0.0, np.interp(mean_level, self.knots, self.percent))
        return found

    def of(self, machines: MonitoredMachines, now: float, category: int = -1) -> Float:
        """(M,) scores 0..100 of machines.

        Unknown machines have the mean of the others; NaN if all are unknown.

        Parameters
        ----------
        machines : MonitoredMachines
            M machines.
        now : float
            Second of the clock that reports have.
        category : int
            Category 0..59 of one more instance; -1: none. Another one counts as -1 and causes one warning.
        """
        category = category if category == -1 or self.knows(category) else -1
        found = self.on_scale(self.mean_level(machines, category))
        unknown = ~self._fresh(machines, now) | np.isnan(found)
        found[unknown] = found[~unknown].mean() if not unknown.all() else np.nan
        return found

    def choose(self, machines: MonitoredMachines, now: float, category: int, candidates: Int) -> int:
        """The candidate with the lowest score after an instance has arrived.

        Unknown machines come last; if all are unknown, or the category is, the first candidate is taken.

        Parameters
        ----------
        machines : MonitoredMachines
            M machines.
        now : float
            Second of the clock that reports have.
        category : int
            Category 0..59 of the instance.
        candidates : array of int
            (n,) numbers of machines in a scheduler's order of preference, which breaks ties.
        """
        if not self.knows(category):
            return int(candidates[0])
        mean = self.mean_level(machines, category, candidates)
        mean[~self._fresh(machines, now)[candidates] | np.isnan(mean)] = np.inf
        return int(candidates[np.argmax(mean <= mean.min() + EQUAL)])

    def restart(self) -> None:
        """Restart the clock, as for another episode."""
        self._latest = -np.inf

    def knows(self, category: int) -> bool:
        """Whether a category exists; the first that does not causes a warning.

        Parameters
        ----------
        category : int
            The category.
        """
        if 0 <= category < CATEGORIES:
            return True
        self._warn_once("category", f"category {category} is not one of 0 to {CATEGORIES - 1}: its score is unknown")
        return False

    def explain(self, machines: MonitoredMachines, machine: int) -> list[Contribution]:
        """What each category on a machine adds to its score, greatest first.

        All add up to what the machine has above an empty one. Trees are not additive: what two categories do only
        together is shared. Each gets the mean of what it adds when the categories come in all orders (the Shapley
        value; Lundberg and Lee, NIPS 2017), or in some orders and their reverses if there are more than five. The
        composition counts, however old it is.

        Parameters
        ----------
        machines : MonitoredMachines
            M machines.
        machine : int
            Number of the machine to explain.
        """
        counts, which = machines.composition[machine], np.array([machine])
        own, present = counts.copy(), np.flatnonzero(counts)
        known = dict[bytes, float]()

        def score_of(some: Int) -> float:
            """The score with some of the categories alone."""
            key = np.sort(some).tobytes()
            if key not in known:
                counts[:] = 0
                counts[some] = own[some]
                known[key] = float(self.on_scale(self.mean_level(machines, which=which))[0])
                counts[:] = own
            return known[key]

        points = np.zeros(CATEGORIES)
        orders = _orders(present)
        for order in orders:
            scores = [score_of(order[:k]) for k in range(len(order) + 1)]
            points[order] += np.diff(scores) / len(orders)
        found = [Contribution(category, int(own[category]), float(points[category])) for category in present.tolist()]
        return sorted(found, key=lambda one: -one.points)

    def save(self, path: Path) -> None:
        """Write one .npz of plain arrays, which is read without running code.

        Parameters
        ----------
        path : Path
            The file.
        """
        facts = {
            "version": VERSION,
            "k": self.k,
            "services": list(self.services),
            "stale_after": self.stale_after,
            "about": self.about,
            "thresholds": None if self.thresholds is None else asdict(self.thresholds),
        }
        arrays = self.trees._asdict() | {"weights": self.weights, "knots": self.knots, "percent": self.percent}
        with whole_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, facts=np.array(json.dumps(facts)), **arrays)

    @classmethod
    def load(cls, path: Path) -> InterferenceScore:
        """The score that `save` wrote.

        Parameters
        ----------
        path : Path
            The file.

        Raises
        ------
        InputError
            For any other file.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                facts = json.loads(str(file["facts"]))
                if facts["version"] != VERSION:
                    raise InputError(f"{path}: version {facts['version']}: must be {VERSION}")
                trees = Trees(*(file[name] for name in Trees._fields))
                weights, knots, percent = (file[name] for name in PARTS)
                limits = facts["thresholds"]
                thresholds = (
                    None
                    if limits is None
                    else Thresholds(**{name: tuple(map(float, limits[name])) for name in CLASSES})
                )
                found = cls(trees, weights, tuple(facts["services"]), facts["k"], knots, percent, thresholds)
                found.stale_after, found.about = float(facts["stale_after"]), str(facts["about"])
        except FileNotFoundError:
            raise InputError(f"{path}: no such file") from None
        except InputError:
            raise
        except Exception as error:  # numpy, zipfile, zlib and json each have their own
            raise InputError(f"{path}: not an interference score, or damaged: {error}") from None
        for fault in _faults(found):
            raise InputError(f"{path}: {fault}")
        return found

    def _fresh(self, machines: MonitoredMachines, now: float) -> npt.NDArray[np.bool_]:
        """(M,) whether the last report is recent and the usage a number."""
        if now < self._latest:
            self._warn_once(
                "clock", f"the clock went back from second {self._latest:g} to {now:g}: later reports do not count"
            )
        self._latest = now
        usage = machines.cpu + machines.batch_cpu + machines.used_memory
        if (bad := ~np.isfinite(usage)).any():
            self._warn_once("usage", f"usage of machine {int(bad.argmax())} is not a number: it counts as unknown")
        fresh: npt.NDArray[np.bool_] = (
            ~bad & (machines.last_report >= now - self.stale_after) & (machines.last_report <= now)
        )
        return fresh

    def _warn_once(self, what: str, message: str) -> None:
        """Warn once of each kind of problem."""
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(message, stacklevel=3)


def mean_levels(observations: Observations, predicted: Float, levels: Levels, weights: Float) -> tuple[Float, Float]:
    """(P,) predicted and (P,) observed weighted mean level of every machine at every time, over services with both.

    `predicted` (N,) levels, NaN = unknown; `weights` (services,).
    """
    observed = levels.level(observations.service, observations.response_ms)
    use = (observed > 0) & ~np.isnan(predicted)
    times, time = np.unique(observations.seconds[use], return_inverse=True)
    _, which = np.unique(observations.machine[use] * len(times) + time, return_inverse=True)
    weight = weights[observations.service[use]]
    whole = np.bincount(which, weight)
    sums = (np.bincount(which, weight * values[use]) for values in (predicted, observed))
    first, second = (total / whole for total in sums)
    return first, second


def _faults(score: InterferenceScore) -> Iterator[str]:
    """Faults of a score read from a file: non-finite numbers, and indices that would lead a kernel out of bounds."""
    for name, found in (score.trees._asdict() | {name: getattr(score, name) for name in PARTS}).items():
        kind = TREE_TYPES.get(name, "float64")
        if found.ndim != 1 or found.dtype != kind:
            yield f"{name} is {found.ndim}-dimensional {found.dtype}: must be 1, {kind}"
        if kind == "float64" and not np.isfinite(found).all():
            yield f"{name} holds a value that is not a finite number"
    trees, nodes, services = score.trees, len(score.trees.left), len(score.services)
    if not len(trees.feature) == len(trees.threshold) == len(trees.level) == nodes:
        yield "its trees have arrays of different lengths"
    right = trees.left + (trees.threshold < LEAF_THRESHOLD)  # of a node that is no leaf
    if (trees.root >= nodes).any() or (trees.left < 0).any() or (right >= nodes).any():
        yield "its trees have children outside their arrays"
    if (trees.feature > CATEGORIES).any() or (trees.depth < 0).any() or len(trees.pressure) != CATEGORIES:
        yield "its trees test categories that do not exist"
    if not len(trees.root) == len(trees.depth) == len(score.weights) == services:
        yield f"it has {services} services, but not as many trees or weights"
    if not (isinstance(score.k, int) and score.k >= 2 and ((trees.level >= 1) & (trees.level <= score.k)).all()):
        yield f"its trees have levels outside 1 to {score.k}"
    if not (score.weights > 0).all() or not score.stale_after >= 0:
        yield "a weight is not > 0, or stale_after is not >= 0"
    rising = (np.diff(score.knots) > 0).all() and (np.diff(score.percent) >= 0).all()
    if not (len(score.knots) == len(score.percent) > 0 and rising):
        yield f"its scale does not rise: {len(score.knots)} knots, {len(score.percent)} percentages"


def _orders(categories: Int) -> list[Int]:
    """All orders of a few categories, or `ORDERS` drawn ones of many, each with its reverse."""
    if len(categories) <= FEW:
        return [np.array(order, np.int64) for order in permutations(categories.tolist())]
    rng = np.random.default_rng(0)
    drawn = [rng.permutation(categories) for _ in range(ORDERS // 2)]
    return [*drawn, *(order[::-1] for order in drawn)]
