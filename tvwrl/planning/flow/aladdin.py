"""Aladdin+H: places all replicas of a problem by flow through groups of machines."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache

import numpy as np

from tvwrl.planning.flow.network import FlowNetwork, FlowSettings
from tvwrl.planning.problem import NOWHERE, Assignment, PlacementProblem, Vertices
from tvwrl.planning.instance import Affinity, Fleet, Instance
from tvwrl.types import Int


def place_by_flow(problem: PlacementProblem, settings: FlowSettings | None = None, seed: int = 0) -> Assignment:
    """Place as many replicas as possible; the assignment gives the reasons for the others.

    Never exceeds a capacity or an affinity limit, and never splits a bundle. Contradictory or oversized applications
    are left out, with the reason. `seed` initialises K-means; equal seeds give equal assignments.
    """
    settings = settings or FlowSettings()
    warm_up(problem, settings)
    begun = time.process_time()
    vertices = Vertices.of(problem)
    network = FlowNetwork(vertices.instance, problem.fleet, settings, seed, vertices.refused)
    queue = arrival_order(vertices, problem.fleet, settings.order)
    network.place(queue)
    network.place(queue)  # replicas that blocked others may have moved
    on_arrival = network.migrations
    network.improve()
    machine = _machine_of_replicas(problem, vertices, network)
    seconds = time.process_time() - begun
    details = {
        "groups": len(network.centres),
        "migrations on arrival": on_arrival,
        "moves to improve": network.migrations - on_arrival,
        "regroup_seconds": network.regroup_seconds,
        "cost": network.cost,
    }
    reasons = _reasons(problem, vertices, network)
    return Assignment(_name(settings), machine, network.migrations, seconds, reasons, details)


def _name(settings: FlowSettings) -> str:
    moves = "" if settings.repack == "blocked" and settings.consolidate else f"-{settings.repack}"
    still = "-still" if settings.repack != "none" and not settings.consolidate else ""
    return f"Aladdin+H.{settings.groups}({settings.order}){moves}{still}"


def arrival_order(vertices: Vertices, fleet: Fleet, order: str) -> Int:
    """(n,) vertices that are not refused, large demands first (LRF) or small ones first (SRF), Section 4.3.

    The size of a vertex is the largest share of any resource of the largest machine that one copy takes.
    """
    share = (vertices.instance.peak / fleet.capacity.max(axis=0)).max(axis=1)
    arriving = np.setdiff1d(np.arange(len(share)), np.fromiter(vertices.refused, dtype=np.int64))
    sign = -1.0 if order == "LRF" else 1.0
    sorted_by_size: Int = arriving[np.argsort(sign * share[arriving], kind="stable")]
    return sorted_by_size


def _machine_of_replicas(problem: PlacementProblem, vertices: Vertices, network: FlowNetwork) -> Int:
    """(R,) machine of each replica; of the interchangeable copies of a vertex, placed ones come first."""
    copies = vertices.instance.replicas
    first = np.concatenate([[0], np.cumsum(copies)])
    vertex, machine, count = network.placed()
    order = np.argsort(vertex, kind="stable")
    who, where = np.repeat(vertex[order], count[order]), np.repeat(machine[order], count[order])
    turn = np.arange(len(who)) - np.searchsorted(who, who)
    of_copy = np.full(int(copies.sum()), NOWHERE)
    of_copy[first[who] + turn] = where
    return vertices.expand(problem, first, of_copy)


def _reasons(problem: PlacementProblem, vertices: Vertices, network: FlowNetwork) -> dict[int, str]:
    """Application -> the reason why it has replicas without a machine."""
    left, reason = network.left, {}
    for v in np.flatnonzero(left).tolist():
        reason[v] = vertices.refused.get(v) or _why(vertices, problem.fleet, network.settings, v)
    return {i: reason[v] for i, v in enumerate(vertices.vertex.tolist()) if v in reason}


def _why(vertices: Vertices, fleet: Fleet, settings: FlowSettings, v: int) -> str:
    from tvwrl.packing.fit import fits

    instance = vertices.instance
    own = int(instance.affinity.own[v])
    large = int(fits(instance.peak[v], fleet.capacity, fleet.capacity).sum())
    if instance.replicas[v] > own * large:
        return (
            f"anti-affinity with itself: {instance.replicas[v]} replicas, {own} at most on a machine, and {large} "
            f"machines are large enough"
        )
    counted = instance.replicas.astype(np.float64)
    counted[list(vertices.refused)] = 0.0
    asked, there = np.einsum("v,vhd->hd", counted, instance.demand).max(axis=0), fleet.capacity.sum(axis=0)
    if (asked > there).any():
        d = int(np.argmax(asked / there))
        return f"the machines are full: {asked[d]:g} {instance.resources[d]} are asked for, they have {there[d]:g}"
    if settings.repack == "none":
        return "no machine with room allows it, and nothing may move"
    return f"no machine with room allows it, nor did chains of up to {settings.chain_length} moves make room"


def warm_up(problem: PlacementProblem, settings: FlowSettings) -> None:
    """Compile all kernels, or load them from the cache, so that measured seconds are those of placing."""
    _compile(problem.instance.demand.shape[1], problem.instance.resources, settings)


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
