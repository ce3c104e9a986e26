"""LRASched's planner: whole applications on the machines that there are, then on added ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tvwrl.names import choice, share, whole
from tvwrl.planning.base import BY_APPLICATION, LEAST, LRASCHED, RULE, TWO_PHASES, Watch, register
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import SCORES
from tvwrl.types import Float, Int

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
        from tvwrl.packing import Fitness, measure, place_whole, scratch_for

        applications, packing = problem.applications, self._opened(problem)
        if self.first_fit:
            applications = applications._replace(own=np.ones(len(problem.replicas), np.int32))
        scratch, count = scratch_for(packing, problem.replicas), len(problem.replicas)
        step, spare = self.batch or count, None
        for begin in range(0, count, step):
            batch = np.arange(begin, min(begin + step, count))
            demand, size = measure(problem.demand[batch] * problem.replicas[batch, None])
            free = packing.residual[: packing.open[0]].sum(axis=0)
            scored = np.full_like(demand, np.inf) if self.first_fit else demand
            fitness = Fitness(scored, free, problem.needed.min(axis=0), self.fragment)
            span = watch.within(begin / count, min(1.0, (begin + step) / count))
            for part in span.parts(len(batch)):
                place_whole(applications, packing, batch[np.argsort(-size, kind="stable")][part], fitness, scratch)
            if self.search and packing.left[batch].any():
                spare = spare or self._opened(problem)
                self._improve((applications, packing), spare, batch, size, fitness, scratch, span)
        if packing.left.any() and not problem.fleet.fixed:
            self._add_machines(problem, applications, packing, watch)
        return packing

    def _opened(self, problem: PackingProblem) -> Any:
        """A packing in which the machines that are there are open."""
        listed = len(problem.kinds)
        existing = listed if self.existing is None else min(self.existing, listed)
        packing = problem.packing(listed if problem.fleet.fixed else listed + int(problem.replicas.sum()))
        packing.residual[:existing] = problem.kinds[:existing]
        packing.open[0] = existing
        return packing

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
        from tvwrl.packing import UNLIMITED, fill, first_fit, measure, new_row

        if self.first_fit:
            left = np.flatnonzero(packing.left)
            order = left[np.argsort(-measure(problem.demand[left] * problem.replicas[left, None])[1], kind="stable")]
            first_fit(applications, packing, new_row(applications, packing), order)
            return
        sizes, count = problem.sizes, len(problem.replicas)
        total = packing.residual[: packing.open[0]].sum(axis=0)
        cap, touched = np.full(count, UNLIMITED, np.int32), np.empty(count, np.int32)
        queue, score = problem.queue(packing), SCORES["Fitness"].score(problem)
        while fill(applications, packing, queue, sizes, score, total, cap, touched, LEAST):
            watch.check(0.9)


register(
    "LRASched[-Fragment{fragment}][-Batch{batch}]{search}",
    "LRASched{search}",
    TWO_PHASES,
    RULE,
    LRASCHED,
    TwoPhase,
    fragment=share(),
    batch=whole(),
    search=choice({"": False, "-Search": True}, {"-Search": " with local search"}, ("", "-Search")),
)
register(
    "FFD-AntiAffinity[-Batch{batch}]",
    "First-Fit, anti-affinity first",
    BY_APPLICATION,
    RULE,
    LRASCHED,
    partial(TwoPhase, first_fit=True),
    batch=whole(),
)
