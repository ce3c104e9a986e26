"""`tvwrl.evaluate`, `make` and the rest: by hand, as one would write them in the shell, and bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tvwrl
from tvwrl import InputError
from tvwrl.experiments.evaluation import EvaluationSetup
from tvwrl.experiments.evaluation import evaluate as evaluate_problem
from tvwrl.experiments.exploring.explored import open_explored
from tvwrl.schedulers import CURRENT_LOAD, shipped_value


class First(tvwrl.HeadOfQueue):
    """Every workload goes to the first machine."""

    name, knowledge = "first", CURRENT_LOAD

    def choose(self, cluster, workload):
        return 0


def act(observation, mask):
    """The same as a function."""
    return 0


QUICK = {"sequences": 2, "bounds": False}


def test_everything_that_can_be_named_plays_on_the_same_sequences(problem, tmp_path):
    found = tvwrl.evaluate(["spread", First(), act], problem, loads=[0.3, 0.5], **QUICK)
    assert set(found.rows["scheduler"]) == {"spread", "first", "act"}
    assert found.rows.height == 3 * 2 * 2
    placed = {name: found.episodes.filter(pl.col("scheduler") == name)["machine"] for name in ("first", "act")}
    assert set(placed["act"]) == {0}
    assert placed["act"].equals(placed["first"])
    assert "-- current load and history" in str(found)
    assert "Reward of" in found.table()
    assert {path.suffix for path in found.plots} == {".png"}
    plain = evaluate_problem(
        EvaluationSetup(problem, [0.3, 0.5], 2), [tvwrl.make_scheduler("spread")], tmp_path / "plain"
    )
    drop = [name for name in plain.columns if name not in found.rows.columns or name == "decision_ms"]
    assert_frame_equal(
        found.rows.filter(pl.col("scheduler") == "spread").drop("decision_ms"), plain.drop(drop), check_row_order=False
    )


def test_one_scheduler_and_a_trace_are_enough(google):
    found = tvwrl.evaluate("spread", google, scenario=tvwrl.Scenario(machines=4, workloads=16), **QUICK)
    assert found.rows.height == 2


def test_a_rule_and_its_file_are_an_entry(problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shipped_value().save("v.npz")
    moving = replace(problem, scenario=replace(problem.scenario, moves_per_slot=2, history=20))
    name = f"expected-cost + machine-value=../{tmp_path.name}/v.npz"
    found = tvwrl.evaluate([name, "expected-cost + machine-value"], moving, out="out/one", sequences=1, bounds=False)
    assert found.rows["reward"].n_unique() == 1
    assert not list((tmp_path / "out").glob("*value*"))  # the path leads nowhere
    recorded, why = open_explored(tmp_path / "out/one").record(name, 0.5, 0, what_if=False)
    assert (why, recorded.episode.moves is not None) == ("", True)


def test_files_go_with_the_result_or_stay_where_one_says(problem, tmp_path):
    found = tvwrl.evaluate({"mine": act}, problem, out=tmp_path / "out", **QUICK)
    assert found.folder == tmp_path / "out"
    assert (tmp_path / "out" / "rows.csv").is_file()
    temporary = tvwrl.evaluate({"mine": act}, problem, **QUICK)
    folder = temporary.folder
    assert temporary.write(tmp_path / "copy") == tmp_path / "copy"
    del temporary
    assert not folder.exists()
    assert (tmp_path / "copy" / "episodes.parquet").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schedulers": "sprad"}, "'sprad' is neither a training run nor a scheduler: did you mean .*spread"),
        ({"schedulers": []}, "schedulers is empty"),
        ({"schedulers": {}}, "schedulers is empty"),
        ({"schedulers": 5}, "scheduler 5: give it a name"),
        ({"schedulers": {"mine": 5}}, "entry 'mine': it is 5: must be a function"),
        ({"schedulers": First}, "scheduler <class .*First'>: give it a name"),
        ({"schedulers": ["spread", "spread"]}, "schedulers is spread, spread: must be different"),
        ({"problem": "gogle"}, "unknown trace 'gogle'.*did you mean google"),
        ({"problem": 5}, "problem is 5: must be a Problem, a Trace, a name or a path"),
        ({"scenario": tvwrl.Scenario()}, "scenario cannot be combined with a Problem"),
        ({"scenario": {"load": 1}}, "scenario is .*: must be a tvwrl.Scenario"),
        ({"loads": "0.5"}, "loads is '0.5': must be numbers"),
        ({"loads": ["a"]}, "loads is 'a': must be a number > 0"),
        ({"loads": []}, "loads is empty"),
        ({"sequences": 0}, "sequences is 0: must be at least 1"),
        ({"sequences": 2.5}, "sequences is 2.5: must be a whole number"),
        ({"seed": -1}, "seed is -1"),
        ({"observe": {"histroy": 3}}, "observe: 'histroy'"),
    ],
)
def test_bad_input_is_refused_with_the_name_of_the_argument(problem, arguments, message):
    with pytest.raises(InputError, match=message):
        tvwrl.evaluate(**{"schedulers": {"mine": act}, "problem": problem} | arguments)


def test_a_folder_that_is_a_file_or_not_empty(problem, tmp_path):
    (tmp_path / "file").touch()
    for out, message in ((tmp_path / "file", "is a file"), (tmp_path, "not empty"), (tmp_path / "file" / "x", "file")):
        with pytest.raises(InputError, match=message):
            tvwrl.evaluate({"mine": act}, problem, out=out, **QUICK)


def test_an_error_in_a_function_names_sequence_and_slot(problem):
    with pytest.raises(InputError, match=r"'mine', sequence 0, slot .*ZeroDivisionError") as caught:
        tvwrl.evaluate({"mine": lambda observation, mask: 1 // 0}, problem, **QUICK)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"machins": 3}, "Scenario has no field 'machins': did you mean machines"),
        ({"load": "high"}, "load is 'high': must be a number > 0"),
        ({"load": 0}, "load is 0"),
        ({"machines": "ten"}, "machines is 'ten': must be a whole number"),
        ({"observe_peak": "yes"}, "observe_peak is 'yes': must be True or False"),
        ({"sample": "men"}, "sample is 'men': did you mean mean.* It must be one of mean, max"),
    ],
)
def test_a_scenario_refuses_what_it_cannot_use(fields, message):
    with pytest.raises(InputError, match=message):
        tvwrl.Scenario(**fields)


def test_schedulers_are_listed_with_what_they_know():
    every = tvwrl.list_schedulers()
    assert every["best-fit"] == CURRENT_LOAD
    assert {"clairvoyant"} <= set(tvwrl.list_schedulers("the whole future")) < set(every)
    with pytest.raises(InputError, match="did you mean the whole future"):
        tvwrl.list_schedulers("the hole future")


def test_an_environment_of_a_problem_shows_its_sequences(problem):
    env = tvwrl.make(problem, split="validation", sequences=2)
    seen, _ = env.reset(seed=0, options={"sequence": 1})
    assert seen["grid"].shape == (4, 2, 6, 8)
    envs = tvwrl.make_vec(problem, 3, sequences=2, copy=False)
    assert envs.reset(seed=0)[0]["grid"].shape == (3, 4, 2, 6, 8)
    assert env.unwrapped.simulation.sequences.demand.shape[0] == 2
    np.testing.assert_array_equal(
        env.unwrapped.simulation.sequences.arrival, problem.sequences("validation", 2, 0).arrival
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "gogle-0.5-v1"}, "unknown task 'gogle-0.5-v1': did you mean google-0.5-v1"),
        ({"task": 3}, "task is 3: must be a name"),
        ({"task": "Placement-v0", "lod": 0.3}, "no field 'lod': did you mean load"),
        ({"split": "trian"}, "split is 'trian'"),
        ({"load": 0.3}, "'load' is not an option when the environment is made from a problem"),
        ({"sequences": 0}, "sequences is 0"),
    ],
)
def test_bad_input_of_make(problem, arguments, message):
    with pytest.raises(InputError, match=message):
        tvwrl.make(**{"task": problem} | arguments)
