"""Offline learning in one file, in the style of CleanRL, from a Minari dataset: python examples/offline.py

    tvwrl dataset google-0.5-v1 --of random expert --episodes 400 --observe observe_forecast=true

writes the dataset, from which this file learns by implicit Q-learning (IQL; Kostrikov, Nair and Levine, ICLR 2022):
values of actions that are in the data, and a policy that clones those that were better than usual. With
`--temperature 0` it clones all alike: behaviour cloning. A row for each machine goes through the same weights; the rows
are put together from the recorded observations, as `tvwrl.make(task, observation=[...])` does it while it plays.

At the end it plays the task's test sequences beside rules (docs/how-to/learn-offline.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import minari
import numpy as np
import torch
import tyro
from torch import nn

import tvwrl
from tvwrl.envs.observations import Costs, Head, Machines, PerMachine, Progress, Room


@dataclass
class Args:
    """Hyper-parameters."""

    dataset: str = "tvwrl/google-0-5/random-and-expert-v1"
    seed: int = 0
    steps: int = 3000
    """Gradient steps."""
    batch_size: int = 128
    learning_rate: float = 1e-3
    gamma: float = 0.9
    """Discount factor per placement; waiting is not discounted, or it would put all other costs off."""
    expectile: float = 0.7
    """Of the values of actions in the data, the higher the nearer to the best of them."""
    temperature: float = 1.0
    """How much more actions are cloned that were better than usual; 0: behaviour cloning."""
    polyak: float = 0.01
    costs: bool = True
    """Observe what the rule `expected-cost` computes for each machine."""
    sequences: int | None = None
    """Test sequences to play after training; default: all of the task's."""
    out: str | None = None
    """Folder to write the comparison to."""


class Net(nn.Module):
    """A number for each machine and one for waiting, and one for the state: (B, M, F) -> (B, M + 1), (B,)."""

    def __init__(self, inputs: int, hidden: int = 64) -> None:
        super().__init__()
        self.machine = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.place = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.hold, self.state = nn.Linear(hidden, 1), nn.Linear(hidden, 1)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See the class."""
        each = self.machine(rows.clamp(-10, 10))
        pooled = each.mean(1)
        place = self.place(torch.cat([each, pooled[:, None].expand_as(each)], 2))[..., 0]
        return torch.cat([place, self.hold(pooled)], 1), self.state(pooled)[:, 0]


def read(dataset: minari.MinariDataset, view: tvwrl.envs.View, gamma: float) -> dict[str, torch.Tensor]:
    """Transitions of all episodes: rows, mask, action, reward, what the next state's value counts, and its rows."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in ("rows", "mask", "action", "reward", "next", "counts")}
    for episode in dataset:
        known = {name: episode.infos[name] for name in ("machines", "progress")}
        (rows,) = view.batch({**episode.observations, **known}).values()
        holds = episode.actions == dataset.action_space.n - 1
        found["rows"].append(rows[:-1])
        found["next"].append(rows[1:])
        found["mask"].append(episode.infos["action_mask"][:-1])
        found["action"].append(episode.actions)
        found["reward"].append(episode.rewards.astype(np.float32))
        found["counts"].append(np.where(episode.terminations, 0, np.where(holds, 1, gamma)).astype(np.float32))
    return {name: torch.from_numpy(np.concatenate(parts)) for name, parts in found.items()}


def main(args: Args) -> None:
    """Learn, then compare on the task's test sequences."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    dataset = minari.load_dataset(args.dataset)
    options = dict(dataset.env_spec.kwargs)
    task = options.pop("task")
    observe = {name: value for name, value in options.items() if name not in ("sequences", "seed")}
    costs = [Costs()] if args.costs else []
    rows = PerMachine(*costs, Room(), Machines(), Head(), Progress())
    env = tvwrl.make(task, observation=[rows], **options)
    data = read(dataset, env.view, args.gamma)

    inputs = data["rows"].shape[2]
    policy, value = Net(inputs), Net(inputs)
    critics, targets = nn.ModuleList([Net(inputs), Net(inputs)]), nn.ModuleList([Net(inputs), Net(inputs)])
    targets.load_state_dict(critics.state_dict())
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters(), *critics.parameters()], args.learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, args.steps)
    for step in range(args.steps):
        chosen = torch.randint(len(data["action"]), (args.batch_size,))
        batch = {name: of[chosen] for name, of in data.items()}
        action = batch["action"][:, None]

        def of_action(nets: nn.ModuleList, batch=batch, action=action) -> list[torch.Tensor]:
            return [net(batch["rows"])[0].gather(1, action)[:, 0] for net in nets]

        value_loss, critic_loss, weight = torch.zeros(1), torch.zeros(1), torch.ones(1)
        if args.temperature:  # behaviour cloning needs no values
            with torch.no_grad():
                worth = torch.min(*of_action(targets))
                wanted = batch["reward"] + batch["counts"] * value(batch["next"])[1]
            advantage = worth - value(batch["rows"])[1]
            value_loss = ((advantage > 0).float() - (1 - args.expectile)).abs() * advantage.square()
            critic_loss = sum((found - wanted).square() for found in of_action(critics))
            weight = (args.temperature * advantage.detach()).exp().clamp(max=100.0)
        logits = policy(batch["rows"])[0].masked_fill(~batch["mask"], -1e9)
        policy_loss = weight * nn.functional.cross_entropy(logits, batch["action"], reduction="none")
        optimizer.zero_grad()
        (value_loss + critic_loss + policy_loss).mean().backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for old, new in zip(targets.parameters(), critics.parameters(), strict=True):
                old.lerp_(new, args.polyak)
        if (step + 1) % 1000 == 0:
            agree = (logits.argmax(1) == batch["action"]).float().mean()
            losses = f"value {value_loss.mean():.3f}, critic {critic_loss.mean():.3f}, policy {policy_loss.mean():.3f}"
            print(f"{step + 1:,} steps: losses {losses}; {100 * agree:.0f} % of actions agree", flush=True)

    drawn = np.random.default_rng(args.seed)

    @torch.no_grad()
    def act(observation: dict[str, np.ndarray], mask: np.ndarray) -> int:
        logits, _ = policy(torch.from_numpy(observation[rows.name][None]))
        chances = logits.masked_fill(~torch.from_numpy(np.asarray(mask)), -1e9).softmax(1)[0]
        if drawn.random() < chances[-1]:  # the likeliest action would be to wait again, as nothing changes
            return len(chances) - 1
        return int(chances[:-1].argmax())

    against = ["random", "spread", "expected-cost"]
    found = tvwrl.compare({"offline": act}, task, args.sequences, against, observe, False, [rows])
    print(found)
    if args.out is not None:
        found.write(args.out)


if __name__ == "__main__":
    main(tyro.cli(Args))
