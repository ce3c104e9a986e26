"""PPO in one file, in the style of CleanRL, that starts from a rule: python examples/ppo.py

Four things make an agent good here, and this file shows each of them:
1. It observes what forecasts promise, a row for each machine (`PerMachine`), and scores all with the same weights.
2. It starts from a rule: its logits are those of `expected-cost`, read off `Costs` and `Room`, plus what it has learnt,
   which begins at 0: before it has learnt anything, its most likely action is that of the rule.
3. It may wait, and only placements are discounted. If waiting were discounted too, it would put all other costs off,
   and the agent would learn never to place anything.
4. It looks about 20 placements ahead (`gamma`); further ahead, noise hides the effect of a decision.
Each can be switched off to see what it brings, as in `--no-rule --hold discounted` (benchmarks/insights.py does so).

It stops after `minutes` of one core, then plays the task's test sequences beside the rule (docs/tutorials).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import tyro
from torch import nn
from torch.distributions import Categorical

import tvwrl
from tvwrl.envs.observations import Costs, Forecasts, Head, Machines, PerMachine, Progress, Room

ROWS = PerMachine(Costs(), Room(), Machines(), Forecasts(), Head(), Progress())  # the rule reads three columns
WITHOUT_FORECASTS = PerMachine(Room(), Machines(), Head(), Progress())


@dataclass
class Args:
    """Hyper-parameters."""

    task: str = "google-0.5-v1"
    seed: int = 0
    minutes: float = 5.0
    """Time of one core to train for."""
    num_envs: int = 64
    num_steps: int = 64
    learning_rate: float = 3e-4
    gamma: float = 0.95
    gae_lambda: float = 0.9
    num_minibatches: int = 8
    update_epochs: int = 3
    clip_coef: float = 0.1
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    sharpness: float = 3.0
    """Logits by which a machine is less likely that costs a unit of reward more, before learning."""
    patience: float = 4.0
    """Expected overshoot, in units of reward, above which the rule waits (500 slots of waiting)."""
    hold: Literal["free", "discounted", "none"] = "free"
    """Whether it may wait, and whether a slot of waiting is discounted as a placement is."""
    room_mask: bool = True
    """Whether machines that have no room now are forbidden while others have."""
    shared: bool = True
    """Whether one network scores each machine; otherwise one network sees the rows of all machines side by side."""
    forecasts: bool = True
    """Whether it observes forecasts, and the costs that follow from them; without, there is no rule."""
    rule: bool = True
    """Whether it starts from a rule."""
    sequences: int | None = None
    """Test sequences to play after training; default: all of the task's."""
    out: str | None = None
    """Folder to write the comparison to."""


