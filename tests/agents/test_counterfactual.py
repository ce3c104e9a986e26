"""Counterfactual learning: it lowers what decisions cost, waits where the base waits, and repeats itself exactly."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tvwrl.agents import head_start
from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.config import INFORMED, PRESETS, TrainConfig
from tvwrl.agents.head_start import _cost
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.types import InputError

PEAKS = replace(INFORMED, machines=4, workloads=16, history=6, observe_forecast=False, observe_peak=True)
TINY = TrainConfig(
    algo="counterfactual",
    iterations=6,
    imitate=2,
    train_sequences=8,
    sequences_per_iteration=8,
    eval_sequences=2,
    eval_every=6,
    hidden=16,
    label_share=1.0,
    scenario=PEAKS,
)


def trained(problem, folder, config=TINY, stop_after=None, start=None):
    """A trainer that has run."""
    trainer = Trainer(replace(problem, scenario=config.scenario), config, folder, {"hash": ""}, lambda text: None)
    if start is not None:
        trainer.restore(start)
    trainer.run(stop_after)
    return trainer


@pytest.fixture(scope="module")
def whole(problem, tmp_path_factory):
    """A finished training with lifetime peaks."""
    return trained(problem, tmp_path_factory.mktemp("whole"))


def test_decisions_cost_less_as_it_learns(problem, tmp_path):
    begun = trained(problem, tmp_path, replace(TINY, teacher="spread"))  # which is far from the best
    regret = [float(row["expected_regret"]) for row in begun.progress if int(row["iteration"]) > 0]
    assert np.mean(regret[3:]) < 0.9 * np.mean(regret[:2])


def test_it_resumes_exactly(problem, whole, tmp_path):
    first = trained(problem, tmp_path, stop_after=3)
    second = trained(problem, tmp_path, start=first.checkpoint())
    for name, weights in whole.policy.state_dict().items():
        assert torch.equal(weights, second.policy.state_dict()[name])
    rewards = [[float(row["reward"]) for row in trainer.progress[1:]] for trainer in (whole, second)]
    assert rewards[0] == pytest.approx(rewards[1])


@pytest.mark.parametrize(
    "changes",
    [
        {"label_share": 1e-9},  # one decision
        {"policy": "flat"},
        {"scenario": replace(PEAKS, hold_action=False)},
        {"base_policy": "spread"},
    ],
    ids=["hardly a label", "the paper's network", "no holding", "another base"],
)
def test_other_settings_learn_something_else(problem, whole, tmp_path, changes):
    other = trained(problem, tmp_path, replace(TINY, iterations=2, **changes))
    weights = list(other.policy.parameters())
    assert all(bool(part.isfinite().all()) for part in weights)
    assert other.progress[1]["expected_regret"] != whole.progress[1]["expected_regret"]


def test_generations_resume_exactly_and_begin_with_the_best_policy(problem, tmp_path):
    several = replace(TINY, iterations=4, generations=2, eval_every=3)
    told: list[str] = []
    whole = Trainer(replace(problem, scenario=PEAKS), several, tmp_path / "whole", {"hash": ""}, told.append)
    whole.run()
    assert "generation 2/2 starts from the policy of iteration" in "".join(told)
    assert [int(row["iteration"]) for row in whole.progress if row.get("eval_reward")] == [0, 2, 3, 4]
    for stop in (2, 3):  # before the second generation begins, and inside it
        first = trained(problem, tmp_path / f"stop{stop}", several, stop_after=stop)
        second = trained(problem, tmp_path / f"stop{stop}", several, start=first.checkpoint())
        for name, weights in whole.policy.state_dict().items():
            assert torch.equal(weights, second.policy.state_dict()[name])


def told_rewards(trainer, monkeypatch, rewards):
    """Let validations after iterations 0, 1, ... find these rewards; None: workloads were left unplaced."""

    def evaluate():
        reward = rewards[trainer.iteration]
        return {"reward": float("nan"), "unplaced": 2.0} if reward is None else {"reward": reward, "unplaced": 0.0}

    monkeypatch.setattr(trainer, "evaluate", evaluate)
    return trainer


def two_generations(problem, folder, told=None):
    """A trainer of two generations, of two iterations each."""
    few = {"train_sequences": 4, "sequences_per_iteration": 2}
    config = replace(TINY, iterations=4, generations=2, eval_every=1, **few)
    report = (lambda text: None) if told is None else told.append
    return Trainer(replace(problem, scenario=PEAKS), config, folder, {"hash": ""}, report)


def test_a_best_policy_from_after_the_checkpoint_is_not_used_by_the_run_that_resumes(problem, tmp_path, monkeypatch):
    rewards = [-5.0, -3.0, -4.0, -2.0, -1.0]
    whole = told_rewards(two_generations(problem, tmp_path), monkeypatch, rewards)
    whole.run(stop_after=1)
    early = whole.checkpoint()
    early.save(tmp_path / "early.pt")
    whole.run()  # best.pt is that of iteration 4 now, as after a crash that last.pt is too old for
    again = told_rewards(two_generations(problem, tmp_path), monkeypatch, rewards)
    again.restore(Checkpoint.load(tmp_path / "early.pt"))
    again.run()
    for name, weights in whole.policy.state_dict().items():
        assert torch.equal(weights, again.policy.state_dict()[name])


def test_a_generation_begins_with_a_fresh_optimiser(problem, tmp_path):
    trainer = two_generations(problem, tmp_path)
    trainer.run(stop_after=3)
    steps = {int(state["step"]) for state in trainer.learner.optimiser.state_dict()["state"].values()}
    assert 0 < max(steps) <= TINY.epochs * TINY.minibatches  # those of one iteration


@pytest.mark.parametrize(
    ("rewards", "lines"),
    [
        ([-3.0, -2.0, -1.0, -2.0, -0.5], []),
        ([-3.0, -2.0, -1.0, -2.0, -2.0], ["generation 2", "2 is kept"]),
        ([-1.0, -2.0, -2.0, -2.0, -2.0], ["generation 1", "0 is kept", "generation 2", "0 is kept"]),
        ([None, None, None, None, None], []),
    ],
)
def test_a_generation_that_does_not_improve_is_reported(problem, tmp_path, monkeypatch, rewards, lines):
    told: list[str] = []
    told_rewards(two_generations(problem, tmp_path, told), monkeypatch, rewards).run()
    found = [line for line in told if "did not improve on validation sequences; the policy of iteration" in line]
    assert [part for line in found for part in (line[:12], line[-9:])] == lines
    begun = next(line for line in told if line.startswith("generation 2/2 starts from the policy of iteration "))
    assert ("2, as none has finished" if rewards[0] is None else "the best on validation sequences so far") in begun


@pytest.mark.parametrize(
    ("scenario", "base"),
    [
        (PEAKS, "best-fit-peak"),
        (replace(INFORMED, observe_peak=True), "expected-cost-peak"),
        (INFORMED, "expected-cost"),
        (replace(INFORMED, observe_forecast=False), "spread"),
    ],
)
def test_the_base_knows_no_more_than_the_policy(scenario, base):
    assert TrainConfig(algo="counterfactual", scenario=scenario).base_rule == base


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"base_policy": "best-fit-peak"},
            "base_policy is best-fit-peak: it knows peaks .*, which the policy does not see; show it",
        ),
        (
            {"base_policy": "clairvoyant"},
            "base_policy is clairvoyant: it knows the whole future",
        ),
        (
            {"base_policy": "random"},
            "base_policy is 'random': must be one of expected-cost",
        ),
        ({"horizon": 0}, "horizon is 0: must be at least 1"),
        ({"generations": 31}, "generations is 31: must be 1 to 30"),
        ({"generations": 2, "algo": "ppo"}, "generations is 2: must be 1 for algo ppo"),
        ({"label_share": 0.0}, "label_share is 0.0: must be"),
        ({"cost_scale": -1.0}, "cost_scale is -1.0: must be"),
        ({"policy": "deeprm", "imitate": 0}, "counterfactual needs a policy that chooses machines"),
    ],
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        replace(PRESETS["medium"], **{"algo": "counterfactual", **changes})


def test_it_starts_from_the_best_rule_on_training_and_validation_sequences(problem, tmp_path):
    both = replace(TINY, iterations=1, scenario=replace(PEAKS, observe_forecast=True, load=0.8))
    told: list[str] = []
    trainer = Trainer(replace(problem, scenario=both.scenario), both, tmp_path, {"hash": ""}, told.append)
    shown = {
        rule: float(reward) for rule, reward in (part.rsplit(" ", 1) for part in told[0].split(": ")[1].split(", "))
    }
    drawn = [problem.sequences(split, head_start.SEQUENCES, both.seed) for split in ("train", "validation")]
    runners = [Runner(sequences, problem.machines, both.scenario) for sequences in drawn]
    assert shown.keys() == {"expected-cost-peak", "expected-cost-known-peak", "best-fit-peak"}
    for rule, reward in shown.items():
        scheduler = make_scheduler(rule)
        played = [
            problem.score(runner.play(scheduler, i))["reward"]
            for runner in runners
            for i in range(head_start.SEQUENCES)
        ]
        assert reward == pytest.approx(np.mean(played) / 1000, abs=0.06)
    assert trainer.config.teacher == trainer.config.base_rule == max(shown, key=lambda rule: shown[rule])
    assert replace(both, teacher="best-fit-peak").starting_rules == ("best-fit-peak",)


@pytest.mark.parametrize("chooses", [True, False], ids=["from the queue", "head of the queue"])
@pytest.mark.parametrize(
    "changes",
    [
        {"machines": 1},
        {"workloads": 1},
        {"machine_types": ("1x0", "2x8")},  # one is switched off
        {"load": 2.0, "queue": 2},  # more wait than are seen
        {"quantise": False, "background": 2},
    ],
    ids=["one machine", "one workload", "one is off", "a long queue", "fractions and background"],
)
def test_clusters_and_queues_of_all_kinds(problem, tmp_path, changes, chooses):
    scenario = replace(PEAKS, choose_from_queue=chooses, **({"machines": 3, "workloads": 8} | changes))
    config = replace(
        TINY, iterations=1, horizon=3, eval_every=2, scenario=scenario
    )  # shorter than nearly every workload
    made = Problem.build(problem.trace, scenario, problem.classes, forecaster=problem.forecaster)
    played = trained(made, tmp_path, config)
    assert np.isfinite(played.progress[-1]["expected_regret"])
    assert all(bool(part.isfinite().all()) for part in played.policy.parameters())


@pytest.mark.parametrize("chooses", [True, False], ids=["from the queue", "head of the queue"])
def test_three_resources(problem, tmp_path, chooses):
    trace = problem.trace
    usage, request = (np.concatenate([part, part[:, :1] / 2], axis=1) for part in (trace.usage, trace.request))
    three = replace(trace, resources=("cpu", "mem", "disk"), usage=usage, request=request)
    scenario = replace(PEAKS, observe_peak=False, choose_from_queue=chooses)
    config = replace(TINY, iterations=1, scenario=scenario)
    played = trained(Problem.build(three, scenario, "none"), tmp_path, config)
    assert np.isfinite(played.progress[-1]["expected_regret"])


def test_machines_that_are_all_off_are_refused(problem):
    with pytest.raises(InputError, match="all machines are switched off"):
        Problem.build(problem.trace, replace(PEAKS, machine_types=("3x0",)), problem.classes)


def test_more_machines_than_rollouts_have_memory_for_are_refused_before_anything_is_played(problem, tmp_path):
    scenario = replace(PEAKS, machines=3000, placements_per_slot=None)
    many = Problem.build(problem.trace, scenario, "none", forecaster=problem.forecaster)
    with pytest.raises(InputError, match=r"machines is 3000: rolling out all actions .* trained on them plays"):
        trained(many, tmp_path, replace(TINY, scenario=many.scenario))


def test_an_episode_of_thousands_of_slots_counts_whole_when_rules_are_compared(problem, make_sequences):
    sequences = make_sequences([(0, [[2, 1]] * 3), (5000, [[3, 3]] * 4)])
    drawn = problem.sequences("train", 1, 0).forecast  # any: the rule does not look at them
    blank = replace(drawn, values=np.zeros((1, 2, 5, len(drawn.steps)), np.uint8))
    sequences = replace(sequences, forecast=blank)
    config = replace(TINY, scenario=replace(PEAKS, observe_forecast=True))
    run = Runner(sequences, problem.machines, config.scenario).play(make_scheduler("best-fit-peak"), 0)
    assert _cost(problem, config, "best-fit-peak", sequences) == pytest.approx(-problem.score(run)["reward"])
