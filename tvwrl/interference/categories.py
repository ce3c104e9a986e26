"""Categories of batch tasks: 3 classes of CPU x 5 of memory x 4 of makespan (Section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.interference.observations import CATEGORIES
from tvwrl.types import Float, InputError, Int

CLASSES = {"cpu": 3, "memory": 5, "makespan": 4}  # number of classes of each dimension
PAPER_CPU = (0.5, 1.5)  # alpha, cores; the paper gives no figures for beta and gamma
BINS = 200  # bins of the histograms that give thresholds


@dataclass(frozen=True)
class Thresholds:
    """Borders between classes: class c holds usage from threshold c - 1 (inclusive) to threshold c (exclusive)."""

    cpu: tuple[float, ...]  # (2,) alpha, cores of an instance, > 0, rising
    memory: tuple[float, ...]  # (4,) beta, in the unit of instances' memory, > 0, rising
    makespan: tuple[float, ...]  # (3,) gamma, seconds that an instance runs, > 0, rising

    def __post_init__(self) -> None:
        for name, classes in CLASSES.items():
            given = getattr(self, name)
            rising = len(given) == classes - 1 and all(a < b for a, b in zip((0.0, *given), given, strict=False))
            if not rising or not np.isfinite(given).all():
                raise InputError(
                    f"thresholds of {name} are {', '.join(map(str, given))}: must be {classes - 1} rising numbers > 0"
                )

    @classmethod
    def from_usage(cls, cpu: Float, memory: Float, makespan: Float) -> Thresholds:
        """The paper's thresholds of CPU, and natural breaks of N tasks' memory and makespan, each (N,) >= 0.

        Raises InputError for usage that is not a number >= 0, or has fewer different values than classes.
        """
        check_usage(cpu, "cpu")
        breaks = (natural_breaks(values, CLASSES[n], n) for n, values in (("memory", memory), ("makespan", makespan)))
        return cls(PAPER_CPU, *breaks)

    @classmethod
    def even(cls, cpu: Float, memory: Float, makespan: Float) -> Thresholds:
        """Quantile-like breaks of values (N,), (N,) and (K,), each > 0 (`even_breaks`). Errors: as of `from_usage`."""
        usage = {"cpu": cpu, "memory": memory, "makespan": makespan}
        return cls(**{name: even_breaks(usage[name], classes, name) for name, classes in CLASSES.items()})

    def describe(self) -> str:
        """The thresholds with their units, for people."""
        units = {"cpu": "cores", "memory": "of memory", "makespan": "s"}
        return ", ".join(f"{' '.join(f'{t:.3g}' for t in getattr(self, name))} {units[name]}" for name in CLASSES)

    def classes(self, cpu: Float, memory: Float, makespan: Float) -> Int:
        """(N, 3) class of each of N tasks by CPU, memory and makespan, from 0; all (N,) >= 0.

        Raises InputError with row and field for usage that is not a number >= 0.
        """
        usage = {"cpu": cpu, "memory": memory, "makespan": makespan}
        for name, values in usage.items():
            check_usage(values, name)
        columns = [np.searchsorted(getattr(self, name), values, side="right") for name, values in usage.items()]
        return np.stack(columns, axis=1).astype(np.int64)

    def category(self, cpu: Float, memory: Float, makespan: Float) -> Int:
        """(N,) category 0..59 of each of N tasks; arguments and errors as of `classes`."""
        return category_of(self.classes(cpu, memory, makespan))


def category_of(classes: Int) -> Int:
    """(...) category of classes (..., 3), each from 0 and below `CLASSES`."""
    category: Int = np.ravel_multi_index(tuple(np.moveaxis(classes, -1, 0)), tuple(CLASSES.values()))
    return category


def classes_of(category: Int) -> Int:
    """(..., 3) classes of categories (...)."""
    return np.stack(np.unravel_index(category, tuple(CLASSES.values())), axis=-1).astype(np.int64)


CATEGORY_NAMES = tuple(map(str, classes_of(np.arange(CATEGORIES)).tolist()))  # as the paper's, "[2, 4, 3]"


def check_usage(values: Float, field: str) -> None:
    """Raise InputError with the first row of `values` (N,) that is not a number >= 0."""
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"usage, row {row}: {field} is {values[row]}: must be a number >= 0")


def _positive(values: Float, field: str) -> Float:
    """The values (N,) that are > 0, sorted. Raises InputError if none is, and as `check_usage`."""
    check_usage(values, field)
    positive: Float = np.sort(values[values > 0])
    if not len(positive):
        raise InputError(f"{field}: no value > 0 to compute thresholds from")
    return positive


def natural_breaks(values: Float, classes: int, field: str) -> tuple[float, ...]:
    """(classes - 1,) rising thresholds > 0 that minimise the variance of log `values` (N,) within classes.

    A histogram of the logarithms with `BINS` equal bins is cut where the sum of squares within classes is least
    (Fisher 1958; on a histogram: Otsu 1979), exactly, by dynamic programming; a cut in a stretch of empty bins lies in
    its middle. Paper: "a histogram method", no rule. Zeros count as the smallest positive value. Raises InputError for
    a value that is not a number >= 0, or fewer filled bins than classes.
    """
    logs = np.log(np.maximum(values, _positive(values, field)[0]))
    counts, edges = np.histogram(logs, BINS)
    filled = np.flatnonzero(counts)
    if len(filled) < classes:
        raise InputError(f"{field}: {len(filled)} different values are too few for {classes} classes")
    scatter = _scatter(counts[filled].astype(np.float64), ((edges[:-1] + edges[1:]) / 2)[filled])
    best, cuts = scatter[0], []  # best[j]: least sum of squares of bins 0..j in the classes so far
    for _ in range(classes - 1):
        total = best[:-1, None] + scatter[1:]  # [i, j]: the last class holds bins i + 1 .. j
        cuts.append(np.argmin(total, axis=0))
        best = total.min(axis=0)
    found, last = [], len(filled) - 1
    for cut in reversed(cuts):
        before = int(cut[last])
        found.append(float(np.exp((edges[filled[before] + 1] + edges[filled[before + 1]]) / 2)))
        last = before
    return tuple(reversed(found))


def even_breaks(values: Float, classes: int, field: str) -> tuple[float, ...]:
    """(classes - 1,) rising thresholds > 0 that split the positive `values` (N,) into classes of about equal size.

    From the lowest class on, each takes its share of the remaining values and all that equal its largest, for whole
    units repeat; but it leaves at least one distinct value to each class above. With fewer distinct values than classes
    the uppermost classes stay empty, each threshold being twice the one below. Raises InputError for a value that is
    not a number >= 0, or if none is > 0.
    """
    left, found = _positive(values, field), list[float]()
    for others in range(classes - 1, 0, -1):
        if not len(left):
            found.append(2 * found[-1])
            continue
        different = np.unique(left)
        last = min(left[(len(left) - 1) // (others + 1)], different[max(len(different) - 1 - others, 0)])
        left = left[left > last]
        found.append(float(max((last + left[0]) / 2, np.nextafter(last, np.inf)) if len(left) else 2 * last))
    return tuple(found)


def _scatter(weight: Float, place: Float) -> Float:
    """(n, n) weighted sum of squares of places i..j about their mean; infinite for i > j."""
    sums = [np.concatenate([[0.0], np.cumsum(weight * place**power)]) for power in range(3)]
    mass, first, second = (part[None, 1:] - part[:-1, None] for part in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        scatter = second - first**2 / mass
    return np.where(np.triu(np.ones_like(mass)) > 0, np.maximum(scatter, 0.0), np.inf)
