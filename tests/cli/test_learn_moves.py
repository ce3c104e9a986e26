"""tvwrl train --moves from end to end: learning, comparison, resumption, bad input."""

import json
import shutil

import numpy as np
import polars as pl
import pytest

from tvwrl.schedulers import MachineValue

SMALL = [
    "--trace", "synthetic:google", "--sequences", 4, "--validation", 2, "--epochs", 1, "--units", "8,4",
    "--gammas", 0.9, "--risks", 1, "--thresholds", "1,2", "--machines", 4, "--workloads", 20,
]  # fmt: skip


@pytest.mark.slow
def test_learns_compares_and_goes_on(call, refused, tmp_path):
    out = tmp_path / "run"
    done = call("train", "--moves", *SMALL, "--comparison-sequences", 2, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "learnt moves on 2 unseen sequences" in done.stdout
    value = MachineValue.load(out / "value.npz")
    rows = pl.read_csv(out / "evaluation" / "rows.csv")
    assert {"expected-cost", "expected-cost + learnt"} < set(rows["scheduler"])
    assert (rows.filter(pl.col("scheduler") == "expected-cost")["moves"] == 0).all()
    assert json.loads((out / "run.json").read_text())["moves"]["environment"]["moves_per_slot"] == 2

    (out / "value.npz").unlink()
    shutil.rmtree(out / "evaluation")
    (out / "generations" / "generation-2.npz").unlink()  # as if it had been killed there
    again = call("train", "--moves", "--resume", out)
    assert again.returncode == 0, again.stderr
    same = MachineValue.load(out / "value.npz")
    assert all(np.array_equal(*pair) for pair in zip(value.layers, same.layers, strict=True))
    second = pl.read_csv(out / "evaluation" / "rows.csv")
    assert second.drop("decision_ms").equals(rows.drop("decision_ms"))

    entry = f"expected-cost + machine-value={out / 'value.npz'}"
    played = call(
        "evaluate", "--trace", "synthetic:google", "--machines", 4, "--workloads", 20, "--moves-per-slot", 2,
        "--sequences", 1, "--no-bounds", "--schedulers", entry, "--out", tmp_path / "e",
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    refused("train", "--moves", "--out", out, message=["tvwrl train --moves --resume"])
    refused("train", "--moves", "--resume", out, "--seed", 1, message=["--resume continues with the run's own"])


def test_bad_input_is_refused(refused, tmp_path):
    refused("train", "--moves", "--resume", tmp_path, message=["no run of tvwrl train --moves"])
    refused("train", "--moves", "--moves-per-slot", 0, message=["moves_per_slot is 0"])
    refused("train", "--moves", "--K-m", -1, message=["K_m"])
    refused("train", "--moves", "--gammas", 1, message=["gammas is 1"])
    refused("train", "--moves", "--loads", "0.5,0.5", message=["loads"])
    refused("train", "--moves", "--algo", "ppo", message=["no option '--algo'"])
