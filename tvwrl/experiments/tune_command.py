"""One hyper-parameter search from its options to its report; it continues what its folder holds."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tyro

from tvwrl.agents import PRESETS, TrainConfig, preset_for
from tvwrl.checks import at_least, positive
from tvwrl.command_line import SlotSeconds, TraceName
from tvwrl.ec import DEFAULT_CLASSES
from tvwrl.experiments.engine import CELLS, CellOptions, refuse_failed
from tvwrl.experiments.hyperparameter_search import (
    CELL,
    RETRIED,
    TROUBLE,
    Search,
    TrialCell,
    complete_trials,
    ended_trials,
    load_search,
    load_study,
    open_search,
)
from tvwrl.plotting import COLOURS, DPI, OTHERS, OURS, WIDTH, new_figure, tidy
from tvwrl.runs import default_folder, write_csv, write_json
from tvwrl.simulation import check_moves
from tvwrl.traces import open_and_describe
from tvwrl.types import InputError

# fmt: off
OF_THE_SEARCH = (  # what the command leaves to the preset
    "iterations", "eval_every", "eval_sequences", "comparison_sequences", "save_every", "picture_every",
)
# fmt: on
ITERATIONS, EVAL_EVERY = 40, 5  # of a trial
WITH_RESUME = ("trials", "seconds", "workers", "ray", "dry_run")


@dataclass(frozen=True)
class TuningSettings(CellOptions):
    """Search for hyper-parameters with many short training runs; unpromising ones are pruned.

    The folder holds study.db, trials.csv, best.json, search.png, and each trial as a training run. Ctrl-C, or a crash,
    loses only the trials in progress: run the same command again to continue. docs/how-to/tune.md lists what
    is varied.
    """

    trace: TraceName = "google"
    slot_seconds: SlotSeconds = None
    ec: str = DEFAULT_CLASSES
    """Equivalence classes: a file of tvwrl classes; or aggregate, dtw or temporal to make --classes classes now; or
    none."""
    preset: Literal["smoke", "counterfactual", "medium", "paper", "deeprm"] = "counterfactual"
    """Hyper-parameters of the first trial, and of all others where the search does not vary them."""
    trials: int = 30
    """Total number of trials, complete or pruned, including those of earlier sessions."""
    seconds: float | None = None
    """Time limit of the search, seconds; default: none. No trial starts after it."""
    resume: Path | None = None
    """Continue the run in this folder with its own settings; only --trials, --seconds, --workers, --ray and
    --dry-run can be combined with it."""
    config: tyro.conf.OmitArgPrefixes[TrainConfig] = field(default_factory=TrainConfig)

    @classmethod
    def default_for(cls, preset: str = "", algo: str = "", policy: str = "") -> TuningSettings:
        """The settings that other options change: those of the preset, but for short trials; empty: not given."""
        return cls(config=replace(preset_for(preset, algo, policy), iterations=ITERATIONS, eval_every=EVAL_EVERY))

    def check(self) -> None:
        """Raise InputError for options that are out of range, or cannot be combined with `resume`."""
        self.check_run()
        check_moves(self.config.scenario, "to learn what to move, call tvwrl train --moves")
        at_least(1, trials=self.trials)
        positive(seconds=self.seconds)
        own = {name: getattr(self, name) for name in ("resume", *WITH_RESUME)}
        if self.resume and self != replace(self.default_for(), **own):
            allowed = ", ".join(f"--{name.replace('_', '-')}" for name in WITH_RESUME)
            raise InputError(
                f"--resume continues with the search's own settings: only {allowed} can be combined with it"
            )


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


def write_report(search: Search, folder: Path) -> str:
    """Write trials.csv, and best.json and search.png if a trial is complete; returns the best trial in words."""
    study = load_study(folder)
    write_csv(folder / "trials.csv", [_row(trial, list(search.space)) for trial in study.get_trials(deepcopy=False)])
    trials, complete = ended_trials(study), complete_trials(study)
    if not complete:
        return "no trial is complete yet"
    best = max(complete, key=lambda trial: trial.value)
    command = shlex.join(train_command(search, best.params))
    facts = {"trial": best.number, "run": f"{CELLS}/{best.user_attrs[CELL]}", "reward": best.value}
    facts |= {"iterations": search.base.iterations, "trials": len(trials)}
    write_json(folder / "best.json", facts | {"parameters": best.params, "command": command})
    _plot(trials, complete, importance_of(study), folder / "search.png")
    named = ", ".join(f"{name} {value:.4g}" for name, value in best.params.items())
    return (
        f"best of {len(trials)} trials: {best.value:.6g} on the validation sequences, trial {best.number} ({named})\n"
        f"train with these parameters, for as long as the preset does:\n  {command}"
    )


def train_command(search: Search, parameters: Mapping[str, float]) -> list[str]:
    """A command line of `tvwrl train` with these parameters, for the preset's number of iterations."""
    preset, config = PRESETS["counterfactual"], search.config(parameters)
    words = ["tvwrl", "train", "--trace", search.trace]
    if search.slot_seconds is not None:
        words += ["--slot-seconds", str(search.slot_seconds)]
    if search.ec != DEFAULT_CLASSES:
        words += ["--ec", search.ec]
    if config.policy == "deeprm":
        preset = PRESETS["deeprm"]
        words += ["--policy", "deeprm"]
    elif config.algo != "counterfactual":
        preset = PRESETS["medium"]
        words += ["--preset", "medium"]
    return words + options_of(config, preset)


