"""PPO in one file, in the style of CleanRL, on a task of the benchmark: python examples/cleanrl_ppo.py

The network scores every machine with the same weights, from its recent load and what the queue needs. The action that
waits is left out: waiting costs little now and more later, which discounted returns miss, so the agent would learn
never to place. After training, the agent is compared on the task's test sequences (docs/reference/tasks.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import nn
from torch.distributions import Categorical

import tvwrl


@dataclass
class Args:
    """Hyper-parameters."""

    task: str = "google-0.5-v1"
    seed: int = 0
    total_timesteps: int = 1_000_000
    num_envs: int = 128
    num_steps: int = 64
    learning_rate: float = 1e-3
    gamma: float = 0.9
    gae_lambda: float = 0.9
    num_minibatches: int = 8
    update_epochs: int = 4
    clip_coef: float = 0.2
    ent_coef: float = 0.003
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    sequences: int | None = None
    """Test sequences to play after training; default: all of the task's."""


class Agent(nn.Module):
    """A logit per machine, and a value of the state."""

    def __init__(self, space: gym.spaces.Dict, hidden: int = 64) -> None:
        super().__init__()
        _, resources, history, self.columns = space["grid"].shape
        inputs = resources * history + space["queue"].shape[0] * space["queue"].shape[1] + 1
        self.machine = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.place, self.value = nn.Linear(hidden, 1), nn.Linear(hidden, 1)
        nn.init.zeros_(self.place.weight)

    def encode(self, seen: dict[str, np.ndarray]) -> torch.Tensor:
        """(B, M, inputs): recent use of each machine, the visible queue, and how many workloads wait beyond it."""
        used = torch.from_numpy((seen["grid"] > 0).mean(axis=4, dtype=np.float32)).flatten(2)
        queue = torch.cat(
            [torch.from_numpy(seen["queue"]).flatten(1) / self.columns, torch.from_numpy(seen["backlog"])], 1
        )
        return torch.cat([used, queue[:, None].expand(-1, used.shape[1], -1)], 2)

    def forward(self, encoded: torch.Tensor, mask: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        """The distribution of actions, and the value (B,)."""
        machines = self.machine(encoded)
        return Categorical(logits=self.place(machines)[..., 0].masked_fill(~mask, -1e9)), self.value(machines.mean(1))[
            :, 0
        ]


def main(args: Args) -> None:
    """Train, then compare on the task's test sequences."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = gym.make_vec(
        f"tvwrl/{args.task}", num_envs=args.num_envs, vectorization_mode="vector_entry_point", hold_action=False
    )
    agent = Agent(envs.single_observation_space)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    seen, _ = envs.reset(seed=args.seed)
    over = torch.zeros(args.num_envs)
    iterations = max(1, args.total_timesteps // (args.num_envs * args.num_steps))
    for iteration in range(iterations):
        optimizer.param_groups[0]["lr"] = (1 - iteration / iterations) * args.learning_rate
        steps = []
        with torch.no_grad():
            for _ in range(args.num_steps):
                encoded, mask = agent.encode(seen), torch.from_numpy(envs.unwrapped.action_masks().copy())
                policy, value = agent(encoded, mask)
                action = policy.sample()
                seen, reward, ended, cut, _ = envs.step(action.numpy())
                found = torch.from_numpy(reward).float()
                steps.append([encoded, mask, action, policy.log_prob(action), value, found, over])
                over = torch.from_numpy(ended | cut).float()
            _, following = agent(agent.encode(seen), torch.from_numpy(envs.unwrapped.action_masks().copy()))
        encoded, mask, action, logprob, value, reward, begins = (torch.stack(part) for part in zip(*steps, strict=True))
        advantage, last = torch.zeros_like(reward), torch.zeros(args.num_envs)
        for t in reversed(range(args.num_steps)):
            goes_on = 1 - (over if t == args.num_steps - 1 else begins[t + 1])
            after = following if t == args.num_steps - 1 else value[t + 1]
            last = reward[t] + args.gamma * after * goes_on - value[t] + args.gamma * args.gae_lambda * goes_on * last
            advantage[t] = last
        returns = advantage + value
        # the step after an episode's end only resets the environment: its action does not count
        kept = (begins.flatten() == 0).nonzero()[:, 0]
        batch = [part.flatten(0, 1)[kept] for part in (encoded, mask, action, logprob, advantage, returns)]
        for _ in range(args.update_epochs):
            for rows in torch.randperm(len(kept)).chunk(args.num_minibatches):
                b_encoded, b_mask, b_action, b_logprob, b_advantage, b_returns = (part[rows] for part in batch)
                policy, b_value = agent(b_encoded, b_mask)
                ratio = (policy.log_prob(b_action) - b_logprob).exp()
                scaled = (b_advantage - b_advantage.mean()) / (b_advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                pg_loss = -torch.min(scaled * ratio, scaled * clipped).mean()
                v_loss = 0.5 * (b_value - b_returns).square().mean()
                loss = pg_loss + args.vf_coef * v_loss - args.ent_coef * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
        if iteration % 5 == 0 or iteration == iterations - 1:
            print(f"iteration {iteration + 1}/{iterations}: mean reward per decision {reward.mean():.3f}", flush=True)

    @torch.no_grad()
    def act(observation: dict[str, np.ndarray], mask: np.ndarray) -> int:
        single = {name: np.asarray(part)[None] for name, part in observation.items()}
        policy, _ = agent(agent.encode(single), torch.from_numpy(np.asarray(mask))[None])
        return int(policy.probs.argmax())

    print(tvwrl.compare({"cleanrl-ppo": act}, args.task, args.sequences, observe={"hold_action": False}))


if __name__ == "__main__":
    main(tyro.cli(Args))
