"""What the pods of each owner would have to request to have what they used, with a margin.

The percentile, the margin and the lower limits are the defaults of the Vertical Pod Autoscaler's recommender: the 90th
percentile of CPU and of memory peaks, 15 % more, at least 0.025 cores and 250 MiB a pod. Two things differ, both on the
side of caution or of the plain: memory is the largest sample, not a percentile of daily peaks, as what is above is
killed; and old samples count as much as new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.types import Float
from tvwrl.what_if.recorded import AGAIN, DAY, HOUR, Recorded, turn_of

PERCENTILE, MARGIN = 90, 1.15
LEAST = np.array([0.025, 250 / 1024])  # cores, GiB of a pod
LONG_ENOUGH = DAY  # seconds over which the samples of an owner must spread to show its day


@dataclass(frozen=True)
class RightSized:
    """What the pods of one owner request and would have to; cores and GiB of a pod, summed over its containers."""

    owner: str
    pods: int  # runs in the record
    running: float  # mean number at a time
    hours: float  # of the record in which at least one ran
    request: tuple[float | None, float | None]  # of the latest pod: CPU, memory; None: none declared
    used: tuple[float, float]  # percentile of CPU, largest memory
    proposed: tuple[float, float]
    freed: tuple[float, float]  # mean over the record, of all its pods together; below 0: more is needed
    short: bool  # too short a record to go by

    def row(self) -> dict[str, Any]:
        """As a row of requests.csv."""
        named = {"request": self.request, "used": self.used, "proposed": self.proposed, "freed": self.freed}
        values = {
            f"{name}_{kind}": None if value is None else round(value, 4)
            for name, pair in named.items()
            for kind, value in zip(("cpu", "memory"), pair, strict=True)
        }
        facts = {"owner": self.owner, "pods": self.pods, "running": round(self.running, 2), "hours": self.hours}
        return facts | values | {"note": "short record" if self.short else ""}


def right_sized(recorded: Recorded) -> Sequence[RightSized]:
    """By owner, what frees the largest share of the nodes first; pods without an owner stand for themselves."""
    named = [
        owner or (pod.rpartition(AGAIN)[0] if turn_of(pod) > 1 else pod)
        for owner, pod in zip(recorded.owner, recorded.pod, strict=True)
    ]
    members: dict[str, list[int]] = {}
    for i, name in enumerate(named):
        members.setdefault(name, []).append(i)
    found = [_of_owner(recorded, owner, np.array(mine)) for owner, mine in members.items()]
    whole = (recorded.size * recorded.reference).sum(axis=0)
    return sorted(found, key=lambda one: (one.short, -float((np.array(one.freed) / whole).sum()), one.owner))


def _of_owner(recorded: Recorded, owner: str, mine: Any) -> RightSized:
    start, length = recorded.start[mine], recorded.length[mine]
    used = np.concatenate([recorded.usage[i] for i in mine]) * recorded.reference
    most = np.array([np.percentile(used[:, 0], PERCENTILE), used[:, 1].max()])
    proposed = np.maximum(most * MARGIN, LEAST)
    request: Float = recorded.request[mine] * recorded.reference
    latest = request[np.lexsort((length, start))[-1]]
    # A pod that declares nothing reserves nothing, so that to declare something frees less than nothing.
    freed = ((np.nan_to_num(request) - proposed) * length[:, None]).sum(axis=0) / recorded.slots
    ran = np.zeros(recorded.slots, np.bool_)
    for begin, slots in zip(start.tolist(), length.tolist(), strict=True):
        ran[begin : begin + slots] = True
    seconds = int(ran.sum()) * recorded.interval
    return RightSized(
        owner,
        len(mine),
        float(length.sum() / recorded.slots),
        round(seconds / HOUR, 2),
        (_known(latest[0]), _known(latest[1])),
        (float(most[0]), float(most[1])),
        (float(proposed[0]), float(proposed[1])),
        (float(freed[0]), float(freed[1])),
        seconds < LONG_ENOUGH,
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
