"""Which node a pod should go to: a scheduler asked about a live cluster, and what it was told since."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.schedulers import Opinion, Scheduler
from tvwrl.serve.extender_messages import BEST, Pod
from tvwrl.serve.snapshot import Nodes, Prepared, Sight, Snapshot
from tvwrl.serve.watching import Observed
from tvwrl.simulation import Mask
from tvwrl.types import Float, Int, Workload

TIE = 1e-5  # logits and scores that differ by less are equal
REMEMBERED = 10_000  # pods whose holding is remembered
Points = npt.NDArray[np.int8]  # (M,) 0 to `BEST`


class Scores(NamedTuple):
    """Points of all nodes of a cluster, small enough to be kept for thousands of pods."""

    nodes: Nodes
    points: Points  # (M,); one machine at most has `BEST`

    def of(self, names: Sequence[str]) -> list[int]:
        """(n,) those of some nodes; 0 for unknown ones."""
        machine = self.nodes.machines(names)
        found: list[int] = np.where(machine < 0, 0, self.points[machine]).tolist()
        return found


@dataclass(frozen=True, eq=False)
class Decision:
    """What a scheduler decided for a pod."""

    pod: Pod
    node: str | None  # where it should go; None: it should wait
    passed: Mask  # (n,) which of the nodes asked about may take it
    scores: Scores  # by node
    reason: str  # in words
    seconds: float = 0.0  # that it took
    at: float = 0.0  # when it was made, seconds, monotonic


NOTHING = Scores(Nodes(()), np.zeros(1, np.int8))  # of a pod that waits


class NotReady(Exception):
    """No decision can be made now; the message is a word for the metric of fallbacks."""


@dataclass(frozen=True)
class Assumed:
    """A pod that was given a node, but is not in the metrics yet."""

    pod: Pod
    node: str
    at: float  # seconds, monotonic
    row: int | None  # of the snapshot; None: it did not fit in


@dataclass
class _Held:
    """A pod that waits because the scheduler said so."""

    since: float  # seconds, monotonic
    chance: float = 1.0  # probability of having held it for so long: see `DeterministicActions`


@dataclass
class Decider:
    """Decides with `scheduler` in the newest snapshot. Calls may come from several threads; one is served at a time.

    `stale`: seconds after which metrics are too old
    `assume`: seconds after which a pod that does not show up in the metrics is no longer believed to be on its node
    `longest_hold`: seconds after which a pod that has to wait goes wherever Kubernetes puts it
    `shadow`: whether decisions are carried out by nobody; a pod counts as if they were until it shows up elsewhere
    """

    scheduler: Scheduler
    sight: Sight
    stale: float
    assume: float
    longest_hold: float
    shadow: bool = False
    seed: int = 0
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _snapshot: Snapshot | None = None
    _arrived: float = 0.0
    _assumed: dict[str, Assumed] = field(default_factory=dict)  # by uid
    _held: dict[str, _Held] = field(default_factory=dict)  # by uid
    _fleet: tuple[tuple[str, ...], bytes] = ((), b"")  # nodes and capacities that the scheduler was prepared for

    def __post_init__(self) -> None:
        self._arrived = self.clock()  # so that its age counts from the start until there are metrics

    def renew(self, found: Observed | Prepared) -> None:
        """Go on with newer metrics. Raises InputError if the scheduler cannot work in this cluster."""
        # All that takes long is done before anybody has to wait for it.
        made = Snapshot(found, self.sight)
        observed = made.observed
        with self._lock:
            now, before = self.clock(), dict(self._assumed)
        running = observed.runs({uid: one.pod.key for uid, one in before.items()})
        kept = {
            uid: one
            for uid, one in before.items()
            if uid not in running and one.node in made.nodes and now - one.at < self.assume
        }
        rows = made.book([one.pod for one in kept.values()], [one.node for one in kept.values()])
        booked = {uid: replace(one, row=row) for (uid, one), row in zip(kept.items(), rows, strict=True)}
        with self._lock:
            for uid, one in self._assumed.items():  # what was decided in the meantime
                if before.get(uid) is one or one.node not in made.nodes:
                    continue
                if uid in booked and (row := booked[uid].row) is not None:
                    made.remove(row)
                booked[uid] = replace(one, row=made.book([one.pod], [one.node])[0])
            for uid in booked.keys() - self._assumed.keys():  # and what was taken back
                if (row := booked.pop(uid).row) is not None:
                    made.remove(row)
            fleet = (observed.nodes, observed.capacity.tobytes())
            if fleet != self._fleet:
                self.scheduler.reset(made.cluster, np.random.default_rng(self.seed))
                self._fleet = fleet
            if self._snapshot is not None and self._snapshot.observed.nodes == observed.nodes:
                made.nodes = self._snapshot.nodes  # one mapping for all decisions that are remembered
            self._assumed = booked
            self._snapshot, self._arrived = made, now - observed.sample_age

    @property
    def age(self) -> float:
        """Seconds since the newest sample of usage; since the start before the first. Always finite."""
        return self.clock() - self._arrived

    @property
    def ready(self) -> bool:
        """Whether decisions can be made."""
        return self._snapshot is not None and self.age < self.stale

    @property
    def observed(self) -> Observed | None:
        """What the newest snapshot was made of."""
        return None if self._snapshot is None else self._snapshot.observed

    def decide(self, pod: Pod, names: Sequence[str]) -> Decision:
        """A node among `names` (n,) for the pod, or none for now. Raises NotReady where nothing can be decided."""
        begin = time.perf_counter()
        with self._lock:
            snapshot = self._snapshot
            if snapshot is None or not self.ready:
                raise NotReady("no_metrics" if snapshot is None else "stale_metrics")
            self._forget(pod.uid)
            if snapshot.full:
                raise NotReady("too_many_placements")
            machine = snapshot.nodes.machines(names)
            if (machine < 0).all():
                raise NotReady("unknown_nodes")
            workload = snapshot.show(pod)
            chosen, possible, points = self._choose(snapshot, workload, pod, machine[machine >= 0])
            if chosen is None:
                room = bool(possible[machine[machine >= 0]].any())
                return self._hold(pod, machine, room, time.perf_counter() - begin)
            self._held.pop(pod.uid, None)
            known = np.maximum(machine, 0)
            # A node without metrics may take the pod, but only if Kubernetes prefers it against our score of 0.
            passed = np.where(machine < 0, True, possible[known])
            scores = Scores(snapshot.nodes, points)
            node = names[int(np.flatnonzero(machine == chosen)[0])]
            at = self.clock()
            self._assumed[pod.uid] = Assumed(pod, node, at, snapshot.place(chosen))
            reason = f"chosen by {self.scheduler.name}"
            return Decision(pod, node, passed, scores, reason, time.perf_counter() - begin, at)

    def withdraw(self, decision: Decision) -> None:
        """Nobody was told of a decision, so the pod may go anywhere."""
        with self._lock:
            known = self._assumed.get(decision.pod.uid)
            if known is not None and known.at == decision.at:
                self._forget(decision.pod.uid)

    def move(self, uid: str, node: str | None) -> None:
        """A pod that was decided goes to `node`, whatever was decided; None: nowhere yet."""
        with self._lock:
            known = self._assumed.get(uid)
            if known is None or known.node == node or self._snapshot is None:
                return
            self._forget(uid)
            if node is not None and node in self._snapshot.nodes:
                row = self._snapshot.book([known.pod], [node])[0]
                self._assumed[uid] = Assumed(known.pod, node, self.clock(), row)

    def _forget(self, uid: str) -> None:
        """Take back where a pod was believed to be: it asks again, so it is not there."""
        known = self._assumed.pop(uid, None)
        if known is not None and known.row is not None and self._snapshot is not None:
            self._snapshot.remove(known.row)

    def _choose(self, snapshot: Snapshot, workload: Workload, pod: Pod, among: Int) -> tuple[int | None, Mask, Points]:
        """The machine (None: wait), and of all machines which are possible and how many points they get."""
        count = len(snapshot.nodes)
        left_out = np.ones(count, np.bool_)
        left_out[among] = False
        cluster = snapshot.cluster.without(np.flatnonzero(left_out).tolist()) if left_out.any() else snapshot.cluster
        chosen, opinion = self.scheduler.considered(cluster, workload)
        if opinion is not None and opinion.meaning == "probability":
            chosen, possible, value = self._by_probability(opinion, pod.uid, among)
        elif opinion is None:
            possible, value = cluster.room_now(workload) & cluster.capacity.any(axis=1), None
        else:
            possible, value = opinion.possible & cluster.capacity.any(axis=1), None
            if opinion.scores is not None:
                value = opinion.scores[: len(possible)] * (-1 if opinion.meaning == "expected cost" else 1)
        if chosen is None:
            return None, possible, np.zeros(count, np.int8)
        possible[chosen] = True
        return chosen, possible, points_of(value, possible, chosen)

    def _by_probability(self, opinion: Opinion, uid: str, among: Int) -> tuple[int | None, Mask, Float | None]:
        """The most probable machine, after the median time of holding: see `DeterministicActions`."""
        assert opinion.scores is not None
        chances, possible = opinion.scores[:-1].copy(), opinion.possible.copy()
        offered = np.zeros(len(chances), np.bool_)
        offered[among] = True
        possible &= offered
        if not possible.any():
            return None, possible, None
        chances[~possible] = 0.0
        hold = float(opinion.scores[-1])
        remembered = self._held.get(uid)
        held = (1.0 if remembered is None else remembered.chance) * hold / max(hold + chances.sum(), 1e-12)
        if held >= 0.5:
            self._held[uid] = _Held(self.clock() if remembered is None else remembered.since, held)
            return None, possible, None
        logs = np.log(np.maximum(chances, 1e-30))
        best = logs[possible].max()
        chosen = int(np.flatnonzero(possible & (logs >= best - TIE * (1 + abs(best))))[0])
        return chosen, possible, logs

    def _hold(self, pod: Pod, machine: Int, room: bool, seconds: float) -> Decision:
        now = self.clock()
        if pod.uid not in self._held and len(self._held) >= REMEMBERED:
            raise NotReady("held_for_too_long")  # nobody could say when this one began to wait
        held = self._held.setdefault(pod.uid, _Held(now))
        if now - held.since >= self.longest_hold:
            raise NotReady("held_for_too_long")
        unknown = machine < 0
        if unknown.any():  # a node that just joined: nothing speaks against it
            return Decision(pod, None, unknown, NOTHING, "only nodes without metrics", seconds)
        reason = f"held by {self.scheduler.name}: {'it prefers to wait' if room else 'no node has room for it now'}"
        nowhere = np.zeros(len(machine), np.bool_)
        return Decision(pod, None, nowhere, NOTHING, reason, seconds)


def points_of(value: Float | None, possible: Mask, chosen: int) -> Points:
    """(M,) 0 to `BEST`: the chosen machine has the most, the other possible ones less, in the order of `value` (M,).

    Kubernetes adds points up over extenders and plugins, and takes a random one of the best: only one may be the best.
    """
    points = np.zeros(len(possible), np.int8)
    others = possible.copy()
    others[chosen] = False
    if value is not None and others.any():
        own = value[others]
        own[~np.isfinite(own)] = -np.inf
        order = np.argsort(own)
        levels, rank = own[order], np.ones(len(own))
        rank[order[1:]] += np.cumsum(levels[1:] != levels[:-1])  # equal values have the same rank
        points[others] = np.round((BEST - 1) * rank / rank[order[-1]])
    points[chosen] = BEST
    return points
