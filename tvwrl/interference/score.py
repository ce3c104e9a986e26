"""The interference score of machines: 0 to 100, calibrated, explained, and never stale (Sections 5.4, 5.5)."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.interference.categories import Thresholds
from tvwrl.interference.kernels import Trees, score_machines
from tvwrl.interference.levels import Levels
from tvwrl.interference.machines import Machines, check_machines
from tvwrl.interference.observations import CATEGORIES, Observations
from tvwrl.interference.predictor import NEVER, LevelPredictor
from tvwrl.interference.weights import row_weights, service_weights
from tvwrl.runs import whole_file
from tvwrl.types import Float, InputError, Int

STALE_AFTER = 600.0  # seconds; ten reports of a minute missed
EQUAL = 1e-6  # levels by which equal scores may differ, as sums are rounded
HELD_OUT = 0.25  # of the recording, its end: what scores are calibrated on
VERSION = 2  # of files
PARTS = ("weights", "knots", "percent")
TREE_TYPES = dict.fromkeys(("root", "depth", "threshold", "left", "pressure"), "int32") | {
    "feature": "uint8",
    "level": "float64",
}


class Push(NamedTuple):
    """What instances of one category do to a machine's score."""

    category: int
    instances: int
    points: float  # of 100, by which the score is higher with them than without


