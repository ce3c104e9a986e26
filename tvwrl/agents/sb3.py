"""PPO and A2C of Stable-Baselines3, through its own interface, on our environments, networks and checkpoints.

An iteration plays as many decisions in every environment as there are workloads in a sequence. PPO learns from all of
them at once; A2C, which takes one step per rollout, plays them in `minibatches` rollouts. Episodes continue across
iterations; otherwise the agent would learn that a workload held back is never paid for. Checkpoints include them, so
that a run resumes exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.buffers import DictRolloutBuffer
from stable_baselines3.common.distributions import CategoricalDistribution
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch import Tensor, nn

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.episodes import Environments
from tvwrl.agents.networks import Encoded, FlatPolicy, Observation, Policy, SharedPolicy, make_policy
from tvwrl.agents.policy_gradient import Learner, check_update, discounted_sums
from tvwrl.agents.ppo import Critic
from tvwrl.simulation import CHANGING
from tvwrl.types import Float, InputError

Arrays = dict[str, npt.NDArray[Any]]


class EncodedEnvironments(VecEnv):
    """Our environments as Stable-Baselines3 steps them, observed through the encoding of a policy.

    When an episode ends, its environment continues with one of the sequences passed to `begin`: its own, or a
    neighbour's if it has already played that.
    """

    def __init__(self, envs: Environments, policy: Policy, value: nn.Module) -> None:
        self._envs, self._policy, self._value = envs, policy, value
        count, self.placements = envs.num_envs, envs.simulation.placements
        self.slots: list[npt.NDArray[np.int64]] = []  # (B,) slots of each decision of a rollout
        self.beyond: list[npt.NDArray[np.float32]] = []  # (B,) value of the state at which an episode was cut; else 0
        self._sums, self._ended = np.zeros((len(envs.terms), count)), np.zeros((len(envs.terms), 0))
        seen, _ = envs.reset(options={"sequence": np.zeros(count, np.int64)})
        first, self._begun = self._encoded(seen), False
        offered = spaces.Dict({name: _space(array) for name, array in first.items()})
        super().__init__(count, offered, spaces.Discrete(first["mask"].shape[1]))

    def begin(self, sequence: npt.NDArray[np.int64]) -> None:
        """Take the sequences (B,) of the next episodes; the first call begins one everywhere."""
        self._sequence, self._episode = sequence, np.zeros(self.num_envs, np.int64)
        self._ended = self._ended[:, :0]
        if not self._begun:
            self._envs.reset(options={"sequence": sequence})
            self._begun, self._episode = True, self._episode + 1

    def reset(self) -> Arrays:
        """The current observations: episodes continue, although Stable-Baselines3 takes this for a new start."""
        return self._encoded(self._envs.simulation.observation())

    def terms(self) -> dict[str, float]:
        """Mean of each term over the episodes that ended since `begin`; over those under way if none did."""
        sums = self._ended if self._ended.size else self._sums
        return dict(zip(self._envs.terms, sums.mean(axis=1).tolist(), strict=True))

    def state(self) -> dict[str, Any]:
        """Where every environment is, for a checkpoint."""
        now = self._envs.simulation.state
        arrays = {name: torch.from_numpy(getattr(now, name).copy()) for name in CHANGING}
        return {"begun": self._begun, "sums": torch.from_numpy(self._sums.copy()), "simulation": arrays}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._begun, self._sums = state["begun"], state["sums"].numpy().copy()
        for name, saved in state["simulation"].items():
            getattr(self._envs.simulation.state, name)[...] = saved.numpy()

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Keep the actions (B,) for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Arrays, Float, npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """Observations, rewards (B,), dones (B,) and infos as Stable-Baselines3 wants them."""
        seen, reward, terminated, truncated, info = self._envs.step(self._actions)
        done = terminated | truncated
        self.slots.append(info["slots"].copy())
        self._sums += [info[name] for name in self._envs.terms]
        infos: list[dict[str, Any]] = [{} for _ in done]
        encoded = self._encoded(seen)
        self.beyond.append(self._value_of_cut(encoded, truncated))
        if done.any():
            for b in np.flatnonzero(done):  # without its flag for cut episodes: it would discount by one slot
                infos[b] = {"terminal_observation": {name: array[b] for name, array in encoded.items()}}
            self._ended = np.concatenate([self._ended, self._sums[:, done]], axis=1)
            self._sums[:, done] = 0.0
            following = self._sequence[(np.arange(self.num_envs) + self._episode) % self.num_envs]
            self._episode += done
            seen, _ = self._envs.reset(options={"reset_mask": done, "sequence": following})
            encoded = self._encoded(seen)
        return encoded, reward.astype(np.float32), done, infos

    def _value_of_cut(self, encoded: Arrays, cut: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
        """(B,) value of the final state of episodes that were cut; 0 elsewhere."""
        values = np.zeros(self.num_envs, np.float32)
        if cut.any():
            device = next(self._value.parameters()).device
            with torch.no_grad():
                found = self._value({n: torch.from_numpy(part[cut]).to(device) for n, part in encoded.items()})
            values[cut] = found.sum(dim=1).cpu().numpy()
        return values

    def _encoded(self, seen: Observation) -> Arrays:
        encoded: Encoded = self._policy.encode(seen)
        mask = self._envs.action_masks().astype(np.uint8)
        return {name: part.numpy() for name, part in encoded.items()} | {"mask": mask}

    def close(self) -> None:
        """The environments belong to the trainer."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Only `render_mode`, which Stable-Baselines3 asks for: single environments have no attributes."""
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


