"""Planners against the published C++ suite and on a large drawn instance, and lower bounds; seconds and memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tyro
from numba import njit
from timing import measure, peak

from tvwrl.markdown import markdown_table
from tvwrl.packing.affinity import forget_limits, limit_machines, open_next, put, settle
from tvwrl.packing.fit import has_room
from tvwrl.planning.bounds_on_machines import lower_bound
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.registry import make_plan
from tvwrl.planning.sources.generated import generate_instance
from tvwrl.planning.sources.open_problem import open_instance
from tvwrl.planning.sources.published_format import read_published

HEAD = ("algorithm", "machines", "C++", "%", "s", "C++ s", "C++ / ours", "/ plain", "")
BOUNDS = ("volume", "sizes", "self_limits", "exclusion", "patterns")
FLEET = Fleet.of([64.0, 128.0])


@njit(cache=True)
def plain_first_fit(a: Any, p: Any) -> None:
    """One replica after another, every open machine asked in turn."""
    needed, residual, held, cap = a.needed, p.residual, p.held, p.cap
    for i in range(len(needed)):
        looked = limit_machines(a, p, i, p.left[i])
        m = 0
        while p.left[i] > 0:
            while m < p.open[0] and not (held[m] < min(cap[m], a.own[i]) and has_room(needed, i, residual, m)):
                m += 1
            if m == p.open[0] and not open_next(a, p, i):
                break
            put(a, p, i, m, 1)
        settle(p, i)
        forget_limits(a, p, i, looked)


def plain_seconds(instance: Instance, fleet: Fleet) -> float:
    """Processor time of the plain First-Fit, compiled."""
    problem = PackingProblem(instance, fleet)
    packings = [problem.packing(problem.most_machines) for _ in range(3)]
    return min(measure(plain_first_fit, problem.applications, packing).cpu for packing in packings)


def comparison(instance: Instance, fleet: Fleet, published: dict[str, Any], names: list[str], repeats: int) -> str:
    """The table of one instance."""
    plain_seconds(instance, fleet)
    plain, rows = plain_seconds(instance, fleet), []
    for name in names:
        make_plan(PlanningProblem(instance, fleet), name)  # compiles
        made = [make_plan(PlanningProblem(instance, fleet), name) for _ in range(repeats)]
        ours, theirs = min(one.seconds for one in made), published.get(name)
        row = [name, str(made[0].machines), "", "", f"{ours:.3f}", "", "", f"{ours / plain:.1f}", ""]
        if theirs:
            nodes, seconds = theirs["nodes"], theirs["cpu_s"]
            row[2:4] = str(nodes), f"{100 * (made[0].machines / nodes - 1):+.2f}"
            row[5:7] = f"{seconds:.3f}", f"{seconds / max(ours, 1e-6):.1f}"
            row[8] = "fell back" if theirs["ub_fallback"] else ""
        rows.append(row)
        print(*row, file=sys.stderr)
    size = f"{instance.name}: {len(instance)} applications, {len(instance.affinity)} limits"
    figures = f"plain First-Fit {plain:.3f} s, peak of the process {1024 * peak():.0f} MiB"
    return f"\n{size}, {figures}\n\n{markdown_table(HEAD, rows)}"


def compare(
    reference: tyro.conf.Positional[Path],
    instances: tuple[str, ...] = (),
    algorithms: tuple[str, ...] = (),
    machine: tuple[float, float] = (64.0, 128.0),
    repeats: int = 1,
) -> None:
    """Every planner compared with the published C++ suite, on the reference instances.

    Seconds are processor time of a solve, the least of `--repeats`, compiling and reading left out. The C++ ran on
    another, quiet machine. So a plain First-Fit, compiled like the planners but without any structure to skip machines,
    runs in the same process: `/ plain` is a planner's time over that, and says the same on a busy machine as on a quiet
    one.

    Args:
        reference: folder with reference.json and the instances.
        instances: names; all by default.
        algorithms: names; those of the reference by default.
        machine: capacity per resource.
        repeats: solves of which the quickest counts.
    """
    made = json.loads((reference / "reference.json").read_text())["instances"]
    for name in instances or made:
        instance = read_published(reference / f"{name}.csv.gz")
        # time series were computed in floating point from the start; of Medea-NC there is but one run
        published = made[name]["as_published_code"]
        if instance.demand.shape[1] == 1:
            kept = {key: published[key] for key in ("Medea-NC",) if key in published}
            published = kept | made[name]["as_in_paper"]
        names = list(algorithms or published)
        print(comparison(instance, Fleet.of(machine), published, names, repeats), flush=True)


def large(
    base: tyro.conf.Positional[Path],
    applications: int = 100_000,
    graph: str = "arbitrary",
    density: float = 0.005,
    algorithms: tuple[str, ...] = ("FF", "SpreadWFD-Avg-Decr2"),
) -> None:
    """Seconds and memory of planners on a drawn instance of many applications (the provisioning paper, Table 5).

    Args:
        base: a published instance, whose applications the drawn ones are like.
        applications: how many are drawn.
        graph: of the limits: arbitrary, threshold or normal.
        density: of the limits.
        algorithms: names.
    """
    published = read_published(base)
    for name in algorithms:
        make_plan(PlanningProblem(published, FLEET), name)  # compiles
    instance, _, spent, most = measure(generate_instance, published, graph, density, applications)
    rows = [["drawing it", "", f"{spent:.1f}", f"{most:.1f}"]]
    for name in algorithms:
        made = make_plan(PlanningProblem(instance, FLEET), name)
        rows.append([name, str(made.machines), f"{made.seconds:.1f}", f"{peak():.1f}"])
    bound = PackingProblem(instance, FLEET).fewest_machines
    print(f"{instance.name}: {len(instance)} applications, {instance.replicas.sum()} replicas,", end=" ")
    print(f"{len(instance.affinity)} limits, bound (Eq. 4) {bound}\n")
    print(markdown_table(("", "machines", "s", "peak of the process so far, GiB"), rows))


def bounds(
    instances: tyro.conf.Positional[tuple[str, ...]],
    machine: tuple[float, ...] = (64, 128),
    times: int | None = None,
    seconds: float = 30,
) -> None:
    """Lower bounds of instances, and processor seconds of reading and bounding them.

    Args:
        instances: whatever open_instance reads.
        machine: capacity per resource.
        times: windows; default: all times.
        seconds: for the linear programme over fillings.
    """
    rows = []
    for source in instances:
        instance, _, reading, _ = measure(open_instance, source, times)
        bound, _, bounding, _ = measure(lower_bound, PlanningProblem(instance, Fleet.of(machine)), seconds)
        shown = [f"{bound.each[name]:,}" if name in bound.each else "-" for name in BOUNDS]
        rows.append([instance.name, *shown, f"{reading:.2f}", f"{bounding:.2f}"])
    print(markdown_table(["instance", *BOUNDS, "s to read", "s to bound"], rows))


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"compare": compare, "large": large, "bounds": bounds})
