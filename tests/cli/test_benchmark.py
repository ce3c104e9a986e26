"""tvwrl benchmark from end to end: the tasks, their tables, and the check of a submission."""

import polars as pl
import pytest

import tvwrl


@pytest.fixture(scope="module")
def submission(tmp_path_factory):
    """All sequences of a task of everybody's, played by the first machine with room."""
    file = tmp_path_factory.mktemp("entry") / "mine.py"
    file.write_text("def entry(observation, mask):\n    return int(mask.argmax())\n")
    found = tvwrl.compare({"mine": file}, "google-0.3-v1", against=(), bounds=False)
    return tvwrl.submit(found, tmp_path_factory.mktemp("benchmark") / "submission", "somebody")


def test_it_lists_the_tasks(call):
    done = call("benchmark", "--list-tasks")
    assert done.returncode == 0, done.stderr
    assert all(f"| {name} " in done.stdout for name in tvwrl.TASK_NAMES)
    assert "comes with the package" in done.stdout
    assert "not here" in done.stdout


@pytest.mark.slow
def test_a_submission_is_checked(call, submission):
    done = call("benchmark", "--check", submission)
    assert done.returncode == 0, done.stderr
    assert "all 100 episodes replay" in done.stdout
    assert "-- declared requests" in done.stdout
    assert "dearer on fresh [95 %]" in done.stdout
    path = submission / "episodes.parquet"
    changed = pl.read_parquet(path).with_columns(machine=(pl.col("machine") + 1) % 10)
    changed.head(1).vstack(pl.read_parquet(path)[1:]).write_parquet(path)
    done = call("benchmark", "--check", submission)
    assert done.returncode == 2
    assert "rows.csv, line 2 (mine, sequence 0)" in done.stderr


@pytest.mark.slow
def test_it_plays_tasks_and_goes_on_where_it_stopped(call, run, tmp_path):
    command = ["benchmark", "--named-tasks", "google-0.3-v1,google-0.5-v1", "--schedulers", "spread,best-fit-peak"]
    command += ["--runs", f"mine={run[0]}", "--sequences", 2, "--out", tmp_path / "out"]
    done = call(*command)
    assert done.returncode == 0, done.stderr
    assert "# google-0.5-v1" in done.stdout
    written = tmp_path / "out" / "benchmark"
    rows = pl.read_csv(written / "rows.csv")
    assert rows.height == 2 * 3 * 2
    assert set(rows["scheduler"]) == {"spread", "best-fit-peak", "mine"}
    assert {path.name for path in written.iterdir()} >= {
        "table.md",
        "benchmark.html",
        "benchmark.csv",
        "google-0.3-v1.png",
    }
    assert "6 of 6" in call(*command, "--dry-run").stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--named-tasks", "google-0.4-v1"], "unknown task 'google-0.4-v1': did you mean"),
        (["--named-tasks", "tianchi-0.5-v1"], "needs the trace tianchi"),
        (["--sequences", 0], "sequences is 0: must be at least 1"),
        (["--schedulers", "bset-fit"], "'bset-fit' is neither a training run nor a scheduler"),
        (["--schedulers", "."], "--schedulers . is a training run: write --runs NAME=."),
        (["--runs", "mine=nowhere"], "--runs mine=nowhere: no such folder"),
        (["--check", "nowhere"], "nowhere"),
        (["--submissions", "nowhere"], "nowhere holds no submission: tvwrl.submit writes one"),
    ],
)
def test_bad_input(call, options, message, tmp_path):
    done = call("benchmark", *options, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert message in done.stderr
