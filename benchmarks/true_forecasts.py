"""What better forecasts could gain: rewards of `expected-cost-backfill` with predicted and with true forecasts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import tyro

from tvwrl.agents.config import PRESETS
from tvwrl.envs.problem import Problem
from tvwrl.forecasting import Beginnings, Forecaster, Outcomes
from tvwrl.forecasting.segments import Forecast
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.traces import open_trace

SCHEDULER = "expected-cost-backfill"


@dataclass(frozen=True)
class Known:
    """What really came after beginnings, in the form of a prediction."""

    outcomes: Outcomes
    peak_units: int

    def forecast(self) -> Forecast:
        """The outcomes as a forecast without variance."""
        most, mean, peak, alive = (
            part.reshape(len(part), -1)
            for part in (self.outcomes.most, self.outcomes.mean, self.outcomes.peak, self.outcomes.alive)
        )
        shares = [part / self.peak_units for part in (most, 0 * most, mean, peak, 0 * peak)]
        return Forecast(np.concatenate([*shares, alive], axis=1), peak.shape[1])


@dataclass
class TrueForecaster(Forecaster):
    """Looks into the future, so it needs no fit."""

    peak_units: int
    step_seconds: int
    resources_: int
    without_: dict[int, TrueForecaster] = field(default_factory=dict)  # folds do not matter to it

    def _fit(self, drawn: list[Beginnings]) -> None:
        """There is nothing to learn."""

    def _predict(self, beginnings: Beginnings) -> Known:
        """What really came after them."""
        return Known(Outcomes.of(beginnings), self.peak_units)


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
        assert first.forecaster is not None
        scenario = first.scenario
        true = TrueForecaster(scenario.peak_units, scenario.step_seconds, len(first.trace.resources))
        cells = []
        for load in loads:
            problem = first.at_load(load)
            both = [replace(problem, forecaster=forecaster) for forecaster in (first.forecaster, true)]
            cells.append(", ".join(f"{reward(one, sequences) / 1000:.1f}" for one in both))
        rows.append([name, *cells])
    print(markdown_table(["trace", *(f"load {load}: predicted, true" for load in loads)], rows))


def reward(problem: Problem, sequences: int) -> float:
    """Mean reward on test sequences."""
    runner = Runner(problem.sequences("test", sequences, 0), problem.machines, problem.scenario)
    scheduler = make_scheduler(SCHEDULER)
    return float(np.mean([problem.score(runner.play(scheduler, i))["reward"] for i in range(sequences)]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # about what a trace cannot provide
    tyro.cli(main)
