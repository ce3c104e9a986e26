"""Aladdin+H: places all replicas of a problem by flow through groups of machines."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from tvwrl.names import choice, whole
from tvwrl.planning.base import ALADDIN, BY_FLOW, FLOW, Planner, register
from tvwrl.planning.flow.network import MOST_GROUPS, FlowNetwork, FlowSettings
from tvwrl.planning.instance import Affinity, Fleet, Instance
from tvwrl.planning.merged import Merged
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.types import Int


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
    return Plan.of("Aladdin+H", *rows, seconds, reasons=reasons, migrations=network.migrations, details=details)


def arrival_order(merged: Merged, order: str) -> Int:
    """The order in which vertices arrive, Section 4.3.

    The size of a vertex is the largest share of any resource of the largest machine that one copy takes.

    Parameters
    ----------
    merged : Merged
        As in `problem.merged`.
    order : {'LRF', 'SRF'}
        Large demands first (LRF), or small ones (SRF).

    Returns
    -------
    array
        (n,) vertices that are not refused.

    Examples
    --------
    >>> queue = arrival_order(open_problem("generated").merged, "LRF")  # doctest: +SKIP
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


def _aladdin(groups: int, order: Any = "LRF", moves: tuple[Any, bool] = ("blocked", True)) -> Planner:
    repack, consolidate = moves
    settings = FlowSettings(groups, order, repack, consolidate=consolidate)
    return lambda problem, options: place_by_flow(problem, settings, options.seed)


register(
    "Aladdin+H.{groups}[({order})][-{moves}]",
    "Aladdin+H, {groups}, {order}{moves}",
    BY_FLOW,
    FLOW,
    ALADDIN,
    _aladdin,
    groups=whole("group", 2, 4, 8)._replace(told=f"a whole number from 1 to {MOST_GROUPS}"),
    order=choice(
        {"LRF": "LRF", "SRF": "SRF"}, {"": "large first", "LRF": "large first", "SRF": "small first"}, ("LRF", "SRF")
    ),
    moves=choice(  # when placed replicas move, and whether machines are emptied at the end: see `FlowSettings`
        {
            "none": ("none", True),
            "blocked": ("blocked", True),
            "cheapest": ("cheapest", True),
            "still": ("blocked", False),
            "blocked-still": ("blocked", False),
            "cheapest-still": ("cheapest", False),
        },
        {
            "none": ", nothing moves",
            "blocked": ", moves to empty machines too",
            "cheapest": ", moves where cheaper too",
            "still": ", moves to let one in",
            "blocked-still": ", moves to let one in",
            "cheapest-still": ", moves where cheaper",
        },
    ),
)
