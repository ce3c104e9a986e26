"""Train a placement policy on a trace, then compare it with the heuristics."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import tyro

from tvwrl import command_line
from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.config import TrainConfig, preset_of
from tvwrl.agents.policy_scheduler import load_policy
from tvwrl.agents.training import Trainer
from tvwrl.ec import EquivalenceClasses, find_classes
from tvwrl.envs.problem import Problem
from tvwrl.experiments.evaluation import DEFAULT_SCHEDULERS, evaluate
from tvwrl.experiments.tables import read_rows, terminal_table
from tvwrl.runs import check_new_folder, default_folder, provenance, write_json
from tvwrl.schedulers import KNOWLEDGE, SCHEDULERS, make_scheduler
from tvwrl.traces import open_and_describe
from tvwrl.traces.catalogue import trace_identity
from tvwrl.types import InputError, Trace

PREPARING = "preparing sequences, classes and forecasts (a minute or two where kernels still have to be compiled)"


@dataclass(frozen=True)
class Arguments:
    """Train a placement policy on a trace, then compare it with the heuristics on unseen workloads.

    The run folder holds run.json, progress.csv, tensorboard/, checkpoints/last.pt and best.pt, and evaluation/.
    Ctrl-C leaves a checkpoint; --resume continues from it exactly.
    """

    trace: str = "google"
    """google, alibaba, the name of a prepared trace, a canonical trace folder, or a CSV."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds."""
    ec: str = "temporal"
    """A classes file of scripts/fit_ec.py; or make --classes classes now by temporal, aggregate or dtw; or none."""
    preset: Literal["fast", "paper", "deeprm", "smoke"] = "fast"
    """Hyper-parameters to start from: fast (minutes), paper (the paper's values), deeprm (--policy deeprm begins with
    it), smoke (a trial in seconds)."""
    out: Path | None = None
    """Run folder; default: runs/<trace>-<timestamp>."""
    resume: Path | None = None
    """Continue this run to its original total; needs no other option."""
    stop_after: int | None = None
    """Stop cleanly after so many iterations; --resume goes on."""
    config: tyro.conf.OmitArgPrefixes[TrainConfig] = field(default_factory=TrainConfig)


def main() -> int:
    """Parse the arguments, train, compare."""
    arguments = parse()
    if arguments.stop_after is not None and arguments.stop_after < 1:
        raise InputError(f"stop_after is {arguments.stop_after}: must be at least 1")
    if arguments.resume and replace(arguments, resume=None, stop_after=None) != Arguments():
        raise InputError("--resume goes on with the run's own settings: of the other options only --stop-after fits")
    trainer, trace = resume(arguments.resume) if arguments.resume else start(arguments)
    try:
        ended = trainer.run(arguments.stop_after)
    except (KeyboardInterrupt, SystemExit):  # before its first iteration, or a second time
        print(f"stopped; go on with: --resume {trainer.folder}")
        raise
    if ended != "finished":
        print(f"stopped after iteration {trainer.iteration}; go on with: --resume {trainer.folder}")
        return {"stopped": 0, "SIGINT": 130, "SIGTERM": 143}[ended]
    if trainer.best_iteration == 0:
        print("the best policy on the validation sequences is still that of iteration 0, before it learnt by itself")
    compare(trainer, trace)
    return 0


def parse() -> Arguments:
    """The command line; options that are not given come from the preset."""
    return tyro.cli(Arguments, default=Arguments(config=preset_of(sys.argv[1:])))


def start(arguments: Arguments) -> tuple[Trainer, Trace]:
    """A new run in its folder."""
    trace = open_and_describe(arguments.trace, arguments.slot_seconds, print)
    folder = arguments.out or default_folder(trace.name)
    check_new_folder(folder)
    if folder.name in SCHEDULERS:
        raise InputError(f"--out {folder}: the run would be called like the scheduler '{folder.name}': choose another")
    classes = find_classes(arguments.ec, trace, arguments.config.scenario)
    if isinstance(classes, EquivalenceClasses):
        print(f"classes: {classes.k} by {classes.representation}, from {arguments.ec}")
    print(PREPARING)
    problem = Problem.build(trace, arguments.config.scenario, classes)
    identity = trace_identity(trace, arguments.trace, arguments.slot_seconds)
    trainer = Trainer(problem, arguments.config, folder, identity, tqdm_print)
    trainer.save()  # from here on there is something to resume
    facts = {"trace": identity | {"workloads": len(trace)}, "ec": arguments.ec, "notes": problem.sampler.notes}
    write_json(folder / "run.json", provenance() | facts | {"config": arguments.config.to_dict()})
    print(f"run folder: {folder} (watch it with: tensorboard --logdir {folder})")
    return trainer, trace


def resume(folder: Path) -> tuple[Trainer, Trace]:
    """A run as its last checkpoint left it."""
    if not folder.is_dir():
        raise InputError(f"no run folder {folder}")
    saved = Checkpoint.load(find_checkpoint(folder, ("last.pt",)))
    if (folder / "checkpoints" / "start.pt").exists():
        raise InputError(f"{folder} is a run of scripts/learn_online.py: resume it with that")
    trace = open_and_describe(saved.trace["argument"], saved.trace["slot_seconds"], print)
    if not saved.knows(trace):
        raise InputError(
            f"trace '{saved.trace['argument']}' is not the one that the run began with (its content has changed)"
        )
    print(PREPARING)
    trainer = Trainer(saved.problem(trace), saved.config, folder, saved.trace, tqdm_print)
    trainer.restore(saved)
    print(f"resuming {folder} at iteration {saved.iteration} of {saved.config.iterations}")
    return trainer, trace


def compare(trainer: Trainer, trace: Trace) -> None:
    """Play the best policy against the heuristics on test sequences and print the table."""
    folder = trainer.folder
    out = folder / "evaluation"
    saved = Checkpoint.load(find_checkpoint(folder))
    policy = load_policy(folder, saved, trainer.config.device)
    if not out.exists():
        scenario = trainer.config.scenario
        schedulers: list[Any] = [lambda: policy, *(partial(make_scheduler, name) for name in DEFAULT_SCHEDULERS)]
        evaluate(
            trainer.problem,
            schedulers,
            [scenario.load],
            trainer.config.comparison_sequences,
            0,
            out,
            {"checkpoint": {"run": policy.name, "iteration": saved.iteration, "trace": saved.trace}},
            {policy.name: policy.knowledge},
            policy.name,
        )
    print(terminal_table(read_rows(out), KNOWLEDGE | {policy.name: policy.knowledge}))
    print(f"unseen workloads of trace '{trace.name}' ({trace.source}); tables, plots and records are in {out}")


def tqdm_print(text: str) -> None:
    """Print above the progress bar."""
    from tqdm import tqdm

    tqdm.write(text)


if __name__ == "__main__":
    command_line.run(main)
