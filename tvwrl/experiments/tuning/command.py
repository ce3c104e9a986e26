"""One hyper-parameter search from its options to its report; it continues what its folder holds."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import tyro

from tvwrl.agents.config import TrainConfig, preset_of
from tvwrl.checks import at_least, positive
from tvwrl.experiments.engine import complete
from tvwrl.experiments.reproduce import command_to_continue
from tvwrl.experiments.tuning.report import write_report
from tvwrl.experiments.tuning.study import Search, TrialCell, open_study
from tvwrl.runs import default_folder
from tvwrl.traces import open_and_describe
from tvwrl.types import InputError

ITERATIONS, EVAL_EVERY = 40, 5  # of a trial


@dataclass(frozen=True)
class TuningSettings:
    """Search hyper-parameters by many short trainings; unpromising ones are pruned.

    The folder holds the study, trials.csv, best.json, search.png, and each trial as a training run. Ctrl-C, or a crash,
    loses only the trials in progress: run the same command again to continue. The search space is SPACE of
    tvwrl/experiments/tuning/search_space.py.
    """

    trace: str = "google"
    """google, alibaba, the name of a prepared trace, a trace folder or a CSV."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds."""
    ec: str = "temporal"
    """Equivalence classes: a file of scripts/fit_ec.py; or temporal, aggregate or dtw to make --classes classes now; or
    none."""
    preset: Literal["smoke", "medium", "paper", "deeprm"] = "medium"
    """Hyper-parameters of the first trial; the search keeps those that it does not vary."""
    trials: int = 30
    """Total number of trials, complete or pruned, including those of earlier sessions."""
    seconds: float | None = None
    """Start no trial after this time; default: no limit."""
    workers: int = 1
    """Trials that run in parallel, one process each."""
    out: Path | None = None
    """Folder of the study; continues the study that is already there. Default: runs/tune-<trace>-<timestamp>."""
    resume: Path | None = None
    """Continue the study in this folder with its own settings; only --trials, --seconds and --workers can be combined
    with it."""
    config: tyro.conf.OmitArgPrefixes[TrainConfig] = field(default_factory=TrainConfig)

    @classmethod
    def default_for(cls, options: Sequence[str]) -> TuningSettings:
        """The settings that a command line changes: those of the preset that its options name, but for short trials."""
        return cls(config=replace(preset_of(options), iterations=ITERATIONS, eval_every=EVAL_EVERY))

    def check(self, default: TuningSettings) -> None:
        """Raise InputError for options that are out of range, or go beyond the `default` where a study is resumed."""
        at_least(1, trials=self.trials, workers=self.workers)
        positive(seconds=self.seconds)
        own = {name: getattr(self, name) for name in ("resume", "trials", "seconds", "workers")}
        if self.resume and self != replace(default, **own):
            raise InputError(
                "--resume continues with the study's own settings: only --trials, --seconds and --workers can be "
                "combined with it"
            )


def tune(settings: TuningSettings) -> None:
    """Bring a study to as many trials as asked for, those of earlier sessions among them, and report the best.

    Writes study.db, run.json, trials.csv, best.json, search.png, and each trial as a training run in `cells/`. Raises
    InputError if the folder holds another search, and at the end if trials failed, naming each.
    """
    if settings.resume:
        search, folder = Search.load(settings.resume), settings.resume
    else:
        search = Search(settings.trace, settings.slot_seconds, settings.ec, settings.config)
        folder = settings.out or default_folder(f"tune-{Path(settings.trace).stem}")
    open_and_describe(search.trace, search.slot_seconds, print)
    open_study(search, folder)
    again = command_to_continue(folder)
    print(f"study: {folder}; if stopped, continue with:\n  {again}")
    cells = [TrialCell(search, number) for number in range(settings.trials)]
    deadline = math.inf if settings.seconds is None else time.time() + settings.seconds
    try:
        failed = complete(folder, cells, settings.workers, deadline=deadline)
    except (KeyboardInterrupt, SystemExit):
        print(f"stopped; continue with:\n  {again}")
        raise
    finally:
        best = write_report(search, folder)
    print(best)
    print(f"trials, plot and the runs of the trials are in {folder}")
    if failed:
        raise InputError("; ".join(f"{name}: {error}" for name, error in failed.items()))
