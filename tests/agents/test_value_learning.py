"""Values of machines: what they are learnt from against the referee, files, and what is refused."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvwrl.agents.value_learning import (
    Labels,
    costs_by_machine,
    first_rule,
    fit,
    learn_value,
)
from tvwrl.agents.value_settings import ValueSettings
from tvwrl.envs.problem import Problem
from tvwrl.experiments.scheduler_names import origin_of
from tvwrl.metrics import penalties
from tvwrl.schedulers import Moving, Runner, make_scheduler
from tvwrl.schedulers.moving.machine_costs import (
    Layers,
    costs_of,
    present,
)
from tvwrl.schedulers.moving.machine_value import ByMachineValue, MachineValue, meaning, shipped_value
from tvwrl.schedulers.moving.move_search import (
    find_moves,
)
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError

FEW = ValueSettings(
    sequences=4,
    validation=2,
    generations=2,
    gammas=(0.9,),
    risks=(1.0,),
    thresholds=(1.0, 2.0),
    units=(8, 4),
    epochs=1,
)


@pytest.fixture(scope="module")
def moving(google):
    scenario = Scenario(moves_per_slot=2, machines=5, workloads=30, load=0.6)
    return Problem.build(google, scenario).with_forecasts()


@pytest.fixture(scope="module")
def value(moving):
    return learn_value([moving], FEW)


@pytest.mark.parametrize(
    "changes", [{}, {"overshoot_per": "machine", "move_overlap": 2}, {"background": 2, "K_u": 0.0}]
)
def test_costs_of_machines_add_up_to_those_of_the_referee(google, changes):
    scenario = Scenario(moves_per_slot=3, machines=4, workloads=30, load=0.9, **changes)
    problem = Problem.build(google, scenario).with_forecasts()
    runner = Runner(problem.sequences("test", 1, 0), problem.machines, problem.scenario)
    episode = runner.play(make_scheduler("spread + greedy(threshold=0)"), 0)
    assert len(episode.moves) > 10
    found = costs_by_machine(episode, problem.machines, scenario).sum(axis=(0, 1))
    expected = penalties(episode, problem.machines, scenario.penalty_weights(), scenario.overshoot_per)
    assert expected["overshoot"] > 0
    assert found[1] == pytest.approx(expected["overshoot"])
    assert found[0] == pytest.approx(expected["contention"] + expected["under_utilisation"] + expected["moves"])


def test_a_network_learns_what_is_linear():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(20_000, 5)).astype(np.float32)
    costs = np.stack([features[:, 0] * 3 + 5, features[:, 1]], axis=1).astype(np.float32)
    _, explained = fit(Labels(features, costs), replace(FEW, epochs=20, units=(16, 8)))
    assert explained[0] > 0.98


def test_the_search_computes_what_the_page_on_export_says(moving, value, tmp_path, monkeypatch):
    """Value of a machine by the documented lines of numpy, against the cost that the search has."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "export.md").read_text()
    (lines,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "def value_of" in block]
    monkeypatch.chdir(tmp_path)
    Path("runs/moves").mkdir(parents=True)
    value = MachineValue(value.layers, value.resources, dict(value.facts) | {"risk": 0.7})
    value.save("runs/moves/value.npz")
    documented: dict[str, Any] = {}
    exec(lines, documented)
    runner = Runner(moving.sequences("test", 1, 0), moving.machines, moving.scenario)
    simulation = runner.simulation(make_scheduler("expected-cost"))
    simulation.reset(0)
    for _ in range(8):
        simulation.place(0, int(simulation.state.counters[0, 1]) % 5)
        simulation.next_slot()
    cluster = Cluster(simulation)
    costs = costs_of(cluster, 0.7, value.layers, 1000.0)
    here = present(cluster, cluster.running, value.layers)
    find_moves(here, costs, 0, 0.0, 3, 1.0, np.empty((1, 2), np.int64))  # no kind of moves: only the costs are made
    found = documented["value_of"](here.seen[None])  # features of the last machine
    assert here.cost[-1] == pytest.approx(found[0], rel=1e-4)


def test_it_is_the_same_with_the_same_seed_and_plays(moving, value):
    again = learn_value([moving], FEW)
    assert all(np.array_equal(*pair) for pair in zip(value.layers, again.layers, strict=True))
    assert value.facts == again.facts
    runner = Runner(moving.sequences("test", 1, 0), moving.machines, moving.scenario)
    row = moving.score(runner.play(Moving(make_scheduler("spread"), ByMachineValue(value)), 0))
    assert np.isfinite(row["reward"])


