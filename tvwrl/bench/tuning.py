"""Hyper-parameter search: a study of short trainings in a folder, which every trial finds and leaves whole.

Optuna suggests (tree-structured Parzen estimator) and prunes (median of the validation rewards of earlier trials at the
same iteration). A trial is a training run of its own in `trials/<number>`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.training import Trainer
from tvwrl.bench.search_space import SPACE, WITHOUT_EFFECT, Choice, Range
from tvwrl.ec import find_classes
from tvwrl.envs.problem import Problem
from tvwrl.parallel import run_calls
from tvwrl.runs import check_new_folder, provenance, write_json
from tvwrl.traces import open_trace
from tvwrl.traces.catalogue import trace_identity
from tvwrl.types import InputError

STUDY, FACTS = "study.db", "run.json"
UNGUIDED = 5  # trials drawn at random, and never pruned, before there is something to learn from
RETRIED, TROUBLE = "retry_of", "trouble"  # attributes of a trial


@dataclass(frozen=True)
class Search:
    """What is searched for: everything that a study must not change on the way."""

    trace: str
    slot_seconds: int | None
    ec: str
    base: TrainConfig  # of every trial; the search changes the fields of `SPACE`

    @property
    def space(self) -> dict[str, Range | Choice]:
        """The part of `SPACE` that has an effect."""
        return {name: one for name, one in SPACE.items() if name not in WITHOUT_EFFECT.get(self.base.algo, ())}

    def config(self, parameters: Mapping[str, float]) -> TrainConfig:
        """The base with parameters of the space."""
        base, chosen = self.base, dict[str, Any](parameters)
        for name in ("learning_rate", "entropy_bonus"):
            start, end = getattr(base, name), getattr(base, f"final_{name}")
            if name in chosen and start > 0:
                chosen[f"final_{name}"] = chosen[name] * end / start
        return replace(base, **chosen)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        content: dict[str, Any] = json.loads(json.dumps({**vars(self), "base": self.base.to_dict()}))
        return content

    @classmethod
    def of(cls, folder: Path) -> Search:
        """The search that a folder holds. Raises InputError where there is none, or its run.json is damaged."""
        content = _facts(folder)
        try:
            return cls(**{**content["search"], "base": TrainConfig.from_dict(content["search"]["base"])})
        except (KeyError, TypeError) as error:
            raise InputError(f"{folder / FACTS} is damaged or not of a search: {error}") from error


def open_search(search: Search, folder: Path) -> None:
    """Begin the study, or check that the one in the folder asks the same of the same trace.

    Raises InputError, naming what differs.
    """
    optuna, asked = _optuna(), search.to_dict()
    identity = trace_identity(open_trace(search.trace, search.slot_seconds), search.trace, search.slot_seconds)
    if (folder / FACTS).exists():
        _check_same(asked, identity, _facts(folder), folder)
        if not (folder / STUDY).exists():
            raise InputError(f"{folder / STUDY} is missing: give --out another folder to begin anew")
        load_study(folder)
        return
    check_new_folder(folder)
    _world(search)  # refuses what cannot be trained before there is a folder
    folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(storage=_storage(folder), study_name="search", direction="maximize")
    first = {name: getattr(search.base, name) for name, one in search.space.items()}
    study.enqueue_trial({name: value for name, value in first.items() if search.space[name].holds(value)})
    write_json(folder / FACTS, provenance() | {"trace": identity, "search": asked})


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other searches out of the folder; trials that a dead one left unfinished are marked failed and queued again.

    Raises InputError where another search is at work.
    """
    with (folder / STUDY).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder} is being searched by another process: wait for it, or stop it") from None
        study = load_study(folder)
        for trial in study.get_trials(states=(_optuna().trial.TrialState.RUNNING,)):
            _give_back(study, trial.number, trial.params)
        yield


def run_trials(search: Search, folder: Path, trials: int, minutes: float | None, jobs: int) -> Iterator[dict[str, Any]]:
    """Bring the study to so many ended trials, or to its time; yields `number`, `reward` and `state` of each, where the
    reward of a pruned one is the last that it was judged by.

    Leaving early, by a signal too, puts unfinished trials back in the queue.
    """
    deadline = None if minutes is None else time.time() + 60 * minutes
    missing = trials - len(ended(load_study(folder)))
    calls = [(run_trial, (search, folder, deadline))] * max(missing, 0)
    yield from (result for _, result in run_calls(calls, jobs, None, processes=True) if result)


def run_trial(search: Search, folder: Path, deadline: float | None) -> dict[str, Any]:
    """One trial from question to answer; {} after the deadline."""
    if deadline is not None and time.time() >= deadline:
        return {}
    optuna, study = _optuna(), load_study(folder, search.base.seed)
    trial, states = study.ask(), _optuna().trial.TrialState
    try:
        parameters = {name: one.suggest(trial, name) for name, one in search.space.items()}
        reward = _train(search, folder, trial, parameters)
        study.tell(trial, reward)
    except optuna.TrialPruned:
        study.tell(trial, state=states.PRUNED)
    except BaseException:
        _give_back(study, trial.number, trial.params)
        raise
    frozen = study.trials[trial.number]
    return {"number": trial.number, "reward": frozen.value, "state": frozen.state.name.lower()}


