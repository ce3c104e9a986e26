"""The experiments as data, and small runs of them: gone on with, in processes, on Ray, with a cell that fails."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tvwrl.agents.config import PRESETS, TrainConfig
from tvwrl.bench import published
from tvwrl.bench.cells import HEURISTICS, Bench, Cell, by_run
from tvwrl.bench.experiments import EXPERIMENTS
from tvwrl.bench.reproduction import SCALES, _orders, as_in_the_paper, complete_cells, overview, told, write_report
from tvwrl.bench.requests import check_request
from tvwrl.bench.results import finished_rows, results_cells
from tvwrl.metrics import replay_run
from tvwrl.runs import locked
from tvwrl.schedulers import GROUPS
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import open_trace, write_trace
from tvwrl.types import InputError

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


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_can_be_trained_and_is_published_by_its_columns(name: str, scale: str) -> None:
    experiment = EXPERIMENTS[name]
    base = as_in_the_paper(SCALES[scale][0])
    bench = Bench(Path("unused"), base, {"google": "google", "alibaba": "alibaba"})
    for cell in experiment.cells([0, 1]):
        assert bench.config(cell).seed == cell.seed
        assert bench.config(cell).iterations == base.iterations
        assert bench.scenario(cell).load == cell.scenario.get("load", 0.5)
    columns = {cell.column for cell in experiment.cells([0])}
    assert set(experiment.numbers or {}) <= columns
    assert {end for claim in experiment.claims for end in (claim.over, claim.under)} <= columns


@pytest.mark.parametrize("scale", SCALES)
def test_agents_know_what_the_papers_does_and_deeprm_is_trained_its_own_way(scale: str) -> None:
    base = SCALES[scale][0]
    bench = Bench(Path("unused"), as_in_the_paper(base), {})
    ours, deeprm = (bench.config(Cell("", n, "google", n, {"load": 0.3})) for n in ("tvw-rl", "deeprm"))
    assert ours.scenario == replace(PRESETS["paper"].scenario, load=0.3, max_slots=base.scenario.max_slots)
    assert told(ours, "x").startswith(f"- `x`: `{base.algo}`, policy `{base.policy}`, {base.iterations} iterations")
    assert told(ours, "x").endswith(f"knows *{GROUPS[0]}*: classes, the last 20 slots of load (learnt)")
    assert deeprm.scenario == replace(PRESETS["deeprm"].scenario, load=0.3)
    assert (deeprm.iterations, deeprm.train_sequences) == (base.iterations, base.train_sequences)
    for name in ("algo", "imitate", "policy", "trajectories", "minibatches", "gamma", "learning_rate"):
        assert getattr(deeprm, name) == getattr(PRESETS["deeprm"], name)


def test_trainings_are_shared_between_experiments_and_scenarios() -> None:
    cells = [cell for name in EXPERIMENTS for cell in EXPERIMENTS[name].cells([0]) if cell.scheduler == "tvw-rl"]
    runs = by_run(cells)
    plain = {cell.evaluation for cell in runs["google-tvw-rl-seed0"]}
    noises = {f"evaluation-background{n}" for n in (1, 2, 3)}
    assert plain == {"evaluation", "evaluation-perturb1", *noises}
    # Figure 5 at load 0.5, and the paper's K_u, K_o and K_c.
    assert len([cell for cell in cells if cell.run == "alibaba-tvw-rl-seed0"]) == 4
    assert len(runs["alibaba-tvw-rl-seed0"]) == 1
    assert "alibaba-tvw-rl-hold_action-any_placements_per_slot-K_w500-burst8-seed0" in runs


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


def test_a_heuristic_cell_and_its_rows(bench: Bench) -> None:
    lines: list[str] = []
    noisy = replace(TETRIS, group="noise", scenario={"background": 2, "perturb": 1})
    assert complete_cells(bench, [TETRIS, noisy], 1, None, lines.append) == {}
    assert lines == ["google-tetris: 0 iterations trained, evaluated in 2 scenarios"]
    folder = bench.run_folder(TETRIS)
    assert {path.name for path in folder.iterdir()} == {"cell.json", "evaluation", noisy.evaluation}
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


@pytest.mark.parametrize("kept", [True, False])
def test_rows_of_another_request_are_refused(bench: Bench, kept: bool) -> None:
    assert complete_cells(bench, [TETRIS], 1, None, silent) == {}
    made = bench.run_folder(TETRIS) / "cell.json"
    if not kept:  # as folders of heuristics were once
        made.unlink()

    def said(base: TrainConfig) -> str:
        return complete_cells(replace(bench, base=base), [TETRIS], 1, None, silent).get(TETRIS.run, "")

    assert "sequences is 2 there, here 3; give another --out" in said(replace(bench.base, comparison_sequences=3))
    fuller = replace(bench.base, scenario=replace(bench.base.scenario, load=0.4))
    assert "scenario.load is 0.5 there, here 0.4" in said(fuller)
    other = replace(bench, traces={"google": "alibaba"})
    assert "hash is " in complete_cells(other, [TETRIS], 1, None, silent)[TETRIS.run]
    assert said(replace(bench.base, iterations=9)) == ""  # nothing is trained here
    assert made.exists()


def test_two_processes_do_not_work_on_one_cell(bench: Bench) -> None:
    with locked(bench.run_folder(TETRIS)):
        said = complete_cells(bench, [TETRIS], 1, None, silent)[TETRIS.run]
        assert "is being worked on by another process" in said
        assert not bench.rows_file(TETRIS).exists()
    assert complete_cells(bench, [TETRIS], 1, None, silent) == {}
    assert bench.rows_file(TETRIS).exists()


def test_heuristics_of_another_registry_are_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    every = Cell("", HEURISTICS, "google", HEURISTICS)
    monkeypatch.setattr("tvwrl.bench.cells.NAMES", ("tetris", "best-fit"))
    assert complete_cells(bench, [every], 1, None, silent) == {}
    monkeypatch.setattr("tvwrl.bench.cells.NAMES", ("best-fit", "tetris"))  # in another order they are the same
    assert complete_cells(bench, [every], 1, None, silent) == {}
    monkeypatch.setattr("tvwrl.bench.cells.NAMES", ("tetris", "best-fit", "stack"))
    said = complete_cells(bench, [every], 1, None, silent)[every.run]
    assert "schedulers is ['best-fit', 'tetris'] there, here ['best-fit', 'stack', 'tetris']" in said
    assert f"or remove {bench.run_folder(every)} to have it played again" in said
    shutil.rmtree(bench.run_folder(every))
    assert complete_cells(bench, [every], 1, None, silent) == {}
    assert set(pl.read_csv(bench.rows_file(every))["scheduler"]) == {"tetris", "best-fit", "stack"}


def test_what_came_later_counts_as_its_default(tmp_path: Path) -> None:
    config = replace(PRESETS["smoke"], train_loads=(0.3, 0.5))
    old = json.loads(json.dumps({"hash": "a", "config": config.to_dict()}))
    del old["config"]["gae_lambda"], old["config"]["scenario"]["burst"]
    (tmp_path / "cell.json").write_text(json.dumps(old))
    for burst, bad in ((1.0, ""), (2.0, "config.scenario.burst is 1.0 there, here 2.0")):
        asked = replace(config, scenario=replace(config.scenario, burst=burst)).to_dict()
        with pytest.raises(InputError, match=bad) if bad else nullcontext():
            check_request(tmp_path / "cell.json", {"hash": "a", "config": asked})
    with pytest.raises(InputError, match="hash is a there, here b; give another --out"):
        check_request(tmp_path / "cell.json", {"hash": "b"})
    (tmp_path / "cell.json").write_text('{"config": {"width": 3}}')
    with pytest.raises(InputError, match="damaged or of another version"):
        check_request(tmp_path / "cell.json", {"hash": "a"})


@pytest.mark.slow
def test_deeprm_is_trained_once_and_played_at_every_load(bench: Bench) -> None:
    shown = replace(bench.base, scenario=replace(bench.base.scenario, observe_forecast=True, hold_action=True))
    bench = replace(bench, base=replace(shown, train_loads=(0.3, 0.5)), deeprm_iterations=1)
    cells = [cell for cell in results_cells(["google"], [0.3, 0.5], [0], []) if cell.scheduler == "deeprm"]
    assert complete_cells(bench, cells, 1, None, silent) == {}
    assert bench.iterations_done(cells[0]) == 1
    rows = finished_rows(bench, cells)
    assert set(rows["column"]) == {"deeprm"}
    assert set(rows["knowledge"]) == {GROUPS[1]}
    assert rows["load"].unique().sort().to_list() == [0.3, 0.5]
    assert complete_cells(bench, cells, 1, None, silent) == {}


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
    assert "iterations is 2 there, here 3" in complete_cells(changed, cells, 1, None, silent)[PLAIN.run]


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
def test_on_a_ray_cluster(bench: Bench) -> None:
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

    def learning() -> bool:  # beyond the head start
        return any(len(log.read_text().splitlines()) > 2 for log in out.glob("cells/*/progress.csv"))

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as run:
        deadline = time.time() + 600
        while not learning() and time.time() < deadline:
            time.sleep(0.2)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=600)
    assert run.returncode == 130, said
    assert f"stopped; go on with:\n  python {' '.join(command[1:])}" in said
    listed = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, check=True, env=environment)
    assert "of 20000 iterations" in listed.stdout
    assert "done: 0 of" not in listed.stdout
