"""Move rules that are tuned, and compared from the command line to the files."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.experiments import tuned_moves
from tvwrl.experiments.evaluation import EvaluationSetup, evaluate
from tvwrl.experiments.exploring.explored import EpisodeCell, open_explored
from tvwrl.experiments.tuned_moves import with_tuned_moves
from tvwrl.metrics import MOVES, replay_run
from tvwrl.runs import write_json
from tvwrl.schedulers import Runner, make_scheduler, shipped_value
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError


@pytest.fixture(scope="module")
def moving(google):
    return Problem.build(google, Scenario(moves_per_slot=2, machines=5, workloads=30)).with_forecasts()


def test_the_settings_are_the_best_of_those_that_were_tried(moving, monkeypatch):
    monkeypatch.setattr(tuned_moves, "SEQUENCES", 3)
    (found,) = with_tuned_moves(moving, "expected-cost", ["greedy"])
    runner = Runner(moving.sequences("train", 3, tuned_moves.SEED), moving.machines, moving.scenario)

    def reward(name):
        return sum(moving.score(runner.play(make_scheduler(name), i))["reward"] for i in range(3))

    assert found.name.startswith("expected-cost + greedy")
    tried = ("", "(threshold=1000)", "(threshold=5000)", "(threshold=20000)")
    assert reward(found.name) >= max(reward(f"expected-cost + greedy{one}") for one in tried)


def test_a_value_in_a_file_is_tuned_as_the_one_that_ships(moving, monkeypatch, tmp_path):
    monkeypatch.setattr(tuned_moves, "SEQUENCES", 1)
    shipped_value().save(file := tmp_path / "value.npz")
    names = [one.name for one in with_tuned_moves(moving, "expected-cost", ["machine-value", f"machine-value={file}"])]
    assert names[1] == f"{names[0]}={file}"
    assert "(" in names[0], "an option was chosen"


def test_settings_that_a_rule_refuses_are_left_out_and_other_errors_are_not(moving, monkeypatch):
    monkeypatch.setattr(tuned_moves, "SEQUENCES", 1)
    (found,) = with_tuned_moves(moving, "spread", ["low-node-utilization"])  # the low threshold above the high one
    assert found.name.startswith("spread + low-node-utilization")
    with pytest.raises(InputError, match="its options are tuned; write karpenter without them"):
        with_tuned_moves(moving, "spread", ["karpenter(budget=0.5)"])
    with pytest.raises(InputError, match="scheduler is 'sprad'"):
        with_tuned_moves(moving, "sprad", ["karpenter"])


def test_where_all_settings_leave_workloads_unplaced_it_is_said(moving, monkeypatch):
    monkeypatch.setattr(tuned_moves, "SEQUENCES", 1)
    monkeypatch.setattr(Problem, "rewards", lambda *_: np.full(1, np.nan))
    lines = []
    (found,) = with_tuned_moves(moving, "spread", ["greedy"], lines.append)
    assert found.name == "spread + greedy"
    assert lines[0].startswith("tuning greedy on 1 training sequences")
    assert "unplaced at all settings" in lines[-1]


def test_the_explorer_shows_the_moves_that_were_recorded_whoever_made_them(moving, tmp_path):
    """Once by a scheduler that can be made again, once by one that cannot, and from what a cell has left."""
    names = ("spread + greedy(threshold=3000)", "mine")
    schedulers = [make_scheduler(names[0]) for _ in names]
    schedulers[1].name = "mine"
    folder = tmp_path / "run"
    evaluate(EvaluationSetup(moving, (0.5,), 1), schedulers, folder, plots=False)
    rows = replay_run(folder)
    explored = open_explored(folder)
    for name, why in zip(names, ("", "mine cannot be recreated"), strict=True):
        recording, said = explored.record(name, 0.5, 0, what_if=False)
        assert said.startswith(why)
        row = rows.filter(pl.col("scheduler") == name)
        assert len(recording.episode.moves) == row["moves"][0] > 0
        assert -recording.penalties.sum() == pytest.approx(row["reward"][0])
        cell = EpisodeCell(folder, name, 0.5, 0, what_if=False)
        cell.run(tmp_path)
        again, _ = cell.read(tmp_path, explored)
        assert again.episode.stays().machine.tolist() == recording.episode.stays().machine.tolist()


def test_files_alone_give_the_same_rows_or_are_refused(moving, tmp_path):
    schedulers = [make_scheduler(name) for name in ("spread", "spread + greedy(threshold=3000)")]
    folder = tmp_path / "run"
    rows = evaluate(EvaluationSetup(moving, (0.5,), 2), schedulers, folder, plots=False)
    again = replay_run(folder)
    measured = [name for name in again.columns if name != "decision_ms"]
    assert again.select(measured).equals(rows.select(measured))
    assert "moves per workload" in (folder / "table.md").read_text()
    assert json.loads((folder / "run.json").read_text())["penalty_weights"]["K_m"] == 1000.0
    moves = pl.read_parquet(folder / MOVES)
    assert set(moves["scheduler"]) == {"spread + greedy(threshold=3000)"}
    wrong = {
        "must be 0..4": moves.with_columns(to=pl.lit(99)),
        "but it is on machine": moves.with_columns(pl.col("to").alias("from"), pl.col("from").alias("to")),
        "is none of the episode's": moves.with_columns(workload_id=pl.lit("nobody")),
        "has 0 moves, but": moves.with_columns(scheduler=pl.lit("nobody")),
        "moves, but": moves.head(-1),
        "no episode of": pl.concat([moves, moves.tail(1).with_columns(scheduler=pl.lit("nobody"))]),
        "columns .'slot'. are missing": moves.drop("slot"),
        "must be while it runs": moves.with_columns(slot=pl.lit(9999)),
    }
    for problem, frame in wrong.items():
        frame.write_parquet(folder / MOVES)
        with pytest.raises(InputError, match=problem):
            replay_run(folder)
    for column in ("slot", "to"):
        moves.with_columns(pl.col(column) + 0.5).write_parquet(folder / MOVES)
        with pytest.raises(InputError, match=f"{column} must be whole numbers"):
            replay_run(folder)
    moves.write_parquet(folder / MOVES)
    about = json.loads((folder / "run.json").read_text())
    for field, value in {
        "moves_per_slot": 0, "move_overlap": -2, "move_rest": None, "move_slots": "2", "immovable": 1.5,
    }.items():  # fmt: skip
        write_json(folder / "run.json", about | {"scenario": about["scenario"] | {field: value}})
        with pytest.raises(InputError, match=rf"scenario\.{field}"):
            replay_run(folder)
    write_json(folder / "run.json", about)
    (folder / MOVES).unlink()
    with pytest.raises(InputError, match=r"moves\.parquet: no such file"):
        replay_run(folder)
