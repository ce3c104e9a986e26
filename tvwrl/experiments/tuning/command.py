"""One hyper-parameter search from its options to its report; it continues what its folder holds."""

from __future__ import annotations

import math
import time
from pathlib import Path

from tvwrl.experiments.engine import complete
from tvwrl.experiments.reproduce import command_to_continue
from tvwrl.experiments.tuning.report import write_report
from tvwrl.experiments.tuning.study import Search, TrialCell, open_study
from tvwrl.traces import open_and_describe
from tvwrl.types import InputError


def tune(search: Search, folder: Path, trials: int, seconds: float | None = None, workers: int = 1) -> None:
    """Bring the study in `folder` to `trials` trials, those of earlier sessions among them, and report the best.

    Writes study.db, run.json, trials.csv, best.json, search.png, and each trial as a training run in `cells/`. No trial
    begins after `seconds`. Raises InputError for values out of range, for a folder that holds another search, and at
    the end if trials failed, naming each.
    """
    for name, value in (("trials", trials), ("workers", workers)):
        if value < 1:
            raise InputError(f"{name} is {value}: must be at least 1")
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise InputError(f"seconds is {seconds}: must be a number > 0")
    open_and_describe(search.trace, search.slot_seconds, print)
    open_study(search, folder)
    again = command_to_continue(folder)
    print(f"study: {folder}; if stopped, continue with:\n  {again}")
    cells = [TrialCell(search, number) for number in range(trials)]
    try:
        failed = complete(folder, cells, workers, deadline=math.inf if seconds is None else time.time() + seconds)
    except (KeyboardInterrupt, SystemExit):
        print(f"stopped; continue with:\n  {again}")
        raise
    finally:
        best = write_report(search, folder)
    print(best)
    print(f"trials, plot and the runs of the trials are in {folder}")
    if failed:
        raise InputError("; ".join(f"{name}: {error}" for name, error in failed.items()))
