"""Seconds and memory of planners on a drawn instance of many applications (Table 5 of paper 001, varied number)."""

from __future__ import annotations

from pathlib import Path

import tyro
from timing import measure, peak

from tvwrl.markdown import markdown_table
from tvwrl.provisioning.instance import Fleet
from tvwrl.provisioning.registry import plan
from tvwrl.provisioning.sources.generated import generate
from tvwrl.provisioning.sources.published import read_published
from tvwrl.provisioning.workspace import Workspace

FLEET = Fleet.of([64.0, 128.0])


def main(
    base: tyro.conf.Positional[Path],
    applications: int = 100_000,
    graph: str = "arbitrary",
    density: float = 0.005,
    algorithms: tuple[str, ...] = ("FF", "SpreadWFD-Avg-Decr2"),
) -> None:
    """Print a table; `base` is a published instance, whose applications the drawn ones are like."""
    published = read_published(base)
    for name in algorithms:
        plan(published, FLEET, name)  # compiles
    instance, _, spent, most = measure(generate, published, graph, density, applications)
    rows = [["drawing it", "", f"{spent:.1f}", f"{most:.1f}"]]
    for name in algorithms:
        made = plan(instance, FLEET, name)
        rows.append([name, str(made.machines), f"{made.seconds:.1f}", f"{peak():.1f}"])
    bound = Workspace(instance, FLEET).fewest_machines
    print(f"{instance.name}: {len(instance)} applications, {instance.replicas.sum()} replicas,", end=" ")
    print(f"{len(instance.affinity)} limits, bound (Eq. 4) {bound}\n")
    print(markdown_table(("", "machines", "s", "peak of the process so far, GiB"), rows))


if __name__ == "__main__":
    tyro.cli(main)
