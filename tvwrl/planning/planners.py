"""The provisioning paper's planners: orders, machine rules and scores, with the names that they are found by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from tvwrl.names import choice, share
from tvwrl.planning.base import (
    BY_APPLICATION,
    BY_MACHINE,
    LEAST,
    LRASCHED,
    MATCHED,
    MEDEA,
    PROVISIONING,
    RULE,
    SPREAD,
    Watch,
    register,
)
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.types import Float, Int


class Size(NamedTuple):
    """A measure of applications (Table 1) and of machines (Table 2): the largest dimension, or a weighted sum.

    `tvwrl.packing.orders` computes it, and says how the weights follow from these numbers.
    """

    largest: bool = False
    epsilon: float = 0.0
    power: float = 0.0
    scale: float = 1.0
    per_application: bool = False  # demand of all replicas together rather than of one

    @property
    def constant(self) -> bool:
        """Whether its weights stay the same while machines fill up."""
        return self.epsilon == 0.0 and self.power == 0.0

    def of(self, problem: PackingProblem) -> Float:
        """(A,) sizes of the applications, >= 0."""
        from tvwrl.packing import weights

        weight = weights(self, problem.total, int(problem.replicas.sum()), problem.capacity)
        shares = problem.demand * weight
        size: Float = shares.max(axis=1) if self.largest else shares.sum(axis=1)
        return size * problem.replicas if self.per_application else size


SIZES = {
    "Avg": Size(),
    "Max": Size(largest=True),
    "AvgExp": Size(epsilon=0.01),
    "Surrogate": Size(power=1.0),
    "ExtendedSum": Size(power=-1.0, scale=0.0, per_application=True),
}
_SIZE_WORDS = {"Avg": "average", "Max": "maximum", "AvgExp": "exp. average", "Surrogate": "surrogate"}
SIZE = choice(SIZES, _SIZE_WORDS | {"ExtendedSum": "extended sum"}, list(SIZES))
ALPHA = share()


@dataclass(frozen=True)
class ByInput:
    """Applications as they are listed."""

    def order(self, problem: PackingProblem) -> Int:
        """(A,) all applications."""
        return np.arange(len(problem.replicas))


@dataclass(frozen=True)
class BySize:
    """Largest first, ties as listed. With alpha < 1 in [0, 1], part of the size is by affinity (Eq. 3)."""

    size: Size
    alpha: float = 1.0

    def order(self, problem: PackingProblem) -> Int:
        """(A,) all applications."""
        size = self.size.of(problem)
        if self.alpha < 1.0:
            size = self.alpha * _over_mean(size) + (1.0 - self.alpha) * _over_mean(problem.degree.astype(np.float64))
        return np.argsort(-size, kind="stable")


def _over_mean(values: Float) -> Float:
    mean = values.mean()
    return values / mean if mean > 0 else values


@dataclass(frozen=True)
class Pull:
    """A score of an application on a machine (Table 3): pull f_k = weight_k C_k^power, see `packing.filling.Score`."""

    power: int = 1
    squares: bool = False  # L2Norm: -sum (C - s)^2, of which 2 C s - s^2 tells applications apart
    of_totals: bool = False  # Fitness: over total demand and total residual

    def score(self, problem: PackingProblem) -> Any:
        """The same for kernels."""
        from tvwrl.packing import Score

        own = np.zeros(len(problem.sizes.demand))
        weight = np.ones(len(problem.capacity))
        if self.of_totals:
            weight = 1.0 / np.where(problem.total > 0, problem.total, 1.0)
        elif self.power > 0:
            weight = problem.capacity**-2.0
        if self.squares:
            own, weight = (problem.sizes.demand**2 * weight).sum(axis=1), 2.0 * weight
        demanded = (problem.total.astype(np.float32) / problem.capacity.astype(np.float32)).astype(np.float32)
        capacity = problem.capacity.astype(np.float32)
        return Score(weight, self.power, self.of_totals, own, self.squares, capacity, demanded)


SCORES = {
    "DotProduct": Pull(),
    "L2Norm": Pull(squares=True),
    "Fitness": Pull(of_totals=True),
    "TightFill": Pull(power=-1),
}
_SCORE_WORDS = {"DotProduct": "dot product", "L2Norm": "L2 norm", "TightFill": "tight fill", "Fitness": "fitness"}
SCORE = choice(SCORES, _SCORE_WORDS, list(SCORES))


@dataclass(frozen=True)
class FirstFit:
    """Application-centric: the first machine with room, machines as they were opened."""

    order: ByInput | BySize

    def pack(self, problem: PackingProblem, watch: Watch) -> Any:
        from tvwrl.packing import first_fit, new_row

        packing, order = problem.packing(problem.most_machines), self.order.order(problem)
        row = new_row(problem.applications, packing)
        for part in watch.parts(len(order)):
            first_fit(problem.applications, packing, row, order[part])
        return packing


_ONE_BY_ONE = BY_APPLICATION, RULE, f"{PROVISIONING}, Algorithm 1"
register("FF", "First-Fit", *_ONE_BY_ONE, partial(FirstFit, ByInput()))
register(
    "FFD-{size}[-Hybrid{alpha}]",
    "First-Fit Decreasing, {size}",
    *_ONE_BY_ONE,
    lambda size, alpha=1.0: FirstFit(BySize(size, alpha)),
    size=SIZE,
    alpha=ALPHA,
)
register(
    "Medea-TP", "Medea, tag popularity", BY_APPLICATION, RULE, MEDEA, partial(FirstFit, BySize(SIZES["Avg"], alpha=0.0))
)


@dataclass(frozen=True)
class BestFit:
    """Application-centric: the fullest (best fit) or emptiest (worst fit) machine with room, by a measure."""

    order: ByInput | BySize
    size: Size
    emptiest_first: bool

    def pack(self, problem: PackingProblem, watch: Watch) -> Any:
        from tvwrl.packing import fit_by_passes, fit_by_sorting

        packing, order = problem.packing(problem.most_machines), self.order.order(problem)
        constant = self.size.constant  # then full machines take part in swaps
        machines = problem.ordering(packing, self.size, self.emptiest_first, full_last=not constant)
        fit, probes = (fit_by_passes if constant else fit_by_sorting), problem.probes(packing)
        for part in watch.parts(len(order)):
            fit(problem.applications, packing, machines, probes, order[part])
        return packing


def _best_fit(size: Size = SIZES["Avg"], alpha: float | None = None, emptiest_first: bool = False) -> BestFit:
    return BestFit(ByInput() if alpha is None else BySize(size, alpha), size, emptiest_first)


for _form, _title, _emptiest in (("BF", "Best-Fit", False), ("WF", "Worst-Fit", True)):
    _made = partial(_best_fit, emptiest_first=_emptiest)
    register(f"{_form}[-{{size}}]", _title, *_ONE_BY_ONE, _made, size=SIZE._replace(listed=()))
    register(
        f"{_form}D-{{size}}[-Hybrid{{alpha}}]",
        f"{_title} Decreasing, {{size}}",
        *_ONE_BY_ONE,
        partial(_made, alpha=1.0),
        size=SIZE,
        alpha=ALPHA,
    )


@dataclass(frozen=True)
class FewestCandidates:
    """Medea-NC: the application that the fewest open machines can take next, on the first of them (Eq. 5)."""

    def pack(self, problem: PackingProblem, watch: Watch) -> Any:
        from tvwrl.packing import fewest_candidates, new_row

        packing, count = problem.packing(problem.most_machines), len(problem.replicas)
        row, queue = new_row(problem.applications, packing), np.argsort(-problem.degree, kind="stable")
        lost, through = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        gone = np.zeros((problem.most_machines, count // 8 + 1), np.uint8)  # rows of closed machines cost no memory
        for part in watch.parts(count):
            fewest_candidates(problem.applications, packing, row, queue, part.start, part.stop, lost, gone, through)
        return packing


register("Medea-NC", "Medea, node candidates", BY_APPLICATION, RULE, f"{MEDEA}; Eq. 5", FewestCandidates)


@dataclass(frozen=True)
class Filling:
    """Node-centric: one machine after another, the best-scored application that fits next."""

    pull: Pull

    def pack(self, problem: PackingProblem, watch: Watch) -> Any:
        from tvwrl.packing import UNLIMITED, fill

        packing, sizes, count = problem.packing(problem.most_machines), problem.sizes, len(problem.replicas)
        score, total = self.pull.score(problem), np.zeros(len(problem.capacity))
        queue, cap, touched = problem.queue(packing), np.full(count, UNLIMITED, np.int32), np.empty(count, np.int32)
        more = True
        while more:
            watch.check(1.0 - packing.left.sum() / problem.replicas.sum())
            more = fill(problem.applications, packing, queue, sizes, score, total, cap, touched, LEAST)
        return packing


register(
    "NCD-{pull}",
    "Node-centric, {pull}",
    BY_MACHINE,
    RULE,
    f"{PROVISIONING}, Algorithm 2",
    Filling,
    pull=SCORE._replace(listed=("DotProduct", "L2Norm", "TightFill")),
)
register("LRASched-Fitness", "LRASched, fitness", BY_MACHINE, RULE, LRASCHED, partial(Filling, SCORES["Fitness"]))


class Trial(Protocol):
    """Packs into a given number of machines, all open from the start, or fails."""

    def attempt(self, problem: PackingProblem, machines: int, partly: bool, watch: Watch) -> Any | None:
        """A packing, or None if replicas are left over, unless `partly`."""


@dataclass(frozen=True)
class Spreading:
    """Replicas of an application one by one over all machines, emptiest first (Algorithm 3)."""

    order: ByInput | BySize
    size: Size

    def attempt(self, problem: PackingProblem, machines: int, partly: bool, watch: Watch) -> Any | None:
        from tvwrl.packing import spread

        packing, order = problem.packing(machines, opened=True), self.order.order(problem)
        ordering, taken = problem.ordering(packing, self.size, True), np.empty(machines, np.int32)
        for part in watch.parts(len(order)):
            if not spread(problem.applications, packing, ordering, order[part], taken, partly):
                return None
        return packing


@dataclass(frozen=True)
class Matching:
    """The best-scored pair of application and machine next, one replica at a time (Algorithm 4)."""

    pull: Pull

    def attempt(self, problem: PackingProblem, machines: int, partly: bool, watch: Watch) -> Any | None:
        from tvwrl.packing import match

        packing, score = problem.packing(machines, opened=True), self.pull.score(problem)
        pairs = problem.pairs(packing)
        for part in watch.parts(int(problem.replicas.sum())):
            if not match(problem.applications, packing, pairs, problem.sizes, score, part.stop - part.start):
                break
        return None if packing.left.any() and not partly else packing


class Strategy(Protocol):
    """Which numbers of machines a search tries."""

    def tries(self, bound: int, best: int) -> int:
        """How many there may be."""

    def search(self, attempt: Callable[[int], bool], bound: int, best: int) -> None:
        """Try to do with fewer machines than `best`, but not fewer than `bound`."""


@dataclass(frozen=True)
class BinSearch:
    """Halve the gap between the bound of Eq. 4 and the best so far."""

    def tries(self, bound: int, best: int) -> int:
        return max(best - bound, 1).bit_length()

    def search(self, attempt: Callable[[int], bool], bound: int, best: int) -> None:
        while bound < best:
            middle = (bound + best) // 2
            if attempt(middle):
                best = middle
            else:
                bound = middle + 1


@dataclass(frozen=True)
class Decrements:
    """Fewer by a percentage of the bound of Eq. 4, until a try fails."""

    percent: int  # >= 1

    def step(self, bound: int) -> int:
        """Machines fewer per try."""
        return max(1, -(-bound * self.percent // 100))

    def tries(self, bound: int, best: int) -> int:
        return max(0, best - bound) // self.step(bound) + 1

    def search(self, attempt: Callable[[int], bool], bound: int, best: int) -> None:
        while best - self.step(bound) >= bound and attempt(best - self.step(bound)):
            best -= self.step(bound)


@dataclass(frozen=True)
class Search:
    """Multi-node: trials with ever fewer machines, from as many as first fit takes; if those fail, first fit's plan.

    At the deadline the best plan so far counts.
    """

    trial: Trial
    strategy: Strategy

    def pack(self, problem: PackingProblem, watch: Watch) -> Any:
        best = FirstFit(ByInput()).pack(problem, watch.within(0.0, 0.02))
        machines, bound, tried = int(best.open[0]), problem.fewest_machines, 0
        tries = 1 + self.strategy.tries(bound, machines)

        def attempt(target: int, partly: bool = False) -> bool:
            nonlocal best, tried
            span = [0.02 + 0.98 * min(1.0, done / tries) for done in (tried, tried + 1)]
            packing = self.trial.attempt(problem, target, partly, watch.within(*span))
            tried += 1
            if packing is not None and packing.left.sum() <= best.left.sum():
                best = packing
            return packing is not None and not packing.left.any()

        try:
            if attempt(machines, partly=bool(best.left.any())):
                self.strategy.search(attempt, bound, machines)
        except TimeoutError:
            pass
        return best


_STEPS = range(1, 100)
STRATEGY = choice(
    {"BinSearch": BinSearch()} | {f"Decr{percent}": Decrements(percent) for percent in _STEPS},
    {"BinSearch": "binary search"} | {f"Decr{percent}": f"{percent} % steps" for percent in _STEPS},
    ("BinSearch", "Decr2", "Decr3", "Decr5"),
    f"BinSearch, Decr{_STEPS[0]} to Decr{_STEPS[-1]}",
)


def _spreading(size: Size, strategy: Strategy, alpha: float = 1.0) -> Search:
    ordered = SIZES["Max"] if size.power else size  # as the published code does
    return Search(Spreading(BySize(ordered, alpha), size), strategy)


_SPREADING = SPREAD, RULE, f"{PROVISIONING}, Algorithm 3"
register(
    "SpreadWF-{size}-{strategy}",
    "Spread as listed, {size}, {strategy}",
    *_SPREADING,
    lambda size, strategy: Search(Spreading(ByInput(), size), strategy),
    size=SIZE,
    strategy=STRATEGY,
)
register(
    "SpreadWFD-{size}[-Hybrid{alpha}]-{strategy}",
    "Spread, {size}, {strategy}",
    *_SPREADING,
    _spreading,
    size=SIZE,
    alpha=ALPHA,
    strategy=STRATEGY,
)
register(
    "Matching-{pull}-{strategy}",
    "Match, {pull}, {strategy}",
    MATCHED,
    RULE,
    f"{PROVISIONING}, Algorithm 4",
    lambda pull, strategy: Search(Matching(pull), strategy),
    pull=SCORE,
    strategy=STRATEGY,
)
