"""tvwrl tune from end to end: it continues, runs trials at a time, and refuses bad input."""

import csv
import json
import sys
from dataclasses import replace
from unittest import mock

import pytest

from tvwrl.agents.config import PRESETS
from tvwrl.agents.training import Trainer
from tvwrl.cli.dispatch import line_of
from tvwrl.experiments.hyperparameter_search import Search, load_search
from tvwrl.experiments.tune_command import OF_THE_SEARCH, train_command

pytest.importorskip("optuna")


def rows(folder):
    """trials.csv as dicts."""
    with (folder / "trials.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("preset", ["smoke", "medium", "paper", "deeprm"])
def test_the_command_trains_with_the_parameters(trace, preset):
    base = replace(PRESETS[preset], scenario=replace(PRESETS[preset].scenario, machine_types=("2x8,8", "1x0")))
    search = Search(str(trace), None, "temporal", base)
    chosen = {"learning_rate": 0.0023, "hidden": 32, "epochs": 2}
    words = train_command(search, chosen)
    assert words[:2] == ["tvwrl", "train"]
    parsed = line_of(words[1:]).parsed()
    asked = search.config(chosen)
    left = {name: getattr(parsed.config, name) for name in OF_THE_SEARCH}
    assert parsed.config == replace(asked, **left)
    assert parsed.trace == search.trace


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "0"], ["trials is 0: must be at least 1"]),
        (["--resume", "runs", "--gamma", "1"], ["--resume", "--trials"]),
        (["--resume", "no-such-folder"], ["no-such-folder", "no search"]),
    ],
)
def test_bad_arguments(refused, trace, arguments, message):
    refused("tune", *([] if "--resume" in arguments else ["--trace", trace]), *arguments, message=message)


def test_optuna_is_asked_for(refused, trace, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    refused("tune", "--trace", trace, message=["pip install '.[tune]'"])


@pytest.mark.slow
@pytest.mark.outside
def test_an_interrupted_search_continues_with_two_trials_at_a_time(call, trace, tiny, tmp_path, monkeypatch):
    out = tmp_path / "search"
    options = ["--trace", trace, "--out", out, *tiny, "--iterations", 2, "--trials", 2]
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "evaluate", mock.Mock(side_effect=KeyboardInterrupt))
        stopped = call("tune", *options)
    assert stopped.returncode == 130, stopped.stderr
    assert "stopped; continue with:" in stopped.stderr
    assert "0 of 2 cells are finished" in call("tune", "--resume", out, "--trials", 2, "--dry-run").stdout
    done = call("tune", "--resume", out, "--trials", 2, "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert [row["state"] for row in rows(out)] == ["fail", "complete", "complete"]
    assert rows(out)[1]["retry_of"] == "0"
    names = list(load_search(out)[0].space)
    assert [rows(out)[0][name] for name in names] == [rows(out)[1][name] for name in names]
    best = json.loads((out / "best.json").read_text())
    assert best["command"] in done.stdout
    assert max(float(row["reward"]) for row in rows(out)[1:]) == best["reward"]
    policy = ["--checkpoint", out / best["run"], "--sequences", 1, "--schedulers", "best-fit", "--no-bounds"]
    evaluated = call("evaluate", *policy, "--out", tmp_path / "evaluation")
    assert evaluated.returncode == 0, evaluated.stderr
