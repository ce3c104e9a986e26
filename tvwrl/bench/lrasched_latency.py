"""How long placing one application takes by size of the cluster (paper 000, Figures 11 and 12)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.bench.lrasched_placement import HEURISTICS, MILP, planned
from tvwrl.provisioning.admission import admit
from tvwrl.provisioning.sources.drawn import Drawn
from tvwrl.provisioning.suite import warm_up

SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)  # machines
APPLICATIONS = 100
REPLICAS = (1, 10)
LARGEST = 0.2  # so that hardly any fails: a failure would be cheaper than a placement
MOST_FOR_MILP = 1_000  # machines
TIMED = {name: planner for name, planner in HEURISTICS.items() if not planner.search}  # hardly anything is left over
REPEATS = 5  # of which the fastest counts: others may be slowed by what else runs


def latencies(dimensions: int, sizes: Sequence[int], seed: int, milp_seconds: float) -> list[dict[str, Any]]:
    """Rows `machines, dimensions, scheme, applications, ms`: milliseconds per application of a batch of 100.

    Processor time of planning with everything that leads to it, compiling left out. The programme stops after
    `milp_seconds` (0: is left out), so its figures are at most that by application.
    """
    rows = []
    with tqdm(total=len(sizes), desc="sizes", unit="size", disable=None) as bar:
        for machines in sizes:
            instance, fleet = Drawn(APPLICATIONS, machines, dimensions, REPLICAS, LARGEST).draw(seed)
            there = fleet.first(machines)
            row = {"machines": machines, "dimensions": dimensions, "applications": APPLICATIONS}
            for name, planner in TIMED.items():
                warm_up(instance, name)
                seconds = min(planned(instance, there, planner, name).seconds for _ in range(REPEATS))
                rows.append(row | {"scheme": name, "ms": 1000.0 * seconds / APPLICATIONS})
            if milp_seconds and machines <= MOST_FOR_MILP:
                start = planned(instance.only(np.arange(1)), there, HEURISTICS["LRASched"], "LRASched")
                begun = time.monotonic()
                admit(instance, there, start, milp_seconds)
                rows.append(row | {"scheme": MILP, "ms": 1000.0 * (time.monotonic() - begun) / APPLICATIONS})
            bar.update()
    return rows


def growth(rows: Sequence[dict[str, Any]], scheme: str, least: int = 1_000) -> float:
    """Exponent p of ms ~ machines^p, fitted to the sizes from `least` on; NaN for fewer than two of them."""
    mine = [(row["machines"], row["ms"]) for row in rows if row["scheme"] == scheme and row["machines"] >= least]
    if len(mine) < 2:
        return float("nan")
    machines, ms = np.log(np.array(mine, np.float64)).T
    return float(np.polyfit(machines, ms, 1)[0])
