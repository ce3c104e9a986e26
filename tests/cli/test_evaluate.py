"""tvwrl evaluate from end to end: its files, and what bad input gets to hear."""

import hashlib
import json
import os
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from tvwrl.agents.config import PRESETS
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.metrics import replay_run
from tvwrl.traces import open_trace, write_trace
from tvwrl.traces.catalogue import trace_identity


@pytest.mark.slow
def test_evaluation_can_be_recomputed_from_its_files_and_the_trace(call, run, trace, tmp_path):
    out = tmp_path / "evaluation"
    names = "tetris,best-fit,first-fit-peak,random,clairvoyant"
    options = ["--schedulers", names, "--loads", "0.3,0.5", "--sequences", 3, "--out", out]
    done = call("evaluate", "--checkpoint", run[0], *options)
    assert done.returncode == 0, done.stderr
    rows = pl.read_csv(out / "rows.csv")
    assert rows.height == 6 * 2 * 3
    assert set(rows["scheduler"]) == {"whole", *names.split(",")}
    replayed = replay_run(out)
    for column in set(rows.columns) - {"decision_ms"}:
        if rows[column].dtype.is_numeric():
            assert np.allclose(rows[column], replayed[column], rtol=0, atol=1e-9, equal_nan=True), column

    bounds = pl.read_csv(out / "bounds.csv")
    assert bounds.height == 2 * 3
    careful = rows.filter((pl.col("scheduler") == "clairvoyant") & (pl.col("overshoot_pct") == 0))
    careful = careful.join(bounds, on=["load", "sequence"])
    assert (careful["machine_slots"] >= careful["lower_bound_machine_slots_waiting"]).all()
    still = careful.filter(pl.col("wait_mean") == 0)
    assert (still["peak_machines"] >= still["lower_bound_peak_machines"]).all()
    assert "machine slots above bound %" in (out / "table.md").read_text()
    assert "true lifetime peaks (a privilege)" in done.stdout

    facts = json.loads((out / "run.json").read_text())
    usage = pl.read_parquet(trace / "usage.parquet")
    demand = pl.read_parquet(out / "demand.parquet")
    episodes = pl.read_parquet(out / "episodes.parquet").unique(["load", "sequence", "workload_id"]).head(20)
    ratio = facts["step_seconds"] // facts["slot_seconds"]
    for row in episodes.iter_rows(named=True):
        mine = demand.filter(
            (pl.col("load") == row["load"])
            & (pl.col("sequence") == row["sequence"])
            & (pl.col("workload_id") == row["workload_id"])
        ).sort("slot")
        begin = row["source_slot"]
        source = usage.filter(
            (pl.col("workload_id") == row["source_workload"])
            & pl.col("slot").is_between(begin, begin + ratio * mine.height, closed="left")
        ).sort("slot")
        for name, unit in facts["unit"].items():
            units = source[name].to_numpy().reshape(-1, ratio).mean(axis=1) / unit
            assert np.array_equal(mine[name].to_numpy(), np.clip(np.floor(units + 0.5), 1, facts["peak_units"]))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_files(call, trace, tmp_path):
    def digest(name, seed):
        out = tmp_path / name
        options = [
            "--schedulers",
            "random,tetris",
            "--sequences",
            2,
            "--workloads",
            12,
            "--seed",
            seed,
            "--no-bounds",
            "--out",
            out,
        ]
        done = call("evaluate", "--trace", trace, *options)
        assert done.returncode == 0, done.stderr
        assert not (out / "bounds.csv").exists()
        rows = pl.read_csv(out / "rows.csv").drop("decision_ms").write_csv()
        return hashlib.sha256(rows.encode() + (out / "demand.parquet").read_bytes()).hexdigest()

    one = digest("a", 1)
    assert digest("b", 1) == one
    assert digest("c", 2) != one


def test_a_bound_on_the_reward_needs_bounds(call, trace, tmp_path):
    done = call("evaluate", "--trace", trace, "--no-bounds", "--reward-bound", "--out", tmp_path / "out")
    assert "reward_bound cannot be combined with --no-bounds" in done.stderr


def test_a_dry_run_lists_what_would_be_played(call, trace, tmp_path):
    options = ["--trace", trace, "--schedulers", "tetris", "--loads", "0.3,0.5", "--out", tmp_path / "out"]
    done = call("evaluate", *options, "--dry-run")
    assert "evaluation/tetris/load-0.3" in done.stdout
    assert "0 of 4 cells are finished" in done.stdout
    assert not (tmp_path / "out").exists()


