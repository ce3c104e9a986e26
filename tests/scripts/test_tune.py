"""scripts/tune.py from end to end: searching, going on after a kill, pruning, and what bad input gets to hear."""

import csv
import importlib.util
import json
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from tvwrl.agents.config import PRESETS, TrainConfig
from tvwrl.bench import tuning
from tvwrl.bench.search_space import SPACE
from tvwrl.bench.tuning import Search, load_study, open_search, run_trial
from tvwrl.bench.tuning_report import OF_THE_SEARCH, train_command, write_report
from tvwrl.types import InputError

optuna = pytest.importorskip("optuna")
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
UNTIL_KILLED = 40  # iterations of a trial that is killed in the middle


@pytest.fixture
def search(trace):
    """A search on the small trace."""
    return Search(str(trace), None, "temporal", replace(PRESETS["smoke"], iterations=6, eval_every=2))


@pytest.fixture
def study(search, tmp_path, monkeypatch):
    """Its study in a folder, with trainings that only pretend: `rewards` of a trial -> trial's result."""
    monkeypatch.setattr(tuning, "_world", lambda search: (None, {}))
    open_search(search, tmp_path / "study")

    def trial(*rewards):
        class Pretended:
            def __init__(self, problem, config, folder, identity, report):
                self.best_reward = max(rewards)

            def save(self):
                pass

            def run(self):
                for i, reward in enumerate(rewards):
                    self.judged(2 * (i + 1), reward)
                return "finished"

        monkeypatch.setattr(tuning, "Trainer", Pretended)
        return run_trial(search, tmp_path / "study", None)

    return trial, tmp_path / "study"


def rows(folder):
    """trials.csv as dicts."""
    with (folder / "trials.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_space_is_of_hyper_parameters_and_holds_the_presets():
    assert set(SPACE) <= set(TrainConfig.__dataclass_fields__)
    assert all(one.holds(getattr(PRESETS["fast"], name)) for name, one in SPACE.items())


def test_final_values_keep_their_ratio_to_the_start(search):
    base = replace(search.base, learning_rate=1e-3, final_learning_rate=1e-4, entropy_bonus=0.01)
    search = replace(search, base=replace(base, final_entropy_bonus=0.001))
    config = search.config({"learning_rate": 5e-3, "entropy_bonus": 0.1})
    assert config.final_learning_rate == pytest.approx(5e-4)
    assert config.final_entropy_bonus == pytest.approx(0.01)
    assert "gae_lambda" not in replace(search, base=PRESETS["paper"]).space


def test_a_trial_without_promise_is_pruned(study, search):
    trial, folder = study
    for best in range(5):
        assert trial(-9.0, -8.0, -7.0 + best)["state"] == "complete"
    assert trial(-20.0, -1.0, 0.0) == {"number": 5, "reward": -20.0, "state": "pruned"}
    assert trial(-8.5, -7.0, -2.0)["state"] == "complete"
    said = write_report(search, folder)
    assert "best of 7 trials: -2 " in said
    assert rows(folder)[5]["iterations"] == "2"
    assert rows(folder)[0]["learning_rate"] == str(search.base.learning_rate)  # the first trial is the preset
    assert json.loads((folder / "best.json").read_text())["trial"] == 6
    assert (folder / "search.png").stat().st_size > 10_000


def test_an_interrupted_trial_is_tried_again(study, search):
    trial, folder = study
    trial(-9.0)
    asked = load_study(folder).ask()  # and never answered: the process was killed
    parameters = {name: one.suggest(asked, name) for name, one in search.space.items()}
    open_search(search, folder)
    with tuning.alone(folder):
        assert trial(-8.0)["number"] == 2
    _, failed, again = load_study(folder).trials
    assert failed.state == optuna.trial.TrialState.FAIL
    assert again.params == parameters
    assert again.user_attrs == {"retry_of": 1}


def test_a_search_at_work_keeps_its_trial(study, search):
    _, folder = study
    with tuning.alone(folder):
        load_study(folder).ask()  # the trial that the other search is training
        open_search(search, folder)
        with pytest.raises(InputError, match="another process"), tuning.alone(folder):
            pass
        assert [one.state.name for one in load_study(folder).trials] == ["RUNNING"]


def test_an_interruption_gives_the_trial_back(study, search, monkeypatch):
    _, folder = study
    monkeypatch.setattr(tuning, "_train", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run_trial(search, folder, None)
    states = [one.state.name for one in load_study(folder).trials]
    assert states == ["FAIL", "WAITING"]


def test_another_study_is_refused(study, search, google, monkeypatch):
    _, folder = study
    other = replace(search, base=replace(search.base, eval_every=3))
    with pytest.raises(InputError, match="eval_every 2, not 3"):
        open_search(other, folder)
    with pytest.raises(InputError, match="load"):
        open_search(
            replace(search, base=replace(search.base, scenario=replace(search.base.scenario, load=0.9))), folder
        )
    with pytest.raises(InputError, match="another trace"):
        open_search(replace(search, trace="google"), folder)
    with tuning.alone(folder), pytest.raises(InputError, match="another process"), tuning.alone(folder):
        pass


@pytest.mark.parametrize("damage", [b"", b"nonsense" * 1000, None])
def test_a_damaged_study_is_named(study, search, damage):
    _, folder = study
    whole = (folder / "study.db").read_bytes()
    (folder / "study.db").write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    with pytest.raises(InputError, match=r"study\.db"):
        open_search(search, folder)
    (folder / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json is damaged"):
        Search.of(folder)


@pytest.mark.parametrize("preset", ["fast", "paper", "smoke", "deeprm"])
def test_the_command_trains_with_the_parameters(search, preset):
    base = replace(PRESETS[preset], scenario=replace(PRESETS[preset].scenario, machine_types=("2x8,8", "1x0")))
    search = replace(search, base=base)
    chosen = {"learning_rate": 0.0023, "hidden": 32, "epochs": 2}
    words = train_command(search, chosen)
    spec = importlib.util.spec_from_file_location("train_script", SCRIPTS / "train.py")
    script = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, train_script=script), mock.patch.object(sys, "argv", words[1:]):
        spec.loader.exec_module(script)
        parsed = script.parse()
    asked = search.config(chosen)
    left = {name: getattr(parsed.config, name) for name in OF_THE_SEARCH}
    assert parsed.config == replace(asked, **left)
    assert parsed.trace == search.trace


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--trials", "0"], ["trials is 0", "at least 1"]),
        (["--timeout-minutes", "0"], ["timeout_minutes"]),
        (["--resume", "runs", "--gamma", "1"], ["--resume", "--trials"]),
        (["--resume", "no-such-folder"], ["no-such-folder", "no study"]),
    ],
)
def test_bad_arguments(refused, trace, arguments, said):
    refused("tune.py", *([] if "--resume" in arguments else ["--trace", trace]), *arguments, said=said)


