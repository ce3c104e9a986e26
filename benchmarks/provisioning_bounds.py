"""Lower bounds of provisioning instances, and processor seconds of reading and bounding them, as a table."""

from __future__ import annotations

import argparse
import time

from tvwrl.markdown import markdown_table
from tvwrl.provisioning.bounds import lower_bound
from tvwrl.provisioning.instance import Fleet
from tvwrl.provisioning.sources.opening import open_instance

BOUNDS = ("volume", "sizes", "self_limits", "exclusion", "patterns")


def main() -> None:
    """Print a row per instance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instances", nargs="+", help="whatever open_instance reads")
    parser.add_argument("--machine", type=float, nargs="+", default=[64, 128], help="capacity per resource")
    parser.add_argument("--times", type=int, help="windows; default: all times")
    parser.add_argument("--seconds", type=float, default=30, help="for the linear programme over fillings")
    arguments = parser.parse_args()
    rows = []
    for source in arguments.instances:
        begun = time.process_time()
        instance = open_instance(source, arguments.times)
        read = time.process_time()
        each = lower_bound(instance, Fleet.of(arguments.machine), arguments.seconds).each
        seconds = [f"{read - begun:.2f}", f"{time.process_time() - read:.2f}"]
        rows.append([instance.name, *(f"{each[name]:,}" if name in each else "-" for name in BOUNDS), *seconds])
    print(markdown_table(["instance", *BOUNDS, "s to read", "s to bound"], rows))


if __name__ == "__main__":
    main()
