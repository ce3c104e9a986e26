"""One small problem for all that is tried with every scheduler: short episodes, in which workloads still wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvwrl.envs.problem import Problem
from tvwrl.forecasting import NetworkForecaster, training_windows
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import SequenceSet, Trace


@pytest.fixture(scope="session")
def problem(google: Trace) -> Problem:
    """Four machines of 8 units and 14 workloads per sequence, in slots of an hour, with forecasts."""
    plain = Problem.build(google, Scenario(machines=4, workloads=14, step_seconds=3600, history=6))
    return replace(plain, forecaster=NetworkForecaster(epochs=40).fit(training_windows(plain.sampler, 200)))


@pytest.fixture(scope="session")
def train(problem: Problem) -> SequenceSet:
    """Six training sequences of `problem`."""
    return problem.sequences("train", 6, seed=0)
