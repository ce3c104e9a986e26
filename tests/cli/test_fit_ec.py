"""tvwrl classes and tvwrl reproduce from end to end, and what bad input gets to hear."""

import json
import re
import sys

import numpy as np
import pytest

from tvwrl.ec import EquivalenceClasses

QUICK = ["--k-max", "5", "--initialisations", "3"]
FORECAST = ["--forecast.window", "8", "--forecast.steps", "4", "--forecast.folds", "2", "--forecast.batch", "16"]


@pytest.fixture(scope="module")
def made(call, trace, tmp_path_factory):
    """Classes by two representations and a forecaster of few steps."""
    out = tmp_path_factory.mktemp("ec") / "classes"
    options = ["--representations", "aggregate", "dtw", "--radius", "12", *QUICK, *FORECAST, "--compare-by-forecast"]
    done = call("classes", "--trace", trace, "--out", out, *options)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


@pytest.mark.slow
def test_the_report_says_what_was_chosen_and_why(made):
    out, printed = made
    report = json.loads((out / "report.json").read_text())
    assert {c["representation"] for c in report["candidates"]} == {"aggregate", "dtw"}
    chosen = next(c for c in report["candidates"] if c["representation"] == report["chosen"])
    assert report["helps_forecasts"] == (not report["objections"][report["chosen"]])
    assert len(chosen["stability"]["seeds"]) == 5
    assert len(chosen["linear"]["permuted"]) >= 20
    assert [p["label"] for p in report["profiles"]] == list(range(1, chosen["k"] + 1))
    classes = EquivalenceClasses.load(out / "classes.json")
    means = {int(k): np.mean(row) for k, row in chosen["search"]["silhouettes"].items()}
    assert classes.k == chosen["k"] == max(means, key=means.get)
    assert set(report["labels"].values()) == set(range(1, classes.k + 1))
    assert (out / "report.md").read_text() in printed
    for shown in ("silhouette", "same in samples", "EG", "last value", "slots seen", "true class", "| class "):
        assert shown in printed
    assert "13 workloads" in printed
    assert "the training part of the trace's workloads (--split workloads), in slots of 30 min" in printed
    drawn = {path.stem for path in (out / "plots").iterdir()}
    assert {"silhouettes", "members-aggregate", "members-dtw", "features-aggregate", "classifier"} <= drawn
    assert f"day-{report['chosen']}" in drawn


@pytest.mark.slow
def test_the_same_command_continues_and_says_so(call, trace, made, tmp_path):
    options = ["--representations", "aggregate", "dtw", "--radius", "12", *QUICK, *FORECAST, "--compare-by-forecast"]
    done = call("classes", "--trace", trace, "--out", tmp_path / "again", *options)
    assert done.returncode == 0, done.stderr
    assert "kept from an earlier call" in done.stderr
    first, second = (json.loads((out / "report.json").read_text()) for out in (made[0], tmp_path / "again"))
    for name in ("candidates", "labels", "profiles", "chosen"):
        assert first[name] == second[name]
    assert (made[0] / "classes.json").read_bytes() == (tmp_path / "again" / "classes.json").read_bytes()


@pytest.mark.slow
def test_training_and_checkpoints_use_the_file(call, tiny, made, trace, tmp_path):
    file, out = made[0] / "classes.json", tmp_path / "run"
    options = ["--ec", file, *tiny, "--iterations", 2]
    done = call("train", "--trace", trace, "--out", out, *options)
    assert done.returncode == 0, done.stderr
    assert json.loads((out / "evaluation" / "run.json").read_text())["classes"] == json.loads(file.read_text())
    assert json.loads((out / "run.json").read_text())["ec"] == str(file)
    options = ["--schedulers", "random", "--sequences", 1, "--no-bounds", "--out", tmp_path / "e"]
    again = call("evaluate", "--checkpoint", out, *options)
    assert again.returncode == 0, again.stderr
    options = ["--ec", "none", *tiny, "--iterations", 2, "--stop-after", 1]
    none = call("train", "--trace", trace, "--out", tmp_path / "none", *options)
    assert none.returncode == 0, none.stderr


