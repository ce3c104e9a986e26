"""Trains a policy and compares it with the heuristics, as `tvwrl train` is asked to."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from tvwrl.agents import PRESETS, TrainConfig, preset_for
from tvwrl.checks import at_least
from tvwrl.command_line import ConfigFile, ForecasterFile, SlotSeconds, TraceName
from tvwrl.ec import DEFAULT_CLASSES, EquivalenceClasses, find_classes
from tvwrl.envs import Problem
from tvwrl.experiments.engine import complete
from tvwrl.experiments.episode_rows import incomplete_by
from tvwrl.experiments.evaluation import (
    DEFAULT_SCHEDULERS,
    Evaluation,
    EvaluationSetup,
    Player,
    evaluate,
    is_unfinished,
)
from tvwrl.experiments.exploring.explored import first_look
from tvwrl.experiments.learning_curve import RULES, plot_learning, rules_to_draw
from tvwrl.experiments.statistics import paired_bootstrap
from tvwrl.experiments.tables import terminal_table
from tvwrl.experiments.training_runs import (
    DEEPRM,
    EXIT_CODES,
    begin_deeprm,
    check_resume,
    deeprm_beside,
    new_trainer,
    open_again,
    restored_trainer,
)
from tvwrl.forecasting import read_forecaster
from tvwrl.option_files import write_options
from tvwrl.progress import Report, say
from tvwrl.runs import (
    LAST,
    OPTIONS,
    SEEDS,
    START,
    check_new_folder,
    default_folder,
    how_to_continue,
    whole_file,
    write_csv,
)
from tvwrl.schedulers import CURRENT_LOAD, INITIAL, KNOWLEDGE, SCHEDULERS, Scheduler, known_by, make_scheduler
from tvwrl.simulation import check_moves
from tvwrl.traces import SequenceSampler, open_and_describe, trace_identity
from tvwrl.types import InputError, Trace

if TYPE_CHECKING:
    import polars as pl

    from tvwrl.agents import Trainer


ENOUGH = 10  # sequences; an interval of fewer is too narrow to rule out chance
LEFT_OUT = ("config_file", "out", "preset", "resume", "stop_after")  # of what a run says was asked for


@dataclass(frozen=True)
class TrainingSettings:
    """Train a placement policy on a trace, then compare it with heuristics on unseen workloads.

    The run folder holds run.json, progress.csv, tensorboard/, checkpoints/last.pt and best.pt, and evaluation/.
    Ctrl-C saves a checkpoint; --resume continues from it. Moves are learnt by tvwrl train --moves (--help).
    """

    trace: TraceName = "google"
    slot_seconds: SlotSeconds = None
    ec: str = DEFAULT_CLASSES
    """Equivalence classes: a file of tvwrl classes; or aggregate, dtw or temporal to make --classes classes now; or
    none."""
    forecaster: ForecasterFile = None
    preset: Literal["smoke", "counterfactual", "medium", "paper", "deeprm"] = "counterfactual"
    """Defaults of the hyper-parameters: smoke (a trial, seconds), counterfactual (minutes), medium (minutes; the
    default with another algorithm), paper (the paper's values), deeprm (the default of --policy deeprm)."""
    deeprm: bool = True
    """Train DeepRM too, the paper's learnt baseline, on the same training sequences, so that the comparison at the end
    has it."""
    config_file: ConfigFile = None
    out: Path | None = None
    """Output folder; default: runs/<trace>-<timestamp>."""
    resume: Path | None = None
    """Continue the run in this folder to its original number of iterations; only --stop-after can be combined with
    it."""
    stop_after: int | None = None
    """Stop after this number of updates; --resume continues."""
    seeds: int = 1
    """Trainings, with --seed and the seeds that follow it; their mean and its interval are drawn and tabulated."""
    workers: int = 1
    """With --seeds: trainings at the same time, each in a process of its own."""
    config: tyro.conf.OmitArgPrefixes[TrainConfig] = field(default_factory=preset_for)

    @classmethod
    def default_for(cls, preset: str = "", algo: str = "", policy: str = "") -> TrainingSettings:
        """The settings that other options change: those of the preset that is meant; empty: not given."""
        return cls(config=preset_for(preset, algo, policy))


def train(settings: TrainingSettings) -> int:
    """Train from the start, or from the last checkpoint of a run, then compare; returns the exit code.

    Raises InputError for bad options or a training that diverges; KeyboardInterrupt and SystemExit pass through, and
    leave a checkpoint.
    """
    check_resume(settings)
    if settings.config.network:
        from tvwrl.agents import allow_network

        allow_network(settings.config.network)
    at_least(1, seeds=settings.seeds, workers=settings.workers)
    if settings.workers > settings.seeds:
        raise InputError(
            f"workers is {settings.workers}: at most one per seed, of which there are {settings.seeds} (--seeds)"
        )
    if settings.seeds > 1 or (settings.resume and (settings.resume / SEEDS).is_file()):
        from tvwrl.experiments.seeds import train_seeds

        return train_seeds(settings, say)
    trainer = take_up(settings.resume, say) if settings.resume else begin(settings, say)
    again = f"continue with: {how_to_continue(trainer.folder)}"
    try:
        ended = trainer.run(settings.stop_after)
        if ended != "finished":
            say(f"stopped after iteration {trainer.iteration}; {again}")
            return EXIT_CODES[ended]
        found, brought = compare_with_heuristics(trainer, say)
    except (KeyboardInterrupt, SystemExit):  # before its first iteration, a second time, or in the comparison
        say(f"stopped; {again}")
        raise
    print(terminal_table(found.rows, {**KNOWLEDGE, **found.knowledge}))
    if brought:
        print(brought)
    trace = trainer.problem.trace
    print(f"unseen workloads of trace '{trace.name}' ({trace.source}); tables, plots and records are in {found.folder}")
    print(first_look(found.folder))
    return 0


def begin(settings: TrainingSettings, report: Report, trace: Trace | None = None) -> Trainer:
    """A new run in its folder, before its first iteration; `trace`: that of the settings if it is open already.

    Raises InputError for bad settings.
    """
    from tvwrl.agents import check_device, check_network, check_start, labels_of_start, open_others

    check_moves(settings.config.scenario, "to learn what to move, call tvwrl train --moves")
    given = trace is not None
    trace = trace or open_and_describe(settings.trace, settings.slot_seconds, report)
    identity = trace_identity(trace, None if given else settings.trace, settings.slot_seconds)
    folder = settings.out or default_folder(trace.name)
    check_new_folder(folder)
    check_name(settings, folder)
    is_deeprm = settings.config.policy == DEEPRM
    check_network(settings.config.network)
    check_device(settings.config.device)  # this and what follows: before the minutes of preparation
    others = open_others(settings.config, trace)
    scenario, forecaster = settings.config.scenario, None
    if settings.forecaster is not None:
        forecaster = read_forecaster(settings.forecaster, SequenceSampler(trace, scenario))
    classes = find_classes(settings.ec, trace, scenario)
    if isinstance(classes, EquivalenceClasses):
        report(f"classes: {classes.k} by {classes.representation}, from {settings.ec}")
    if settings.config.start_from:
        if isinstance(classes, str) and scenario.classes is None:  # as many as the policy knows
            scenario = replace(scenario, classes=labels_of_start(settings.config))
            settings = replace(settings, config=replace(settings.config, scenario=scenario))
        labels = scenario.classes if isinstance(classes, str) else classes.k
        check_start(settings.config, trace.resources, labels)
    problem = Problem.build(trace, scenario, classes, forecaster=forecaster, report=report)
    trainer = new_trainer(problem, settings.config, folder, identity, settings.ec, report, settings.forecaster, others)
    if is_deeprm and settings.deeprm:
        report("the policy is DeepRM, so no other DeepRM is trained to compare it with")
    elif settings.deeprm:
        begin_deeprm(trainer)
    if not given:  # last: it says that all of the beginning is there
        text = write_options(settings, "train", LEFT_OUT)
        with whole_file(folder / OPTIONS) as file:
            file.write_text(text, encoding="utf-8")
    report(f"run folder: {folder} (watch it with: tensorboard --logdir {shlex.quote(str(folder))})")
    return trainer


def check_name(settings: TrainingSettings, folder: Path) -> None:
    """Raise InputError if the policy, which is named after its folder, would have the name of another scheduler."""
    beside = settings.deeprm and settings.config.policy != DEEPRM
    if folder.name in SCHEDULERS or (folder.name == DEEPRM and beside):
        raise InputError(f"--out {folder}: the run would have the name of scheduler '{folder.name}': choose another")


def take_up(folder: Path, report: Report) -> Trainer:
    """A run as its last checkpoint left it. Raises InputError if there is none, or its trace has changed."""
    from tvwrl.agents import Checkpoint, find_checkpoint

    if not folder.is_dir():
        raise InputError(f"no run folder {folder}")
    saved = Checkpoint.load(find_checkpoint(folder, (LAST.name,)))
    if (folder / START).exists():
        raise InputError(f"{folder} is a run of tvwrl learn-online: resume it by: {how_to_continue(folder)}")
    trainer = restored_trainer(saved, open_again(saved.trace, report), folder, report)
    report(f"resuming {folder} at iteration {saved.iteration} of {saved.config.iterations}")
    return trainer


def compare_with_heuristics(trainer: Trainer, report: Report) -> tuple[Evaluation, str]:
    """Play the best policy against the heuristics on test sequences; returns what was found, and a sentence on what
    training brought, empty if there is nothing to say. Writes evaluation/ and learning.png to the run's folder."""
    from tvwrl.agents import INITIAL_POLICY, Checkpoint, find_checkpoint, load_policy

    folder = trainer.folder
    out = folder / "evaluation"
    saved = Checkpoint.load(find_checkpoint(folder))
    policy = load_policy(folder, saved, trainer.config.device)
    first, initial = folder / "checkpoints" / INITIAL_POLICY, list[Scheduler]()
    if saved.iteration and first.is_file():  # it is not, if training did not validate the policy of iteration 0
        initial = [load_policy(first, Checkpoint.load(first), trainer.config.device)]
        initial[0].name = policy.name + INITIAL
    deeprm = deeprm_beside(trainer, report)
    known = {name: KNOWLEDGE[name] for name in DEFAULT_SCHEDULERS}
    known |= {one.name: one.knowledge for one in (policy, *initial, *deeprm)}
    knowledge = {name: known_by(trainer.problem.forecaster, one) for name, one in known.items()}
    files = {policy.name: find_checkpoint(folder)}
    files |= {one.name: folder / "checkpoints" / INITIAL_POLICY for one in initial}
    files |= {one.name: find_checkpoint(folder / DEEPRM) for one in deeprm}
    rules = rules_to_draw(trainer)
    write_csv(folder / RULES, [{"scheduler": name, "eval_reward": reward} for name, reward in rules.items()])
    plot_learning([trainer.progress], trainer.best_iteration, folder / "learning.png", rules)
    if not out.exists() or is_unfinished(out):
        config = trainer.config
        evaluate(
            EvaluationSetup(trainer.problem, [config.scenario.load], config.comparison_sequences),
            [
                Player(policy, saved.iteration, agent=True),
                *(Player(one, 0, agent=True) for one in initial),
                *(Player(one, agent=True) for one in deeprm),
                *map(make_scheduler, DEFAULT_SCHEDULERS),
            ],
            out,
            {
                "checkpoint": {"run": policy.name, "iteration": saved.iteration, "trace": saved.trace},
                "policies": {name: f"../{file.relative_to(folder)}" for name, file in files.items()},
            },
            reference=policy.name,
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


def what_training_brought(rows: pl.DataFrame, name: str, iteration: int) -> str:
    """A sentence on the rewards of policy `name`, of `iteration`, against the initial policy in `rows`."""
    import polars as pl

    left = incomplete_by(rows, ["scheduler"])
    if what := left.get((name,)):
        return f"nothing can be said of its reward: the policy of iteration {iteration} left workloads unplaced, {what}"
    if what := left.get((name + INITIAL,)):
        return f"training taught the policy to place every workload; the initial policy left some unplaced, {what}"
    best, initial = (
        rows.filter(pl.col("scheduler") == one).sort("load", "sequence")["reward"].to_numpy() / 1000
        for one in (name, name + INITIAL)
    )
    gain, low, high = paired_bootstrap(best, initial)
    share = 100 * gain / max(abs(float(initial.mean())), 1e-9)
    if len(best) < ENOUGH:
        some = "one unseen sequence" if len(best) == 1 else f"{len(best)} unseen sequences"
        return (
            f"on {some}, {gain:+.1f} thousand ({share:+.1f} %) from the initial policy to that of iteration "
            f"{iteration}: too few to rule out chance; compare on more (--comparison-sequences)"
        )
    if low > 0:
        verdict = "training improved the policy"
    elif high < 0:
        verdict = "training made the policy worse"
    else:
        verdict = "training made no significant difference"
    return (
        f"{verdict}: {gain:+.1f} thousand [{low:+.1f}, {high:+.1f}] per sequence ({share:+.1f} %) from the initial "
        f"policy to that of iteration {iteration}, on {len(best)} unseen sequences (paired, 95 %)"
    )


def rules_ahead(rows: pl.DataFrame, name: str) -> str:
    """A sentence that names the rules in `rows` that look only at the current load, yet have significantly better
    rewards than policy `name`; empty if there are none."""
    import polars as pl

    left = incomplete_by(rows, ["scheduler"])
    rewards = {
        one: rows.filter(pl.col("scheduler") == one).sort("load", "sequence")["reward"].to_numpy()
        for one in rows["scheduler"].unique(maintain_order=True)
        if (one,) not in left
    }
    simple = [one for one in rewards if one in KNOWLEDGE and KNOWLEDGE[one] == CURRENT_LOAD]
    if name not in rewards:
        return f"it is behind every rule that places all workloads, as {' and '.join(simple)}" if simple else ""
    ahead = [rule for rule in simple if paired_bootstrap(rewards[rule], rewards[name])[1] > 0]
    if not ahead or len(rewards[name]) < ENOUGH:
        return ""
    ahead.sort(key=lambda rule: float(rewards[rule].mean()), reverse=True)
    return f"the policy is still behind the simple rule{'s' * (len(ahead) > 1)} {' and '.join(ahead)}"
