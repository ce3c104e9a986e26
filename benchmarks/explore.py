"""Seconds to play on every alternative of an episode: 10 machines, 11 alternatives of each decision, one core."""

from __future__ import annotations

import time
import warnings

import numpy as np
import tyro

from tvwrl.envs.problem import Problem
from tvwrl.explorer.recorder import record
from tvwrl.forecasting import NetworkForecaster, training_windows
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import open_trace

SCHEDULERS = (
    "best-fit-peak", "expected-cost", "spread", "clairvoyant", "tetris", "forecast-fit", "random", "n-sigma",
    "kube-default", "crane",
)  # fmt: skip


def main(
    trace: str = "google", load: float = 0.5, schedulers: tuple[str, ...] = SCHEDULERS, sequences: int = 5
) -> None:
    """Print the table.

    Args:
        trace: whose test sequences are played.
        load: offered load.
        schedulers: whose episodes are played.
        sequences: of which the median counts.
    """
    plain = Problem.build(open_trace(trace), Scenario(load=load), "none")
    forecaster = NetworkForecaster(epochs=1).fit(training_windows(plain.sampler, 600))
    problem = Problem.build(plain.trace, plain.scenario, plain.classes, plain.sampler.unit, forecaster)
    runner = Runner(problem.sequences("test", sequences, 0), problem.machines, problem.scenario)
    rows = []
    for name in schedulers:
        scheduler, found = make_scheduler(name), []
        record(runner, scheduler, 0, seconds=0.01)  # compiles
        for sequence in range(sequences):
            began = time.perf_counter()
            runner.play(scheduler, sequence)
            alone = time.perf_counter() - began
            recording = record(runner, scheduler, sequence)
            seconds = time.perf_counter() - began - alone
            found.append((len(recording), int(recording.simulated.sum()), seconds, seconds / alone))
        decisions, played, seconds, times = np.median(found, axis=0)
        rows.append([name, f"{decisions:.0f}", f"{played:.0f}", f"{seconds:.2f}", f"{times:.0f}"])
    print(markdown_table(["scheduler", "decisions", "simulated", "seconds", "times one episode"], rows))


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    tyro.cli(main)
