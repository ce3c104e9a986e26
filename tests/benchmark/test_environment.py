"""Tasks as Gymnasium environments: what the checker expects, their rewards, and what is not for training."""

import io
import pickle
import subprocess
import sys
from dataclasses import replace
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tvwrl.benchmark.tasks import TASKS, problem_of
from tvwrl.penalties import TERMS
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.traces import load_sequences, save_sequences
from tvwrl.types import InputError

EMBEDDED = [name for name in TASKS if name.startswith("google-") and (name.endswith("v1") or name == "google-0.5-v0")]
ADVICE = "ignore:.*maximum value is infinity.*:UserWarning"


@pytest.mark.filterwarnings(ADVICE)
@pytest.mark.parametrize("name", EMBEDDED)
def test_gymnasium_accepts_every_task_that_everybody_has(name):
    env = gym.make(f"tvwrl/{name}", sequences=2)
    check_env(env.unwrapped, skip_render_check=True)
    _, info = env.reset(seed=0)
    rewards = 0.0
    for _ in range(30):
        mask = env.get_wrapper_attr("action_masks")()
        assert mask.shape == (env.action_space.n,)
        _, reward, *_, info = env.step(int(np.flatnonzero(mask)[0]))
        assert reward == pytest.approx(-sum(info[term] for term in TERMS) / TASKS[name].penalty_unit)
        rewards += reward
    assert -3000 < rewards <= 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EMBEDDED if "large" not in name])
def test_best_fit_peak_earns_about_minus_one_per_decision(name):
    task = TASKS[name]
    problem = problem_of(task)
    drawn = problem.sequences("train", 20, 0)
    runner, scheduler = Runner(drawn, problem.machines, problem.scenario), make_scheduler("best-fit-peak")
    rewards = [problem.score(runner.play(scheduler, i))["reward"] for i in range(20)]
    assert np.sum(rewards) / drawn.arrival.size / task.penalty_unit == pytest.approx(-1.0, rel=0.01)


def test_the_vector_form_earns_the_same(small):
    single = gym.make("tvwrl/google-0.5-v1", task=small, sequences=2)
    several = gym.make_vec(
        "tvwrl/google-0.5-v1", num_envs=2, vectorization_mode="vector_entry_point", task=small, sequences=2
    )
    one, _ = single.reset(seed=3, options={"sequence": 1})
    all_, _ = several.reset(seed=3, options={"sequence": 1})
    assert np.array_equal(one["queue"], all_["queue"][0])
    for _ in range(10):
        assert single.step(0)[1] == several.step(np.zeros(2, int))[1][0]


def test_test_sequences_are_not_for_training(small):
    with pytest.raises(InputError, match="evaluated on it, so it is not for training"):
        gym.make("tvwrl/google-0.5-v1", task=small, split="test")
    with pytest.raises(InputError, match="is fixed by the task"):
        gym.make("tvwrl/google-0.5-v1", task=small, load=0.1)
    for make in (gym.make, partial(gym.make_vec, vectorization_mode="vector_entry_point")):
        for option, meant in (("histroy", "history"), ("splt", "split")):
            with pytest.raises(InputError, match=rf"there is no option '{option}': did you mean {meant}\?"):
                make("tvwrl/google-0.5-v1", task=small, **{option: 5})
    shown = gym.make("tvwrl/google-0.5-v1", task=small, split="validation", hold_action=True)
    assert shown.action_space.n == 5


def test_entries_need_no_torch():
    code = "import sys, tvwrl.benchmark.entries; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False"]


def test_importing_opens_nothing():
    code = (
        "import sys, gymnasium, tvwrl; gymnasium.spec('tvwrl/tianchi-0.8-v1'); print('tvwrl.benchmark' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False"]


@pytest.mark.parametrize("form", ["single", "vector"])
def test_a_pickle_is_small_and_goes_on_the_same(small, form):
    env = gym.make("tvwrl/google-0.5-v1", task=small) if form == "single" else vector(small)
    env.reset(seed=3)
    action = 0 if form == "single" else np.zeros(2, int)
    for _ in range(5):
        env.step(action)
    content = pickle.dumps(env)
    assert len(content) < 2e6
    copy = pickle.loads(content)
    for _ in range(10):
        one, other = env.step(action), copy.step(action)
        assert np.array_equal(one[1], other[1])
        assert all(np.array_equal(one[0][name], other[0][name]) for name in one[0])


def vector(task, **options):
    made = partial(gym.make_vec, "tvwrl/google-0.5-v1", vectorization_mode="vector_entry_point")
    return made(num_envs=2, task=task, sequences=2, **options)


@pytest.mark.parametrize("observe", [{}, {"observe_forecast": True}])
def test_sequences_from_disk_are_those_that_were_drawn(small, observe):
    problem = replace(problem_of(small), forecaster=None)
    if observe:
        problem = problem.with_forecasts()
    drawn = problem.sequences("train", 2, 0)
    save_sequences(drawn, content := io.BytesIO())
    content.seek(0)
    again = load_sequences(content)
    assert again.training is None
    for name, value in vars(drawn).items():
        if name not in ("training", "forecast"):
            assert np.array_equal(getattr(again, name), value, equal_nan=np.asarray(value).dtype.kind == "f"), name
            assert type(getattr(again, name)) is type(value), name
    assert (again.forecast is None) == (not observe)
    if again.forecast is not None:
        assert all(np.array_equal(getattr(again.forecast, name), of) for name, of in vars(drawn.forecast).items())
