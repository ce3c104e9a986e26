"""Training runs in their folders: begin one, take one up again where it stopped, and end the process as it ended."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvwrl.agents import Checkpoint, TrainConfig, Trainer
from tvwrl.checks import at_least
from tvwrl.envs import Problem
from tvwrl.progress import Report, say
from tvwrl.runs import provenance, write_json
from tvwrl.traces import how_to_open, open_and_describe, trace_hash
from tvwrl.types import InputError, Trace

EXIT_CODES = {"stopped": 0, "SIGINT": 130, "SIGTERM": 143}  # what stopped a training -> exit code of the process


def check_resume(settings: Any) -> None:
    """Raise InputError if `resume` of a settings dataclass is combined with more than `stop_after`."""
    at_least(1, stop_after=settings.stop_after)
    if settings.resume and replace(settings, resume=None, stop_after=None) != type(settings)():
        raise InputError("--resume continues with the run's own settings: only --stop-after can be combined with it")


def new_trainer(
    problem: Problem,
    config: TrainConfig,
    folder: Path,
    identity: Mapping[str, Any],
    classes: str,
    report: Report,
    forecaster: Path | None = None,
    others: Sequence[Trace] | None = None,
) -> Trainer:
    """A trainer whose run folder holds run.json and something to resume; `classes`, `forecaster`: as asked for.

    `others`: the traces of `config.also`, if they are open
    """
    trainer = Trainer(problem, config, folder, dict(identity), report, others=others)
    try:
        trainer.save()
    except OSError:  # a full disk, say: nothing is left that would be in the way of the next attempt
        shutil.rmtree(folder, ignore_errors=True)
        raise
    trace = {**identity, "workloads": len(problem.trace)}
    facts = {
        "trace": trace,
        "ec": classes,
        "forecaster": forecaster,
        "notes": problem.sampler.notes,
        "config": trainer.config.to_dict(),
    }
    write_json(folder / "run.json", provenance() | facts)
    return trainer


def restored_trainer(saved: Checkpoint, trace: Trace, folder: Path, report: Report) -> Trainer:
    """The trainer of a run as its last checkpoint left it."""
    trainer = Trainer(saved.problem(trace), saved.config, folder, saved.trace, report)
    trainer.restore(saved)
    return trainer


def open_again(identity: Mapping[str, Any], report: Report = say) -> Trace:
    """The trace of a run by its `trace_identity`, described. Raises InputError if its content has changed."""
    trace = open_and_describe(*how_to_open(identity), report)
    if trace_hash(trace) != identity["hash"]:
        raise InputError(
            f"trace '{identity['argument']}' is not the one that the run started with (its content has changed)"
        )
    return trace


def pass_on_signal(ended: str) -> None:
    """Raise what a signal would have raised if the training had not saved its state first; "finished" passes."""
    if ended == "SIGTERM":
        raise SystemExit(EXIT_CODES[ended])
    if ended != "finished":
        raise KeyboardInterrupt
