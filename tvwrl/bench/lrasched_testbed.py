"""Paper 000's testbed, simulated: applications arrive, are sized by short profiles and placed (Figures 6 and 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.bench.figures import write_figure
from tvwrl.bench.lrasched_placement import HEURISTICS, MILP, check, planned
from tvwrl.command_line import Numbers
from tvwrl.experiments.plots import plot_lines
from tvwrl.experiments.statistics import bootstrap_interval
from tvwrl.lrasched.profiles import Configuration
from tvwrl.lrasched.recommender import Recommender
from tvwrl.lrasched.testbed import (
    CORES,
    MEMORY,
    SERVICES,
    SimulatedApplication,
    configurations,
    draw_applications,
    profile,
)
from tvwrl.markdown import markdown_table
from tvwrl.packing.fit import TOLERANCE
from tvwrl.provisioning.admission import admit
from tvwrl.provisioning.instance import Affinity, Fleet, Instance
from tvwrl.provisioning.plan import Plan
from tvwrl.provisioning.two_phase import TwoPhase
from tvwrl.types import Float

NAMES = {
    "fig6": "Figure 6, utilisation of the testbed over time",
    "fig7": "Figure 7, 99th percentile of response time by service",
}
SCHEMES = ("LRASched", MILP, "FFD-AntiAffinity")
MACHINES, ARRIVING, EARLIER = 10, 40, 100
EVERY, PERIOD = 20, 100  # seconds between arrivals, and between two runs of the scheduler
REPLICAS = (2, 6)
GOAL, MARGIN = 0.9, 0.02
PUBLISHED_INCREASE = {"cassandra": 3.2, "hbase": 3.9, "memcached": 2.7, "apache": 3.5}  # of p99, %


@dataclass(frozen=True)
class Testbed:
    """What arrives, in order, and what was recommended for it."""

    applications: list[SimulatedApplication]
    sizes: list[Configuration]  # with the degree of collocation
    instance: Instance  # shares of a machine
    fleet: Fleet


@lru_cache(maxsize=16)
def testbed(seed: int) -> Testbed:
    """Ten machines, and 40 applications of 2 to 6 replicas that were sized for a goal of 0.9 with a margin of 0.02."""
    offered = configurations()
    history = draw_applications(EARLIER, 2 * seed)
    recommender = Recommender(profile(history, offered, seed), offered, seed=seed)
    rng = np.random.default_rng(seed)
    arriving = draw_applications(ARRIVING, 2 * seed + 1)
    order = rng.permutation(ARRIVING)
    applications = [arriving[i] for i in order]
    found = [
        recommender.profile(f"new {one.name}", partial(one.measure, rng=rng), GOAL, MARGIN, rng) for one in applications
    ]
    sizes = [one.configuration for one in found]
    own = np.arange(ARRIVING)
    demand = np.array([[c.cpu / CORES, c.mem / MEMORY] for c in sizes])[:, None]
    limits = Affinity.of(ARRIVING, own, own, np.array([c.collocation for c in sizes]))
    names = np.array([one.name for one in applications], dtype=object)
    replicas = rng.integers(REPLICAS[0], REPLICAS[1] + 1, ARRIVING)
    instance = Instance(f"testbed-{seed}", names, replicas, demand, ("cpu", "mem"), limits)
    return Testbed(applications, sizes, instance, Fleet(np.ones((MACHINES, 2)), fixed=True))


@dataclass(frozen=True)
class TestbedSettings:
    """A simulated testbed: applications arrive, are sized by short profiles, and placed by three schemes."""

    seeds: Numbers = tuple(range(5))
    """Of applications, arrivals and noise; means and intervals are over them."""
    milp_seconds: float = 5.0
    """Time limit of the integer programme, per batch."""

    def reproduce(self, name: str, out: Path) -> str:
        """Markdown of one of `NAMES`, which is written to a folder of that name in `out` too."""
        check(self.seeds, self.milp_seconds)
        text, rows, plots = {"fig6": fig6, "fig7": fig7}[name](self.seeds, self.milp_seconds)
        text = f"## {NAMES[name]} (simulated)\n\n{text}\n"
        write_figure(out / name, text, rows, plots, asdict(self))
        return text


def placed(bed: Testbed, scheme: str, milp_seconds: float) -> Plan:
    """Where a scheme puts what arrives, a batch per period; what finds no place is turned away."""
    batch = PERIOD // EVERY
    if scheme == MILP:
        return _placed_by_programme(bed, batch, milp_seconds)
    planner = HEURISTICS[scheme]
    return planned(bed.instance, bed.fleet, TwoPhase(batch=batch, first_fit=planner.first_fit), scheme)


def _placed_by_programme(bed: Testbed, batch: int, seconds: float) -> Plan:
    """The programme per batch, on what the batches before it left free."""
    free, made = bed.fleet.capacity.copy(), []
    for begin in range(0, ARRIVING, batch):
        own = np.arange(begin, min(begin + batch, ARRIVING))
        part, machines = bed.instance.only(own), np.flatnonzero((free > TOLERANCE * bed.fleet.capacity).all(axis=1))
        if not len(machines):
            break
        fleet = Fleet(free[machines], fixed=True)
        plan = admit(part, fleet, planned(part, fleet, TwoPhase(), MILP), seconds).plan
        rows = own[plan.application], machines[plan.machine], plan.replicas
        np.subtract.at(free, rows[1], rows[2][:, None] * bed.instance.demand[rows[0], 0])
        made.append(rows)
    application, machine, replicas = (np.concatenate(column) for column in zip(*made, strict=True))
    return Plan(MILP, application, machine, replicas, MACHINES)


def fig6(seeds: Sequence[int], milp_seconds: float) -> tuple[str, list[dict[str, Any]], dict[str, Callable[..., None]]]:
    """Utilisation of the simulated testbed over time by scheme: table, rows, plots."""
    times = list(range(PERIOD, ARRIVING * EVERY + 1, PERIOD))
    lines: dict[str, Float] = {scheme: np.zeros((len(times), len(seeds))) for scheme in SCHEMES}
    share = {scheme: np.zeros(len(seeds)) for scheme in SCHEMES}
    for n, scheme, bed, plan in _plans(seeds, milp_seconds):
        needed = plan.replicas * bed.instance.demand[plan.application, 0].sum(axis=1)
        batch = plan.application * EVERY // PERIOD
        by_batch = np.bincount(batch, weights=needed, minlength=len(times))
        lines[scheme][:, n] = 100.0 * np.cumsum(by_batch) / bed.fleet.capacity.sum()
        share[scheme][n] = 100.0 * len(np.unique(plan.application)) / ARRIVING
    rows = [
        {"seed": seed, "scheme": scheme, "seconds": time, "utilisation_pct": lines[scheme][t, n]}
        for n, seed in enumerate(seeds)
        for scheme in SCHEMES
        for t, time in enumerate(times)
    ]
    body = [[s, *(f"{row.mean():.1f}" for row in lines[s]), _interval(share[s])] for s in SCHEMES]
    text = (
        f"Utilisation (1 - R_free / R_total), %, of {MACHINES} machines after so many seconds; one of {ARRIVING} "
        f"applications arrives every {EVERY} s, the scheduler runs every {PERIOD} s. Means over {len(seeds)} seeds. "
        "Paper: alike for 200 s, then LRASched close to the programme and FFD below.\n\n"
    )
    text += markdown_table(["scheme", *(f"{time} s" for time in times), "placed, %"], body)
    up = "utilisation, % (simulated)"
    plot = partial(plot_lines, places=[str(time) for time in times], lines=lines, across="seconds", up=up)
    return text, rows, {"plot": plot}


def fig7(seeds: Sequence[int], milp_seconds: float) -> tuple[str, list[dict[str, Any]], dict[str, Callable[..., None]]]:
    """99th percentiles of what was placed, by service and scheme: table, rows, plots."""
    rows = []
    for n, scheme, bed, plan in _plans(seeds, milp_seconds):
        for i in np.unique(plan.application).tolist():
            together = int(plan.replicas[plan.application == i].max())
            one, size = bed.applications[i], bed.sizes[i]
            there = Configuration(size.name, size.cpu, size.mem, together)
            rows.append(
                {"seed": seeds[n], "scheme": scheme, "application": one.name, "service": one.service.name}
                | {"collocation": together, "p99_ms": one.p99_ms(there), "performance": one.performance(there)}
                | {"apart_ms": one.p99_ms(Configuration(size.name, size.cpu, size.mem))}
                | {"goal_ms": one.p99_goal_ms(there, GOAL)}
            )
    services, body, lines = [service.name for service in SERVICES], [], {}
    for scheme in SCHEMES:
        mine = [row for row in rows if row["scheme"] == scheme]
        worst = np.array([_by_seed(mine, seeds, service, "p99_ms", np.max) for service in services])
        lines[scheme] = worst
        rise = [100.0 * (_mean(mine, service, "p99_ms") / _mean(mine, service, "apart_ms") - 1) for service in services]
        met = 100.0 * np.mean([row["performance"] >= GOAL for row in mine])
        within = 100.0 * np.mean([row["p99_ms"] <= row["goal_ms"] for row in mine])
        told = [f"{w.mean():.1f} ({r:+.1f} %)" for w, r in zip(worst, rise, strict=True)]
        body.append(
            [scheme, *told, f"{met:.1f}", f"{within:.1f}", f"{np.mean([row['collocation'] for row in mine]):.2f}"]
        )
    body.append(["published, LRASched against FFD", *(f"+{PUBLISHED_INCREASE[s]} %" for s in services), "", "", ""])
    text = (
        f"Largest 99th percentile of response time, ms, mean over {len(seeds)} seeds; in brackets by how much the mean "
        "one is above that of the same sizes apart, which is how FFD places them. Last: placed applications whose true "
        f"performance is at least the goal of {GOAL}; whose 99th percentile is at most what it is where one of its "
        "size, alone, just reaches the goal; and how many replicas of an application the fullest of its machines "
        "holds.\n\n"
    )
    text += markdown_table(["scheme", *services, "goal met, %", "p99 met, %", "collocation"], body)
    up = "largest p99, ms (simulated)"
    plot = partial(plot_lines, places=services, lines=lines, across="", up=up, joined=False)
    return text, rows, {"plot": plot}


def _plans(seeds: Sequence[int], milp_seconds: float) -> Any:
    """Number of the seed, scheme, testbed and plan, one after another."""
    with tqdm(total=len(seeds) * len(SCHEMES), desc="testbeds", unit="plan", disable=None) as bar:
        for n, seed in enumerate(seeds):
            bed = testbed(seed)
            for scheme in SCHEMES:
                yield n, scheme, bed, placed(bed, scheme, milp_seconds)
                bar.update()


def _by_seed(rows: list[dict[str, Any]], seeds: Sequence[int], service: str, column: str, of: Any) -> Float:
    """(seeds,) `of` a service's values; NaN where none was placed."""
    values = [[r[column] for r in rows if r["seed"] == seed and r["service"] == service] for seed in seeds]
    return np.array([of(found) if found else np.nan for found in values])


def _mean(rows: list[dict[str, Any]], service: str, column: str) -> float:
    return float(np.mean([row[column] for row in rows if row["service"] == service]))


def _interval(values: Float) -> str:
    low, high = bootstrap_interval(values)
    return f"{values.mean():.1f}" + (f" [{low:.1f}, {high:.1f}]" if np.isfinite(low) else "")
