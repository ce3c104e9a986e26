"""Writes a trained policy to one ONNX file that runs elsewhere, with what it was made for.

A policy's own `encode` runs kernels, which cannot be exported: they branch on what they read, machine by machine. So
policies are written here once more, as modules of PyTorch operations alone, from observations to logits. (The other way
round, training by these modules, would take 5 to 10 times as long for features: 7.4 ms and 0.7 ms for the grids of 160
clusters.) Where a kernel's formula has no branches on data, the modules call its Python function (`plain`).

Sizes of the batch, of the cluster (except in `flat`) and of the queue's filled places are taken from the input, so that
one file serves any of them. `torch.onnx.export` has two exporters. The one used here (`dynamo=True`) keeps every size
symbolic; the older one, which is deprecated, writes reshapes that fail where no workload waits.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tvwrl import __version__
from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.episodes import numbers_of
from tvwrl.agents.exported import ExportedPolicy, Facts, actions_for, random_states
from tvwrl.agents.features import DOUBT, FEW, GREAT, SMALL, SURE, SURELY, TIGHTER, Terms
from tvwrl.agents.networks import FORBIDDEN, LOWEST, FlatPolicy, PairPolicy, PairTrunk, Policy, SharedPolicy
from tvwrl.compiled import plain
from tvwrl.forecasting import ROUNDING, SEGMENTS
from tvwrl.packing import overbooked
from tvwrl.penalties import under_utilisation
from tvwrl.runs import whole_file
from tvwrl.schedulers import (
    ABOVE,
    ACCEPTED_OVERSHOOT,
    EXACT,
    FAR,
    LEAST_CHANCE,
    LEAST_PEAK_SPREAD,
    LEAST_SPREAD,
    LENGTHS,
    PER_DEVIATION,
    RESERVING,
    RISK,
)
from tvwrl.types import InputError

SEGMENT_COUNT = len(SEGMENTS)


class MachineFeatures(nn.Module):
    """See `tvwrl.agents.features.machine_features`."""

    sums: Tensor

    def __init__(self, classes: int, history: int, columns: int) -> None:
        super().__init__()
        self.classes, self.history, self.share = classes, history, float(np.float32(1.0 / columns))
        share = np.float32(1.0 / columns)
        sums = np.zeros((2, history * columns + 1), np.float32)  # what so many pixels add up to, one after another
        for n in range(history * columns):
            sums[0, n + 1] = sums[0, n] + share
            sums[1, n + 1] = float(sums[1, n]) + float(share) / history
        self.register_buffer("sums", torch.from_numpy(sums))

    def forward(self, grid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, M, F) of label grids (B, M, D, h, C), whose rows are filled from the left; and as in
        `SharedPolicy.size_and_use` capacities and load in this slot, but (B, D, M).
        """
        label = grid.float()
        there = label != self.classes + 1  # columns that the machine has
        load = (there & (label != 0)).float().sum(-1) * self.share
        rows = load.unbind(-1)
        total, squares, most = rows[0], rows[0] * rows[0], rows[0]
        for row in rows[1:]:
            total, squares, most = total + row, squares + row * row, torch.maximum(most, row)
        mean = total.double() / self.history
        deviation = torch.sqrt((squares.double() / self.history - mean * mean).clamp(min=0.0))
        size = there[..., -1, :].float().sum(-1) * self.share
        summary = torch.stack([mean.float(), most, deviation.float(), size], dim=-1)
        newest, every = [], []
        for own in range(1, self.classes + 1):
            count = (label == own).float().sum(-1)
            newest.append(count[..., -1])
            every.append(count.sum(-1))
        parts = [
            load,
            summary,
            looked_up(self.sums[0], torch.stack(newest, -1).long()),
            looked_up(self.sums[1], torch.stack(every, -1).long()),
        ]
        return torch.cat(parts, dim=-1).flatten(2), size.transpose(1, 2), rows[-1].transpose(1, 2)


def looked_up(table: Tensor, place: Tensor) -> Tensor:
    """`table[place]` of a table (n,), as ONNX Runtime does it fastest."""
    return table.index_select(0, place.reshape(-1)).reshape(place.shape)


