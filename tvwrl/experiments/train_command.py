"""Trains a policy and compares it with the heuristics, as `tvwrl train` is asked to."""

from __future__ import annotations

from pathlib import Path

from tqdm import tqdm

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.networks import check_device
from tvwrl.agents.policy_scheduler import load_policy
from tvwrl.agents.starting_policy import check_start
from tvwrl.agents.tasks import open_others
from tvwrl.agents.training import INITIAL_POLICY, Trainer
from tvwrl.command_line import PREPARING
from tvwrl.ec import EquivalenceClasses, find_classes
from tvwrl.envs.problem import Problem
from tvwrl.experiments.evaluation import DEFAULT_SCHEDULERS, evaluate, is_unfinished
from tvwrl.experiments.learning import plot_learning, what_training_brought
from tvwrl.experiments.tables import read_rows, terminal_table
from tvwrl.experiments.train_options import TrainingSettings
from tvwrl.experiments.training_runs import EXIT_CODES, check_resume, new_trainer, open_again, restored_trainer
from tvwrl.forecasting.files import read_forecaster
from tvwrl.runs import check_new_folder, default_folder, whole_file
from tvwrl.schedulers import KNOWLEDGE, SCHEDULERS, Scheduler, make_scheduler
from tvwrl.schedulers.titles import INITIAL
from tvwrl.traces import open_and_describe
from tvwrl.traces.catalogue import trace_identity
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.types import InputError, Trace


def train(settings: TrainingSettings) -> int:
    """Train from the start, or from the last checkpoint of a run, then compare; returns the exit code.

    Raises InputError for bad options or a training that diverges; KeyboardInterrupt and SystemExit pass through, and
    leave a checkpoint.
    """
    check_resume(settings)
    trainer, trace = _resume(settings.resume) if settings.resume else _start(settings)
    try:
        ended = trainer.run(settings.stop_after)
        if ended != "finished":
            print(f"stopped after iteration {trainer.iteration}; continue with: --resume {trainer.folder}")
            return EXIT_CODES[ended]
        _compare(trainer, trace)
    except (KeyboardInterrupt, SystemExit):  # before its first iteration, a second time, or in the comparison
        print(f"stopped; continue with: --resume {trainer.folder}")
        raise
    return 0


def _start(settings: TrainingSettings) -> tuple[Trainer, Trace]:
    """A new run in its folder."""
    trace = open_and_describe(settings.trace, settings.slot_seconds, print)
    folder = settings.out or default_folder(trace.name)
    check_new_folder(folder)
    if folder.name in SCHEDULERS:
        raise InputError(f"--out {folder}: the run would be called like the scheduler '{folder.name}': choose another")
    check_device(settings.config.device)  # this and what follows: before the minutes of preparation
    others = open_others(settings.config, trace)
    scenario, forecaster = settings.config.scenario, None
    if settings.forecaster is not None:
        forecaster = read_forecaster(settings.forecaster, SequenceSampler(trace, scenario))
    classes = find_classes(settings.ec, trace, scenario)
    if isinstance(classes, EquivalenceClasses):
        print(f"classes: {classes.k} by {classes.representation}, from {settings.ec}")
    if settings.config.start_from:
        labels = scenario.classes if isinstance(classes, str) else classes.k
        check_start(settings.config, trace.resources, labels)
    print(PREPARING)
    problem = Problem.build(trace, scenario, classes, forecaster=forecaster)
    identity = trace_identity(trace, settings.trace, settings.slot_seconds)
    asked = settings.ec, tqdm.write, settings.forecaster
    trainer = new_trainer(problem, settings.config, folder, identity, *asked, others)
    print(f"run folder: {folder} (watch it with: tensorboard --logdir {folder})")
    return trainer, trace


def _resume(folder: Path) -> tuple[Trainer, Trace]:
    """A run as its last checkpoint left it."""
    if not folder.is_dir():
        raise InputError(f"no run folder {folder}")
    saved = Checkpoint.load(find_checkpoint(folder, ("last.pt",)))
    if (folder / "checkpoints" / "start.pt").exists():
        raise InputError(f"{folder} is a run of scripts/learn_online.py: resume it with that script")
    trace = open_again(saved.trace)
    print(PREPARING)
    trainer = restored_trainer(saved, trace, folder, tqdm.write)
    print(f"resuming {folder} at iteration {saved.iteration} of {saved.config.iterations}")
    return trainer, trace


def _compare(trainer: Trainer, trace: Trace) -> None:
    """Play the best policy against the heuristics on test sequences and print the table."""
    folder = trainer.folder
    out = folder / "evaluation"
    saved = Checkpoint.load(find_checkpoint(folder))
    policy = load_policy(folder, saved, trainer.config.device)
    initial = _initial_policy(trainer, policy.name) if saved.iteration else []
    knowledge = {one.name: one.knowledge for one in (policy, *initial)}
    with whole_file(folder / "learning.png") as partial:
        plot_learning(trainer.progress, trainer.best_iteration, partial)
    if not out.exists() or is_unfinished(out):
        evaluate(
            trainer.problem,
            [policy, *initial, *(make_scheduler(name) for name in DEFAULT_SCHEDULERS)],
            [trainer.config.scenario.load],
            trainer.config.comparison_sequences,
            0,
            out,
            {"checkpoint": {"run": policy.name, "iteration": saved.iteration, "trace": saved.trace}},
            knowledge,
            policy.name,
            origins={policy.name: saved.iteration} | {one.name: 0 for one in initial},
        )
    rows = read_rows(out)
    print(terminal_table(rows, KNOWLEDGE | knowledge))
    if initial:
        print(what_training_brought(rows, policy.name, saved.iteration))
    elif trainer.best_iteration == 0:
        print("training did not improve on the initial policy, which is the best on validation sequences and is kept")
    print(f"unseen workloads of trace '{trace.name}' ({trace.source}); tables, plots and records are in {out}")


def _initial_policy(trainer: Trainer, name: str) -> list[Scheduler]:
    """The policy of iteration 0, for comparison; none if training did not validate it."""
    file = trainer.folder / "checkpoints" / INITIAL_POLICY
    if not file.is_file():
        return []
    initial = load_policy(file, Checkpoint.load(file), trainer.config.device)
    initial.name = name + INITIAL
    return [initial]
