"""Trainings and evaluations as cells: shared between figures, resumed, and the same in processes and on Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tvwrl.agents.config import PRESETS
from tvwrl.experiments import training_cells
from tvwrl.experiments.engine import complete, folder_of, overview
from tvwrl.experiments.training_cells import (
    HEURISTICS,
    PLAYED,
    TVW_RL,
    Column,
    Setup,
    cells_of,
    iterations_done,
    read_columns,
)
from tvwrl.metrics import replay_run
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import open_trace, write_trace
from tvwrl.types import InputError

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, Any] = {"iterations": 2, "train_sequences": 2, "sequences_per_iteration": 1, "trajectories": 2}
SMALL |= {"eval_every": 1, "eval_sequences": 1, "comparison_sequences": 2, "save_every": 1}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trace on disk."""
    folder = tmp_path_factory.mktemp("traces") / "small"
    write_trace(open_trace("google").select(range(24)), folder)
    return folder


@pytest.fixture
def setup(small: Path) -> Setup:
    config = replace(PRESETS["smoke"], **SMALL, scenario=Scenario(machines=4, workloads=8, history=4))
    return Setup(config, {"google": str(small)})


def plain(setup: Setup, **changes: Any) -> Column:
    """An agent without classes."""
    return setup.column("calm", "plain", "google", TVW_RL, classes="none", **changes)


def tetris(setup: Setup, **changes: Any) -> Column:
    return setup.column("calm", "tetris", "google", "tetris", changes)


def rows_of(out: Path, column: Column) -> pl.DataFrame:
    return pl.read_csv(folder_of(out, column.cell) / PLAYED / "rows.csv").drop("decision_ms")


def run(out: Path, *columns: Column, workers: int = 1, ray: str | None = None) -> dict[str, str]:
    return complete(out, cells_of(columns), workers, ray, report=lambda line: None)


def test_an_evaluation_can_be_recomputed_from_what_it_left(setup: Setup, tmp_path: Path) -> None:
    noisy = tetris(setup, background=2, perturb=1)
    assert run(tmp_path, tetris(setup), noisy) == {}
    folder = folder_of(tmp_path, noisy.cell)
    assert folder == tmp_path / "cells" / "google-tetris" / "evaluation-background2-perturb1"
    assert replay_run(folder / PLAYED)["reward"].to_list() == pytest.approx(
        rows_of(tmp_path, noisy)["reward"].to_list()
    )
    assert set(read_columns(tmp_path, [noisy, tetris(setup)])["run"]) == {"google-tetris"}


def test_a_scenario_that_cannot_be_played_is_named(setup: Setup, tmp_path: Path) -> None:
    wrong = setup.column("", "", "google", "first-fit-peak", {"load": 50.0})
    failed = run(tmp_path, wrong, tetris(setup))
    assert list(failed) == [wrong.cell.name]
    assert "arrivals per slot" in failed[wrong.cell.name]
    assert len(rows_of(tmp_path, tetris(setup))) == 2


def test_another_trace_scenario_or_registry_is_refused(
    setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_cells, "BASELINES", ("tetris", "best-fit"))

    def every(setup: Setup) -> Column:
        return setup.column("", HEURISTICS, "google", HEURISTICS)

    assert run(tmp_path, every(setup)) == {}
    monkeypatch.setattr(training_cells, "BASELINES", ("best-fit", "tetris"))  # the order does not matter
    assert run(tmp_path, every(setup)) == {}
    assert run(tmp_path, every(replace(setup, base=replace(setup.base, iterations=9)))) == {}  # nothing is trained
    other = replace(setup, traces={"google": "alibaba"})
    fuller = replace(setup, base=replace(setup.base, scenario=replace(setup.base.scenario, load=0.4)))
    more = replace(setup, base=replace(setup.base, comparison_sequences=3))
    for changed, difference in ((other, "trace is "), (fuller, "scenario.load is 0.5 there, 0.4 here")):
        with pytest.raises(InputError, match=difference):
            run(tmp_path, every(changed))
    with pytest.raises(InputError, match="sequences is 2 there, 3 here; give another --out"):
        run(tmp_path, every(more))
    monkeypatch.setattr(training_cells, "BASELINES", ("tetris", "best-fit", "stack"))
    with pytest.raises(InputError, match=r"schedulers is .* remove .* to make it again"):
        run(tmp_path, every(setup))


