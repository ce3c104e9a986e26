"""States per second whose actions are all rolled out, by base policy: 10 machines, 11 actions, 128 slots, one core."""

from __future__ import annotations

import time
import warnings

import numpy as np
import tyro

from tvwrl.envs.problem import Problem
from tvwrl.forecasting import NetworkForecaster, training_windows
from tvwrl.markdown import markdown_table
from tvwrl.schedulers.planning.replay import BASES, Replay
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.traces import open_trace

STATES, STEPS = 100, 25  # states, and random actions that lead to them


def main(trace: str = "google", loads: tuple[float, ...] = (0.5, 0.8), repeats: int = 3) -> None:
    """Print the table.

    Args:
        trace: whose training sequences are played.
        loads: offered loads.
        repeats: measurements, of which the best counts.
    """
    rows = [[base] for base in BASES]
    for load in loads:
        simulation = states(trace, load)
        every = np.arange(STATES)
        allowed = np.ones((STATES, len(simulation.machines) + 1), np.bool_)
        for row in rows:
            replay = Replay(simulation, row[0])
            replay.costs(every[:1], allowed[:1])  # compiles
            seconds = []
            for _ in range(repeats):
                began = time.perf_counter()
                replay.costs(every, allowed)
                seconds.append(time.perf_counter() - began)
            row.append(f"{STATES / min(seconds):.0f}")
    print(markdown_table(["base", *(f"states/s, load {load}" for load in loads)], rows))


def states(trace: str, load: float) -> Simulation:
    """A simulation in states that random actions lead to."""
    plain = Problem.build(open_trace(trace), Scenario(load=load), "none")
    forecaster = NetworkForecaster(epochs=1).fit(training_windows(plain.sampler, 600))
    problem = Problem.build(plain.trace, plain.scenario, plain.classes, plain.sampler.unit, forecaster)
    sequences = problem.sequences("train", STATES, 0)
    simulation = Simulation(
        sequences, problem.machines, problem.scenario, STATES, grid=False, forecasts=True, max_slots=0
    )
    simulation.reset(np.arange(STATES))
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        simulation.step(rng.integers(0, len(simulation.machines), STATES))
    return simulation


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    tyro.cli(main)
