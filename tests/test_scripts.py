"""The command lines from end to end: training, resuming, evaluating, and what bad input gets to hear."""

import contextlib
import csv
import hashlib
import io
import json
import os
import runpy
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest
import torch

from tvwrl.metrics import replay_run
from tvwrl.traces import open_trace, write_trace

ROOT = Path(__file__).resolve().parents[1]
TINY = [
    "--preset", "smoke", "--workloads", "12", "--history", "6", "--iterations", "6", "--eval-every", "2",
    "--eval-sequences", "2", "--sequences-per-iteration", "2", "--trajectories", "2", "--train-sequences", "4",
    "--save-every", "2", "--comparison-sequences", "2",
]  # fmt: skip


def call(script, *arguments):
    """Run a script as a command line would, but in this process: its imports cost seconds each time."""
    out, err = io.StringIO(), io.StringIO()
    path = str(ROOT / "scripts" / script)
    with (
        mock.patch.object(sys, "argv", [path, *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
        pytest.raises(SystemExit) as exit,
    ):
        runpy.run_path(path, run_name="__main__")
    return subprocess.CompletedProcess(path, exit.value.code or 0, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def trace(tmp_path_factory):
    """A small canonical trace on disk."""
    folder = tmp_path_factory.mktemp("trace") / "small"
    write_trace(open_trace("google").select(range(24)), folder)
    return folder


@pytest.fixture(scope="session")
def run(trace, tmp_path_factory):
    """A finished training run."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    done = call("train.py", "--trace", trace, "--out", out, *TINY)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


@pytest.mark.slow
def test_training_ends_with_the_comparison(run):
    out, printed = run
    assert printed.splitlines()[0].startswith("trace: Synthetic trace 'google'")
    for name in ("tetris", "best-fit", "clairvoyant", "whole"):
        assert f"\n{name} " in printed
    assert {p.name for p in (out / "checkpoints").iterdir()} == {"last.pt", "best.pt"}
    assert json.loads((out / "run.json").read_text())["trace"]["source"] == "synthetic"
    assert list((out / "tensorboard").glob("events*"))
    assert not list(out.rglob("*.partial"))


@pytest.mark.slow
def test_resuming_continues_bit_exactly(run, trace, tmp_path):
    whole, _ = run
    out = tmp_path / "parts"
    first = call("train.py", "--trace", trace, "--out", out, *TINY, "--stop-after", 3)
    assert first.returncode == 0, first.stderr
    assert "--resume" in first.stdout
    assert not (out / "evaluation").exists()
    second = call("train.py", "--resume", out)
    assert second.returncode == 0, second.stderr
    one, two = (torch.load(f / "checkpoints/last.pt", weights_only=True) for f in (whole, out))
    assert one["iteration"] == two["iteration"] == 6
    for part in ("policy", "optimiser", "random"):
        assert_equal(one[part], two[part])
    assert (one["best_reward"], one["best_iteration"]) == (two["best_reward"], two["best_iteration"])
    assert (whole / "progress.csv").read_text() == (out / "progress.csv").read_text()


def assert_equal(one, two):
    """Nested dicts, lists, tensors and numbers are the same to the bit."""
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, two)
    elif isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            assert_equal(one[key], two[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_equal(a, b)
    else:
        assert one == two


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_checkpoint_to_resume_from(trace, tmp_path, number):
    out = tmp_path / "stopped"
    endless = [*TINY[: TINY.index("--iterations")], "--iterations", "100000", *TINY[TINY.index("--eval-every") :]]
    command = [sys.executable, str(ROOT / "scripts/train.py"), "--trace", str(trace), "--out", str(out), *endless]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.time() + 200
        while not (out / "checkpoints/last.pt").exists() and time.time() < deadline and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(number)
        printed, errors = process.communicate(timeout=100)
    assert process.returncode == 128 + number, errors
    assert "Traceback" not in errors
    saved = torch.load(out / "checkpoints/last.pt", weights_only=True)
    with (out / "progress.csv").open() as file:
        assert int(list(csv.DictReader(file))[-1]["iteration"]) == saved["iteration"]
    assert f"stopped after iteration {saved['iteration']}" in printed
    resumed = call("train.py", "--resume", out, "--stop-after", 1)
    assert resumed.returncode == 0, resumed.stderr
    assert torch.load(out / "checkpoints/last.pt", weights_only=True)["iteration"] == saved["iteration"] + 1


@pytest.mark.slow
def test_evaluation_can_be_recomputed_from_its_files_and_the_trace(run, trace, tmp_path):
    out = tmp_path / "evaluation"
    names = "tetris,best-fit,first-fit-peak,random,clairvoyant"
    done = call(
        "evaluate.py", "--checkpoint", run[0], "--schedulers", names, "--load", 0.3, 0.5, "--sequences", 3, "--out", out
    )
    assert done.returncode == 0, done.stderr
    rows = pl.read_csv(out / "rows.csv")
    assert rows.height == 6 * 2 * 3
    assert set(rows["scheduler"]) == {"whole", *names.split(",")}
    replayed = replay_run(out)
    for column in set(rows.columns) - {"decision_ms"}:
        if rows[column].dtype.is_numeric():
            assert np.allclose(rows[column], replayed[column], rtol=0, atol=1e-9, equal_nan=True), column

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
def test_the_same_seed_gives_the_same_files(trace, tmp_path):
    def digest(name, seed):
        out = tmp_path / name
        arguments = ["--trace", trace, "--schedulers", "random,tetris", "--sequences", 2, "--seed", seed, "--out", out]
        done = call("evaluate.py", *arguments)
        assert done.returncode == 0, done.stderr
        rows = pl.read_csv(out / "rows.csv").drop("decision_ms").write_csv()
        return hashlib.sha256(rows.encode() + (out / "demand.parquet").read_bytes()).hexdigest()

    assert digest("a", 1) == digest("b", 1)
    assert digest("c", 2) != digest("d", 1)


CSV = "workload_id,slot,cpu,mem\n"
GOOD = "".join(f"{w},{t},{0.1 + 0.01 * (t % 7)},{0.2}\n" for w in "abc" for t in range(400))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", ["t.csv", "empty"]),
        (CSV, ["t.csv", "empty"]),
        ("workload_id,cpu,mem\na,1,1\n", ["t.csv", "slot"]),
        (CSV + "a,0,0.1,-0.5\n", ["t.csv", "line 2", "mem", "-0.5"]),
        (CSV + "a,0,0.1,0.5\na,1,nan,0.5\n", ["t.csv", "line 3", "cpu"]),
        (CSV + "a,0,0.1,0.5\na,0,0.1,0.5\n", ["t.csv", "line 3", "slot"]),
        (CSV + "a,5,0.1,0.5\na,4,0.1,0.5\n", ["t.csv", "line 3", "slot"]),
    ],
)
def test_bad_trace_is_refused_with_its_place(tmp_path, content, said):
    path = tmp_path / "t.csv"
    path.write_text(content)
    out = tmp_path / "out"
    refused(call("evaluate.py", "--trace", path, "--slot-seconds", 300, "--out", out), said, out)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--trace", "nowhere"], ["nowhere", "google", "alibaba"]),
        (["--schedulers", "tetris,best"], ["'best'", "best-fit-peak", "tetris"]),
        (["--machines", "0"], ["machines", "at least 1"]),
        (["--load", "2.5"], ["load 2.5", "placements_per_slot"]),
        (["--capacity", "4"], ["6 units", "every machine's capacity"]),
        (["--step-seconds", "700"], ["700", "multiple", "300"]),
        (["--sequences", "0"], ["sequences", "at least 1"]),
        (["--checkpoint", "no-such-run"], ["no-such-run", "checkpoint"]),
        (["--machine-types", "6y8,8"], ["6y8,8", "COUNTxUNITS"]),
        (["--K-u", "-1"], ["K_u", ">= 0"]),
    ],
)
def test_bad_arguments_of_evaluate(tmp_path, trace, arguments, said):
    given = arguments if "--trace" in arguments else [*arguments, "--trace", trace]
    refused(call("evaluate.py", *given, "--out", tmp_path / "out"), said, tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--trace", "nowhere"], ["nowhere", "google"]),
        (["--device", "tpu"], ["tpu", "cuda"]),
        (["--resume", "no-such-run"], ["no-such-run"]),
        (["--gamma", "2"], ["gamma", "at most 1"]),
        (["--stop-after", "0"], ["stop_after"]),
        (["--resume", "run", "--iterations", "9"], ["--resume", "--stop-after"]),
    ],
)
def test_bad_arguments_of_train(tmp_path, trace, arguments, said):
    given = arguments if "--trace" in arguments else [*arguments, "--trace", trace]
    refused(call("train.py", *given, "--out", tmp_path / "out"), said, tmp_path / "out")


def test_an_output_folder_in_use_is_not_touched(tmp_path, trace):
    out = tmp_path / "used"
    out.mkdir()
    (out / "rows.csv").write_text("mine")
    for script in ("train.py", "evaluate.py"):
        done = call(script, "--trace", trace, "--out", out)
        assert done.returncode == 2
        assert str(out) in done.stderr
        assert "--out" in done.stderr
    assert [p.name for p in out.iterdir()] == ["rows.csv"]


@pytest.mark.slow
def test_damaged_and_foreign_checkpoints_are_refused(run, tmp_path):
    good = (run[0] / "checkpoints/best.pt").read_bytes()
    cut = tmp_path / "cut.pt"
    cut.write_bytes(good[: len(good) // 2])
    other = tmp_path / "other.pt"
    torch.save(torch.load(run[0] / "checkpoints/best.pt", weights_only=True) | {"format": 99}, other)
    empty = tmp_path / "empty.pt"
    empty.write_bytes(b"")
    evil = tmp_path / "evil.pt"
    torch.save({"format": 1, "x": Evil()}, evil)
    for path, said in ((cut, "truncated"), (other, "format 99"), (empty, "cannot be read"), (evil, "cannot be read")):
        refused(
            call("evaluate.py", "--checkpoint", path, "--out", tmp_path / "out"), [path.name, said], tmp_path / "out"
        )
    assert not (tmp_path / "executed").exists()


class Evil:
    """Would run code if a checkpoint were unpickled without care."""

    def __reduce__(self):
        return os.system, ("touch executed",)


def refused(done, said, out):
    """Exit code 2, one clear message, no traceback, nothing half-written."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    for text in said:
        assert text in done.stderr
    assert not out.exists()
    assert not list(out.parent.glob(".*partial*"))
