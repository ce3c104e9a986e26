"""Policy networks: observation in, one logit per action out."""

from __future__ import annotations

import importlib
import math
import os
import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tvwrl.agents.features import (
    Terms,
    about_the_workload,
    cost_feature_count,
    cost_features,
    feature_count,
    forecast_feature_count,
    forecast_features,
    machine_features,
)
from tvwrl.checks import one_of
from tvwrl.types import Float32, InputError, Int

Observation = dict[str, npt.NDArray[Any]]
Encoded = dict[str, Tensor]

FORBIDDEN = -1e9  # a logit; not infinite, so that entropies stay numbers
LOWEST = -1e8  # lowest logit of an allowed action, so that it stays above FORBIDDEN
INITIAL_HOLD_LOGIT = -3.0  # an untrained policy should rarely hold, or its episodes would never end


class Policy(nn.Module, ABC):
    """A policy network in two parts: `encode`, which has no weights and runs once per observation, and `forward`.

    A subclass of your own is made with `(shapes, hidden)` and trained by `tvwrl train --network MODULE:NAME`. It plays
    and learns in evaluation mode, as `eval()` sets it: without dropout, and with fixed statistics of batch norms.

    Examples
    --------
    >>> from torch import nn
    >>> class Linear(Policy):
    ...     def __init__(self, shapes, hidden):
    ...         super().__init__()
    ...         places, features = shapes["queue"]
    ...         self.output = nn.Linear(places * features, shapes["actions"])
    ...
    ...     def forward(self, encoded):
    ...         return self.output(encoded["queue"].flatten(1))
    """

    def encode(self, seen: Observation) -> Encoded:
        """Batched observations as the tensors that `forward` takes, on the CPU; by default copies of them.

        Parameters
        ----------
        seen : dict[str, np.ndarray]
            Name -> (B, ...), as the environment shows them.
        """
        return {name: torch.from_numpy(array.copy()) for name, array in seen.items()}

    @abstractmethod
    def forward(self, encoded: Encoded) -> Tensor:
        """(B, actions) logits.

        Parameters
        ----------
        encoded : dict[str, Tensor]
            What `encode` returned, with `mask` (B, actions), on the policy's device.
        """

    def logits(self, encoded: Encoded) -> Tensor:
        """(B, actions) logits, next to minus infinity where the mask of the encoding forbids the action.

        Parameters
        ----------
        encoded : dict[str, Tensor]
            As for `forward`.
        """
        logits: Tensor = self(encoded)
        if logits.shape != encoded["mask"].shape:
            found, wanted = tuple(logits.shape), tuple(encoded["mask"].shape)
            raise InputError(f"network {type(self).__name__} returns logits {found}: must be {wanted}, (B, actions)")
        return logits.clamp(min=LOWEST).masked_fill(~encoded["mask"], FORBIDDEN)


class GridPolicy(Policy):
    """A policy that sees the label grid and chooses a machine."""

    def __init__(self, shapes: dict[str, Any]) -> None:
        super().__init__()
        self.classes: int = shapes["classes"]
        _, self.resources, self.history, self.columns = shapes["grid"]
        self.shows: dict[str, int] = shapes["shows"]
        self.peak_units, self.whole = float(shapes["peak_units"]), bool(shapes["whole"])

    def scaled_queue(self, queue: Tensor) -> Tensor:
        """Queue (B, Q, F) with labels in 0..1, requests, which are unbounded, on a logarithmic scale and demand as a
        share of the largest capacity; forecasts are unchanged.
        """
        request, demand = self.shows["request"] // 2, self.shows["demand"]
        widths = [1, request, request, demand, self.shows["forecast"]]
        label, requested, mask, now, forecast = torch.split(queue, widths, dim=2)
        requested = torch.log1p(requested) / math.log1p(self.columns)
        return torch.cat([label / self.classes, requested, mask, now / self.columns, forecast], dim=2)


