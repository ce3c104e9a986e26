"""Search hyper-parameters by many short trainings; resumable."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import tyro

from tvwrl import command_line
from tvwrl.agents.config import TrainConfig, preset_of
from tvwrl.experiments.tuning.command import tune
from tvwrl.experiments.tuning.study import Search
from tvwrl.runs import default_folder
from tvwrl.types import InputError

ITERATIONS, EVAL_EVERY = 40, 5  # of a trial


@dataclass(frozen=True)
class Arguments:
    """Search hyper-parameters by many short trainings; those without promise are cut short.

    The folder holds the study, trials.csv, best.json, search.png, and each trial as a training run. Ctrl-C, or a crash,
    costs the trials under way: the same command continues, with more trials if asked. The parameters searched are in
    SPACE of tvwrl/experiments/tuning/search_space.py.
    """

    trace: str = "google"
    """google, alibaba, the name of a prepared trace, a canonical trace folder, or a CSV."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds."""
    ec: str = "temporal"
    """A classes file of scripts/fit_ec.py; or make --classes classes now by temporal, aggregate or dtw; or none."""
    preset: Literal["smoke", "medium", "paper", "deeprm"] = "medium"
    """Hyper-parameters of the first trial, and of all that is not searched."""
    trials: int = 30
    """Trials of the study, complete or pruned, including those of earlier sessions."""
    seconds: float | None = None
    """Begin no trial after this time; default: no limit."""
    workers: int = 1
    """Trials that run at a time, each in a process of its own."""
    out: Path | None = None
    """Folder of the study; if it holds one already, that one continues. Default: runs/tune-<trace>-<timestamp>."""
    resume: Path | None = None
    """Continue the study in this folder with its own settings; only --trials, --seconds and --workers go with it."""
    config: tyro.conf.OmitArgPrefixes[TrainConfig] = field(default_factory=TrainConfig)


def main() -> None:
    """Parse the arguments and search."""
    arguments = parse()
    if arguments.resume:
        search, folder = Search.load(arguments.resume), arguments.resume
    else:
        search = Search(arguments.trace, arguments.slot_seconds, arguments.ec, arguments.config)
        folder = arguments.out or default_folder(f"tune-{Path(arguments.trace).stem}")
    tune(search, folder, arguments.trials, arguments.seconds, arguments.workers)


def parse() -> Arguments:
    """The command line; options that are not given come from the preset, but a trial is shorter."""
    short = replace(preset_of(sys.argv[1:]), iterations=ITERATIONS, eval_every=EVAL_EVERY)
    default = Arguments(config=short)
    given = tyro.cli(Arguments, default=default)
    own = {name: getattr(default, name) for name in ("resume", "trials", "seconds", "workers")}
    if given.resume and replace(given, **own) != default:
        raise InputError(
            "--resume continues with the study's own settings: only --trials, --seconds and --workers go with it"
        )
    return given


if __name__ == "__main__":
    command_line.run(main)
