"""The agents that come with the package: they are small, say what they are, play, and begin a training."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import tvwrl
from tvwrl.agents import Checkpoint, find_checkpoint, load, load_exported, shipped_agents
from tvwrl.agents.config import PRESETS
from tvwrl.agents.head_start import check_start
from tvwrl.agents.shipped import FOLDER, located
from tvwrl.serve import open_policy
from tvwrl.types import InputError

pytest.importorskip("onnxruntime")
NAMES = ("google", "google2011", "google2019")
MOST_BYTES = 1_000_000


def test_their_names():
    assert shipped_agents() == sorted(NAMES)
    assert {file.suffix for file in FOLDER.iterdir()} == {".onnx", ".pt", ".md"}


@pytest.mark.parametrize("name", NAMES)
def test_they_are_small_and_state_licence_and_data(name):
    for suffix in (".onnx", ".pt"):
        content = located(f"shipped:{name}", suffix).read_bytes()
        assert len(content) <= MOST_BYTES
        assert not re.search(rb"/(home|work|root|tmp|usr)/", content)
    card = located(f"shipped:{name}", ".md").read_text()
    assert 'license: "apache-2.0"' in card
    terms = re.search(r"Terms of the trace: (.*)", card)
    assert terms
    assert ("CC BY 4.0" in terms[1]) == (name != "google")
    assert f"Trace `{name}`" in card
    assert "test sequences" in card  # its results


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_are_those_of_the_file_that_plays_without_series_of_the_trace(name):
    saved, exported = Checkpoint.load(find_checkpoint(Path(f"shipped:{name}"))), load(name)
    assert saved.shapes == exported.facts.shapes
    assert saved.trace["hash"] == exported.facts.trace["hash"]
    assert saved.forecaster is not None
    assert saved.forecaster.to_dict()["learnt"] is None
    assert saved.learner == saved.random == {}


def test_one_is_better_than_what_the_tutorial_begins_with():
    """On the task of its trace: above spread and near the rule it started from."""
    against = ["spread", "expected-cost", "best-fit-peak", "clairvoyant"]
    found = tvwrl.compare({"shipped": "shipped:google"}, "google-0.5-v1", 4, against, bounds=False)
    reward = {name: found.rows.filter(scheduler=name)["reward"].mean() for name in ("shipped", *against)}
    assert reward["shipped"] > 0.5 * (reward["spread"] + reward["expected-cost"])
    assert "trained on another trace" not in found.origins["shipped"]


def test_wherever_a_policy_may_stand(problem):
    scheduler, sight = open_policy("shipped:google", None)
    assert (scheduler.name, sight.scenario.step_seconds) == ("google", 1800)
    with pytest.raises(InputError, match="needs no PyTorch"):
        tvwrl.load_policy("shipped:google")
    assert load_exported("shipped:google").name == load("google").name == load("shipped:google").name
    config = replace(PRESETS["counterfactual"], start_from="shipped:google")
    check_start(config, ("cpu", "mem"), config.scenario.classes)
    with pytest.raises(InputError, match="start_from is shipped:google"):
        check_start(replace(config, hidden=8), ("cpu", "mem"), config.scenario.classes)


@pytest.mark.parametrize("name", ["googel", "", "../models/google", "google.onnx"])
def test_other_names_are_refused(name):
    with pytest.raises(InputError, match="no agent"):
        load(name)


def test_what_needs_the_state_of_training_says_how_to_get_it(call, tmp_path):
    done = call("learn-online", "--checkpoint", "shipped:google", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "tvwrl train --start-from shipped:google" in done.stderr
    assert call("export", "shipped:google").returncode == 2
