"""The `shared` policy where it also chooses which of the waiting workloads to place: one logit per pair."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from tvwrl.agents.features import (
    Single,
    about_the_workload,
    feature_count,
    forecast_features,
    machine_features,
)
from tvwrl.agents.networks import Encoded, Observation, SharedPolicy, SharedTrunk
from tvwrl.types import Int


class PairTrunk(SharedTrunk):
    """Hidden features of every machine for every waiting workload; equivariant to exchanging machines, and places.

    What does not depend on the workload is computed once per state, and nothing is computed for empty places.
    """

    def __init__(self, machine: int, queue: int, place: int, pair: int, hidden: int) -> None:
        super().__init__(machine, queue, hidden)
        self.place = nn.Linear(place, hidden, bias=False)
        self.pair = nn.Linear(pair, hidden, bias=False) if pair else None

    def forward(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """(n, M, hidden) and (n, hidden) for the n workloads that wait, in the order of states and places."""
        waits = waiting(encoded)
        states = self.machine(encoded["machines"]).add_(self.queue(encoded["queue"])[:, None])
        seen = states.index_select(0, waits.nonzero()[:, 0]).add_(self.place(encoded["places"][waits])[:, None])
        if self.pair is not None:
            pairs = encoded["pairs"].flatten(0, 1)
            seen.add_(self.pair(pairs if waits.all() else pairs.index_select(0, waits.flatten().nonzero()[:, 0])))
        return self.mix(seen)


class PairPolicy(SharedPolicy):
    """Scores every pair of a waiting workload and a machine with the same network.

    Exchanging two machines, or two workloads with their places, exchanges their logits. Inputs are, per machine, what
    `SharedPolicy` has of it without the workload; per place, its features and how far back it is; per pair, the room
    left, forecasts and costs with this workload; of the queue, the mean of the visible places. Holding is judged by the
    mean of what the waiting workloads find. With `weights`, the untrained policy goes through the queue from its head
    and places, about as its rule does, the first workload that it would not rather hold.
    """

    def make_trunk(self, place: int, hidden: int) -> PairTrunk:
        """See `SharedPolicy.make_trunk`."""
        machine, pair = feature_count(self.resources, self.history, self.classes), 0
        if self.shows["forecast"]:
            own = about_the_workload(self.resources)
            machine += int((~own).sum())
            pair += int(own.sum()) + self.cost_inputs
        if self.shows["demand"]:
            pair += self.resources
        place += 1  # how far back it is
        return PairTrunk(machine, place + 1, place, pair, hidden)

    def encode(self, seen: Observation) -> Encoded:
        """`machines` (B, M, F), `places` (B, Q, F), `queue` (B, F); `pairs` (B, Q, M, F) if anything of them is
        observed; with weights `prior` (B, actions).
        """
        places, beyond = self.queue_features(seen)
        back = torch.arange(places.shape[1]) / places.shape[1] * (places[..., 0] > 0)
        places = torch.cat([places, back[..., None]], dim=2)
        encoded = {"places": places, "queue": torch.cat([places.mean(1), beyond], dim=1)}
        return encoded | {name: torch.from_numpy(part) for name, part in self._pairs(seen).items()}

    def _pairs(self, seen: Observation) -> dict[str, Single]:
        """`machines`, and perhaps `pairs` and `prior`."""
        grid, forecast = machine_features(seen["grid"], self.classes), seen.get("forecast")
        size, now = self.size_and_use(grid)
        where = np.nonzero(seen["queue"][..., 0])
        states, own, machines, found = where[0], about_the_workload(self.resources), [grid], {}
        expected = None if forecast is None else forecast[states]
        parts, prior = self.given(seen["queue"][where], size[states], now[states], expected, True, own)
        if forecast is not None:
            nothing = np.zeros((len(forecast), forecast.shape[2]), np.float32)
            capacity = size * (self.columns / self.peak_units)
            machines.append(forecast_features(forecast, nothing, capacity, ~own))
        if parts:
            rows = np.concatenate(parts, axis=2, dtype=np.float32)
            shape = (*seen["queue"].shape[:2], *rows.shape[1:])
            full = rows.size == math.prod(shape)
            found["pairs"] = rows.reshape(shape) if full else np.zeros(shape, np.float32)
            if not full:
                found["pairs"][where] = rows
        if prior is not None:
            found["prior"] = in_turn(prior, where, seen["queue"].shape[:2])[:, : None if self.hold is not None else -1]
        return found | {"machines": np.concatenate(machines, axis=2, dtype=np.float32)}

    def forward(self, encoded: Encoded) -> Tensor:
        """(B, actions) logits; those of empty places mean nothing."""
        waits = waiting(encoded)
        machines, cluster = self.trunk(encoded)
        pairs = machines.new_zeros((*waits.shape, machines.shape[1]))
        pairs[waits] = self.output(machines)[..., 0]
        logits: Tensor = pairs.flatten(1)
        if self.hold is not None:
            sums = cluster.new_zeros((len(waits), cluster.shape[1])).index_add(0, waits.nonzero()[:, 0], cluster)
            mean = sums / waits.sum(dim=1, keepdim=True).clamp(min=1)
            logits = torch.cat([logits, self.hold(mean)], dim=1)
        return logits + encoded["prior"] if "prior" in encoded else logits


def waiting(encoded: Encoded) -> Tensor:
    """(B, Q) bool: where a workload waits; the first feature of a place is its class, and 0 where none does."""
    return encoded["places"][..., 0] > 0


def in_turn(logits: Single, where: tuple[Int, ...], shape: tuple[int, ...]) -> Single:
    """(B, Q * M + 1) log-chances if workloads are asked in the order of the queue, until one is placed.

    `logits`: (n, M + 1) of each workload, the last to hold it
    `where`: its states and places, (n,) each
    `shape`: B and Q
    """
    chances = np.zeros((*shape, logits.shape[1]), np.float32)  # where nothing waits, the next is asked for sure
    top = logits.max(axis=1, keepdims=True)
    chances[where] = logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True))
    passed = chances[..., -1].cumsum(axis=1)
    pairs = chances[..., :-1] + (passed - chances[..., -1])[..., None]
    flat = pairs.reshape(len(pairs), pairs.shape[1] * pairs.shape[2])  # there may be no state
    return np.concatenate([flat, passed[:, -1:]], axis=1, dtype=np.float32)
