"""tvwrl learn-online from end to end: stream, comparison, resumption, evaluation, bad input."""

import csv
import json

import pytest
import torch

SMALL = [
    "--shift-load", 0.8, "--before", 2, "--after", 4, "--clusters", 1, "--save-every", 2,
    "--schedulers", "best-fit-peak,forecast-fit",
]  # fmt: skip


def rows_of(folder):
    """The rows without decision times, which no other run repeats."""
    with (folder / "rows.csv").open(newline="") as file:
        return [{**row, "decision_ms": ""} for row in csv.DictReader(file)]


@pytest.mark.slow
def test_stream_comparison_resumption_and_evaluation(call, refused, run, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    done = call("learn-online", "--checkpoint", run[0], *SMALL, "--out", whole)
    assert done.returncode == 0, done.stderr
    assert "### google, load 0.8, 4 episodes" in done.stdout
    rows = rows_of(whole)
    assert len(rows) == 6 * 5
    assert {row["scheduler"] for row in rows} == {"online", "frozen", "frozen-drawn", "best-fit-peak", "forecast-fit"}
    assert (whole / "rewards.png").exists()
    assert json.loads((whole / "run.json").read_text())["online"]["after"] == 4

    stopped = call("learn-online", "--checkpoint", run[0], *SMALL, "--out", parts, "--stop-after", 4)
    assert stopped.returncode == 0, stopped.stderr
    assert not (parts / "rows.csv").exists()
    about = json.loads((parts / "run.json").read_text())
    about["online"]["split"] = about["online"].pop("series")  # as earlier versions wrote it
    (parts / "run.json").write_text(json.dumps(about))
    resumed = call("learn-online", "--resume", parts)
    assert resumed.returncode == 0, resumed.stderr
    assert rows_of(parts) == rows
    one, two = (torch.load(f / "checkpoints" / "last.pt", weights_only=True) for f in (whole, parts))
    assert all(torch.equal(one["policy"][name], two["policy"][name]) for name in one["policy"])

    few = ["--schedulers", "best-fit", "--sequences", 1, "--no-bounds", "--out", tmp_path / "e"]
    done = call("evaluate", "--checkpoint", whole, *few)
    assert done.returncode == 0, done.stderr
    assert "\nwhole " in done.stdout
    refused("train", "--resume", whole, message=["tvwrl learn-online"])
    refused("learn-online", "--resume", run[0], message=["not a run of tvwrl learn-online"])
    refused("learn-online", "--checkpoint", run[0], "--shift-load", 0, message=["load is 0.0: must be a number > 0"])
    refused("learn-online", "--checkpoint", run[0], "--schedulers", "x", message=["there is no scheduler 'x'"])


def test_bad_input_is_refused(refused, tmp_path):
    refused("learn-online", message=["--checkpoint"])
    refused("learn-online", "--checkpoint", tmp_path, message=["no checkpoint in this run"])
    refused("learn-online", "--checkpoint", tmp_path, "--after", 0, message=["after is 0"])
    own = ["--resume continues with the run's own settings"]
    refused("learn-online", "--resume", tmp_path, "--seed", 1, message=own)
