"""What rules that move running pods would have saved, and what that would have cost the pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tvwrl.forecasting import shipped_forecaster
from tvwrl.progress import phase
from tvwrl.types import InputError
from tvwrl.what_if.compared import Compared, Outcome, compare
from tvwrl.what_if.move_names import family, movers, named
from tvwrl.what_if.recorded import DAY, Recorded
from tvwrl.what_if.referee import Churn, Judged, churn, whole_lives
from tvwrl.what_if.replay import Placed, Replay

HOURLY = 0.01  # of the pods that run at a time may be moved in an hour
ORDERS = 2  # in which each rule is played
FRONTS = {"fewest_machine_hours": (0, 1), "least_overload": (0, 2), "all_three": (0, 1, 2)}  # evictions, and which
# of machine-hours and overload
COUNTS = ("evictions", "evicted", "often", "returns", "emptied", "opened_again")  # fields of `Churn`


@dataclass(frozen=True, eq=False)
class MovesCompared:
    """What rules that move pods were worth.

    `compared`: the outcomes, those of a rule at several settings one after another
    `churns`: by name of an outcome, one for each order
    `left_out`: by name of a rule, why it means nothing here
    """

    compared: Compared
    churns: Mapping[str, Sequence[Churn]]
    left_out: Mapping[str, str]
    moves_per_hour: int

    def count(self, outcome: Outcome, what: str) -> float:
        """The mean over orders of one of `COUNTS`."""
        return float(np.mean([getattr(one, what) for one in self.churns[outcome.name]]))

    def evictions(self, outcome: Outcome) -> float:
        """Evictions a day."""
        recorded = self.compared.recorded
        return self.count(outcome, "evictions") * DAY / (recorded.slots * recorded.interval)

    def evicted(self, outcome: Outcome) -> float:
        """Share of the pods that were evicted at least once."""
        return self.count(outcome, "evicted") / self.compared.recorded.trust.pods

    @property
    def idle(self) -> list[Outcome]:
        """Rules that moved nothing, in any order."""
        return [one for one in self.compared.others if not self.count(one, "evictions")]

    @cached_property
    def on_front(self) -> dict[str, tuple[bool, ...]]:
        """By outcome, for each of `FRONTS` whether no other has as little of all its quantities, and less of one."""
        outcomes = self.compared.outcomes
        rows = [(self.evictions(one), one.mean("machine_hours").value, overload(one)) for one in outcomes]
        marks = [front([tuple(row[k] for k in columns) for row in rows]) for columns in FRONTS.values()]
        return {one.name: on for one, on in zip(outcomes, zip(*marks, strict=True), strict=True)}

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain numbers; counts are means over orders, of the whole record."""
        fronts = self.on_front
        return {
            name: figures
            | {count: self.count(outcome, count) for count in COUNTS}
            | {"evictions_a_day": self.evictions(outcome), "evicted_share": self.evicted(outcome)}
            | dict(zip(FRONTS, fronts[name], strict=True))
            for outcome, (name, figures) in zip(self.compared.outcomes, self.compared.as_dict().items(), strict=True)
        }


def overload(outcome: Outcome) -> float:
    """Machine-hours a day in which CPU is above the limit, and in which memory is."""
    return outcome.mean("cpu_over").value + outcome.mean("memory_over").value


def front(points: Sequence[tuple[float, ...]]) -> list[bool]:
    """Which points are not dominated: no other is lower in one coordinate and no higher in all others.

    >>> front([(0, 9), (2, 4), (3, 4), (5, 1)])
    [True, True, False, True]
    """
    return [not any(o != p and all(a <= b for a, b in zip(o, p, strict=True)) for o in points) for p in points]


def usual_moves_per_hour(recorded: Recorded) -> int:
    """`HOURLY` of the pods that run at a time, at least 1."""
    running = recorded.length[~recorded.bound].sum() / recorded.slots
    return max(round(HOURLY * float(running)), 1)


def compare_moves(
    replay: Replay,
    names: Sequence[str],
    moves_per_hour: int | None = None,
    orders: int | None = None,
    seed: int = 0,
    limit: float = 1.0,
    currency: str = "",
) -> MovesCompared:
    """Play rules that move pods.

    `replay`: with the slots in which moves are decided; `names`: see `movers`; of the default
    ones, those that mean nothing here are left out

    Raises InputError for a rule of `names` that means nothing here, and for a record that is too short.
    """
    recorded = replay.recorded
    if recorded.slots <= replay.ratio:
        raise InputError(
            f"{recorded.source}: has {recorded.slots * recorded.interval} s: a move takes effect in the next slot, so "
            f"moves need more than one of {replay.decision_seconds} s"
        )
    hourly = usual_moves_per_hour(recorded) if moves_per_hour is None else moves_per_hour
    rules, left_out, placements = movers(names), dict[str, str](), list[Placed]()
    shipped = shipped_forecaster() if any(one.needs_forecasts for one in rules) else None
    for moving in rules:
        name = named(moving)
        if family(name) in left_out:
            continue
        forecaster = shipped if moving.needs_forecasts else None
        try:
            with phase(f"replaying {name}"):
                for order in range(orders or ORDERS):
                    rng = np.random.default_rng([seed, order])
                    placements.append(replace(replay.play_moves(moving, hourly, forecaster, rng), name=name))
        except InputError as error:
            if names:
                raise
            left_out[family(name)] = str(error)
    compared = compare(replay, placements, limit, currency)
    churns = {one.name: [_churn(compared.judged, placed) for placed in one.orders] for one in compared.outcomes}
    return MovesCompared(compared, churns, left_out, hourly)


def _churn(judged: Judged, placed: Placed) -> Churn:
    return churn(judged, placed.segments or whole_lives(judged, placed.machine, placed.start))
