"""A policy of your own beside ours: python examples/own_agent.py (docs/benchmark.md)."""

import sys

import numpy as np

import tvwrl


def act(observation, mask):
    """The allowed action; `help(tvwrl.envs.PlacementEnv)` says what is observed. Replace it by your network."""
    used = (observation["grid"][:, :, -1] > 0).sum(axis=2)  # (M, D) pixels in use in the newest slot
    room = (used + observation["queue"][0, -2:] <= 8).all(axis=1)  # the last columns: what the head of the queue needs
    best = np.where(room, used.sum(axis=1), -1).argmax()  # best fit, without a look at what comes
    return best if room.any() or not mask[-1] else len(mask) - 1  # without room it holds, where that is allowed


if __name__ == "__main__":
    few = int(sys.argv[1]) if sys.argv[1:] else None
    comparison = tvwrl.compare({"mine": act}, "google-0.5-v0", few, observe={"hold_action": True})
    print(comparison)
    if few is None:  # on all sequences it can be handed in
        print(tvwrl.submit(comparison, "runs/my-submission", name="my agent"))
