"""How much of the policy gradient of moves is signal: for returns that are compared, and for generalised advantages."""

from __future__ import annotations

import numpy as np
import tyro

from tvwrl import Scenario, open_trace
from tvwrl.agents import PolicySettings, ValueSettings
from tvwrl.agents.move_policy_gradient import (
    Climbing,
    Trajectory,
    advantages,
    fitted,
    play,
    returns_compared,
)
from tvwrl.envs import Problem
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import Runner, shipped_value
from tvwrl.types import Float

WEIGHTS = 2  # layers before these are means and scales


def main(trace: str = "google2011", sequences: int = 32, seed: int = 77) -> None:
    """Print, for each kind of advantage, the length of the mean gradient, of its noise, and how halves agree.

    Args:
        trace: name of a prepared trace.
        sequences: training sequences, each played 8 times by the value that ships with drawn moves.
        seed: of those sequences.
    """
    how, value = PolicySettings(), shipped_value()
    problem = Problem.build(open_trace(trace), Scenario(moves_per_slot=2)).with_forecasts()
    runner = Runner(problem.sequences("train", sequences, seed), problem.machines, problem.scenario)
    played = [
        play(problem, runner, s, value, how.temperature, (seed, s, j))
        for s in range(sequences)
        for j in range(how.trajectories)
    ]
    critic = fitted([problem], played, ValueSettings(), how, value).layers
    kinds = {f"returns compared, discount {gamma:g}": returns_compared(played, gamma) for gamma in (0.9, 0.95, 0.99)}
    for gae_lambda in (1.0, 0.9, 0.5, 0.0):
        found = [advantages(one, critic, how.gamma, gae_lambda).sum(axis=1) for one in played]
        kinds[f"generalised, lambda {gae_lambda:g}"] = found
    lines = [[kind, *_measured(gradients(played, gains))] for kind, gains in kinds.items()]
    print(markdown_table(["advantage", "signal", "noise of a sequence", "sequences needed", "cosine of halves"], lines))


def gradients(played: list[Trajectory], gains: list[Float]) -> Float:
    """(S, W) gradient of each sequence, mean over its episodes."""
    climbing, rows = Climbing(shipped_value(), 1.0), dict[int, list[Float]]()
    for one, own in zip(played, gains, strict=True):
        slots = [
            (one, step, np.full(len(step.made.option), gain))
            for step, gain in zip(one.steps, own.tolist(), strict=True)
            if step.here.movable.any()
        ]
        up, _ = climbing.gradient(slots)
        whole = np.concatenate([layer.ravel() for layer in up[WEIGHTS:]]).astype(np.float64)
        rows.setdefault(one.sequence, []).append(whole * len(slots))
    return np.array([np.mean(several, axis=0) for several in rows.values()])


def _measured(rows: Float) -> list[str]:
    count, total = len(rows), rows.sum(axis=0)
    signal = float((total @ total - (rows**2).sum()) / (count * (count - 1)))  # no bias: may be below 0
    noise = float((rows**2).sum() / count - signal)
    halves = [rows[k::2].mean(axis=0) for k in (0, 1)]
    cosine = float(halves[0] @ halves[1] / np.linalg.norm(halves[0]) / np.linalg.norm(halves[1]))
    needed = f"{noise / signal:.0f}" if signal > 0 else "cannot be told"
    return [f"{max(signal, 0.0) ** 0.5:.2g}", f"{noise**0.5:.2g}", needed, f"{cosine:+.2f}"]


if __name__ == "__main__":
    tyro.cli(main)
