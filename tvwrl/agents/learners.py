"""The learning algorithms by name."""

from __future__ import annotations

from typing import Any

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.counterfactual import Counterfactual
from tvwrl.agents.episodes import Environments
from tvwrl.agents.networks import Policy
from tvwrl.agents.policy_gradient import EpisodeLearner, Learner
from tvwrl.agents.ppo import PPO
from tvwrl.agents.reinforce import Reinforce
from tvwrl.types import InputError

LEARNERS: dict[str, type[EpisodeLearner]] = {"reinforce": Reinforce, "ppo": PPO, "counterfactual": Counterfactual}


def make_learner(policy: Policy, config: TrainConfig, envs: Environments, shapes: dict[str, Any]) -> Learner:
    """The algorithm that `config.algo` names, for a policy on the config's device; `shapes`: see `Task`.

    Raises InputError if the policy does not suit the algorithm, or Stable-Baselines3 is missing.
    """
    if config.algo in LEARNERS:
        return LEARNERS[config.algo](policy, config)
    try:
        from tvwrl.agents.sb3 import StableBaselines
    except ModuleNotFoundError as error:
        if error.name != "stable_baselines3":
            raise
        raise InputError(f"algo {config.algo} needs Stable-Baselines3: pip install '.[sb3]'") from None
    return StableBaselines(policy, config, envs, shapes)
