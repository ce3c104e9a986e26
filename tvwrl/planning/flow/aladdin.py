"""Aladdin+H: places all replicas of a problem by flow through groups of machines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tvwrl.planning.flow.firmament import Firmament
from tvwrl.planning.flow.medea import Medea
from tvwrl.planning.flow.network import FlowNetwork, FlowSettings
from tvwrl.planning.flow.tetris_graphene import Graphene, Tetris
from tvwrl.planning.instance import Affinity, Fleet, Instance
from tvwrl.planning.merged import Merged
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.types import InputError, Int


def place_by_flow(problem: PlanningProblem, settings: FlowSettings | None = None, seed: int = 0) -> Plan:
    """Place as many replicas as possible; the plan gives the reasons for the others.

    Never exceeds a capacity or an affinity limit, and never splits a bundle. Contradictory or oversized applications
    are left out, with the reason. `seed` initialises K-means; equal seeds give equal plans.
    """
    settings = settings or FlowSettings()
    warm_up(problem, settings)
    begun = time.process_time()
    merged = problem.merged
    network = FlowNetwork(merged.instance, merged.fleet, settings, seed, merged.refused)
    queue = arrival_order(merged, settings.order)
    network.place(queue)
    network.place(queue)  # replicas that blocked others may have moved
    on_arrival = network.migrations
    network.improve()
    rows = merged.expand(*network.placed())
    seconds = time.process_time() - begun
    details = {
        "groups": len(network.centres),
        "migrations on arrival": on_arrival,
        "moves to improve": network.migrations - on_arrival,
        "regroup_seconds": network.regroup_seconds,
        "cost": network.cost,
    }
    tried = (
        "and nothing may move"
        if settings.repack == "none"
        else (f"nor did chains of up to {settings.chain_length} moves make room")
    )
    reasons = merged.reasons(network.left, f"no machine with room allows it, {tried}")
    return Plan.of(_name(settings), *rows, seconds, reasons=reasons, migrations=network.migrations, details=details)


def _name(settings: FlowSettings) -> str:
    moves = "" if settings.repack == "blocked" and settings.consolidate else f"-{settings.repack}"
    still = "-still" if settings.repack != "none" and not settings.consolidate else ""
    return f"Aladdin+H.{settings.groups}({settings.order}){moves}{still}"


def arrival_order(merged: Merged, order: str) -> Int:
    """(n,) vertices that are not refused, large demands first (LRF) or small ones first (SRF), Section 4.3.

    The size of a vertex is the largest share of any resource of the largest machine that one copy takes.
    """
    share = (merged.instance.peak / merged.fleet.capacity.max(axis=0)).max(axis=1)
    arriving = np.setdiff1d(np.arange(len(share)), np.fromiter(merged.refused, dtype=np.int64))
    sign = -1.0 if order == "LRF" else 1.0
    sorted_by_size: Int = arriving[np.argsort(sign * share[arriving], kind="stable")]
    return sorted_by_size


def warm_up(problem: PlanningProblem, settings: FlowSettings) -> None:
    """Compile all kernels, or load them from the cache, so that measured seconds are those of placing."""
    merged = problem.merged.instance
    _compile(merged.demand.shape[1], merged.resources, settings)


@lru_cache(maxsize=64)
def _compile(times: int, resources: tuple[str, ...], settings: FlowSettings) -> None:
    """Place three applications that exclude each other on three machines."""
    size = np.array([0.6, 0.5, 0.4])
    demand = np.tile(size[:, None, None], (1, times, len(resources)))
    limits = Affinity.of(3, np.array([0, 1]), np.array([1, 2]), np.array([0, 0]))
    tiny = Instance("tiny", np.array(list("abc"), dtype=object), np.array([2, 2, 2]), demand, resources, limits)
    network = FlowNetwork(tiny, Fleet(np.ones((3, len(resources))), fixed=True), replace(settings, regroup_every=1))
    network.place(np.arange(3))
    network.improve()


FlowPlanner = Callable[[PlanningProblem], Plan]

ALADDIN = tuple(f"Aladdin+H.{groups}({order})" for groups in (2, 4, 8) for order in ("LRF", "SRF"))
BASELINES = (
    *("Tetris.1", "Tetris.4", "Graphene.1", "Graphene.4"),
    *("Medea(1,1,1)", "Medea(1,0.5,0.5)", "Medea(0.5,0.5,0.5)"),
    *("TRIVIAL-cpu", "TRIVIAL-mem", "OCTOPUS-cpu", "OCTOPUS-mem"),
)
_WEIGHT = r"(0(?:\.\d+)?|1(?:\.0+)?)"


def flow_planner(name: str, seed: int = 0, medea_seconds: float = 2.0) -> FlowPlanner | None:
    """The planner of a `name` like those in `ALADDIN` and `BASELINES`, with any numbers and resources in it.

    `Aladdin+H.4` means `(LRF)`. A suffix `-none`, `-blocked` or `-cheapest` sets `FlowSettings.repack`; a further
    suffix `-still` switches `consolidate` off. `medea_seconds` limits each of Medea's integer programmes. `seed` >= 0
    decides what planners draw. None: there is no such planner.

    >>> plan = flow_planner("Tetris.1")(problem)  # doctest: +SKIP
    """
    if found := re.fullmatch(r"Aladdin\+H\.([1-9]\d*)(?:\((LRF|SRF)\))?(?:-(none|blocked|cheapest))?(-still)?", name):
        if found[3] == "none" and found[4]:
            raise InputError(f"planner '{name}': -still has no effect with -none: leave it out")
        order: Any = found[2] or "LRF"
        repack: Any = found[3] or "blocked"
        settings = FlowSettings(int(found[1]), order, repack, consolidate=not found[4])
        return partial(place_by_flow, settings=settings, seed=seed)
    if found := re.fullmatch(r"(Tetris|Graphene)\.(\d+)", name):
        return (Tetris if found[1] == "Tetris" else Graphene)(int(found[2]))
    if found := re.fullmatch(rf"Medea\({_WEIGHT},{_WEIGHT},{_WEIGHT}\)", name):
        a, b, c = map(float, found.groups())
        return Medea(a, b, c, limit=medea_seconds, seed=seed)
    if found := re.fullmatch(r"(TRIVIAL|OCTOPUS)-(\w+)", name):
        policy: Any = found[1]
        return Firmament(policy, found[2])
    return None
