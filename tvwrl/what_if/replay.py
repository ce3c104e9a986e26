"""Replays a recorded cluster: where each pod would have gone under another scheduler, and when.

Decisions are taken in slots of `decision_seconds`, in which usage is averaged; what they were worth is computed from
usage as it was recorded.

A record does not say in which order the pods came that ran when it began, nor those of one slot, and a rule often rates
several nodes alike. Such ties decide much: whoever is placed first decides what fits beside it. So a replay can be
played in many orders, each drawn at random. Names and the order of rows decide nothing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tvwrl.forecasting import scaled_table
from tvwrl.packing import fits
from tvwrl.schedulers import (
    Backfill,
    BalancedAllocation,
    HeadOfQueue,
    Knowledge,
    KubeDefault,
    LeastAllocated,
    MostAllocated,
    Runner,
    Scheduler,
    best,
)
from tvwrl.simulation import Cluster, Scenario
from tvwrl.traces import UNSEEN, OwnersUsage, Windows
from tvwrl.types import Float, ForecastTable, InputError, Int, Machines, Placement, SequenceSet, Workload
from tvwrl.what_if.recorded import DAY, RESOURCES, Recorded

if TYPE_CHECKING:
    from tvwrl.agents import Facts, ObservingScheduler
    from tvwrl.forecasting import Forecaster

KUBERNETES = (BalancedAllocation, KubeDefault, LeastAllocated, MostAllocated)
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Limits:
    """What kube-scheduler never exceeds; N pods in order of arrival, M nodes."""

    request: Float  # (N, D) units, 0 = not declared
    room: Float  # (M, D) units for requests, without those of pods that stay on their nodes; infinite: no limit
    pods: Int  # (M,) pods
    pinned: Int  # (N,) the node on which a pod stays, -1 = any
    longest_hold: float  # slots for which a scheduler may let a pod wait that has room


class AsKubernetes(Scheduler):
    """A scheduler behind kube-scheduler's filters: requests fit, and the number of pods.

    A pod that fits nowhere does not hold up those behind it, as in Kubernetes; only a trained policy serves its queue
    in its own order. Kubernetes' own rules look at requests alone, whatever the load is, as in a real cluster. A pod
    that is held for too long goes where Kubernetes' default profile puts it, as behind `tvwrl serve`.

    Attribute: `let_go`, how many were held for so long.
    """

    def __init__(self, served: Scheduler, limits: Limits) -> None:
        self.name, self.knowledge, self.served, self._limits = served.name, served.knowledge, served, limits
        self.looks_at_grid, self.needs_forecasts = served.looks_at_grid, served.needs_forecasts
        self._alone, self._default, self.let_go = isinstance(served, HeadOfQueue | Backfill), KubeDefault(), 0

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare the scheduler for a new episode."""
        self.served.reset(cluster, rng)
        count = len(self._limits.request)
        self._machine, self._until, self._asked = (np.full(count, -1) for _ in range(3))
        self._reserved, self._pods, self._slot = np.zeros_like(self._limits.room), np.zeros_like(self._limits.pods), -1

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        self._release(cluster.slot)
        pinned = [workload for workload in pending if self._limits.pinned[workload.index] >= 0]
        for workload in pinned:
            yield self._placed(workload, int(self._limits.pinned[workload.index]), cluster.slot)
        overdue = list(self._overdue(cluster, pending))
        for workload in overdue:
            open_to = self._open_to(workload)
            if open_to.any():  # those before it may have taken the room
                self.let_go += 1
                score = self._default.score(cluster, workload)
                machine = best(open_to, score)
                assert machine is not None
                yield self._placed(workload, machine, cluster.slot)
        if pinned or overdue:
            return  # the runner asks again, with the queue without them
        if self._alone:
            yield from self._one_by_one(cluster, pending)
            return
        for placement in self.served.schedule(cluster, pending):
            machine = self._instead(cluster, placement)
            if machine is not None:
                yield self._placed(placement.workload, machine, cluster.slot)

    def _overdue(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Workload]:
        """Pods that were held for too long while requests left room for them."""
        for workload in pending:
            i = workload.index
            if not self._open_to(workload).any():
                self._asked[i] = -1
                continue
            if self._asked[i] < 0:
                self._asked[i] = cluster.slot
            held = cluster.slot - self._asked[i]
            if held and held >= self._limits.longest_hold:
                yield workload

    def _one_by_one(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        for workload in pending:
            open_to = self._open_to(workload)
            if not open_to.any():
                continue
            seen = cluster if open_to.all() else cluster.without(np.flatnonzero(~open_to).tolist())
            machine = self._choice(seen, workload, open_to)
            if machine is not None:
                yield self._placed(workload, machine, cluster.slot)

    def _choice(self, cluster: Cluster, workload: Workload, open_to: Mask) -> int | None:
        if isinstance(self.served, KUBERNETES):
            return best(self.served.passes(cluster, workload) & open_to, self.served.score(cluster, workload))
        return next((placement.machine for placement in self.served.schedule(cluster, [workload])), None)

    def _instead(self, cluster: Cluster, placement: Placement) -> int | None:
        """The machine of a placement, or the next best that is open to the pod; None: none is, so it waits."""
        open_to = self._open_to(placement.workload)
        if open_to[placement.machine]:
            return placement.machine
        opinion = self.served.opinion(cluster, placement.workload) if open_to.any() else None
        if opinion is None or opinion.scores is None:
            return None
        return best(opinion.possible & open_to, opinion.scores[: len(open_to)])

    def _open_to(self, workload: Workload) -> Mask:
        """(M,) machines that kube-scheduler's filters leave."""
        wanted = self._reserved + self._limits.request[workload.index]
        mask: Mask = fits(wanted, self._limits.room, self._limits.room) & (self._pods < self._limits.pods)
        return mask

    def _placed(self, workload: Workload, machine: int, slot: int) -> Placement:
        i = workload.index
        self._machine[i], self._until[i] = machine, slot + workload.length
        self._reserved[machine] += self._limits.request[i]
        self._pods[machine] += 1
        return Placement(workload, machine)

    def _release(self, slot: int) -> None:
        """Forget the pods that have ended, once a slot."""
        if slot == self._slot:
            return
        self._slot = slot
        runs = np.flatnonzero(self._until > slot)
        self._reserved[:], self._pods[:] = 0, 0
        np.add.at(self._reserved, self._machine[runs], self._limits.request[runs])
        np.add.at(self._pods, self._machine[runs], 1)


UNITS = 8.0  # of each resource that the largest machine has
MOST_PODS = 110  # on a node, as the kubelet allows unless it is told otherwise
QUEUE = 1000  # waiting pods that a rule is shown
NOT_DECLARED = np.array([0.1, 200 / 1024])  # cores and GiB that Kubernetes scores a pod by that requests nothing
LEAST_DEMAND = 1e-6  # units; a pod that used nothing still takes a place
LEAST_ROOM = 0.02  # of a machine's size that is left, whatever stays on it
FEWEST_ORDERS, MOST_ORDERS = 5, 20
BUDGET = 14_000_000  # pairs of a pod and a node, and of a slot and a node, that all orders of one rule may have
EACH_POD = 300  # nodes that take as long as the rest of placing a pod
DIGITS = 9  # to which sums are compared: their last digits depend on the order of what is summed


@dataclass(frozen=True, eq=False)
class Placed:
    """Where n pods of a replay run.

    Parameters
    ----------
    name : str
        Of the scheduler.
    machine, start : Int
        (n,) Node and slot of the record, both -1 for pods that were never placed.
    knowledge : Knowledge or None
        What the scheduler may know; None: this is what happened.
    decision_seconds : int
        Length of the slots in which it was decided; 0: nothing was.
    let_go : int
        Pods that were held for too long and went where Kubernetes put them.

    Examples
    --------
    >>> Placed("mine", np.array([0, -1]), np.array([3, -1])).let_go
    0
    """

    name: str
    machine: Int
    start: Int
    knowledge: Knowledge | None = None
    decision_seconds: int = 0
    let_go: int = 0


@dataclass(frozen=True, eq=False)
class Replay:
    """The pods of a record that may be placed anew, n in order of their start, in slots of a scheduler.

    Parameters
    ----------
    recorded : Recorded
        The cluster's past.
    decision_seconds : int
        Length of a scheduler's slot, a multiple of the record's.
    within_requests : bool
        True: the requests of the pods on a node may not exceed its size, as in Kubernetes.
    keep_running : bool
        True: pods that run when the record begins stay where they are.
    longest_hold : float
        Seconds for which a scheduler may let a pod wait that has room, >= 0.

    Raises
    ------
    InputError
        Slots that are no multiple of the record's.

    Examples
    --------
    >>> replay = Replay(recorded, decision_seconds=300)  # doctest: +SKIP
    >>> compare(replay, [replay.play(make_scheduler("best-fit"))])  # doctest: +SKIP
    """

    recorded: Recorded
    decision_seconds: int = 1800
    within_requests: bool = True
    keep_running: bool = False
    longest_hold: float = 900.0
    _made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)  # what all orders of a rule share

    def __post_init__(self) -> None:
        if self.decision_seconds % self.recorded.interval:
            raise InputError(
                f"decision_seconds is {self.decision_seconds}: must be a multiple of the record's interval, "
                f"{self.recorded.interval} s"
            )

    @property
    def ratio(self) -> int:
        """Slots of the record in one of a scheduler."""
        return self.decision_seconds // self.recorded.interval

    @cached_property
    def pods(self) -> Int:
        """(n,) the pods in order of arrival; those that stay come first. Names do not change the order of ties."""
        free = np.flatnonzero(~self.recorded.bound)
        start = self.recorded.start[free]
        rank = np.argsort(_without_names(self.recorded)[0])
        return free[np.lexsort((rank[free], start, ~self._stays[free], start // self.ratio))]

    @cached_property
    def nodes(self) -> Int:
        """(M,) the nodes in an order that their names do not change."""
        return _without_names(self.recorded)[1]

    def orders(self) -> int:
        """In how many orders to play a rule: as many as the size of the record allows, `FEWEST_ORDERS` or more."""
        nodes = len(self.recorded.size)
        pairs = len(self.pods) * (nodes + EACH_POD) + self.recorded.slots * nodes
        return min(max(BUDGET // pairs, FEWEST_ORDERS), MOST_ORDERS)

    def _drawn(self, rng: np.random.Generator | None) -> tuple[Int, Int]:
        """Places (n,) in `pods` and nodes (M,), both in one order in which a scheduler may see them."""
        if rng is None:
            return np.arange(len(self.pods)), self.nodes
        start = self.recorded.start[self.pods]
        shuffled = rng.permutation(len(self.pods))
        return np.lexsort((shuffled, start, ~self._stays[self.pods], self.arrival)), rng.permutation(self.nodes)

    @property
    def _stays(self) -> npt.NDArray[np.bool_]:
        """(N,) whether a pod stays where it is though a scheduler could move it."""
        stays: npt.NDArray[np.bool_] = self.keep_running & (self.recorded.start == 0)
        return stays

    @cached_property
    def _room(self) -> Float:
        """(M, D) shares: the size of each machine without the mean load of the pods that stay on it."""
        size = self.recorded.size
        room: Float = np.maximum(size - self.recorded.background.mean(axis=0), LEAST_ROOM * size)
        return room

    @cached_property
    def arrival(self) -> Int:
        """(n,) slot of a scheduler."""
        return self.recorded.start[self.pods] // self.ratio

    def every(self, seconds: int) -> Replay:
        """Change the length of the slots in which decisions are taken.

        Parameters
        ----------
        seconds : int
            A multiple of the record's interval.

        Returns
        -------
        Replay
            The same replay but for that.
        """
        return replace(self, decision_seconds=seconds)

    def in_my_order(self, placed: Placed, other: Replay) -> Placed:
        """Bring placements of a replay with other slots into the order of this one.

        Parameters
        ----------
        placed : Placed
            What `other` has placed.
        other : Replay
            The same replay with other slots.

        Returns
        -------
        Placed
            The same, with the pods in the order of this replay.
        """
        row = np.empty(len(self.recorded), np.int64)
        row[other.pods] = np.arange(len(other.pods))
        rows = row[self.pods]
        return replace(placed, machine=placed.machine[rows], start=placed.start[rows])

    def as_placed(self) -> Placed:
        """Where the pods really ran."""
        return Placed("as-placed", self.recorded.node[self.pods], self.recorded.start[self.pods])

    def play(
        self, scheduler: Scheduler, forecaster: Forecaster | None = None, rng: np.random.Generator | None = None
    ) -> Placed:
        """Find where a rule would have placed the pods.

        Parameters
        ----------
        scheduler : Scheduler
            The rule.
        forecaster : Forecaster or None
            For rules that use forecasts, with slots as long as those of this replay.
        rng : numpy.random.Generator or None
            Draws the order of pods that arrive together and of nodes, which decides ties, and the rule's own chance;
            None: an order that depends on what was recorded, but not on names.

        Returns
        -------
        Placed
            The placements.

        Raises
        ------
        InputError
            A forecaster for slots of another length.
        """
        scenario = Scenario(
            machines=len(self._room),
            quantise=False,
            placements_per_slot=None,
            queue=min(len(self.pods), QUEUE),
            step_seconds=self.decision_seconds,
            peak_units=6 if forecaster is None else forecaster.peak_units,
            max_slots=0,
        )
        units = UNITS / self._room.max(axis=0)
        sequences = self._once("rules", lambda: self._for_rules(units))
        if scheduler.needs_forecasts:
            assert forecaster is not None, "this scheduler needs a forecaster"
            if forecaster.step_seconds != self.decision_seconds:
                raise InputError(
                    f"decision_seconds is {self.decision_seconds}: {scheduler.name} needs {forecaster.step_seconds}, "
                    "the slots that its forecasts are for; leave --decision-seconds out, or this scheduler"
                )
            table = self._once(
                forecaster, lambda: scaled_table(forecaster, self._told(self._windows(units, "mean"), forecaster))
            )
            sequences = replace(sequences, forecast=table)
        return self._played(scheduler, sequences, scenario, units, rng)

    def play_policy(self, policy: ObservingScheduler, facts: Facts, rng: np.random.Generator | None = None) -> Placed:
        """Find where a trained policy would have placed the pods.

        Parameters
        ----------
        policy : ObservingScheduler
            The policy.
        facts : Facts
            What is known of it: `tvwrl.agents.open_policy` returns both.
        rng : numpy.random.Generator or None
            See `play`.

        Returns
        -------
        Placed
            The placements.

        Raises
        ------
        InputError
            A policy for another kind of cluster, or for slots of another length.
        """
        from tvwrl.agents import in_a_cluster

        live, capacity = in_a_cluster(facts, RESOURCES)
        if live.step_seconds != self.decision_seconds:
            raise InputError(
                f"decision_seconds is {self.decision_seconds}: policy '{policy.name}' was trained with slots of "
                f"{live.step_seconds} s; give --decision-seconds {live.step_seconds}"
            )
        count = len(self._room)
        scenario = replace(live, machines=count, machine_types=(), capacity=tuple(map(float, capacity)))
        units = capacity / self._room.max(axis=0)
        sequences = self._once(policy, lambda: self._for_policy(scenario, facts, units))
        return self._played(policy, sequences, scenario, units, rng)

    def _for_rules(self, units: Float) -> SequenceSet:
        windows = self._windows(units, "mean")
        sequences = self._sequences(windows, np.ones((1, len(windows), windows.demand.shape[1] + 1), np.uint8), 1)
        declared = windows.metadata[:, : len(RESOURCES)]
        stands_in = NOT_DECLARED / self.recorded.reference * units
        return replace(sequences, request=np.where(np.isnan(declared), stands_in, declared)[None])

    def _for_policy(self, scenario: Scenario, facts: Facts, units: Float) -> SequenceSet:
        windows = self._windows(units, scenario.sample)
        shown = replace(windows, demand=np.minimum(windows.demand, scenario.peak_units))  # as in training
        labels = facts.classes.label_table(shown, scenario.relabel_every)
        sequences = self._sequences(windows, labels[None], facts.classes.k)
        if scenario.looks_ahead:
            assert facts.forecaster is not None
            told = self._told(windows, facts.forecaster)
            sequences = replace(sequences, forecast=scaled_table(facts.forecaster, told))
        return sequences

    def _once(self, key: object, make: Callable[[], Any]) -> Any:
        """What `make` returned the first time for that key."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _played(
        self,
        scheduler: Scheduler,
        sequences: SequenceSet,
        scenario: Scenario,
        units: Float,
        rng: np.random.Generator | None,
    ) -> Placed:
        pods, nodes = self._drawn(rng)
        capacity = np.round(self._room[nodes] * units, 9)
        machines = Machines(np.maximum(capacity, 1e-6), RESOURCES)
        played = AsKubernetes(scheduler, self._limits(units, pods, nodes))
        seed = 0 if rng is None else int(rng.integers(2**31))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            episode = Runner(_in_order(sequences, pods), machines, scenario, seed).play(played, 0)
        recorded = self.recorded.start[self.pods[pods]]
        machine, start = np.empty_like(pods), np.empty_like(pods)
        machine[pods] = np.where(episode.machine >= 0, nodes[episode.machine], -1)
        start[pods] = np.where(episode.start >= 0, np.maximum(episode.start * self.ratio, recorded), -1)
        return Placed(scheduler.name, machine, start, scheduler.knowledge, self.decision_seconds, played.let_go)

    def _limits(self, units: Float, pods: Int, nodes: Int) -> Limits:
        """For pods at places `pods` of `self.pods` and the nodes, both in that order."""
        recorded, mine = self.recorded, self.pods[pods]
        request = np.nan_to_num(recorded.request) * units
        room = recorded.size * units
        reserved, counted, crowd = self._once("reserved", self._reserved)
        left = np.maximum(room - reserved * units, 0.0) if self.within_requests else np.full_like(room, np.inf)
        return Limits(
            request[mine],
            left[nodes],
            (crowd - counted)[nodes],
            np.where(self._stays[mine], np.argsort(nodes)[recorded.node[mine]], -1),
            self.longest_hold / self.decision_seconds,
        )

    def _reserved(self) -> tuple[Float, Int, int]:
        """(M, D) shares and (M,) pods: the most at a time that stays on each node; and how many pods one may have."""
        recorded, bound, one = self.recorded, np.flatnonzero(self.recorded.bound), np.ones((len(self.recorded), 1))
        request = np.nan_to_num(recorded.request)
        reserved, counted = (_most_at_a_time(recorded, bound, amount) for amount in (request, one))
        crowd = max(MOST_PODS, int(_most_at_a_time(recorded, np.arange(len(recorded)), one).max()))
        return reserved, counted[:, 0].astype(np.int64), crowd

    def _windows(self, units: Float, sample: str) -> Windows:
        """(n,) the pods in slots of a scheduler: the mean or the largest usage in each, in units."""
        recorded, pods, ratio = self.recorded, self.pods, self.ratio
        first = recorded.start[pods]
        last = (first + recorded.length[pods] - 1) // ratio
        length = last - first // ratio + 1
        demand = np.zeros((len(pods), int(length.max()), len(RESOURCES)))
        for row, i, begin in zip(demand, pods, first, strict=True):
            used = recorded.usage[i]
            cuts = np.append(0, np.arange(ratio - begin % ratio, len(used), ratio))
            if sample == "max":
                row[: len(cuts)] = np.maximum.reduceat(used, cuts, axis=0)
            else:
                row[: len(cuts)] = np.add.reduceat(used, cuts, axis=0) / np.diff(np.append(cuts, len(used)))[:, None]
            row[: len(cuts)] = np.maximum(row[: len(cuts)] * units, LEAST_DEMAND)
        clock = (recorded.origin + self.arrival * self.decision_seconds) % DAY / DAY
        metadata = np.concatenate([recorded.request[pods] * units, np.full((len(pods), 2), np.nan)], axis=1)
        return Windows(demand, length, metadata, clock, np.full(len(pods), UNSEEN), np.arange(len(pods)))

    def _told(self, windows: Windows, forecaster: Forecaster) -> Windows:
        """The windows, with what the pods of an owner used before each of its pods began, if a forecaster asks."""
        if not forecaster.uses_past:
            return windows
        owner = self.recorded.owner[self.pods].tolist()
        begun = int(self.recorded.origin // self.decision_seconds) + self.arrival
        told = np.minimum(windows.demand, forecaster.peak_units)
        used = OwnersUsage(owner, begun, told, windows.length, self.decision_seconds)
        return replace(windows, past=np.stack([used.before(*one) for one in zip(owner, begun.tolist(), strict=True)]))

    def _sequences(self, windows: Windows, label: npt.NDArray[np.uint8], classes: int) -> SequenceSet:
        names = self.recorded.pod[self.pods]
        return SequenceSet(
            resources=RESOURCES,
            workload_id=names[None],
            source_workload=names[None],
            source_slot=self.arrival[None],
            arrival=self.arrival[None],
            length=windows.length[None],
            demand=windows.demand[None],
            request=windows.metadata[None, :, : len(RESOURCES)],
            label=label,
            classes=classes,
            load=math.nan,
        )


def _without_names(recorded: Recorded) -> tuple[Int, Int]:
    """The pods (N,) and the nodes (M,), each in an order that depends on what was recorded, but not on names."""
    request = np.nan_to_num(recorded.request, nan=-1.0)
    used = np.array([own.sum(axis=0) for own in recorded.usage])
    whole = np.array([crc32(np.ascontiguousarray(own).tobytes()) for own in recorded.usage])
    facts = np.column_stack([np.ones(len(recorded)), recorded.start, recorded.length, recorded.bound, request, used])
    of_node = np.zeros((len(recorded.size), facts.shape[1]))
    np.add.at(of_node, recorded.node, facts)
    price = np.nan_to_num(recorded.price, nan=-1.0)
    nodes = np.lexsort(np.column_stack([recorded.size, price, of_node]).round(DIGITS).T[::-1])
    pods = np.lexsort((np.argsort(nodes)[recorded.node], whole, *facts.round(DIGITS).T[::-1]))
    return pods, nodes


def _in_order(sequences: SequenceSet, pods: Int) -> SequenceSet:
    """One sequence with its workloads in the order `pods` (n,), which keeps arrivals rising."""
    rows = {
        name: getattr(sequences, name)[:, pods]
        for name in (
            "workload_id", "source_workload", "source_slot", "arrival", "length", "demand", "request", "label",
        )
    }  # fmt: skip
    table = sequences.forecast
    forecast = None if table is None else ForecastTable(table.values[:, pods], table.steps, table.peaks)
    return replace(sequences, **rows, forecast=forecast)


def _most_at_a_time(recorded: Recorded, pods: Int, amount: Float) -> Float:
    """(M, k) the largest sum at a time of `amount` (N, k) of the pods that ran on each machine."""
    change = np.zeros((recorded.slots + 1, len(recorded.size), amount.shape[1]))
    np.add.at(change, (recorded.start[pods], recorded.node[pods]), amount[pods])
    np.add.at(change, (recorded.start[pods] + recorded.length[pods], recorded.node[pods]), -amount[pods])
    most: Float = change.cumsum(axis=0).max(axis=0)
    return most