@dataclass(eq=False)
class InterferenceScore:
    """Score of a machine: weighted mean of the levels predicted for its services, on a scale of 0 to 100.

    Scale: the share of observed machines (percent) that suffer less, so 0 is as quiet as any that was seen, 50 the
    median, 100 as bad as any; isotonic between the predicted mean and the observed one's rank, on records that no tree
    has seen. A machine without services scores 0: nothing can be disturbed.

    Nothing is known of a machine whose last report is older than `stale_after` seconds (or from the future), whose
    usage is not a number, or none of whose services is known: it scores the mean of the known machines, and `choose`
    takes it only where no candidate is known. A clock that goes back is told once; what was reported in seconds that
    are then still to come is not believed.
    """

    trees: Trees
    weights: Float  # (services,) > 0
    services: tuple[str, ...]  # names, in the order of `Machines.service`
    k: int
    knots: Float  # (knots,) mean levels predicted, rising
    percent: Float  # (knots,) 0..100, not falling
    thresholds: Thresholds | None = None  # that the categories were made by, for those who have to tell them
    stale_after: float = STALE_AFTER
    about: str = ""  # what it was learnt from, in words
    _latest: float = field(default=-np.inf, init=False)
    _told: set[str] = field(default_factory=set, init=False)
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
        """Trees of the first three quarters of the recording, the scale of the last one.

        Raises InputError as `Levels.of`, for an unknown weighting, or if one moment is all that was recorded.
        """
        begins = np.quantile(observations.seconds, 1 - HELD_OUT) if len(observations.seconds) else 0.0
        early = observations.seconds < begins
        if not early.any():
            raise InputError(
                "observations: they are all of one moment; trees learn from the earlier, scales from later"
            )
        learnt, later = (observations.only(np.flatnonzero(part)) for part in (early, ~early))
        levels = Levels.of(learnt, k, skip_rare)
        predictor = LevelPredictor(random_state=random_state).fit(learnt, levels)
        weights = service_weights(weighting, learnt)
        predicted, observed = mean_levels(later, predictor.predict(later), levels, weights)
        if not len(predicted):
            raise InputError("observations: no service of their last quarter was learnt: record all of them to the end")
        knots, percent = _scale(predicted, observed)
        return cls(predictor.trees_, weights, observations.services, k, knots, percent, thresholds)

    def weight_rows(self, machines: Machines) -> Float:
        """(rows of machines.service,) weights, as kernels take them."""
        if self._rows is None or self._rows[0] is not machines.service:
            self._rows = machines.service, row_weights(machines.service, self.weights)
        return self._rows[1]

    def mean_level(self, machines: Machines, category: int = -1, which: Int | None = None) -> Float:
        """(n,) weighted mean of the levels 1..k predicted for machines `which` (n,), default all M, with one more
        instance of `category` (-1: as they are); NaN where nothing is known of their services, 0 without services.

        Raises InputError for a category that is neither -1 nor 0 to 59, a machine that there is not, and arrays of
        machines that do not fit together.
        """
        if not -1 <= category < CATEGORIES:
            raise InputError(f"category is {category}: must be -1 or 0 to {CATEGORIES - 1}")
        which = np.arange(len(machines.cores)) if which is None else np.asarray(which, np.int64)
        check_machines(machines, which)
        found = np.empty(len(which))
        score_machines(machines, self.trees, self.weight_rows(machines), category, which, found)
        return found

    def on_scale(self, mean_level: Float) -> Float:
        """0..100 of mean levels; NaN stays, and 0, of a machine without services, is 0."""
        found: Float = np.where(mean_level == 0, 0.0, np.interp(mean_level, self.knots, self.percent))
        return found

    def of(self, machines: Machines, now: float, category: int = -1) -> Float:
        """(M,) scores 0..100 at second `now`, with one more instance of `category` (-1: as machines are).

        Machines of which nothing is known have the mean of the others; NaN if nothing is known of any. An unknown
        category is told once and counts as -1.
        """
        category = category if category == -1 or self.knows(category) else -1
        found = self.on_scale(self.mean_level(machines, category))
        unknown = ~self._fresh(machines, now) | np.isnan(found)
        found[unknown] = found[~unknown].mean() if not unknown.all() else np.nan
        return found

    def choose(self, machines: Machines, now: float, category: int, candidates: Int) -> int:
        """The machine of `candidates` (n,) with the lowest score after an instance of `category` has come.

        Candidates are in a scheduler's order of preference, which decides between equal scores. Those of which nothing
        is known come after all others; if that is so of all, or the category is unknown, it is the first.
        """
        if not self.knows(category):
            return int(candidates[0])
        mean = self.mean_level(machines, category, candidates)
        mean[~self._fresh(machines, now)[candidates] | np.isnan(mean)] = np.inf
        return int(candidates[np.argmax(mean <= mean.min() + EQUAL)])

    def restart(self) -> None:
        """The clock begins anew, as in another episode."""
        self._latest = -np.inf

    def knows(self, category: int) -> bool:
        """Whether there is such a category; the first that there is not is told."""
        if 0 <= category < CATEGORIES:
            return True
        self._tell("category", f"category {category} is not one of 0 to {CATEGORIES - 1}: schedulers place it alone")
        return False

    def explain(self, machines: Machines, machine: int) -> list[Push]:
        """The categories that run on a machine, by how much its score falls if they are taken away, most first.

        As the composition stands, however old it is.
        Trees are not additive: two categories that only together do harm are each told all of it.
        """
        counts, which = machines.composition[machine], np.array([machine])
        score = self.on_scale(self.mean_level(machines, which=which))[0]
        pushes = []
        for category in np.flatnonzero(counts).tolist():
            instances = int(counts[category])
            counts[category] = 0
            without = self.on_scale(self.mean_level(machines, which=which))[0]
            counts[category] = instances
            pushes.append(Push(category, instances, float(score - without)))
        return sorted(pushes, key=lambda push: -push.points)

    def save(self, path: Path) -> None:
        """One .npz of plain arrays: reading it runs no code."""
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
        """What `save` wrote. Raises InputError for anything else."""
        try:
            with np.load(path, allow_pickle=False) as file:
                facts = json.loads(str(file["facts"]))
                if facts["version"] != VERSION:
                    raise InputError(f"{path}: version {facts['version']}: must be {VERSION}")
                trees = Trees(*(file[name] for name in Trees._fields))
                weights, knots, percent = (file[name] for name in PARTS)
                limits = facts["thresholds"]
                thresholds = None if limits is None else Thresholds.from_dict(limits)
                found = cls(trees, weights, tuple(facts["services"]), facts["k"], knots, percent, thresholds)
                found.stale_after, found.about = float(facts["stale_after"]), str(facts["about"])
        except FileNotFoundError:
            raise InputError(f"{path}: no such file") from None
        except InputError:
            raise
        except Exception as error:  # numpy, zipfile, zlib and json each have their own
            raise InputError(f"{path}: no interference score, or a damaged one: {error}") from None
        for fault in _faults(found):
            raise InputError(f"{path}: {fault}")
        return found

    def _fresh(self, machines: Machines, now: float) -> npt.NDArray[np.bool_]:
        """(M,) heard of lately, with usage that is a number."""
        if now < self._latest:
            self._tell(
                "clock", f"the clock went back from second {self._latest:g} to {now:g}: later reports are not believed"
            )
        self._latest = now
        usage = machines.cpu + machines.batch_cpu + machines.used_memory
        if (bad := ~np.isfinite(usage)).any():
            self._tell("usage", f"usage of machine {int(bad.argmax())} is not a number: nothing is known of it")
        fresh: npt.NDArray[np.bool_] = ~bad & (machines.heard >= now - self.stale_after) & (machines.heard <= now)
        return fresh

    def _tell(self, what: str, message: str) -> None:
        """Warn once of each kind of trouble."""
        if what not in self._told:
            self._told.add(what)
            warnings.warn(message, stacklevel=3)


