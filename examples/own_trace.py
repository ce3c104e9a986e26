"""Compare schedulers on your own trace, or on an invented one: python examples/own_trace.py usage.csv 300."""

import csv
import sys
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

import tvwrl

SCHEDULERS = ("spread", "best-fit", "kube-default", "best-fit-peak", "clairvoyant")


def invented(file: Path, workloads: int = 60, days: int = 3) -> Path:
    """Write a trace with a daily rhythm and noise, in fractions of a machine: a row per workload and 5 minutes."""
    rng = np.random.default_rng(0)
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["workload_id", "slot", "cpu", "mem"])
        for workload in range(workloads):
            level, phase, mem = rng.uniform(0.05, 0.3), rng.uniform(0, 288), rng.uniform(0.05, 0.3)
            for slot in range(288 * days):
                cpu = level * (1 + 0.8 * np.sin(2 * np.pi * (slot + phase) / 288)) + rng.normal(0, 0.01)
                writer.writerow([f"app-{workload}", slot, round(max(cpu, 0.001), 4), round(mem, 4)])
    return file


if __name__ == "__main__":
    folder = Path(mkdtemp(prefix="own-trace-"))
    file = sys.argv[1] if sys.argv[1:] else invented(folder / "usage.csv")
    seconds = int(sys.argv[2]) if sys.argv[2:] else 300  # per slot of the file
    trace = tvwrl.open_trace(str(file), slot_seconds=seconds)
    found = tvwrl.evaluate(
        SCHEDULERS, trace, scenario=tvwrl.Scenario(load=0.5), sequences=10, out=folder / "evaluation"
    )
    print(found)
    print(f"tables, plots and what was placed where are in {found.folder}")
