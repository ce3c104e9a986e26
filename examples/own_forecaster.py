"""A forecaster of one's own: extremely randomised trees of scikit-learn, judged by what a scheduler earns with it.

    python examples/own_forecaster.py --trace google2011
    python examples/own_forecaster.py --trace my.csv --slot-seconds 300

Any model that gives quantiles of future usage fits in here, a pretrained one too: see docs/how-to/fit-a-forecaster.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import tyro
from sklearn.ensemble import ExtraTreesRegressor

from tvwrl import InputError, Problem, Scenario, make_scheduler, open_trace
from tvwrl.forecasting import SEGMENTS, Beginnings, Distribution, Forecaster, Outcomes, training_windows
from tvwrl.schedulers import Runner

SHARES = np.linspace(0.05, 0.95, 10)  # of the quantiles


@dataclass(eq=False)
class Trees(Forecaster):
    """Expected demand by trees, and around it the errors that they make on training workloads."""

    peak_units: int = 6
    step_seconds: int = 1800
    random_state: int = 0

    def _fit(self, drawn: list[Beginnings]) -> None:
        inputs = np.concatenate([part.inputs(self.slots_per_day) for part in drawn])
        came = np.concatenate([self.targets(part) for part in drawn])
        self.model_ = ExtraTreesRegressor(60, min_samples_leaf=10, bootstrap=True, oob_score=True, random_state=0)
        self.errors_ = np.quantile(came - self.model_.fit(inputs, came).oob_prediction_, SHARES, axis=0).T

    def _predict(self, beginnings: Beginnings) -> Distribution:
        expected = self.model_.predict(beginnings.inputs(self.slots_per_day))
        _, _, mean, alive = self.parts(expected)
        most, peak, _, _ = self.parts(expected[..., None] + self.errors_)
        most, peak = (np.round(part * self.peak_units) / self.peak_units for part in (most, peak))  # whole units
        peak = np.maximum(peak, beginnings.last[..., None] / self.peak_units)
        return Distribution.from_quantiles(SHARES, most, peak, mean, alive, self.values_)

    def targets(self, beginnings: Beginnings) -> np.ndarray:
        """(m, T) what the trees learn, one part after the other; what ended counts as if it had stayed as it was."""
        came, units = Outcomes.of(beginnings), self.peak_units
        most = np.where(came.alive[..., None], came.most, beginnings.last[:, None])
        parts = most / units, came.peak / units, came.mean / units, came.alive
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    def parts(self, flat: np.ndarray) -> list[np.ndarray]:
        """Largest demand in a segment, of the rest, mean demand, and whether it runs, from (m, T, ...)."""
        segments, resources = len(SEGMENTS), self.resources_
        shapes = (segments, resources), (resources,), (segments, resources), (segments,)
        cuts = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
        parts = np.split(flat, cuts, axis=1)
        return [part.reshape(len(flat), *shape, *flat.shape[2:]) for part, shape in zip(parts, shapes, strict=True)]


def main(
    trace: str = "google2011",
    slot_seconds: int | None = None,
    load: float = 0.5,
    sequences: int = 20,
    windows: int = 2000,
) -> None:
    """Print the reward of expected-cost with these forecasts, and with the network that it has by default.

    Args:
        trace: name or path.
        slot_seconds: length of a slot of a CSV.
        load: offered load.
        sequences: validation sequences.
        windows: training windows.
    """
    scenario = Scenario(load=load)
    plain = Problem.build(open_trace(trace, slot_seconds), scenario, "none")
    own = Trees(scenario.peak_units, scenario.step_seconds).fit(training_windows(plain.sampler, windows))
    for name, forecaster in (("own", own), ("network", plain.with_forecasts().forecaster)):
        problem = Problem.build(plain.trace, scenario, "none", plain.sampler.unit, forecaster)
        runner = Runner(problem.sequences("validation", sequences, seed=0), problem.machines, scenario)
        print(f"{name:8} {problem.rewards(runner, make_scheduler('expected-cost')).mean():12,.0f}")


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except InputError as error:  # says what is wrong, and what to do
        sys.exit(f"error: {error}")
