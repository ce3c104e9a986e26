"""The simulated testbed of Figures 6 and 7: applications arrive, are sized by short profiles, and are placed."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from tvwrl.experiments import Rows
from tvwrl.lrasched import (
    CORES,
    MEMORY,
    Configuration,
    Recommender,
    SimulatedApplication,
    configurations,
    draw_applications,
    profile,
)
from tvwrl.packing import is_used_up
from tvwrl.papers.lrasched.placement import HEURISTICS, MILP, plan_by
from tvwrl.planning import Affinity, Fleet, Instance, Plan, TwoPhase, admit

MACHINES, ARRIVING, EARLIER = 10, 40, 100
EVERY, PERIOD = 20, 100  # seconds between arrivals, and between two runs of the scheduler
BATCH = PERIOD // EVERY  # applications that a run of the scheduler places
REPLICAS = (2, 6)  # fewest and most of an application
GOAL = 0.9


class Testbed(NamedTuple):
    """What arrives, in order, and the size that was recommended for it."""

    applications: list[SimulatedApplication]
    sizes: list[Configuration]  # with the degree of collocation
    instance: Instance  # demand in shares of a machine
    fleet: Fleet


@lru_cache(maxsize=2)
def draw_testbed(seed: int, margin: float) -> Testbed:
    """Ten machines, and 40 applications of 2 to 6 replicas that are sized for the goal with this margin."""
    offered = configurations()
    history = draw_applications(EARLIER, 2 * seed)
    recommender = Recommender(profile(history, offered, seed), offered, seed=seed)
    rng = np.random.default_rng(seed)
    arriving = draw_applications(ARRIVING, 2 * seed + 1)
    order = rng.permutation(ARRIVING)
    applications = [arriving[i] for i in order]
    found = [
        recommender.profile(f"new {one.name}", partial(one.measure, rng=rng), GOAL, margin, rng) for one in applications
    ]
    sizes = [one.configuration for one in found]
    own = np.arange(ARRIVING)
    demand = np.array([[c.cpu / CORES, c.mem / MEMORY] for c in sizes])[:, None]
    limits = Affinity.of(ARRIVING, own, own, np.array([c.collocation for c in sizes]))
    names = np.array([one.name for one in applications], dtype=object)
    replicas = rng.integers(REPLICAS[0], REPLICAS[1] + 1, ARRIVING)
    instance = Instance(f"testbed-{seed}", names, replicas, demand, ("cpu", "mem"), limits)
    return Testbed(applications, sizes, instance, Fleet(np.ones((MACHINES, 2)), fixed=True))


@lru_cache(maxsize=2)
def place_on_testbed(seed: int, scheme: str, margin: float, milp_seconds: float) -> Plan:
    """Place the applications as they arrive, a batch per period; those without room are rejected."""
    bed = draw_testbed(seed, margin)
    if scheme == MILP:
        return _place_by_programme(bed, milp_seconds)
    planner = TwoPhase(batch=BATCH, first_fit=HEURISTICS[scheme].first_fit)
    return plan_by(planner, bed.instance, bed.fleet, scheme)


def _place_by_programme(bed: Testbed, seconds: float) -> Plan:
    """Solve the programme for each batch, on what the batches before it left free."""
    free, made = bed.fleet.capacity.copy(), []
    for begin in range(0, ARRIVING, BATCH):
        own = np.arange(begin, min(begin + BATCH, ARRIVING))
        part, machines = bed.instance.only(own), np.flatnonzero(~is_used_up(free, bed.fleet.capacity))
        if not len(machines):
            break
        fleet = Fleet(free[machines], fixed=True)
        plan = admit(part, fleet, plan_by(TwoPhase(), part, fleet, MILP), seconds).plan
        rows = own[plan.application], machines[plan.machine], plan.replicas
        np.subtract.at(free, rows[1], rows[2][:, None] * bed.instance.demand[rows[0], 0])
        made.append(rows)
    application, machine, replicas = (np.concatenate(column) for column in zip(*made, strict=True))
    return Plan(MILP, application, machine, replicas, MACHINES)


def utilisation_over_time(seed: int, scheme: str, margin: float, milp_seconds: float) -> Rows:
    """% of the machines in use, and of all applications placed, after each run of the scheduler."""
    bed, plan = draw_testbed(seed, margin), place_on_testbed(seed, scheme, margin, milp_seconds)
    periods = ARRIVING * EVERY // PERIOD
    needed = plan.replicas * bed.instance.demand[plan.application, 0].sum(axis=1)
    used = np.cumsum(np.bincount(plan.application // BATCH, weights=needed, minlength=periods))
    placed = np.cumsum(np.bincount(np.unique(plan.application) // BATCH, minlength=periods))
    return [
        {
            "seconds": PERIOD * (period + 1),
            "utilisation_pct": float(100.0 * used[period] / bed.fleet.capacity.sum()),
            "placed_pct": float(100.0 * placed[period] / ARRIVING),
        }
        for period in range(periods)
    ]


def response_times(seed: int, scheme: str, margin: float, milp_seconds: float) -> Rows:
    """99th percentile and performance of each placed application, where most of its replicas share a machine."""
    bed, plan = draw_testbed(seed, margin), place_on_testbed(seed, scheme, margin, milp_seconds)
    rows: Rows = []
    for i in np.unique(plan.application).tolist():
        together = int(plan.replicas[plan.application == i].max())
        one, size = bed.applications[i], bed.sizes[i]
        there = Configuration(size.name, size.cpu, size.mem, together)
        row: dict[str, Any] = {"application": one.name, "service": one.service.name, "collocation": together}
        row |= {"p99_ms": one.p99_ms(there), "performance": one.performance(there)}
        row |= {"apart_ms": one.p99_ms(Configuration(size.name, size.cpu, size.mem))}
        rows.append(row | {"goal_ms": one.p99_goal_ms(there, GOAL)})
    return rows