def test_optuna_is_asked_for(refused, trace, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    refused("tune.py", "--trace", trace, said=["pip install 'tvwrl[tune]'"])


@pytest.mark.slow
def test_a_search_goes_on_after_a_kill(call, trace, tiny, tmp_path):
    out = tmp_path / "search"
    options = ["--trace", trace, "--out", out, *tiny, "--iterations", UNTIL_KILLED, "--trials", 2]
    command = [sys.executable, str(SCRIPTS / "tune.py"), *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.time() + 600
        while not (out / "trials/0/progress.csv").exists() and time.time() < deadline and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    done = call("tune.py", "--resume", out, "--trials", 2)
    assert done.returncode == 0, done.stderr
    assert [row["state"] for row in rows(out)] == ["fail", "complete", "complete"]
    assert rows(out)[1]["retry_of"] == "0"
    names = list(Search.of(out).space)
    assert [rows(out)[0][name] for name in names] == [rows(out)[1][name] for name in names]
    best = json.loads((out / "best.json").read_text())
    assert best["command"] in done.stdout
    assert max(float(row["reward"]) for row in rows(out)[1:]) == best["reward"]
    trained = call("evaluate.py", "--checkpoint", out / "trials" / str(best["trial"]), "--sequences", 2,
                   "--trace", trace, "--out", tmp_path / "evaluation")  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    words = [*shlex.split(best["command"])[2:], "--iterations", "2", "--comparison-sequences", "2"]
    assert call("train.py", *words, "--out", tmp_path / "again").returncode == 0


@pytest.mark.slow
def test_jobs_run_at_the_same_time(call, trace, tiny, tmp_path):
    options = ["--trace", trace, "--out", tmp_path / "search", *tiny, "--iterations", 2, "--trials", 3, "--jobs", 2]
    done = call("tune.py", *options)
    assert done.returncode == 0, done.stderr
    assert sum(row["state"] == "complete" for row in rows(tmp_path / "search")) == 3
