"""What a policy with forecasts does before it has learnt anything is iteration 0 of its training."""

from dataclasses import replace

import pytest

from tvwrl.agents.checkpoint import FORMAT, Checkpoint
from tvwrl.agents.config import INFORMED, TrainConfig
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.types import InputError

FEW = {"iterations": 2, "train_sequences": 4, "sequences_per_iteration": 4, "eval_sequences": 2, "hidden": 8}


@pytest.fixture
def begun(problem, tmp_path):
    """A trainer on four machines with forecasts, by folder name."""
    scenario = replace(INFORMED, machines=4, workloads=16, history=6)
    informed = Problem.build(problem.trace, scenario, problem.classes, forecaster=problem.forecaster)

    def make(name):
        config = TrainConfig(**FEW, scenario=scenario)
        return Trainer(informed, config, tmp_path / name, {"hash": ""}, lambda text: None)

    return make


def test_it_is_judged_before_it_learns_and_goes_on_exactly_from_there(begun, tmp_path):
    whole, parts = begun("whole"), begun("parts")
    assert whole.run() == "finished"
    assert whole.progress[0].keys() >= {"iteration", "eval_reward"}
    assert (whole.progress[0]["iteration"], len(whole.progress)) == (0, 3)
    parts.run(stop_after=1)
    again = begun("parts")
    again.restore(Checkpoint.load(tmp_path / "parts/checkpoints/last.pt"))
    assert again.run() == "finished"
    assert (tmp_path / "whole/progress.csv").read_text() == (tmp_path / "parts/progress.csv").read_text()


def test_a_checkpoint_of_an_earlier_format_is_refused(begun, tmp_path, monkeypatch):
    begun("old").run(stop_after=1)
    monkeypatch.setattr("tvwrl.agents.checkpoint.FORMAT", FORMAT + 1)
    with pytest.raises(InputError, match=f"format {FORMAT}; this is .* reads format {FORMAT + 1}"):
        Checkpoint.load(tmp_path / "old/checkpoints/last.pt")
