"""The hyper-parameter search: its space, pruning, interruptions and failures of trials, refusal of another search."""

import csv
import json
from dataclasses import replace
from typing import get_args

import pytest

from tvwrl.agents.config import ALGORITHMS, PRESETS, TrainConfig
from tvwrl.experiments import hyperparameter_search as module
from tvwrl.experiments.engine import complete
from tvwrl.experiments.hyperparameter_search import SPACE, Search, TrialCell, load_search, load_study, open_search
from tvwrl.experiments.tune_command import write_report
from tvwrl.types import InputError

optuna = pytest.importorskip("optuna")
SEARCH = Search("google", None, "temporal", replace(PRESETS["smoke"], iterations=6, eval_every=2))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A search in a folder, on no trace in particular."""
    monkeypatch.setattr(module, "_problem", lambda search: (None, {"hash": search.trace}))
    open_search(SEARCH, tmp_path / "search")
    return tmp_path / "search"


@pytest.fixture
def trial(folder, monkeypatch):
    """Runs trial `number` of the search; its training only pretends to see these validation rewards, or raises one."""

    def run(number, *rewards):
        class Pretended:
            def __init__(self, problem, config, folder, identity, report):
                self.best_reward = max((one for one in rewards if isinstance(one, float)), default=0.0)

            def save(self):
                pass

            def run(self):
                for i, reward in enumerate(rewards):
                    if isinstance(reward, BaseException):
                        raise reward
                    self.on_validation(2 * (i + 1), reward)
                return "finished"

        monkeypatch.setattr("tvwrl.agents.Trainer", Pretended)
        failed = complete(folder, [TrialCell(SEARCH, number)], report=print)
        return failed or states(folder)[-1].lower()

    return run


def rows(folder):
    """trials.csv as dicts."""
    write_report(SEARCH, folder)
    with (folder / "trials.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def states(folder):
    return [one.state.name for one in load_study(folder).trials]


def test_the_space_is_of_hyper_parameters_and_holds_the_presets():
    assert set(SPACE) <= set(TrainConfig.__dataclass_fields__)
    for algo in get_args(ALGORITHMS):
        search = replace(SEARCH, base=replace(PRESETS["counterfactual"], algo=algo))
        assert search.first.keys() == search.space.keys()
        assert search.config(search.first) == replace(search.base, horizon=search.first.get("horizon"))


def test_only_parameters_with_an_effect_are_searched():
    def space(algo):
        return replace(SEARCH, base=replace(PRESETS["counterfactual"], algo=algo)).space.keys()

    assert space("counterfactual") == SPACE.keys() - {"gamma", "gae_lambda", "clip"}
    assert space("ppo") == SPACE.keys() - {"horizon", "cost_scale"}


def test_final_values_keep_their_ratio_to_the_start():
    base = replace(SEARCH.base, learning_rate=1e-3, final_learning_rate=1e-4, entropy_bonus=0.01)
    search = replace(SEARCH, base=replace(base, final_entropy_bonus=0.001))
    config = search.config({"learning_rate": 5e-3, "entropy_bonus": 0.1})
    assert config.final_learning_rate == pytest.approx(5e-4)
    assert config.final_entropy_bonus == pytest.approx(0.01)
    assert "gae_lambda" not in replace(search, base=PRESETS["paper"]).space


def test_a_trial_without_promise_is_pruned(folder, trial, capsys):
    for number in range(5):
        assert trial(number, -9.0, -8.0, -7.0 + number) == "complete"
    assert trial(5, -20.0, -1.0, 0.0) == "pruned"
    assert trial(6, -8.5, -7.0, -2.0) == "complete"
    assert "trial 5: pruned, -20\n" in capsys.readouterr().err
    assert "best of 7 trials: -2 " in write_report(SEARCH, folder)
    assert rows(folder)[5]["iterations"] == "2"
    assert rows(folder)[0]["learning_rate"] == str(SEARCH.base.learning_rate)  # the first trial is the preset
    best = json.loads((folder / "best.json").read_text())
    assert (best["trial"], best["run"]) == (6, "cells/trial-6")
    assert (folder / "search.png").stat().st_size > 10_000


def test_finished_trials_are_not_run_again(folder, trial):
    assert trial(0, -9.0) == trial(0, -9.0) == "complete"
    assert len(rows(folder)) == 1


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interruption_gives_the_parameters_back(folder, trial, stop):
    with pytest.raises(stop):
        trial(0, stop())
    assert states(folder) == ["FAIL", "WAITING"]
    assert trial(0, -8.0) == "complete"
    failed, again = load_study(folder).trials
    assert again.params == failed.params
    assert again.user_attrs["retry_of"] == 0


def test_a_trial_whose_process_was_killed_is_retried(folder, trial):
    asked = load_study(folder).ask()  # and never answered
    asked.set_user_attr("cell", "trial-0")
    parameters = {name: one.suggest(asked, name) for name, one in SEARCH.space.items()}
    load_study(folder).ask().set_user_attr("cell", "trial-1")  # still runs, in another process
    open_search(SEARCH, folder)
    assert trial(0, -8.0) == "complete"
    assert states(folder) == ["FAIL", "RUNNING", "COMPLETE"]
    assert load_study(folder).trials[2].params == parameters


def test_a_failing_trial_is_named_and_its_parameters_are_dropped(folder, trial):
    assert trial(0, OSError("no space left")) == {"trial-0": "OSError: no space left"}
    assert states(folder) == ["FAIL"]
    assert trial(1, InputError("diverged")) == "pruned"
    assert rows(folder)[1]["trouble"] == "diverged"


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"base": replace(SEARCH.base, eval_every=3)}, "config.eval_every is 2 there, 3 here"),
        ({"base": replace(SEARCH.base, scenario=replace(SEARCH.base.scenario, load=0.9))}, "config.scenario.load"),
        ({"trace": "alibaba"}, "trace_hash"),
        ({"ec": "dtw"}, "ec is temporal there, dtw here"),
    ],
)
def test_another_search_is_refused(folder, change, difference):
    assert load_search(folder)[0] == SEARCH
    with pytest.raises(InputError, match=difference):
        open_search(replace(SEARCH, **change), folder)


@pytest.mark.parametrize("damage", [b"", b"nonsense" * 1000, None])
def test_a_damaged_study_is_named(folder, damage):
    whole = (folder / "study.db").read_bytes()
    (folder / "study.db").write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    with pytest.raises(InputError, match=r"study\.db"):
        open_search(SEARCH, folder)
    (folder / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json is damaged"):
        load_search(folder)
