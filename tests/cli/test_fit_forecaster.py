"""tvwrl forecast from end to end, the file that it leaves, and what bad input gets to hear."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tvwrl.experiments import fit_forecaster_command as forecaster_cells
from tvwrl.experiments.engine import CELLS
from tvwrl.traces import open_trace, write_trace

QUICK = ["--windows", "60", "--sequences", "2", "--loads", "0.5", "--workloads", "10"]
FEW = ["--candidates", "network,last-value,percentiles"]


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another small trace."""
    folder = tmp_path_factory.mktemp("other") / "second"
    write_trace(open_trace("alibaba").select(range(12)), folder)
    return folder


@pytest.fixture(scope="module")
def made(call, trace, other, tmp_path_factory):
    out = tmp_path_factory.mktemp("forecaster") / "out"
    done = call("forecast", "--trace", trace, "--also", other, "--out", out, *QUICK, *FEW)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def csv_of(path, series, resources=("cpu", "mem")):
    """A CSV of workloads by their series (rows, D)."""
    lines = [",".join(["workload_id", "slot", *resources])]
    for name, rows in series.items():
        lines += [",".join([name, str(slot), *map(str, row)]) for slot, row in enumerate(np.atleast_2d(rows))]
    path.write_text("\n".join(lines))
    return path


def noisy(count, rows, resources=2, constant=False):
    """Series of a few workloads."""
    rng = np.random.default_rng(0)
    return {
        f"w{i}": np.full((rows, resources), 0.4) if constant else rng.uniform(0.1, 0.5, (rows, resources))
        for i in range(count)
    }


@pytest.mark.slow
def test_what_is_written(made):
    out, printed = made
    assert (out / "table.md").read_text() in printed
    rows = pl.read_csv(out / "report.csv", infer_schema_length=None)
    assert set(rows["forecaster"]) == {"network", "last-value", "percentiles"}
    learnt = rows.filter(pl.col("split") == "validation", pl.col("forecaster") == "network")["learnt_from"]
    assert set(learnt) == {"own", "pooled", "others"}
    facts = json.loads((out / "run.json").read_text())
    assert facts["chosen"].startswith("network-")
    assert {path.name for path in (out / "plots").iterdir()} == {
        "skill.png", "skill-validation.png", "calibration.png", "examples.png",
    }  # fmt: skip


@pytest.mark.slow
def test_the_chosen_one_has_the_best_validation_reward(made):
    out, _ = made
    rows = pl.read_csv(out / "report.csv", infer_schema_length=None)
    rewards = rows.filter(
        pl.col("split") == "validation", pl.col("measure") == "reward", pl.col("forecaster") == "network"
    )
    means = dict(rewards.group_by("learnt_from").agg(pl.col("value").mean()).iter_rows())
    chosen = json.loads((out / "run.json").read_text())["chosen"]
    assert means[chosen.removeprefix("network-")] == pytest.approx(max(means.values()))  # several may be equally good


@pytest.mark.slow
@pytest.mark.parametrize(("failing", "split"), [("Percentiles", "validation"), ("NetworkForecaster", "test")])
def test_what_fails_is_named_and_the_others_have_their_table(call, trace, tmp_path, monkeypatch, failing, split):
    score = forecaster_cells.score

    def fails(forecaster, beginnings):
        held_out = {"validation": 0, "test": 1}[split]
        calls.append(type(forecaster).__name__)
        if calls[-1] == failing and calls.count(failing) > held_out:
            raise ValueError("out of tea")
        return score(forecaster, beginnings)

    calls = []
    monkeypatch.setattr(forecaster_cells, "score", fails)
    done = call("forecast", "--trace", trace, "--out", tmp_path / "out", *QUICK, *FEW)
    assert done.returncode == 2
    assert (
        f"cell {split}/{'percentiles' if failing == 'Percentiles' else 'network-own'}: ValueError: out of tea"
        in done.stderr
    )
    assert "| last-value" in (tmp_path / "out" / "table.md").read_text()
    assert (tmp_path / "out" / "forecaster.json").exists()


@pytest.mark.slow
def test_the_same_command_again_repeats_nothing(call, made, trace, other):
    out, printed = made
    before = {path: path.stat().st_mtime_ns for path in (out / CELLS).rglob("cell.json")}
    done = call("forecast", "--trace", trace, "--also", other, "--out", out, *QUICK, *FEW)
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert done.stdout.partition("## ")[2] == printed.partition("## ")[2]


