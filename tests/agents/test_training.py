"""The training run: machines that are off, the head start and what an interruption leaves of it."""

import os
import re
import signal
from copy import deepcopy
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

from tvwrl.agents import training
from tvwrl.agents.checkpoint import FORMAT, Checkpoint
from tvwrl.agents.config import INFORMED, PRESETS
from tvwrl.agents.episodes import logits_of
from tvwrl.agents.training import CURVES, Trainer
from tvwrl.envs.problem import Problem
from tvwrl.runs import read_csv
from tvwrl.schedulers import Runner, make_scheduler
from tvwrl.types import InputError

from .test_online import same

FEW = {"iterations": 2, "train_sequences": 4, "eval_sequences": 2, "eval_every": 1, "hidden": 8, "imitate": 2}
FEW |= {"sequences_per_iteration": 2, "trajectories": 2}


def trainer(problem, folder, **changes):
    """A training of seconds."""
    config = replace(PRESETS["medium"], **FEW, **changes, scenario=problem.scenario)
    return Trainer(problem, config, folder, {"hash": ""}, lambda text: None)


@pytest.mark.parametrize(
    ("algo", "policy"), [("ppo", "shared"), ("reinforce", "flat"), ("sb3-ppo", "shared"), ("sb3-a2c", "flat")]
)
def test_a_machine_that_is_switched_off_is_never_chosen(problem, tmp_path, algo, policy):
    if algo.startswith("sb3"):
        pytest.importorskip("stable_baselines3")
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
    assert same(whole.policy.state_dict(), again.policy.state_dict())
    logs = [(tmp_path / name / "progress.csv").read_text() for name in ("whole", "parts")]
    assert logs[0] == logs[1]
    assert [row["iteration"] for row in read_csv(tmp_path / "parts/progress.csv")] == ["0", "1", "2"]
    assert (whole.best_reward, whole.best_iteration) == (again.best_reward, again.best_iteration)
    played = [int(float(row["decisions"] or 0)) for row in read_csv(tmp_path / "parts/progress.csv")]
    assert steps_of(tmp_path / "parts", "eval/reward") == list(np.cumsum(played))
    assert [int(row["steps"]) for row in read_csv(tmp_path / "parts/progress.csv")] == list(np.cumsum(played))
    assert steps_of(tmp_path / "parts", "train/iteration") == list(np.cumsum(played))[1:]


def test_numbered_checkpoints_are_those_of_their_iterations(problem, tmp_path):
    run = trainer(problem, tmp_path, checkpoint_every=2)
    run.config = replace(run.config, iterations=5)
    run.run()
    kept = sorted(path.name for path in (tmp_path / "checkpoints").glob("iteration-*"))
    assert kept == ["iteration-2.pt", "iteration-4.pt"]
    assert [Checkpoint.load(tmp_path / "checkpoints" / name).iteration for name in kept] == [2, 4]


def test_environment_steps_of_a_run_that_kept_no_sum(problem, tmp_path):
    trainer(problem, tmp_path).run(stop_after=1)
    saved = Checkpoint.load(tmp_path / "checkpoints/last.pt")
    again = trainer(problem, tmp_path)
    again.restore(replace(saved, steps=0))
    assert again.steps == saved.steps > 0


def steps_of(folder, name):
    """Steps at which TensorBoard has a figure: each file by itself, as files of one second are not read in order."""
    found = []
    for file in (folder / "tensorboard").glob("events*"):
        events = EventAccumulator(str(file), {"scalars": 0})
        events.Reload()
        found += [event.step for event in events.Scalars(name)] if name in events.Tags()["scalars"] else []
    return sorted(found)


@pytest.mark.parametrize(("rewards", "best"), [([-1.0, -5.0, -3.0], 0), ([-5.0, -1.0, -3.0], 1)])
def test_the_best_policy_is_no_worse_than_the_head_start(problem, tmp_path, monkeypatch, rewards, best):
    run, validated = trainer(problem, tmp_path), []

    def evaluate():
        validated.append(deepcopy(run.policy.state_dict()))
        return {"reward": rewards[len(validated) - 1], "unplaced": 0.0}

    monkeypatch.setattr(run, "evaluate", evaluate)
    run.run()
    assert [row["eval_reward"] for row in run.progress] == rewards
    kept = Checkpoint.load(tmp_path / "checkpoints/best.pt")
    assert (kept.best_iteration, kept.iteration, kept.best_reward, kept.imitated) == (best, best, rewards[best], True)
    assert same(kept.policy, validated[best])


