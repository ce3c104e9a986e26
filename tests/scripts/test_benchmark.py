"""scripts/benchmark.py from end to end: the tasks, their tables, and the check of a submission."""

import json

import polars as pl
import pytest

import tvwrl


@pytest.fixture(scope="module")
def submission(tmp_path_factory):
    """All sequences of a task of everybody's."""
    found = tvwrl.compare({"mine": "spread"}, "google-0.3-v0", against=(), bounds=False)
    return tvwrl.submit(found, tmp_path_factory.mktemp("benchmark") / "submission", "somebody")


def test_it_lists_the_tasks(call):
    done = call("benchmark.py", "--list-tasks")
    assert done.returncode == 0, done.stderr
    assert all(f"| {name} " in done.stdout for name in tvwrl.TASK_NAMES)
    assert "comes with the package" in done.stdout
    assert "not here" in done.stdout


@pytest.mark.slow
def test_a_submission_is_checked(call, submission):
    done = call("benchmark.py", "--check", submission)
    assert done.returncode == 0, done.stderr
    assert "all 100 episodes replay" in done.stdout
    path = submission / "episodes.parquet"
    changed = pl.read_parquet(path).with_columns(machine=(pl.col("machine") + 1) % 10)
    changed.head(1).vstack(pl.read_parquet(path)[1:]).write_parquet(path)
    done = call("benchmark.py", "--check", submission)
    assert done.returncode == 2
    assert "rows.csv, line 2 (mine, sequence 0)" in done.stderr


@pytest.mark.slow
def test_it_compares_on_tasks_and_goes_on_where_it_stopped(call, tmp_path):
    command = ["benchmark.py", "--named-tasks", "google-0.3-v0,google-0.5-v0", "--schedulers", "spread,best-fit-peak"]
    command += ["--sequences", 2, "--out", tmp_path / "out"]
    done = call(*command)
    assert done.returncode == 0, done.stderr
    assert "google-0.5-v0\nLoad 0.5" in done.stdout
    rows = pl.read_csv(tmp_path / "out" / "google-0.3-v0" / "rows.csv")
    assert rows.height == 2 * 2
    facts = json.loads((tmp_path / "out" / "google-0.3-v0" / "run.json").read_text())
    assert facts["task"]["name"] == "google-0.3-v0"
    assert "google-0.5-v0: finished in" in call(*command).stdout


@pytest.mark.slow
def test_a_training_run_plays_as_it_was_trained_to_observe(call, run, tmp_path):
    command = ["benchmark.py", "--schedulers", f"spread,{run[0]}", "--sequences", 1, "--out", tmp_path / "out"]
    done = call(*command)
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "out" / "google-0.5-v0" / "run.json").read_text())
    assert facts["schedulers"]["whole"].startswith("training run whole, trained on another trace")
    played = pl.read_parquet(tmp_path / "out" / "google-0.5-v0" / "episodes.parquet")
    arrivals = [part["arrival"].to_list() for part in played.partition_by("scheduler")]
    assert arrivals[0] == arrivals[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--named-tasks", "google-0.4-v0"], "unknown task 'google-0.4-v0': did you mean"),
        (["--named-tasks", "tianchi-0.5-v0"], "needs the trace tianchi"),
        (["--sequences", 101], "sequences is 101: must be 1 to 100"),
        (["--schedulers", "bset-fit"], "'bset-fit' is neither a training run nor a scheduler"),
        (["--check", "nowhere"], "nowhere"),
    ],
)
def test_bad_input(call, options, message, tmp_path):
    done = call("benchmark.py", *options, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert message in done.stderr
