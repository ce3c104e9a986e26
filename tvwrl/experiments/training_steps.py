"""The steps of a training run: begin it or take it up again, then compare its best policy with the heuristics."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

from tvwrl.agents import (
    INITIAL_POLICY,
    PRESETS,
    Checkpoint,
    Trainer,
    check_device,
    check_start,
    find_checkpoint,
    load_policy,
    open_others,
)
from tvwrl.ec import EquivalenceClasses, find_classes
from tvwrl.envs import Problem
from tvwrl.experiments.deeprm_baseline import DEEPRM, begin_deeprm, deeprm_beside
from tvwrl.experiments.engine import complete
from tvwrl.experiments.evaluated import Evaluation
from tvwrl.experiments.evaluation import DEFAULT_SCHEDULERS, evaluate, is_unfinished
from tvwrl.experiments.learning import plot_learning, rules_ahead, what_training_brought
from tvwrl.experiments.train_options import TrainingSettings
from tvwrl.experiments.training_runs import new_trainer, open_again, restored_trainer
from tvwrl.forecasting import read_forecaster
from tvwrl.progress import Report
from tvwrl.runs import LAST, START, check_new_folder, default_folder, how_to_continue, whole_file
from tvwrl.schedulers import INITIAL, SCHEDULERS, Scheduler, make_scheduler
from tvwrl.traces import SequenceSampler, open_and_describe, trace_identity
from tvwrl.types import InputError, Trace


def begin(settings: TrainingSettings, report: Report, trace: Trace | None = None) -> Trainer:
    """A new run in its folder, before its first iteration; `trace`: that of the settings if it is open already.

    Raises InputError for bad settings.
    """
    given = trace is not None
    trace = trace or open_and_describe(settings.trace, settings.slot_seconds, report)
    identity = trace_identity(trace, None if given else settings.trace, settings.slot_seconds)
    folder = settings.out or default_folder(trace.name)
    check_new_folder(folder)
    is_deeprm = settings.config.policy == DEEPRM
    if folder.name in SCHEDULERS or (folder.name == DEEPRM and settings.deeprm and not is_deeprm):
        raise InputError(f"--out {folder}: the run would have the name of scheduler '{folder.name}': choose another")
    check_device(settings.config.device)  # this and what follows: before the minutes of preparation
    others = open_others(settings.config, trace)
    scenario, forecaster = settings.config.scenario, None
    if settings.forecaster is not None:
        forecaster = read_forecaster(settings.forecaster, SequenceSampler(trace, scenario))
    classes = find_classes(settings.ec, trace, scenario)
    if isinstance(classes, EquivalenceClasses):
        report(f"classes: {classes.k} by {classes.representation}, from {settings.ec}")
    if settings.config.start_from:
        labels = scenario.classes if isinstance(classes, str) else classes.k
        check_start(settings.config, trace.resources, labels)
    problem = Problem.build(trace, scenario, classes, forecaster=forecaster, report=report)
    trainer = new_trainer(problem, settings.config, folder, identity, settings.ec, report, settings.forecaster, others)
    if is_deeprm and settings.deeprm:
        report("the policy is DeepRM, so no other DeepRM is trained to compare it with")
    elif settings.deeprm:
        begin_deeprm(trainer)
    report(f"run folder: {folder} (watch it with: tensorboard --logdir {shlex.quote(str(folder))})")
    return trainer


def take_up(folder: Path, report: Report) -> Trainer:
    """A run as its last checkpoint left it. Raises InputError if there is none, or its trace has changed."""
    if not folder.is_dir():
        raise InputError(f"no run folder {folder}")
    saved = Checkpoint.load(find_checkpoint(folder, (LAST.name,)))
    if (folder / START).exists():
        raise InputError(f"{folder} is a run of tvwrl learn-online: resume it by: {how_to_continue(folder)}")
    trace = open_again(saved.trace, report)
    trainer = restored_trainer(saved, trace, folder, report)
    report(f"resuming {folder} at iteration {saved.iteration} of {saved.config.iterations}")
    return trainer


def compare_with_heuristics(trainer: Trainer, report: Report) -> tuple[Evaluation, str]:
    """Play the best policy against the heuristics on test sequences; returns what was found, and a sentence on what
    training brought, empty if there is nothing to say. Writes evaluation/ and learning.png to the run's folder."""
    folder = trainer.folder
    out = folder / "evaluation"
    saved = Checkpoint.load(find_checkpoint(folder))
    policy = load_policy(folder, saved, trainer.config.device)
    initial = _initial_policy(trainer, policy.name) if saved.iteration else []
    deeprm = deeprm_beside(trainer, report)
    knowledge = {one.name: one.knowledge for one in (policy, *initial, *deeprm)}
    files = {policy.name: find_checkpoint(folder)}
    files |= {one.name: folder / "checkpoints" / INITIAL_POLICY for one in initial}
    files |= {one.name: find_checkpoint(folder / DEEPRM) for one in deeprm}
    with whole_file(folder / "learning.png") as picture:
        plot_learning(trainer.progress, trainer.best_iteration, picture)
    if not out.exists() or is_unfinished(out):
        evaluate(
            trainer.problem,
            [policy, *initial, *deeprm, *(make_scheduler(name) for name in DEFAULT_SCHEDULERS)],
            [trainer.config.scenario.load],
            trainer.config.comparison_sequences,
            0,
            out,
            {
                "checkpoint": {"run": policy.name, "iteration": saved.iteration, "trace": saved.trace},
                "policies": {name: f"../{file.relative_to(folder)}" for name, file in files.items()},
            },
            knowledge,
            policy.name,
            origins={policy.name: saved.iteration} | {one.name: 0 for one in initial},
            completed=partial(complete, report=report),
            report=report,
        )
    found = Evaluation(out, None, knowledge, {policy.name: f"iteration {saved.iteration}"})
    brought = ""
    if initial:
        brought = what_training_brought(found.rows, policy.name, saved.iteration)
    elif trainer.best_iteration == 0:
        brought = (
            "training did not improve on the initial policy, which is the best on validation sequences and is kept"
        )
    if ahead := rules_ahead(found.rows, policy.name):
        trial = trainer.config.iterations <= PRESETS["smoke"].iterations
        brought = "; ".join(filter(None, [brought, ahead, "so short a training is only a trial" * trial]))
    return found, brought


def _initial_policy(trainer: Trainer, name: str) -> list[Scheduler]:
    """The policy of iteration 0, for comparison; none if training did not validate it."""
    file = trainer.folder / "checkpoints" / INITIAL_POLICY
    if not file.is_file():
        return []
    initial = load_policy(file, Checkpoint.load(file), trainer.config.device)
    initial.name = name + INITIAL
    return [initial]
