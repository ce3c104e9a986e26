"""Several seeds, and options in a file, from the command to what is in the folder."""

import csv
import json

import numpy as np
import pytest
import torch

from tvwrl.agents.training import Trainer

FEW = ["--iterations", 4, "--seeds", 2, "--no-deeprm", "--seed", 3]


@pytest.fixture(scope="module")
def seeds(call, tiny, trace, tmp_path_factory):
    """Two finished trainings, and what the command printed."""
    out = tmp_path_factory.mktemp("seeds") / "both"
    done = call("train", "--trace", trace, "--out", out, *tiny, *FEW)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def rows_of(file):
    with file.open() as opened:
        return list(csv.DictReader(opened))


@pytest.mark.slow
def test_the_table_is_of_the_rows_of_all_seeds(seeds):
    out, printed = seeds
    assert (out / "table.md").read_text() in printed
    own = {seed: rows_of(out / f"seed-{seed}/evaluation/rows.csv") for seed in (3, 4)}
    rewards = {
        seed: [float(r["reward"]) for r in rows if r["scheduler"] == f"seed-{seed}"] for seed, rows in own.items()
    }
    both = [float(row["reward"]) for row in rows_of(out / "rows.csv") if row["scheduler"] == "both"]
    assert sorted(both) == sorted(rewards[3] + rewards[4])
    line = next(line for line in printed.splitlines() if line.startswith("| both "))
    assert f" {np.mean(both) / 1000:.1f} [" in line
    low, high = sorted(np.mean(rewards[seed]) / 1000 for seed in rewards)
    assert f" {low:.1f} to {high:.1f} |" in line
    rule = [float(row["reward"]) for row in rows_of(out / "rows.csv") if row["scheduler"] == "spread"]
    assert rule[:2] == rule[2:]  # rules play the same sequences, whatever the seed of the training
    assert f"{(np.mean(both) - np.mean(rule)) / 1000:+.1f} [" in next(
        s for s in printed.splitlines() if "| spread" in s
    )
    curve = rows_of(out / "learning.csv")
    validated = [row for row in rows_of(out / "seed-3/progress.csv") if row["eval_unplaced"]]
    assert [row["iteration"] for row in curve] == [row["iteration"] for row in validated]
    assert [float(row["seed_3"]) for row in curve] == [float(row["eval_reward"]) / 1000 for row in validated]
    assert (out / "learning.png").stat().st_size > 10_000


@pytest.mark.slow
def test_each_seed_is_the_training_that_it_would_be_alone_and_so_is_one_from_its_file(seeds, call, tmp_path):
    out, _ = seeds
    alone = call("train", "--config", out / "seed-4/config.yaml", "--out", tmp_path / "seed-4")
    assert alone.returncode == 0, alone.stderr
    one, two = (torch.load(f / "checkpoints/last.pt", weights_only=True) for f in (out / "seed-4", tmp_path / "seed-4"))
    assert one["config"]["seed"] == 4
    assert all(torch.equal(one["policy"][name], two["policy"][name]) for name in one["policy"])
    progress = [(f / "progress.csv").read_text() for f in (out / "seed-4", tmp_path / "seed-4")]
    assert progress[0] == progress[1]


@pytest.mark.slow
def test_seeds_that_were_interrupted_continue_to_the_same_end(seeds, call, tiny, trace, tmp_path, monkeypatch):
    whole, _ = seeds
    out, iterate = tmp_path / "both", Trainer._iterate
    done = []

    def interrupted(trainer, *arguments):
        done.append(1)
        if len(done) == 6:  # in the second seed
            raise KeyboardInterrupt
        return iterate(trainer, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_iterate", interrupted)
        first = call("train", "--trace", trace, "--out", out, *tiny, *FEW)
    assert first.returncode == 130, first.stderr
    assert f"continue with: tvwrl train --resume {out}" in first.stderr
    assert not (out / "table.md").exists()
    again = call("train", "--resume", out)
    assert again.returncode == 0, again.stderr
    assert "1 are finished" in again.stderr
    assert (out / "table.md").read_text() == (whole / "table.md").read_text()
    assert (out / "learning.csv").read_text() == (whole / "learning.csv").read_text()
    assert call("train", "--resume", out).stdout == again.stdout  # nothing is left to do
    refused = call("train", "--trace", trace, "--out", out, *tiny, *FEW)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", 0], "seeds is 0: must be at least 1"),
        (["--workers", 2], "at most one per seed"),
        (["--seeds", 2, "--workers", 0], "workers is 0"),
        (["--seeds", "0,1"], "--seeds is '0,1': must be a whole number"),
        (["--config", "missing.yaml"], "--config missing.yaml"),
    ],
)
def test_bad_options(refused, trace, options, message):
    refused("train", "--trace", trace, *options, message=[message])


def test_what_a_folder_says_of_its_seeds_may_be_damaged(call, tmp_path):
    (tmp_path / "seeds.json").write_text(json.dumps({"seeds": "many"}))
    done = call("train", "--resume", tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
