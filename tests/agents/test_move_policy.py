"""Policies that draw moves: their gradient against differences, what they are compared with, resumption."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tvwrl.agents.learning_clock import Clock
from tvwrl.agents.move_policy_gradient import (
    Climbing,
    DrawnMoves,
    advantages,
    learn_policy,
    play,
    returns_compared,
    values,
)
from tvwrl.agents.value_learning import Labels, fit
from tvwrl.agents.value_settings import PolicySettings, ValueSettings
from tvwrl.envs.problem import Problem
from tvwrl.schedulers import Moving, Runner, climb, make_scheduler, untouched
from tvwrl.schedulers.moving.machine_costs import (
    Layers,
)
from tvwrl.schedulers.moving.machine_value import ByMachineValue, MachineValue, shipped_value
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError

FEW = ValueSettings(validation=2, generations=2, units=(8, 4))
HOW = PolicySettings(batches=2, sequences_per_iteration=1, trajectories=2, passes=1)


@pytest.fixture(scope="module")
def moving(google):
    scenario = Scenario(moves_per_slot=4, machines=5, workloads=30, load=0.6)
    problem = Problem.build(google, scenario).with_forecasts()
    for one in (problem.forecaster, *problem.forecaster.without_.values()):
        one.trust_ = (
            None  # of networks alone: sums of sure forecasts, whose gradients are smooth enough for differences
        )
    return problem


@pytest.fixture(scope="module")
def runner(moving):
    return Runner(moving.sequences("train", 2, 0), moving.machines, moving.scenario)


def log_probability(one, layers, steps):
    """Of what was drawn in some slots, with other weights: a divergence from far away is linear in it."""
    total = 0.0
    for step in steps:
        far = step.made._replace(log=step.made.log + 15.0)
        none, up = np.zeros(len(far.log)), Layers(*(np.zeros_like(layer) for layer in layers))
        weighing = one.weighing._replace(value=layers)
        apart = climb(untouched(step.here), weighing, one.drawing, far, step.decisions, none, 0.0, up)
        total += 14.0 * step.decisions - apart + far.log[: step.decisions].sum() - 15.0 * step.decisions
    return total


def test_the_most_probable_moves_are_those_of_the_search(moving, runner):
    """With next to no temperature, what is drawn is what the value's own rule does, up to machines that are alike."""
    value = shipped_value()
    cold = runner.play(Moving(make_scheduler("expected-cost"), DrawnMoves(value, 1e-3)), 0)
    best = runner.play(Moving(make_scheduler("expected-cost"), ByMachineValue(value)), 0)
    assert len(best.moves) > 10
    assert np.array_equal(cold.moves.slot, best.moves.slot)
    assert moving.score(cold)["reward"] == pytest.approx(moving.score(best)["reward"])


def test_the_gradient_is_that_of_differences(moving, runner):
    """Weights are moved along random directions; the log-probability of what was drawn changes as the gradient says."""
    value, rng = shipped_value(), np.random.default_rng(0)
    one = play(moving, runner, 0, value, 2000.0, (1,))
    steps = [step for step in one.steps if step.made.end[0] > 0][:40]
    assert any(set(step.made.option[: step.decisions]) & set(empties(step)) for step in steps)
    up, apart = Climbing(value, 1.0).gradient([(one, step, np.ones(len(step.made.log))) for step in steps])
    assert apart == pytest.approx(0.0, abs=1e-6)
    drawn = sum(step.made.log[: step.decisions].sum() for step in steps)
    assert log_probability(one, value.layers, steps) == pytest.approx(drawn, abs=1e-3)
    for name in Layers._fields[2:]:
        layer = getattr(value.layers, name)
        direction = rng.normal(size=layer.shape).astype(np.float32)
        size = 1e-3 / np.abs(direction).max()
        logs = []
        for sign in (1, -1):
            moved = value.layers._replace(**{name: layer + np.float32(sign * size) * direction})
            logs.append(log_probability(one, moved, steps))
        expected = (getattr(up, name).astype(np.float64) * direction).sum() * len(steps)
        assert (logs[0] - logs[1]) / (2 * size) == pytest.approx(expected, rel=0.05, abs=0.01), name