def test_several_problems_share_a_value(moving):
    both = [moving.at_price(300), moving.at_price(3000)]
    assert [first_rule(one.scenario) for one in both] == [
        "greedy-evacuate(threshold=5000,most=2,single=3)", "greedy-evacuate(threshold=20000,most=2,single=3)",
    ]  # fmt: skip
    value = learn_value(both, replace(FEW, generations=1))
    assert value.facts["prices"] == [300, 3000]


def test_a_file_is_read_as_it_was_written(value, tmp_path):
    file = tmp_path / "value.npz"
    value.save(file)
    again = MachineValue.load(file)
    assert all(np.array_equal(*pair) for pair in zip(value.layers, again.layers, strict=True))
    assert (again.facts, again.resources) == (value.facts, value.resources)
    assert [path.name for path in tmp_path.iterdir()] == ["value.npz"]


def test_damaged_files_are_refused(value, tmp_path):
    file = tmp_path / "value.npz"
    value.save(file)
    (tmp_path / "cut.npz").write_bytes(file.read_bytes()[:500])
    (tmp_path / "text.npz").write_text("no value")
    wide = value.layers._replace(first=np.zeros((3, 8), np.float32))
    MachineValue(wide, value.resources, value.facts).save(tmp_path / "wide.npz")
    bad = value.layers._replace(last_bias=np.full(2, np.nan, np.float32))
    MachineValue(bad, value.resources, value.facts).save(tmp_path / "nan.npz")
    MachineValue(value.layers, value.resources, dict(value.facts) | {"risk": -1.0}).save(tmp_path / "risk.npz")
    for name, share in (("share", 2), ("odd", float("nan")), ("word", "0.5")):
        MachineValue(value.layers, value.resources, dict(value.facts) | {"placing": share}).save(
            tmp_path / f"{name}.npz"
        )
    MachineValue(value.layers, value.resources, dict(value.facts) | {"scenario": {}}).save(tmp_path / "of.npz")
    for name, problem in (
        ("risk", "risk is -1.0"),
        ("share", "placing is 2"),
        ("odd", "placing is nan"),
        ("word", "placing is '0.5': must be a number"),
        ("of", "no learnt value"),
        ("cut", "damaged"),
        ("text", "damaged"),
        ("wide", "no learnt value"),
        ("nan", "finite"),
    ):
        with pytest.raises(InputError, match=problem):
            MachineValue.load(tmp_path / f"{name}.npz")
    with pytest.raises(InputError, match="no such file"):
        MachineValue.load(tmp_path / "nothing.npz")


@pytest.mark.parametrize(
    "same",
    [
        {"K_w": 0.0},
        {"capacity": (8, 8)},
        {"capacity": 8, "K_c": (0.1, 0.1), "K_u": 3},
        {"machine_types": ("10x8",)},
        {"machine_types": ("2x8,8.0", "1x8"), "capacity": 1},
    ],
)
def test_ways_to_write_the_same_are_the_same(same):
    value = shipped_value()
    assert value.misfit(Scenario(moves_per_slot=2, **same), value.resources) == ""
    several = replace(value, facts=value.facts | {"scenario": meaning(Scenario(machine_types=("2x8", "3x16,4")))})
    assert several.misfit(Scenario(machine_types=("1x16,4", "9x8,8")), value.resources) == ""
    assert "machine_types" in several.misfit(Scenario(machine_types=("1x16,4", "9x8,9")), value.resources)
    assert "capacity" in value.misfit(Scenario(capacity=(8, 9)), value.resources)


@pytest.mark.parametrize(
    ("field", "other"),
    [("K_u", 2.0), ("K_o", 100.0), ("capacity", 16), ("background", 3), ("usage_delay", 2), ("move_overlap", 1)],
)
def test_a_value_is_refused_where_it_means_nothing(moving, value, field, other):
    scenario = replace(moving.scenario, **{field: other})
    assert f"learnt value is for {field}" in value.misfit(scenario, ("cpu", "mem"))
    assert "of cpu, mem, but the trace has mem, cpu" in value.misfit(moving.scenario, ("mem", "cpu"))
    assert value.misfit(moving.scenario, ("cpu", "mem")) == ""
    other = replace(moving, scenario=scenario)
    runner = Runner(other.sequences("test", 1, 0), other.machines, other.scenario)
    with pytest.raises(InputError, match=f"learnt value is for {field}"):
        runner.play(Moving(make_scheduler("spread"), ByMachineValue(value)), 0)