def test_a_head_start_that_leaves_workloads_unplaced_is_not_kept(problem, tmp_path, monkeypatch):
    run = trainer(problem, tmp_path)
    monkeypatch.setattr(run, "evaluate", lambda: {"reward": float("nan"), "unplaced": 3.0})
    run.run(stop_after=0)
    assert [row["iteration"] for row in run.progress] == []  # nothing was asked for yet
    run.run()
    assert [row["iteration"] for row in run.progress] == [0, 1, 2]
    assert not (tmp_path / "checkpoints/best.pt").exists()
    written = read_csv(tmp_path / "progress.csv")
    assert [(row["eval_reward"], row["eval_unplaced"]) for row in written] == [("", "3.0")] * 3


def test_a_validation_that_leaves_workloads_unplaced_is_not_chosen_over_a_complete_one(problem, tmp_path, monkeypatch):
    """What places nothing would cost nothing: the referee says NaN of it, before and after a complete one."""
    found = iter([(float("nan"), 5.0), (-3.0, 0.0), (float("nan"), 0.5)])
    run = trainer(problem, tmp_path)
    monkeypatch.setattr(run, "evaluate", lambda: dict(zip(("reward", "unplaced"), next(found), strict=True)))
    run.run()
    assert (run.best_iteration, run.best_reward) == (1, -3.0)
    assert Checkpoint.load(tmp_path / "checkpoints/best.pt").iteration == 1


def test_checkpoints_of_other_versions(problem, tmp_path, monkeypatch):
    trainer(problem, tmp_path).run(stop_after=1)
    path = tmp_path / "checkpoints/last.pt"
    content = torch.load(path, weights_only=True)
    del content["imitated"]  # of before the head start was noted
    torch.save(content, path)
    saved = Checkpoint.load(path)
    assert (saved.iteration, saved.imitated) == (1, False)
    monkeypatch.setattr("tvwrl.agents.checkpoint.FORMAT", FORMAT + 1)
    with pytest.raises(InputError, match=f"format {FORMAT}; this is .* reads format {FORMAT + 1}"):
        Checkpoint.load(path)


def test_a_policy_that_starts_from_expected_cost_is_validated_before_it_learns_and_resumes_exactly(problem, tmp_path):
    scenario = replace(INFORMED, machines=4, workloads=16, history=6)
    informed = Problem.build(problem.trace, scenario, problem.classes, forecaster=problem.forecaster)
    whole, parts, again = (trainer(informed, tmp_path / name) for name in ("whole", "parts", "parts"))
    assert whole.run() == "finished"
    assert [row["iteration"] for row in whole.progress] == [0, 1, 2]
    assert "eval_reward" in whole.progress[0]
    parts.run(stop_after=1)
    again.restore(Checkpoint.load(tmp_path / "parts/checkpoints/last.pt"))
    assert again.run() == "finished"
    assert (tmp_path / "whole/progress.csv").read_text() == (tmp_path / "parts/progress.csv").read_text()


def test_tensorboard_says_what_its_curves_are(problem, tmp_path):
    """The event files hold the layout and the text, and the text names every curve that is there."""
    trainer(problem, tmp_path).run()
    scalars, texts, layouts = set(), "", []
    for file in (tmp_path / "tensorboard").glob("events*"):
        events = EventAccumulator(str(file))
        events.Reload()
        scalars |= set(events.Tags()["scalars"])
        for tag in events.Tags()["tensors"]:
            values = [event.tensor_proto.string_val[0] for event in events.Tensors(tag)]
            if tag == "curves/text_summary":
                texts += values[0].decode()
            if tag == "custom_scalars__config__":
                layouts += [Layout.FromString(value) for value in values]
    assert "eval/reward" in scalars
    assert [name for name in scalars if not any(fnmatchcase(name, known) for known in CURVES)] == []
    assert all(name in texts for name in ("eval/reward", "penalty/overshoot", "decisions per second"))
    charts = [chart for category in layouts[0].category for chart in category.chart]
    shown = [pattern for chart in charts for pattern in chart.multiline.tag]
    assert all(
        any(re.match(pattern, name) for name in scalars) for pattern in shown if "expected_regret" not in pattern
    )


def test_rules_are_played_on_the_sequences_that_validate_the_policy(problem, tmp_path):
    """So that they can stand in its learning curve; without forecasts, those that need them are left out."""
    rules = [make_scheduler(name) for name in ("spread", "expected-cost")]
    blind = replace(problem, forecaster=None)
    assert list(trainer(blind, tmp_path / "plain").rewards_of(rules)) == ["spread"]
    shown = Problem.build(
        problem.trace,
        replace(problem.scenario, observe_forecast=True),
        problem.classes,
        problem.sampler.unit,
        problem.forecaster,
    )
    run = trainer(shown, tmp_path / "shown")
    found = run.rewards_of(rules)
    config = run.config
    drawn = shown.sequences("validation", config.eval_sequences, config.seed, config.train_loads)
    runner = Runner(drawn, shown.machines, shown.scenario, config.seed)
    assert found == {rule.name: shown.rewards(runner, rule).mean() for rule in rules}
