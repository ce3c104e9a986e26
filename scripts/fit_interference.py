"""Learn an interference score from simulated observations and write it to a file that evaluate.py takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from tvwrl import command_line
from tvwrl.bench.pism_days import two_days
from tvwrl.bench.pism_prediction import PredictionSettings
from tvwrl.interference.batch_tasks import read_usage
from tvwrl.interference.categories import Thresholds
from tvwrl.interference.laws import LAWS
from tvwrl.interference.score import InterferenceScore
from tvwrl.interference.weights import WEIGHTINGS
from tvwrl.types import InputError


@dataclass(frozen=True)
class Arguments:
    """Learn an interference score from two simulated days and write it to a file.

    Response times are simulated under --law; the score sees what monitoring would, never the law. Use it as
    `evaluate.py --schedulers spread,spread+pism=FILE`.
    """

    out: Path
    """File to write, .npz."""
    data: Path
    """Folder with spar_sample_tasks.csv.gz and ali18_usage_tasks.csv.gz; thresholds of categories come from the second.
    """
    law: str = "memory"
    """How batch work slows services."""
    weighting: str = "corr"
    """How much each service counts: fair, cpu-quota, corr, cv."""
    machines: int = 20
    """Simulated machines."""
    services: int = 150
    """Simulated services."""
    hours: int = 12
    """Length of a day."""
    seed: int = 0
    """Of site, arrivals, noise and trees."""


def main() -> None:
    """Simulate, learn, write; tell how machines' scores are spread."""
    arguments = tyro.cli(Arguments)
    if arguments.law not in LAWS or arguments.weighting not in WEIGHTINGS:
        raise InputError(f"valid laws: {', '.join(LAWS)}; weightings: {', '.join(WEIGHTINGS)}")
    settings = PredictionSettings(
        (arguments.seed,), (arguments.law,), arguments.data, arguments.machines, arguments.services, arguments.hours
    )
    settings.check()
    usage = read_usage(arguments.data / "ali18_usage_tasks.csv.gz")
    thresholds = Thresholds.from_usage(usage.cpu, usage.memory, usage.makespan)
    _, first, second = next(two_days(settings, arguments.seed))
    score = InterferenceScore.fit(
        first.and_then(second),
        weighting=arguments.weighting,
        random_state=arguments.seed,
        skip_rare=True,
        thresholds=thresholds,
    )
    score.save(arguments.out)
    known = int((score.trees.root >= 0).sum())
    span = np.interp([5, 95], score.percent, score.knots)
    print(f"{known} of {len(score.services)} services learnt; mean level {span[0]:.1f} scores 5, {span[1]:.1f} 95")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    command_line.run(main)
