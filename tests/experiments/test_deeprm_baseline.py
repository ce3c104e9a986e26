"""DeepRM beside an agent: trained with no more than the agent, interrupted and continued, in the comparison's table."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tvwrl
from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.config import PRESETS
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.experiments import training_runs
from tvwrl.experiments.training_cells import Setup
from tvwrl.experiments.training_runs import DEEPRM, begin_deeprm, deeprm_beside, deeprm_config, new_trainer
from tvwrl.progress import nothing
from tvwrl.runs import LAST
from tvwrl.traces.catalogue import trace_identity
from tvwrl.types import InputError, Trace

SMALL: dict[str, Any] = {
    "iterations": 1,
    "train_sequences": 3,
    "sequences_per_iteration": 2,
    "eval_sequences": 2,
    "eval_every": 1,
}
CLUSTER: dict[str, Any] = {"ec": "none", "machines": 4, "workloads": 12, "history": 4}


def test_its_training_is_the_agents_or_less() -> None:
    agent = replace(
        PRESETS["smoke"], **SMALL, seed=3, scenario=replace(PRESETS["smoke"].scenario, machines=4, load=0.8)
    )
    own = deeprm_config(agent)
    assert (own.seed, own.scenario.machines, own.scenario.load) == (3, 4, 0.8)
    assert (own.iterations, own.train_sequences, own.sequences_per_iteration, own.eval_sequences) == (5, 3, 2, 2)
    assert not own.scenario.looks_ahead
    large = deeprm_config(replace(PRESETS["paper"], train_sequences=10_000))
    assert large.train_sequences == PRESETS["deeprm"].train_sequences
    assert large.iterations <= PRESETS["deeprm"].iterations


def test_figures_and_the_comparison_have_the_same_deeprm() -> None:
    base = replace(PRESETS["medium"], scenario=replace(PRESETS["medium"].scenario, machines=7))
    assert Setup(base, {}).config(DEEPRM, {}).scenario == deeprm_config(base).scenario


def test_an_interrupted_training_of_deeprm_continues_exactly(
    problem: Problem, google: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(PRESETS["smoke"], **SMALL, scenario=replace(problem.scenario, observe_forecast=False))
    monkeypatch.setattr(training_runs, "EACH", 3)
    undisturbed, weights = Trainer._iterate, []

    def interrupted(trainer: Trainer, *arguments: Any) -> None:
        undisturbed(trainer, *arguments)
        if trainer.iteration == 2:
            os.kill(os.getpid(), signal.SIGINT)

    for name in ("whole", "parts"):
        trainer = new_trainer(problem, config, tmp_path / name, trace_identity(google, None), "temporal", nothing)
        begin_deeprm(trainer)
        with monkeypatch.context() as patch:
            if name == "parts":
                patch.setattr(Trainer, "_iterate", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    deeprm_beside(trainer, nothing)
        (deeprm,) = deeprm_beside(trainer, nothing)
        assert deeprm.knowledge.group == "true lifetime peaks (a privilege)"
        saved = Checkpoint.load(trainer.folder / DEEPRM / LAST)
        weights.append({name: value.tolist() for name, value in saved.policy.items()})
        assert saved.iteration == 3
    assert weights[0] == weights[1]


def test_without_it_none_is_begun(google: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trainer, "run", lambda trainer: "SIGINT")
    for wanted in (True, False):
        out = tmp_path / str(wanted)
        with pytest.raises(KeyboardInterrupt):
            tvwrl.train(google, "smoke", out=out, deeprm=wanted, report=None, **SMALL, **CLUSTER)
        assert (out / DEEPRM / LAST).is_file() == wanted


def test_a_run_cannot_take_its_name(google: Trace, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the run would have the name of scheduler 'deeprm'"):
        tvwrl.train(google, "smoke", out=tmp_path / "deeprm", report=None)


def test_an_agent_that_is_deeprm_is_not_compared_with_another(
    google: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "run", lambda trainer: "SIGINT")
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        tvwrl.train(google, policy="deeprm", out=tmp_path / "deeprm", report=told.append, **SMALL, **CLUSTER)
    assert any("the policy is DeepRM" in line for line in told)
    assert not (tmp_path / "deeprm" / DEEPRM).exists()
