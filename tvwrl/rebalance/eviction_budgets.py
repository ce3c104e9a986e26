"""How many pods may be evicted, and where their replacements may not go: counted from what was evicted before.

What was evicted is kept as a small text that outlives the process (`Evictions.text`), so that no restart begins anew.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tvwrl.checks import at_least
from tvwrl.rebalance.plan_of_moves import PodMove
from tvwrl.types import InputError

HOUR = 3600.0  # seconds
MOST_TEXT = 200_000  # characters: Kubernetes allows 256 KiB for all annotations of an object


@dataclass(frozen=True)
class EvictionBudgets:
    """How many pods may be evicted, whatever a plan says."""

    heading = "budgets of evictions"
    hourly: int = 20
    """Evictions in an hour, in the whole cluster."""
    hourly_per_node: int = 10
    """Evictions in an hour from one node."""
    hourly_per_namespace: int = 10
    """Evictions in an hour in one namespace."""
    hourly_per_owner: int = 2
    """Evictions in an hour of pods of one owner, such as a Deployment."""
    on_their_way: int = 5
    """Pods that may be on their way at the same time: evicted, and not replaced yet."""
    no_return: float = 24.0
    """Hours in which no pod of an owner is sent to a node from which one of its pods was evicted; and in which an owner
    is left alone whose replacement went back there all the same."""

    def check(self) -> None:
        """Raise InputError for values out of range."""
        at_least(
            0, hourly=self.hourly, hourly_per_node=self.hourly_per_node, hourly_per_namespace=self.hourly_per_namespace
        )
        at_least(0, hourly_per_owner=self.hourly_per_owner)
        at_least(1, on_their_way=self.on_their_way, no_return=self.no_return)


class Eviction(NamedTuple):
    """A pod that was evicted, or may have been: one that was tried without an answer counts."""

    time: float  # seconds since 1970, on the API server's clock, before it was asked
    uid: str
    pod: str  # namespace/name
    owner: str  # namespace/Kind/name
    controller: str  # uid of the ReplicaSet or its like, whose next pod is the replacement
    source: str  # node
    target: str  # node
    plan: str
    waits: bool = True  # for its replacement
    returned: bool = False  # the replacement went to a node that its owner had left

    @property
    def namespace(self) -> str:
        return self.pod.partition("/")[0]


@dataclass
class Evictions:
    """What was evicted in the hours that count, by uid of the pod.

    Examples
    --------
    >>> evictions = Evictions(EvictionBudgets(hourly_per_owner=1))
    >>> move = PodMove(0, "shop/web-1", "u1", "shop/Deployment/web", "node-1", "node-2", "", 1.0, "")
    >>> evictions.refusal(move, now=0.0)
    ''
    >>> evictions.add(Eviction(0.0, "u1", move.pod, move.owner, "", "node-1", "node-2", "p"))
    >>> evictions.refusal(move._replace(uid="u2"), now=10.0)
    'budget: 1 eviction of shop/Deployment/web in an hour'
    >>> evictions.refusal(move._replace(uid="u2", source="node-3", target="node-1"), now=4000.0)
    'no return: shop/Deployment/web left node-1 1.1 h ago'
    """

    budgets: EvictionBudgets
    paused_until: float = 0.0  # seconds since 1970: until then nothing may be evicted, as it did not help
    _all: dict[str, Eviction] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Eviction]:
        return iter(list(self._all.values()))

    def __len__(self) -> int:
        return len(self._all)

    @property
    def waiting(self) -> list[Eviction]:
        """Those without a replacement, the oldest first."""
        return sorted((one for one in self if one.waits), key=lambda one: one.time)

    def get(self, uid: str) -> Eviction | None:
        """The eviction of a pod, None where none is known."""
        return self._all.get(uid)

    def add(self, eviction: Eviction) -> None:
        """Count it; of one that is known, what is new."""
        self._all[eviction.uid] = eviction

    def withdraw(self, uid: str) -> None:
        """It certainly did not happen."""
        self._all.pop(uid, None)

    def settle(self, uid: str, *, returned: bool = False) -> None:
        """Its replacement runs, or is not waited for any longer."""
        if uid in self._all:
            self._all[uid] = self._all[uid]._replace(waits=False, returned=returned)

    def join(self, others: Iterable[Eviction]) -> None:
        """Count what another source knows, too. Of the tries to evict a pod the last counts; where both know it, a
        replacement that one has seen is there."""
        for one in others:
            known = self._all.get(one.uid)
            if known is not None and known.time == one.time:
                one = one._replace(waits=known.waits and one.waits, returned=known.returned or one.returned)
            if known is None or known.time <= one.time:
                self._all[one.uid] = one

    def left(self, now: float) -> int:
        """Evictions that the hour's budget for the whole cluster still allows."""
        return max(self.budgets.hourly - len(self._within_hour(now)), 0)

    def refusal(self, move: PodMove, now: float) -> str:
        """Why this pod must not be evicted now; "": it may be."""
        budgets, hour = self.budgets, self._within_hour(now)
        namespace = move.pod.partition("/")[0]
        waits = len(self.waiting)
        if now < self.paused_until:
            return f"paused for {(self.paused_until - now) / HOUR:.1f} h, as evictions did not help"
        for most, count, what in (
            (budgets.on_their_way, waits, "pods on their way"),
            (budgets.hourly, len(hour), "in an hour"),
            (budgets.hourly_per_node, sum(one.source == move.source for one in hour), f"from {move.source} in an hour"),
            (
                budgets.hourly_per_namespace,
                sum(one.namespace == namespace for one in hour),
                f"in namespace {namespace} in an hour",
            ),
            (budgets.hourly_per_owner, sum(one.owner == move.owner for one in hour), f"of {move.owner} in an hour"),
        ):
            if count >= most:
                if what == "pods on their way":
                    return f"budget: {most} {what}"
                return f"budget: {most} eviction{'' if most == 1 else 's'} {what}"
        for one in self:
            if one.owner != move.owner or now - one.time >= budgets.no_return * HOUR:
                continue
            if one.returned:
                return f"no return: a replacement of {one.owner} went back to a node that it had left"
            if one.source == move.target:
                return f"no return: {one.owner} left {one.source} {max(now - one.time, 0) / HOUR:.1f} h ago"
        return ""

    def left_by(self, owner: str, now: float) -> tuple[str, ...]:
        """Nodes to which no pod of this owner may return now."""
        recent = (one for one in self if one.owner == owner and now - one.time < self.budgets.no_return * HOUR)
        return tuple(sorted({one.source for one in recent}))

    def forget(self, now: float) -> None:
        """Drop what counts no longer."""
        longest = max(self.budgets.no_return, 1.0) * HOUR
        self._all = {uid: one for uid, one in self._all.items() if one.waits or now - one.time < longest}

    def text(self) -> str:
        """All of it, for `join_text`."""
        content = {"paused_until": self.paused_until, "evictions": [list(one) for one in self]}
        return base64.b64encode(zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)).decode()

    def join_text(self, text: str, source: str) -> None:
        """Count what `text` of another process says; nothing for "". Raises InputError for what that never wrote."""
        if not text:
            return
        try:
            content = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
            rows = [
                Eviction._make((float(row[0]), *map(str, row[1:8]), bool(row[8]), bool(row[9])))
                for row in content["evictions"]
            ]
            paused = float(content["paused_until"])
        except (binascii.Error, zlib.error, ValueError, TypeError, LookupError, RecursionError):
            raise InputError(
                f"{source} is not what was evicted before: nothing is evicted until it is deleted"
            ) from None
        self.join(rows)
        self.paused_until = max(self.paused_until, paused)

    def _within_hour(self, now: float) -> list[Eviction]:
        """Those of the last hour; what lies ahead, as clocks differ, counts."""
        return [one for one in self if now - one.time < HOUR]
