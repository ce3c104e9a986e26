"""Results: shares and ratios worked out by hand, a page from synthetic rows, and what is missing of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tvwrl.experiments import engine
from tvwrl.experiments.engine import folder_of
from tvwrl.experiments.results import study
from tvwrl.experiments.results.page import (
    AGENT,
    AGENTS,
    TRAINED,
    cost_saved,
    gap_closed,
    is_better_than_all,
    measure,
    rivals,
)
from tvwrl.experiments.results.study import ResultsStudy, finished_rows, trainings
from tvwrl.experiments.statistics import crossed_estimate
from tvwrl.experiments.training_cells import PLAYED, Column
from tvwrl.schedulers.knowledge import CURRENT_LOAD, FORECASTS, FORECASTS_AND_PEAKS, FUTURE, PEAKS
from tvwrl.types import InputError

# reward, overshoot %, machines used of each scheduler, on average: the agent closes 30 of 50 of the gap.
HEURISTIC = {
    "best-fit": (-200e3, 1.0, 5.0),
    "tetris": (-150e3, 0.0, 10.0),
    "best-fit-peak": (-100e3, 0.0, 8.0),
    "expected-cost": (-90e3, 0.2, 7.0),
    "clairvoyant": (-50e3, 0.0, 5.0),
}
OURS = (-70e3, 0.15, 7.0)


def evaluation(names: dict[str, tuple[float, float, float]], load: float, offered: float = 0.0) -> pl.DataFrame:
    """rows.csv of an evaluation on three sequences; what is hard in a sequence is so for all."""
    return pl.DataFrame(
        {
            "scheduler": name,
            "load": load,
            "sequence": i,
            "reward": reward + (i - 1) * 9e3,
            "overshoot_pct": overshoot,
            "machines_used": machines,
            "peak_machines": 6,
            "machine_slots": 110.0,
            "wait_mean": 0.5,
            "unplaced": 0,
            "offered_load": load + i / 100 + offered,
        }
        for name, (reward, overshoot, machines) in names.items()
        for i in range(3)
    )


def test_only_agents_that_look_ahead_learn_from_counterfactuals_and_the_page_says_so(tmp_path):
    every = ResultsStudy(traces=("google",), loads=(0.5,), seeds=(0,))
    trained = {column.column: column.cell.training.config.algo for column in every.columns() if column.cell.training}
    ahead = {"agent": "counterfactual", "agent-peak": "counterfactual", "agent-forecast-peak": "counterfactual"}
    assert trained == ahead | {"agent-history": "ppo", "deeprm": "reinforce"}
    rules = every.columns()[0]
    play(tmp_path, rules)
    told = every.report("results", tmp_path, [rules.cell]).parts[TRAINED]
    assert all(f"- `{agent}`: `{algo}`, " in told for agent, algo in trained.items())


def write(out: Path, column: Column, rows: pl.DataFrame) -> None:
    """As if it had been played: every bound is 5 machines and 100 machine slots, 80 with waiting."""
    folder = folder_of(out, column.cell) / PLAYED
    folder.mkdir(parents=True)
    rows.write_csv(folder / "rows.csv")
    bounds = rows.select("load", "sequence").unique()
    limits = {"peak_machines": 5, "machine_slots": 100, "machine_slots_waiting": 80}
    columns = {f"lower_bound_{name}": pl.lit(value) for name, value in limits.items()}
    bounds.with_columns(**columns).write_csv(folder / "bounds.csv")
    (folder.parent / "cell.json").write_text("{}")


def play(out: Path, column: Column, agent: tuple[float, float, float] = OURS) -> None:
    """As if the cell were finished, after two sessions of training."""
    cell = column.cell
    rows = evaluation({cell.run_name: agent} if cell.training else HEURISTIC, cell.scenario.load)
    write(out, column, rows)
    if cell.training is None:
        return
    folder, iterations = folder_of(out, cell.training), cell.training.config.iterations
    folder.mkdir(exist_ok=True)
    (folder / "progress.csv").write_text(f"iteration\n{iterations}\n")
    first, second = (
        f'{{"before": {a}, "after": {b}, "seconds": {s}, "cores": 2, "commit": "0123456789abc"}}'
        for a, b, s in ((0, 4, 60.0), (4, iterations, 30.0))
    )
    (folder / "sessions.json").write_text(f'{{"sessions": [{first}, {second}]}}')


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trace is opened: what is there counts as finished."""
    monkeypatch.setattr(engine, "is_finished", lambda out, cell: (folder_of(out, cell) / "cell.json").exists())
    monkeypatch.setattr(study, "is_finished", engine.is_finished)
    monkeypatch.setattr(ResultsStudy, "_sources", lambda self: ["wild: a trace"])


