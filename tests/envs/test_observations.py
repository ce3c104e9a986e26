"""Observations from parts and other rewards: the same for one environment and for many, and what the parts say."""

import copy
import pickle
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import tvwrl
from tvwrl.envs.observations import (
    Costs,
    Forecasts,
    Head,
    Machines,
    Part,
    PerMachine,
    Progress,
    Raw,
    Room,
    forecast_columns,
)
from tvwrl.envs.rewards import Penalties, Shaped, Waiting
from tvwrl.forecasting import Forecast
from tvwrl.penalties import TERMS
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.types import InputError

EVERY = (Machines(), Room(), Forecasts(), Costs(), Head(), Progress(), Raw("grid"))
ADVICE = "ignore:.*(infinity|No render|no screen|unconventional).*:UserWarning"


class Emptiness(Part):
    """A part of a user's own."""

    per_machine = True

    def columns(self, about):
        return tuple(f"free {name}" for name in about.resources)

    def __call__(self, seen, about):
        return 1 - seen["machines"][..., : len(about.resources)] / about.capacity


@pytest.fixture(params=[EVERY, (PerMachine(*EVERY[:-1]), Emptiness())], ids=["parts", "rows"])
def parts(request):
    return request.param


@pytest.mark.filterwarnings(ADVICE)
def test_one_environment_and_many_observe_the_same(problem, parts):
    one = tvwrl.make(problem, observation=parts, sequences=3)
    many = tvwrl.make_vec(problem, 2, observation=parts, sequences=3)
    check_env(one, skip_render_check=True)
    seen, _ = one.reset(seed=4, options={"sequence": 1})
    both, _ = many.reset(seed=4, options={"sequence": 1})
    assert seen in one.observation_space
    assert both in many.observation_space
    assert list(seen) == [part.name for part in parts]
    for action in (0, 1, 2, 1, 0, 3):
        for name, array in seen.items():
            assert np.array_equal(array, both[name][0])
            assert array.dtype == both[name].dtype == one.observation_space[name].dtype
        seen, reward, *_ = one.step(action)
        both, rewards, *_ = many.step(np.full(2, action))
        assert reward == pytest.approx(rewards[0])
    assert np.array_equal(one.action_masks(), many.action_masks()[0])


def test_columns_name_what_is_there(problem):
    env = tvwrl.make(problem, observation=EVERY, sequences=2)
    seen, _ = env.reset(seed=0)
    for part in EVERY[:-1]:
        assert seen[part.name].shape[-1] == len(part.columns(env.view.about)) == len(set(part.columns(env.view.about)))
    told = env.view.help()
    assert "machines (each machine):\n  0 cpu load, share of capacity" in told
    assert "head:\n  0 class 1" in told


def test_names_of_forecasts_are_those_of_their_columns(problem):
    env = tvwrl.make(problem, observation=[Forecasts()], sequences=2)
    names = forecast_columns(env.view.about)
    numbers = Forecast(np.arange(len(names)), 2)
    assert names[numbers.most[0, 1]] == "mem largest, slot 1"
    assert names[numbers.spread[2, 0]] == "cpu variance of the largest, slots 4 to 7"
    assert names[numbers.mean[5, 1]] == "mem mean, slots 32 to 63"
    assert names[numbers.peak[0]] == "cpu peak of the rest of life"
    assert names[numbers.peak_spread[1]] == "mem variance of the peak of the rest of life"
    assert names[numbers.alive[3]] == "workloads that run, slots 8 to 15"


def test_by_hand(make_sequences):
    """Two workloads on machine 1 of two: loads are shares of capacity, and what overshoots is shown."""
    from tvwrl.envs import Observed, PlacementEnv
    from tvwrl.types import Machines as Cluster

    rows = [(0, [[3, 1]] * 4), (0, [[6, 2]] * 4), (1, [[1, 1]] * 4)]
    cluster = Cluster.homogeneous(2, 8, ("cpu", "mem"))
    plain = PlacementEnv(make_sequences(rows), cluster, placements_per_slot=2, observe_demand=True)
    env = Observed(plain, [Machines(), Room(), Head(), Progress()])
    seen, _ = env.reset(seed=0)
    assert seen["room"].tolist() == [[1], [1]]
    assert seen["head"][-2:].tolist() == [3 / 8, 1 / 8]
    env.step(1)
    seen, *_ = env.step(1)
    assert seen["machines"].tolist() == [[0, 0, 0], np.float32([9 / 8, 3 / 8, 0.2]).tolist()]
    assert seen["room"].tolist() == [[1], [0]]
    assert seen["progress"].tolist() == np.float32([1 / 64, 3 / 64, 0.1]).tolist()


