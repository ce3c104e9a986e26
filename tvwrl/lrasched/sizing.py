"""Sizes a new application from files or on the simulated testbed, and writes the recommendation to a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tvwrl.checks import at_least
from tvwrl.lrasched.predictors import PREDICTORS
from tvwrl.lrasched.recommend_size import Sizing, recommend_size
from tvwrl.lrasched.recommender import Goal, Recommender
from tvwrl.lrasched.testbed import configurations, draw_applications, profile
from tvwrl.runs import check_new_folder, default_folder
from tvwrl.types import InputError


@dataclass(frozen=True)
class SizingSettings:
    """Recommend how much CPU and memory the replicas of a new application need, and how many may share a machine.

    Learns from --profiles, applications measured in many configurations, and from --measured, the new application in
    two of them. Chooses the smallest size that reaches the goal, then the highest degree of collocation that still
    does. Without files it uses a simulated testbed. Prints the decision and writes recommendation.json,
    curve.csv and curve.png to --out. Tables are CSV or Parquet.
    """

    profiles: Path | None = None
    """Table of earlier applications: application, configuration, performance (0 to 1); may also have the columns of
    --configurations."""
    measured: Path | None = None
    """The same columns for the new application: first two sizes at the lowest degree of collocation, then further
    degrees at the chosen size."""
    configurations: Path | None = None
    """Table of configurations: configuration, cpu (cores), mem (GiB) and, if replicas shared machines, collocation;
    default: taken from --profiles."""
    goal: float = 0.8
    """Performance to reach, 0 to 1."""
    margin: float = 0.02
    """Safety margin on top of the performance goal, against prediction errors."""
    lower_is_better: bool = False
    """Lower performance values are better, e.g. a normalised latency: the goal is an upper limit."""
    predictor: Literal["factorization-machine", "matrix-factorization", "means"] = "factorization-machine"
    """factorization-machine: the paper's model; matrix-factorization: its baseline, with folding-in of new
    applications; means: plain means, our addition."""
    simulate: bool = False
    """Use the simulated testbed: --earlier applications, and a new one that is measured on demand."""
    earlier: int = 100
    """Number of earlier applications on the simulated testbed, at least 2."""
    seed: int = 0
    """Seed of the model and of the simulated testbed."""
    out: Path | None = None
    """Output folder; default: runs/size-<timestamp>."""

    def check(self) -> None:
        """Raise InputError for options out of range or that exclude one another."""
        files = (self.profiles, self.measured, self.configurations)
        if self.simulate and any(files):
            raise InputError("--simulate cannot be combined with --profiles, --measured or --configurations")
        if any(files) and (self.profiles is None or self.measured is None):
            raise InputError("--profiles (earlier applications) and --measured (the new one) must be given together")
        at_least(0, seed=self.seed)
        Goal(self.goal, self.margin)
        if any(files):
            return
        at_least(2, earlier=self.earlier)
        if self.lower_is_better:
            raise InputError("--lower-is-better does not apply to the simulated testbed, where higher is better")


def size_application(settings: SizingSettings) -> str:
    """Recommend, write recommendation.json, curve.csv and curve.png, and return the explanation.

    Raises InputError for bad settings or tables, and for an output folder that holds something.
    """
    settings.check()
    out = settings.out or default_folder("size")
    check_new_folder(out)
    if settings.profiles is None or settings.measured is None:
        *earlier, new = draw_applications(settings.earlier + 1, settings.seed)
        offered, rng = configurations(), np.random.default_rng(settings.seed)
        history = profile(earlier, offered, settings.seed)
        recommender = Recommender(history, offered, PREDICTORS[settings.predictor], settings.seed)
        recommended = recommender.profile(
            new.name, lambda one: new.measure(one, rng), settings.goal, settings.margin, settings.seed
        )
        found = Sizing(recommended, f"SIMULATED, learnt from {len(earlier)} simulated applications", settings.predictor)
    else:
        found = recommend_size(
            settings.profiles,
            settings.measured,
            settings.goal,
            settings.margin,
            configurations=settings.configurations,
            higher_is_better=not settings.lower_is_better,
            predictor=settings.predictor,
            seed=settings.seed,
        )
    return f"{found}\n\nwritten to {found.write(out)}"
