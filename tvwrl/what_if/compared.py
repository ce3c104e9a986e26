"""What each way to place the pods was worth, compared with how they were placed: means over days, with intervals.

A rule is played in several orders of what ties (see `replay`). A cluster sees one of them, so an interval holds what
one order may give on other days: it is wider where the orders differ, however many of them were played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tvwrl.experiments import Estimate, estimate_of_one
from tvwrl.plotting import Point
from tvwrl.types import Float
from tvwrl.what_if.recorded import Recorded
from tvwrl.what_if.referee import Day, Judged, judge
from tvwrl.what_if.replay import Placed, Replay

QUANTITIES = (
    "needed", "in_use", "machine_hours", "cpu_over", "memory_over", "requests_over", "wait_mean", "wait_p95",
)  # fmt: skip
MONTH = 30  # days for which money is given


@dataclass(frozen=True, eq=False)
class Outcome:
    """Placements by one scheduler in R orders, and what they were worth.

    Parameters
    ----------
    orders : sequence of Placed
        R.
    days : sequence of sequences of Day
        R, the days of each order.
    moved : float
        Pods that went to another node than they were on, mean over orders.
    slots : int
        T of the record.

    Examples
    --------
    >>> [outcome.mean("needed").value for outcome in compare(replay, placements).outcomes]  # doctest: +SKIP
    """

    orders: Sequence[Placed]
    days: Sequence[Sequence[Day]]
    moved: float
    slots: int

    @property
    def placed(self) -> Placed:
        """Those of the first order; what is known of the scheduler is the same in all."""
        return self.orders[0]

    @property
    def name(self) -> str:
        """Of the scheduler."""
        return self.placed.name

    def of(self, quantity: str) -> Float:
        """Give a quantity day by day.

        Parameters
        ----------
        quantity : str
            One of `QUANTITIES`, which are fields of `Day`.

        Returns
        -------
        Float
            (R, days)
        """
        return np.array([[getattr(day, quantity) for day in days] for days in self.days], np.float64)

    @cached_property
    def hours(self) -> Float:
        """(R, days, M) for which each machine was in use."""
        return np.array([[day.hours for day in days] for days in self.days])

    def mean(self, quantity: str) -> Point:
        """Average a quantity over orders and days.

        Parameters
        ----------
        quantity : str
            One of `QUANTITIES`, which are fields of `Day`.

        Returns
        -------
        Point
            The mean and its 95 % interval, NaN where there are fewer than two days.
        """
        return _point(estimate_of_one(self.of(quantity)))

    @cached_property
    def unplaced(self) -> int:
        """Pods that were not placed before the record ended, of all days, in the worst order."""
        return max(int(((one.start < 0) | (one.start >= self.slots)).sum()) for one in self.orders)

    @cached_property
    def let_go(self) -> int:
        """Pods that were held for too long, in the worst order."""
        return max(one.let_go for one in self.orders)

    @cached_property
    def typical(self) -> int:
        """The order whose machine-hours are nearest to the mean."""
        hours = self.of("machine_hours").sum(axis=1)
        return int(np.abs(hours - hours.mean()).argmin())

    def due_to_order(self, quantity: str) -> float:
        """Tell how much of the variance behind the interval of a quantity comes from orders alone.

        Parameters
        ----------
        quantity : str
            One of `QUANTITIES`, which are fields of `Day`.

        Returns
        -------
        float
            A share, NaN if there is no variance.
        """
        values = self.of(quantity)
        draws = estimate_of_one(values).draws
        whole = draws.var() if len(draws) else 0.0
        return float(values.mean(axis=1).var() / whole) if whole > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class Compared:
    """Outcomes on one record; the first is how the pods were placed.

    Parameters
    ----------
    recorded : Recorded
        The cluster's past.
    outcomes : sequence of Outcome
        How the pods were placed, then one for each scheduler.
    judged : Judged
        What the referee looked at.
    currency : str
        Of the record's prices.
    kept : mapping of str to Outcome
        By name, the same schedulers if what ran at first had stayed.

    Examples
    --------
    >>> compared = compare(replay, [replay.play(make_scheduler("best-fit"))])  # doctest: +SKIP
    >>> compared.saved(compared.others[0])  # machines  # doctest: +SKIP
    """

    recorded: Recorded
    outcomes: Sequence[Outcome]
    judged: Judged
    currency: str = ""
    kept: Mapping[str, Outcome] = field(default_factory=dict)

    @property
    def limit(self) -> float:
        """Share of a machine's size above which load is overshoot."""
        return self.judged.limit

    @property
    def left_hours(self) -> float:
        """At the end of the record, which make no whole day and count in no figure."""
        rest = max(self.recorded.slots - self.judged.days * self.judged.day_slots, 0)
        return rest * self.recorded.interval / 3600

    @property
    def priced(self) -> bool:
        """Whether it is known what an hour of each machine costs."""
        return not bool(np.isnan(self.recorded.price).any())

    @property
    def by_money(self) -> bool:
        """Whether rules are compared by money instead of machines: all machines have prices, and not all are free."""
        return self.priced and bool(self.recorded.price.any())

    @property
    def actual(self) -> Outcome:
        """How the pods were placed."""
        return self.outcomes[0]

    @property
    def others(self) -> Sequence[Outcome]:
        """All but that."""
        return self.outcomes[1:]

    @property
    def days(self) -> int:
        """Whole days, or 1 if there is none."""
        return len(self.actual.days[0])

    @property
    def orders(self) -> int:
        """Most orders in which one scheduler was played."""
        return max(len(one.orders) for one in self.outcomes)

    def change(self, outcome: Outcome, quantity: str) -> Point:
        """Tell by how much a quantity is above that of how the pods were placed.

        Parameters
        ----------
        outcome : Outcome
            One of `outcomes` or `kept`.
        quantity : str
            One of `QUANTITIES`.

        Returns
        -------
        Point
            Mean of a day, and its interval.
        """
        return self.difference(outcome, self.actual, quantity)

    def difference(self, one: Outcome, other: Outcome, *quantities: str) -> Point:
        """Tell by how much one outcome is above another, in the same orders.

        Parameters
        ----------
        one, other : Outcome
            What is compared.
        *quantities : str
            Of `QUANTITIES`; their sum is compared.

        Returns
        -------
        Point
            Mean of a day, and its interval.
        """
        first, second = (np.sum([outcome.of(name) for name in quantities], axis=0) for outcome in (one, other))
        return _point(estimate_of_one(_paired(first, second)))

    def saved(self, outcome: Outcome, quantity: str = "needed") -> Point:
        """Tell by how much a quantity is below that of how the pods were placed.

        Parameters
        ----------
        outcome : Outcome
            One of `outcomes` or `kept`.
        quantity : str
            One of `QUANTITIES`.

        Returns
        -------
        Point
            Mean of a day, and its interval.
        """
        return _negative(self.change(outcome, quantity))

    def money(self, outcome: Outcome, than: Outcome | None = None) -> Point:
        """Give the worth of fewer machine-hours, each at the price of its machine, if those without pods cost nothing.

        Parameters
        ----------
        outcome : Outcome
            One of `outcomes` or `kept`.
        than : Outcome or None
            What it is compared with; None: as placed.

        Returns
        -------
        Point
            Money in a month of 30 days, and its interval.
        """
        other = than or self.actual
        fewer = _paired(other.hours @ self.recorded.price, outcome.hours @ self.recorded.price)
        value, low, high = _point(estimate_of_one(fewer))
        factor = MONTH / min(self._day_share, 1.0)
        return Point(factor * value, factor * low, factor * high)

    def cost(self, outcome: Outcome) -> float:
        """Give the cost of all machine-hours.

        Parameters
        ----------
        outcome : Outcome
            One of `outcomes` or `kept`.

        Returns
        -------
        float
            Money in a month of 30 days, mean over orders and days.
        """
        return float((outcome.hours @ self.recorded.price).mean()) * MONTH / min(self._day_share, 1.0)

    def worth(self, machines: float) -> float:
        """Give the price of machines that are always in use, at the mean price of a node.

        Parameters
        ----------
        machines : float
            Their number.

        Returns
        -------
        float
            Money in a month of 30 days.
        """
        return float(machines * self.recorded.price.mean() * 24 * MONTH)

    def by_kind(self, outcome: Outcome) -> list[tuple[str, int, float, float, float]]:
        """Divide machines in use and money by kinds of node.

        Parameters
        ----------
        outcome : Outcome
            One of `outcomes` or `kept`.

        Returns
        -------
        list of (str, int, float, float, float)
            Kind, nodes, mean number in use as placed and by the outcome, and what the difference is worth in a month.
            Numbers in use add up to `in_use`, money to `money`.
        """
        recorded, hours = self.recorded, self.judged.day_slots * self.judged.interval / 3600
        rows = []
        for kind in sorted(set(recorded.kind)):
            mine = recorded.kind == kind
            before, after = (one.hours[..., mine].mean(axis=(0, 1)) for one in (self.actual, outcome))
            money = float((before - after) @ recorded.price[mine]) * MONTH / min(self._day_share, 1.0)
            rows.append((kind, int(mine.sum()), float(before.sum() / hours), float(after.sum() / hours), money))
        return rows

    @property
    def _day_share(self) -> float:
        """Of a day that the record holds."""
        return self.recorded.slots * self.recorded.interval / 86400

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain numbers; intervals are 95 %, `null` where there are fewer than two days."""
        return {
            outcome.name: {
                "knowledge": None if outcome.placed.knowledge is None else outcome.placed.knowledge._asdict(),
                "orders": len(outcome.orders),
                "unplaced": outcome.unplaced,
                "on_another_node": outcome.moved,
                **{quantity: _plain(outcome.mean(quantity)) for quantity in QUANTITIES},
                **{f"{quantity}_change": _plain(self.change(outcome, quantity)) for quantity in QUANTITIES},
                "variance_from_orders": {name: _number(outcome.due_to_order(name)) for name in QUANTITIES},
                **({"saved_a_month": _plain(self.money(outcome))} if self.priced else {}),
                "by_kind": {
                    kind: {"nodes": nodes, "in_use_as_placed": before, "in_use": after, "saved_a_month": _number(money)}
                    for kind, nodes, before, after, money in self.by_kind(outcome)
                },
                **self._if_kept(outcome),
            }
            for outcome in self.outcomes
        }

    def _if_kept(self, outcome: Outcome) -> dict[str, Any]:
        """The changes if what ran at first had stayed."""
        if outcome.name not in self.kept:
            return {}
        kept = self.kept[outcome.name]
        changes = {f"{name}_change": _plain(self.change(kept, name)) for name in QUANTITIES}
        return {"if_running_pods_stay": changes | ({"saved_a_month": _plain(self.money(kept))} if self.priced else {})}

    def day_rows(self) -> list[dict[str, Any]]:
        """One row for each outcome, order and day."""
        return [
            {"scheduler": outcome.name, "order": order, "day": number}
            | {name: value for name, value in asdict(day).items() if name != "hours"}
            for outcome in self.outcomes
            for order, days in enumerate(outcome.days, 1)
            for number, day in enumerate(days, 1)
        ]


def compare(replay: Replay, placements: Sequence[Placed], limit: float = 1.0, currency: str = "") -> Compared:
    """Score placements of the pods of a replay; how the pods were placed comes first.

    Parameters
    ----------
    replay : Replay
        The pods.
    placements : sequence of Placed
        Those of one name are of one scheduler, in several orders.
    limit : float
        Share of a machine's size above which load is overshoot, > 0.
    currency : str
        Of the record's prices.

    Returns
    -------
    Compared
        What each scheduler's placements were worth.

    Examples
    --------
    >>> compare(replay, [replay.play(make_scheduler("best-fit"))]).days  # doctest: +SKIP
    """
    judged = judged_of(replay, limit)
    actual = replay.as_placed()
    named: dict[str, list[Placed]] = {actual.name: [actual]}
    for placed in placements:
        named.setdefault(placed.name, []).append(placed)
    outcomes = [
        Outcome(
            orders,
            [judge(judged, placed.machine, placed.start, placed.segments) for placed in orders],
            float(np.mean([_moved(placed, actual) for placed in orders])),
            replay.recorded.slots,
        )
        for orders in named.values()
    ]
    return Compared(replay.recorded, outcomes, judged, currency)


def with_kept(compared: Compared, replay: Replay, placements: Sequence[Placed]) -> Compared:
    """The comparison with what the same schedulers do in a replay in which pods that ran at first stay."""
    kept = compare(replay, placements, compared.limit)
    return replace(compared, kept={outcome.name: outcome for outcome in kept.others})


def judged_of(replay: Replay, limit: float) -> Judged:
    """What the referee looks at of a replay."""
    recorded, pods = replay.recorded, replay.pods
    reserved = np.zeros_like(recorded.background)
    for i in np.flatnonzero(recorded.bound):
        span = slice(recorded.start[i], recorded.start[i] + len(recorded.usage[i]))
        reserved[span, recorded.node[i]] += np.nan_to_num(recorded.request[i])
    return Judged(
        [recorded.usage[i] for i in pods],
        recorded.start[pods],
        recorded.request[pods],
        recorded.size,
        recorded.background,
        reserved,
        recorded.interval,
        limit,
    )


def _moved(placed: Placed, actual: Placed) -> int:
    return int(((placed.machine != actual.machine) & (placed.machine >= 0)).sum())


def _paired(one: Float, other: Float) -> Float:
    """(R, days) `one` minus `other` in the same orders; what has a single order has it in all."""
    orders = max(len(one), len(other)) if 1 in (len(one), len(other)) else min(len(one), len(other))
    first, second = (
        np.broadcast_to(values, (orders, values.shape[1])) if len(values) == 1 else values[:orders]
        for values in (one, other)
    )
    return first - second


def _point(estimate: Estimate) -> Point:
    return Point(estimate.mean, *estimate.interval)


def _negative(point: Point) -> Point:
    return Point(0.0 - point.value, 0.0 - point.high, 0.0 - point.low)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def _plain(point: Point) -> dict[str, float | None]:
    values = zip(("mean", "low", "high"), point, strict=True)
    return {name: None if np.isnan(value) else float(value) for name, value in values}