class Columns:
    """The columns of forecasts (..., K, M) of machines, or (..., K, 1) of a workload; see `Forecast`.

    Segments are (..., D, J, M), peaks (..., D, M). Machines come last, as runtimes are fast at long rows.
    """

    def __init__(self, values: Tensor, resources: int) -> None:
        wide = SEGMENT_COUNT * resources
        segments = (values.shape[0], SEGMENT_COUNT, resources, values.shape[2])
        self.most = values[:, :wide].reshape(segments).transpose(1, 2)
        self.spread = values[:, wide : 2 * wide].reshape(segments).transpose(1, 2)
        self.mean = values[:, 2 * wide : 3 * wide].reshape(segments).transpose(1, 2)
        self.peak = values[:, 3 * wide : 3 * wide + resources]
        self.peak_spread = values[:, 3 * wide + resources : 3 * wide + 2 * resources]
        self.alive = values[:, 3 * wide + 2 * resources : 3 * wide + 2 * resources + SEGMENT_COUNT]


def of_machines(load: Columns, capacity: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The part of `forecast_features` that depends on machines alone, for capacities (B, D, M).

    (B, D, J, 2, M) largest and mean load; (B, D, 1, M) peak; (B, D, 2, M) capacity; (B, J, M) workloads.
    """
    on = capacity > 0
    scale = _scale(capacity)
    segments = torch.stack([load.most * scale[:, :, None], load.mean * scale[:, :, None]], dim=3)
    there = torch.stack([on.float(), capacity], dim=2)
    return segments, (load.peak * scale)[:, :, None], there, load.alive / FEW


def of_workload(load: Columns, own: Columns, capacity: Tensor) -> tuple[Tensor, Tensor]:
    """The part of `forecast_features` that depends on the workload: (B, D, J, 2, M) and (B, D, 2, M) of its peak."""
    scale = _scale(capacity)
    together = load.most + own.most
    sure = _sure(capacity[:, :, None] - together, load.spread + own.spread)
    peak = load.peak + own.peak
    surely = _sure(capacity - peak, load.peak_spread + own.peak_spread)
    return torch.stack([together * scale[:, :, None], sure], dim=3), torch.stack([peak * scale, surely], dim=2)


def forecast_features(load: Columns, own: Columns, capacity: Tensor) -> Tensor:
    """(B, M, F): all of `tvwrl.agents.features.forecast_features`."""
    segments, peak, there, alive = of_machines(load, capacity)
    with_it, peak_with_it = of_workload(load, own, capacity)
    both = torch.cat([segments, with_it], dim=3).flatten(2, 3)
    return _by_machine(torch.cat([both, peak, peak_with_it, there], dim=2), alive)


def features_of_machines(load: Columns, capacity: Tensor) -> Tensor:
    """(B, M, F): those of `forecast_features` that are not `about_the_workload`."""
    segments, peak, there, alive = of_machines(load, capacity)
    return _by_machine(torch.cat([segments.flatten(2, 3), peak, there], dim=2), alive)


def features_of_workload(load: Columns, own: Columns, capacity: Tensor) -> Tensor:
    """(B, M, F): those of `forecast_features` that are `about_the_workload`."""
    segments, peak = of_workload(load, own, capacity)
    return _by_machine(torch.cat([segments.flatten(2, 3), peak], dim=2))


def _by_machine(by_resource: Tensor, *more: Tensor) -> Tensor:
    """(B, M, F) of features (B, D, F, M), resource by resource, and of others (B, F, M)."""
    return torch.cat([by_resource.flatten(1, 2), *more], dim=1).transpose(1, 2)


def _scale(capacity: Tensor) -> Tensor:
    on = capacity > 0
    return torch.where(on, 1.0 / torch.where(on, capacity, torch.ones_like(capacity)), torch.zeros_like(capacity))


def _sure(room: Tensor, variance: Tensor) -> Tensor:
    return (room / torch.sqrt(variance.clamp(min=LEAST_SPREAD))).clamp(-SURE, SURE) / SURE


class CostFeatures(nn.Module):
    """See `tvwrl.agents.features.cost_features`.

    `rule`: one of `BUILT_IN`
    `terms`: what the reward charges
    """

    above: Tensor
    lengths: Tensor
    overshoot: Tensor

    def __init__(self, rule: str, terms: Terms) -> None:
        super().__init__()
        self.known, self.tight = rule in RESERVING, rule == "best-fit-peak"
        self.units, self.whole = terms.units, terms.whole
        self.exponents = [float(exponent) for exponent in terms.weights[1]]
        self.limit = float(ACCEPTED_OVERSHOOT * terms.weights[3, 0])
        self.register_buffer("above", torch.from_numpy(ABOVE.copy()))
        self.register_buffer("lengths", torch.from_numpy(LENGTHS[:, None].copy()))
        self.register_buffer("overshoot", torch.from_numpy(RISK * np.asarray(terms.weights[2], np.float64)[:, None]))

    def before(self, load: Columns, capacity: Tensor) -> tuple[Tensor, Tensor]:
        """What machines cost without the workload: (n, D, M) of overshoot, (n, D, J, M) of unused capacity."""
        return self._passes(load, None, self._border(capacity) / self.units), self._unused(
            load.mean, load.alive, capacity
        )

    def forward(
        self,
        load: Columns,
        own: Columns,
        capacity: Tensor,
        left: Tensor,
        before: tuple[Tensor, ...],
        hold: bool,
    ) -> tuple[Tensor, Tensor]:
        """Features (n, M, F) and prior logits (n, M), or (n, M + 1) with `hold`.

        `capacity`, `left`: (n, D, M); `before`: see there
        """
        danger, unused = self.danger(load, own, capacity, before[0]), self.unused(load, own, capacity, before[1])
        on, more = (capacity > 0).any(1), []
        if self.known:
            fits, price, least = self._reserved(load, own, capacity, unused)
            more = [fits.float(), least.float()]
        else:
            fits, price = ~_overbooked(left.double(), 1.0).any(1), unused + danger
        room = (fits & on).any(1, keepdim=True)
        able = on & (fits | ~room)
        cheapest = torch.where(able, price, torch.full_like(price, torch.inf)).amin(1, keepdim=True)
        beyond = price - cheapest
        seen = torch.stack([_squash(danger), _squash(unused), _squash(beyond), *more], dim=2)
        lowest = torch.full_like(beyond, -SURELY)
        logits = torch.where(able, torch.maximum(-beyond / DOUBT, lowest), lowest).float()
        if not hold:
            return seen, logits
        chances = torch.log(torch.exp(logits).double().sum(1, keepdim=True))
        at_best = torch.full_like(chances, -SURELY)
        if not self.known:
            dangers = _at_first(able & (price == cheapest), danger)
            at_best = ((dangers - self.limit) / DOUBT).clamp(-SURELY, SURELY)
        wait = chances + torch.where(room, at_best, torch.full_like(at_best, SURELY))
        return seen, torch.cat([logits, wait.float()], dim=1)

    def _reserved(self, load: Columns, own: Columns, capacity: Tensor, unused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(n, M) each: whether the sum of peaks fits, the price, and the least share of capacity that it leaves."""
        rounding = ROUNDING * (load.alive[:, :1] + own.alive[:, :1]).double()
        reserved = (load.peak + own.peak).double() - rounding
        units = capacity.double() * self.units
        spare = self._border(capacity) - reserved * self.units
        on = units > 0
        share = torch.where(on, spare / torch.where(on, units, torch.ones_like(units)), torch.zeros_like(spare))
        fits = ~_overbooked(spare, units).any(1)
        if not self.tight:
            return fits, unused, share.amin(1)
        largest = capacity.amax(2)
        some = largest > 0
        wanted = torch.where(some, own.peak[..., 0] / torch.where(some, largest, torch.ones_like(largest)), 0.0)
        most, tightest = wanted[:, :1], spare[:, 0]
        for d in range(1, spare.shape[1]):  # of equals the first
            tightest = torch.where(wanted[:, d : d + 1] > most, spare[:, d], tightest)
            most = torch.maximum(most, wanted[:, d : d + 1])
        return fits, TIGHTER * tightest, share.amin(1)

    def _border(self, capacity: Tensor) -> Tensor:
        units = capacity.double() * self.units
        return torch.floor(units + EXACT) + 0.5 if self.whole else units

    def danger(self, load: Columns, own: Columns, capacity: Tensor, before: Tensor) -> Tensor:
        """(n, M) expected increase of the overshoot penalty: see `expected_costs`."""
        running, more = load.alive[:, :1].double(), own.alive[:, :1].double()
        most = self._border(capacity) / self.units
        after = torch.maximum(self._passes(load, own, most), before)
        dear = self.overshoot * ((running + more) * after - running * before)
        return torch.where((running > 0) & (capacity > 0), dear, torch.zeros_like(dear)).sum(1)

    def _passes(self, load: Columns, own: Columns | None, size: Tensor) -> Tensor:
        """(n, D, M) probability that the load, with `own` if given, ever exceeds `size` (n, D, M)."""
        peak, peak_spread, alive = load.peak.double(), load.peak_spread.double(), load.alive[:, :1].double()
        most, spread = load.most.double(), load.spread.double()
        if own is not None:
            peak, peak_spread = peak + own.peak.double(), peak_spread + own.peak_spread.double()
            alive = alive + own.alive[:, :1].double()
            most, spread = most + own.most.double(), spread + own.spread.double()
        ever = self._beyond(size - peak + ROUNDING * alive, peak_spread.clamp(min=LEAST_PEAK_SPREAD))
        each = 1.0 - self._beyond(size[:, :, None] - most, spread.clamp(min=LEAST_SPREAD))
        stays = each[:, :, 0]
        for j in range(1, SEGMENT_COUNT):
            stays = stays * each[:, :, j]
        return torch.minimum(1.0 - stays, ever)

    def _beyond(self, room: Tensor, variance: Tensor) -> Tensor:
        """Probability that a normal variable exceeds its mean by more than `room`, from the kernel's table."""
        place = (room / torch.sqrt(variance) + FAR) * PER_DEVIATION
        low = torch.floor(place.clamp(0.0, float(len(ABOVE) - 2)))
        index = low.long()
        start = looked_up(self.above, index)
        near = start + (place - low) * (looked_up(self.above, index + 1) - start)
        far = torch.where(room > 0, torch.zeros_like(near), torch.ones_like(near))
        return torch.where(room * room >= FAR * FAR * variance, far, near)

    def unused(self, load: Columns, own: Columns, capacity: Tensor, now: Tensor) -> Tensor:
        """(n, M) expected increase of the under-utilisation penalty: see `expected_costs`."""
        then = self._unused(load.mean + own.mean, load.alive + own.alive, capacity)
        return (self.lengths * (then - now)).sum((1, 2))

    def _unused(self, mean: Tensor, alive: Tensor, capacity: Tensor) -> Tensor:
        """(n, D, J, M) expected penalty of a slot."""
        chance = alive.double().clamp(max=1.0)[:, None]
        size = capacity.double()[:, :, None]
        over = (size - mean.double() / chance.clamp(min=LEAST_CHANCE)).clamp(min=0.0) * self.units
        penalty: Any = plain(under_utilisation)  # the kernel's own formula, on tensors
        return torch.stack(
            [chance[:, 0] * penalty(over[:, d], exponent) for d, exponent in enumerate(self.exponents)], dim=1
        )


def _overbooked(residual: Tensor, capacity: Tensor | float) -> Tensor:
    """The kernel's own rule, on tensors."""
    rule: Any = plain(overbooked)
    found: Tensor = rule(residual, capacity)
    return found


def _squash(cost: Tensor) -> Tensor:
    """asinh, which ONNX Runtime lacks in double precision."""
    size = (cost / SMALL).abs()
    return (torch.sign(cost) * torch.log(size + torch.sqrt(size * size + 1.0)) / GREAT).float()


def _at_first(which: Tensor, values: Tensor) -> Tensor:
    """(n, 1) of `values` (n, M) at the first True of `which` (n, M), or the first of all."""
    place = torch.arange(which.shape[1], device=which.device).expand_as(which)
    beyond = torch.full_like(place, which.shape[1])
    first = torch.where(which, place, beyond).amin(1, keepdim=True)
    return values.gather(1, torch.where(first < which.shape[1], first, torch.zeros_like(first)))


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
        trunk, pairs = self.policy.trunk, torch.cat(parts, dim=2) if parts else None
        assert isinstance(trunk, PairTrunk)
        seen, cluster = trunk.of_pairs(machines, about, places.flatten(0, 1).index_select(0, row), state, pairs)
        logits = self._by_place(self.policy.output(seen)[..., 0], row, clusters, count)
        if self.policy.hold is not None:
            here = (torch.arange(clusters, device=state.device)[:, None] == state).float()
            mean = (here @ cluster) / here.sum(1, keepdim=True).clamp(min=1.0)
            logits = torch.cat([logits, self.policy.hold(mean)], dim=1)
        return logits if prior is None else logits + self._in_turn(prior, row, clusters, count)

    def _by_place(self, values: Tensor, row: Tensor, clusters: int, count: int) -> Tensor:
        """(B, Q * M) of values (n, M) of the places where a workload waits; 0 elsewhere."""
        machines = values.shape[1]
        empty = torch.zeros((clusters * count, machines), dtype=values.dtype, device=values.device)
        return empty.index_copy(0, row, values).reshape(clusters, count * machines)

    def _in_turn(self, prior: Tensor, row: Tensor, clusters: int, count: int) -> Tensor:
        """See `tvwrl.agents.networks.in_turn`; without the last column where the policy may not hold."""
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


ORDER = ("grid", "queue", "backlog", "mask", "forecast")  # of inputs
OPSET = 20  # of ONNX; onnxruntime 1.18, the oldest that we take, reads 21
MOST_DIFFERENCE = 1e-4  # of logits, absolute up to 1 and relative above; rounding makes 1e-5 of large weights
STATES = 64  # compared, for each size of the cluster
ONE, MANY = 1, 33  # machines, where a policy works for any number


@dataclass(frozen=True)
class Export:
    """An exported policy, not yet written."""

    content: bytes
    facts: Facts
    difference: float  # largest of logits, from the policy's own, as a share of the logit where that is above 1
    states: int  # in which both were compared


def export_policy(checkpoint: Checkpoint, name: str) -> Export:
    """The policy of a checkpoint as the content of a file, compared with the policy itself in random states.

    `name`: of the training run. Raises InputError for a policy of DeepRM, if onnx, onnxscript or onnxruntime is
    missing, and if the logits of both differ.
    """
    if network := checkpoint.config.network:
        raise InputError(f"{network} cannot be exported: only the networks of this package can (--policy shared, flat)")
    policy = checkpoint.make_policy().eval()
    module, facts = exportable(policy), Facts.of(checkpoint, name)
    given = random_states(facts, facts.shapes["grid"][0], 3)
    inputs = tuple(torch.from_numpy(given[one]) for one in ORDER if one in given)
    with _quietly():
        content = _onnx(module, inputs, facts)
    difference, states = _compared(policy, content, facts)
    if not difference <= MOST_DIFFERENCE:
        raise InputError(
            f"the exported policy's logits differ by {difference:.2g} from the policy's own: please report this, with "
            "the versions that tvwrl doctor prints"
        )
    return Export(content, facts, difference, states)


def _onnx(module: Exportable, inputs: tuple[Tensor, ...], facts: Facts) -> bytes:
    """The content of an ONNX file. What the exporter notes of its own source code and paths is left out."""
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise InputError(f"export needs {error.name}: pip install 'tvwrl[export]'") from None
    names = ORDER[: len(inputs)]
    batch, sizes = torch.export.Dim("batch"), {}
    if facts.any_machines:
        machines = torch.export.Dim("machines")
        places = facts.shapes.get("places", 1)
        sizes = {"grid": machines, "forecast": machines, "mask": places * machines + actions_for(facts.shapes, 0)}
    shapes = tuple({0: batch} | ({1: sizes[name]} if name in sizes else {}) for name in names)
    program = torch.onnx.export(
        module,
        inputs,
        dynamo=True,
        dynamic_shapes=shapes,
        input_names=list(names),
        output_names=["logits"],
        opset_version=OPSET,
        verbose=False,
    )
    assert program is not None
    model = program.model_proto
    model.producer_name, model.producer_version, model.doc_string = "tvwrl", __version__, ""
    for part in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
        del part.metadata_props[:]
        part.doc_string = ""
    del model.graph.value_info[:]
    for name, text in facts.to_texts().items():
        entry = model.metadata_props.add()
        entry.key, entry.value = name, text
    content: bytes = model.SerializeToString()
    return content


def _compared(policy: Policy, content: bytes, facts: Facts) -> tuple[float, int]:
    """The largest difference of logits, and in how many states the file and the policy were compared."""
    run = ExportedPolicy.from_bytes(content, "the exported policy").logits
    own, trained = numbers_of(policy), facts.shapes["grid"][0]
    worst, sizes = 0.0, sorted({ONE, trained, MANY}) if facts.any_machines else [trained]
    for seed, machines in enumerate(sizes):
        for part in (slice(0, 1), slice(1, STATES)):  # a batch of 1, and one of many
            seen = {name: array[part] for name, array in random_states(facts, machines, STATES, seed).items()}
            mask = seen.pop("mask")
            expected, found = own(seen, mask), run(seen, mask)
            worst = max(worst, float((np.abs(found - expected) / np.maximum(np.abs(expected), 1.0)).max()))
    return worst, STATES * len(sizes)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without what the exporter says of its own future."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def write_export(export: Export, file: Path) -> None:
    """Write the file, whole or not at all."""
    with whole_file(file) as partial:
        partial.write_bytes(export.content)
