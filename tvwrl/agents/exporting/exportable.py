"""Policies as modules of PyTorch operations alone, from observations to logits: what `tvwrl export` writes.

A policy's own `encode` runs kernels, which cannot be exported. Sizes of the batch, of the cluster (except in `flat`)
and of the queue's filled places are taken from the input, so that one file serves any of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from tvwrl.agents.exporting.exportable_costs import CostFeatures
from tvwrl.agents.exporting.exportable_features import (
    Columns,
    MachineFeatures,
    features_of_machines,
    features_of_workload,
    forecast_features,
)
from tvwrl.agents.networks import FORBIDDEN, LOWEST, FlatPolicy, Policy, SharedPolicy
from tvwrl.agents.pair_policy import PairPolicy, PairTrunk
from tvwrl.types import InputError


class Exportable(nn.Module, ABC):
    """Logits (B, actions) from observations as the environment gives them, and a mask; one tensor for each.

    `grid` (B, M, D, h, C) uint8, `queue` (B, Q, F) float32, `backlog` (B, 1) float32, `mask` (B, actions) bool, and if
    forecasts are observed `forecast` (B, M, K) float32. Where the mask is False, the logit is `FORBIDDEN`.
    """

    def forward(
        self, grid: Tensor, queue: Tensor, backlog: Tensor, mask: Tensor, forecast: Tensor | None = None
    ) -> Tensor:
        """See the class."""
        logits = self.logits(grid, queue, backlog, forecast).clamp(min=LOWEST)
        return torch.where(mask, logits, torch.full_like(logits, FORBIDDEN))

    @abstractmethod
    def logits(self, grid: Tensor, queue: Tensor, backlog: Tensor, forecast: Tensor | None) -> Tensor:
        """(B, actions) logits of a subclass's policy, for all actions."""


class ExportableFlat(Exportable):
    """`FlatPolicy`, which works on tensors already."""

    def __init__(self, policy: FlatPolicy) -> None:
        super().__init__()
        self.policy = policy

    def logits(self, grid: Tensor, queue: Tensor, backlog: Tensor, forecast: Tensor | None) -> Tensor:
        """See `Exportable.logits`."""
        given = {"grid": grid, "queue": queue, "backlog": backlog}
        logits: Tensor = self.policy(given if forecast is None else given | {"forecast": forecast})
        return logits


class ExportableShared(Exportable):
    """`SharedPolicy`."""

    labels: Tensor

    def __init__(self, policy: SharedPolicy) -> None:
        super().__init__()
        self.policy = policy
        self.machine_features = MachineFeatures(policy.classes, policy.history, policy.columns)
        self.costs = CostFeatures(policy.rule, policy.terms) if policy.terms is not None else None
        self.register_buffer("labels", torch.arange(1, policy.classes + 1))

    def logits(self, grid: Tensor, queue: Tensor, backlog: Tensor, forecast: Tensor | None) -> Tensor:
        """See `Exportable.logits`."""
        places, beyond = self.places(queue), torch.log1p(backlog)
        machines, size, now = self.machine_features(grid)
        hold = self.policy.hold is not None
        load = None if forecast is None else Columns(forecast.transpose(1, 2), self.policy.resources)
        parts, prior = self.given(queue[:, 0], size, now, load, self.before(load, size), hold, whole=True)
        encoded = {
            "machines": torch.cat([machines, *parts], dim=2),
            "queue": torch.cat([places[:, 0], places.mean(1), beyond], dim=1),
        }
        logits: Tensor = self.policy(encoded if prior is None else encoded | {"prior": prior})
        return logits

    def places(self, queue: Tensor) -> Tensor:
        """(B, Q, F) features of the places of the queue; see `SharedPolicy.queue_features`."""
        label = (queue[..., :1] == self.labels).float()
        return torch.cat([self.policy.scaled_queue(queue), label], dim=2)

    def before(self, load: Columns | None, size: Tensor) -> tuple[Tensor, ...]:
        """See `CostFeatures.before`; nothing where costs are not observed."""
        if load is None or self.costs is None:
            return ()
        return self.costs.before(load, size * (self.policy.columns / self.policy.peak_units))

    def given(
        self,
        waiting: Tensor,
        size: Tensor,
        now: Tensor,
        load: Columns | None,
        before: tuple[Tensor, ...],
        hold: bool,
        whole: bool,
    ) -> tuple[list[Tensor], Tensor | None]:
        """See `SharedPolicy.given`; `whole`: all of the forecast's features, or those `about_the_workload`."""
        policy, left, parts, prior = self.policy, size, [], None
        if policy.shows["demand"]:
            demand = waiting[:, 1 + policy.shows["request"] :][:, : policy.resources, None]
            left = size - now - demand / policy.columns
            parts.append(left.transpose(1, 2))
        if load is not None:
            capacity = size * (policy.columns / policy.peak_units)
            own = Columns(waiting[:, -policy.shows["forecast"] :][..., None], policy.resources)
            parts.append((forecast_features if whole else features_of_workload)(load, own, capacity))
            if self.costs is not None:
                weighed, prior = self.costs(load, own, capacity, left, before, hold)
                parts.append(weighed)
        return parts, prior


