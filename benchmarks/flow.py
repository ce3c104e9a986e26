"""Aladdin+H: seconds to place by size, memory, and milliseconds for one arrival or one failure on the loaded cluster.

Limits: 100,000 replicas on 12,000 machines in 30 s on one core and 4 GiB; an arrival 1 ms at the 99th percentile; the
failure of a machine 100 ms.
"""

from __future__ import annotations

import numpy as np
from timing import measure

from tvwrl.markdown import markdown_table
from tvwrl.planning.flow.aladdin import arrival_order, place_by_flow, warm_up
from tvwrl.planning.flow.network import FlowNetwork, FlowSettings
from tvwrl.planning.merged import Merged
from tvwrl.planning.referee import validate
from tvwrl.planning.sources.generated import generate_cluster
from tvwrl.planning.suite import forget_peak, peak_mb

SIZES = ((1_500, 12_500), (3_000, 25_000), (6_000, 50_000), (12_000, 100_000))
LOADS = (0.75, 0.95)
ROUNDS, EACH, FAILURES = 50, 400, 200


def main() -> None:
    """Measure, print tables."""
    for load in LOADS:
        print(f"\nload {load:g}\n")
        lines = [_placed(machines, replicas, load) for machines, replicas in SIZES]
        product = [machines * replicas for machines, replicas in SIZES]
        slope = np.polyfit(np.log(product), np.log([float(line[2]) for line in lines]), 1)[0]
        print(markdown_table(["machines", "replicas", "s", "MiB", "not placed", "violations", "machines used"], lines))
        print(f"\nseconds grow as (machines x replicas)^{slope:.2f}\n")
        _one_by_one(load)


def _placed(machines: int, replicas: int, load: float) -> list[str]:
    problem = generate_cluster(machines, replicas, seed=0, demand=load)
    warm_up(problem, FlowSettings())
    forget_peak()
    plan = place_by_flow(problem)
    memory, verdict = peak_mb(), validate(problem, plan)
    figures = [f"{machines:,}", f"{replicas:,}", f"{plan.seconds:.2f}", f"{memory:,.0f}"]
    return [*figures, f"{replicas - verdict.placed:,}", f"{verdict.violations}", f"{verdict.machines:,}"]


def _one_by_one(load: float) -> None:
    """Replicas leave the loaded cluster and others that left before come back, ROUNDS times; then machines fail."""
    problem, rng = generate_cluster(*SIZES[-1], seed=0, demand=load), np.random.default_rng(0)
    vertices = Merged.of(problem)
    network = FlowNetwork(vertices.instance, problem.fleet, FlowSettings(), refused=vertices.refused)
    network.place(arrival_order(vertices, "LRF"))
    network.left[:] = 0
    away, ms, lost = np.empty(0, np.int64), [], 0
    for _ in range(ROUNDS):
        vertex, machine, _ = network.placed()
        leaving = rng.choice(len(vertex), EACH, replace=False)
        for row in leaving.tolist():
            network.depart(int(vertex[row]), int(machine[row]))
        for v in rng.permutation(away).tolist():
            placed, seconds, *_ = measure(network.arrive, v)
            lost += 1 - placed
            ms.append(1e3 * seconds)
            network.left[:] = 0
        away = vertex[leaving]
    print(
        f"arrival: median {np.median(ms):.3f} ms, 99th percentile {np.percentile(ms, 99):.3f} ms, "
        f"most {max(ms):.1f} ms; {lost} of {len(ms):,} found no place"
    )
    repairs = [network.fail(int(m)) for m in rng.choice(SIZES[-1][0], FAILURES, replace=False)]
    ms = [1e3 * repair.seconds for repair in repairs]
    displaced, replaced, moved = (
        sum(getattr(repair, what) for repair in repairs) for what in ("displaced", "replaced", "migrations")
    )
    print(
        f"failure of a machine: median {np.median(ms):.2f} ms, most {max(ms):.1f} ms; {displaced:,} replicas "
        f"displaced, {replaced:,} placed again, {moved:,} others moved for that"
    )


if __name__ == "__main__":
    main()