class FlatPolicy(GridPolicy):
    """The paper's network: all pixels as label / G and the queue, one hidden ReLU layer, one output per action.

    Parameters
    ----------
    shapes : dict
        Of the observation: grid, queue, classes, actions and more (`tvwrl.agents.observing.shapes_of`).
    hidden : int
        Units of the hidden layer.

    Examples
    --------
    >>> class Deeper(FlatPolicy):  # for --algo sb3-ppo, whose value network then is a FlatPolicy too
    ...     pass
    """

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__(shapes)
        machines, resources, history, columns = shapes["grid"]
        places, features = shapes["queue"]
        inputs = machines * (resources * history * columns + shapes["shows"]["forecast"]) + places * features + 1
        self.hidden = nn.Linear(inputs, hidden)
        self.output = nn.Linear(hidden, shapes["actions"])

    def forward(self, encoded: Encoded) -> Tensor:
        """(B, actions) logits."""
        pixels = encoded["grid"].flatten(1).float() / self.classes
        queue = self.scaled_queue(encoded["queue"]).flatten(1)
        parts = [pixels, queue, torch.log1p(encoded["backlog"])]
        if "forecast" in encoded:
            parts.append(encoded["forecast"].flatten(1))
        inputs = torch.cat(parts, dim=1)
        logits: Tensor = self.output(torch.relu(self.hidden(inputs)))
        return logits


