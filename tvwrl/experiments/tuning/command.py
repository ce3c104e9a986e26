"""One hyper-parameter search from its options to its report; it continues what its folder holds."""

from __future__ import annotations

import math
import time
from pathlib import Path

from tvwrl.experiments.engine import refuse_failed
from tvwrl.experiments.tuning.options import TuningSettings
from tvwrl.experiments.tuning.report import write_report
from tvwrl.experiments.tuning.search import Search, TrialCell, load_search, open_search
from tvwrl.runs import default_folder
from tvwrl.traces import open_and_describe


def tune(settings: TuningSettings) -> None:
    """Bring a search to as many trials as asked for, those of earlier sessions among them, and report the best.

    Writes study.db, run.json, trials.csv, best.json, search.png, and each trial as a training run in `cells/`. Raises
    InputError for bad options, if the folder holds another search, and at the end if trials failed, naming each.
    """
    settings.check()
    if settings.resume:
        (search, _), folder = load_search(settings.resume), settings.resume
    else:
        search = Search(settings.trace, settings.slot_seconds, settings.ec, settings.config)
        folder = settings.out or default_folder(f"tune-{Path(settings.trace).stem}")
    open_and_describe(search.trace, search.slot_seconds, print)
    cells = [TrialCell(search, number) for number in range(settings.trials)]
    if settings.dry_run:
        settings.complete(folder, cells)
        return
    open_search(search, folder)
    deadline = math.inf if settings.seconds is None else time.time() + settings.seconds
    try:
        failed = settings.complete(folder, cells, deadline)
    finally:
        best = write_report(search, folder)
    print(best)
    print(f"trials, plot and the runs of the trials are in {folder}")
    refuse_failed(failed or {})
