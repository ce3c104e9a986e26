"""Several seeds, and options in a file, from the command to what is in the folder."""

import csv
import json
import shutil

import numpy as np
import polars as pl
import pytest
import torch

from tvwrl.agents.training import Trainer
from tvwrl.experiments.seeds import combine
from tvwrl.types import InputError

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


@pytest.mark.slow
def test_a_seed_that_kept_its_initial_policy_counts_as_no_gain(seeds, tmp_path):
    """Otherwise the mean over all seeds would be compared with the initial policies of those that training improved."""
    out = tmp_path / "both"
    shutil.copytree(seeds[0], out)
    rows = {seed: pl.read_csv(out / f"seed-{seed}/evaluation/rows.csv") for seed in (3, 4)}
    gains = {3: 0.0, 4: 5000.0}
    for seed, own in rows.items():
        policy = own.filter(scheduler=f"seed-{seed}")
        initial = policy.with_columns(
            scheduler=pl.lit(f"seed-{seed}-initial"), reward=pl.col("reward").cast(pl.Float64) - gains[seed]
        )
        kept = own.filter(pl.col("scheduler") != f"seed-{seed}-initial").cast({"reward": pl.Float64})
        parts = [kept] if seed == 3 else [kept, initial]
        pl.concat(parts, how="diagonal_relaxed").write_csv(out / f"seed-{seed}/evaluation/rows.csv")
    printed = combine(out, [3, 4])
    assert "+2.5 [" in printed.splitlines()[-1]


@pytest.mark.slow
def test_a_scheduler_that_a_seed_lacks_has_no_mean(seeds, tmp_path):
    out = tmp_path / "both"
    shutil.copytree(seeds[0], out)
    file = out / "seed-4/evaluation/rows.csv"
    pl.read_csv(file).filter(pl.col("scheduler") != "tetris").write_csv(file)
    line = next(line for line in combine(out, [3, 4]).splitlines() if line.startswith("| tetris"))
    assert "1 of 2 seeds" in line
    assert "[" not in line


@pytest.mark.slow
def test_seeds_of_different_traces_are_not_combined(seeds, tmp_path):
    out = tmp_path / "both"
    shutil.copytree(seeds[0], out)
    run = json.loads((out / "seed-4/run.json").read_text())
    run["trace"]["hash"] = "other"
    (out / "seed-4/run.json").write_text(json.dumps(run))
    with pytest.raises(InputError, match="seed-4 was trained on another trace"):
        combine(out, [3, 4])


@pytest.mark.slow
def test_runs_of_several_workers_ask_for_one_training_each(call, tiny, trace, tmp_path):
    done = call("train", "--trace", trace, "--out", tmp_path / "both", *tiny, *FEW, "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert "| both " in done.stdout
    again = call(
        "train", "--config", tmp_path / "both/seed-4/config.yaml", "--out", tmp_path / "one", "--stop-after", 1
    )
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
def test_a_seed_that_fails_does_not_end_the_others(call, tiny, trace, tmp_path, monkeypatch):
    iterate = Trainer._iterate

    def diverges(trainer, *arguments):
        if trainer.config.seed == 3:
            raise InputError("it diverged")
        return iterate(trainer, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_iterate", diverges)
        done = call("train", "--trace", trace, "--out", tmp_path / "both", *tiny, *FEW)
    assert done.returncode == 2
    assert "seed-3: it diverged" in done.stderr
    assert f"--resume {tmp_path / 'both'}" in done.stderr
    assert (tmp_path / "both/seed-4/evaluation/rows.csv").exists()
    again = call("train", "--resume", tmp_path / "both")
    assert again.returncode == 0, again.stderr


def test_what_is_wrong_for_all_seeds_leaves_nothing_behind(refused, trace):
    refused("train", "--trace", trace, "--seeds", 2, "--workloads", 10**6, message=["workloads"])


def test_a_network_that_a_folder_names_is_not_imported(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TVWRL_NETWORKS", raising=False)
    (tmp_path / "foreign.py").write_text("raise SystemExit('ran')")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/config.yaml").write_text("trace: synthetic:google\npreset: smoke\nnetwork: foreign:X\nseeds: 2\n")
    (tmp_path / "run/seeds.json").write_text('{"seeds": [0, 1]}')
    done = call("train", "--resume", tmp_path / "run")
    assert done.returncode == 2
    assert "TVWRL_NETWORKS=foreign:X" in done.stderr
