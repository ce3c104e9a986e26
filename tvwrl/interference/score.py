"""The interference score of machines: 0 to 100, calibrated, explainable, and unaffected by stale reports (5.4, 5.5)."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.interference.categories import CLASSES, Thresholds
from tvwrl.interference.observations import CATEGORIES, Levels, MonitoredMachines, Observations, check_machines
from tvwrl.interference.predictor import LEAF_THRESHOLD, LevelPredictor
from tvwrl.interference.score_kernels import Trees, score_machines
from tvwrl.interference.weights import service_weights
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


class Contribution(NamedTuple):
    """Contribution of one category's instances to a machine's score."""

    category: int
    instances: int
    points: float  # of 100: score with them minus score without


@dataclass(eq=False)
class InterferenceScore:
    """Score of a machine: weighted mean of the levels predicted for its services, on a scale of 0 to 100.

    Scale: the percentage of observed machines that suffer less: 0 is the quietest machine seen, 50 the median, 100 the
    worst. The map from predicted mean level to that percentage is an isotonic regression on records that no tree has
    seen. A machine without services scores 0.

    A machine is unknown if its last report is older than `stale_after` seconds or from the future, if its usage is not
    a number, or if none of its services was learnt. It then scores the mean of the known machines, and `choose` takes
    it only if no candidate is known. If the clock goes back, a warning is given once.

    Example::

        score = InterferenceScore.load(Path("score.npz"))
        score.of(machines, now)                            # (M,) 0..100
        score.choose(machines, now, category, candidates)  # machine with the lowest score
    """

    trees: Trees
    weights: Float  # (services,) > 0
    services: tuple[str, ...]  # names, in the order of `MonitoredMachines.service`
    k: int
    knots: Float  # (knots,) mean levels predicted, rising
    percent: Float  # (knots,) 0..100, not falling
    thresholds: Thresholds | None = None  # of the categories that it was learnt from
    stale_after: float = STALE_AFTER
    about: str = ""  # description of what it was learnt from
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

        Raises InputError as `Levels.of`, for an unknown weighting, or if all records have the same time.
        """
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
        knots, percent = _scale(predicted, observed)
        return cls(predictor.trees_, weights, observations.services, k, knots, percent, thresholds)

    def weight_rows(self, machines: MonitoredMachines) -> Float:
        """(rows of machines.service,) weights, as kernels take them; anything for services that were not learnt."""
        if self._rows is None or self._rows[0] is not machines.service:
            self._rows = machines.service, np.take(self.weights, machines.service, mode="clip")
        return self._rows[1]

    def mean_level(self, machines: MonitoredMachines, category: int = -1, which: Int | None = None) -> Float:
        """(n,) weighted mean of the levels 1..k predicted for machines `which` (n,), default all M, with one more
        instance of `category` (-1: none); NaN if none of their services was learnt, 0 without services.

        Raises InputError for a category other than -1 and 0 to 59, a machine out of range, or inconsistent arrays.
        """
        if not -1 <= category < CATEGORIES:
            raise InputError(f"category is {category}: must be -1 or 0 to {CATEGORIES - 1}")
        which = np.arange(len(machines.cores)) if which is None else np.asarray(which, np.int64)
        check_machines(machines, which)
        found = np.empty(len(which))
        score_machines(machines, self.trees, self.weight_rows(machines), category, which, found)
        return found

    def on_scale(self, mean_level: Float) -> Float:
        """Scores 0..100 of mean levels, both (n,); NaN stays NaN, and 0 (no services) stays 0."""
        found: Float = np.where(mean_level == 0, 0.0, np.interp(mean_level, self.knots, self.percent))
        return found

    def of(self, machines: MonitoredMachines, now: float, category: int = -1) -> Float:
        """(M,) scores 0..100 at second `now`, with one more instance of `category` (-1: none).

        Unknown machines have the mean of the others; NaN if all are unknown. An unknown category counts as -1 and
        causes one warning.
        """
        category = category if category == -1 or self.knows(category) else -1
        found = self.on_scale(self.mean_level(machines, category))
        unknown = ~self._fresh(machines, now) | np.isnan(found)
        found[unknown] = found[~unknown].mean() if not unknown.all() else np.nan
        return found

    def choose(self, machines: MonitoredMachines, now: float, category: int, candidates: Int) -> int:
        """The machine of `candidates` (n,) with the lowest score after an instance of `category` has arrived.

        Candidates are in a scheduler's order of preference, which breaks ties. Unknown machines come last; if all are
        unknown, or the category is, the first candidate is taken.
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
        """Whether the category exists; the first that does not causes a warning."""
        if 0 <= category < CATEGORIES:
            return True
        self._warn_once("category", f"category {category} is not one of 0 to {CATEGORIES - 1}: its score is unknown")
        return False

    def explain(self, machines: MonitoredMachines, machine: int) -> list[Contribution]:
        """The categories on a machine by how much its score falls without them, greatest first.

        The composition counts, however old it is. Trees are not additive: if two categories are harmful only together,
        each contributes the whole harm.
        """
        counts, which = machines.composition[machine], np.array([machine])
        score = self.on_scale(self.mean_level(machines, which=which))[0]
        found = []
        for category in np.flatnonzero(counts).tolist():
            instances = int(counts[category])
            counts[category] = 0
            without = self.on_scale(self.mean_level(machines, which=which))[0]
            counts[category] = instances
            found.append(Contribution(category, instances, float(score - without)))
        return sorted(found, key=lambda one: -one.points)

    def save(self, path: Path) -> None:
        """Write one .npz of plain arrays, which is read without running code."""
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
        """The score that `save` wrote. Raises InputError for any other file."""
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


def _scale(predicted: Float, observed: Float) -> tuple[Float, Float]:
    """Knots of predicted mean level -> percentage of observed mean levels that are lower, ties counting half."""
    from scipy.stats import rankdata
    from sklearn.isotonic import IsotonicRegression

    percent = 100 * (rankdata(observed) - 0.5) / len(observed)
    fitted = IsotonicRegression().fit(predicted, percent)
    return np.asarray(fitted.X_thresholds_, np.float64), np.asarray(fitted.y_thresholds_, np.float64)


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
