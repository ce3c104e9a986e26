"""Tables beside published numbers: orders, statements and cells by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tvwrl.agents.config import PRESETS
from tvwrl.experiments.engine import distinct
from tvwrl.experiments.episode_rows import incomplete_by
from tvwrl.experiments.statistics import crossed_estimate as crossed
from tvwrl.experiments.training_cells import SCALES, cells_of, describe_training
from tvwrl.papers.tvw_rl.cells import EXPERIMENTS, WAITING_WEIGHTS, Experiment
from tvwrl.papers.tvw_rl.figures import EVERY_METRIC, Group, TvwRlStudy, _claim, _orders, plot, summarise, write_tables
from tvwrl.papers.tvw_rl.published import FIGURE_CLAIMS, INFINITE, KU, NOISE, SIX, Claim
from tvwrl.papers.tvw_rl.table1 import orders
from tvwrl.schedulers.knowledge import CURRENT_LOAD, FUTURE, PEAKS

FLAT = {"a": [2.0, 2.0], "b": [1.0, 1.0], "c": [1.0, 1.0], "none": [0.0, 0.0]}  # column -> value in each sequence


def group_of(columns: dict[str, list[float]]) -> Group:
    """Every metric of the paper with these values."""
    return {metric.column: {name: crossed(np.array([values])) for name, values in columns.items()} for metric in SIX}


def published(**values: float) -> Experiment:
    return Experiment("T", (), {name: {"utilisation_cpu": value} for name, value in values.items()})


def test_orders() -> None:
    group = group_of(FLAT)
    assert _orders(published(a=0.3, b=0.2), group) == [
        "- CPU util: the paper's order holds: of 1 pairs of columns, 1 are ordered as in the paper (1 significantly), "
        "0 the other way round (0 significantly)"
    ]
    # a below b and b below c: one pair the other way round, one equal here; a and c as well.
    assert (
        "does not hold: of 3 pairs of columns, 0 are ordered as in the paper (0 significantly), 2 the"
        in _orders(published(a=0.1, b=0.2, c=0.3), group)[0]
    )
    assert _orders(published(a=0.3, b=0.3), group) == []  # the paper has them equal
    assert _orders(published(a=0.3, z=0.2), group) == []  # not measured


@pytest.mark.parametrize(
    ("mine", "verdict"),
    [
        ({"a": [0.1, 0.1], "b": [0.2, 0.2], "c": [0.3, 0.3]}, "holds"),
        (
            {"a": [0.1, 0.1], "b": [0.2, 0.2], "c": [0.19, 0.3]},
            "is not decided by these runs",
        ),  # as published, on average
        ({"a": [0.1, 0.1], "b": [0.2, 0.2], "c": [0.3, 0.05]}, "is not decided by these runs"),
        ({"a": [0.1, 0.1], "b": [0.3, 0.3], "c": [0.2, 0.2]}, "does not hold"),
        ({"a": [0.1, 0.1], "b": [0.3, 0.3], "c": [0.3, 0.3]}, "does not hold"),  # equal everywhere
    ],
)
def test_an_order_holds_only_if_every_pair_has_it_significantly(mine: dict[str, list[float]], verdict: str) -> None:
    (line, *_) = _orders(published(a=0.1, b=0.2, c=0.3), group_of(mine))
    assert f"the paper's order {verdict}: of 3 pairs" in line


UNSURE = {"a": [1.5, 0.7], "b": [0.5, 1.3]}  # one sequence says 3 and one 1/2: the ratio of the means is 1.1 / 0.9
TOUCHING = {"a": [1.5, 1.0], "b": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("columns", "over", "under", "low", "high", "verdict"),
    [
        (FLAT, "a", "b", 1.5, 2.5, "holds"),
        (FLAT, "a", "b", 1.0, INFINITE, "holds"),
        (FLAT, "a", "b", 2.5, 3.0, "holds in direction, not in size"),
        (FLAT, "a", "b", 5.0, INFINITE, "holds in direction, not in size"),
        (FLAT, "a", "b", 1.2, 1.4, "holds, beyond what was published"),
        (FLAT, "b", "a", 0.6, 0.8, "holds, beyond what was published"),
        (FLAT, "b", "a", 0.1, 0.4, "holds in direction, not in size"),
        (FLAT, "a", "b", 0.5, 0.9, "does not hold"),
        (FLAT, "b", "c", 1.5, 2.5, "does not hold"),
        (FLAT, "b", "c", 1.0, INFINITE, "does not hold"),  # "above 1", and it is 1
        (FLAT, "a", "b", 2.0, 2.0, "holds, it is in our interval"),
        (FLAT, "a", "b", 2.4, 2.4, "holds in direction, not in size"),
        (FLAT, "a", "b", 1.6, 1.6, "holds, beyond what was published"),
        (FLAT, "none", "none", 1.0, 2.0, "cannot be said, both are 0"),
        (UNSURE, "a", "b", 1.0, INFINITE, "not decided by these runs"),
        (UNSURE, "a", "b", 1.5, 2.0, "not decided by these runs"),
        (UNSURE, "a", "b", 4.0, 5.0, "does not hold in size; the direction is not decided by these runs"),
        (UNSURE, "a", "b", 0.5, 0.9, "not decided by these runs"),
        (UNSURE, "a", "b", 0.9, 0.9, "not decided by these runs"),
        (TOUCHING, "a", "b", 1.0, INFINITE, "not decided by these runs"),
        ({"a": [1.5, 1.4], "b": [0.5, 1.3]}, "a", "b", 1.0, INFINITE, "holds"),
    ],
)
def test_statements(
    columns: dict[str, list[float]], over: str, under: str, low: float, high: float, verdict: str
) -> None:
    (line,) = _claim(Claim("utilisation_cpu", over, under, low, high, "as said"), group_of(columns))
    assert line.rpartition(": ")[2] == verdict


def test_a_statement_names_ratio_interval_and_source_unless_a_column_was_not_measured() -> None:
    claim = Claim("utilisation_cpu", "a", "b", 1.0, INFINITE, "as said")
    assert _claim(claim, group_of(TOUCHING)) == [
        '- CPU util, a / b: 1.25 [1.00, 1.50]; paper above 1 ("as said"): not decided by these runs'
    ]
    assert _claim(replace(claim, under="absent"), group_of(TOUCHING)) == []


@pytest.mark.parametrize(
    ("times", "verdict"), [(6.0, "holds"), (4.0, "holds in direction, not in size"), (0.5, "does not hold")]
)
def test_overshoot_is_huge_from_five_times_on(times: float, verdict: str) -> None:
    (claim,) = (claim for claim in FIGURE_CLAIMS if claim.metric == "overshoot_pct")
    (line,) = _claim(claim, group_of({claim.over: [times, times], claim.under: [1.0, 1.0]}))
    assert "paper at least 5" in line
    assert line.endswith(f": {verdict}")


def test_the_claim_about_waiting_is_judged_in_calm_and_in_bursts() -> None:
    """Waits of 4, 2 and 1 slots, 5, 6 and 7 machines, overshoot that falls: in bursts all stay as they are."""
    measures = {"wait_mean": (4.0, 2.0, 1.0), "machines_used": (5.0, 6.0, 7.0), "overshoot_pct": (0.3, 0.2, 0.1)}
    metrics = [metric.column for metric in EVERY_METRIC]
    rows = [
        {"group": group, "column": f"K_w = {weight:g}", "seed": 0, "sequence": sequence}
        | dict.fromkeys(metrics, 1.0)
        | {"unplaced": 0}
        | {name: values[place] for name, values in measures.items() if group == "calm"}
        for group in ("calm", "burst")
        for place, weight in enumerate(WAITING_WEIGHTS)
        for sequence in (0, 1)
    ]
    calm, burst = write_tables(EXPERIMENTS["sensitivity-kw"], summarise(pl.DataFrame(rows))).split("## ")[1:]
    assert '- Wait, slots, K_w = 50 / K_w = 500: 2.00 [2.00, 2.00]; paper above 1 ("shorter' in calm
    for title, said in (("Wait, slots", "holds"), ("Machines used", "holds"), ("Overshoot, %", "does not hold")):
        lines = [line for line in calm.splitlines() if line.startswith(f"- {title}, K_w")]
        assert [line.rpartition(": ")[2] for line in lines] == [said, said]
    assert burst.count("paper above 1") == 6


def test_table_and_plot(tmp_path: Path) -> None:
    experiment, metrics = EXPERIMENTS["table3-ku"], [metric.column for metric in EVERY_METRIC]
    rows = [
        {"group": "load 0.5", "column": f"K_u = {place}", "seed": seed, "sequence": sequence}
        | dict.fromkeys(metrics, 0.1 * place + 0.01 * sequence)
        | {"unplaced": 0}
        for place in range(4)
        for seed in (0, 1)
        for sequence in (0, 1, 2)
    ]
    groups = summarise(pl.DataFrame(rows))
    text = write_tables(experiment, groups)
    line = next(line for line in text.splitlines() if line.startswith("| CPU util"))
    assert [cell.strip() for cell in line.split("|")[2:4]] == [
        "0.010 [0.000, 0.020] (0.103)",
        "0.110 [0.100, 0.120] (0.117)",
    ]
    assert "- CPU util: the paper's order holds: of 6 pairs of columns, 6 are ordered as in the paper (6" in text
    assert "- CPU frag: the paper's order does not hold: of 6 pairs of columns, 0 are" in text
    assert experiment.note in text
    plot(experiment, groups, tmp_path / "plots" / "all.png")
    assert (tmp_path / "plots" / "all.png").read_bytes().startswith(b"\x89PNG")


def test_a_column_that_left_workloads_unplaced_has_no_figures_and_supports_no_claim() -> None:
    """One episode of one seed of K_w = 5000 is incomplete: its means over the others would be a selection."""
    metrics = [metric.column for metric in EVERY_METRIC]
    rows = [
        {"group": "calm", "column": f"K_w = {weight:g}", "seed": seed, "sequence": sequence}
        | dict.fromkeys(metrics, 1.0)
        | {"unplaced": 7 * (weight == 5000 and seed == sequence == 1)}
        for weight in WAITING_WEIGHTS
        for seed in (0, 1)
        for sequence in (0, 1)
    ]
    table = pl.DataFrame(rows)
    text = write_tables(EXPERIMENTS["sensitivity-kw"], summarise(table), incomplete_by(table, ("group", "column")))
    cells = next(line for line in text.splitlines() if line.startswith("| Reward"))
    assert [cell.strip()[0] for cell in cells.split("|")[2:5]] == ["0", "0", "-"]
    assert "- K_w = 5000: no figures, 1 of 4 sequences incomplete, 7 workloads not placed" in text
    assert "K_w = 500 / K_w = 5000: cannot be said, as K_w = 5000 has no figure" in text or (
        "K_w = 5000 / K_w = 500: cannot be said, as K_w = 5000 has no figure" in text
    )
    assert "nan" not in text


def test_schedulers_are_ranked_within_what_they_know_and_settings_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(
        "tvwrl.papers.tvw_rl.figures.draw_estimates", lambda file, rows, *rest, **more: drawn.append(rows)
    )
    metrics = [metric.column for metric in EVERY_METRIC]
    rewards = {"tvw-rl": -2.0, "deeprm": -1.0, "tetris": -3.0, "best-fit": -4.0, "clairvoyant": 0.0}
    rows = [
        {"group": "load 0.5", "column": name, "seed": 0, "sequence": sequence} | dict.fromkeys(metrics, reward)
        for name, reward in rewards.items()
        for sequence in (0, 1)
    ]
    plot(EXPERIMENTS["fig4"], summarise(pl.DataFrame(rows)), Path("unused.png"))
    assert [(row.name, row.group, row.ours) for row in drawn[0]] == [
        ("TVW-RL", CURRENT_LOAD.group, True),
        ("Best-Fit", CURRENT_LOAD.group, False),
        ("DeepRM", PEAKS.group, False),
        ("Tetris", PEAKS.group, False),
        ("Clairvoyant", FUTURE.group, False),
    ]
    settings = pl.DataFrame([{**row, "column": name} for row, name in zip(rows, ("K_u = 3", "K_u = 0"), strict=False)])
    plot(EXPERIMENTS["table3-ku"], summarise(settings), Path("unused.png"))
    assert [(row.name, row.group) for row in drawn[1]] == [("K_u = 3", ""), ("K_u = 0", "")]


# ---- what is measured


@pytest.mark.parametrize("preset", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_can_be_trained_and_is_published_by_its_columns(name: str, preset: str) -> None:
    experiment, study = EXPERIMENTS[name], TvwRlStudy(preset)  # type: ignore[arg-type]
    columns = experiment.columns(study._setup(), [0, 1])
    for column in columns:
        if training := column.cell.training:
            assert training.config.seed == column.seed
            assert training.config.iterations == study._setup().config(column.column, {}).iterations
    names = {column.column for column in columns}
    assert set(experiment.numbers or {}) <= names
    assert {end for claim in experiment.claims for end in (claim.over, claim.under)} <= names


@pytest.mark.parametrize("preset", SCALES)
def test_agents_know_what_the_papers_does_and_deeprm_keeps_its_own_preset(preset: str) -> None:
    study = TvwRlStudy(preset)  # type: ignore[arg-type]
    base, setup = study.base, study._setup()
    ours, deeprm = (setup.config(name, {"load": 0.3}) for name in ("tvw-rl", "deeprm"))
    assert ours.scenario == replace(PRESETS["paper"].scenario, load=0.3, max_slots=base.scenario.max_slots)
    line = describe_training(ours, "x")
    assert line.startswith(f"- `x`: `{base.algo}`, policy `{base.policy}`, {base.iterations} iterations")
    assert line.endswith(f"knows *{CURRENT_LOAD.group}*: classes, the last 20 slots of load (learnt)")
    assert deeprm.scenario == replace(PRESETS["deeprm"].scenario, load=0.3)
    assert deeprm.train_sequences == base.train_sequences
    for name in ("algo", "imitate", "policy", "trajectories", "minibatches", "gamma", "learning_rate"):
        assert getattr(deeprm, name) == getattr(PRESETS["deeprm"], name)


def test_trainings_are_shared_between_figures_and_scenarios() -> None:
    setup = TvwRlStudy("smoke")._setup()
    columns = [column for one in EXPERIMENTS.values() for column in one.columns(setup, [0])]
    cells = distinct(cells_of(columns))
    plain = {cell.name for cell in cells if cell.group == "google-tvw-rl-seed0"}
    noises = {f"evaluation-background{n}" for n in (1, 2, 3)}
    assert {name.split("/")[1] for name in plain} == {"training", "evaluation", "evaluation-perturb1", *noises}
    # Figure 5 at load 0.5, and the paper's K_u, K_o and K_c
    assert len([column for column in columns if column.cell.run_name == "alibaba-tvw-rl-seed0"]) == 4
    assert len([cell for cell in cells if cell.group == "alibaba-tvw-rl-seed0"]) == 2
    assert any(cell.group.endswith("hold_action-any_placements_per_slot-K_w500-burst8-seed0") for cell in cells)


def test_published_numbers_are_in_their_places() -> None:
    assert NOISE["not trained [0-3]"]["overshoot_pct"] == 0.132
    assert KU["K_u = 3"]["machines_used"] == 5.167


def test_orders_of_table_1() -> None:
    given = {"a": 3.0, "b": 2.0, "c": 1.0}
    assert orders("gain", {"a": 0.3, "b": 0.2, "c": 0.1}, given) == [
        "- gain, measured once: the order is the paper's, highest first a, b, c"
    ]
    assert "differs: here, highest first, a, c, b" in orders("gain", {"a": 0.3, "b": 0.2, "c": 0.25}, given)[0]
    assert orders("gain", {"a": 0.3}, given) == []
