"""`tvwrl.train` and `load_policy`."""

from __future__ import annotations

import pytest

import tvwrl
from tvwrl import InputError
from tvwrl.agents import PRESETS
from tvwrl.agents.training import Trainer
from tvwrl.library.training import config_from
from tvwrl.traces import write_trace

TINY = {"iterations": 2, "machines": 4, "workloads": 16, "train_sequences": 4, "eval_sequences": 3, "eval_every": 1}


@pytest.fixture(scope="module")
def run(google):
    return tvwrl.train(google, "smoke", comparison_sequences=2, imitate=1, **TINY)


@pytest.mark.slow
def test_a_policy_is_trained_compared_and_loaded(run, problem, tmp_path):
    assert {"policy", "spread", "clairvoyant"} <= set(run.rows["scheduler"])
    assert run.learning_curve["iteration"].to_list() == [0, 1, 2]
    assert run.progress["eval_reward"].max() == run.learning_curve["reward"].max()
    assert all(path.is_file() for path in run.plots)
    assert "policy" in str(run)
    folder = run.write(tmp_path / "mine")
    assert tvwrl.load_policy(folder).name == "mine"
    found = tvwrl.evaluate({"a": run, "b": folder, "c": run.policy}, run.problem, sequences=2, bounds=False)
    rewards = found.rows.sort("scheduler", "sequence")["reward"].to_numpy().reshape(3, 2)
    assert (rewards == rewards[0]).all()
    again = run.rows.filter(scheduler="policy").sort("sequence")["reward"].to_list()
    assert rewards[0].tolist() == again


@pytest.mark.slow
def test_a_run_on_a_trace_in_memory_cannot_be_opened_again(run):
    with pytest.raises(InputError, match="passed in by a program"):
        tvwrl.train(resume=run.folder)


def test_the_caller_chooses_where_progress_is_reported(google, monkeypatch, capsys):
    monkeypatch.setattr(Trainer, "run", lambda trainer: "SIGINT")  # what follows would take seconds
    reported = []
    for more in ({}, {"report": reported.append}, {"report": None}):
        with pytest.raises(KeyboardInterrupt):
            tvwrl.train(google, "smoke", **more, **TINY)
        out, shown = capsys.readouterr()
        assert out == ""
        assert shown.startswith("scale: ") != bool(more)
        assert more or shown.endswith("stopped after iteration 0\n")
    assert reported[0].startswith("scale: ")


def test_an_interrupted_training_says_how_to_continue(google, monkeypatch, tmp_path):
    monkeypatch.setattr(Trainer, "run", lambda trainer: "SIGINT")
    write_trace(google, tmp_path / "trace")
    for trace, out, again in (
        (tmp_path / "trace", tmp_path / "run", f"; continue with: tvwrl.train(resume='{tmp_path / 'run'}')"),
        (tmp_path / "trace", None, ""),
        (google, tmp_path / "other", ""),  # nobody can open it again
    ):
        told = []
        with pytest.raises(KeyboardInterrupt):
            tvwrl.train(trace, "smoke", out=out, report=told.append, **TINY)
        assert told[-1] == f"stopped after iteration 0{again}"


def test_changes_go_to_the_preset_and_its_scenario():
    made = config_from("smoke", None, {"iterations": 3, "load": 0.8, "train_loads": [0.3, 0.8]})
    assert (made.iterations, made.scenario.load, made.train_loads) == (3, 0.8, (0.3, 0.8))
    assert made.learning_rate == PRESETS["smoke"].learning_rate
    assert config_from(None, None, {}) == PRESETS["counterfactual"]
    assert config_from(None, None, {"algo": "ppo"}) == PRESETS["medium"]
    own = tvwrl.Scenario(machines=3)
    assert config_from("paper", own, {}).scenario == own


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trace": "gogle"}, "unknown trace 'gogle'.*did you mean google"),
        ({"trace": "google-0.5-v1"}, "this is a task of the benchmark; name its trace, synthetic:google$"),
        ({"trace": 3}, "trace is 3: must be a Trace"),
        ({"preset": "smok"}, "preset is 'smok': did you mean smoke.* It must be one of"),
        ({"iteratons": 3}, "there is no option 'iteratons': did you mean iterations"),
        ({"iterations": 0}, "iterations is 0"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast': must be a number > 0"),
        ({"load": 0.3, "scenario": tvwrl.Scenario()}, "load cannot be combined with scenario"),
        ({"resume": "x", "iterations": 3}, "resume continues with the run's own settings"),
        ({"resume": "nowhere"}, "no run folder nowhere"),
        ({"device": "abacus"}, "abacus"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        tvwrl.train(**arguments)


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        tvwrl.train("google", "smoke", out=tmp_path / "file")


def test_a_trace_that_is_no_name():
    with pytest.raises(InputError, match="trace is 5: must be a name or a path"):
        tvwrl.open_trace(5)


def test_a_policy_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no such run folder"):
        tvwrl.load_policy(tmp_path / "nothing")
    (tmp_path / "x.pt").write_text("no weights")
    with pytest.raises(InputError, match="truncated or not a checkpoint"):
        tvwrl.load_policy(str(tmp_path / "x.pt"))