def of(loads: list[float], seeds: list[int], agents: list[str]) -> ResultsStudy:
    """A study of one trace; every preset's agent observes forecasts."""
    options = {"iterations": 6, "deeprm_iterations": 9, "loads": tuple(loads), "agents": tuple(agents)}
    return ResultsStudy("medium", tuple(seeds), traces=("wild",), **options)


def columns_of(own: ResultsStudy, deeprm: bool = False) -> list[Column]:
    """Its columns, DeepRM's left out by default."""
    return [column for column in own.columns() if deeprm or column.column != "deeprm"]


def played(
    own: ResultsStudy, out: Path, agent: tuple[float, float, float] = OURS, deeprm: bool = False
) -> tuple[dict[str, Any], dict[str, str]]:
    """Plays all of its columns; measures by group, and the knowledge of every scheduler."""
    columns = columns_of(own, deeprm)
    for column in columns:
        play(out, column, (-60e3, 0.0, 8.0) if column.column == "deeprm" else agent)
    rows = finished_rows(own._setup(), out, columns)
    return measure(rows), dict(rows.select("column", "knowledge").unique().rows())


def page(own: ResultsStudy, out: Path) -> str:
    """The page and those that it links to."""
    cells = [cell for cell in own.cells("results") if engine.is_finished(out, cell)]
    report = own.report("results", out, cells)
    return "\n\n".join([report.text, *report.parts.values()])


def test_shares_and_ratios_by_hand(tmp_path: Path) -> None:
    own = of([0.5], [0, 1], [AGENT])
    names = [column.cell.run_name for column in columns_of(own)]
    assert names == ["wild-heuristics", "wild-tvw-rl-seed0", "wild-tvw-rl-seed1"]
    groups, knowledge = played(own, tmp_path)
    assert knowledge.keys() == {*HEURISTIC, AGENT}
    assert knowledge[AGENT] == FORECASTS.group
    measures = groups["wild, load 0.5"]
    assert gap_closed(measures, AGENT).mean == pytest.approx(0.6)
    assert gap_closed(measures, AGENT).interval == pytest.approx((0.6, 0.6))  # sequences are as hard for all
    assert gap_closed(measures, "tetris").mean == pytest.approx(-1.0)
    assert (measures[AGENT]["machines_used"] / measures["tetris"]["machines_used"]).mean == pytest.approx(0.7)
    assert measures[AGENT]["slots_gap_pct"].mean == pytest.approx(10.0)
    assert cost_saved(measures, AGENT, "expected-cost").mean == pytest.approx(20 / 90)
    assert is_better_than_all(measures, knowledge, AGENT)


@pytest.mark.parametrize(("ours", "better"), [((-90, -99), True), ((-60, -101), False), ((-100, -100), False)])
def test_better_than_all_is_significantly_better(ours: tuple[float, float], better: bool) -> None:
    """Against -100 on both sequences: ahead of it on both, ahead of it in the mean alone, and equal."""
    rewards = {AGENT: ours, "forecast-fit": (-100, -100), "best-fit-peak": (-100, -100), "clairvoyant": (0, 0)}
    measures = {
        name: {
            "reward": crossed_estimate(np.array([values], float)),
            "unplaced": crossed_estimate(np.zeros((1, 2))),
        }
        for name, values in rewards.items()
    }
    knowledge = {"best-fit-peak": PEAKS.group, "forecast-fit": FORECASTS.group, "clairvoyant": FUTURE.group}
    assert is_better_than_all(measures, knowledge | {AGENT: FORECASTS_AND_PEAKS.group}, AGENT) is better