@pytest.mark.slow
def test_the_file_is_used_by_training_and_evaluation(call, made, trace, tiny, tmp_path):
    out, _ = made
    options = ["--trace", trace, "--forecaster", out]
    done = call("train", *options, "--out", tmp_path / "run", *tiny, "--iterations", 1)
    assert done.returncode == 0, done.stderr
    plain = ["--schedulers", "expected-cost,spread", "--sequences", 2, "--workloads", 12, "--no-bounds"]
    for name, more in (("told", options), ("own", options[:2])):
        done = call("evaluate", *more, "--out", tmp_path / name, *plain)
        assert done.returncode == 0, done.stderr
    told, own = (pl.read_csv(tmp_path / name / "rows.csv") for name in ("told", "own"))
    same = told.filter(pl.col("scheduler") == "spread")["reward"].equals(
        own.filter(pl.col("scheduler") == "spread")["reward"]
    )
    assert same
    assert json.loads((tmp_path / "told" / "run.json").read_text())["forecaster"] == str(out / "forecaster.json")


@pytest.mark.slow
def test_a_forecaster_of_something_else_is_refused(refused, made, trace, other, run):
    out, _ = made
    message = ["was made for step_seconds 1800, but here it is 3600"]
    refused("train", "--trace", trace, "--forecaster", out, "--step-seconds", 3600, message=message)
    refused(
        "evaluate",
        "--trace",
        other,
        "--forecaster",
        out,
        message=["was made for trace 'google'", "here it is 'alibaba'"],
    )
    both = ["--forecaster cannot be combined with --checkpoint"]
    refused("evaluate", "--checkpoint", run[0], "--forecaster", out, message=both)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--candidates", "network,tea"], "candidates is 'tea': must be one of network, last-value"),
        (["--candidates", "network,network"], "candidates is network, network: must be different values"),
        (["--sequences", "0"], "sequences is 0: must be at least 1"),
        (["--loads", "0"], "load"),
        (["--also", "nothing-there"], "unknown trace 'nothing-there'"),
        (["--loads", "9"], "load 9 needs"),
        (["--step-seconds", "700"], "step_seconds is 700: must be a multiple of the slot_seconds of trace"),
    ],
)
def test_bad_options_are_refused(refused, trace, options, message):
    refused("forecast", "--trace", trace, *options, message=[message])


def test_traces_that_do_not_go_together_are_refused(refused, trace, tmp_path):
    small = open_trace(str(trace))
    for name, changed in {
        "coarse": {"slot_seconds": 1200},
        "renamed": {"resources": ("cpu", "disk")},
        "swapped": {"resources": ("mem", "cpu")},
    }.items():
        write_trace(replace(small, name=name, **changed), tmp_path / name)
    for name, message in {
        "coarse": ["slot_seconds of trace", "coarse", "1200"],
        "renamed": ["renamed", "has the resources cpu, disk", "has cpu, mem"],
        "swapped": ["swapped", "has the resources mem, cpu"],
    }.items():
        refused("forecast", "--trace", trace, "--also", tmp_path / name, message=message)
    refused("forecast", "--trace", trace, "--also", trace, message=["must be different traces, without"])


def test_another_preparation_of_the_same_cluster_is_refused(refused, trace, tmp_path):
    recorded = replace(open_trace(str(trace)), source="real")
    write_trace(recorded, tmp_path / "own")
    write_trace(replace(recorded, name="again", usage=recorded.usage * 2), tmp_path / "again")
    message = ["again", "shares workload names with", "leave it out, or rename its workloads"]
    refused("forecast", "--trace", tmp_path / "own", "--also", tmp_path / "again", message=message)


@pytest.mark.parametrize(
    ("series", "resources"),
    [
        (noisy(2, 200), ("cpu", "mem")),
        (noisy(12, 200, resources=1), ("cpu",)),
        (noisy(12, 20), ("cpu", "mem")),
        (noisy(12, 200, constant=True), ("cpu", "mem")),
    ],
    ids=["two workloads", "one resource", "short series", "constant demand"],
)
def test_few_and_dull_traces(call, tmp_path, series, resources):
    file = csv_of(tmp_path / "own.csv", series, resources)
    few = ["--candidates", "network,last-value", "--placements-per-slot", "10", "--loads", "0.3"]
    options = ["--trace", file, "--slot-seconds", 600, "--out", tmp_path / "out", *QUICK, *few]
    done = call("forecast", *options)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "forecaster.json").is_file()