def test_an_evaluation_without_its_training_fails_by_name(setup: Setup, tmp_path: Path) -> None:
    column = plain(setup)
    failed = complete(tmp_path, [column.cell], report=lambda line: None)
    assert "training" in failed[column.cell.name]


@pytest.mark.slow
def test_training_is_shared_by_its_evaluations_and_the_same_in_processes(setup: Setup, tmp_path: Path) -> None:
    columns = [plain(setup), plain(setup, scenario={"background": 2}, trained_in={}), tetris(setup)]
    cells = cells_of(columns)
    assert "0 of 2 iterations" in overview(tmp_path, cells)
    assert run(tmp_path, *columns) == {}
    assert "4 of 4 cells are finished" in overview(tmp_path, cells)
    training = columns[0].cell.training
    assert training
    assert iterations_done(folder_of(tmp_path, training)) == 2
    noisy = folder_of(tmp_path, columns[1].cell)
    before = rows_of(tmp_path, columns[1])
    noisy.rename(tmp_path / "aside")
    assert run(tmp_path, *columns) == {}
    assert rows_of(tmp_path, columns[1]).equals(before)
    with pytest.raises(InputError, match="iterations is 2 there, 3 here"):
        run(tmp_path, plain(replace(setup, base=replace(setup.base, iterations=3))))
    assert run(tmp_path / "processes", columns[0], workers=2) == {}
    assert rows_of(tmp_path, columns[0]).equals(rows_of(tmp_path / "processes", columns[0]))


@pytest.mark.slow
@pytest.mark.outside
def test_training_is_the_same_on_ray(setup: Setup, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    column, here, there = plain(setup), tmp_path / "here", tmp_path / "ray"
    assert run(here, column) == {}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        wrong = setup.column("", "", "google", "first-fit-peak", {"load": 50.0})
        assert list(run(there, column, wrong, ray="local")) == [wrong.cell.name]
    finally:
        ray.shutdown()
    assert rows_of(here, column).equals(rows_of(there, column))


@pytest.mark.slow
def test_an_interrupted_command_says_how_to_continue(small: Path, tmp_path: Path, call: Any) -> None:
    out = tmp_path / "out"
    options = ["--google", str(small), "--preset", "smoke", "--iterations", "5000", "--workers", "2"]
    command = [sys.executable, str(ROOT / "scripts" / "reproduce.py"), "table2-clustering", *options, "--out", str(out)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as run:
        deadline = time.time() + 600
        while not list(out.glob("cells/*/training/run.json")) and time.time() < deadline:
            time.sleep(0.2)
        run.send_signal(signal.SIGINT)
        printed, _ = run.communicate(timeout=600)
    assert run.returncode == 130, printed
    assert f"stopped; continue with:\n  tvwrl reproduce {' '.join(command[2:])}" in printed
    listed = call("reproduce", *command[2:], "--dry-run")
    assert "of 5000 iterations" in listed.stdout
    assert "0 of 8 cells are finished" in listed.stdout


def test_a_damaged_checkpoint_of_an_unfinished_training_is_named_with_what_to_remove(
    setup: Setup, tmp_path: Path
) -> None:
    column = plain(setup)
    assert column.cell.training
    folder = folder_of(tmp_path, column.cell.training)
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last.pt").write_bytes(b"PK")
    failed = run(tmp_path, column)
    error = failed[column.cell.training.name]
    assert "truncated or not a checkpoint" in error
    assert error.endswith(f"remove {folder} to train it again")


def test_a_training_begun_with_other_settings_is_not_continued(setup: Setup, tmp_path: Path) -> None:
    training = plain(setup).cell.training
    assert training
    folder = folder_of(tmp_path, training)
    folder.mkdir(parents=True)
    (folder / "cell.json").write_text(json.dumps({"request": training.request()}, default=str))
    with pytest.raises(InputError, match=r"config.iterations is 2 there, 3 here"):
        run(tmp_path, plain(replace(setup, base=replace(setup.base, iterations=3))))
