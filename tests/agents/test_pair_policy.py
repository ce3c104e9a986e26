"""A policy that also chooses which waiting workload to place: symmetries, the head start, learning, playing."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tvwrl.agents.acting import DeterministicActions
from tvwrl.agents.config import INFORMED, TrainConfig
from tvwrl.agents.episodes import play
from tvwrl.agents.features import about_the_workload, forecast_features
from tvwrl.agents.head_start import RecordedTeacher, _equally_good, imitate
from tvwrl.agents.networks import in_turn, make_policy
from tvwrl.agents.observing import shapes_of
from tvwrl.agents.policy_scheduler import PolicyScheduler
from tvwrl.agents.training import PlacementTask, Trainer
from tvwrl.envs import PlacementVectorEnv
from tvwrl.envs.problem import Problem
from tvwrl.forecasting.segments import columns
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.head_of_queue import Backfill
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError, Machines, Placement

CHOOSING = replace(
    INFORMED, machines=3, workloads=16, history=6, queue=4, choose_from_queue=True, machine_types=("2x8", "1x12")
)
TINY = TrainConfig(
    iterations=4,
    imitate=2,
    train_sequences=4,
    sequences_per_iteration=4,
    eval_sequences=2,
    eval_every=2,
    hidden=8,
    scenario=CHOOSING,
)
SEEN = {
    "labels and requests": {"observe_demand": False, "observe_forecast": False},
    "first demand": {"observe_forecast": False},
    "peaks": {"observe_forecast": False, "observe_peak": True},
    "forecasts": {},
}


def queued(problem, **changes):
    """Environments in states where several workloads wait, and their observation."""
    scenario = replace(CHOOSING, **{"load": 1.5, **changes})
    problem = Problem.build(problem.trace, scenario, problem.classes, forecaster=problem.forecaster)
    envs = PlacementVectorEnv(6, problem.sequences("train", 6, 0), problem.machines, scenario, "Disabled")
    seen, _ = envs.reset(seed=0, options={"sequence": np.arange(6)})
    rng = np.random.default_rng(0)
    for _ in range(12):
        seen, *_ = envs.step(np.where(rng.random(6) < 0.7, envs.simulation.placements, rng.integers(0, 3, 6)))
    assert len(np.unique((seen["queue"][..., 0] > 0).sum(axis=1))) > 2  # not as many wait in each
    return envs, seen


def policy_for(envs, weights=True):
    """A policy whose logits differ."""
    shapes = shapes_of(envs.simulation)
    if weights and envs.simulation.scenario.observe_forecast:
        shapes["weights"] = envs.simulation.scenario.penalty_weights().per_resource(2).tolist()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        policy = make_policy("shared", shapes, 16)
        torch.nn.init.normal_(policy.output.weight)
        torch.nn.init.normal_(policy.hold.weight)
    return policy


def encoded_by(policy, envs, seen):
    """The encoding with its mask."""
    return policy.encode(seen) | {"mask": torch.from_numpy(envs.action_masks())}


@pytest.mark.parametrize("shown", SEEN)
def test_exchanging_machines_or_places_exchanges_logits(problem, shown):
    envs, seen = queued(problem, **SEEN[shown])
    policy, machines, places = policy_for(envs), 3, 4
    plain = policy(policy.encode(seen))
    pairs, hold = plain[:, :-1].view(-1, places, machines), plain[:, -1]
    moved = {**seen, "grid": np.ascontiguousarray(seen["grid"][:, [2, 0, 1]])}
    if "forecast" in seen:
        moved["forecast"] = np.ascontiguousarray(seen["forecast"][:, [2, 0, 1]])
    there = policy(policy.encode(moved))
    assert torch.allclose(there[:, :-1].view(-1, places, machines), pairs[:, :, [2, 0, 1]], atol=1e-4)
    assert torch.allclose(there[:, -1], hold, atol=1e-4)

    order, encoded = [3, 1, 0, 2], policy.encode(seen)
    encoded = {name: part[:, order] if name in ("places", "pairs") else part for name, part in encoded.items()}
    prior = encoded.pop("prior", torch.zeros_like(plain))[:, :-1].view(-1, places, machines)
    there = policy(encoded)
    assert torch.allclose(there[:, :-1].view(-1, places, machines), (pairs - prior)[:, order], atol=1e-4)
    assert pairs[:, 0].std() > 1e-3


def test_empty_places_and_other_states_change_nothing(problem):
    envs, seen = queued(problem)
    policy = policy_for(envs)
    together = policy.logits(encoded_by(policy, envs, seen))
    masks = envs.action_masks()
    for b in range(6):
        alone = {name: part[b : b + 1] for name, part in seen.items()}
        logits = policy.logits(policy.encode(alone) | {"mask": torch.from_numpy(masks[b : b + 1])})
        assert torch.allclose(logits[0], together[b], atol=1e-4)
    assert torch.equal(together > -1e8, torch.from_numpy(masks))


def test_features_about_the_workload_are_those_that_change_with_it():
    rng = np.random.default_rng(0)
    forecast, capacity = rng.random((5, 3, columns(2)), np.float32), np.full((5, 3, 2), 4.0, np.float32)
    one, other = (forecast_features(forecast, rng.random((5, columns(2)), np.float32), capacity) for _ in range(2))
    assert np.array_equal((one != other).any(axis=(0, 1)), about_the_workload(2))


def test_the_prior_asks_one_after_another_by_hand():
    # Of two machines, the first workload takes the first with 1/2 and waits with 1/2; the second has (1/4, 1/4, 1/2).
    logits = np.log(np.array([[4, 1e-9, 4], [1, 1, 2]], np.float32))
    chances = np.exp(in_turn(logits, (np.array([0, 0]), np.array([0, 2])), (2, 3)))
    assert np.allclose(chances[0], [0.5, 0, 0.5, 0.5, 0.125, 0.125, 0.25], atol=1e-6)  # place 1 is empty
    assert np.allclose(chances[1, -1], 1)  # nobody waits


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("expected-cost", {}),
        ("expected-cost", {"K_w": 500.0, "load": 2.0}),
        ("expected-cost-peak", {"observe_peak": True}),
        ("expected-cost-known-peak", {"observe_peak": True}),
        ("best-fit-peak", {"observe_peak": True}),
    ],
    ids=str,
)
def test_an_untrained_policy_places_as_the_rule_that_is_built_in_with_backfilling(problem, rule, changes):
    scenario = replace(CHOOSING, **{"load": 0.9, **changes})
    informed = Problem.build(problem.trace, scenario, problem.classes, forecaster=problem.forecaster)
    recorded = RecordedTeacher(Backfill(make_scheduler(rule)), forecasts=True)
    runner = Runner(informed.sequences("test", 6, 0), informed.machines, scenario)
    for i in range(6):
        runner.play(recorded, i)
    weights = scenario.penalty_weights().per_resource(2).tolist()
    shapes = shapes_of(runner.simulation(recorded)) | {"weights": weights, "rule": rule}
    policy = make_policy("shared", shapes, 8)
    seen = {name: np.concatenate([one[name] for one in recorded.seen]) for name in recorded.seen[0]}
    encoded = policy.encode(seen) | {"mask": torch.from_numpy(np.array(recorded.masks))}
    actions = torch.tensor(recorded.actions)
    same = _equally_good(encoded, actions)
    assert same[torch.arange(len(same)), policy.logits(encoded).argmax(dim=1)].float().mean() > 0.98
    assert ((actions >= 3) & (actions < 12)).any()  # the head was overtaken


def test_a_teacher_that_backfills_is_recorded_with_its_workload(problem):
    scenario = replace(CHOOSING, load=1.5)
    problem = Problem.build(problem.trace, scenario, problem.classes, forecaster=problem.forecaster)
    recorded = RecordedTeacher(Backfill(make_scheduler("best-fit-peak")), forecasts=False)
    runner = Runner(problem.sequences("train", 1, 0), scenario.cluster(("cpu", "mem")), scenario)
    episode = runner.play(recorded, 0)
    placed = [action for action in recorded.actions if action < 12]
    assert [action % 3 for action in placed] == episode.machine[episode.start.argsort(kind="stable")].tolist()
    assert any(action >= 3 for action in placed)


def test_pairs_that_look_the_same_are_the_same_choice():
    machines = torch.tensor([[[1.0], [2.0], [1.0]]])
    pairs = torch.tensor([[[[0.0], [0.0], [0.0]], [[5.0], [5.0], [6.0]]]])
    encoded = {"machines": machines, "pairs": pairs, "places": torch.ones(1, 2, 1)}
    encoded["mask"] = torch.ones(1, 7, dtype=torch.bool)
    for action, good in ((0, [0, 2]), (3, [3]), (4, [4]), (6, [6])):
        assert _equally_good(encoded, torch.tensor([action]))[0].nonzero()[:, 0].tolist() == good


def test_what_is_imitated_is_learnt(problem):
    scenario = replace(CHOOSING, observe_forecast=False, load=0.8)
    config = replace(TINY, imitate=12, hidden=16, eval_sequences=4, scenario=scenario)
    problem = Problem.build(problem.trace, scenario, problem.classes, forecaster=problem.forecaster)
    task = PlacementTask(problem, config)
    policy = make_policy("shared", task.shapes, 16)
    before = task.evaluate(policy)["reward"]
    assert imitate(policy, problem, config) > 0.6
    assert task.evaluate(policy)["reward"] > before


def scheduler_of(simulation, policy):
    """The policy as a scheduler."""
    config = TrainConfig(scenario=simulation.scenario)
    saved = SimpleNamespace(config=config, shapes=shapes_of(simulation), make_policy=lambda: policy, forecaster=None)
    return PolicyScheduler("mine", saved)


@pytest.mark.parametrize("limit", [1, None])
def test_a_scheduler_plays_as_the_environment_does(problem, limit):
    envs, _ = queued(problem, placements_per_slot=limit)
    policy = policy_for(envs, weights=False)
    sequences, scenario = envs.simulation.sequences, envs.simulation.scenario
    play(policy, envs, np.arange(6), DeterministicActions(6, envs.simulation.placements), "cpu")
    runner = Runner(sequences, envs.simulation.machines, scenario)
    overtaken = 0
    for b in range(6):
        mine, theirs = runner.play(scheduler_of(envs.simulation, policy), b), envs.simulation.record(b)
        assert np.array_equal(mine.start, theirs.start)
        assert np.array_equal(mine.machine, theirs.machine)
        overtaken += (np.diff(mine.start) < 0).sum()
    assert overtaken > 0 or limit is None  # where all are placed at once, nobody is overtaken


def test_alternatives_are_those_of_the_chosen_workload(problem, monkeypatch):
    envs, _ = queued(problem)
    simulation = Simulation(
        envs.simulation.sequences, envs.simulation.machines, envs.simulation.scenario, forecasts=True
    )
    simulation.reset(0)
    while len(simulation.waiting()) < 2:
        simulation.step(np.array([simulation.placements]))
    policy = policy_for(envs)
    scheduler, cluster = scheduler_of(simulation, policy), Cluster(simulation)
    scheduler.reset(cluster, np.random.default_rng(0))
    second = simulation.sequences.workload(0, int(simulation.waiting()[1]))
    monkeypatch.setattr(policy, "logits", lambda _: torch.tensor([[9.0, 8.0, 7.0, 1.0, 2.0, 3.0] + [0.0] * 7]))
    assert scheduler.alternatives(cluster, [second], Placement(second, 1), 3).tolist() == [1, 2, 0]


def test_a_policy_of_the_head_alone_is_refused(problem, train):
    scenario = replace(problem.scenario, hold_action=True)
    other = replace(scenario, choose_from_queue=True)
    simulation, wider = (Simulation(train, problem.machines, each, max_slots=0) for each in (scenario, other))
    for each in (simulation, wider):
        each.reset(0)
    scheduler = scheduler_of(simulation, make_policy("shared", shapes_of(simulation), 4))
    with pytest.raises(InputError, match="'mine' was trained with choose_from_queue False, not True"):
        scheduler.reset(Cluster(wider), np.random.default_rng(0))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"algo": "reinforce", "trajectories": 2, "policy": "flat"},
        {"algo": "sb3-ppo"},
        {"algo": "counterfactual", "scenario": replace(CHOOSING, observe_peak=True, load=1.5)},
        {"scenario": replace(CHOOSING, hold_action=False, machine_types=("2x8", "1x0"), load=3.0)},  # one is off
    ],
    ids=["ppo", "the paper's network", "sb3", "counterfactual", "no holding"],
)
def test_it_learns_and_resumes_exactly(problem, tmp_path, changes):
    if changes.get("algo") == "sb3-ppo":
        pytest.importorskip("stable_baselines3")
    config = replace(TINY, **changes)
    problem = Problem.build(problem.trace, config.scenario, problem.classes, forecaster=problem.forecaster)

    def trainer(folder):
        return Trainer(problem, config, folder, {"hash": ""}, lambda text: None)

    whole, first = trainer(tmp_path / "whole"), trainer(tmp_path / "parts")
    before = [part.clone() for part in whole.policy.parameters()]
    whole.run()
    first.run(stop_after=2)
    second = trainer(tmp_path / "parts")
    second.restore(first.checkpoint())
    second.run()
    for name, weights in whole.policy.state_dict().items():
        assert torch.equal(weights, second.policy.state_dict()[name])
    assert any(not torch.equal(*parts) for parts in zip(before, whole.policy.parameters(), strict=True))


def test_one_machine_and_one_workload_are_enough(problem):
    scenario = replace(CHOOSING, machine_types=("1x8",), workloads=1)
    problem = Problem.build(problem.trace, scenario, problem.classes, forecaster=problem.forecaster)
    task = PlacementTask(problem, replace(TINY, scenario=scenario))
    assert len(task.envs.simulation.machines) == len(Machines.homogeneous(1, 8, ("cpu", "mem")))
    assert task.evaluate(make_policy("shared", task.shapes, 8))["unplaced"] == 0
