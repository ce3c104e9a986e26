"""The training run: machines that are off, the head start and what an interruption leaves of it."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from tvwrl.agents import training
from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.config import PRESETS
from tvwrl.agents.episodes import logits_of
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem

FEW = {"iterations": 2, "train_sequences": 4, "eval_sequences": 2, "eval_every": 1, "hidden": 8, "imitate": 2}
FEW |= {"sequences_per_iteration": 2, "trajectories": 2}


def trainer(problem, folder, **changes):
    """A training of seconds."""
    config = replace(PRESETS["fast"], **FEW, **changes, scenario=problem.scenario)
    return Trainer(problem, config, folder, {"hash": ""}, lambda text: None)


@pytest.mark.parametrize(("algo", "policy"), [("ppo", "shared"), ("reinforce", "shared"), ("reinforce", "flat")])
def test_a_machine_that_is_switched_off_is_never_chosen(problem, tmp_path, algo, policy):
    scenario = replace(problem.scenario, machine_types=("1x0", "3x8"))
    off = Problem.build(problem.trace, scenario, problem.classes)
    run = trainer(off, tmp_path, algo=algo, policy=policy)
    assert run.run() == "finished"  # the environment refuses machines that are off
    seen, _ = run.envs.reset(options={"sequence": np.arange(4)})
    logits, _ = logits_of(run.policy, seen, run.envs.action_masks(), "cpu")
    assert (torch.softmax(logits, dim=1)[:, 0] == 0).all()


def test_an_interrupted_head_start_is_not_made_twice(problem, tmp_path, monkeypatch):
    whole = trainer(problem, tmp_path / "whole")
    whole.run()

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return training_imitate(*arguments)

    training_imitate = training.imitate
    with monkeypatch.context() as patch:
        patch.setattr(training, "imitate", interrupted)
        assert trainer(problem, tmp_path / "parts").run() == "SIGINT"
    again = trainer(problem, tmp_path / "parts")
    again.restore(Checkpoint.load(tmp_path / "parts/checkpoints/last.pt"))
    assert (again.iteration, again.imitated) == (0, True)
    again.run()
    one, two = whole.policy.state_dict(), again.policy.state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_checkpoint_of_before_the_head_start_was_noted_is_read(problem, tmp_path):
    run = trainer(problem, tmp_path)
    run.run(stop_after=1)
    path = tmp_path / "checkpoints/last.pt"
    content = torch.load(path, weights_only=True)
    del content["imitated"]
    torch.save(content, path)
    saved = Checkpoint.load(path)
    assert (saved.iteration, saved.imitated) == (1, False)
