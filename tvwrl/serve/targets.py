"""Where the next pod of a controller should run: told by `tvwrl rebalance`, which has just evicted one of its pods."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tvwrl.serve.deciding import Decider, Decision
from tvwrl.serve.extender_messages import Pod, read_wish
from tvwrl.types import InputError

MOST = 10_000  # targets


class Target(NamedTuple):
    """A node for one pod of a controller."""

    node: str
    avoid: frozenset[str]  # nodes that the owner has left, and to which it should not return
    until: float  # seconds on the clock of `Targets`


@dataclass
class Targets:
    """Targets by the uid of a controller, in memory alone: each for one pod, and for some minutes.

    Examples
    --------
    >>> targets = Targets()
    >>> targets.tell(b'{"controller": "uid-1", "node": "node-2", "avoid": ["node-1"], "seconds": 300}')
    >>> len(targets)
    1
    """

    clock: Callable[[], float] = time.monotonic
    _waiting: dict[str, deque[Target]] = field(default_factory=dict)  # by controller
    _given: dict[str, Target] = field(default_factory=dict)  # by uid of the pod
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def tell(self, body: bytes) -> None:
        """Take a `Wish` in JSON; one of 0 seconds takes back another of the same node. Raises InputError, naming the
        field, for anything else, and where there are too many."""
        wish = read_wish(body)
        with self._lock:
            self._forget()
            if len(self) >= MOST:
                raise InputError(f"there are {MOST} targets already: must be fewer")
            waiting = self._waiting.setdefault(wish.controller, deque())
            if wish.seconds:
                waiting.append(Target(wish.node, frozenset(wish.avoid), self.clock() + wish.seconds))
            else:
                found = next((one for one in waiting if one.node == wish.node), None)
                if found is not None:
                    waiting.remove(found)
            if not waiting:
                del self._waiting[wish.controller]

    def decide(self, decider: Decider, pod: Pod, names: Sequence[str]) -> Decision:
        """What `decider` says; only the target, where there is one that has room. Raises NotReady as it does."""
        target = self._of(pod)
        if target is None:
            return decider.decide(pod, names)
        if target.node in names:
            wanted = decider.decide(pod, [target.node])
            if wanted.node is not None:
                return _among(wanted, [target.node], names, f"{wanted.reason}, where it was moved to")
        others = [name for name in names if name not in target.avoid]
        if others and len(others) < len(names):
            decision = decider.decide(pod, others)
            if decision.node is not None:
                return _among(decision, others, names, decision.reason)
        return decider.decide(pod, names)

    def _of(self, pod: Pod) -> Target | None:
        """The target of a pod: the one that it has already, or the oldest of its controller."""
        with self._lock:
            self._forget()
            if pod.uid not in self._given and pod.controller in self._waiting:
                waiting = self._waiting[pod.controller]
                self._given[pod.uid] = waiting.popleft()
                if not waiting:
                    del self._waiting[pod.controller]
            return self._given.get(pod.uid)

    def _forget(self) -> None:
        """Drop what has run out."""
        now = self.clock()
        self._given = {uid: one for uid, one in self._given.items() if one.until > now}
        kept = {of: deque(one for one in waiting if one.until > now) for of, waiting in self._waiting.items()}
        self._waiting = {of: waiting for of, waiting in kept.items() if waiting}


def _among(decision: Decision, asked: Sequence[str], names: Sequence[str], reason: str) -> Decision:
    """A decision about some nodes, as one about all of them: no other passed."""
    passed = dict(zip(asked, decision.passed.tolist(), strict=True))
    return replace(decision, passed=np.array([passed.get(name, False) for name in names], np.bool_), reason=reason)
