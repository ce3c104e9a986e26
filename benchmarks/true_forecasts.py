"""What better forecasts could gain: rewards of `expected-cost-backfill` with predicted and with true forecasts."""

from __future__ import annotations

import warnings

import tyro

from tvwrl.agents.config import PRESETS
from tvwrl.envs.problem import Problem
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.traces import open_trace

SCHEDULERS = ("expected-cost-backfill", "perfect-forecast(expected-cost-backfill)")


def main(
    traces: tuple[str, ...] = ("google",), loads: tuple[float, ...] = (0.3, 0.5, 0.8), sequences: int = 60
) -> None:
    """Print the table.

    Args:
        traces: whose test sequences are played.
        loads: offered loads.
        sequences: test sequences per trace and load.
    """
    rows = []
    for name in traces:
        first = Problem.build(open_trace(name), PRESETS["counterfactual"].scenario)
        cells = []
        for load in loads:
            found = rewards(first.at_load(load), sequences)
            cells.append(", ".join(f"{reward / 1000:.1f}" for reward in found))
        rows.append([name, *cells])
    print(markdown_table(["trace", *(f"load {load}: predicted, true" for load in loads)], rows))


def rewards(problem: Problem, sequences: int) -> list[float]:
    """Mean rewards on test sequences."""
    runner = Runner(problem.sequences("test", sequences, 0), problem.machines, problem.scenario)
    return [float(problem.rewards(runner, scheduler).mean()) for scheduler in map(make_scheduler, SCHEDULERS)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # about what a trace cannot provide
    tyro.cli(main)
