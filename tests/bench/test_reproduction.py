"""The experiments as data, and small runs of them: gone on with, in processes, on Ray, with a cell that fails."""

from __future__ import annotations

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
from tvwrl.bench import published
from tvwrl.bench.cells import Bench, Cell, by_run
from tvwrl.bench.experiments import EXPERIMENTS
from tvwrl.bench.reproduction import _orders, complete_cells, needed_cells, overview, write_report
from tvwrl.metrics import replay_run
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import open_trace, write_trace

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, Any] = {"iterations": 2, "train_sequences": 2, "sequences_per_iteration": 1, "trajectories": 2}
SMALL |= {"eval_every": 1, "eval_sequences": 1, "comparison_sequences": 2, "save_every": 1}
PLAIN = Cell("calm", "plain", "google", "tvw-rl", classes="none")
NOISY = replace(PLAIN, column="noisy", scenario={"background": 2}, trained_in={})
TETRIS = Cell("calm", "tetris", "google", "tetris")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trace on disk."""
    folder = tmp_path_factory.mktemp("traces") / "small"
    write_trace(open_trace("google").select(range(24)), folder)
    return folder


@pytest.fixture
def bench(small: Path, tmp_path: Path) -> Bench:
    config = replace(PRESETS["smoke"], **SMALL, scenario=Scenario(machines=4, workloads=8, history=4))
    return Bench(tmp_path / "out", config, {"google": str(small)})


def silent(text: str) -> None:
    """Nobody reads along."""


# ---- the experiments as data


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_can_be_trained_and_is_published_by_its_columns(name: str) -> None:
    experiment = EXPERIMENTS[name]
    bench = Bench(Path("unused"), PRESETS["paper"], {"google": "google", "alibaba": "alibaba"})
    cells, _ = needed_cells(bench, [name], [0, 1])
    for cell in cells[name]:
        assert bench.config(cell).seed == cell.seed
        replace(bench.base.scenario, **cell.scenario)
    columns = {cell.column for cell in experiment.cells([0])}
    assert set(experiment.numbers or {}) <= columns
    assert {end for claim in experiment.claims for end in (claim.over, claim.under)} <= columns


def test_trainings_are_shared_between_experiments_and_scenarios() -> None:
    cells = [cell for name in EXPERIMENTS for cell in EXPERIMENTS[name].cells([0]) if cell.scheduler == "tvw-rl"]
    runs = by_run(cells)
    plain = {cell.evaluation for cell in runs["google-tvw-rl-seed0"]}
    noises = {f"evaluation-background{n}" for n in (1, 2, 3)}
    assert plain == {"evaluation", "evaluation-perturb1", *noises}
    # Figure 5 at load 0.5, and the paper's K_u, K_o and K_c.
    assert len([cell for cell in cells if cell.run == "alibaba-tvw-rl-seed0"]) == 4
    assert len(runs["alibaba-tvw-rl-seed0"]) == 1
    assert "alibaba-tvw-rl-hold_action-K_w500-burst8-seed0" in runs


def test_published_tables_are_complete() -> None:
    for numbers in (published.NOISE, published.CLUSTERING, published.KU):
        assert all(len(values) == 6 for values in numbers.values())
    assert published.NOISE["not trained [0-3]"]["overshoot_pct"] == 0.132
    assert published.KU["K_u = 3"]["machines_used"] == 5.167


def test_orders_of_table_1() -> None:
    given = {"a": 3.0, "b": 2.0, "c": 1.0}
    assert _orders("gain", {"a": 0.3, "b": 0.2, "c": 0.1}, given, True) == [
        "- gain: the order is the paper's, best first a, b, c"
    ]
    differs = _orders("waste", {"a": 0.3, "b": 0.2, "c": 0.25}, given, False)
    assert differs == ["- waste: the order differs: here, best first, b, c, a; in the paper c, b, a"]
    assert _orders("gain", {"a": 0.3}, given, True) == []


# ---- running them


def test_a_heuristic_cell_and_its_rows(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    noisy = replace(TETRIS, group="noise", scenario={"background": 2, "perturb": 1})
    assert complete_cells(bench, [TETRIS, noisy], 1, None, lines.append) == {}
    assert lines == ["google-tetris: 0 iterations trained, evaluated in 2 scenarios"]
    folder = bench.run_folder(TETRIS)
    assert {path.name for path in folder.iterdir()} == {"evaluation", "evaluation-background2-perturb1"}
    assert replay_run(folder / noisy.evaluation)["reward"].to_list() == pytest.approx(
        pl.read_csv(bench.rows_file(noisy))["reward"].to_list()
    )
    assert complete_cells(bench, [TETRIS, noisy], 1, None, lines.append) == {}
    assert len(lines) == 1  # nothing was left to do


def test_a_failing_cell_is_named_and_stops_no_other(bench: Bench) -> None:
    lines: list[str] = []
    wrong = replace(TETRIS, scheduler="first-fit-peak", scenario={"load": 50.0})
    failed = complete_cells(bench, [wrong, TETRIS], 1, None, lines.append)
    assert list(failed) == ["google-first-fit-peak"]
    assert "arrivals per slot" in failed["google-first-fit-peak"]
    assert "arrivals per slot" in (bench.run_folder(wrong) / "error.txt").read_text()
    assert bench.rows_file(TETRIS).exists()


@pytest.mark.slow
def test_training_goes_on_and_is_evaluated_in_every_scenario(bench: Bench) -> None:
    cells = [PLAIN, NOISY, TETRIS]
    assert "0 of 2 iterations of training (0%), 0 of 3 evaluations" in overview(bench, cells)
    assert complete_cells(bench, cells, 1, None, silent) == {}
    assert "2 of 2 iterations of training (100%), 3 of 3 evaluations" in overview(bench, cells)
    written = {path: path.stat().st_mtime_ns for path in bench.out.rglob("*.*")}
    assert complete_cells(bench, cells, 1, None, silent) == {}
    assert {path: path.stat().st_mtime_ns for path in bench.out.rglob("*.*")} == written
    (bench.run_folder(NOISY) / NOISY.evaluation).rename(bench.out / "aside")
    assert complete_cells(bench, cells, 1, None, silent) == {}
    again, before = pl.read_csv(bench.rows_file(NOISY)), pl.read_csv(bench.out / "aside" / "rows.csv")
    assert again.drop("decision_ms").equals(before.drop("decision_ms"))
    changed = replace(bench, base=replace(bench.base, iterations=3))
    (bench.run_folder(NOISY) / NOISY.evaluation).rename(bench.out / "aside2")
    assert "other settings: give another --out" in complete_cells(changed, cells, 1, None, silent)[PLAIN.run]


@pytest.mark.slow
def test_a_report_of_a_small_experiment(bench: Bench) -> None:
    cells = [replace(PLAIN, group="load 0.5", column=f"K_u = {n}", scenario={"K_u": float(n)}) for n in range(4)]
    assert complete_cells(bench, cells, 1, None, silent) == {}
    text = write_report(bench, "table3-ku", cells, "A trial.", {"preset": "tiny"})
    folder = bench.out / "table3-ku"
    assert {path.name for path in folder.iterdir()} == {"rows.csv", "table.md", "run.json", "plot.png"}
    assert len(pl.read_csv(folder / "rows.csv")) == 4 * 2
    assert (folder / "table.md").read_text() == text
    assert "(8.967)" in text


@pytest.mark.slow
def test_processes_give_the_same_rows(bench: Bench) -> None:
    cells = [PLAIN, replace(PLAIN, seed=1), TETRIS]
    assert complete_cells(bench, cells, 2, None, silent) == {}
    here = replace(bench, out=bench.out.with_name("here"))
    assert complete_cells(here, cells, 1, None, silent) == {}
    for cell in cells:
        left, right = (pl.read_csv(b.rows_file(cell)).drop("decision_ms") for b in (bench, here))
        assert left.equals(right)


@pytest.mark.slow
def test_on_a_ray_cluster(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        wrong = replace(TETRIS, scheduler="first-fit-peak", scenario={"load": 50.0})
        assert list(complete_cells(bench, [PLAIN, wrong, TETRIS], 1, "local", silent)) == [wrong.run]
    finally:
        ray.shutdown()
    assert bench.rows_file(PLAIN).exists()
    assert bench.rows_file(TETRIS).exists()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_interrupted_and_gone_on_with(small: Path, tmp_path: Path, workers: int) -> None:
    out = tmp_path / "out"
    options = ["--google", str(small), "--preset", "smoke", "--iterations", "5000", "--workers", str(workers)]
    command = [sys.executable, str(ROOT / "scripts" / "reproduce.py"), "table2-clustering", *options, "--out", str(out)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as run:
        deadline = time.time() + 300
        while not list(out.glob("cells/*/progress.csv")) and time.time() < deadline:
            time.sleep(0.2)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert f"stopped; go on with:\n  python {' '.join(command[1:])}" in said
    listed = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, check=True, env=environment)
    assert "of 20000 iterations" in listed.stdout
    assert "done: 0 of" not in listed.stdout
