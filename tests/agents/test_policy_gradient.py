"""The clipped policy gradient by hand: ratios, the entropy bonus, and what falls with the iterations."""

import numpy as np
import pytest
import torch

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.policy_gradient import PolicyGradient, clipped_gain

from .test_reinforce import episodes


class Coin(torch.nn.Module):
    """A policy of two actions that sees nothing."""

    def __init__(self, logits=(0.0, 0.0)):
        super().__init__()
        self.both = torch.nn.Parameter(torch.tensor(logits))

    def logits(self, encoded):
        """(B, 2)"""
        return self.both.expand(len(encoded["mask"]), 2)


class GivenAdvantage(PolicyGradient):
    """Every decision has the same advantage."""

    def __init__(self, policy, config, advantage):
        super().__init__(policy, config)
        self.advantage = advantage

    def advantages(self, played):
        """(T, B)"""
        return np.full(played.reward.shape, self.advantage)


@pytest.mark.parametrize(
    ("ratio", "advantage", "gain"),
    [
        (2.0, 1.0, 1.2),  # already likelier than clip allows: no more to be had
        (2.0, -1.0, -2.0),  # but a mistake counts in full
        (0.5, 1.0, 0.5),
        (0.5, -1.0, -0.8),  # already less likely
        (1.1, 3.0, 3.3),  # within the clip
    ],
)
def test_what_is_gained_by_hand(ratio, advantage, gain):
    # Of action 0, which is taken with 1/2: who played took it with 1/2 / ratio.
    both = torch.log(torch.tensor([[0.5, 0.5]]))
    before = torch.log(torch.tensor([0.5 / ratio]))
    found = clipped_gain(both, torch.tensor([0]), torch.tensor([advantage]), before, clip=0.2)
    assert found.tolist() == pytest.approx([gain])


def stepped(iteration, advantage=0.0, **changes):
    """Log and step size of one update from logits 1 and 0, and the probability of action 0 before and after."""
    config = TrainConfig(iterations=5, epochs=1, minibatches=1, **changes)
    policy = Coin((1.0, 0.0))
    before = float(torch.softmax(policy.both.detach(), 0)[0])
    played = episodes([[0.0], [0.0]], [[1], [1]], encoded={"mask": torch.ones(2, 2, dtype=torch.bool)})
    played.log_probability[:] = np.log(before)
    learner = GivenAdvantage(policy, config, advantage)
    logged = learner.update(played, iteration, torch.Generator())
    rate = learner.optimiser.param_groups[0]["lr"]
    return logged, rate, before, float(torch.softmax(policy.both.detach(), 0)[0])


def test_what_turned_out_well_becomes_likelier_and_the_bonus_evens_out():
    _, _, before, after = stepped(0, advantage=1.0, entropy_bonus=0.0)
    assert after > before
    _, _, before, after = stepped(0, entropy_bonus=0.1)
    assert after < before


def test_step_size_and_bonus_fall_linearly():
    config = TrainConfig(iterations=5)
    assert [config.at(i, 8.0, 4.0) for i in range(5)] == [8.0, 7.0, 6.0, 5.0, 4.0]
    assert TrainConfig(iterations=1).at(0, 8.0, 4.0) == 8.0
    falls = {"learning_rate": 0.008, "final_learning_rate": 0.004, "entropy_bonus": 0.2, "final_entropy_bonus": 0.0}
    found = [stepped(i, **falls)[:2] for i in (0, 2, 4)]
    assert [rate for _, rate in found] == pytest.approx([0.008, 0.006, 0.004])
    norms = [logged["gradient_norm"] for logged, _ in found]  # of the bonus alone, as the advantage is 0
    assert norms[0] > 0
    assert norms == pytest.approx([norms[0], norms[0] / 2, 0.0])
