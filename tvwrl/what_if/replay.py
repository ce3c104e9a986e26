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
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tvwrl.checks import at_least
from tvwrl.forecasting import scaled_table
from tvwrl.schedulers import Knowledge, Moving, Runner, Scheduler
from tvwrl.simulation import Scenario
from tvwrl.traces import UNSEEN, OwnersUsage, Windows
from tvwrl.types import Episode, Float, ForecastTable, InputError, Int, Machines, SequenceSet, Stays
from tvwrl.what_if.as_kubernetes import KUBERNETES, AsKubernetes, Limits
from tvwrl.what_if.as_recorded import AsRecorded
from tvwrl.what_if.recorded import DAY, HOUR, RESOURCES, Recorded
from tvwrl.what_if.referee import Segments

if TYPE_CHECKING:
    from tvwrl.agents import Facts, ObservingScheduler
    from tvwrl.forecasting import Forecaster

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
    segments : Segments or None
        Where pods ran that were moved; None: all stay where they began.

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
    segments: Segments | None = None


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
        rows, mine = row[self.pods], row[other.pods]
        mine[rows] = np.arange(len(rows))
        segments = placed.segments and placed.segments._replace(pod=mine[placed.segments.pod])
        return replace(placed, machine=placed.machine[rows], start=placed.start[rows], segments=segments)

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
        scenario, units = self._scenario(forecaster), UNITS / self._room.max(axis=0)
        sequences = self._for_rule(scheduler, units, forecaster)
        return self._played(scheduler, sequences, scenario, units, rng)

    def play_moves(
        self,
        moving: Moving,
        moves_per_hour: int,
        forecaster: Forecaster | None = None,
        rng: np.random.Generator | None = None,
    ) -> Placed:
        """Find where pods would have run that arrive where they did, if a rule had moved them from there.

        A pod arrives at its recorded node, unless moves have emptied that, or have filled it with others: then it goes
        where Kubernetes puts it among the nodes in use, and if none has room, to its node. A move takes effect in the
        next slot of decisions.

        Parameters
        ----------
        moving : Moving
            The rule that moves, and the profile of kube-scheduler that places what is evicted, as in
            `make_scheduler("kube-default + karpenter")`.
        moves_per_hour : int
            Most pods that are evicted in an hour, >= 1.
        forecaster, rng
            As of `play`.

        Returns
        -------
        Placed
            With `segments`.

        Raises
        ------
        InputError
            A forecaster for slots of another length, a profile that Kubernetes does not have, or a rule that means
            nothing here: see `misfit`.
        """
        at_least(1, moves_per_hour=moves_per_hour)
        if not isinstance(moving.placing, KUBERNETES):
            known = ", ".join(sorted(made.name for made in KUBERNETES))
            raise InputError(f"scheduler is '{moving.name}': {moving.placing.name} places, but here it must be {known}")
        if why := self.misfit(moving, forecaster):
            raise InputError(f"scheduler is '{moving.name}': {why}")
        in_a_slot = max(moves_per_hour * self.decision_seconds // HOUR, 1)
        scenario = replace(self._scenario(forecaster), moves_per_slot=min(in_a_slot, len(self.pods)))
        units = UNITS / self._room.max(axis=0)
        sequences = self._for_rule(moving, units, forecaster)
        pods, nodes = self._drawn(rng)
        moving.rule.watch(self.recorded, self.pods[pods], nodes, self.ratio)
        played = AsRecorded(moving, self._limits(units, pods, nodes, np.ones_like(self._stays)), moves_per_hour)
        episode = self._episode(played, sequences, scenario, units, (pods, nodes), rng)
        segments = self._segments(episode.stays(), pods, nodes)
        first, start = np.append(True, segments.pod[1:] != segments.pod[:-1]), self.recorded.start[self.pods]
        machine, seconds = segments.node[first], self.decision_seconds
        return Placed(moving.name, machine, start, moving.knowledge, seconds, segments=segments)

    def misfit(self, moving: Moving, forecaster: Forecaster | None = None) -> str:
        """Tell why a rule that moves means nothing in this cluster.

        Parameters
        ----------
        moving : Moving
            The rule, and what places.
        forecaster : Forecaster or None
            That `play_moves` is given.

        Returns
        -------
        str
            Empty: it can be played.
        """
        scenario, sizes = self._scenario(forecaster), np.unique(self.recorded.size, axis=0)
        if len(sizes) > 1:
            units = np.maximum(sizes * UNITS / sizes.max(axis=0), 1.0).round(9)
            scenario = replace(scenario, machine_types=tuple(f"1x{','.join(map(str, row))}" for row in units.tolist()))
        return moving.rule.misfit(scenario, RESOURCES)

    def _segments(self, stays: Stays, pods: Int, nodes: Int) -> Segments:
        """Where the pods ran, in the order of pods and of time, in slots of the record."""
        pod, begins = pods[stays.workload], self.recorded.start[self.pods]
        ends = begins + self.recorded.length[self.pods]
        begin = np.maximum(stays.begin * self.ratio, begins[pod])
        order = np.lexsort((begin, pod))
        order = order[begin[order] < ends[pod[order]]]  # what has ended before it moves ends where it was
        pod, begin = pod[order], begin[order]
        last = np.append(pod[1:] != pod[:-1], True)
        return Segments(pod, nodes[stays.machine[order]], begin, np.where(last, ends[pod], np.append(begin[1:], 0)))

    def _scenario(self, forecaster: Forecaster | None) -> Scenario:
        return Scenario(
            machines=len(self._room),
            quantise=False,
            placements_per_slot=None,
            queue=min(len(self.pods), QUEUE),
            step_seconds=self.decision_seconds,
            peak_units=6 if forecaster is None else forecaster.peak_units,
            max_slots=0,
        )

    def _for_rule(self, scheduler: Scheduler, units: Float, forecaster: Forecaster | None) -> SequenceSet:
        """What a rule is played on. Raises InputError for a forecaster with slots of another length."""
        sequences: SequenceSet = self._once("rules", lambda: self._for_rules(units))
        if not scheduler.needs_forecasts:
            return sequences
        assert forecaster is not None, "this scheduler needs a forecaster"
        if forecaster.step_seconds != self.decision_seconds:
            raise InputError(
                f"decision_seconds is {self.decision_seconds}: {scheduler.name} needs {forecaster.step_seconds}, "
                "the slots that its forecasts are for; leave --decision-seconds out, or this scheduler"
            )
        table = self._once(
            forecaster, lambda: scaled_table(forecaster, self._told(self._windows(units, "mean"), forecaster))
        )
        return replace(sequences, forecast=table)

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
        played = AsKubernetes(scheduler, self._limits(units, pods, nodes, self._stays))
        episode = self._episode(played, sequences, scenario, units, (pods, nodes), rng)
        recorded = self.recorded.start[self.pods[pods]]
        machine, start = np.empty_like(pods), np.empty_like(pods)
        machine[pods] = np.where(episode.machine >= 0, nodes[episode.machine], -1)
        start[pods] = np.where(episode.start >= 0, np.maximum(episode.start * self.ratio, recorded), -1)
        return Placed(scheduler.name, machine, start, scheduler.knowledge, self.decision_seconds, played.let_go)

    def _episode(
        self,
        played: AsKubernetes,
        sequences: SequenceSet,
        scenario: Scenario,
        units: Float,
        drawn: tuple[Int, Int],
        rng: np.random.Generator | None,
    ) -> Episode:
        """What happens to the pods and on the nodes in the order `drawn`."""
        pods, nodes = drawn
        capacity = np.round(self._room[nodes] * units, 9)
        machines = Machines(np.maximum(capacity, 1e-6), RESOURCES)
        seed = 0 if rng is None else int(rng.integers(2**31))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return Runner(_in_order(sequences, pods), machines, scenario, seed).play(played, 0)

    def _limits(self, units: Float, pods: Int, nodes: Int, stays: npt.NDArray[np.bool_]) -> Limits:
        """For pods at places `pods` of `self.pods` and the nodes, both in that order; `stays`: (N,) those that keep
        their node."""
        recorded, mine = self.recorded, self.pods[pods]
        request = np.nan_to_num(recorded.request) * units
        room = recorded.size * units
        reserved, counted, crowd = self._once("reserved", self._reserved)
        left = np.maximum(room - reserved * units, 0.0) if self.within_requests else np.full_like(room, np.inf)
        return Limits(
            request[mine],
            left[nodes],
            (crowd - counted)[nodes],
            np.where(stays[mine], np.argsort(nodes)[recorded.node[mine]], -1),
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
