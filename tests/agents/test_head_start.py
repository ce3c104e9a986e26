"""The head start: what is imitated, and what counts as the same choice."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tvwrl.agents.config import INFORMED, TrainConfig
from tvwrl.agents.head_start import RecordedTeacher, _equally_good, imitate
from tvwrl.agents.networks import make_policy
from tvwrl.agents.observing import shapes_of
from tvwrl.agents.training import PlacementTask
from tvwrl.envs.problem import Problem
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError


def test_machines_that_look_the_same_are_the_same_choice():
    # Machines 1 and 3 look alike; machine 3 is forbidden in the second row; the third row holds.
    machines = torch.tensor([[1.0], [2.0], [3.0], [2.0]]).repeat(3, 1, 1)
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1, 3] = False
    good = _equally_good({"machines": machines, "mask": mask}, torch.tensor([1, 1, 4]))
    assert good.int().tolist() == [[0, 1, 0, 1, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 1]]


def test_recording_a_teacher_changes_nothing(problem, train):
    runner = Runner(train, problem.machines, problem.scenario)
    recorded = RecordedTeacher(make_scheduler("best-fit-peak"), forecasts=False)
    alone, looked_at = runner.play(make_scheduler("best-fit-peak"), 1), runner.play(recorded, 1)
    assert alone.machine.tolist() == looked_at.machine.tolist()
    assert alone.start.tolist() == looked_at.start.tolist()
    assert recorded.actions == looked_at.machine[looked_at.start.argsort(kind="stable")].tolist()


def with_peaks(problem):
    """A sequence of a scenario that shows lifetime peaks and no forecasts, and the scenario."""
    scenario = replace(problem.scenario, observe_peak=True)
    peaks = Problem.build(problem.trace, scenario, problem.classes, forecaster=problem.forecaster)
    return peaks.sequences("train", 1, 0), scenario


def test_a_teacher_with_forecasts_shows_a_policy_no_more_than_peaks(problem):
    drawn, scenario = with_peaks(problem)
    seen = []
    for teacher in ("forecast-fit", "clairvoyant"):
        recorded = RecordedTeacher(make_scheduler(teacher), forecasts=False)
        Runner(drawn, problem.machines, scenario).play(recorded, 0)
        seen.append(np.concatenate([one["forecast"] for one in recorded.seen]))
    forecast_peak = drawn.forecast.peaks[0]
    for shown in seen:  # the one asks for forecasts, the other does not
        assert not np.delete(shown, forecast_peak, axis=-1).any()
        assert shown[..., forecast_peak].any()


def test_a_simulation_shows_peaks_alone_whatever_is_added_up(problem):
    drawn, scenario = with_peaks(problem)
    both = [Simulation(drawn, problem.machines, scenario, forecasts=added) for added in (False, True)]
    for simulation in both:
        simulation.reset(0)
        for machine in (0, 1, 2, 0, 1):
            simulation.step(np.array([machine]))
    without, added_up = (simulation.observation()["forecast"] for simulation in both)
    assert np.array_equal(without, added_up)
    assert without.any()


def test_what_is_imitated_is_learnt(problem):
    scenario = replace(INFORMED, machines=4, workloads=16, history=6, observe_forecast=False)
    config = TrainConfig(imitate=8, hidden=16, eval_sequences=4, scenario=scenario)
    problem = replace(problem, scenario=scenario)
    task = PlacementTask(problem, replace(config, train_sequences=2, sequences_per_iteration=2))
    policy = make_policy("shared", task.shapes, 16)
    before = task.evaluate(policy)["reward"]
    assert imitate(policy, problem, config) > 0.6
    assert task.evaluate(policy)["reward"] > before


def test_the_head_start_has_a_step_size_of_its_own(problem):
    scenario = replace(INFORMED, machines=4, workloads=8, history=6)
    config = TrainConfig(imitate=1, teacher="best-fit-peak", hidden=8, scenario=scenario)
    problem = replace(problem, scenario=config.scenario)
    task = PlacementTask(problem, replace(config, train_sequences=1, sequences_per_iteration=1, eval_sequences=1))
    learnt = []
    for changes in ({}, {"learning_rate": 1e-4}, {"imitation_rate": 1e-4}):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            policy = make_policy("shared", task.shapes, 8)
        imitate(policy, problem, replace(config, **changes))
        learnt.append(torch.cat([part.detach().ravel() for part in policy.parameters()]))
    assert torch.equal(learnt[0], learnt[1])
    assert not torch.equal(learnt[0], learnt[2])


@pytest.mark.parametrize(
    ("changes", "imitated"),
    [
        ({}, ""),  # expected-cost is built in
        ({"teacher": "expected-cost", "observe_peak": True}, ""),
        ({"observe_peak": True}, ""),
        ({"observe_peak": True, "observe_forecast": False}, ""),
        ({"observe_forecast": False}, "best-fit-peak"),
        ({"policy": "flat", "algo": "reinforce", "trajectories": 2}, "expected-cost"),
        ({"teacher": "tetris"}, "tetris"),
        ({"teacher": "tetris", "imitate": 0}, ""),
    ],
)
def test_who_is_imitated(changes, imitated):
    shown = {name: changes.pop(name) for name in list(changes) if name.startswith("observe")}
    config = TrainConfig(scenario=replace(INFORMED, **shown), **changes)
    assert config.imitates == imitated
    built_in = not imitated and changes.get("teacher") != "tetris"
    assert bool(config.built_in) == built_in


def test_a_teacher_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match=r"teacher is 'sprad': did you mean spread.*--list-schedulers lists all"):
        TrainConfig(teacher="sprad")


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("expected-cost", {}),
        ("expected-cost", {"machines": 12}),
        ("expected-cost", {"K_w": 5000.0, "load": 0.8}),
        ("expected-cost", {"machine_types": ("1x0", "4x8")}),
        ("expected-cost", {"machine_types": ("2x8", "1x16"), "K_u": (3.0, 1.0), "K_o": (30000.0, 10000.0)}),
        ("expected-cost-peak", {}),
        ("expected-cost-peak", {"machine_types": ("2x8", "1x16"), "load": 0.8}),
        ("expected-cost-known-peak", {"load": 0.8}),
        ("best-fit-peak", {"load": 0.8}),
        ("best-fit-peak", {"observe_forecast": False, "machine_types": ("2x8", "1x16", "1x0")}),
    ],
    ids=str,
)
def test_an_untrained_policy_places_as_the_rule_that_is_built_in(problem, rule, changes):
    shown = {"observe_demand": True, "observe_forecast": True, "hold_action": True, "observe_peak": "peak" in rule}
    scenario = replace(problem.scenario, **(shown | changes))
    informed = Problem.build(problem.trace, scenario, problem.classes, forecaster=problem.forecaster)
    recorded = RecordedTeacher(make_scheduler(rule), forecasts=scenario.observe_forecast)
    runner = Runner(informed.sequences("test", 4, 0), informed.machines, scenario)
    for i in range(4):
        runner.play(recorded, i)
    weights = scenario.penalty_weights().per_resource(2).tolist()
    shapes = shapes_of(runner.simulation(recorded)) | {"weights": weights, "rule": rule}
    policy = make_policy("shared", shapes, 8)
    seen = {name: np.concatenate([one[name] for one in recorded.seen]) for name in recorded.seen[0]}
    encoded = policy.encode(seen) | {"mask": torch.from_numpy(np.array(recorded.masks))}
    same = _equally_good(encoded, torch.tensor(recorded.actions))
    likeliest = policy.logits(encoded).argmax(dim=1)
    assert same[torch.arange(len(same)), likeliest].float().mean() > 0.98  # but for ties and single precision
    assert len(set(recorded.actions)) > 2


def test_a_teacher_that_foresees_is_refused_where_nothing_is_forecast():
    blind = replace(INFORMED, observe_forecast=False)
    with pytest.raises(InputError, match="teacher is forecast-fit: it needs forecasts"):
        TrainConfig(teacher="forecast-fit", scenario=blind)
    assert TrainConfig(teacher="forecast-fit", scenario=replace(blind, observe_peak=True)).imitates == "forecast-fit"