def test_problems_without_moves_or_in_common_are_refused(moving):
    still = replace(moving, scenario=replace(moving.scenario, moves_per_slot=0))
    dearer = replace(moving, scenario=replace(moving.scenario, K_o=1.0))
    for problems, reason in (
        ([], "problems is empty"),
        ([still], "moves_per_slot is 0"),
        ([moving, dearer], "other penalties"),
        ([replace(moving, forecaster=None)], "needs forecasts"),
    ):
        with pytest.raises(InputError, match=reason):
            learn_value(problems, FEW)


def test_what_was_kept_is_not_learnt_again(moving, value, tmp_path):
    """After an interruption between generations the result is the same."""
    whole = learn_value([moving], FEW, kept=tmp_path / "whole")
    assert whole.digest == value.digest
    (tmp_path / "part").mkdir()
    (tmp_path / "whole" / "generation-1.npz").rename(tmp_path / "part" / "generation-1.npz")
    lines = []
    with pytest.raises(InputError, match="learnt with other prices"):
        learn_value([moving.at_price(300)], FEW, kept=tmp_path / "part")
    again = learn_value([moving], FEW, lines.append, tmp_path / "part")
    assert again.digest == value.digest
    assert not any(line.startswith("generation 1, discount") for line in lines)


def test_the_value_that_ships_plays_and_can_be_named(moving, value, tmp_path):
    value.save(tmp_path / "own (1)+b.npz")
    runner = Runner(moving.sequences("test", 1, 0), moving.machines, moving.scenario)
    shipped = moving.score(runner.play(make_scheduler("expected-cost + machine-value"), 0))
    assert shipped["moves"] > 0
    assert np.isfinite(shipped["reward"])
    own = make_scheduler(f"spread + machine-value(threshold=2,risk=0)={tmp_path / 'own (1)+b.npz'}")
    assert own.rule.value.digest == value.digest
    assert (own.rule.threshold, own.rule.risk) == (2, 0)
    assert make_scheduler(own.name).rule.value.digest == value.digest
    with pytest.raises(InputError, match="greedy reads no file"):
        make_scheduler("spread + greedy=value.npz")
    with pytest.raises(InputError, match="no such file"):
        make_scheduler("spread + machine-value=nowhere.npz")
    with pytest.raises(InputError, match="the file after = is missing"):
        make_scheduler("spread + machine-value=")
    dearer = replace(value, facts=dict(value.facts) | {"threshold": 50.0})
    entry = f"spread + machine-value={tmp_path / 'one.npz'}"
    value.save(tmp_path / "one.npz")
    entries = (entry, f"perfect-forecast({entry})")
    before = [origin_of(one, make_scheduler(one)) for one in entries]
    dearer.save(tmp_path / "one.npz")
    after = [origin_of(one, make_scheduler(one)) for one in entries]
    assert before[0] != after[0]  # what was played with the file before is not taken for it
    assert before[1] != after[1]


def test_it_may_begin_with_a_value_and_keeps_it_if_nothing_is_better(moving, value):
    perfect = replace(value, facts=dict(value.facts) | {"threshold": 1.0})
    found = learn_value([moving], replace(FEW, generations=1), start=perfect)
    assert found.digest == perfect.digest or found.facts["began"] == perfect.digest
    with pytest.raises(InputError, match="learnt value is for K_o"):
        learn_value([replace(moving, scenario=replace(moving.scenario, K_o=1.0))], FEW, start=value)


@pytest.mark.parametrize(
    ("field", "bad"), [("gammas", ()), ("risks", (1.0, 1.0)), ("units", (64,)), ("sequences", 2.5), ("gammas", (1.0,))]
)
def test_bad_settings_are_refused(field, bad):
    with pytest.raises(InputError, match=field):
        ValueSettings(**{field: bad})


def test_layers_have_the_shapes_of_the_documentation(value):
    assert isinstance(value.layers, Layers)
    assert value.layers.first.shape[1] == 8
