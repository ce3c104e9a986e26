"""Compare your own policy with our schedulers: python examples/own_agent.py (docs/how-to/enter-the-benchmark.md)."""

import sys

import numpy as np

import tvwrl


def act(observation, mask):
    """An action; `help(tvwrl.envs.PlacementEnv)` describes the observation. Replace this by your network."""
    used = (observation["grid"][:, :, -1] > 0).sum(axis=2)  # (M, D) pixels in use in the newest slot
    room = (used + observation["queue"][0, -2:] <= 8).all(axis=1)  # the last columns: demand of the head of the queue
    best = np.where(room, used.sum(axis=1), -1).argmax()  # best fit by current load
    return best if room.any() or not mask[-1] else len(mask) - 1  # without room it waits, if that is allowed


if __name__ == "__main__":
    few = int(sys.argv[1]) if sys.argv[1:] else None
    comparison = tvwrl.compare({"mine": act}, "google-0.5-v1", few, observe={"hold_action": True})
    print(comparison)
    if few is None:  # a submission needs all sequences
        print(tvwrl.submit(comparison, "runs/my-submission", name="my agent"))
