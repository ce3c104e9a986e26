"""What a workload costs on each machine, as PyTorch operations, for files that other programs run.

They repeat, in the same precision, the kernels in `tvwrl.schedulers.expected_cost` and `tvwrl.agents.features`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tvwrl.agents.exporting.exportable_features import SEGMENT_COUNT, Columns, looked_up
from tvwrl.agents.features import DOUBT, GREAT, SMALL, SURELY, TIGHTER, Terms
from tvwrl.forecasting import ROUNDING
from tvwrl.packing import overbooked
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
        return chance * self._power(over)

    def _power(self, unused: Tensor) -> Tensor:
        """The penalty of `unused` units (n, D, J, M); an exponent of 0 switches it off."""
        if len(set(self.exponents)) == 1:
            return _raised(unused, self.exponents[0])
        return torch.stack([_raised(unused[:, d], self.exponents[d]) for d in range(len(self.exponents))], dim=1)


def _overbooked(residual: Tensor, capacity: Tensor | float) -> Tensor:
    """The rule of `tvwrl.packing.fit`, which holds for tensors as well."""
    found: Tensor = overbooked.py_func(residual, capacity)
    return found


def _raised(base: Tensor, exponent: float) -> Tensor:
    if exponent == 0.0:
        return torch.zeros_like(base)
    if exponent in (1.0, 2.0, 3.0):
        product = base
        for _ in range(int(exponent) - 1):
            product = product * base
        return product
    return torch.pow(base, exponent)


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