def empties(step):
    pairs = len(step.here.where) * len(step.here.cost)
    return range(pairs, pairs + len(step.here.cost))


def test_an_episode_is_compared_with_the_others_on_the_same_arrivals(moving, runner):
    """By hand: three slots, two machines; returns with a discount of a half."""
    one = play(moving, runner, 0, shipped_value(), 100.0, (1,))
    steps = [step._replace(slot=t) for t, step in enumerate(one.steps[:3])]
    costs, prices = np.zeros((2, 3, 2, 2)), np.zeros((2, 3, 2))
    costs[0, :, 0, 0], costs[1, :, 1, 1] = (9, 4, 2), (9, 8, 6)
    prices[0, 1, 0] = 1  # of the 4
    played = [
        one._replace(steps=steps, costs=costs[k], prices=prices[k]) for k in (0, 1)
    ]  # fmt: skip
    # of the first: 4 + 2 / 2 from slot 0 on, 1 + 2 from slot 1 on, nothing from the last; of the second 8 + 3 and 6
    first, second = returns_compared(played, 0.5)
    assert first.tolist() == [6, 3, 0]
    assert second.tolist() == [-6, -3, 0]


def test_advantages_without_trust_in_the_critic_are_returns(moving, runner):
    """With lambda 1 they are the critic's value before less the return; with a critic of zeros, the return alone."""
    one = play(moving, runner, 0, shipped_value(), 100.0, (2,))
    zeros = Layers(*(np.zeros_like(layer) for layer in shipped_value().layers))._replace(
        scale=shipped_value().layers.scale
    )
    found = advantages(one, zeros, 0.9, 1.0)
    expected, later = np.zeros(len(one.costs)), 0.0
    for t in range(len(one.costs) - 1, -1, -1):
        expected[t] = -one.prices[t].sum() - later
        later = one.costs[t].sum() + 0.9 * later
    assert found.sum(axis=1) == pytest.approx(expected[[step.slot for step in one.steps]])
    critic = shipped_value().layers
    trusting, t = advantages(one, critic, 0.9, 0.0), len(one.steps) // 2
    here, there = one.steps[t : t + 2]
    assert trusting[t] == pytest.approx(
        values(critic, here.before)
        - one.prices[here.slot]
        - one.costs[there.slot].sum(axis=1)
        - 0.9 * values(critic, there.after)
    )


def test_where_nothing_could_move_the_critic_is_not_asked(moving, runner):
    """The advantage looks on to the next slot with a decision, as the critic's value of others is not known."""
    one = play(moving, runner, 0, shipped_value(), 100.0, (2,))
    t = len(one.steps) // 2
    fewer = one._replace(steps=[*one.steps[: t + 1], *one.steps[t + 2 :]])
    critic, (here, left_out, there) = shipped_value().layers, one.steps[t : t + 3]
    later = one.costs[there.slot].sum(axis=1) + 0.9 * values(critic, there.after)
    later = one.costs[left_out.slot].sum(axis=1) + 0.9 * later
    expected = values(critic, here.before) - one.prices[here.slot] - later
    assert (here.slot + 1, here.slot + 2) == (left_out.slot, there.slot)
    assert advantages(fewer, critic, 0.9, 0.0)[t] == pytest.approx(expected)


def test_the_clock_knows_generations_that_were_not_noted(tmp_path):
    settings = ValueSettings(seconds=100.0)
    clock = Clock(settings, tmp_path)
    clock.note(3)  # learning was killed right after the first two
    assert [Clock(settings, tmp_path).goes_on(generation) for generation in (1, 2, 3)] == [True] * 3
    assert len(json.loads((tmp_path / "seconds.json").read_text())) == 3
    (tmp_path / "seconds.json").write_text("[1,")
    with pytest.raises(InputError, match=r"seconds\.json is damaged"):
        Clock(settings, tmp_path)


