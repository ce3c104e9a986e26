"""Lower bounds of provisioning instances, and processor seconds of reading and bounding them, as a table."""

from __future__ import annotations

import tyro
from timing import measure

from tvwrl.markdown import markdown_table
from tvwrl.provisioning.bounds import lower_bound
from tvwrl.provisioning.instance import Fleet
from tvwrl.provisioning.sources.open_instance import open_instance

BOUNDS = ("volume", "sizes", "self_limits", "exclusion", "patterns")


def main(
    instances: tyro.conf.Positional[tuple[str, ...]],
    machine: tuple[float, ...] = (64, 128),
    times: int | None = None,
    seconds: float = 30,
) -> None:
    """Print a row per instance.

    Args:
        instances: whatever open_instance reads.
        machine: capacity per resource.
        times: windows; default: all times.
        seconds: for the linear programme over fillings.
    """
    rows = []
    for source in instances:
        instance, _, reading, _ = measure(open_instance, source, times)
        bound, _, bounding, _ = measure(lower_bound, instance, Fleet.of(machine), seconds)
        shown = [f"{bound.each[name]:,}" if name in bound.each else "-" for name in BOUNDS]
        rows.append([instance.name, *shown, f"{reading:.2f}", f"{bounding:.2f}"])
    print(markdown_table(["instance", *BOUNDS, "s to read", "s to bound"], rows))


if __name__ == "__main__":
    tyro.cli(main)
