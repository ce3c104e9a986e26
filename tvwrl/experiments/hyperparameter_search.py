"""What is searched, and how one trial runs: Optuna, in its study, chooses the parameters; a short training rates them.

Optuna suggests by the tree-structured Parzen estimator and prunes by the median of the validation rewards of earlier
trials at the same iteration.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tvwrl.agents import TrainConfig
from tvwrl.ec import find_classes
from tvwrl.envs import Problem
from tvwrl.experiments.engine import Cell, check_request
from tvwrl.experiments.training_runs import pass_on_signal
from tvwrl.progress import nothing, say
from tvwrl.runs import check_new_folder, in_turn, provenance, write_json
from tvwrl.traces import open_trace, trace_identity
from tvwrl.types import InputError

STUDY, FACTS = "study.db", "run.json"
UNGUIDED = 5  # trials drawn at random, and never pruned, before there is something to learn from
CELL, RETRIED, TROUBLE = "cell", "retry_of", "trouble"  # attributes of a trial


@dataclass(frozen=True)
class Search:
    """What is searched for: everything that must not change while it goes on."""

    trace: str
    slot_seconds: int | None
    ec: str
    base: TrainConfig  # of every trial; the search changes the fields of `SPACE`

    @property
    def space(self) -> dict[str, Range | Choice]:
        """The part of `SPACE` that has an effect on this algorithm."""
        return {name: one for name, one in SPACE.items() if name not in WITHOUT_EFFECT[self.base.algo]}

    @property
    def first(self) -> dict[str, float]:
        """The parameters of the first trial: those of `base` that the space holds."""
        given = replace(self.base, horizon=self.base.rollout_slots)
        values = {name: getattr(given, name) for name in self.space}
        return {name: value for name, value in values.items() if self.space[name].holds(value)}

    def config(self, parameters: Mapping[str, float]) -> TrainConfig:
        """The configuration of a trial with these parameters of the space."""
        base, chosen = self.base, dict[str, Any](parameters)
        for name in ("learning_rate", "entropy_bonus"):
            start, end = getattr(base, name), getattr(base, f"final_{name}")
            if name in chosen and start > 0:
                chosen[f"final_{name}"] = chosen[name] * end / start
        return replace(base, **chosen)

    def request(self, trace_hash: str) -> dict[str, Any]:
        """What decides the result of a trial."""
        return {"trace_hash": trace_hash, "ec": self.ec, "config": self.base.to_dict()}


@dataclass(frozen=True)
class TrialCell(Cell):
    """One trial: a training run in its folder. It is finished when the training ended or was pruned."""

    search: Search
    number: int

    @property
    def name(self) -> str:
        return f"trial-{self.number}"

    def request(self) -> dict[str, Any]:
        """The search; the trace counts by its content, wherever it lies."""
        return self.search.request(_problem(self.search)[1]["hash"])

    def run(self, folder: Path) -> None:
        """Train with the parameters that the study suggests, and report the reward to it.

        If the trial is interrupted, its parameters go back to the study's queue.
        """
        optuna = _optuna()
        states = optuna.trial.TrialState
        study = load_study(folder.parents[1], self.search.base.seed)
        for dead in study.get_trials(states=(states.RUNNING,)):
            if dead.user_attrs.get(CELL) == self.name:  # its process died: nobody else holds this cell
                _retry(study, dead)
        shutil.rmtree(folder)  # what an interrupted attempt left
        folder.mkdir()
        with in_turn(folder.parents[1] / ".ask.lock"):  # SQLite may give one queued trial to two processes
            trial = study.ask()
        trial.set_user_attr(CELL, self.name)
        try:
            parameters = {name: one.suggest(trial, name) for name, one in self.search.space.items()}
            study.tell(trial, _train(self.search, folder, trial, parameters))
        except optuna.TrialPruned:
            study.tell(trial, state=states.PRUNED)
        except Exception:
            study.tell(trial, state=states.FAIL)
            raise
        except BaseException:
            _retry(study, trial)
            raise
        ended = study.trials[trial.number]
        rewards = [one.value for one in complete_trials(study)]
        state = "best so far" if rewards and ended.value == max(rewards) else ended.state.name.lower()
        say(f"trial {ended.number}: {state}" + ("" if ended.value is None else f", {ended.value:.6g}"))


def open_search(search: Search, folder: Path) -> None:
    """Create the study of a search in a folder, or check that the one it holds is of the same search.

    Raises InputError, naming what differs or is damaged.
    """
    optuna, (_, identity) = _optuna(), _problem(search)  # refuses what cannot be trained before there is a folder
    if (folder / FACTS).exists():
        begun, trace_hash = load_search(folder)
        check_request(folder, begun.request(trace_hash), search.request(identity["hash"]))
        if not (folder / STUDY).exists():
            raise InputError(f"{folder / STUDY} is missing: give another --out to start a new search")
        load_study(folder)
        return
    check_new_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(storage=_storage(folder), study_name="search", direction="maximize")
    study.enqueue_trial(search.first)
    described = {**vars(search), "base": search.base.to_dict()}
    write_json(folder / FACTS, provenance() | {"trace": identity, "search": described})


def load_search(folder: Path) -> tuple[Search, str]:
    """The search of a folder and the hash of its trace. Raises InputError if there is none, or it is damaged."""
    path = folder / FACTS
    if not path.is_file():
        raise InputError(f"{folder}: no search in this folder: it has no {FACTS}")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        content = facts["search"]
        return Search(**{**content, "base": TrainConfig.from_dict(content["base"])}), facts["trace"]["hash"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged or does not belong to a search: {error}") from error


def load_study(folder: Path, seed: int | None = None) -> Any:
    """Optuna's study of a search; `seed` decides what it suggests. Raises InputError if its file is damaged."""
    path, optuna = folder / STUDY, _optuna()
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            health = database.execute("PRAGMA quick_check").fetchone()[0]
            done = database.execute("SELECT count(*) FROM trials").fetchone()[0]
    except sqlite3.Error as error:
        raise InputError(f"{path} cannot be read: it is damaged or not a study ({error})") from error
    if health != "ok":
        raise InputError(f"{path} is damaged: {health}")
    # A study that goes on must not draw its first numbers again.
    sampler = optuna.samplers.TPESampler(n_startup_trials=UNGUIDED, seed=None if seed is None else 1000 * seed + done)
    try:
        pruner = optuna.pruners.MedianPruner(n_startup_trials=UNGUIDED)
        return optuna.load_study(study_name="search", storage=_storage(folder), sampler=sampler, pruner=pruner)
    except (KeyError, RuntimeError) as error:
        raise InputError(f"{path}: not a study of this program: {error}") from error


