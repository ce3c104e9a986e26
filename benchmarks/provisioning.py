"""Machines and seconds of every planner beside the published C++ suite's, on the reference instances.

Seconds are processor time of a solve, the least of `--repeats`, compiling and reading left out. The C++ ran on another,
quiet machine. So a plain First-Fit, compiled like the planners but without any structure to skip machines, runs in the
same process: `/ plain` is a planner's time over that, and says the same on a busy machine as on a quiet one.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from tvwrl.markdown import markdown_table
from tvwrl.packing.affinity import forget_limits, limit_machines, open_next, put, settle
from tvwrl.packing.fit import has_room
from tvwrl.provisioning.instance import Fleet, Instance
from tvwrl.provisioning.registry import plan
from tvwrl.provisioning.workspace import Workspace

HEAD = ("algorithm", "machines", "C++", "%", "s", "C++ s", "C++ / ours", "/ plain", "")


@njit(cache=True)
def plain_first_fit(a: Any, p: Any) -> None:
    """One replica after another, every open machine asked in turn."""
    demand, residual, held, cap = a.demand, p.residual, p.held, p.cap
    for i in range(len(demand)):
        looked = limit_machines(a, p, i, p.left[i])
        m = 0
        while p.left[i] > 0:
            while m < p.open[0] and not (
                held[m] < min(cap[m], a.own[i]) and has_room(demand, i, residual, m, p.capacity)
            ):
                m += 1
            if m == p.open[0] and not open_next(a, p, i):
                break
            put(a, p, i, m, 1)
        settle(p, i)
        forget_limits(a, p, i, looked)


def plain_seconds(instance: Instance, fleet: Fleet) -> float:
    """Processor time of the plain First-Fit, compiled."""
    work, least = Workspace(instance, fleet), np.inf
    for _ in range(3):
        packing = work.packing(work.most_machines)
        begun = time.process_time()
        plain_first_fit(work.applications, packing)
        least = min(least, time.process_time() - begun)
    return least


def compare(instance: Instance, fleet: Fleet, published: dict[str, Any], names: list[str], repeats: int) -> str:
    """The table of one instance."""
    plain_seconds(instance, fleet)
    plain, rows = plain_seconds(instance, fleet), []
    for name in names:
        plan(instance, fleet, name)  # compiles
        made = [plan(instance, fleet, name) for _ in range(repeats)]
        ours, theirs = min(one.seconds for one in made), published.get(name)
        row = [name, str(made[0].machines), "", "", f"{ours:.3f}", "", "", f"{ours / plain:.1f}", ""]
        if theirs:
            nodes, seconds = theirs["nodes"], theirs["cpu_s"]
            row[2:4] = str(nodes), f"{100 * (made[0].machines / nodes - 1):+.2f}"
            row[5:7] = f"{seconds:.3f}", f"{seconds / max(ours, 1e-6):.1f}"
            row[8] = "fell back" if theirs["ub_fallback"] else ""
        rows.append(row)
        print(*row, file=sys.stderr)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    head = (
        f"{instance.name}: {len(instance)} applications, {len(instance.affinity)} limits, plain First-Fit {plain:.3f} s"
    )
    return f"\n{head}, peak of the process {peak:.0f} MiB\n\n{markdown_table(HEAD, rows)}"


def main() -> None:
    """Print a table per instance."""
    from tvwrl.provisioning.sources.published import read_published

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", type=Path, help="folder with reference.json and the instances")
    parser.add_argument("--instances", nargs="*", help="names; all by default")
    parser.add_argument("--algorithms", nargs="*", help="names; those of the reference by default")
    parser.add_argument("--machine", nargs=2, type=float, default=[64.0, 128.0])
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    reference = json.loads((arguments.reference / "reference.json").read_text())["instances"]
    for name in arguments.instances or reference:
        instance = read_published(arguments.reference / f"{name}.csv.gz")
        # time series were computed in floating point from the start; of Medea-NC there is but one run
        published = reference[name]["as_published_code"]
        if instance.demand.shape[1] == 1:
            published = {key: published[key] for key in ("Medea-NC",) if key in published} | reference[name][
                "as_in_paper"
            ]
        names = arguments.algorithms or list(published)
        print(compare(instance, Fleet.of(arguments.machine), published, names, arguments.repeats), flush=True)


if __name__ == "__main__":
    main()
