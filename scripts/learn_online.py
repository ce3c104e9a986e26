"""Let a trained policy go on learning while workloads arrive, and the mix of them shifts half way."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tyro

from tvwrl import command_line
from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.online import OnlineConfig, OnlineLearner, Phase
from tvwrl.experiments.online import compare_on_stream
from tvwrl.runs import check_new_folder, default_folder, provenance, write_json
from tvwrl.schedulers import make_scheduler
from tvwrl.traces import open_and_describe
from tvwrl.traces.catalogue import trace_identity
from tvwrl.types import InputError, Trace

START = "start.pt"  # the pretrained policy, kept for the comparison


@dataclass(frozen=True)
class Arguments:
    """Let a trained policy go on learning while workloads arrive (Algorithm 1), and compare it with itself, frozen.

    Every episode is a new arrival sequence, played once. With --shift-to or --shift-load the stream changes after
    --before episodes and goes on for --after. The run folder holds run.json, progress.csv, checkpoints/start.pt and
    last.pt, rows.csv, table.md and rewards.png. Ctrl-C leaves a checkpoint; --resume continues from it exactly.
    """

    checkpoint: Path | None = None
    """A training run (its folder or a .pt file) to begin with."""
    trace: str | None = None
    """Where workloads come from at first; default: the checkpoint's trace."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds."""
    shift_to: str | None = None
    """Trace where they come from after the shift; its units are set on its own training series."""
    shift_load: float | None = None
    """Offered load after the shift."""
    schedulers: str = "best-fit-peak,forecast-fit"
    """Comma-separated names of schedulers to compare with."""
    out: Path | None = None
    """Run folder; default: runs/online-<trace>-<timestamp>."""
    resume: Path | None = None
    """Continue this run; needs no other option."""
    stop_after: int | None = None
    """Stop cleanly after so many updates; --resume goes on."""
    config: tyro.conf.OmitArgPrefixes[OnlineConfig] = field(default_factory=OnlineConfig)


def main() -> int:
    """Parse the arguments, learn, compare."""
    arguments = tyro.cli(Arguments)
    if arguments.stop_after is not None and arguments.stop_after < 1:
        raise InputError(f"stop_after is {arguments.stop_after}: must be at least 1")
    if arguments.resume and replace(arguments, resume=None, stop_after=None) != Arguments():
        raise InputError("--resume goes on with the run's own settings: of the other options only --stop-after fits")
    learner, schedulers = resume(arguments.resume) if arguments.resume else start(arguments)
    go_on = f"go on with: --resume {learner.folder}"
    try:
        ended = learner.run(arguments.stop_after)
        if ended != "finished":
            print(f"stopped after update {learner.updates} of {learner.total}; {go_on}")
            return {"stopped": 0, "SIGINT": 130, "SIGTERM": 143}[ended]
        if not (learner.folder / "rows.csv").exists():
            against = [make_scheduler(name) for name in schedulers]
            whole = learner.folder, learner.stream, learner.start, learner.progress
            compare_on_stream(*whole, against, learner.config)
    except (KeyboardInterrupt, SystemExit):
        print(f"stopped while comparing; {go_on}")
        raise
    print((learner.folder / "table.md").read_text())
    print(f"written to {learner.folder}; evaluate the policy with scripts/evaluate.py --checkpoint {learner.folder}")
    return 0


def start(arguments: Arguments) -> tuple[OnlineLearner, list[str]]:
    """A new run in its folder."""
    if arguments.checkpoint is None:
        raise InputError("nothing to begin with: give --checkpoint RUN, or --resume RUN")
    saved = Checkpoint.load(find_checkpoint(arguments.checkpoint))
    names = command_line.split_list(arguments.schedulers)
    [make_scheduler(name) for name in names]  # refuses a bad name before anything long begins
    own = saved.trace["argument"], saved.trace["slot_seconds"]
    first = own if arguments.trace is None else (arguments.trace, arguments.slot_seconds)
    wanted = [(*first, saved.config.scenario.load)]
    if arguments.shift_to is not None or arguments.shift_load is not None:
        then = first if arguments.shift_to is None else (arguments.shift_to, arguments.slot_seconds)
        wanted.append((*then, saved.config.scenario.load if arguments.shift_load is None else arguments.shift_load))
    opened = [(open_and_describe(name, seconds, print), name, seconds, load) for name, seconds, load in wanted]
    folder = arguments.out or default_folder(f"online-{opened[-1][0].name}")
    check_new_folder(folder)
    phases = [{"trace": trace_identity(t, name, seconds), "load": load} for t, name, seconds, load in opened]
    learner = build(saved, [trace for trace, *_ in opened], phases, names, arguments.config, folder)
    saved.save(folder / "checkpoints" / START)
    facts = learner.facts() | {"schedulers": names, "notes": [p.problem.sampler.notes for p in learner.stream]}
    write_json(folder / "run.json", provenance() | {"checkpoint": str(arguments.checkpoint)} | facts)
    learner.save()  # from here on there is something to resume
    print(f"run folder: {folder}")
    return learner, names


def build(
    saved: Checkpoint,
    traces: list[Trace],
    phases: list[dict[str, Any]],
    schedulers: list[str],
    config: OnlineConfig,
    folder: Path,
) -> OnlineLearner:
    """The learner with its stream; what the phases are is in run.json."""
    stream = []
    forecasts = any(make_scheduler(name).needs_forecasts for name in schedulers)
    for place, (trace, phase) in enumerate(zip(traces, phases, strict=True)):
        problem = saved.problem(trace, phase["load"])
        problem = problem.with_forecasts() if forecasts else problem
        stream.append(Phase.draw(problem, phase["trace"], place, config))
    return OnlineLearner(saved, stream, config, folder)


def resume(folder: Path) -> tuple[OnlineLearner, list[str]]:
    """A run as its last checkpoint left it."""
    try:
        facts = json.loads((folder / "run.json").read_text())
        config, phases, names = OnlineConfig(**facts["online"]), facts["phases"], facts["schedulers"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{folder} is not a run of scripts/learn_online.py, or its run.json is damaged") from error
    saved = Checkpoint.load(find_checkpoint(folder, (START,)))
    traces = []
    for phase in phases:
        identity = phase["trace"]
        trace = open_and_describe(identity["argument"], identity["slot_seconds"], print)
        if trace_identity(trace, identity["argument"], identity["slot_seconds"])["hash"] != identity["hash"]:
            raise InputError(
                f"trace '{identity['argument']}' is not the one that the run began with (its content has changed)"
            )
        traces.append(trace)
    learner = build(saved, traces, phases, names, config, folder)
    learner.restore(Checkpoint.load(find_checkpoint(folder, ("last.pt",))))
    print(f"resuming {folder} at update {learner.updates} of {learner.total}")
    return learner, names


if __name__ == "__main__":
    command_line.run(main)