def ended_trials(study: Any) -> list[Any]:
    """Trials that are complete or pruned. Interrupted ones are not: they are retried under another number."""
    states = _optuna().trial.TrialState
    trials: list[Any] = study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))
    return trials


def complete_trials(study: Any) -> list[Any]:
    """Trials that were trained to their end."""
    return [trial for trial in ended_trials(study) if trial.state == _optuna().trial.TrialState.COMPLETE]


def _train(search: Search, folder: Path, trial: Any, parameters: Mapping[str, float]) -> float:
    """Best validation reward of a training with these parameters; raises TrialPruned if it is not worth finishing."""
    from tvwrl.agents import Trainer

    optuna, (problem, identity) = _optuna(), _problem(search)
    config = search.config(parameters)
    trainer = Trainer(problem, config, folder, identity, nothing)
    write_json(folder / FACTS, provenance() | {"trace": identity, "ec": search.ec, "config": config.to_dict()})

    def prune(iteration: int, reward: float) -> None:
        trial.report(reward, iteration)
        if iteration < config.iterations and trial.should_prune():
            trainer.save()
            raise optuna.TrialPruned

    trainer.on_validation = prune
    try:
        ended = trainer.run()
    except InputError as error:  # the training diverged, as a large learning rate can make it do
        trial.set_user_attr(TROUBLE, str(error))
        raise optuna.TrialPruned from error
    pass_on_signal(ended)
    if not np.isfinite(trainer.best_reward):
        trial.set_user_attr(TROUBLE, "its policy never finished the validation sequences")
        raise optuna.TrialPruned
    return trainer.best_reward


def _retry(study: Any, trial: Any) -> None:
    """Mark a trial as failed, and queue its parameters for the next one."""
    study.tell(trial.number, state=_optuna().trial.TrialState.FAIL)
    study.enqueue_trial(dict(trial.params), user_attrs={RETRIED: trial.number})


@lru_cache(maxsize=1)
def _problem(search: Search) -> tuple[Problem, dict[str, Any]]:
    """The problem that all trials train on, and the identity of its trace; made once per process."""
    trace = open_trace(search.trace, search.slot_seconds)
    problem = Problem.build(trace, search.base.scenario, find_classes(search.ec, trace, search.base.scenario))
    return problem, trace_identity(trace, search.trace, search.slot_seconds)


def _storage(folder: Path) -> str:
    return f"sqlite:///{folder / STUDY}"


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError:
        raise InputError("tuning needs Optuna: pip install '.[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class Range(NamedTuple):
    """Numbers from `low` to `high`, whole ones if the ends are."""

    low: float
    high: float
    log: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value can be drawn."""
        return self.low <= value <= self.high

    def suggest(self, trial: Any, name: str) -> float:
        """A value for the trial."""
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        suggest = trial.suggest_int if whole else trial.suggest_float
        value: float = suggest(name, self.low, self.high, log=self.log)
        return value


class Choice(NamedTuple):
    """One of a few values, in no order."""

    values: tuple[float, ...]

    def holds(self, value: float) -> bool:
        """Whether a value can be drawn."""
        return value in self.values

    def suggest(self, trial: Any, name: str) -> float:
        """A value for the trial."""
        value: float = trial.suggest_categorical(name, self.values)
        return value


SPACE: Mapping[str, Range | Choice] = {  # fields of TrainConfig; final_... keep their ratio to the start
    "learning_rate": Range(1e-4, 1e-2, log=True),
    "gamma": Choice((0.97, 0.99, 0.995, 0.997, 0.999, 1.0)),
    "gae_lambda": Range(0.5, 1.0),
    "entropy_bonus": Range(1e-4, 0.1, log=True),
    "clip": Range(0.1, 0.4),
    "hidden": Choice((20, 32, 64, 128)),
    "epochs": Range(1, 6),
    "minibatches": Choice((1, 2, 4, 8, 16)),
    "max_gradient_norm": Range(0.1, 5.0, log=True),
    "horizon": Choice((8, 16, 24, 32, 48, 64)),
    "cost_scale": Range(500.0, 10_000.0, log=True),
}
REPLAYING = ("horizon", "cost_scale")  # parameters of counterfactual learning alone
WITHOUT_EFFECT = {  # algo -> parameters
    "ppo": REPLAYING,
    "reinforce": ("gae_lambda", *REPLAYING),
    "counterfactual": ("gamma", "gae_lambda", "clip"),
    "sb3-ppo": REPLAYING,
    "sb3-a2c": ("clip", "epochs", *REPLAYING),
}
