"""Policy networks: observation in, one logit per machine out (and one for holding, where that is an action)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tvwrl.types import InputError

Observation = dict[str, Tensor]


class FlatPolicy(nn.Module):
    """The paper's network: all pixels as label / G and the queue, one hidden ReLU layer, one output per action."""

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__()
        machines, resources, history, columns = shapes["grid"]
        places, features = shapes["queue"]
        self.classes, self.columns = shapes["classes"], columns
        inputs = machines * resources * history * columns + places * features + 1
        self.hidden = nn.Linear(inputs, hidden)
        self.output = nn.Linear(hidden, shapes["actions"])

    def forward(self, seen: Observation) -> Tensor:
        """(B, actions) logits."""
        pixels = seen["grid"].flatten(1).float() / self.classes
        queue = _scaled_queue(seen["queue"], self.classes, self.columns).flatten(1)
        inputs = torch.cat([pixels, queue, torch.log1p(seen["backlog"])], dim=1)
        logits: Tensor = self.output(torch.relu(self.hidden(inputs)))
        return logits


class SharedPolicy(nn.Module):
    """One network per machine with shared weights, which also sees a pooled summary of all machines.

    Exchanging two machines exchanges their logits (equivariance), and it runs on any number of machines. Per machine
    it sees the load in every row, its mean, largest and spread over the window, units per class now and over the
    window, and the machine's size; of the queue, the head and the mean of the visible places. All of that is in the
    label grid and queue; nothing else is used.
    """

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__()
        _, resources, history, columns = shapes["grid"]
        self.classes, self.columns, self.resources = shapes["classes"], columns, resources
        self.holds = shapes["actions"] > shapes["grid"][0]
        place = shapes["queue"][1] + self.classes
        machine = resources * (history + 3 + 2 * self.classes + 1)
        self.machine = nn.Linear(machine, hidden)
        self.queue = nn.Linear(2 * place + 1, hidden)
        self.own = nn.Linear(hidden, hidden)
        self.others = nn.Linear(2 * hidden, hidden)
        self.output = nn.Linear(hidden, 1)
        self.hold = nn.Linear(hidden, 1) if self.holds else None
        nn.init.zeros_(self.output.weight)  # a uniform policy to begin with

    def _machines(self, grid: Tensor) -> Tensor:
        """(B, M, F) features of every machine from the label grid (B, M, D, h, C)."""
        columns = grid.shape[-1]
        present = (grid[:, :, :, -1] <= self.classes).sum(-1) / columns  # (B, M, D) size of the machine
        running = (grid > 0) & (grid <= self.classes)
        load = running.sum(-1, dtype=torch.float32) / columns  # (B, M, D, h)
        classes = range(1, self.classes + 1)
        now = torch.stack([(grid[:, :, :, -1] == c).sum(-1) for c in classes], -1) / columns
        window = grid[:, :, :, ::4]  # every fourth row: workloads last far longer
        often = torch.stack([(window == c).sum((-1, -2)) for c in classes], -1) / (columns * window.shape[3])
        summary = torch.stack([load.mean(-1), load.amax(-1), load.std(-1, correction=0)], -1)
        return torch.cat([x.flatten(2) for x in (load, summary, now, often, present)], dim=2)

    def _queue(self, queue: Tensor, backlog: Tensor) -> Tensor:
        """(B, F) features of the waiting workloads: the head, the mean of the visible places, how many more."""
        label = torch.nn.functional.one_hot(queue[..., 0].long(), self.classes + 1)[..., 1:]
        places = torch.cat([_scaled_queue(queue, self.classes, self.columns), label.float()], dim=2)
        return torch.cat([places[:, 0], places.mean(1), torch.log1p(backlog)], dim=1)

    def forward(self, seen: Observation) -> Tensor:
        """(B, actions) logits."""
        queue = self.queue(self._queue(seen["queue"], seen["backlog"]))
        machines = torch.relu(self.machine(self._machines(seen["grid"])) + queue[:, None])
        pooled = self.others(torch.cat([machines.mean(1), machines.amax(1)], dim=1))
        logits: Tensor = self.output(torch.relu(self.own(machines) + pooled[:, None]))[..., 0]
        if self.hold is not None:
            logits = torch.cat([logits, self.hold(torch.relu(pooled))], dim=1)
        return logits


def _scaled_queue(queue: Tensor, classes: int, columns: int) -> Tensor:
    """Queue (B, Q, 1 + 2 D) with labels in 0..1 and requests in shares of a machine; requests may exceed it."""
    resources = (queue.shape[2] - 1) // 2
    label, request, mask = queue[..., :1], queue[..., 1 : 1 + resources], queue[..., 1 + resources :]
    return torch.cat([label / classes, (request / columns).clamp(max=4.0), mask], dim=2)


POLICIES: dict[str, type[nn.Module]] = {"flat": FlatPolicy, "shared": SharedPolicy}


def make_policy(name: str, shapes: dict[str, Any], hidden: int) -> nn.Module:
    """A new policy network; `shapes` has grid (M, D, h, C), queue (Q, F), classes and actions."""
    if name not in POLICIES:
        raise InputError(f"unknown policy '{name}'; valid: {', '.join(POLICIES)}")
    return POLICIES[name](shapes, hidden)