def test_the_rule_expected_cost_can_be_read_off_the_parts(problem):
    """`Costs` and `Room` are what the rule decides by: five lines play its episodes."""
    limit = 500 * problem.scenario.K_w

    env = tvwrl.make(problem, observation=[PerMachine(Room(), Costs())], sequences=12)
    shown = tvwrl.envs.Problem.build(
        problem.trace, env.unwrapped.simulation.scenario, problem.classes, problem.sampler.unit, problem.forecaster
    )
    runner = Runner(shown.sequences("train", 12, 0), shown.machines, shown.scenario)
    waited = 0
    for sequence in range(12):
        episode = runner.play(make_scheduler("expected-cost"), sequence)
        seen, _ = env.reset(options={"sequence": sequence})
        over = False
        while not over:
            room, danger, unused = seen["permachine"].T
            best = int(np.where(room > 0, danger + unused, np.inf).argmin())
            if not room.any() or danger[best] > limit:
                waited += 1
                break
            seen, _, terminated, truncated, _ = env.step(best)
            over = terminated or truncated
        record = env.unwrapped.simulation.record()
        placed = record.start >= 0
        assert placed.any()
        assert np.array_equal(record.machine[placed], episode.machine[placed])
    assert waited < 12


def test_wrapped_environments_can_be_copied(problem):
    env = tvwrl.make(problem, observation=[Machines()], reward=Penalties(wait=2), sequences=2)
    env.reset(seed=0)
    env.step(0)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        one, other = copy.deepcopy(env).step(1), twin.step(1)
        assert one[1] == other[1]
        assert np.array_equal(one[0]["machines"], other[0]["machines"])


def test_gymnasium_makes_it_again():
    env = tvwrl.make("Placement-v0", observation=[Machines()], reward=Penalties(), machines=3, workloads=6)
    assert gym.make(env.spec).observation_space == env.observation_space


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ([], "must be parts, as in"),
        ("grid", "must be parts, as in"),
        ([Machines], "must be parts, as in"),
        ([Machines(), Machines()], "two parts named 'machines'"),
        ([Raw("grids")], r"Raw\('grids'\) is not in the observation; it has grid"),
    ],
)
def test_what_is_no_observation_is_refused(problem, observation, message):
    for make in (tvwrl.make, lambda *given, **more: tvwrl.make_vec(*given, 2, **more)):
        with pytest.raises(InputError, match=message):
            make(problem, observation=observation)


def test_a_part_of_the_wrong_shape_is_named(problem):
    class Wrong(Emptiness):
        def columns(self, about):
            return ("one",)

    with pytest.raises(InputError, match=r"the part 'wrong' has an array \(4, 2\) of one environment and 1 columns"):
        tvwrl.make(problem, observation=[Wrong()])
    with pytest.raises(InputError, match=r"PerMachine\(\) has no parts"):
        PerMachine()


def test_options_that_contradict_parts_are_refused():
    with pytest.raises(InputError, match="observe_demand is False, but the observation has parts that need"):
        tvwrl.make("google-0.5-v1", observation=[Head()], observe_demand=False)


def test_rewards_are_weighed(problem):
    plain = tvwrl.make(problem, sequences=2)
    paid = tvwrl.make(problem, sequences=2, reward=Penalties(overshoot=0, wait=3, unit=100.0))
    plain.reset(seed=0)
    paid.reset(seed=0)
    for _ in range(12):
        _, reward, *_, info = plain.step(0)
        other, weighed = paid.step(0)[1], info["contention"] + info["under_utilisation"] + 3 * info["wait"]
        assert reward == pytest.approx(-sum(info[name] for name in TERMS))
        assert other == pytest.approx(-weighed / 100)


def waiting(seen):
    return -(seen["queue"][:, :, 0] > 0).sum(axis=1) - seen["backlog"][:, 0]


@pytest.mark.parametrize("mode", ["NextStep", "Disabled", "SameStep"])
def test_potentials_cancel_over_an_episode(problem, mode):
    """Discounted, shaping adds minus the potential of the first state, whatever was done (Ng et al. 1999)."""
    gamma = 0.9
    shaped = Shaped(Penalties(), waiting, gamma)
    env, plain = (tvwrl.make(problem, sequences=2, reward=reward) for reward in (shaped, Penalties()))
    seen, _ = env.reset(seed=0, options={"sequence": 0})
    plain.reset(seed=0, options={"sequence": 0})
    first = waiting({name: of[None] for name, of in seen.items()})[0]
    difference, factor, over, rewards = 0.0, 1.0, False, []
    while not over:
        _, reward, terminated, truncated, _ = env.step(1)
        difference += factor * (reward - plain.step(1)[1])
        factor, over = factor * gamma, terminated or truncated
        rewards.append(reward)
    if terminated:
        assert difference == pytest.approx(-first)
    many = tvwrl.make_vec(problem, 2, sequences=2, reward=shaped, autoreset_mode=mode)
    many.reset(seed=0, options={"sequence": 0})
    for reward in rewards:
        _, both, *_ = many.step(np.ones(2, int))
        assert both == pytest.approx(reward)
    after = many.step(np.ones(2, int))[1]
    assert after.all() if mode == "SameStep" else not after.any()  # others begin the next episode, or stand still


