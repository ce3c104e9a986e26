"""The algorithms by name."""

from __future__ import annotations

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.networks import Policy
from tvwrl.agents.policy_gradient import Learner
from tvwrl.agents.ppo import PPO
from tvwrl.agents.reinforce import Reinforce

LEARNERS: dict[str, type[Learner]] = {"reinforce": Reinforce, "ppo": PPO}


def make_learner(policy: Policy, config: TrainConfig) -> Learner:
    """The learner that `config.algo` names, for a policy on the config's device."""
    return LEARNERS[config.algo](policy, config)
