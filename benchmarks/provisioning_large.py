"""Seconds and memory of planners on a drawn instance of many applications (Table 5 of paper 001, varied number)."""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

from tvwrl.markdown import markdown_table
from tvwrl.provisioning.instance import Fleet
from tvwrl.provisioning.registry import plan
from tvwrl.provisioning.sources.generated import generate
from tvwrl.provisioning.sources.published import read_published
from tvwrl.provisioning.workspace import Workspace

FLEET = Fleet.of([64.0, 128.0])


def peak() -> str:
    """GiB that the process has held at most."""
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f}"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path, help="a published instance, whose applications the drawn ones are like")
    parser.add_argument("--applications", type=int, default=100_000)
    parser.add_argument("--graph", default="arbitrary")
    parser.add_argument("--density", type=float, default=0.005)
    parser.add_argument("--algorithms", nargs="*", default=["FF", "SpreadWFD-Avg-Decr2"])
    arguments = parser.parse_args()
    base = read_published(arguments.base)
    for name in arguments.algorithms:
        plan(base, FLEET, name)  # compiles
    begun = time.process_time()
    instance = generate(base, arguments.graph, arguments.density, arguments.applications)
    rows = [["drawing it", "", f"{time.process_time() - begun:.1f}", peak()]]
    for name in arguments.algorithms:
        made = plan(instance, FLEET, name)
        rows.append([name, str(made.machines), f"{made.seconds:.1f}", peak()])
    bound = Workspace(instance, FLEET).fewest_machines
    print(f"{instance.name}: {len(instance)} applications, {instance.replicas.sum()} replicas,", end=" ")
    print(f"{len(instance.affinity)} limits, bound (Eq. 4) {bound}\n")
    print(markdown_table(("", "machines", "s", "peak of the process so far, GiB"), rows))


if __name__ == "__main__":
    main()