def test_a_workload_is_paid_for_when_it_arrives_and_paid_back_when_it_is_placed():
    shaped = Shaped(Penalties(), Waiting(1000.0), gamma=1.0)
    some = {"sequences": 1, "machines": 3, "workloads": 6, "hold_action": True}
    env, plain = (tvwrl.make("Placement-v0", reward=reward, **some) for reward in (shaped, Penalties()))

    def waiting_now(seen):
        return (seen["queue"][:, 0] > 0).sum() + seen["backlog"][0]

    seen, _ = env.reset(seed=0, options={"sequence": 0})
    plain.reset(seed=0, options={"sequence": 0})
    machines = env.action_space.n - 1
    for action in (0, machines, machines, 1, machines, 2):
        before = waiting_now(seen)
        seen, reward, *_ = env.step(action)
        placed = action < machines
        arrived = waiting_now(seen) - before + placed
        assert reward - plain.step(action)[1] == pytest.approx(1000 * (placed - arrived))


def test_the_last_observation_of_an_episode_is_put_together_too(problem):
    view = [Machines(), Progress()]
    one = tvwrl.make(problem, observation=view, sequences=2)
    many = tvwrl.make_vec(problem, 2, observation=view, sequences=2, autoreset_mode="SameStep")
    one.reset(seed=0, options={"sequence": 0})
    many.reset(seed=0, options={"sequence": 0})
    over = False
    while not over:
        seen, _, terminated, truncated, _ = one.step(1)
        first, *_, info = many.step(np.ones(2, int))
        over = terminated or truncated
    for name, array in seen.items():
        assert np.array_equal(info["final_obs"][0][name], array)
    assert not first["machines"].any()


def test_what_is_no_reward_is_refused(problem):
    for name in ("wait", "overshoot", "unit"):
        for value in (-1.0, float("nan"), float("inf")):
            with pytest.raises(InputError, match=f"{name} is {value}"):
                Penalties(**{name: value})
    with pytest.raises(InputError, match=r"gamma is 1\.5"):
        Shaped(Penalties(), waiting, 1.5)
    with pytest.raises(InputError, match=r"cost is -1\.0"):
        Waiting(-1.0)
    with pytest.raises(InputError, match="must be a reward"):
        tvwrl.make(problem, reward=3)


def test_a_task_pays_in_its_unit():
    env = tvwrl.make("google-0.5-v1", sequences=2, reward=Penalties())
    plain = tvwrl.make("google-0.5-v1", sequences=2)
    env.reset(seed=0)
    plain.reset(seed=0)
    assert env.step(0)[1] == pytest.approx(plain.step(0)[1])


class Mask(Emptiness):
    """Its name is taken."""


class Few(Emptiness):
    needs: ClassVar = {"history": 5}


class Fewer(Emptiness):
    needs: ClassVar = {"history": 3}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([Mask()], "a part named 'mask', which is the name of the action mask"),
        ([Few(), Fewer()], "one part needs history=5, the part 'fewer' 3"),
        ([PerMachine(Few(), Fewer())], "one part needs history=5, the part 'fewer' 3"),
    ],
)
def test_parts_that_cannot_be_together_are_refused(problem, parts, message):
    with pytest.raises(InputError, match=message):
        tvwrl.make(problem, observation=parts)


def test_a_part_may_say_yes_or_no(problem):
    class Busy(Emptiness):
        def __call__(self, seen, about):
            return super().__call__(seen, about) < 0.5

    env = tvwrl.make(problem, observation=[Busy(), PerMachine(Machines(), Raw("backlog"))], sequences=2)
    seen, _ = env.reset(seed=0)
    assert seen["busy"].dtype == np.float32
    assert seen["permachine"].shape == (4, 4)


def test_a_snapshot_has_the_potential_too(problem):
    env = tvwrl.make(problem, observation=[Machines()], reward=Shaped(Penalties(), waiting, 0.9), sequences=2)
    env.reset(seed=0)
    env.step(1)
    node = env.snapshot()
    first = [env.step(1)[1] for _ in range(4)]
    seen, _ = env.restore(node)
    assert set(seen) == {"machines"}
    assert [env.step(1)[1] for _ in range(4)] == first


def test_environments_that_have_not_begun_are_paid_nothing(problem):
    for mode in ("NextStep", "Disabled"):
        constant = Shaped(Penalties(), lambda seen: np.full(len(seen["queue"]), 100.0), 0.9)
        many = tvwrl.make_vec(problem, 2, sequences=2, reward=constant, autoreset_mode=mode)
        many.reset(seed=0, options={"reset_mask": np.array([True, False])})
        assert many.step(np.zeros(2, int))[1][1] == 0


def test_a_task_of_ones_own_is_what_is_made():
    from dataclasses import replace

    from tvwrl.benchmark import TASKS

    known = TASKS["google-0.5-v1"]
    own = replace(known, scenario=replace(known.scenario, history=3, K_w=0.0), penalty_unit=1.0, sequences_hash="")
    for make in (tvwrl.make, tvwrl.make_vec):
        with pytest.raises(InputError, match="the test sequences drawn here have the hash"):  # it is not the known one
            make(own, sequences=2)
