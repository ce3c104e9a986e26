"""Compare schedulers on the tasks of the benchmark, list the tasks, or check a submission."""

from __future__ import annotations

import tyro

from tvwrl import command_line
from tvwrl.benchmark.command import BenchmarkSettings, run_benchmark


def main() -> None:
    """Parse the arguments and compare, list or check."""
    run_benchmark(tyro.cli(BenchmarkSettings))


if __name__ == "__main__":
    command_line.run(main)