class SharedTrunk(nn.Module):
    """Hidden features of every machine and of the cluster; equivariant to exchanging machines."""

    def __init__(self, machine: int, queue: int, hidden: int) -> None:
        super().__init__()
        self.machine = nn.Linear(machine, hidden)
        self.queue = nn.Linear(queue, hidden)
        self.own = nn.Linear(hidden, hidden)
        self.others = nn.Linear(2 * hidden, hidden)

    def forward(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """(B, M, hidden) of `machines` (B, M, F) and `queue` (B, F), and (B, hidden)."""
        return self.mix(self.machine(encoded["machines"]).add_(self.queue(encoded["queue"])[:, None]))

    def mix(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """(n, M, hidden) and (n, hidden) of the first layer's sums (n, M, hidden), which are overwritten."""
        machines = seen.relu_()  # in place, as new memory for a thousand machines takes longer than the sums
        pooled = self.others(torch.cat([machines.mean(1), machines.amax(1)], dim=1))
        return self.own(machines).add_(pooled[:, None]).relu_(), torch.relu(pooled)


class SharedPolicy(GridPolicy):
    """One network per machine with shared weights, which also sees a pooled summary of all machines.

    Exchanging two machines exchanges their logits (equivariance), and it works for any number of machines. Its inputs
    are, per machine, `machine_features` and, with forecasts, `forecast_features`; of the queue, the head and the mean
    of the visible places. Untrained, all machines are equally likely. If `shapes` has the `weights` (4, D) of the
    penalties, the untrained policy places about as the `rule` of `shapes` does, by default expected-cost (the `prior`),
    and the costs (`cost_features`) are inputs as well.

    Parameters
    ----------
    shapes : dict
        Of the observation: grid, queue, classes, actions and more (`tvwrl.agents.observing.shapes_of`).
    hidden : int
        Units of each hidden layer.

    Examples
    --------
    >>> class Mine(SharedPolicy):  # a network for --algo ppo
    ...     def forward(self, encoded):
    ...         machines, cluster = self.trunk(encoded)
    ...         return super().forward(encoded)
    """

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__(shapes)
        self.rule: str = shapes.get("rule", "expected-cost") if "weights" in shapes else ""
        self.terms = Terms(np.array(shapes["weights"]), self.peak_units, self.whole) if self.rule else None
        self.trunk = self.make_trunk(shapes["queue"][1] + self.classes, hidden)
        self.output = nn.Linear(hidden, 1)
        nn.init.zeros_(self.output.weight)  # start with equal logits
        nn.init.zeros_(self.output.bias)
        placements = shapes["grid"][0] * shapes.get("places", 1)
        self.hold = nn.Linear(hidden, 1) if shapes["actions"] > placements else None
        if self.hold is not None:
            nn.init.zeros_(self.hold.weight)
            nn.init.constant_(self.hold.bias, INITIAL_HOLD_LOGIT if self.terms is None else 0.0)

    @property
    def cost_inputs(self) -> int:
        """Number of `cost_features`."""
        return cost_feature_count(self.rule) if self.rule else 0

    def make_trunk(self, place: int, hidden: int) -> SharedTrunk:
        """The layers before the logits.

        Parameters
        ----------
        place : int
            Features of a place of the queue.
        hidden : int
            Units of each layer.
        """
        inputs = feature_count(self.resources, self.history, self.classes)
        if self.shows["forecast"]:
            inputs += forecast_feature_count(self.resources) + self.cost_inputs
        if self.shows["demand"]:
            inputs += self.resources
        return SharedTrunk(inputs, 2 * place + 1, hidden)

    def queue_features(self, seen: Observation) -> tuple[Tensor, Tensor]:
        """(B, Q, F) of the places of the queue, and (B, 1) of what waits beyond them.

        Parameters
        ----------
        seen : dict[str, np.ndarray]
            As for `encode`.
        """
        queue = torch.from_numpy(seen["queue"])
        label = queue[..., :1] == torch.arange(1, self.classes + 1)  # faster than one_hot, which checks the range
        places = torch.cat([self.scaled_queue(queue), label.float()], dim=2)
        return places, torch.log1p(torch.from_numpy(seen["backlog"]))

    def encode(self, seen: Observation) -> Encoded:
        """`machines` (B, M, F), with room for the head of the queue and forecasts if observed, and `queue` (B, F); with
        weights `prior` (B, actions)."""
        places, beyond = self.queue_features(seen)
        encoded = {"queue": torch.cat([places[:, 0], places.mean(1), beyond], dim=1)}
        grid = machine_features(seen["grid"], self.classes)
        size, now = self.size_and_use(grid)
        parts, prior = self.given(seen["queue"][:, 0], size, now, seen.get("forecast"), self.hold is not None)
        if prior is not None:
            encoded["prior"] = torch.from_numpy(prior)
        encoded["machines"] = torch.from_numpy(np.concatenate([grid, *parts], axis=2, dtype=np.float32))
        return encoded

    def size_and_use(self, grid: Float32) -> tuple[Float32, Float32]:
        """(B, M, D) each: capacities and load in this slot, as shares of the columns.

        Parameters
        ----------
        grid : np.ndarray
            (B, M, F) `machine_features`.
        """
        width, newest, size = self.history + 4 + 2 * self.classes, self.history - 1, self.history + 3
        capacity, now = (grid[:, :, column::width][:, :, : self.resources] for column in (size, newest))
        return capacity, now

    def given(
        self,
        waiting: Float32,
        size: Float32,
        now: Float32,
        forecast: Float32 | None,
        hold: bool,
        kept: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[list[Float32], Float32 | None]:
        """What machines are to a waiting workload: parts (n, M, F), and with weights its prior.

        Parameters
        ----------
        waiting : np.ndarray
            (n, F) rows of the queue.
        size, now : np.ndarray
            (n, M, D) see `size_and_use`.
        forecast : np.ndarray, optional
            (n, M, K) None if not observed.
        hold : bool
            Whether the prior, (n, M) or (n, M + 1), has a logit for holding.
        kept : np.ndarray, optional
            Which `forecast_features` to return; default: all.
        """
        left, parts, prior = size, [], None
        if self.shows["demand"]:
            demand = waiting[:, 1 + self.shows["request"] :][:, None, : self.resources]
            left = size - now - demand / self.columns
            parts.append(left)
        if forecast is not None:
            capacity = size * (self.columns / self.peak_units)
            own = np.ascontiguousarray(waiting[:, -self.shows["forecast"] :])
            parts.append(forecast_features(forecast, own, capacity, kept))
            if self.terms is not None:
                weighed, prior = cost_features(self.rule, forecast, own, capacity, left, self.terms, hold)
                parts.append(weighed)
        return parts, prior

    def forward(self, encoded: Encoded) -> Tensor:
        """(B, actions) logits."""
        machines, cluster = self.trunk(encoded)
        logits: Tensor = self.output(machines)[..., 0]
        if self.hold is not None:
            logits = torch.cat([logits, self.hold(cluster)], dim=1)
        return logits + encoded["prior"] if "prior" in encoded else logits


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
        waits, pairs = waiting(encoded), None
        if self.pair is not None:
            pairs = encoded["pairs"].flatten(0, 1)
            pairs = pairs if waits.all() else pairs.index_select(0, waits.flatten().nonzero()[:, 0])
        places, states = encoded["places"][waits], waits.nonzero()[:, 0]
        return self.of_pairs(encoded["machines"], encoded["queue"], places, states, pairs)

    def of_pairs(
        self, machines: Tensor, queue: Tensor, places: Tensor, states: Tensor, pairs: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """See `forward`: `places` (n, F), `pairs` (n, M, F) and `states` (n,) are of the n workloads alone."""
        clusters = self.machine(machines).add_(self.queue(queue)[:, None])
        seen = clusters.index_select(0, states).add_(self.place(places)[:, None])
        if self.pair is not None:
            seen.add_(self.pair(pairs))
        return self.mix(seen)


class PairPolicy(SharedPolicy):
    """Scores every pair of a waiting workload and a machine with the same network.

    Exchanging two machines, or two workloads with their places, exchanges their logits. Inputs are, per machine, what
    `SharedPolicy` has of it without the workload; per place, its features and how far back it is; per pair, the room
    left, forecasts and costs with this workload; of the queue, the mean of the visible places. Holding is judged by the
    mean of what the waiting workloads find. With `weights`, the untrained policy goes through the queue from its head
    and places, about as its rule does, the first workload that it would not rather hold.

    Parameters
    ----------
    shapes : dict
        Of the observation: grid, queue, classes, actions, places and more (`tvwrl.agents.observing.shapes_of`).
    hidden : int
        Units of each hidden layer.

    Examples
    --------
    >>> class Mine(PairPolicy):  # a network for --algo ppo and counterfactual, which choose from the queue
    ...     pass
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
        found["machines"] = np.concatenate(machines, axis=2, dtype=np.float32)
        return encoded | {name: torch.from_numpy(part) for name, part in found.items()}

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


def in_turn(logits: Float32, where: tuple[Int, ...], shape: tuple[int, ...]) -> Float32:
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


class DeepRMPolicy(Policy):
    """DeepRM, which chooses a workload: one hidden ReLU layer over the observation (Mao et al. 2016: 20 neurons)."""

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__()
        (slots, resources), (places, features) = shapes["cluster"], shapes["queue"]
        self.hidden = nn.Linear(slots * resources + places * features + 1, hidden)
        self.output = nn.Linear(hidden, shapes["actions"])
        nn.init.zeros_(self.output.weight)  # start with a uniform policy
        nn.init.zeros_(self.output.bias)

    def forward(self, encoded: Encoded) -> Tensor:
        """(B, Q + 1) logits."""
        parts = [encoded["cluster"].flatten(1), encoded["queue"].flatten(1), torch.log1p(encoded["backlog"])]
        logits: Tensor = self.output(torch.relu(self.hidden(torch.cat(parts, dim=1))))
        return logits


POLICIES: dict[str, type[FlatPolicy] | type[SharedPolicy] | type[DeepRMPolicy]] = {
    "flat": FlatPolicy,
    "shared": SharedPolicy,
    "deeprm": DeepRMPolicy,
}


ALLOWED = "TVWRL_NETWORKS"  # environment variable: networks of other packages that checkpoints may name


def allow_network(path: str) -> None:
    """Let this process and those that it begins import a network, because its user named it. Raises InputError where
    there is none."""
    if path:
        os.environ[ALLOWED] = ",".join(filter(None, [os.environ.get(ALLOWED, ""), path]))
        if os.getcwd() not in sys.path:  # where a user's own modules are, which an installed command does not look into
            sys.path.append(os.getcwd())
        network_class(path)


def check_network(path: str) -> None:
    """Raise InputError for a network that may not be imported, or is not there; none is fine."""
    if path:
        network_class(path)


def network_class(path: str) -> type[Policy]:
    """The class at MODULE:NAME. Its module is imported only if the user named the network, in this process or in
    `ALLOWED`, or has imported the module: a checkpoint must not say which code runs.

    Raises InputError where it may not be imported, or is not there, or no policy network.
    """
    module, _, name = path.partition(":")
    allowed = path in os.environ.get(ALLOWED, "").split(",")
    if not allowed and module not in sys.modules:
        raise InputError(
            f"network {path} is code outside this package: if you trust it, set the environment variable {ALLOWED}="
            f"{path} (with its folder in PYTHONPATH)"
        )
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise InputError(f"network {path}: {error}; its folder must be the current one or in PYTHONPATH") from error
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise InputError(f"network {path}: {name or 'it'} must be a subclass of tvwrl.agents.Policy")
    return found


def make_policy(name: str, shapes: dict[str, Any], hidden: int, network: str = "") -> Policy:
    """A new policy network; `shapes`: see `tvwrl.agents.observing.shapes_of`; `network`: MODULE:NAME of another class,
    which is called with the same."""
    one_of(POLICIES, policy=name)
    if network:
        return network_class(network)(shapes, hidden)
    if name == "shared" and shapes.get("places", 1) > 1:
        return PairPolicy(shapes, hidden)
    return POLICIES[name](shapes, hidden)


def check_device(device: str) -> None:
    """Raise InputError unless networks can run on `device`: cpu, cuda or cuda:N."""
    try:
        parsed = torch.device(device)
    except RuntimeError:
        raise InputError(f"unknown device '{device}'; valid: cpu, cuda, cuda:N") from None
    if parsed.type not in ("cpu", "cuda"):
        raise InputError(f"unknown device '{device}'; valid: cpu, cuda, cuda:N")
    count = torch.cuda.device_count()
    if parsed.type == "cuda" and (parsed.index or 0) >= count:
        raise InputError(f"device '{device}' is not available: this torch sees {count} CUDA devices; use device cpu")
