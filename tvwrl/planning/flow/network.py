"""The flow network of a fleet, kept up to date while replicas arrive and leave, machines fail, and residuals change."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tvwrl.checks import at_least, one_of, within
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.types import Float, InputError, Int

BASE = 100.0  # Eq. 8
MAX_RATIO = 100.0  # times the fleet's mean, as resources may be 0


def characteristics(amount: Float, typical: Float) -> Float:
    """(n, D - 1) ratios of resources to the first (RAM to CPU) in `amount` (n, D), divided by `typical` (D - 1,).

    Paper: one ratio, of two resources. Here: D - 1 ratios, each divided by the fleet's mean.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = amount[:, 1:] / amount[:, :1] / typical
    found: Float = np.clip(np.nan_to_num(ratio, nan=1.0, posinf=MAX_RATIO), 0.0, MAX_RATIO)
    return found


def group_machines(ratio: Float, groups: int, seed: int, centres: Float | None = None) -> tuple[Int, Float]:
    """Groups (n,) of machines with these ratios (n, D - 1), and their centres (G, D - 1), by K-means (Eq. 6).

    G is `groups`, or the number of different machines if that is smaller. K-means starts from `centres`, if given, or
    at random.
    """
    from sklearn.cluster import KMeans

    rows, of, count = np.unique(ratio.round(9), axis=0, return_inverse=True, return_counts=True)
    groups = min(groups, len(rows))
    if ratio.shape[1] == 0 or groups == 1:
        return np.zeros(len(ratio), dtype=np.int64), np.average(rows, axis=0, weights=count)[None]
    if centres is not None and len(centres) == groups:
        means = KMeans(groups, init=centres, n_init=1)
    else:
        means = KMeans(groups, n_init=10, random_state=seed)
    means.fit(rows, sample_weight=count)
    group: Int = means.labels_[of.ravel()].astype(np.int64)
    return group, means.cluster_centers_


def flow_costs(ratio: Float, centres: Float) -> Float:
    """(V, G) costs of flow: 100^(x - 1) to the group with the x-th nearest centre (Eq. 7, 8); ties go to the first."""
    distance = np.linalg.norm(ratio[:, None] - centres[None], axis=2)
    rank = np.argsort(np.argsort(distance, axis=1, kind="stable"), axis=1, kind="stable")
    cost: Float = np.power(BASE, rank)
    return cost


MOST_GROUPS = 8  # with more, costs of 100^8 and above are no longer exact
TREES = 4  # dimensions in the trees of residuals
MOST_KINDS = 512  # different applications on one machine
ONLINE_EXAMINED = 2_000  # machines examined for each ejection while an arrival or a failure waits for it


@dataclass(frozen=True)
class FlowSettings:
    """Parameters of Aladdin+H.

    Parameters
    ----------
    groups : int, default 4
        Groups of similar machines, K in Section 3.2; the paper uses 2, 4 and 8.
    order : {'LRF', 'SRF'}, default 'LRF'
        Order of arrival: large demands first (LRF) or small ones (SRF), Section 4.3.
    repack : {'none', 'blocked', 'cheapest'}, default 'blocked'
        When placed replicas may move: never; to let in a replica without a direct path; or also where that is cheaper,
        which is the min-cost flow if capacities can be divided.
    consolidate : bool, default True
        At the end, empty machines whose replicas find room on others in use.
    regroup_every : int, default 10_000
        Replicas placed between two regroupings of machines by their residuals (Section 3.3); 0: never.
    chain_length : int, default 50
        Replicas that may eject others in one chain of moves, before the chain is rolled back.
    examined : int, default 20_000
        Machines that are examined for each ejection.

    Raises
    ------
    InputError
        For values out of range.

    Examples
    --------
    >>> FlowSettings(groups=2).repack
    'blocked'
    """

    groups: int = 4
    order: Literal["LRF", "SRF"] = "LRF"
    repack: Literal["none", "blocked", "cheapest"] = "blocked"
    consolidate: bool = True
    regroup_every: int = 10_000
    chain_length: int = 50
    examined: int = 20_000

    def __post_init__(self) -> None:
        within(1, MOST_GROUPS, groups=self.groups)
        at_least(0, regroup_every=self.regroup_every)
        at_least(1, chain_length=self.chain_length, examined=self.examined)
        one_of(("LRF", "SRF"), order=self.order)
        one_of(("none", "blocked", "cheapest"), repack=self.repack)