def options_of(config: Any, default: Any) -> list[str]:
    """Options of the command line that make `config` of `default`, both dataclasses."""
    words: list[str] = []
    for one in fields(config):
        value, before = getattr(config, one.name), getattr(default, one.name)
        option = one.name.replace("_", "-")
        if is_dataclass(value):
            words += options_of(value, before)
        elif value == before or (isinstance(config, TrainConfig) and one.name in OF_THE_SEARCH):
            continue
        elif isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", ",".join(map(str, value if isinstance(value, tuple) else (value,)))]
    return words


def _row(trial: Any, names: Sequence[str]) -> dict[str, Any]:
    """A row of trials.csv."""
    seconds = f"{trial.duration.total_seconds():.1f}" if trial.duration else ""
    row = {"trial": trial.number, "state": trial.state.name.lower(), "reward": trial.value}
    row |= {"iterations": trial.last_step, "seconds": seconds} | {name: trial.params.get(name) for name in names}
    return row | {name: trial.user_attrs.get(name) for name in (CELL, RETRIED, TROUBLE)}


def importance_of(study: Any) -> dict[str, float]:
    """Share of the reward's variance that each parameter explains (fANOVA), falling; {} for fewer than 4 trials."""
    import optuna

    if len({trial.value for trial in complete_trials(study)}) < 4:
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    shares: dict[str, float] = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return shares


def _plot(trials: list[Any], complete: list[Any], importance: Mapping[str, float], file: Path) -> None:
    """Rewards by trial, pruned ones hollow where they stopped, and how much each parameter matters."""
    rising = sorted(importance.items(), key=lambda item: item[1])
    figure = new_figure(WIDTH, max(3.4, 0.22 * len(rising) + 1.2))
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    pruned = [trial for trial in trials if trial not in complete and trial.intermediate_values]
    best = [max(t.value for t in complete if t.number <= one.number) / 1000 for one in complete]
    left.step([t.number for t in complete], best, where="post", color=OURS, label="best so far")
    left.plot([t.number for t in complete], [t.value / 1000 for t in complete], "o", color=OTHERS, label="complete")
    last = [t.intermediate_values[t.last_step] / 1000 for t in pruned]
    if pruned:
        left.plot([t.number for t in pruned], last, "o", mfc="none", color=COLOURS[0], label="stopped early")
    left.xaxis.get_major_locator().set_params(integer=True)
    left.set_xlabel("trial", fontsize=9.5)
    left.set_ylabel("validation reward, thousands\n(higher is better)", fontsize=9.5)
    right.plot([100 * share for _, share in rising], range(len(rising)), "o", color=OURS, ms=6)
    right.set_yticks(range(len(rising)), [name.replace("_", " ") for name, _ in rising])
    right.set_xlim(left=0)
    right.set_xlabel("of the reward's variance, %", fontsize=9.5)
    right.set_title("What each parameter explains" if rising else "Too few complete trials", fontsize=10)
    for axis in (left, right):
        axis.tick_params(labelsize=9)
        tidy(axis)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(file, dpi=DPI)
