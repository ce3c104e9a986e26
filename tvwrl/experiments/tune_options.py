"""The options of `tvwrl tune`; what they ask for is in `tune_command`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import tyro

from tvwrl.agents import TrainConfig, preset_of
from tvwrl.checks import at_least, positive
from tvwrl.command_line import SlotSeconds, TraceName
from tvwrl.experiments.cell_options import CellOptions
from tvwrl.types import InputError

ITERATIONS, EVAL_EVERY = 40, 5  # of a trial
WITH_RESUME = ("trials", "seconds", "workers", "ray", "dry_run")


@dataclass(frozen=True)
class TuningSettings(CellOptions):
    """Search for hyper-parameters with many short training runs; unpromising ones are pruned.

    The folder holds study.db, trials.csv, best.json, search.png, and each trial as a training run. Ctrl-C, or a crash,
    loses only the trials in progress: run the same command again to continue. The search space is SPACE of
    tvwrl/experiments/hyperparameter_search.py.
    """

    trace: TraceName = "google"
    slot_seconds: SlotSeconds = None
    ec: str = "temporal"
    """Equivalence classes: a file of tvwrl classes; or temporal, aggregate or dtw to make --classes classes now; or
    none."""
    preset: Literal["smoke", "counterfactual", "medium", "paper", "deeprm"] = "counterfactual"
    """Hyper-parameters of the first trial, and of all others where the search does not vary them."""
    trials: int = 30
    """Total number of trials, complete or pruned, including those of earlier sessions."""
    seconds: float | None = None
    """Time limit of the search, seconds; default: none. No trial starts after it."""
    resume: Path | None = None
    """Continue the run in this folder with its own settings; only --trials, --seconds, --workers, --ray and
    --dry-run can be combined with it."""
    config: tyro.conf.OmitArgPrefixes[TrainConfig] = field(default_factory=TrainConfig)

    @classmethod
    def default_for(cls, options: Sequence[str]) -> TuningSettings:
        """The settings that a command line changes: those of the preset that its options name, but for short trials."""
        return cls(config=replace(preset_of(options), iterations=ITERATIONS, eval_every=EVAL_EVERY))

    def check(self) -> None:
        """Raise InputError for options that are out of range, or cannot be combined with `resume`."""
        self.check_run()
        at_least(1, trials=self.trials)
        positive(seconds=self.seconds)
        own = {name: getattr(self, name) for name in ("resume", *WITH_RESUME)}
        if self.resume and self != replace(self.default_for(()), **own):
            allowed = ", ".join(f"--{name.replace('_', '-')}" for name in WITH_RESUME)
            raise InputError(
                f"--resume continues with the search's own settings: only {allowed} can be combined with it"
            )