def mean_levels(observations: Observations, predicted: Float, levels: Levels, weights: Float) -> tuple[Float, Float]:
    """(P,) predicted and observed weighted mean level of every machine at every time, of its services that have both.

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
    """Knots: mean level predicted -> percent of observed ones that are lower (half of those that are equal)."""
    from scipy.stats import rankdata
    from sklearn.isotonic import IsotonicRegression

    percent = 100 * (rankdata(observed) - 0.5) / len(observed)
    fitted = IsotonicRegression().fit(predicted, percent)
    return np.asarray(fitted.X_thresholds_, np.float64), np.asarray(fitted.y_thresholds_, np.float64)


def _faults(score: InterferenceScore) -> Iterator[str]:
    """What is wrong with a score that was read: what would lead a kernel out of its arrays, numbers that are none."""
    for name, found in (score.trees._asdict() | {name: getattr(score, name) for name in PARTS}).items():
        kind = TREE_TYPES.get(name, "float64")
        if found.ndim != 1 or found.dtype != kind:
            yield f"{name} is {found.ndim}-dimensional {found.dtype}: must be 1, {kind}"
        if kind == "float64" and not np.isfinite(found).all():
            yield f"{name} holds something that is no number"
    trees, nodes, services = score.trees, len(score.trees.left), len(score.services)
    if not len(trees.feature) == len(trees.threshold) == len(trees.level) == nodes:
        yield "its trees have not as many questions as answers"
    right = trees.left + (trees.threshold < NEVER)  # of a node that is no leaf
    if (trees.root >= nodes).any() or (trees.left < 0).any() or (right >= nodes).any():
        yield "its trees point outside themselves"
    if (trees.feature > CATEGORIES).any() or (trees.depth < 0).any() or len(trees.pressure) != CATEGORIES:
        yield "its trees ask for categories that there are not"
    if not len(trees.root) == len(trees.depth) == len(score.weights) == services:
        yield f"it has {services} services, and not as many trees or weights"
    if not (isinstance(score.k, int) and score.k >= 2 and ((trees.level >= 1) & (trees.level <= score.k)).all()):
        yield f"its trees tell levels that are not within 1 and {score.k}"
    if not (score.weights > 0).all() or not score.stale_after >= 0:
        yield "a weight is not > 0, or its limit of age not >= 0"
    rising = (np.diff(score.knots) > 0).all() and (np.diff(score.percent) >= 0).all()
    if not (len(score.knots) == len(score.percent) > 0 and rising):
        yield f"its scale does not rise: {len(score.knots)} knots, {len(score.percent)} percentages"
