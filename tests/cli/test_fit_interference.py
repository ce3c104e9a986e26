"""tvwrl interference, and tvwrl evaluate with the file that it writes: from end to end, and with bad input."""

import json

import numpy as np
import polars as pl
import pytest

from tvwrl.interference.score import InterferenceScore


@pytest.fixture(scope="module")
def file(call, trace, tmp_path_factory):
    """A score of the small trace."""
    path = tmp_path_factory.mktemp("score") / "score.npz"
    done = call("interference", "--trace", trace, "--episodes", 16, "--file", path)
    assert done.returncode == 0, done.stderr
    assert "learnt 20 of 20 services" in done.stdout
    return path


def test_the_same_seed_gives_the_same_score_whole(call, trace, file, tmp_path):
    again = tmp_path / "again.npz"
    assert call("interference", "--trace", trace, "--episodes", 16, "--file", again).returncode == 0
    first, second = (np.load(path) for path in (file, again))
    assert first.files == second.files
    assert all(np.array_equal(first[name], second[name]) for name in first.files)
    assert [path.name for path in tmp_path.iterdir()] == ["again.npz"]


def test_explains_what_pushes_the_score(call, file):
    """Of a category that presses, more instances push more; what runs is taken apart, category by category."""
    done = call("interference", "--explain", file)
    assert done.returncode == 0, done.stderr
    assert "Classes begin at" in done.stdout
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("| ")][2:]
    category, points = int(rows[0][0]), [float(cell) for cell in rows[0][2:]]
    assert points[-1] > 10
    assert sorted(points) == points
    done = call("interference", "--explain", file, "--tasks", f"{category}=5")
    assert f"{points[-1]:+.1f}" in done.stdout


@pytest.mark.slow
def test_a_trained_policy_is_compared_with_and_without(call, trace, run, tmp_path):
    few = ["--schedulers", "spread", "--laws", "memory", "--sequences", 1, "--seeds", "0,1", "--episodes", 16]
    done = call("reproduce", "pism-schedulers", "--checkpoint", run[0], *few, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    named = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("| memory: ")]
    assert named == [f"memory: {one}{way}" for one in ("whole", "spread") for way in ("", " + utilisation", " + pism")]


@pytest.mark.slow
def test_schedulers_and_a_policy_take_the_file(call, trace, run, file, tmp_path):
    """The placements differ from those without it, and its name is beside theirs in every file."""
    out = tmp_path / "evaluation"
    names = f"spread,spread+pism={file},policy+pism={file}"
    options = ["--schedulers", names, "--sequences", 2, "--no-bounds", "--out", out]
    done = call("evaluate", "--checkpoint", run[0], *options)
    assert done.returncode == 0, done.stderr
    assert "scores of interference" in (out / "table.md").read_text()
    assert "16 training sequences" in json.loads((out / "run.json").read_text())["scores"][str(file)]
    played = pl.read_parquet(out / "episodes.parquet")
    assert set(played["scheduler"]) == {"whole", "whole+pism", "spread", "spread+pism"}
    for name in ("whole", "spread"):
        alone, together = (
            played.filter(pl.col("scheduler") == one).sort("load", "sequence", "workload_id")["machine"]
            for one in (name, f"{name}+pism")
        )
        assert (alone != together).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--law", "gravity"], ["law is 'gravity': must be one of memory"]),
        (["--episodes", "15"], ["episodes is 15", "at least 16"]),
        (["--load", "0"], ["load is 0"]),
        (["--data", "folder"], ["--trace and --data cannot be combined", "one of"]),
        (["--explain", "score.npz"], ["--trace and --explain cannot be combined"]),
        (["--tasks", "3=1"], ["--tasks needs --explain"]),
        (["--services", "30"], ["--services needs --data"]),
        (["--hours", "2"], ["--hours needs --data"]),
    ],
)
def test_bad_options(refused, trace, options, message):
    refused("interference", "--trace", trace, *options, message=message)


def test_batch_tasks_give_a_score_too(call, batch_data, tmp_path):
    """Of two days of an hour on three machines; the file tells what it was learnt from."""
    file = tmp_path / "score.npz"
    small = ["--machines", 3, "--services", 24, "--hours", 1]
    done = call("interference", "--data", batch_data, *small, "--file", file)
    assert done.returncode == 0, done.stderr
    score = InterferenceScore.load(file)
    assert len(score.services) == 24
    explained = call("interference", "--explain", file).stdout
    assert "two simulated days of 1 h of batch tasks on 3 machines" in explained
    wrong = {"--load": "--load needs --trace", "--episodes": "needs --trace", "--services": "must be at least"}
    for option, message in wrong.items():
        done = call("interference", "--data", batch_data, option, 0, "--file", file)
        assert message in done.stderr


def test_more_instances_than_a_machine_can_run_are_refused(call, file):
    for count in ("100001", "99999999999999999999999"):
        done = call("interference", "--explain", file, "--tasks", f"13={count}")
        assert done.returncode == 2
        assert "no machine runs more than 100,000 instances" in done.stderr
    assert "cannot be combined with --explain" in call("interference", "--explain", file, "--file", "x.npz").stderr


def test_bad_sources(refused, call, file, tmp_path):
    refused("interference", message=["give --trace, --data or --explain"])
    refused("interference", "--data", tmp_path, message=["ali18_usage_tasks.csv.gz", "cannot be read"])
    assert "--file is missing" in call("interference", "--trace", "google").stderr
    for bad in ("60=1", "3", "3=x", "-1=2"):
        done = call("interference", "--explain", file, f"--tasks={bad}")
        assert (done.returncode, f"tasks is '{bad}'" in done.stderr) == (2, True)


def test_bad_files_are_refused_before_anything_is_played(call, refused, trace, file, tmp_path):
    cut, other, blind = (tmp_path / name for name in ("cut.npz", "other.npz", "blind.npz"))
    cut.write_bytes(file.read_bytes()[:500])
    np.savez(other, x=np.zeros(3))
    score = InterferenceScore.load(file)
    score.thresholds = None
    score.save(blind)
    for path, message in (
        (cut, "not an interference score"),
        (other, "not an interference score"),
        (tmp_path / "none.npz", "no such file"),
        (blind, "no category thresholds"),
    ):
        refused("evaluate", "--trace", trace, "--schedulers", f"spread+pism={path}", message=[message])
    refused("evaluate", "--trace", trace, "--schedulers", f"best+pism={file}", message=["scheduler is 'best'"])
    refused(
        "evaluate",
        "--trace",
        trace,
        "--schedulers",
        f"policy+pism={file}",
        message=["needs a policy", "--checkpoint RUN"],
    )
    refused("evaluate", "--trace", trace, "--schedulers", "spread+pism", message=["spread+pism=FILE"])
    done = call("interference", "--explain", cut)
    assert done.returncode == 2
    assert f"{cut}: not an interference score" in done.stderr