def test_a_page_says_what_was_trained_and_what_is_missing(tmp_path: Path) -> None:
    own = of([0.3, 0.5], [0, 1], [AGENT])
    columns = columns_of(own)
    for column in columns[:2]:
        play(tmp_path, column)
    text = page(own, tmp_path)
    assert "- wild, load 0.3: agent of seed 1 (0 of 6 iterations trained, not evaluated)" in text
    assert "- wild, load 0.5: the heuristics" in text
    assert "## Load 0.5" not in text
    assert "Fewer than 3 training seeds (2)" in text
    assert "; 1 of 4 learnt schedulers" in text
    assert "1.5, -" in text  # minutes
    assert "012345678" in text
    table = text[text.index("## Load 0.3") :]
    rows = [table.index(f"| {name} ") for name in ("best-fit", "tetris", "expected-cost", "clairvoyant")]
    assert rows == sorted(rows)
    assert "![wild](wild.png)" in text
    made = own.report("results", tmp_path, [column.cell for column in columns[:2]])
    assert len(made.rows) == 3 * (len(HEURISTIC) + 1)
    made.plots["wild"](tmp_path / "wild.png")
    assert (tmp_path / "wild.png").read_bytes().startswith(b"\x89PNG")


def test_unrecorded_training_time_is_shown_as_such(tmp_path: Path) -> None:
    own = of([0.5], [0, 1, 2], [AGENT])
    columns = columns_of(own, deeprm=True)
    played(own, tmp_path, deeprm=True)
    (folder_of(tmp_path, columns[2].cell.training) / "sessions.json").unlink()
    assert trainings(tmp_path, columns)["seconds"].to_list() == [90.0, 0.0, 90.0, 90.0, 90.0, 90.0]
    text = page(own, tmp_path)
    assert "not recorded, 1.5, 1.5" in text
    assert "Missing" not in text
    assert "Fewer than" not in text


def test_every_agent_competes_with_those_that_know_as_much(tmp_path: Path) -> None:
    agents = list(AGENTS)
    own = of([0.3, 0.8], [0], agents)
    columns = columns_of(own)
    assert len({column.cell.run_name for column in columns}) == 1 + len(
        agents
    )  # the heuristics; each agent is trained once
    groups, knowledge = played(own, tmp_path)
    like = (FORECASTS, CURRENT_LOAD, PEAKS, FORECASTS_AND_PEAKS)
    assert [knowledge[agent] for agent in agents] == [one.group for one in like]
    measures = groups["wild, load 0.3"]
    assert rivals(measures, knowledge, "agent-history") == ["best-fit"]
    assert rivals(measures, knowledge, "agent-peak") == ["best-fit", "tetris", "best-fit-peak"]
    assert rivals(measures, knowledge, AGENT) == ["best-fit", "expected-cost"]
    assert rivals(measures, knowledge, "agent-forecast-peak") == list(HEURISTIC)[:-1]
    text = page(own, tmp_path)
    better = "- `agent` is significantly better than every scheduler that knows no more in 2 of 2 cells; on average it "
    assert better + "saves 22.2% of the cost" in text
    assert len(re.findall(r"\| wild +\| +agent-peak \|", text)) == 1
    assert len(re.findall(r"\| wild, load 0\.[38] +\| +agent-peak \|", text)) == 2


def test_deeprm_competes_where_peaks_are_known(tmp_path: Path) -> None:
    own = of([0.5], [0], ["agent", "agent-peak"])
    columns = columns_of(own, deeprm=True)
    assert [column.cell.run_name for column in columns][1] == "wild-deeprm-seed0"
    groups, knowledge = played(own, tmp_path, deeprm=True)
    assert knowledge["deeprm"] == PEAKS.group
    measures = groups["wild, load 0.5"]
    assert not is_better_than_all(measures, knowledge, "agent-peak")
    assert is_better_than_all(measures, knowledge, AGENT)  # it does not know peaks
    assert trainings(tmp_path, columns)["of"].to_list() == [9, 6, 6]
    text = page(own, tmp_path)
    assert re.search(r"\| *wild *\| *deeprm *\| *0 *\| *9 *\|", text)
    assert "`agent-peak` is significantly better than every scheduler that knows no more in 0 of 1 cells;" in text


def test_cells_of_other_sequences_are_refused(tmp_path: Path) -> None:
    own = of([0.5], [0], [AGENT])
    columns = columns_of(own)
    play(tmp_path, columns[0])
    write(tmp_path, columns[1], evaluation({"agent": OURS}, 0.5, offered=0.01))
    with pytest.raises(InputError, match="cells were evaluated on different sequences"):
        finished_rows(own._setup(), tmp_path, columns)
