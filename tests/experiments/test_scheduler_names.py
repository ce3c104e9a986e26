"""What an entry of --schedulers means, and what a bad one gets to hear."""

from dataclasses import replace

import pytest

from tvwrl.agents.config import PRESETS
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.experiments.scheduler_names import parts_of, scheduler_of
from tvwrl.schedulers.runner import Runner
from tvwrl.types import InputError


def test_parts():
    assert parts_of("tetris") == ("tetris", "", "")
    assert parts_of("deeprm=runs/a+pism=b.npz") == ("deeprm+pism", "runs/a", "b.npz")
    assert parts_of("rollout(spread+policy)=runs/a") == ("rollout(spread+policy)", "runs/a", "")


def test_a_rollout_improves_the_policy_of_a_run(google, tmp_path):
    config = replace(PRESETS["smoke"], train_sequences=2, imitate=0)
    config = replace(config, scenario=replace(config.scenario, machines=3, workloads=6), eval_every=100)
    problem = Problem.build(google, config.scenario, "none")
    trainer = Trainer(problem, config, tmp_path, {}, print)
    trainer.save()
    scheduler = scheduler_of(f"rollout(spread+policy)={tmp_path}", "cpu")
    assert scheduler.name == "rollout(spread+policy)"
    runner = Runner(problem.sequences("test", 1, 0), problem.machines, problem.scenario)
    assert (runner.play(scheduler, 0).start >= 0).all()
    with pytest.raises(InputError, match="base is best-fit-peak: it knows more"):
        scheduler_of(f"rollout(best-fit-peak+policy)={tmp_path}", "cpu")


def test_what_is_missing_or_unknown_is_named():
    for entry, message in (
        ("rollout(spread+policy)", r"rollout\(spread\+policy\)=RUN: the training run of the policy is missing"),
        ("rollout(tetris)", r"scheduler is 'rollout\(tetris\)': must be one of .*rollout\(best-fit-peak\)"),
        ("deeprm+pism", r"deeprm\+pism=FILE: the file of scripts/fit_interference.py is missing"),
    ):
        with pytest.raises(InputError, match=message):
            scheduler_of(entry, "cpu")