def _train(search: Search, folder: Path, trial: Any, parameters: Mapping[str, float]) -> float:
    """Best validation reward of a training with these parameters; raises TrialPruned where it is not worth its end."""
    optuna, (problem, identity) = _optuna(), _world(search)
    own = folder / "trials" / str(trial.number)
    config = search.config(parameters)
    trainer = Trainer(problem, config, own, identity, _silent)
    write_json(own / FACTS, provenance() | {"trace": identity, "ec": search.ec, "config": config.to_dict()})

    def judge(iteration: int, reward: float) -> None:
        trial.report(reward, iteration)
        if iteration < config.iterations and trial.should_prune():
            trainer.save()
            raise optuna.TrialPruned

    trainer.judged = judge
    try:
        how = trainer.run()
    except InputError as error:  # the training broke, as a large learning rate can make it do
        trial.set_user_attr(TROUBLE, str(error))
        raise optuna.TrialPruned from error
    if how == "SIGTERM":
        raise SystemExit(143)
    if how != "finished":
        raise KeyboardInterrupt
    if not np.isfinite(trainer.best_reward):
        trial.set_user_attr(TROUBLE, "its policy never finished the validation sequences")
        raise optuna.TrialPruned
    return trainer.best_reward


def load_study(folder: Path, seed: int | None = None) -> Any:
    """The study of a folder. Raises InputError for a damaged file; `seed`: of what is suggested from now on."""
    path, optuna = folder / STUDY, _optuna()
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            health = database.execute("PRAGMA quick_check").fetchone()[0]
            done = database.execute("SELECT count(*) FROM trials").fetchone()[0]
    except sqlite3.Error as error:
        raise InputError(f"{path} cannot be read: it is damaged or not a study ({error})") from error
    if health != "ok":
        raise InputError(f"{path} is damaged: {health}")
    # An interrupted study must not draw its first numbers again.
    sampler = optuna.samplers.TPESampler(n_startup_trials=UNGUIDED, seed=None if seed is None else 1000 * seed + done)
    try:
        pruner = optuna.pruners.MedianPruner(n_startup_trials=UNGUIDED)
        return optuna.load_study(study_name="search", storage=_storage(folder), sampler=sampler, pruner=pruner)
    except (KeyError, RuntimeError) as error:
        raise InputError(f"{path} holds no study of this program: {error}") from error


def ended(study: Any) -> list[Any]:
    """Its trials that are complete or pruned; those that were interrupted are tried again under another number."""
    states = _optuna().trial.TrialState
    trials: list[Any] = study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))
    return trials


def complete(trials: list[Any]) -> list[Any]:
    """Those that were trained to their end."""
    return [trial for trial in trials if trial.state == _optuna().trial.TrialState.COMPLETE]


def _give_back(study: Any, number: int, parameters: Mapping[str, Any]) -> None:
    study.tell(number, state=_optuna().trial.TrialState.FAIL)
    study.enqueue_trial(dict(parameters), user_attrs={RETRIED: number})


def _check_same(asked: dict[str, Any], identity: Mapping[str, Any], facts: Mapping[str, Any], folder: Path) -> None:
    """Raise InputError for the first thing in which the study of the folder differs."""
    try:
        begun, trace = facts["search"], facts["trace"]["hash"]
        if trace != identity["hash"]:
            raise InputError(f"{folder} is a study of another trace ('{begun['trace']}'): give --out another folder")
        before = {"ec": begun["ec"], **begun["base"]["scenario"], **begun["base"]}
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder / FACTS} is damaged or not of a search: {error}") from error
    now = {"ec": asked["ec"], **asked["base"]["scenario"], **asked["base"]}
    for name in now:
        if name != "scenario" and now[name] != before.get(name):
            raise InputError(
                f"{folder} is a study with {name} {before.get(name)}, not {now[name]}: give --out another folder"
            )


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / FACTS
    if not path.is_file():
        raise InputError(f"{folder} holds no study: it has no {FACTS}")
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    return content


@lru_cache(maxsize=1)
def _world(search: Search) -> tuple[Problem, dict[str, Any]]:
    """What all trials train on, made once per process."""
    trace = open_trace(search.trace, search.slot_seconds)
    problem = Problem.build(trace, search.base.scenario, find_classes(search.ec, trace, search.base.scenario))
    return problem, trace_identity(trace, search.trace, search.slot_seconds)


def _storage(folder: Path) -> str:
    return f"sqlite:///{folder / STUDY}"


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError:
        raise InputError("tuning needs Optuna: pip install 'tvwrl[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _silent(text: str) -> None:
    """The trainer's reports are in its progress.csv."""
