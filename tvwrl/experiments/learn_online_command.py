"""Lets a trained policy learn on while workloads arrive, as `tvwrl learn-online` is asked to, and compares it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from tvwrl.agents import OnlineConfig
from tvwrl.checks import positive
from tvwrl.command_line import TRACE, SlotSeconds, described
from tvwrl.experiments.training_runs import EXIT_CODES, check_resume, open_again
from tvwrl.progress import phase, say
from tvwrl.runs import LAST, START, check_new_folder, default_folder, how_to_continue, provenance, write_json
from tvwrl.schedulers import make_scheduler
from tvwrl.traces import how_to_open, open_and_describe, trace_identity
from tvwrl.types import InputError, Trace

if TYPE_CHECKING:
    from tvwrl.agents import Checkpoint, OnlineLearner

PREPARING = "preparing sequences, classes and forecasts"


@dataclass(frozen=True)
class OnlineSettings:
    """Let a trained policy keep learning while workloads arrive (Algorithm 1), and compare it with a frozen copy.

    Every episode is a new arrival sequence that is played once. With --shift-to or --shift-load the stream changes
    after --before episodes and continues for --after more. The run folder holds run.json, progress.csv,
    checkpoints/start.pt and last.pt, rows.csv, table.md and rewards.png. Ctrl-C saves a checkpoint; --resume continues
    from it exactly.
    """

    checkpoint: Path | None = None
    """Training run (its folder or a .pt file) whose policy continues to learn."""
    trace: Annotated[str | None, described(TRACE, "the checkpoint's")] = None
    slot_seconds: SlotSeconds = None
    shift_to: str | None = None
    """Trace after the shift, as --trace; its units are fitted on its own training series."""
    shift_load: float | None = None
    """Offered load after the shift."""
    schedulers: tuple[str, ...] = ("best-fit-peak", "forecast-fit")
    """Schedulers to compare; tvwrl evaluate --list-schedulers names all."""
    out: Path | None = None
    """Output folder; default: runs/online-<trace>-<timestamp>."""
    resume: Path | None = None
    """Continue the run in this folder to its end; only --stop-after can be combined with it."""
    stop_after: int | None = None
    """Stop after this number of updates; --resume continues."""
    config: tyro.conf.OmitArgPrefixes[OnlineConfig] = field(default_factory=OnlineConfig)


def learn_online(settings: OnlineSettings) -> int:
    """Learn on the stream from the start, or from the last checkpoint of a run, then compare; returns the exit code.

    Raises InputError for bad options; KeyboardInterrupt and SystemExit pass through, and leave a checkpoint.
    """
    from tvwrl.experiments.online_report import compare_on_stream

    check_resume(settings)
    learner, schedulers = _resume(settings.resume) if settings.resume else _start(settings)
    again = f"continue with: {how_to_continue(learner.folder)}"
    try:
        ended = learner.run(settings.stop_after)
        if ended != "finished":
            say(f"stopped after update {learner.updates} of {learner.total}; {again}")
            return EXIT_CODES[ended]
        if not (learner.folder / "rows.csv").exists():
            against = [make_scheduler(name) for name in schedulers]
            whole = learner.folder, learner.stream, learner.start, learner.progress
            compare_on_stream(*whole, against, learner.config)
    except (KeyboardInterrupt, SystemExit):
        say(f"stopped while comparing; {again}")
        raise
    print((learner.folder / "table.md").read_text())
    print(f"written to {learner.folder}")
    if learner.config.series == "train":
        print(f"evaluate the policy on test series with tvwrl evaluate --checkpoint {learner.folder}")
    else:
        print("the policy has learnt from test series: tvwrl evaluate would no longer report on unseen ones")
    return 0


def _start(settings: OnlineSettings) -> tuple[OnlineLearner, list[str]]:
    """A new run in its folder."""
    from tvwrl.agents import Checkpoint, find_checkpoint, is_shipped

    if settings.checkpoint is None:
        raise InputError("no policy to start from: give --checkpoint RUN or --resume RUN")
    if is_shipped(settings.checkpoint):
        raise InputError(
            f"{settings.checkpoint} has weights alone, without the state of its training: train a run that starts from "
            f"it (tvwrl train --start-from {settings.checkpoint}), and give that"
        )
    positive(shift_load=settings.shift_load)
    if settings.slot_seconds is not None and settings.trace is None and settings.shift_to is None:
        raise InputError("--slot-seconds needs --trace or --shift-to: without them, the checkpoint's trace is used")
    saved = Checkpoint.load(find_checkpoint(settings.checkpoint))
    names = list(settings.schedulers)
    [make_scheduler(name) for name in names]  # refuses a bad name before anything long begins
    own = how_to_open(saved.trace)
    first = own if settings.trace is None else (settings.trace, settings.slot_seconds)
    wanted = [(*first, saved.config.scenario.load)]
    if settings.shift_to is not None or settings.shift_load is not None:
        then = first if settings.shift_to is None else (settings.shift_to, settings.slot_seconds)
        wanted.append((*then, saved.config.scenario.load if settings.shift_load is None else settings.shift_load))
    opened = [(open_and_describe(name, seconds, say), name, seconds, load) for name, seconds, load in wanted]
    folder = settings.out or default_folder(f"online-{opened[-1][0].name}")
    check_new_folder(folder)
    phases = [{"trace": trace_identity(t, name, seconds), "load": load} for t, name, seconds, load in opened]
    with phase(PREPARING):
        learner = _build(saved, [trace for trace, *_ in opened], phases, names, settings.config, folder)
    saved.save(folder / START)
    facts = learner.facts() | {"schedulers": names, "notes": [p.problem.sampler.notes for p in learner.stream]}
    write_json(folder / "run.json", provenance() | {"checkpoint": str(settings.checkpoint)} | facts)
    learner.save()  # from here on there is something to resume
    say(f"run folder: {folder}")
    return learner, names


def _build(
    saved: Checkpoint,
    traces: list[Trace],
    phases: list[dict[str, Any]],
    schedulers: list[str],
    config: OnlineConfig,
    folder: Path,
) -> OnlineLearner:
    """The learner with its stream; what the phases are is in run.json."""
    from tvwrl.agents import OnlineLearner, Phase

    stream = []
    forecasts = any(make_scheduler(name).needs_forecasts for name in schedulers)
    for place, (trace, about) in enumerate(zip(traces, phases, strict=True)):
        problem = saved.problem(trace, about["load"])
        problem = problem.with_forecasts() if forecasts else problem
        stream.append(Phase.draw(problem, about["trace"], place, config))
    return OnlineLearner(saved, stream, config, folder)


def _resume(folder: Path) -> tuple[OnlineLearner, list[str]]:
    """A run as its last checkpoint left it."""
    from tvwrl.agents import Checkpoint, find_checkpoint

    try:
        facts = json.loads((folder / "run.json").read_text())
        settings = {
            "series" if name == "split" else name: value for name, value in facts["online"].items()
        }  # as runs of earlier versions have it
        config, phases, names = OnlineConfig(**settings), facts["phases"], facts["schedulers"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{folder} is not a run of tvwrl learn-online, or its run.json is damaged") from error
    saved = Checkpoint.load(find_checkpoint(folder, (START.name,)))
    traces = [open_again(one["trace"]) for one in phases]
    with phase(PREPARING):
        learner = _build(saved, traces, phases, names, config, folder)
    learner.restore(Checkpoint.load(find_checkpoint(folder, (LAST.name,))))
    say(f"resuming {folder} at update {learner.updates} of {learner.total}")
    return learner, names
