"""tvwrl train from end to end: training, resuming, signals, and what bad input gets to hear."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.experiments.exploring.explored import open_explored
from tvwrl.schedulers.runner import Runner

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_training_ends_with_the_comparison(run):
    out, printed = run
    assert "trace 'google' (synthetic)" in printed.splitlines()[-3]
    assert "explorer.html" in printed.splitlines()[-2]
    for name in ("deeprm", "tetris", "best-fit", "clairvoyant", "whole"):
        assert f"\n{name} " in printed
    assert {p.name for p in (out / "checkpoints").iterdir()} == {"last.pt", "best.pt", "initial.pt"}
    assert json.loads((out / "run.json").read_text())["trace"]["source"] == "synthetic"
    assert list((out / "tensorboard").glob("events*"))
    assert (out / "evaluation/plots/comparison.png").exists()
    assert not list(out.rglob("*.partial"))
    explored = open_explored(out)
    assert explored.record("deeprm", explored.loads[0], 0, what_if=False)[1] == ""  # made again from its checkpoint


@pytest.mark.slow
def test_resuming_continues_bit_exactly(call, tiny, run, trace, tmp_path, monkeypatch):
    """After a stop in the training, and after one in the comparison."""
    whole, _ = run
    out = tmp_path / "parts"
    first = call("train", "--trace", trace, "--out", out, *tiny, "--iterations", 6, "--stop-after", 3)
    assert first.returncode == 0, first.stderr
    assert "--resume" in first.stderr
    assert not (out / "evaluation").exists()
    play = Runner.play

    def interrupted(runner, scheduler, sequence, **options):
        if scheduler.name == "best-fit":  # which only the comparison plays
            raise KeyboardInterrupt
        return play(runner, scheduler, sequence, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Runner, "play", interrupted)
        second = call("train", "--resume", out)
    assert second.returncode == 130, second.stderr
    assert f"continue with: tvwrl train --resume {out}" in second.stderr
    assert [path.name for path in (out / "evaluation").iterdir()] == ["cells"]
    third = call("train", "--resume", out)
    assert third.returncode == 0, third.stderr
    assert third.stdout.splitlines()[-5] == run[1].splitlines()[-5]  # of the table
    assert row_of("deeprm", third.stdout) == row_of("deeprm", run[1])
    one, two = (torch.load(f / "checkpoints/last.pt", weights_only=True) for f in (whole, out))
    assert one["iteration"] == two["iteration"] == 6
    for part in ("policy", "learner", "random"):
        assert_equal(one[part], two[part])
    assert (one["best_reward"], one["best_iteration"]) == (two["best_reward"], two["best_iteration"])
    assert (whole / "progress.csv").read_text() == (out / "progress.csv").read_text()


@pytest.mark.slow
def test_deeprm_is_trained_resumed_and_evaluated_like_any_policy(call, refused, run, tiny, trace, tmp_path):
    options = ["--policy", "deeprm", "--trace", trace, *tiny, "--iterations", 4]
    assert call("train", "--out", tmp_path / "deeprm", *options, "--stop-after", 3).returncode == 0
    done = call("train", "--resume", tmp_path / "deeprm")
    assert done.returncode == 0, done.stderr
    assert "\ndeeprm " in done.stdout
    progress = (tmp_path / "deeprm" / "progress.csv").read_text()
    assert {"slowdown", "unused", "eval_reward", "eval_wait_mean"} < set(progress.splitlines()[0].split(","))

    score = tmp_path / "score.npz"
    assert call("interference", "--trace", trace, "--episodes", 16, "--file", score).returncode == 0
    deeprm = f"deeprm={tmp_path / 'deeprm'}"
    few = ["--trace", trace, "--sequences", 1, "--no-bounds"]
    for more in ([], ["--checkpoint", run[0]]):
        out = tmp_path / f"evaluation{len(more)}"
        done = call("evaluate", "--schedulers", f"tetris,{deeprm},{deeprm}+pism={score}", *few, *more, "--out", out)
        assert done.returncode == 0, done.stderr
        assert "\ndeeprm " in done.stdout
        assert "\ndeeprm+pism " in done.stdout
        assert "`deeprm`: peaks of running and waiting workloads, and how long" in (out / "table.md").read_text()
    refused("evaluate", "--schedulers", f"deeprm={run[0]}", message=["policy 'shared'", "--policy deeprm"])


def row_of(scheduler, printed):
    """A scheduler's row of the table."""
    return next(line for line in printed.splitlines() if line.startswith(f"{scheduler} "))


