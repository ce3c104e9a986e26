"""Which machines could have been off, and when: the stretches in which a replay put no pod on them.

This is what one order of ties gives (see `replay`). Another empties other machines of the same size at other hours, so
the names are an example; how many machines are empty at a time is what orders agree on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.plotting import new_figure
from tvwrl.types import Float
from tvwrl.what_if.compared import Compared, Outcome
from tvwrl.what_if.recorded import HOUR
from tvwrl.what_if.referee import in_use, whole_lives
from tvwrl.what_if.replay import Placed

SHORTEST = 1.0  # hours without a pod for which it may be worth to switch a machine off
ROWS_HIGH = 60  # machines that a picture has room for with their names
STRETCH = {
    "node": str, "kind": str, "begins": str, "ends": str, "hours": float, "hours_as_placed": float,
}  # fmt: skip  # columns of a row of `Off.stretches`
FORMAT = "%Y-%m-%d %H:%M"


@dataclass(frozen=True, eq=False)
class Off:
    """When each machine had no pod that may move, in the typical order of an outcome."""

    compared: Compared
    outcome: Outcome

    @property
    def empty(self) -> npt.NDArray[np.bool_]:
        """(T, M) whether no pod runs there."""
        return ~self._in_use(self.outcome.orders[self.outcome.typical])

    def _in_use(self, placed: Placed) -> npt.NDArray[np.bool_]:
        judged = self.compared.judged
        return in_use(judged, whole_lives(judged, placed.machine, placed.start))

    @property
    def always(self) -> list[str]:
        """Machines that never had a pod."""
        return [str(name) for name in self.compared.recorded.node_name[self.empty.all(axis=0)]]

    def stretches(self) -> list[dict[str, Any]]:
        """A row for each stretch of `SHORTEST` or longer, the longest first: node, kind, begins and ends (UTC), hours,
        and hours_as_placed: for how much of it the machine had no pods as recorded either."""
        recorded, empty = self.compared.recorded, self.empty
        before = ~self._in_use(self.compared.actual.placed)
        edges = np.diff(np.pad(empty.astype(np.int8), ((1, 1), (0, 0))), axis=0)
        rows = []
        for m in range(empty.shape[1]):
            ends = np.flatnonzero(edges[:, m] < 0).tolist()
            for begin, end in zip(np.flatnonzero(edges[:, m] > 0).tolist(), ends, strict=True):
                hours = (end - begin) * recorded.interval / HOUR
                if hours >= SHORTEST:
                    rows.append(
                        {
                            "node": str(recorded.node_name[m]),
                            "kind": str(recorded.kind[m]),
                            "begins": _moment(recorded.at(begin)),
                            "ends": _moment(recorded.at(end)),
                            "hours": round(hours, 2),
                            "hours_as_placed": round(float(before[begin:end, m].sum()) * recorded.interval / HOUR, 2),
                        }
                    )
        return sorted(rows, key=lambda row: (-row["hours"], row["begins"], row["node"]))

    def by_hour(self) -> tuple[Float, Float]:
        """(24,) machines without a pod in each hour of the day (UTC): as placed and in all orders, means over days."""
        recorded = self.compared.recorded
        hour = (recorded.origin + np.arange(recorded.slots) * recorded.interval) // HOUR % 24
        found = []
        for outcome in (self.compared.actual, self.outcome):
            every = [self._in_use(one) for one in outcome.orders]
            free = np.mean([(~busy).sum(axis=1) for busy in every], axis=0)
            slots = np.bincount(hour, minlength=24)
            with np.errstate(invalid="ignore"):
                found.append(np.bincount(hour, free, 24) / np.where(slots, slots, np.nan))
        return found[0], found[1]

    def draw(self, file: Path) -> None:
        """A PNG with a row for each machine, the emptiest at the top, dark where it had pods."""
        recorded, empty = self.compared.recorded, self.empty
        order = np.lexsort((recorded.node_name.astype(str), -empty.sum(axis=0)))
        figure = new_figure(9.0, min(1.2 + 0.16 * len(order), 11.0))
        axis = figure.subplots()
        hours = recorded.slots * recorded.interval / HOUR
        shown = (~empty[:, order]).T
        axis.imshow(shown, aspect="auto", interpolation="nearest", cmap="Greys", vmin=0, vmax=1.3,
                    extent=(0, hours, len(order), 0))  # fmt: skip
        axis.set_xlabel(f"hours since {_moment(recorded.origin)} UTC; dark: the machine has pods")
        if len(order) <= ROWS_HIGH:
            axis.set_yticks(np.arange(len(order)) + 0.5, recorded.node_name[order], fontsize=6)
        else:
            axis.set_ylabel(f"{len(order):,} machines, the emptiest first")
        axis.set_title(f"{self.outcome.name}: which machines could have been off, in one of its orders", fontsize=9.5)
        figure.savefig(file, dpi=150, format="png")


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(FORMAT)