@dataclass(frozen=True)
class Repair:
    """Consequences of a machine's failure."""

    displaced: int  # replicas on the failed machine
    replaced: int  # of these, replicas that have another machine now
    migrations: int  # replicas of other machines that moved to make room
    seconds: float


class FlowNetwork:
    """Machines in groups and the replicas on them, for online use: replicas arrive and leave one by one.

    Vertices are the applications of `instance`. If some replicas have to share a machine, pass the instance of
    `problem.merged`, in which each copy of a bundle is a replica of one vertex, its fleet, and its `refused`, which are
    never placed. Replicas of a vertex are interchangeable: they are counted by machine, not numbered. `left` (V,)
    counts replicas without a machine, which wait for `place`.

    Parameters
    ----------
    instance : Instance
        Its applications are the vertices.
    fleet : Fleet
        The machines.
    settings : FlowSettings
        How machines are grouped, and what may move.
    seed : int, default 0
        Of the grouping of machines.
    refused : dict[int, str], optional
        Vertices that are never placed, and why.

    Examples
    --------
    >>> merged = open_problem("generated").merged  # doctest: +SKIP
    >>> network = FlowNetwork(merged.instance, merged.fleet, FlowSettings(), refused=merged.refused)  # doctest: +SKIP
    >>> network.place(arrival_order(merged, "LRF"))  # doctest: +SKIP
    """

    def __init__(
        self,
        instance: Instance,
        fleet: Fleet,
        settings: FlowSettings,
        seed: int = 0,
        refused: Mapping[int, str] | None = None,
    ) -> None:
        from tvwrl.planning.flow.network_kernels import empty_network

        self.settings, self._seed, self._refused = settings, seed, dict(refused or {})
        work = PackingProblem(instance, fleet)
        self._applications = work.applications
        self._capacity = work.kinds
        self._resource = np.tile(np.arange(len(instance.resources)), instance.demand.shape[1])[work.busy]
        asks = work.demand.any(axis=1)
        with np.errstate(divide="ignore"):
            most = (work.kinds.max(axis=0) / work.demand[asks].min(axis=0, initial=np.inf)).min()
        width = int(min(len(instance), min(MOST_KINDS, max(most, 1)) + (~asks).sum())) + 1  # all that asks for nothing
        self._n: Any = empty_network(work.kinds, len(instance), width, min(TREES, work.demand.shape[1]))
        capacity = self._by_resource(work.kinds)
        self._typical: Float = (capacity[:, 1:] / capacity[:, :1]).mean(axis=0)
        self._task_ratio = characteristics(self._by_resource(work.demand), self._typical)
        self._centres: Float | None = None
        self._group = np.zeros(len(capacity), dtype=np.int64)
        self._smallest = work.demand.min(axis=0)
        self.left = instance.replicas.copy()
        self._moved = np.zeros(1, dtype=np.int64)
        self.regroup_seconds = 0.0
        self._since = 0
        self.regroup()

    def _by_resource(self, amount: Float) -> Float:
        """(n, D) means over times of `amount` (n, K)."""
        columns = [amount[:, self._resource == d].mean(axis=1) for d in range(self._resource.max() + 1)]
        return np.stack(columns, axis=1)

    @property
    def migrations(self) -> int:
        """Moves of replicas from one machine to another so far."""
        return int(self._moved[0])

    @property
    def groups(self) -> Int:
        """(M,) group of each machine."""
        group: Int = self._n.group.astype(np.int64)
        return group

    @property
    def centres(self) -> Float:
        """(G, D - 1) centres of the groups: ratios of resources to the first."""
        assert self._centres is not None
        return self._centres * self._typical

    @property
    def cost(self) -> float:
        """Cost of the flow: c_ij of Eq. 8 summed over all placed replicas."""
        return float((self._n.present * self._n.cost.T).sum())

    def regroup(self) -> None:
        """Regroup machines by their residuals (Section 3.3). Machines without room for any vertex keep their group."""
        from tvwrl.packing import fits

        begun = time.process_time()
        roomy = fits(self._smallest, self._n.residual, self._capacity) & self._n.up
        if self._centres is None:
            roomy[:] = True
        if roomy.any():
            left = characteristics(self._by_resource(self._n.residual[roomy]), self._typical)
            self._group[roomy], self._centres = group_machines(left, self.settings.groups, self._seed, self._centres)
            assert self._centres is not None
            group = np.minimum(self._group, len(self._centres) - 1)
            self.set_groups(group, flow_costs(self._task_ratio, self._centres))
        self._since = 0
        self.regroup_seconds += time.process_time() - begun

    def set_groups(self, group: Int, cost: Float) -> None:
        """Set the groups of machines, and what vertices cost there.

        Parameters
        ----------
        group : array
            (M,) group of each machine; the largest machine of a group comes first.
        cost : array
            (V, G) cost of each vertex in each group.
        """
        from tvwrl.planning.flow.network_kernels import build_trees

        n, groups = self._n, cost.shape[1]
        large = (self._capacity / self._capacity.max(axis=0)).sum(axis=1)
        order = np.lexsort((-large, group)).astype(np.int32)
        position = np.empty_like(order)
        position[order] = np.arange(len(order), dtype=np.int32)
        rows, kind = np.unique(cost, axis=0, return_inverse=True)
        smallest = np.full((len(rows), n.used.shape[1]), np.inf)
        np.minimum.at(smallest, kind.ravel(), self._applications.demand[:, : n.used.shape[1]])
        self._n = n._replace(
            group=group.astype(np.int32),
            order=order,
            position=position,
            begin=np.searchsorted(group[order], np.arange(groups + 1)).astype(np.int64),
            kind=kind.ravel().astype(np.int32),
            cost=rows,
            preference=np.argsort(rows, axis=1, kind="stable").astype(np.int32),
            smallest=smallest,
            present=np.zeros((groups, len(rows)), dtype=np.int64),
        )
        vertex, machine, count = self.placed()
        np.add.at(self._n.present, (self._n.group[machine], self._n.kind[vertex]), count)
        build_trees(self._n)

    def placed(self) -> tuple[Int, Int, Int]:
        """What is placed, sorted by machine.

        Returns
        -------
        tuple of arrays
            Columns vertex, machine and replicas (>= 1).
        """
        n = self._n
        machine = np.repeat(np.arange(len(n.kinds)), n.kinds)
        entry = np.arange(len(machine)) - np.repeat(np.cumsum(n.kinds) - n.kinds, n.kinds)
        return n.application[machine, entry].astype(np.int64), machine, n.count[machine, entry].astype(np.int64)

    def place(self, queue: Int) -> int:
        """Place waiting replicas.

        Parameters
        ----------
        queue : array
            (n,) vertices, in the order in which their replicas are placed.

        Returns
        -------
        int
            How many replicas were placed.

        Raises
        ------
        InputError
            For vertices that do not exist.
        """
        within(0, len(self.left) - 1, vertex=queue[(queue < 0) | (queue >= len(self.left))][:1])
        return self._place(queue[~np.isin(queue, list(self._refused))], self.settings.examined)

    def _place(self, queue: Int, examined: int) -> int:
        every, cheapest = self.settings.regroup_every, self.settings.repack == "cheapest"
        before = int(self.left.sum())
        size = np.cumsum(self.left[queue])
        begin = 0
        while begin < len(queue):
            had = size[begin - 1] if begin else 0
            end = len(queue) if not every else int(np.searchsorted(size, had + every - self._since)) + 1
            part = queue[begin:end]
            waiting = int(self.left[part].sum())
            self._place_now(part, examined, cheapest)
            self._since += waiting - int(self.left[part].sum())
            if every and self._since >= every:
                self.regroup()
            begin = min(end, len(queue))
        return before - int(self.left.sum())

    def _place_now(self, queue: Int, examined: int, cheapest: bool) -> None:
        """Place waiting replicas without regrouping in between."""
        from tvwrl.planning.flow.network_kernels import place_all

        chain = 0 if self.settings.repack == "none" else self.settings.chain_length
        place_all(self._applications, self._n, queue, self.left, cheapest, chain, examined, self._moved)

    def arrive(self, vertex: int, replicas: int = 1) -> int:
        """Add replicas of a vertex, and place those that wait.

        Parameters
        ----------
        vertex : int
            Whose replicas arrive.
        replicas : int, default 1
            How many arrive, >= 1.

        Returns
        -------
        int
            How many waiting replicas of it found a machine; the others stay in `left`.

        Raises
        ------
        InputError
            There is no such vertex, it fits nowhere, or `replicas` is below 1.
        """
        within(0, len(self.left) - 1, vertex=vertex)
        if replicas < 1 or replicas != int(replicas):
            raise InputError(f"replicas is {replicas}: must be a whole number, at least 1")
        if vertex in self._refused:
            raise InputError(f"vertex {vertex} fits nowhere: {self._refused[vertex]}")
        self.left[vertex] += replicas
        return self._place(np.array([vertex]), min(self.settings.examined, ONLINE_EXAMINED))

    def depart(self, vertex: int, machine: int) -> None:
        """Remove a replica of a vertex from a machine.

        Parameters
        ----------
        vertex : int
            Whose replica leaves.
        machine : int
            Where it was.

        Raises
        ------
        InputError
            There is none.
        """
        from tvwrl.planning.flow.network_kernels import remove_replica

        within(0, len(self.left) - 1, vertex=vertex)
        within(0, len(self._n.kinds) - 1, machine=machine)
        if vertex not in self._n.application[machine, : self._n.kinds[machine]]:
            raise InputError(f"machine {machine} has no replica of vertex {vertex}")
        self._n.log[0] = 0
        remove_replica(self._applications, self._n, vertex, machine)

    def fail(self, machine: int) -> Repair:
        """Take a machine out of service and place its replicas elsewhere, moving others where that is necessary.

        Parameters
        ----------
        machine : int
            The machine that fails.

        Returns
        -------
        Repair
            How many replicas were displaced, how many of them have another machine now, how many others moved, and the
            seconds that it took.

        Raises
        ------
        InputError
            There is no such machine, or it has already failed.
        """
        from tvwrl.packing import INITIAL_WEIGHT
        from tvwrl.planning.flow.network_kernels import remove_replica, update_trees

        within(0, len(self._n.kinds) - 1, machine=machine)
        n, moved = self._n, self.migrations
        if not n.up[machine]:
            raise InputError(f"machine {machine} has already failed")
        begun = time.perf_counter()
        vertices = n.application[machine, : n.kinds[machine]].astype(np.int64)
        counts = n.count[machine, : n.kinds[machine]].astype(np.int64)
        n.up[machine] = False
        for vertex, count in zip(vertices.tolist(), counts.tolist(), strict=True):
            for _ in range(count):
                n.log[0] = 0
                remove_replica(self._applications, n, vertex, machine)
        update_trees(n, machine)
        waiting = self.left.copy()
        self.left[:] = 0
        self.left[vertices] = counts
        size = self._applications.demand[vertices] / self._capacity.max(axis=0)
        n.weight[:] = INITIAL_WEIGHT  # earlier ejections say nothing about this failure
        largest_first = vertices[np.argsort(-size.max(axis=1))]
        self._place_now(largest_first, min(self.settings.examined, ONLINE_EXAMINED), cheapest=False)
        lost = int(self.left.sum())
        self.left += waiting
        displaced = int(counts.sum())
        return Repair(displaced, displaced - lost, self.migrations - moved, time.perf_counter() - begun)

    def recover(self, machine: int) -> None:
        """Put a failed machine, now empty, back into service.

        Parameters
        ----------
        machine : int
            The machine.

        Raises
        ------
        InputError
            It has not failed.
        """
        from tvwrl.planning.flow.network_kernels import update_trees

        within(0, len(self._n.kinds) - 1, machine=machine)
        if self._n.up[machine]:
            raise InputError(f"machine {machine} has not failed")
        self._n.up[machine] = True
        update_trees(self._n, machine)

    def improve(self) -> None:
        """Move placed replicas: to cheaper groups if `repack` is "cheapest"; then off machines that can be emptied.

        The emptiest machines are tried first, until none can be emptied. With `repack` "none" nothing moves.
        """
        from tvwrl.planning.flow.network_kernels import cancel_cycles, consolidate

        repack = self.settings.repack
        while repack == "cheapest" and cancel_cycles(self._applications, self._n, self._moved):
            pass
        closed = int(self.settings.consolidate and repack != "none")
        while closed:
            share = 1.0 - (self._n.residual / self._capacity).min(axis=1)
            closed = consolidate(self._applications, self._n, np.argsort(share, kind="stable"), self._moved)
