"""Training on a device: every network is there, what it is fed is brought there, and checkpoints come back."""

from dataclasses import replace

import pytest
import torch

from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.policy_scheduler import PolicyScheduler
from tvwrl.agents.training import Trainer
from tvwrl.schedulers.runner import Runner

from .test_ppo import TINY

ON_A_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.parametrize(
    ("algo", "device"),
    [
        ("ppo", "cpu"),  # the others run on the CPU in test_training.py
        *(pytest.param(algo, "cuda", marks=ON_A_GPU) for algo in ("ppo", "reinforce", "sb3-ppo", "sb3-a2c")),
    ],
)
def test_a_training_runs_on_its_device(problem, tmp_path, algo, device):
    if algo.startswith("sb3"):
        pytest.importorskip("stable_baselines3")
    config = replace(TINY, algo=algo, device=device, iterations=1, imitate=1, sequences_per_iteration=2, trajectories=2)
    problem = replace(problem, scenario=config.scenario)
    trainer = Trainer(problem, config, tmp_path, {"hash": ""}, lambda text: None)
    fed = set()

    def note(module, inputs):
        fed.update(part.device.type for part in inputs[0].values())

    trainer.policy.register_forward_pre_hook(note)
    assert trainer.run() == "finished"
    assert fed == {device}
    tuned = trainer.learner.optimiser.param_groups
    assert {weight.device.type for group in tuned for weight in group["params"]} == {device}

    policy = PolicyScheduler("it", Checkpoint.load(tmp_path / "checkpoints/last.pt"), "cpu")
    episode = Runner(problem.sequences("test", 1, 0), problem.machines, problem.scenario, 0).play(policy, 0)
    assert (episode.machine >= 0).any()
