"""Exploring evaluations: from their folder alone, with schedulers that cannot be made again, and damaged ones."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tvwrl.experiments.evaluation import EvaluationSetup, evaluate
from tvwrl.experiments.exploring.explored import EpisodeCell, open_explored, sequences_of, write_at_once
from tvwrl.experiments.exploring.observed import MOST_SEQUENCES, OBSERVED, Observed, read_observed, write_observed
from tvwrl.explorer.html import packed
from tvwrl.explorer.trees import Shown, sequence_tree
from tvwrl.library.evaluating import evaluate as compare
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.types import InputError, Placement

NAMES = ("expected-cost", "spread", "random", "kube-default")


class Own(Scheduler):
    """A scheduler of nobody's registry."""

    name, knowledge = "own", CURRENT_LOAD

    def schedule(self, cluster, pending):
        yield Placement(pending[0], cluster.slot % len(cluster.machines))


@pytest.fixture(scope="module")
def folder(problem, tmp_path_factory):
    """An evaluation of registered schedulers and one of one's own, at two loads."""
    out = tmp_path_factory.mktemp("explored") / "evaluation"
    schedulers = [*map(make_scheduler, NAMES), Own()]
    setup = EvaluationSetup(problem, (0.3, 0.5), 3, bound_seconds=None)
    evaluate(setup, schedulers, out, {"schedulers": [*NAMES]}, plots=False)
    return out


def test_episodes_are_played_again_as_they_were_recorded(folder, problem):
    explored = open_explored(folder)
    assert explored.schedulers == (*NAMES, "own")
    assert explored.loads == (0.3, 0.5)
    rewards = pl.read_csv(folder / "rows.csv")
    for name in NAMES:
        recording, why = explored.record(name, 0.5, 1)
        assert why == ""
        assert recording.repeats
        assert recording.simulated.all()
        row = rewards.filter((pl.col("scheduler") == name) & (pl.col("load") == 0.5) & (pl.col("sequence") == 1))
        assert recording.penalties.sum() == pytest.approx(-row["reward"][0], rel=1e-9)
    forecast = explored.part("spread", 0.5).sequences.forecast
    drawn = problem.at_load(0.5).sequences("test", 3, 0)
    assert (forecast.values[0, 0, :5] == drawn.forecast.values[0, 0, :5]).all()


def test_a_scheduler_that_nobody_can_make_is_shown_as_it_was_recorded(folder):
    recording, why = open_explored(folder).record("own", 0.3, 0)
    assert "own cannot be recreated: there is no scheduler 'own'" in why
    assert not recording.simulated.any()
    assert (recording.chosen >= 0).sum() == len(recording.episode.start)
    live, why = open_explored(folder, {"own": Own()}).record("own", 0.3, 0)
    assert why == ""
    assert live.simulated.all()
    assert (live.episode.machine == recording.episode.machine).all()


def test_a_scheduler_that_decides_otherwise_now_is_shown_as_it_was_recorded(folder, tmp_path):
    changed = open_explored(folder, {"spread": renamed("best-fit", "spread")})
    recording, why = changed.record("spread", 0.5, 0)
    assert why == "spread decides differently when the episode is repeated, so its alternatives have no costs"
    assert (recording.episode.machine == changed.placed["spread", 0.5, 0][0]).all()


def renamed(name, to):
    scheduler = make_scheduler(name)
    scheduler.name = to
    return scheduler


def test_the_page_says_what_it_leaves_out(folder, tmp_path):
    explored, file = open_explored(folder), tmp_path / "page.html"
    chosen, left_out = sequences_of(explored, [0.5], 2)
    assert left_out == ["Of the 3 sequences of load 0.5, the first 2 are shown."]
    write_at_once(explored, file, chosen, report=lambda text: None, left_out=left_out)
    page = file.read_text()
    assert re.findall('id="(index|sequence-[0-9])"', page) == ["index", "sequence-0", "sequence-1"]
    with pytest.raises(InputError, match=r"sequences is 4: must be 1 to 3; the evaluation kept 3 of load 0\.5"):
        sequences_of(explored, [0.5], 4)


def test_an_evaluation_in_python_is_explored_with_its_own_agents(problem, tmp_path):
    found = compare(
        {"mine": lambda seen, mask: int(np.flatnonzero(mask)[-1]), "rolled": "rollout(spread,rollouts=20,horizon=8)"},
        problem,
        sequences=1,
        bounds=False,
        report=None,
    )
    with pytest.raises(InputError, match=r"file is x\.svg: its name must end in \.html"):
        found.explore("x.svg")
    with pytest.raises(InputError, match="schedulers is 'other': must be one of mine, rolled"):
        found.explore(tmp_path / "explorer.html", schedulers=["other"], report=None)
    file = found.explore(tmp_path / "explorer.html", report=None)
    assert file.stat().st_size > 1e5
    explored = open_explored(found.folder, found.schedulers)
    mine, why = explored.record("mine", problem.scenario.load, 0)
    assert (why, mine.simulated.all(), mine.repeats) == ("", True, True)
    rolled, why = explored.record("rolled", problem.scenario.load, 0)
    assert (why, rolled.simulated.all(), rolled.continued_by) == ("", True, "spread")