def test_values_are_those_of_the_network_that_was_fitted():
    """In thousands there, in units of the reward here: it explains what it was fitted to."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4000, 5)).astype(np.float32)
    costs = np.stack([features[:, 0] * 3, np.zeros(4000)], axis=1).astype(np.float32)
    layers, _ = fit(Labels(features, costs), ValueSettings(epochs=4, units=(16, 8)))
    assert np.corrcoef(values(layers, features), 1000 * costs[:, 0])[0, 1] > 0.95


@pytest.mark.parametrize("algo", ["reinforce", "ppo"])
def test_it_learns_the_same_again_and_goes_on_after_an_interruption(moving, tmp_path, algo):
    start = shipped_value()
    whole = learn_policy([moving], algo, FEW, HOW, kept=tmp_path / "whole", start=start)
    assert whole.digest == learn_policy([moving], algo, FEW, HOW, start=start).digest
    second = MachineValue.load(tmp_path / "whole" / "generation-2.npz")
    assert not np.array_equal(second.layers.first, start.layers.first)
    part = tmp_path / "part"
    part.mkdir()
    for file in (tmp_path / "whole").glob("*-1.npz"):
        file.rename(part / file.name)
    lines = []
    with pytest.raises(InputError, match="learnt with other learning_rate"):
        learn_policy([moving], algo, FEW, replace(HOW, learning_rate=1e-2), kept=part, start=start)
    again = learn_policy([moving], algo, FEW, HOW, lines.append, part, start)
    assert again.digest == whole.digest
    assert MachineValue.load(part / "generation-2.npz").digest == second.digest
    assert not any(line.startswith("generation 1: 4 drawn") for line in lines)


def test_steps_make_what_paid_more_probable(moving, runner):
    """Slots in which nothing was moved paid, others cost: after some steps that is how it draws."""
    value = shipped_value()
    one = play(moving, runner, 0, value, 300.0, (3,))
    steps = [step for step in one.steps if step.here.movable.any()]
    moved = np.array([step.made.end[0] > 0 for step in steps])
    assert 20 < moved.sum() < len(moved) - 20
    slots = [(one, step, np.full(len(step.made.log), 1.0 - 2.0 * m)) for step, m in zip(steps, moved, strict=True)]
    climbing = Climbing(value, 1e-3)
    for _ in range(5):
        climbing.step(climbing.gradient(slots)[0])
    still = [step for step, m in zip(steps, moved, strict=True) if not m]
    assert log_probability(one, climbing.value.layers, still) > log_probability(one, value.layers, still) + 1.0
    assert np.array_equal(value.layers.first, shipped_value().layers.first)  # what it began with stays


def test_clipped_ratios_end_the_climb(moving, runner):
    """By hand: what is 1.5 times as probable as when it was drawn has no gradient if it paid, all of it if it cost."""
    value = shipped_value()
    one = play(moving, runner, 0, value, 300.0, (4,))
    step = next(step for step in one.steps if step.made.end[0] > 0)
    first = step._replace(decisions=1, made=step.made._replace(log=step.made.log - np.log(1.5)))
    size = len(step.made.log)
    rises, _ = Climbing(value, 1.0).gradient([(one, first, np.ones(size))], 0.2)
    falls, apart = Climbing(value, 1.0).gradient([(one, first, -np.ones(size))], 0.2)
    plain, _ = Climbing(value, 1.0).gradient([(one, first, np.ones(size))])
    assert not any(layer.any() for layer in rises)
    assert np.allclose(falls.second, -1.5 * plain.second, rtol=1e-3, atol=1e-5)
    assert apart == pytest.approx(0.5 - np.log(1.5), abs=1e-3)


def test_a_time_limit_ends_learning_in_place_of_generations(moving):
    lines = []
    learn_policy([moving], "reinforce", replace(FEW, seconds=1e-9), HOW, lines.append, start=shipped_value())
    assert sum("drawn episodes" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("field", "bad"), [("trajectories", 1), ("temperature", 0), ("learning_rate", -1), ("batches", 1.5), ("gamma", 1.0)]
)
def test_bad_settings_are_refused(field, bad):
    with pytest.raises(InputError, match=field):
        PolicySettings(**{field: bad})


def test_other_algorithms_are_refused(moving):
    with pytest.raises(InputError, match="algo is 'PPO': did you mean ppo"):
        learn_policy([moving], "PPO", FEW, HOW)
