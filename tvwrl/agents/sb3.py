"""PPO and A2C of Stable-Baselines3, through its own interface, on our environments, networks and checkpoints.

An iteration begins episodes in all environments and plays as many decisions in each as there are workloads in a
sequence and a tenth more; who is through goes on with another sequence. PPO learns from all of it at once; A2C, which
takes one step per rollout, plays it in `minibatches` rollouts. So nothing of the environments outlasts an iteration,
and a run resumes exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.distributions import CategoricalDistribution
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch import Tensor, nn

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.episodes import Environments
from tvwrl.agents.networks import Encoded, Observation, Policy, SharedPolicy, make_policy
from tvwrl.agents.ppo import Critic
from tvwrl.types import Float, InputError

SLACK = 1.1  # decisions of an iteration per workload: to hold is a decision too
LOGGED = {"value_loss": "value_loss", "explained_variance": "explained_variance"}  # its name -> ours

Arrays = dict[str, npt.NDArray[Any]]


class StableBaselines:
    """Trains one of our policies with an algorithm of Stable-Baselines3; `config.algo` names it.

    Its discount is per decision, its advantages are those of the summed reward, and rewards are scaled by their running
    deviation (`VecNormalize`). `advantage_clip` does not apply; nor do `epochs` and `clip` to A2C.
    """

    def __init__(self, policy: Policy, config: TrainConfig, envs: Environments, shapes: dict[str, Any]) -> None:
        if config.policy not in ("shared", "flat"):
            raise InputError(f"algo {config.algo} needs policy shared or flat, not {config.policy}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed + 1)
            self._value = _value_network(policy, config, shapes).to(config.device)
        self._config, self._iteration = config, 0
        self._episodes = EncodedEnvironments(envs, policy)
        self._rewards = VecNormalize(self._episodes, norm_obs=False, gamma=config.gamma)
        workloads = envs.simulation.sequences.arrival.shape[1]
        part = int(np.ceil(SLACK * workloads / config.minibatches))
        self._decisions = part * config.minibatches * envs.num_envs
        self._algorithm = _algorithm(self, self._rewards, config, part, {"network": policy, "value": self._value})
        self.optimiser: torch.optim.Optimizer = self._algorithm.policy.optimizer

    def learning_rate(self, remaining: float) -> float:
        """Step size of this iteration; a schedule of Stable-Baselines3, of whose progress it makes no use."""
        return self._config.at(self._iteration, self._config.learning_rate, self._config.final_learning_rate)

    def iterate(
        self, envs: Environments, sequence: npt.NDArray[np.int64], iteration: int, rng: torch.Generator
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Play and learn; see `Algorithm`. The terms are of the first episode everywhere, as far as it was played.

        Seeds the global generators of Python, numpy and torch, which Stable-Baselines3 draws from.
        """
        config, algorithm = self._config, self._algorithm
        self._iteration, self._episodes.sequence = iteration, sequence
        set_random_seed(int(torch.randint(2**31, (1,), generator=rng)))
        algorithm.ent_coef = config.at(iteration, config.entropy_bonus, config.final_entropy_bonus)
        algorithm.learn(self._decisions, log_interval=None)  # type: ignore[arg-type]
        said = algorithm.logger.name_to_value
        slopes = [p.grad.norm() for p in algorithm.policy.parameters() if p.grad is not None]
        logged = {
            "entropy": -said["train/entropy_loss"],
            "gradient_norm": float(torch.stack(slopes).norm()),  # of the last step, clipped
            "decisions": float(self._decisions),
        }
        return self._episodes.terms(), logged | {ours: said[f"train/{its}"] for its, ours in LOGGED.items()}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps to go on exactly."""
        scale = self._rewards.ret_rms
        return {
            "optimiser": self.optimiser.state_dict(),
            "value": self._value.state_dict(),
            "reward_scale": {"mean": float(scale.mean), "variance": float(scale.var), "count": float(scale.count)},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.optimiser.load_state_dict(state["optimiser"])
        self._value.load_state_dict(state["value"])
        scale, saved = self._rewards.ret_rms, state["reward_scale"]
        scale.mean, scale.var, scale.count = np.array(saved["mean"]), np.array(saved["variance"]), saved["count"]


def _algorithm(
    learner: StableBaselines, envs: VecEnv, config: TrainConfig, part: int, networks: dict[str, Any]
) -> OnPolicyAlgorithm:
    """The algorithm with its logs kept in memory; `part`: decisions per environment behind one step of Adam."""
    common: dict[str, Any] = {
        "learning_rate": learner.learning_rate,
        "gamma": config.gamma,
        "gae_lambda": config.gae_lambda,
        "max_grad_norm": config.max_gradient_norm or float("inf"),
        "normalize_advantage": config.advantage_scaling,
        "policy_kwargs": networks,
        "device": config.device,
    }
    algorithm: OnPolicyAlgorithm
    if config.algo == "sb3-a2c":
        algorithm = A2C(ActorCritic, envs, n_steps=part, use_rms_prop=False, **common)
    else:
        own: dict[str, Any] = {"batch_size": part * envs.num_envs, "n_epochs": config.epochs, "clip_range": config.clip}
        algorithm = PPO(ActorCritic, envs, n_steps=part * config.minibatches, **own, **common)
    algorithm.set_logger(Logger(folder=None, output_formats=[]))
    return algorithm


def _value_network(policy: Policy, config: TrainConfig, shapes: dict[str, Any]) -> nn.Module:
    """Of `shared`: our critic, whose parts are added up; of `flat`: the same network with a single output."""
    if isinstance(policy, SharedPolicy):
        return Critic(policy, config.hidden)
    return make_policy("flat", shapes | {"actions": 1}, config.hidden)


class ActorCritic(ActorCriticPolicy):
    """One of our policies and a value network as a policy of Stable-Baselines3.

    Observations are encoded already, with the mask of what may be chosen among them (`EncodedEnvironments`).
    """

    def __init__(self, *arguments: Any, network: Policy, value: nn.Module, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.network, self.value = network, value
        rate: dict[str, Any] = {"lr": self._first_rate}
        self.optimizer = self.optimizer_class(self.parameters(), **rate, **self.optimizer_kwargs)

    def _build(self, lr_schedule: Any) -> None:
        """Nothing of the networks that Stable-Baselines3 would make."""
        self._first_rate = lr_schedule(1)

    def forward(self, obs: Any, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Actions (B,), values (B, 1) and log-probabilities (B,)."""
        distribution = self.get_distribution(obs)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, self.predict_values(obs), distribution.log_prob(actions)

    def evaluate_actions(self, obs: Any, actions: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values (B, 1), log-probabilities (B,) of the actions, and entropies (B,)."""
        distribution = self.get_distribution(obs)
        return self.predict_values(obs), distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: Any) -> CategoricalDistribution:
        """Over the actions; what the mask forbids has probability 0."""
        logits = self.network.logits({**obs, "mask": obs["mask"].bool()})
        return CategoricalDistribution(logits.shape[1]).proba_distribution(logits)

    def predict_values(self, obs: Any) -> Tensor:
        """(B, 1) expected sum of scaled rewards to come."""
        values: Tensor = self.value(obs).sum(dim=1, keepdim=True)
        return values


class EncodedEnvironments(VecEnv):
    """Our environments as Stable-Baselines3 steps them, observed through the encoding of a policy.

    `sequence` (B,): what the next `reset` begins with. Where an episode ends the environment goes on with the sequence
    of its neighbour, then of the next.
    """

    def __init__(self, envs: Environments, policy: Policy) -> None:
        self._envs, self._policy = envs, policy
        self.sequence = np.zeros(envs.num_envs, np.int64)
        first = self.reset()
        offered = spaces.Dict({name: _space(array) for name, array in first.items()})
        super().__init__(envs.num_envs, offered, spaces.Discrete(first["mask"].shape[1]))

    def reset(self) -> Arrays:
        """Begin an episode everywhere."""
        self._played = np.zeros(len(self.sequence), np.int64)  # episodes that are over
        self._sums = dict.fromkeys(self._envs.terms, 0.0)
        seen, _ = self._envs.reset(options={"sequence": self.sequence})
        return self._encoded(seen)

    def terms(self) -> dict[str, float]:
        """Mean of each term over the first episode of each environment, as far as it was played."""
        return {name: total / self.num_envs for name, total in self._sums.items()}

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Keep the actions (B,) for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Arrays, Float, npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """Observations, rewards (B,), dones (B,) and infos as Stable-Baselines3 wants them."""
        seen, reward, terminated, truncated, info = self._envs.step(self._actions)
        done = terminated | truncated
        for name in self._sums:
            self._sums[name] += float(info[name][self._played == 0].sum())
        infos: list[dict[str, Any]] = [{} for _ in done]
        encoded = self._encoded(seen)
        if done.any():
            for b in np.flatnonzero(done):
                last = {name: array[b] for name, array in encoded.items()}
                infos[b] = {"terminal_observation": last, "TimeLimit.truncated": bool(truncated[b])}
            self._played += done
            following = self.sequence[(np.arange(self.num_envs) + self._played) % self.num_envs]
            seen, _ = self._envs.reset(options={"reset_mask": done, "sequence": following})
            encoded = self._encoded(seen)
        return encoded, reward.astype(np.float32), done, infos

    def _encoded(self, seen: Observation) -> Arrays:
        encoded: Encoded = self._policy.encode(seen)
        mask = self._envs.action_masks().astype(np.uint8)
        return {name: part.numpy() for name, part in encoded.items()} | {"mask": mask}

    def close(self) -> None:
        """The environments belong to the trainer."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """There are no attributes of single environments but for `render_mode`, which Stable-Baselines3 asks for."""
        if attr_name != "render_mode":
            raise AttributeError(attr_name)
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: see `get_attr`."""
        raise AttributeError(attr_name)

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **options: Any) -> list[Any]:
        """Refused: see `get_attr`."""
        raise AttributeError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No environment is."""
        return [False] * self.num_envs


def _space(array: npt.NDArray[Any]) -> spaces.Box:
    """The space of one environment's part of a batch (B, ...): any value of its type."""
    if array.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, array.shape[1:], np.float32)
    limits = np.iinfo(array.dtype)
    return spaces.Box(limits.min, limits.max, array.shape[1:], array.dtype.type)
