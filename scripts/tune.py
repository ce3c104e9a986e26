"""Search hyper-parameters by many short trainings; resumable."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import tyro
from tqdm import tqdm

from tvwrl import command_line
from tvwrl.agents.config import TrainConfig, preset_of
from tvwrl.bench.tuning import Search, alone, complete, ended, load_study, open_search, run_trials
from tvwrl.bench.tuning_report import write_report
from tvwrl.runs import default_folder
from tvwrl.traces import open_and_tell
from tvwrl.types import InputError

ITERATIONS, EVAL_EVERY = 40, 5  # of a trial


@dataclass(frozen=True)
class Arguments:
    """Search hyper-parameters by many short trainings, those without promise cut short.

    The folder holds the study, trials.csv, best.json, search.png and each trial as a training run. Ctrl-C, or a crash,
    costs the trial under way: the same command goes on, with more trials if asked. What is searched: SPACE in
    tvwrl/bench/search_space.py.
    """

    trace: str = "google"
    """google, alibaba, the name of a prepared trace, a canonical trace folder, or a CSV."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds."""
    ec: str = "temporal"
    """A classes file of scripts/fit_ec.py; or make --classes classes now by temporal, aggregate or dtw; or none."""
    preset: Literal["fast", "paper", "deeprm", "smoke"] = "fast"
    """Hyper-parameters of the first trial, and of all that is not searched for."""
    trials: int = 30
    """Trials of the study, complete or pruned, those of earlier sessions among them."""
    timeout_minutes: float | None = None
    """Begin no trial after so many minutes."""
    jobs: int = 1
    """Trials at a time, each in a process of its own."""
    out: Path | None = None
    """Folder of the study; one that holds it already is gone on with. Default: runs/tune-<trace>-<timestamp>."""
    resume: Path | None = None
    """Go on with the study in this folder by its own settings; of other options --trials, --timeout-minutes, --jobs."""
    config: tyro.conf.OmitArgPrefixes[TrainConfig] = field(default_factory=TrainConfig)


def main() -> int:
    """Parse the arguments, search, report."""
    arguments = parse()
    for name in ("trials", "jobs"):
        if getattr(arguments, name) < 1:
            raise InputError(f"{name} is {getattr(arguments, name)}: must be at least 1")
    minutes = arguments.timeout_minutes
    if minutes is not None and not (np.isfinite(minutes) and minutes > 0):
        raise InputError(f"timeout_minutes is {minutes}: must be a number > 0")
    if arguments.resume:
        search, folder = Search.of(arguments.resume), arguments.resume
    else:
        search = Search(arguments.trace, arguments.slot_seconds, arguments.ec, arguments.config)
        folder = arguments.out or default_folder(f"tune-{Path(arguments.trace).stem}")
    open_and_tell(search.trace, search.slot_seconds, print)
    open_search(search, folder)
    go_on = shlex.join(["python", sys.argv[0], "--resume", str(folder), "--trials", str(arguments.trials)])
    print(f"study: {folder}; if stopped, go on with:\n  {go_on}")
    with alone(folder):
        try:
            play(search, folder, arguments)
        except (KeyboardInterrupt, SystemExit):
            print(f"stopped; go on with:\n  {go_on}")
            raise
        finally:
            best = write_report(search, folder)
    print(best or "no trial is complete yet")
    print(f"trials, plot and the runs of the trials are in {folder}")
    return 0


def parse() -> Arguments:
    """The command line; options that are not given come from the preset, but a trial is shorter."""
    short = replace(preset_of(sys.argv[1:]), iterations=ITERATIONS, eval_every=EVAL_EVERY)
    default = Arguments(config=short)
    given = tyro.cli(Arguments, default=default)
    own = {name: getattr(default, name) for name in ("resume", "trials", "timeout_minutes", "jobs")}
    if given.resume and replace(given, **own) != default:
        raise InputError(
            "--resume goes on with the study's own settings: of the other options only --trials, --timeout-minutes and "
            "--jobs fit"
        )
    return given


def play(search: Search, folder: Path, arguments: Arguments) -> None:
    """Run trials under a progress bar, with a line for each."""
    done = ended(load_study(folder))
    bar = tqdm(total=arguments.trials, initial=len(done), unit="trial", desc="search", disable=None)
    best = max((trial.value for trial in complete(done)), default=-np.inf)
    with bar:
        for result in run_trials(search, folder, arguments.trials, arguments.timeout_minutes, arguments.jobs):
            said, reward = result["state"], result["reward"]
            if said == "complete":
                said = "best so far" if reward > best else said
                best = max(best, reward)
            tqdm.write(f"trial {result['number']}: {said}" + (f", {reward:.6g}" if reward is not None else ""))
            bar.update()


if __name__ == "__main__":
    command_line.run(main)
