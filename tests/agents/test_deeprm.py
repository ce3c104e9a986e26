"""DeepRM: its world by hand, batches, and the scheduler beside the environment."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.config import PRESETS
from tvwrl.agents.deeprm import DeepRM, DeepRMVectorEnv
from tvwrl.agents.networks import DeepRMPolicy
from tvwrl.agents.training import Trainer
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError, Machines

from .test_online import same

TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))

# Together the machines are one of 16 units. Peaks and durations:
#   a (6, 2) for 2 slots, b (12, 1) for 3, c (4, 4) for 1; a, b and c arrive in slot 0, d (1, 1) for 4 in slot 1.
FOUR = [(0, [[6, 1], [1, 2]]), (0, [[2, 1], [12, 1], [1, 1]]), (0, [[4, 4]]), (1, [[1, 1]] * 4)]


def environment(sequences, batch=1, weight=0.5, **changes):
    scenario = Scenario(**{"queue": 2, "placements_per_slot": None, "max_slots": 0, **changes})
    return DeepRMVectorEnv(batch, sequences, TWO, scenario, 4, weight)


def scheduler_of(policy, env):
    return DeepRM("mine", SimpleNamespace(shapes=env.shapes, make_policy=lambda: policy))


def step(env, action):
    seen, reward, terminated, _, info = env.step(np.array([action]))
    return seen, float(reward[0]), bool(terminated[0]), int(info["slots"][0])


def test_state_reward_and_action_by_hand(make_sequences):
    env = environment(make_sequences(FOUR))
    seen, _ = env.reset(options={"sequence": np.array([0])})
    assert seen["cluster"].tolist() == [[[0, 0]] * 4]
    assert np.allclose(seen["queue"], [[[6 / 8, 2 / 8, 2 / 4], [12 / 8, 1 / 8, 3 / 4]]])
    assert seen["backlog"].tolist() == [[1]]

    # Place 0, a: it reserves its peak for 2 slots, the queue moves up, no time passes.
    seen, reward, _, slots = step(env, 0)
    assert (reward, slots) == (0, 0)
    assert np.allclose(seen["cluster"][0], [[6 / 16, 2 / 16]] * 2 + [[0, 0]] * 2)
    assert np.allclose(seen["queue"], [[[12 / 8, 1 / 8, 3 / 4], [4 / 8, 4 / 8, 1 / 4]]])
    assert seen["backlog"].tolist() == [[0]]

    # Place 0, b: 6 + 12 > 16, so this is void. Slot 0 costs 1/2 + 1/3 + 1 and half of what is unused on average.
    seen, reward, _, slots = step(env, 0)
    assert slots == 1
    assert reward == pytest.approx(-(1 / 2 + 1 / 3 + 1) - 0.5 * (10 / 16 + 14 / 16) / 2)
    assert np.allclose(seen["cluster"][0], [[6 / 16, 2 / 16]] + [[0, 0]] * 3)  # a has one slot left
    assert seen["backlog"].tolist() == [[1]]  # d

    # Place 1, c, fits beside a (10 of 16); then void (2) ends slot 1, in which a, b, c and d are there.
    assert step(env, 1)[1] == 0
    seen, reward, _, _ = step(env, 2)
    assert reward == pytest.approx(-(1 / 2 + 1 / 3 + 1 + 1 / 4) - 0.5 * (6 / 16 + 10 / 16) / 2)
    assert not seen["cluster"].any()  # a and c have left

    # b and d start in slot 2; nobody waits, so the clock runs until both have left, 3 and 4 slots later.
    assert step(env, 0)[1] == 0
    seen, reward, over, slots = step(env, 0)
    assert (over, slots) == (True, 4)
    unused = 3 * (3 / 16 + 14 / 16) / 2 + (15 / 16 + 15 / 16) / 2
    assert reward == pytest.approx(-(3 / 3 + 4 / 4) - 0.5 * unused)
    assert step(env, 0)[1:] == (0, True, 0)  # it is over


def test_an_empty_place_is_void(make_sequences):
    env = environment(make_sequences([(0, [[1, 1]] * 2)]), weight=0.0)
    env.reset(options={"sequence": 0})
    assert step(env, 1)[1:] == (-0.5, False, 1)


def test_no_more_is_placed_in_a_slot_than_allowed(make_sequences):
    env = environment(make_sequences(FOUR), placements_per_slot=1)
    env.reset(options={"sequence": 0})
    assert step(env, 0)[3] == 1


def test_background_is_nobodys_reservation(make_sequences):
    calm = make_sequences(FOUR)
    noisy = replace(calm, background=np.full((1, 5, 2, 2), 3, np.uint8))
    envs = [environment(sequences) for sequences in (calm, noisy)]
    for env in envs:
        env.reset(options={"sequence": 0})
    for action in (0, 0, 1, 2, 0, 0):
        one, two = (step(env, action) for env in envs)
        assert np.array_equal(one[0]["cluster"], two[0]["cluster"])
        assert one[1:] == two[1:]


def test_training_is_truncated(make_sequences):
    env = environment(make_sequences([(0, [[1, 1]] * 2)]), max_slots=3)
    env.reset(options={"sequence": 0})
    over = [env.step(np.array([2]))[2:4] for _ in range(3)]
    assert [(bool(t[0]), bool(c[0])) for t, c in over] == [(False, False), (False, False), (False, True)]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), limit=st.sampled_from([1, 2, None]))
def test_a_batch_is_many_single_ones(train, problem, seed, limit):
    rng = np.random.default_rng(seed)
    scenario = Scenario(placements_per_slot=limit)
    batch = DeepRMVectorEnv(3, train, problem.machines, scenario, 30, 1.0)
    singles = [DeepRMVectorEnv(1, train, problem.machines, scenario, 30, 1.0) for _ in range(3)]
    chosen = rng.integers(0, len(train), 3)
    seen, _ = batch.reset(options={"sequence": chosen})
    alone = [env.reset(options={"sequence": chosen[b : b + 1]})[0] for b, env in enumerate(singles)]
    for _ in range(40):
        for b in range(3):
            assert all(np.array_equal(seen[name][b], alone[b][name][0]) for name in seen)
        actions = rng.integers(0, 6, 3)
        seen, *rest = batch.step(actions)
        each = [env.step(actions[b : b + 1]) for b, env in enumerate(singles)]
        alone = [one[0] for one in each]
        for part in range(3):
            assert rest[part].tolist() == [one[1 + part][0] for one in each]


@pytest.mark.parametrize("limit", [1, None])
def test_the_scheduler_sees_what_the_environment_shows(train, problem, limit):
    """On one machine as large as the cluster, best fit changes nothing: both see the same, decision by decision."""
    machine = Machines.homogeneous(1, 40, ("cpu", "mem"))
    scenario = Scenario(placements_per_slot=limit, queue=3)
    env = DeepRMVectorEnv(1, train, machine, scenario, 25, 1.0, max_slots=0)
    torch.manual_seed(0)
    policy = DeepRMPolicy(env.shapes, 8)
    torch.nn.init.normal_(policy.output.weight, std=0.7)
    watched = []
    encode = policy.encode
    policy.encode = lambda seen: watched.append(seen) or encode(seen)
    episode = Runner(train, machine, scenario, seed=5).play(scheduler_of(policy, env), 2)

    seen, _ = env.reset(options={"sequence": 2})
    rng, over = np.random.default_rng([5, 2]), False
    for theirs in watched:
        assert not over
        assert all(np.array_equal(theirs[name], seen[name]) for name in seen)
        with torch.no_grad():
            logits = policy(encode(seen))[0].double()
        action = int(rng.choice(len(logits), p=logits.softmax(0).numpy()))
        seen, _, over, _ = step(env, action)
    assert over
    assert env.simulation.record().start.tolist() == episode.start.tolist()


def test_what_fits_the_cluster_but_no_machine_waits(make_sequences):
    # a takes 5 of 8 on m0; b needs 6 and goes to m1; c needs 5: the cluster has 16 - 11 = 5 left, no machine has.
    sequences = make_sequences([(0, [[5, 1]] * 2), (0, [[6, 1]] * 4), (0, [[5, 1]])])
    scenario = Scenario(queue=1, placements_per_slot=None)
    env = DeepRMVectorEnv(1, sequences, TWO, scenario, 4, 1.0)
    env.reset(options={"sequence": 0})
    assert [step(env, 0)[3] for _ in range(2)] == [0, 0]
    policy = DeepRMPolicy(env.shapes, 4)
    with torch.no_grad():
        policy.output.bias[0] = 50.0  # always the head
    episode = Runner(sequences, TWO, scenario).play(scheduler_of(policy, env), 0)
    assert (episode.start.tolist(), episode.machine.tolist()) == ([0, 0, 2], [0, 1, 0])


def test_another_queue_or_environment_is_refused(make_sequences):
    sequences = make_sequences(FOUR)
    env = environment(sequences)
    scheduler = scheduler_of(DeepRMPolicy(env.shapes, 4), env)
    simulation = Simulation(sequences, TWO, Scenario(queue=5), grid=False)
    simulation.reset(0)
    with pytest.raises(InputError, match="checkpoint 'mine' was trained with queue 2, not 5"):
        scheduler.reset(Cluster(simulation), np.random.default_rng(0))
    for bad in (-1, 3):
        with pytest.raises(InputError, match=r"actions must be \(1,\) integers from 0 to 2"):
            env.step(np.array([bad]))
    with pytest.raises(InputError, match="must be 0 to 0"):
        env.reset(options={"sequence": 1})
    with pytest.raises(InputError, match="slots_ahead is 0"):
        DeepRMVectorEnv(1, sequences, TWO, Scenario(), 0, 1.0)


def test_resuming_is_exact(problem, tmp_path):
    config = replace(PRESETS["deeprm"], iterations=3, train_sequences=4, sequences_per_iteration=2, trajectories=2)
    config = replace(config, scenario=replace(problem.scenario, max_slots=0), eval_every=2, eval_sequences=2)
    whole, parts, again = (Trainer(problem, config, tmp_path / name, {}, print) for name in ("whole", "parts", "parts"))
    whole.run()
    parts.run(stop_after=2)
    again.restore(Checkpoint.load(tmp_path / "parts/checkpoints/last.pt"))
    assert again.run() == "finished"
    one, two = vars(whole.checkpoint()), vars(again.checkpoint())
    for part in ("policy", "learner", "random", "best_reward", "best_iteration", "iteration"):
        assert same(one[part], two[part])
    assert (tmp_path / "whole/progress.csv").read_text() == (tmp_path / "parts/progress.csv").read_text()


@pytest.mark.slow
def test_training_raises_its_return_and_shortens_waits(problem, tmp_path):
    config = replace(PRESETS["deeprm"], iterations=25, train_sequences=20, trajectories=4, eval_every=100)
    config = replace(config, scenario=replace(problem.scenario, max_slots=0), sequences_per_iteration=10)
    trainer = Trainer(problem, config, tmp_path, {}, print)
    before = trainer.evaluate()
    trainer.run()
    after = trainer.evaluate()
    assert after["reward"] > before["reward"]
    assert after["wait_mean"] < 0.8 * before["wait_mean"]
    assert after["slowdown"] - 1 < 0.8 * (before["slowdown"] - 1)