def assert_equal(one, two):
    """Nested dicts, lists, tensors and numbers are the same to the bit."""
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, two)
    elif isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            assert_equal(one[key], two[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_equal(a, b)
    else:
        assert one == two


def check_resumes(call, out, printed):
    """A stopped run says where it stopped, and continues from its checkpoint; returns that iteration."""
    saved = torch.load(out / "checkpoints/last.pt", weights_only=True)["iteration"]
    if saved:
        with (out / "progress.csv").open() as file:
            assert int(list(csv.DictReader(file))[-1]["iteration"]) == saved
        assert f"stopped after iteration {saved}" in printed
    assert f"continue with: tvwrl train --resume {out}" in printed
    resumed = call("train", "--resume", out, "--stop-after", 1)
    assert resumed.returncode == 0, resumed.stderr
    assert torch.load(out / "checkpoints/last.pt", weights_only=True)["iteration"] == saved + 1
    return saved


@pytest.mark.slow
def test_ctrl_c_leaves_a_checkpoint_to_resume_from(call, tiny, trace, tmp_path):
    out = tmp_path / "stopped"
    arguments = ["--trace", trace, "--out", out, *tiny, "--iterations", 100_000]
    command = [sys.executable, str(ROOT / "scripts/train.py"), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.time() + 600
        while not (out / "progress.csv").exists() and time.time() < deadline and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    check_resumes(call, out, errors)


@pytest.mark.slow
@pytest.mark.parametrize(("step", "iteration"), [("run", 0), ("_iterate", 1)])  # before the training, and within
def test_sigterm_leaves_a_checkpoint_to_resume_from(call, tiny, trace, tmp_path, monkeypatch, step, iteration):
    out, undisturbed = tmp_path / "stopped", getattr(Trainer, step)

    def terminated(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return undisturbed(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, step, terminated)
        stopped = call("train", "--trace", trace, "--out", out, *tiny, "--iterations", 3)
    assert stopped.returncode == 143, stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert check_resumes(call, out, stopped.stderr) == iteration


@pytest.mark.slow
def test_resuming_a_finished_run_shows_its_comparison_again(call, run):
    before = (run[0] / "evaluation/rows.csv").read_bytes()
    again = call("train", "--resume", run[0])
    assert again.returncode == 0, again.stderr
    assert (run[0] / "evaluation/rows.csv").read_bytes() == before
    assert "\nclairvoyant " in again.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trace", "nowhere"], ["nowhere", "google"]),
        (["--device", "tpu"], ["tpu", "cuda"]),
        (["--gamma", "2"], ["gamma is 2.0: must be 0 to 1"]),
        (["--stop-after", "0"], ["stop_after"]),
        (["--resume", "run", "--iterations", "9"], ["--resume", "--stop-after"]),
    ],
)
def test_bad_arguments(refused, trace, arguments, message):
    refused("train", *([] if "--trace" in arguments else ["--trace", trace]), *arguments, message=message)


def test_what_cannot_be_trained_on_is_refused_before_minutes_of_preparation(refused, trace, tmp_path, monkeypatch):
    def prepared(*arguments, **named):
        raise AssertionError("prepared")

    monkeypatch.setattr(Problem, "build", prepared)
    options = ["--trace", trace, "--iterations", 5]
    refused("train", *options, "--also", "no-such-trace", message=["unknown trace 'no-such-trace'"])
    refused("train", *options, "--also", trace, message=["it has the same content as trace 'google'"])
    refused("train", *options, "--start-from", tmp_path, message=["no checkpoint in this run"])


def test_a_run_cannot_be_called_like_a_scheduler(call, trace, tmp_path):
    done = call("train", "--trace", trace, "--out", tmp_path / "tetris")
    assert done.returncode == 2
    assert "tetris" in done.stderr
    assert not (tmp_path / "tetris").exists()


def test_only_a_run_can_be_resumed(refused):
    refused("train", "--resume", "no-such-run", message=["no-such-run"])