def test_schedulers_are_made_again_from_what_run_json_says(folder):
    def made(name, **about):
        return replace(open_explored(folder), about=about).scheduler(name)

    assert made("mine", schedulers={"mine": "spread"}).name == "mine"
    assert made("n-sigma(n=3)", schedulers=["spread", "n-sigma(n=3)"]).name == "n-sigma(n=3)"
    missing = {"run": "../checkpoints/best.pt"}
    assert made("spread", schedulers=["rollout(spread+policy)", "spread"], policies=missing).name == "spread"
    with pytest.raises(InputError, match=r"its checkpoint .*best\.pt is no longer there"):
        made("run", policies=missing)
    with pytest.raises(
        InputError, match=r"it was a Python object \(function act\): call explore\(\) on the result of tvwrl\.evaluate"
    ):
        made("mine", schedulers={"mine": "function act"})


def test_a_folder_that_cannot_be_explored_says_why(folder, tmp_path):
    def refused(message, where=tmp_path):
        with pytest.raises(InputError, match=message):
            open_explored(where)

    refused("no evaluation here: give a folder written by tvwrl evaluate, train, provision or place")
    refused("no such folder", tmp_path / "nowhere")
    for file in ("episodes.parquet", "run.json"):
        (tmp_path / file).write_bytes((folder / file).read_bytes())
    refused("observed.npz is missing: the evaluation was made by an earlier version")
    whole = (folder / OBSERVED).read_bytes()
    (tmp_path / OBSERVED).write_bytes(whole[: len(whole) // 2])
    refused("observed.npz is damaged")
    (tmp_path / "run.json").write_text("{")
    refused("damaged")
    (tmp_path / "run.json").write_bytes((folder / "run.json").read_bytes())
    pl.read_parquet(folder / "episodes.parquet").clear().write_parquet(tmp_path / "episodes.parquet")
    refused("episodes.parquet has no episodes: no scheduler has finished")


def test_an_evaluation_of_another_version_is_refused(folder, tmp_path):
    with np.load(folder / OBSERVED) as content:
        arrays = dict(content)
    about = json.loads(bytes(arrays["about"])) | {"version": 99}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(tmp_path / OBSERVED, **arrays)
    with pytest.raises(InputError, match="has version 99, this tvwrl reads 1: evaluate again"):
        read_observed(tmp_path, {})


def test_what_was_observed_comes_back(problem, tmp_path):
    rng = np.random.default_rng(0)
    drawn = problem.sequences("train", 2, 0)
    noise = rng.integers(0, 3, (2, 5, *problem.machines.capacity.shape)).astype(np.uint8)
    drawn = replace(drawn, background=noise, demand=drawn.demand * 0.7)
    write_observed(tmp_path / OBSERVED, [Observed(("a", "b"), drawn, problem.scenario, 7)])
    names = {(drawn.load, s): (drawn.workload_id[s], drawn.source_workload[s]) for s in range(2)}
    (part,) = read_observed(tmp_path, names)
    assert (part.schedulers, part.seed, part.scenario) == (("a", "b"), 7, problem.scenario)
    again, longest = part.sequences, drawn.length.max()
    for name in ("arrival", "length", "request", "request_factor", "background", "workload_id", "source_slot"):
        assert np.array_equal(getattr(again, name), getattr(drawn, name), equal_nan=name == "request"), name
    assert (again.demand == drawn.demand[:, :, :longest]).all()
    runs = np.arange(longest + 1) <= drawn.length[..., None]
    assert (again.label[runs] == drawn.label[:, :, : longest + 1][runs]).all()
    assert (again.forecast.values[runs] == drawn.forecast.values[:, :, : longest + 1][runs]).all()
    assert (again.forecast.peaks == drawn.forecast.peaks).all()


def test_another_evaluation_in_the_same_folder_is_not_taken_for_the_first(problem, tmp_path):
    totals = []
    for seed in (0, 1):
        out = tmp_path / "evaluation"
        evaluate(EvaluationSetup(problem, (0.5,), 1, seed, None), [make_scheduler("spread")], out, plots=False)
        cell = EpisodeCell(out, "spread", 0.5, 0, False)
        cell.run(tmp_path)
        recording, why = cell.read(tmp_path, open_explored(out))
        assert why == ""
        totals.append((recording.penalties.sum(), -pl.read_csv(out / "rows.csv")["reward"][0]))
        shutil.rmtree(out)
    for found, expected in totals:
        assert found == pytest.approx(expected)


def test_a_forecast_that_is_no_number_is_left_out(folder):
    explored = open_explored(folder)
    drawn = explored.part("expected-cost", 0.5).sequences
    bad = replace(drawn, forecast=replace(drawn.forecast, steps=drawn.forecast.steps * np.nan))
    tree = sequence_tree(Shown(bad, 0, []), 6.0, explored.parts[0].scenario.cluster(drawn.resources))
    assert tree["forecast"] is None
    assert packed(tree)


def test_of_many_sequences_the_first_are_kept(make_sequences, problem, tmp_path):
    many = make_sequences(*([(0, np.ones((1, 2)))] for _ in range(MOST_SEQUENCES + 5)))
    write_observed(tmp_path / OBSERVED, [Observed(("a",), many, problem.scenario, 0)])
    names = {(0.5, s): (many.workload_id[s], many.source_workload[s]) for s in range(len(many))}
    assert len(read_observed(tmp_path, names)[0].sequences) == MOST_SEQUENCES