class Agent(nn.Module):
    """A logit for each machine and one for waiting, and a value of the state."""

    def __init__(self, machines: int, inputs: int, args: Args, hidden: int = 64) -> None:
        super().__init__()
        self.sharpness, self.patience, self.shared = args.sharpness, args.patience, args.shared
        self.has_rule = args.rule and args.forecasts
        seen = inputs if self.shared else machines * inputs
        self.body = nn.Sequential(nn.Linear(seen, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.place = nn.Linear(2 * hidden, 1) if self.shared else nn.Linear(hidden, machines)
        self.hold, self.value = nn.Linear(hidden, 1), nn.Linear(hidden, 1)
        for layer in (self.place, self.hold):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def rule(self, rows: torch.Tensor) -> torch.Tensor:
        """(B, M + 1) logits whose largest is what `expected-cost` does."""
        danger, unused, room = rows[..., 0], rows[..., 1], rows[..., 2] > 0
        cost = (danger + unused).masked_fill(~room, 1e6)
        best = cost.argmin(1, keepdim=True)
        logits = (-self.sharpness * (cost - cost.gather(1, best))).clamp(min=-8)
        waits = (self.sharpness * (danger.gather(1, best) - self.patience)).clamp(-8, 8)
        waits = torch.where(room.any(1, keepdim=True), waits, torch.full_like(waits, 8))
        return torch.cat([logits, logits.logsumexp(1, keepdim=True) + waits], 1)

    def forward(self, rows: torch.Tensor, mask: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        """The distribution of actions, and the value (B,)."""
        if self.shared:
            each = self.body(rows.clamp(-10, 10))
            pooled = each.mean(1)
            learnt = self.place(torch.cat([each, pooled[:, None].expand_as(each)], 2))[..., 0]
        else:
            pooled = self.body(rows.clamp(-10, 10).flatten(1))
            learnt = self.place(pooled)
        logits = torch.cat([learnt, self.hold(pooled)], 1)
        logits = (logits + self.rule(rows) if self.has_rule else logits)[:, : mask.shape[1]]
        return Categorical(logits=logits.masked_fill(~mask, -1e9)), self.value(pooled)[:, 0]


def train(args: Args) -> tuple[Agent, PerMachine, dict[str, object]]:
    """A trained agent, what it observes, and the options of its environment."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    observed = ROWS if args.forecasts else WITHOUT_FORECASTS
    options = {"hold_action": args.hold != "none"} | ({} if args.room_mask else {"mask": "any"})
    envs = tvwrl.make_vec(args.task, args.num_envs, observation=[observed], **options)
    machines, inputs = envs.single_observation_space[observed.name].shape
    agent = Agent(machines, inputs, args)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    def look(observation: dict[str, np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.from_numpy(observation[observed.name].copy()), torch.from_numpy(envs.action_masks().copy())

    rows, mask = look(envs.reset(seed=args.seed)[0])
    over, iteration, begun = torch.zeros(args.num_envs), 0, time.process_time()
    while (used := (time.process_time() - begun) / 60 / args.minutes) < 1:
        optimizer.param_groups[0]["lr"] = (1 - used) * args.learning_rate
        steps = []
        with torch.no_grad():
            for _ in range(args.num_steps):
                policy, value = agent(rows, mask)
                action = policy.sample()
                seen, reward, ended, cut, _ = envs.step(action.numpy())
                found = torch.from_numpy(reward).float()
                steps.append([rows, mask, action, policy.log_prob(action), value, found, over])
                over = torch.from_numpy(ended | cut).float()
                rows, mask = look(seen)
            _, following = agent(rows, mask)
        b_rows, b_mask, action, logprob, value, reward, begins = (
            torch.stack(part) for part in zip(*steps, strict=True)
        )
        advantage, last = torch.zeros_like(reward), torch.zeros(args.num_envs)
        placed = action < machines
        discount = torch.where(placed | (args.hold == "discounted"), args.gamma, 1.0)
        for t in reversed(range(args.num_steps)):
            goes_on = 1 - (over if t == args.num_steps - 1 else begins[t + 1])
            after = following if t == args.num_steps - 1 else value[t + 1]
            worth = reward[t] + discount[t] * after * goes_on
            last = worth - value[t] + discount[t] * args.gae_lambda * goes_on * last
            advantage[t] = last
        # the step after an episode's end only resets the environment: its action does not count
        kept = (begins.flatten() == 0).nonzero()[:, 0]
        batch = [part.flatten(0, 1)[kept] for part in (b_rows, b_mask, action, logprob, advantage, advantage + value)]
        divergence = []
        for _ in range(args.update_epochs):
            for chosen in torch.randperm(len(kept)).chunk(args.num_minibatches):
                m_rows, m_mask, m_action, m_logprob, m_advantage, m_returns = (part[chosen] for part in batch)
                policy, m_value = agent(m_rows, m_mask)
                change = policy.log_prob(m_action) - m_logprob
                ratio = change.exp()
                scaled = (m_advantage - m_advantage.mean()) / (m_advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                pg_loss = -torch.min(scaled * ratio, scaled * clipped).mean()
                v_loss = 0.5 * (m_value - m_returns).square().mean()
                loss = pg_loss + args.vf_coef * v_loss - args.ent_coef * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
                divergence.append((ratio.detach() - 1 - change.detach()).mean())
        iteration += 1
        if iteration % 20 == 0:
            paid = reward.sum() / placed.sum()
            told = f"reward per placement {paid:.3f}, divergence {torch.stack(divergence).mean():.4f}"
            print(f"{iteration * args.num_envs * args.num_steps:,} decisions, {100 * used:.0f} %: {told}", flush=True)
    return agent, observed, options


def main(args: Args) -> None:
    """Train, then compare on the task's test sequences."""
    agent, observed, options = train(args)

    @torch.no_grad()
    def act(observation: dict[str, np.ndarray], mask: np.ndarray) -> int:
        policy, _ = agent(torch.from_numpy(observation[observed.name][None]), torch.from_numpy(np.asarray(mask))[None])
        return int(policy.probs.argmax())

    against = ["random", "spread", "expected-cost", "best-fit-peak", "clairvoyant"]
    found = tvwrl.compare({"ppo": act}, args.task, args.sequences, against, options, observation=[observed])
    print(found)
    if args.out is not None:
        found.write(args.out)


if __name__ == "__main__":
    main(tyro.cli(Args))