class ExportablePairs(ExportableShared):
    """`PairPolicy`: everything about a workload is computed for the places where one waits, and for no others."""

    policy: PairPolicy

    def logits(self, grid: Tensor, queue: Tensor, backlog: Tensor, forecast: Tensor | None) -> Tensor:
        """See `Exportable.logits`."""
        places, (clusters, count) = self.places(queue), queue.shape[:2]
        back = torch.arange(count, device=queue.device) / count * (places[..., 0] > 0)
        places = torch.cat([places, back[..., None]], dim=2)
        row = (queue[..., 0] != 0).flatten().nonzero()[:, 0]
        state = row // count
        machines, size, now = self.machine_features(grid)
        expected = None if forecast is None else forecast.transpose(1, 2).index_select(0, state)
        load = None if forecast is None else Columns(forecast.transpose(1, 2), self.policy.resources)
        parts, prior = self.given(
            queue.flatten(0, 1).index_select(0, row),
            size.index_select(0, state),
            now.index_select(0, state),
            None if expected is None else Columns(expected, self.policy.resources),
            tuple(part.index_select(0, state) for part in self.before(load, size)),
            hold=True,
            whole=False,
        )
        if load is not None:
            capacity = size * (self.policy.columns / self.policy.peak_units)
            machines = torch.cat([machines, features_of_machines(load, capacity)], dim=2)
        about = torch.cat([places.mean(1), torch.log1p(backlog)], dim=1)
        seen, cluster = self._mixed(machines, about, places.flatten(0, 1).index_select(0, row), state, parts)
        logits = self._by_place(self.policy.output(seen)[..., 0], row, clusters, count)
        if self.policy.hold is not None:
            here = (torch.arange(clusters, device=state.device)[:, None] == state).float()
            mean = (here @ cluster) / here.sum(1, keepdim=True).clamp(min=1.0)
            logits = torch.cat([logits, self.policy.hold(mean)], dim=1)
        return logits if prior is None else logits + self._in_turn(prior, row, clusters, count)

    def _mixed(
        self, machines: Tensor, about: Tensor, places: Tensor, state: Tensor, parts: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """What the trunk makes of it: see `PairTrunk.forward`; `places` (n, F) are those where a workload waits."""
        trunk = self.policy.trunk
        assert isinstance(trunk, PairTrunk)
        states = trunk.machine(machines) + trunk.queue(about)[:, None]
        seen = states.index_select(0, state) + trunk.place(places)[:, None]
        if trunk.pair is not None:
            seen = seen + trunk.pair(torch.cat(parts, dim=2))
        return trunk.mix(seen)

    def _by_place(self, values: Tensor, row: Tensor, clusters: int, count: int) -> Tensor:
        """(B, Q * M) of values (n, M) of the places where a workload waits; 0 elsewhere."""
        machines = values.shape[1]
        empty = torch.zeros((clusters * count, machines), dtype=values.dtype, device=values.device)
        return empty.index_copy(0, row, values).reshape(clusters, count * machines)

    def _in_turn(self, prior: Tensor, row: Tensor, clusters: int, count: int) -> Tensor:
        """See `tvwrl.agents.pair_policy.in_turn`; without the last column where the policy may not hold."""
        width = prior.shape[1]
        chances = self._by_place(torch.log_softmax(prior, dim=1), row, clusters, count)
        chances = chances.reshape(clusters, count, width)
        passed = chances[..., -1].cumsum(1)
        pairs = chances[..., :-1] + (passed - chances[..., -1])[..., None]
        flat = pairs.reshape(clusters, count * (width - 1))
        return flat if self.policy.hold is None else torch.cat([flat, passed[:, -1:]], dim=1)


def exportable(policy: Policy) -> Exportable:
    """The module that does what `policy` does. Raises InputError for a policy that chooses no machines."""
    if isinstance(policy, PairPolicy):
        return ExportablePairs(policy).eval()
    if isinstance(policy, SharedPolicy):
        return ExportableShared(policy).eval()
    if isinstance(policy, FlatPolicy):
        return ExportableFlat(policy).eval()
    raise InputError(
        "a DeepRM policy cannot be exported: it chooses a workload in an environment of its own, and no machine; "
        "export a run of --policy shared or flat"
    )
