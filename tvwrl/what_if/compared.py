"""What each way to place the pods was worth, compared with how they were placed: means over days, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tvwrl.experiments.statistics import bootstrap_interval, paired_bootstrap, point_estimate
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
    """Placements and what they were worth."""

    placed: Placed
    days: Sequence[Day]
    moved: int  # pods that went to another node than they were on
    slots: int  # T

    @property
    def name(self) -> str:
        """Of the scheduler."""
        return self.placed.name

    def of(self, quantity: str) -> Float:
        """(days,) one of QUANTITIES."""
        return np.array([getattr(day, quantity) for day in self.days], np.float64)

    def mean(self, quantity: str) -> Point:
        """Mean over days, and its interval."""
        return Point(point_estimate(self.of(quantity)), *bootstrap_interval(self.of(quantity)))

    @cached_property
    def unplaced(self) -> int:
        """Pods that were not placed before the record ended, of all days."""
        return int(((self.placed.start < 0) | (self.placed.start >= self.slots)).sum())


@dataclass(frozen=True, eq=False)
class Compared:
    """Outcomes on one record; the first is how the pods were placed."""

    recorded: Recorded
    outcomes: Sequence[Outcome]
    limit: float
    left_hours: float  # at the end of the record, which make no whole day and count in no figure
    price: float | None = None  # of a machine-hour
    currency: str = ""
    kept: Mapping[str, Outcome] = field(default_factory=dict)  # by name: the same, if what ran at first had stayed

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
        return len(self.actual.days)

    def change(self, outcome: Outcome, quantity: str) -> Point:
        """By how much a quantity is above that of how the pods were placed, a day: mean and interval."""
        return Point(*paired_bootstrap(outcome.of(quantity), self.actual.of(quantity)))

    def saved(self, outcome: Outcome, quantity: str = "needed") -> Point:
        """By how much a quantity is below that of how the pods were placed."""
        value, low, high = self.change(outcome, quantity)
        return Point(0.0 - value, 0.0 - high, 0.0 - low)

    def money(self, outcome: Outcome) -> Point:
        """What fewer machine-hours are worth in a month, if machines without pods cost nothing."""
        value, low, high = self.saved(outcome, "machine_hours")
        factor = MONTH * (self.price or 0.0) / min(self._day_share, 1.0)
        return Point(factor * value, factor * low, factor * high)

    @property
    def _day_share(self) -> float:
        """Of a day that the record holds."""
        return self.recorded.slots * self.recorded.interval / 86400

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain numbers; intervals are 95 %, `null` where there are fewer than two days."""
        return {
            outcome.name: {
                "knowledge": None if outcome.placed.knowledge is None else outcome.placed.knowledge._asdict(),
                "unplaced": outcome.unplaced,
                "on_another_node": outcome.moved,
                **{quantity: _plain(outcome.mean(quantity)) for quantity in QUANTITIES},
                **{f"{quantity}_change": _plain(self.change(outcome, quantity)) for quantity in QUANTITIES},
                **({} if self.price is None else {"saved_a_month": _plain(self.money(outcome))}),
                **self._if_kept(outcome),
            }
            for outcome in self.outcomes
        }

    def _if_kept(self, outcome: Outcome) -> dict[str, Any]:
        """The changes if what ran at first had stayed."""
        if outcome.name not in self.kept:
            return {}
        changes = {f"{name}_change": _plain(self.change(self.kept[outcome.name], name)) for name in QUANTITIES}
        return {"if_running_pods_stay": changes}

    def day_rows(self) -> list[dict[str, Any]]:
        """One row for each outcome and day."""
        return [
            {"scheduler": outcome.name, "day": number, **asdict(day)}
            for outcome in self.outcomes
            for number, day in enumerate(outcome.days, 1)
        ]


def compare(
    replay: Replay, placements: Sequence[Placed], limit: float = 1.0, price: float | None = None, currency: str = ""
) -> Compared:
    """Score placements of the pods of a replay; how the pods were placed comes first.

    `limit`: share of a machine's size above which load is overshoot
    `price`, `currency`: of a machine-hour
    """
    judged = judged_of(replay, limit)
    actual = replay.as_placed()
    outcomes = [
        Outcome(placed, judge(judged, placed.machine, placed.start), _moved(placed, actual), replay.recorded.slots)
        for placed in (actual, *placements)
    ]
    rest = max(replay.recorded.slots - judged.days * judged.day_slots, 0)
    return Compared(replay.recorded, outcomes, limit, rest * replay.recorded.interval / 3600, price, currency)


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


def _plain(point: Point) -> dict[str, float | None]:
    values = zip(("mean", "low", "high"), point, strict=True)
    return {name: None if np.isnan(value) else float(value) for name, value in values}
