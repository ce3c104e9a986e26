"""Speed of the environment in the paper's configuration: slots, decisions and single steps per second of one core."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import tyro
from timing import least_seconds

import tvwrl
from tvwrl.envs.problem import default_problem
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces.windows import stack_windows

ROUNDS = 12  # the best of several short rounds: the machine may be shared


def vector(batch: int, relabel_every: int = 1) -> tuple[float, float]:
    """Decisions and slots per second of the vector environment with random actions, observations written."""
    options = {"workloads": 40, "copy": False, "relabel_every": relabel_every}
    envs = gym.make_vec("tvwrl/Placement-v0", num_envs=batch, vectorization_mode="vector_entry_point", **options)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 10, (64, batch))
    steps, slots = max(64, 40_000 // batch), 0.0  # slots of a round
    for row in actions:  # away from the common start, so that episodes end at different times
        envs.step(row)

    def work() -> None:
        nonlocal slots
        slots = sum(envs.step(actions[i % 64])[4]["slots"].sum() for i in range(steps))

    seconds = least_seconds(work, ROUNDS)
    return steps * batch / seconds, slots / seconds


def single(name: str, steps: int = 20_000, **kwargs: object) -> float:
    """Steps per second of one unwrapped environment with random actions, resets included."""
    env = gym.make(name, disable_env_checker=True, **kwargs).unwrapped
    actions = np.random.default_rng(0).integers(0, env.action_space.n, steps).tolist()

    def work() -> None:
        env.reset(seed=0)
        for action in actions:
            if any(env.step(action)[2:4]):
                env.reset()

    return steps / least_seconds(work, ROUNDS)


def labelling(sequences: int) -> tuple[float, float]:
    """CPU seconds of the labels of so many sequences, predicted anew in every slot, and of one slot of one workload."""
    problem = default_problem(Scenario(workloads=40))
    drawn = problem.sampler.windows("train", 40 * sequences, np.random.default_rng(0))
    windows = stack_windows(drawn, problem.trace, problem.sampler.unit).reshape(sequences, 40)
    spent = least_seconds(lambda: problem.classes.label_table(windows, 1), 1)
    return spent, spent / float(windows.length.sum())


def main(batches: tuple[int, ...] = (256, 1024)) -> None:
    """Print one line per figure, with a CartPole of the same run as the yardstick.

    Args:
        batches: numbers of environments.
    """
    print(f"tvwrl {tvwrl.__version__}, M = 10, D = 2, h = 20, C = 8, 40 workloads, load 0.5, one core, CPU seconds")
    for batch in batches:
        decisions, slots = vector(batch)
        print(f"vector, B = {batch:5d}: {decisions:10,.0f} decisions/s, {slots:10,.0f} slots/s")
    batch = batches[0]
    every, never = vector(batch)[1], vector(batch, 100_000)[1]
    print(f"vector, B = {batch:5d}: {every:10,.0f} slots/s with new labels every slot, {never:,.0f} without")
    spent, each = labelling(300)
    print(f"labels of 300 sequences, made once: {spent:.2f} s, {each * 1e6:.1f} us per workload and slot")
    ours, yardstick = single("tvwrl/Placement-v0", workloads=40), single("CartPole-v1")
    print(f"single env.step:  {ours:10,.0f} /s (CartPole-v1 in the same run: {yardstick:,.0f} /s)")


if __name__ == "__main__":
    tyro.cli(main)