LOGGED = ("value_loss", "explained_variance", "approx_kl", "clip_fraction")  # if the algorithm has them


class StableBaselines(Learner):
    """Trains one of our policies with an algorithm of Stable-Baselines3; `config.algo` names it.

    Its advantages are those of the summed reward, not machine by machine, and rewards are scaled by their returns'
    running deviation and cut to +- 10 (`VecNormalize`). `advantage_clip` does not apply; nor do `epochs` and `clip` to
    A2C.
    """

    def __init__(self, policy: Policy, config: TrainConfig, envs: Environments, shapes: dict[str, Any]) -> None:
        if config.policy not in ("shared", "flat"):
            raise InputError(f"algo {config.algo} needs policy shared or flat, not {config.policy}")
        if config.network and not isinstance(policy, SharedPolicy | FlatPolicy):
            raise InputError(
                f"algo {config.algo} needs a network that extends tvwrl.agents.SharedPolicy, PairPolicy or FlatPolicy: "
                f"{config.network} does not; use algo reinforce or counterfactual"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed + 1)
            value: nn.Module  # our critic, whose parts are summed, or the same network with a single output
            if isinstance(policy, SharedPolicy):
                value = Critic(policy, config.hidden)
            else:
                value = make_policy("flat", shapes | {"actions": 1}, config.hidden)
            self._value = value.to(config.device)
        super().__init__(policy, config)
        self._iteration = 0
        self.episodes = EncodedEnvironments(envs, policy, self._value)
        self._rewards = VecNormalize(self.episodes, norm_obs=False, gamma=config.gamma)
        workloads = envs.simulation.sequences.arrival.shape[1]
        part = -(-workloads // config.minibatches)
        self._decisions = part * config.minibatches * envs.num_envs
        self._algorithm = _algorithm(self, self._rewards, config, part, {"network": policy, "value": self._value})
        self.optimiser = self._algorithm.policy.optimizer
        self._norms: list[float] = []  # of the gradients of an iteration's steps, before they are clipped
        self.optimiser.register_step_pre_hook(self._clip)

    def _clip(self, *_: Any) -> None:
        """Clip the gradient here, because Stable-Baselines3 does not report its norm."""
        limit = self.config.max_gradient_norm or float("inf")
        self._norms.append(float(nn.utils.clip_grad_norm_(self.weights(), limit)))

    def weights(self) -> Iterator[Tensor]:
        """See `Learner.weights`; includes the value network's."""
        return self._algorithm.policy.parameters()

    def learning_rate(self, remaining: float) -> float:
        """Step size of this iteration, as a Stable-Baselines3 schedule; `remaining` is ignored."""
        return self.config.at(self._iteration, self.config.learning_rate, self.config.final_learning_rate)

    def iterate(
        self, envs: Environments, sequence: npt.NDArray[np.int64], iteration: int, rng: torch.Generator
    ) -> tuple[dict[str, float], dict[str, float]]:
        """See `Learner.iterate`. The terms are means over the episodes that ended, or over all if none did.

        Seeds the global generators of Python, numpy and torch, from which Stable-Baselines3 draws.
        """
        config, algorithm = self.config, self._algorithm
        self._iteration = iteration
        self.episodes.begin(sequence)
        set_random_seed(int(torch.randint(2**31, (1,), generator=rng)))
        self._norms.clear()
        algorithm.ent_coef = config.at(iteration, config.entropy_bonus, config.final_entropy_bonus)
        try:
            algorithm.learn(self._decisions, log_interval=None)  # type: ignore[arg-type]
        except ValueError:
            check_update({}, self.weights())  # torch refuses to draw from probabilities that are not numbers
            raise
        log = algorithm.logger.name_to_value
        logged = {
            "entropy": -log["train/entropy_loss"],
            "gradient_norm": float(np.mean(self._norms)),
            "decisions": float(self._decisions),
        }
        found = {name: float(log[f"train/{name}"]) for name in LOGGED if f"train/{name}" in log}
        return self.episodes.terms(), logged | found

    def state(self) -> dict[str, Any]:
        """See `Learner.state`; includes the value network, the reward scale and the episodes under way."""
        scale = self._rewards.ret_rms
        return super().state() | {
            "value": self._value.state_dict(),
            "reward_scale": {"mean": float(scale.mean), "variance": float(scale.var), "count": float(scale.count)},
            "episodes": self.episodes.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See `Learner.restore`."""
        super().restore(state)
        self._value.load_state_dict(state["value"])
        scale, saved = self._rewards.ret_rms, state["reward_scale"]
        scale.mean, scale.var, scale.count = np.array(saved["mean"]), np.array(saved["variance"]), saved["count"]
        self.episodes.restore(state["episodes"])


def _algorithm(
    learner: StableBaselines, envs: VecEnv, config: TrainConfig, part: int, networks: dict[str, Any]
) -> OnPolicyAlgorithm:
    """The algorithm, logging to memory only; `part`: decisions per environment for one step of Adam."""
    common: dict[str, Any] = {
        "learning_rate": learner.learning_rate,
        "gamma": config.gamma,
        "gae_lambda": config.gae_lambda,
        "max_grad_norm": float("inf"),  # `StableBaselines` clips
        "normalize_advantage": config.advantage_scaling,
        "policy_kwargs": networks,
        "rollout_buffer_class": Decisions,
        "rollout_buffer_kwargs": {"episodes": learner.episodes},
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
        """Build none of the networks of Stable-Baselines3."""
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


class Decisions(DictRolloutBuffer):
    """A rollout buffer that discounts per slot: from one decision to the next, any number of slots pass."""

    def __init__(self, *arguments: Any, episodes: EncodedEnvironments, **options: Any) -> None:
        self._episodes = episodes
        super().__init__(*arguments, **options)

    def reset(self) -> None:
        """Empty it."""
        super().reset()
        self._episodes.slots.clear()
        self._episodes.beyond.clear()

    def compute_returns_and_advantage(self, last_values: Tensor, dones: npt.NDArray[Any]) -> None:
        """GAE (Schulman et al. 2016, Eq. 16): a step of s slots discounts by gamma ** s, also where the episode is cut
        there, and a placement by lambda."""
        discount, beyond = self.gamma ** np.array(self._episodes.slots), np.array(self._episodes.beyond)
        going = 1.0 - np.append(self.episode_starts[1:], dones[None], axis=0)
        following = np.append(self.values[1:], last_values.cpu().numpy().reshape(1, -1), axis=0)
        trust = np.where(self.actions[..., 0] < self._episodes.placements, self.gae_lambda, 1.0)
        difference = self.rewards + discount * (going * following + beyond) - self.values
        self.advantages[:] = discounted_sums(difference, discount * trust * going)
        self.returns = self.advantages + self.values
