"""The rules of the provisioning and LRASched papers by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.checks import hint
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import (
    LEAST,
    SCORES,
    SIZES,
    BestFit,
    BinSearch,
    ByInput,
    BySize,
    Decrements,
    FewestCandidates,
    Filling,
    FirstFit,
    Matching,
    Planner,
    Search,
    Spreading,
    Strategy,
    Watch,
)
from tvwrl.types import Float, InputError, Int

STEPS = 20  # of the search per application
CHANGING = ("residual", "left", "used", "machine", "count")  # of a packing, by the search
MAX_FAILURES = 20  # applications in a row without room that end a step


@dataclass(frozen=True)
class TwoPhase:
    """Applications in decreasing order of their measure (Eq. 20), replicas to the fittest machine (Eq. 21).

    Paper: F^k of Eq. 21 is not said to follow each replica. Here: it follows each application that is placed.
    """

    batch: int | None = None  # applications per scheduling period, in the order of input; None: all in one
    existing: int | None = None  # machines of phase 1, the first of the fleet; None: those that it lists
    fragment: float = 0.0  # share of its fitness that a machine loses if it would be left a fragment (Eq. 16, 17)
    first_fit: bool = False  # the first machine with room, at most one replica of an application on each (FFD)
    search: bool = False  # after phase 1: ruin and recreate (Schrimpf et al. 2000), see `packing.lrasched.improve`
    seed: int = 0  # of the search

    def pack(self, problem: PackingProblem, watch: Watch) -> Any:
        """See `planners.Planner`. Batches are placed one after another, phase 2 comes after the last."""
        from tvwrl.packing import place_whole, scratch_for

        applications, packing = self._applications(problem), self._opened(problem)
        scratch, count = scratch_for(packing, problem.replicas), len(problem.replicas)
        step, spare = self.batch or count, None
        for begin in range(0, count, step):
            batch = np.arange(begin, min(begin + step, count))
            demand, size = _measure(problem, batch)
            fitness = self._fitness(problem, packing, demand)
            span = watch.within(begin / count, min(1.0, (begin + step) / count))
            for part in span.parts(len(batch)):
                place_whole(applications, packing, batch[np.argsort(-size, kind="stable")][part], fitness, scratch)
            if self.search and packing.left[batch].any():
                spare = spare or self._opened(problem)
                self._improve((applications, packing), spare, batch, size, fitness, scratch, span)
        if packing.left.any() and not problem.fleet.fixed:
            self._add_machines(problem, applications, packing, watch)
        return packing

    def _applications(self, problem: PackingProblem) -> Any:
        if not self.first_fit:
            return problem.applications
        return problem.applications._replace(own=np.ones(len(problem.replicas), np.int32))

    def _opened(self, problem: PackingProblem) -> Any:
        """A packing in which the machines that are there are open."""
        listed = len(problem.kinds)
        existing = listed if self.existing is None else min(self.existing, listed)
        packing = problem.packing(listed if problem.fleet.fixed else listed + int(problem.replicas.sum()))
        packing.residual[:existing] = problem.kinds[:existing]
        packing.open[0] = existing
        return packing

    def _fitness(self, problem: PackingProblem, packing: Any, demand: Float) -> Any:
        from tvwrl.packing import Fitness

        demand = np.full_like(demand, np.inf) if self.first_fit else demand
        free = packing.residual[: packing.open[0]].sum(axis=0)
        return Fitness(demand, free, problem.needed.min(axis=0), self.fragment)

    def _improve(
        self, packed: tuple[Any, Any], spare: Any, batch: Int, size: Float, fitness: Any, scratch: Any, watch: Watch
    ) -> None:
        """Search from what phase 1 placed of this batch, until the steps are done or time is up."""
        from tvwrl.packing import improve

        sizes, rng = np.zeros(len(spare.left)), np.random.default_rng(self.seed)
        sizes[batch] = size
        packing, more = packed[1], False
        before = {name: getattr(packing, name).copy() for name in CHANGING}
        free = fitness.free.copy()
        try:
            for part in watch.parts(STEPS * len(batch)):
                steps = part.stop - part.start
                more |= improve(*packed, spare, batch, sizes, fitness, scratch, steps, MAX_FAILURES, rng)
        except TimeoutError:
            pass
        if not more:  # smaller applications in place of larger ones are no gain
            for name, values in before.items():
                getattr(packing, name)[:] = values
            fitness.free[:] = free

    def _add_machines(self, problem: PackingProblem, applications: Any, packing: Any, watch: Watch) -> None:
        """Phase 2: fill added machines one after another with what is fittest, as LRASched-Fitness; or first fit.

        Paper: one replica at a time. Here: as many replicas of the fittest application as fit (provisioning paper).
        """
        from tvwrl.packing import UNLIMITED, fill, first_fit, new_row

        if self.first_fit:
            left = np.flatnonzero(packing.left)
            order = left[np.argsort(-_measure(problem, left)[1], kind="stable")]
            first_fit(applications, packing, new_row(applications, packing), order)
            return
        sizes, count = problem.sizes, len(problem.replicas)
        total = packing.residual[: packing.open[0]].sum(axis=0)
        cap, touched = np.full(count, UNLIMITED, np.int32), np.empty(count, np.int32)
        queue, score = problem.queue(packing), SCORES["Fitness"].score(problem)
        while fill(applications, packing, queue, sizes, score, total, cap, touched, LEAST):
            watch.check(0.9)


def _measure(problem: PackingProblem, batch: Int) -> tuple[Float, Float]:
    """`packing.fitness.measure` of the applications of a batch."""
    from tvwrl.packing import measure

    return measure(problem.demand[batch] * problem.replicas[batch, None])


SEARCHES = ("BinSearch", "Decr2", "Decr3", "Decr5")

RULES = (
    *("FF", "BF", "WF"),
    *(f"{one}-{size}" for one in ("FFD", "BFD", "WFD") for size in SIZES),
    *("Medea-TP", "Medea-NC"),
    *("LRASched-Fitness" if score == "Fitness" else f"NCD-{score}" for score in SCORES),
    *(f"{one}-{size}-{search}" for one in ("SpreadWF", "SpreadWFD") for size in SIZES for search in SEARCHES),
    *(f"Matching-{score}-{search}" for score in SCORES for search in SEARCHES),
    *("LRASched", "LRASched-Search", "FFD-AntiAffinity"),
)

_SIZE = "|".join(SIZES)
_SCORE = "|".join(SCORES)
_SEARCH = r"(?P<search>BinSearch|Decr(?P<percent>[1-9]\d?))"
_HYBRID = r"(-Hybrid(?P<alpha>0(\.\d+)?|1(\.0+)?))?"
_FAMILIES = (
    r"(?P<rule>FF)",
    rf"(?P<rule>BF|WF)(-(?P<size>{_SIZE}))?",
    rf"(?P<rule>FFD|BFD|WFD)-(?P<size>{_SIZE}){_HYBRID}",
    r"(?P<rule>Medea-TP|Medea-NC)",
    rf"(?P<rule>NCD)-(?P<score>{_SCORE})",
    r"(?P<rule>LRASched)-(?P<score>Fitness)",
    rf"(?P<rule>SpreadWF)-(?P<size>{_SIZE})-{_SEARCH}",
    rf"(?P<rule>SpreadWFD)-(?P<size>{_SIZE}){_HYBRID}-{_SEARCH}",
    rf"(?P<rule>Matching)-(?P<score>{_SCORE})-{_SEARCH}",
    r"(?P<rule>LRASched)(-Fragment(?P<fragment>0(\.\d+)?|1(\.0+)?))?(-Batch(?P<batch>[1-9]\d*))?(-(?P<searched>Search))?",
    r"(?P<rule>FFD-AntiAffinity)(-Batch(?P<batch>[1-9]\d*))?",
)
_WORDS = ("size", "score", "search", "percent", "alpha", "fragment", "batch", "searched")


def rule(name: str) -> Planner:
    """The rule of a name: one of `RULES`, or with another percentage (`SpreadWFD-Avg-Decr4`) or part of the
    order by affinity (Eq. 3 with alpha 0.5: `FFD-Avg-Hybrid0.5`). BF and WF measure machines by Avg unless they say
    otherwise (`WF-Max`). `LRASched-Fragment0.5-Batch50-Search`: machines that would be left a fragment lose half of
    their fitness, 50 applications are placed at a time, then a local search follows. Raises InputError for others.
    """
    found = next((match for family in _FAMILIES if (match := re.fullmatch(family, name))), None)
    if found is None:
        raise InputError(
            f"there is no planner '{name}': {hint(name, RULES, listed_by='tvwrl place --list-planners lists all')}"
        )
    words: dict[str, Any] = dict.fromkeys(_WORDS) | found.groupdict()
    kind, size = words["rule"], SIZES[words["size"] or "Avg"]
    by_largest = kind == "SpreadWFD" and size.power != 0.0  # as the published code does
    order = BySize(SIZES["Max"] if by_largest else size, float(words["alpha"] or 1)) if kind[-1] == "D" else ByInput()
    strategy: Strategy = Decrements(int(words["percent"])) if words["percent"] else BinSearch()
    if kind in ("FF", "FFD"):
        return FirstFit(order)
    if kind in ("BF", "BFD", "WF", "WFD"):
        return BestFit(order, size, emptiest_first=kind.startswith("W"))
    if kind == "Medea-TP":
        return FirstFit(BySize(size, alpha=0.0))
    if kind == "Medea-NC":
        return FewestCandidates()
    if words["score"] is None and kind in ("LRASched", "FFD-AntiAffinity"):
        batch, fragment = words["batch"] and int(words["batch"]), float(words["fragment"] or 0)
        return TwoPhase(batch, None, fragment, kind == "FFD-AntiAffinity", words["searched"] is not None)
    if kind in ("NCD", "LRASched"):
        return Filling(SCORES[words["score"]])
    if kind == "Matching":
        return Search(Matching(SCORES[words["score"]]), strategy)
    return Search(Spreading(order, size), strategy)