@pytest.mark.slow
def test_one_representation_and_k_can_be_asked_for(call, trace, tmp_path):
    options = ["--representation", "aggregate", "--representations", "aggregate", "--k", "3", "--initialisations", "2"]
    options += ["--fit-on", "all", "--out", tmp_path / "a"]
    done = call("classes", "--trace", trace, *options)
    assert done.returncode == 0, done.stderr
    assert "**aggregate** with 3 classes; it was asked for" in done.stdout
    assert "24 workloads" in done.stdout
    assert "all of the trace's workloads, in slots of 30 min" in done.stdout


def test_what_is_stopped_says_how_it_continues(call, trace, tmp_path, monkeypatch):
    def stop(*rest):
        raise KeyboardInterrupt

    monkeypatch.setattr("tvwrl.ec.comparison._gather", stop)
    kept = tmp_path / "kept"
    for cache, said in (
        (str(kept), f"the same command continues, as .* are kept in {kept}"),
        ("off", "nothing is kept"),
    ):
        monkeypatch.setenv("TVWRL_CACHE", cache)
        done = call("classes", "--trace", trace, "--out", tmp_path / "out", *QUICK)
        assert done.returncode == 130
        assert re.search(f"stopped; {said}", done.stderr)
        assert not (tmp_path / "out").exists()


def test_bad_input(refused, made, trace, tiny, tmp_path, monkeypatch):
    refused("classes", "--trace", trace, "--k", 99, message=["k is 99, but there are 13 workloads"])
    for k in (-1, 0, 1, 254):
        refused("classes", "--trace", trace, "--k", k, message=[f"k is {k}: must be 2 to 253"])
    monkeypatch.setitem(sys.modules, "sklearn_extra.cluster", None)
    missing = ["backend 'sklearn-extra' cannot be used", "pip install 'tvwrl[sklx]'"]
    refused("classes", "--trace", trace, "--backends.k-medoids", "sklearn-extra", message=missing)
    refused("classes", "--trace", trace, "--forecast.seed", 1, message=["--forecast.seed"])
    refused("classes", "--trace", trace, "--k-min", 1, message=["k_min is 1: must be 2 to 253"])
    refused("classes", "--trace", trace, "--k-min", 6, "--k-max", 4, message=["k_max is 4: must be 6 to 253"])
    refused("classes", "--trace", trace, "--forecast.folds", 1, message=["folds is 1: must be at least 2"])
    refused("classes", "--trace", tmp_path / "nothing", message=["no such file, folder or name"])
    refused("train", "--trace", trace, "--ec", "shape", message=["ec is shape", "temporal", "none"])
    broken = tmp_path / "classes.json"
    broken.write_text("{}")
    refused("train", "--trace", trace, "--ec", broken, message=["not a classes file of format 2"])
    hour = ["--step-seconds", 3600]
    refused(
        "train",
        "--trace",
        trace,
        "--ec",
        made[0],
        *hour,
        message=["made with step_seconds 1800, but here it is 3600"],
    )
    refused("reproduce", "table1", "--google", "", "--alibaba", "", message=["give at least one"])
    refused("reproduce", "table2-clustering", "--seeds", -1, message=["seeds is -1: must be at least 0"])


@pytest.mark.slow
def test_table_1_stands_beside_the_published_one(call, trace, tmp_path):
    forecast = [*FORECAST, "--forecast.steps", "2"]
    options = ["--google", trace, "--alibaba", "", "--radius", "6", "--out", tmp_path / "t", *forecast]
    done = call("reproduce", "table1", *options)
    assert done.returncode == 0, done.stderr
    for published in ("(5)", "(0.65)", "(6.82)", "(9.83)", "(0.55)"):
        assert published in done.stdout
    assert "effective gain, measured once: the order" in done.stdout
    assert (tmp_path / "t" / "table1" / "table.md").read_text() in done.stdout
