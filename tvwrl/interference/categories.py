"""Categories of batch tasks: 3 classes of CPU x 5 of memory x 4 of makespan (Section 5.2).

Workloads of the simulator are batch work too: the category of each, slot by slot, follows from its use so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.interference.observations import CATEGORIES
from tvwrl.types import Float, InputError, Int, SequenceSet

CLASSES = {"cpu": 3, "memory": 5, "makespan": 4}  # number of classes of each dimension
PAPER_CPU = (0.5, 1.5)  # alpha, cores; the paper gives no figures for beta and gamma
CORES = 104.0  # cores of the largest machine: two of the paper's processors, with 26 cores of two threads each
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
    weight, place = counts[filled].astype(np.float64), ((edges[:-1] + edges[1:]) / 2)[filled]
    sums = [np.concatenate([[0.0], np.cumsum(weight * place**power)]) for power in range(3)]
    mass, first, second = (part[None, 1:] - part[:-1, None] for part in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        scatter = np.maximum(second - first**2 / mass, 0.0)  # [i, j]: sum of squares of bins i..j about their mean
    scatter = np.where(np.triu(np.ones_like(mass)) > 0, scatter, np.inf)
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


def shares(demand: Float, largest: Float) -> tuple[Float, Float]:
    """CPU in cores and memory in percent of the largest machine, each (...), of demand (..., D) units.

    `largest` (D,) units: capacity of that machine. The first resource is CPU, the last is memory.
    """
    share = demand / largest
    return share[..., 0] * CORES, 100.0 * share[..., -1]


def categories(demand: Float, largest: Float, step_seconds: float, thresholds: Thresholds) -> Int:
    """(N, L) category of N workloads of demand (N, L, D) units after each has run l + 1 slots.

    By mean use and run time so far: entry l depends on no later slot, and entry 0 is what a scheduler may assume of a
    waiting workload. Paper: by the use of the whole life, predicted by the classifier; workloads have no task graph to
    predict it from.
    """
    length = demand.shape[1]
    cpu, memory = shares(_mean_so_far(demand), largest)
    lasted = np.broadcast_to(step_seconds * np.arange(1.0, length + 1), cpu.shape)
    return thresholds.category(cpu.ravel(), memory.ravel(), lasted.ravel()).reshape(cpu.shape)


def thresholds_of(sequences: SequenceSet, largest: Float, step_seconds: float) -> Thresholds:
    """Thresholds that split `sequences` evenly: usage slot by slot, makespan workload by workload.

    `largest` (D,): capacity of the largest machine in the demand's units; `step_seconds`: seconds of a slot.
    """
    runs = np.arange(sequences.demand.shape[2]) < sequences.length[..., None]
    so_far = np.stack([_mean_so_far(demand) for demand in sequences.demand])[runs]
    return Thresholds.even(*shares(so_far, largest), step_seconds * sequences.length.ravel().astype(np.float64))


def _mean_so_far(demand: Float) -> Float:
    """(N, L, D) mean of demand (N, L, D) up to each slot."""
    mean: Float = demand.cumsum(axis=1) / np.arange(1.0, demand.shape[1] + 1)[:, None]
    return mean