def test_bad_trace_is_refused_with_its_place(refused, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("workload_id,slot,cpu,mem\na,0,0.1,-0.5\n")
    refused("evaluate", "--trace", path, "--slot-seconds", 300, message=["t.csv", "line 2", "mem", "-0.5"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trace", "nowhere"], ["nowhere", "google", "alibaba"]),
        (["--schedulers", "tetris,best"], ["'best'", "did you mean best-fit"]),
        (["--schedulers", "tetris,deeprm"], ["deeprm", "--policy deeprm", "deeprm=runs/deeprm"]),
        (["--schedulers", "deeprm=no-such-run"], ["no-such-run", "--policy deeprm"]),
        (["--machines", "0"], ["machines is 0: must be at least 1"]),
        (["--loads", "2.5"], ["load 2.5", "placements_per_slot"]),
        (["--capacity", "4"], ["6 units", "every machine's capacity"]),
        (["--step-seconds", "700"], ["700", "multiple", "300"]),
        (["--bound-seconds", "-1"], ["bound_seconds is -1.0: must be at least 0"]),
        (["--checkpoint", "no-such-run"], ["no-such-run", "checkpoint"]),
        (["--machine-types", "6y8,8"], ["6y8", "COUNTxUNITS"]),
        (["--K-u", "-1"], ["K_u is -1.0: must be at least 0"]),
        (["--K-u", "400"], ["K_u is 400.0: must be 0 to 10"]),
    ],
)
def test_bad_arguments(refused, trace, arguments, message):
    refused("evaluate", *([] if "--trace" in arguments else ["--trace", trace]), *arguments, message=message)


def test_a_checkpoint_knows_its_resources_and_needs_a_name_of_its_own(refused, run, trace, tmp_path):
    disk = open_trace(str(trace))
    write_trace(replace(disk, resources=("cpu", "disk")), tmp_path / "other")
    refused("evaluate", "--checkpoint", run[0], "--trace", tmp_path / "other", message=["disk", "cpu, mem"])
    refused("evaluate", "--checkpoint", run[0], "--device", "foo", message=["foo", "cpu, cuda"])
    refused("evaluate", "--checkpoint", run[0], "--capacity", 9, message=["--checkpoint"])
    refused("evaluate", "--checkpoint", run[0], "--machines", 0, message=["machines is 0", "at least 1"])
    shutil.copytree(run[0], tmp_path / "tetris")
    refused("evaluate", "--checkpoint", tmp_path / "tetris", message=["tetris", "rename its folder"])


@pytest.mark.slow
@pytest.mark.outside
def test_a_shared_policy_plays_on_a_thousand_machines(call, run, trace, tmp_path):
    out = tmp_path / "large"
    options = ["--machines", 1000, "--sequences", 1, "--schedulers", "best-fit", "--no-bounds", "--out", out]
    done = call("evaluate", "--checkpoint", run[0], *options)
    assert done.returncode == 0, done.stderr
    rows = pl.read_csv(out / "rows.csv")
    assert rows["scheduler"].to_list() == ["whole", "best-fit"]
    assert (rows["unplaced"] == 0).all()
    assert (rows["machines_used"] > 10).all()
    assert pl.read_parquet(out / "episodes.parquet").height == 2 * 12 * 100  # the run has 12 workloads on 10 machines
    scenario = json.loads((out / "run.json").read_text())["scenario"]
    assert (scenario["machines"], scenario["placements_per_slot"]) == (1000, 100)


def test_a_flat_policy_keeps_its_machines(refused, trace, tmp_path):
    scenario = replace(PRESETS["smoke"].scenario, machines=4, workloads=8, history=4)
    config = replace(PRESETS["smoke"], algo="reinforce", policy="flat", imitate=0, trajectories=2, scenario=scenario)
    opened = open_trace(str(trace))
    identity = trace_identity(opened, str(trace), None)
    Trainer(Problem.build(opened, scenario), config, tmp_path / "flat", identity, print).save()
    message = ["machines is 5", "flat", "4 machines", "shared"]
    refused("evaluate", "--checkpoint", tmp_path / "flat", "--machines", 5, message=message)


def test_an_output_folder_in_use_is_not_touched(call, tmp_path, trace):
    out = tmp_path / "used"
    out.mkdir()
    (out / "rows.csv").write_text("mine")
    for script in ("train", "evaluate"):
        done = call(script, "--trace", trace, "--out", out)
        assert done.returncode == 2
        assert str(out) in done.stderr
        assert "give another folder" in done.stderr
    assert [p.name for p in out.iterdir()] == ["rows.csv"]


@pytest.mark.slow
def test_damaged_and_foreign_checkpoints_are_refused(refused, run, tmp_path):
    good = (run[0] / "checkpoints/best.pt").read_bytes()
    cut = tmp_path / "cut.pt"
    cut.write_bytes(good[: len(good) // 2])
    other = tmp_path / "other.pt"
    torch.save(torch.load(run[0] / "checkpoints/best.pt", weights_only=True) | {"format": 99}, other)
    empty = tmp_path / "empty.pt"
    empty.write_bytes(b"")
    evil = tmp_path / "evil.pt"
    torch.save({"format": 1, "x": Evil()}, evil)
    for path, message in (
        (cut, "truncated"),
        (other, "format 99"),
        (empty, "cannot be read"),
        (evil, "cannot be read"),
    ):
        refused("evaluate", "--checkpoint", path, message=[path.name, message])
    assert not (tmp_path / "executed").exists()


class Evil:
    """Would run code if a checkpoint were unpickled without care."""

    def __reduce__(self):
        return os.system, ("touch executed",)
