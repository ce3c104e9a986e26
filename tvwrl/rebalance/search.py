"""The search for moves: which nodes to empty, or to relieve, with as few moves as that takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.checks import at_least, one_of, positive, within
from tvwrl.planning import Affinity
from tvwrl.rebalance.cluster_state import AFFINITY, ANTI_AFFINITY, ClusterState
from tvwrl.rebalance.search_kernels import (
    CARRIES,
    IS_AFFINITY,
    IS_ANTI_AFFINITY,
    IS_MATCHED,
    IS_SPREAD,
    Placing,
    Pods,
    empty_nodes,
    may_go,
    needs_of,
    relieve_nodes,
    shift,
)
from tvwrl.types import Bool, Float, Float32, InputError, Int

MACHINES, COST, OVERLOAD = "machines", "cost", "overload"
GOALS = (MACHINES, COST, OVERLOAD)
HOURS = 24.0  # for which a node that is emptied is saved
SHARE = 0.02  # of the pods that may move: how many do, unless it is said
TRIES = 3  # nodes that are looked at to make room for a pod: more empty hardly more nodes, and take long
LEAST_EXCESS = 1e-4  # share of a node's limits, mean over the day, that is worth a move
AHEAD = (1.0, 0.0, 0.5, 0.25, 0.1)  # share of the moves whose nodes take no pods, round after round
ROUNDS, PATIENCE = 24, 5  # orders of nodes that are tried, and how many without a better result are enough


@dataclass(frozen=True)
class Goal:
    """What a plan of moves is to reach, and what it may cost.

    Parameters
    ----------
    name : str
        `machines`: empty as many nodes as the moves can. `cost`: the same, by the price of an hour of each. `overload`:
        move pods away from nodes whose load will exceed their limit.
    most_moves : int or None
        Moves at most; None: 2 % of the pods that may move, but 5 or more.
    price_per_move : float
        Machine-hours, or with `cost` money, that each move has to save at least; >= 0.
    limit : float
        Share of a node that forecast load may take, above 0 and at most 2.
    step_seconds : int
        Load is compared in steps of that length, with the largest load of each.
    rounds : int
        Orders in which nodes are tried, >= 1.
    seed : int
        Draws these orders.

    Raises
    ------
    InputError
        An unknown name, or a number out of range.

    Examples
    --------
    >>> Goal("machines", most_moves=40).limit
    0.8
    """

    name: str = MACHINES
    most_moves: int | None = None
    price_per_move: float = 0.0
    limit: float = 0.8
    step_seconds: int = 1800
    rounds: int = ROUNDS
    seed: int = 0

    def __post_init__(self) -> None:
        one_of(GOALS, goal=self.name)
        at_least(0, most_moves=self.most_moves, price_per_move=self.price_per_move, seed=self.seed)
        at_least(1, step_seconds=self.step_seconds, rounds=self.rounds)
        positive(limit=self.limit)
        within(0, 2, limit=self.limit)

    def moves(self, state: ClusterState) -> int:
        """Tell how many moves are allowed.

        Parameters
        ----------
        state : ClusterState
            The cluster.

        Returns
        -------
        int
            0 or more.
        """
        if self.most_moves is not None:
            return self.most_moves
        return max(5, int(SHARE * (state.stays == "").sum()))


@dataclass(frozen=True, eq=False)
class Beside:
    """Limits on how many pods of one application run beside those of another on a node, as in the Tianchi contest.

    Parameters
    ----------
    application : Int
        (N,) 0..A-1.
    affinity : Affinity
        Of A applications.

    Examples
    --------
    >>> Beside(np.array([0, 0, 1]), Affinity.of(2, np.array([0]), np.array([1]), np.array([0]))).affinity
    <Affinity applications=2, limits=1>
    """

    application: Int
    affinity: Affinity


@dataclass(frozen=True, eq=False)
class Found:
    """Moves in an order in which each is possible after those before it.

    Parameters
    ----------
    pod : Int
        (n,) rows of the state.
    source, target : Int
        (n,) nodes.
    emptied : Int
        Nodes that run no pod afterwards but those that belong to them.

    Examples
    --------
    >>> Found(np.array([3]), np.array([1]), np.array([0]), np.array([1])).emptied
    array([1])
    """

    pod: Int
    source: Int
    target: Int
    emptied: Int

    def places(self, state: ClusterState, made: Bool | slice = slice(None)) -> Int:
        """Tell where the pods are afterwards.

        Parameters
        ----------
        state : ClusterState
            Before the moves.
        made : Bool or slice
            (n,) which of the moves are made.

        Returns
        -------
        Int
            (N,) nodes; of a pod that moves twice, the last.
        """
        at = state.at.copy()
        for i, target in np.column_stack([self.pod[made], self.target[made]]).tolist():
            at[i] = target
        return at


def find_moves(
    state: ClusterState,
    load: Float32 | Float,
    goal: Goal,
    beside: Beside | None = None,
    movable: Bool | None = None,
    most_nodes: int | None = None,
) -> Found:
    """Search for the moves that bring a cluster nearest to a goal.

    Nodes are emptied one after another, those with the fewest pods for their worth first; each pod goes to the fullest
    node that has room for it at all times, if need be after a smaller pod has left that for a third node. This is
    repeated with the order of the nodes drawn anew, and the best result counts. To relieve nodes, a pod may change
    places with a smaller one, which waits on a third node meanwhile; no other pod moves twice.

    Parameters
    ----------
    state : ClusterState
        N pods on M nodes.
    load : array
        (N, S, D) cores and GiB at each time that is looked at, as of `Forecast.in_steps` with days and steps as one
        axis; where nodes have further resources, of the first D only.
    goal : Goal
        What to reach.
    beside : Beside or None
        Further limits.
    movable : Bool or None
        (N,) pods that may move; None: those that nothing keeps, and no budget that allows no disruption.
    most_nodes : int or None
        Nodes to empty at most, see `nodes_to_spare`; None: as many as it can.

    Returns
    -------
    Found
        The moves.

    Raises
    ------
    InputError
        Goal `cost` where the price of a node in use is unknown.

    Examples
    --------
    >>> find_moves(state, forecast.in_steps(1800), Goal("machines", 40)).emptied  # doctest: +SKIP
    array([17, 42])
    """
    may_move = movable_now(state) if movable is None else movable
    pods, start = _arrays(state, load, goal.limit, may_move, beside)
    most = goal.moves(state)
    if goal.name == OVERLOAD:
        now = _copy(start)
        relieve_nodes(pods, now, 0, load.shape[1] * load.shape[-1], LEAST_EXCESS, most, TRIES, state.open)
        return _found(now, np.empty(0, np.int64))
    worth = worth_of(state, goal)
    stuck = np.bincount(state.at[~state.bound & ~may_move], minlength=len(state.node)) > 0
    nodes = np.flatnonzero((start.used > 0) & (start.used <= most) & ~stuck & (worth > 0) & state.savable)
    most_nodes = len(nodes) if most_nodes is None else min(most_nodes, len(nodes))
    rng = np.random.default_rng(goal.seed)
    best, highest, without = _found(start, nodes[:0]), 0.0, 0
    enough = _most_worth(start.used[nodes], worth[nodes], most) if goal.price_per_move == 0 else np.inf
    for number in range(goal.rounds):
        noise = rng.normal(0.0, 0.5 * (number // len(AHEAD)) / goal.rounds, len(nodes))
        keys = start.used[nodes] / worth[nodes] * np.exp(noise)
        now = _copy(start)
        order = nodes[np.argsort(keys, kind="stable")]
        if most_nodes:
            ahead = int(most * AHEAD[number % len(AHEAD)])
            empty_nodes(pods, now, order, worth, goal.price_per_move, most, ahead, most_nodes, TRIES)
        emptied = np.flatnonzero((now.used == 0) & (start.used > 0))
        moves = int(now.logged[0])
        value = worth[emptied].sum() - (goal.price_per_move + LEAST_EXCESS) * moves
        better = value > highest
        if better:
            best, highest = _found(now, emptied), value
        without = 0 if better else without + 1
        if without == PATIENCE or worth[emptied].sum() >= enough or len(emptied) == most_nodes:
            break
    return best


def most_emptied(state: ClusterState, moves: int) -> int:
    """Give a bound on how many nodes so many moves can empty: as if every pod had room everywhere.

    Parameters
    ----------
    state : ClusterState
        The cluster.
    moves : int
        Moves at most, >= 0.

    Returns
    -------
    int
        The largest number of nodes with so few pods together.

    Examples
    --------
    >>> most_emptied(state, 40)  # doctest: +SKIP
    5
    """
    used = np.bincount(state.at[~state.bound], minlength=len(state.node))
    stuck = np.bincount(state.at[~state.bound & ~movable_now(state)], minlength=len(state.node)) > 0
    return int((np.cumsum(np.sort(used[(used > 0) & ~stuck & state.savable])) <= moves).sum())


def _most_worth(used: Int, worth: Float, most: int) -> float:
    """A bound on the worth of nodes that can be emptied, `inf` where they differ in worth."""
    if len(worth) == 0 or worth.min() < worth.max():
        return float("inf")
    return float(worth[0] * (np.cumsum(np.sort(used)) <= most).sum())


def admitted(state: ClusterState, load: Float32 | Float, goal: Goal, pods: Int, targets: Int) -> Found:
    """Those of some moves, in this order, that nothing forbids: see `find_moves`.

    `pods`, `targets`: (n,) rows of the state and nodes; of a pod that is named twice, the first move that is possible
    """
    arrays, now = _arrays(state, load, goal.limit, movable_now(state), None)
    made = list[tuple[int, int, int]]()
    for i, m in zip(pods.tolist(), targets.tolist(), strict=True):
        if len(made) == goal.moves(state):
            break
        if arrays.movable[i] and not now.moved[i] and m != now.at[i] and may_go(arrays, now, i, m):
            made.append((i, int(now.at[i]), m))
            shift(arrays, now, i, m)
            now.moved[i] = True
    rows = np.array(made, np.int64).reshape(len(made), 3)
    emptied = np.setdiff1d(np.flatnonzero(state.in_use), np.unique(now.at[~state.bound]))
    return Found(rows[:, 0], rows[:, 1], rows[:, 2], emptied)


def movable_now(state: ClusterState) -> Bool:
    """Tell which pods may be moved as things stand.

    Parameters
    ----------
    state : ClusterState
        N pods.

    Returns
    -------
    Bool
        (N,) True for pods that nothing keeps, and that no budget covers which allows no disruption.

    Examples
    --------
    >>> movable_now(state).sum()  # doctest: +SKIP
    634
    """
    may: Bool = (state.stays == "") & ~state.bound
    for budget in state.budgets:
        if budget.allowed < 1:
            may[budget.pods] = False
    return may


def worth_of(state: ClusterState, goal: Goal) -> Float:
    """(M,) what it saves over the next day that a node is empty."""
    if goal.name == MACHINES:
        return np.full(len(state.node), HOURS)
    unknown = np.isnan(state.price) & state.in_use & state.savable
    if unknown.any():
        first = state.node[int(np.flatnonzero(unknown)[0])]
        raise InputError(
            f"goal is 'cost', but the price of {int(unknown.sum())} nodes is unknown, such as {first}: give "
            "--price-per-machine-hour or --prices"
        )
    worth: Float = HOURS * np.nan_to_num(state.price)
    return worth


def on_nodes(amount: Float | Float32, at: Int, nodes: int) -> Float:
    """(M, K) the sum of what the pods (N, K) on each node need."""
    total = np.zeros((nodes, amount.shape[1]))
    if len(at):
        order = np.argsort(at, kind="stable")
        first = np.flatnonzero(np.diff(at[order], prepend=-1))
        total[at[order[first]]] = np.add.reduceat(amount[order], first, axis=0)
    return total


def _found(now: Placing, emptied: Int) -> Found:
    pod, source = now.log[: now.logged[0]].T.copy()
    target, at = np.empty_like(pod), now.at.copy()
    for j in range(len(pod) - 1, -1, -1):  # a pod that moves twice goes first to where it leaves again
        target[j], at[pod[j]] = at[pod[j]], source[j]
    return Found(pod, source, target, emptied)


def _copy(now: Placing) -> Placing:
    return Placing(*(values.copy() for values in now))  # type: ignore[arg-type]


def _arrays(
    state: ClusterState, load: Float32 | Float, limit: float, movable: Bool, beside: Beside | None
) -> tuple[Pods, Placing]:
    count, nodes = len(state), len(state.node)
    flat = np.asarray(load, np.float64).reshape(count, load.shape[1] * load.shape[2])
    demand = np.concatenate([flat, state.request, np.ones((count, 1))], axis=1)
    resources = load.shape[-1]
    size = np.tile(state.size[:, :resources] * limit, flat.shape[1] // resources)
    capacity = np.concatenate([size, state.size, state.most_pods[:, None].astype(np.float64)], axis=1)
    residual = capacity.copy()
    residual -= on_nodes(demand, state.at, nodes)
    share = _weights(flat.shape[1], state.size.shape[1]) / np.where(capacity > 0, capacity, np.inf)
    on_node = np.bincount(state.at, minlength=nodes)
    width = int(on_node.max(initial=0) + max(on_node.max(initial=0), 40))
    member, members = np.zeros((nodes, width), np.int64), np.zeros(nodes, np.int64)
    for i, m in enumerate(state.at.tolist()):
        member[m, members[m]] = i
        members[m] += 1
    keeps = ~state.bound
    start, term, role, counts = _terms(state)
    domain = np.array([one.domain for one in state.terms], np.int64).reshape(len(state.terms), nodes)
    kinds = {AFFINITY: IS_AFFINITY, ANTI_AFFINITY: IS_ANTI_AFFINITY}
    largest = share[int(capacity.sum(axis=1).argmax())]
    pods = Pods(
        demand,
        needs_of(demand, capacity),
        demand @ largest,
        keeps,
        movable,
        state.group,
        state.allowed,
        state.open,
        share,
        start,
        term,
        role,
        np.array([kinds.get(one.kind, IS_SPREAD) for one in state.terms], np.int64),
        np.array([one.skew for one in state.terms], np.int64),
        domain,
        domain.max(axis=1, initial=-1) + 1,
        *_beside(beside, count),
    )
    now = Placing(
        residual,
        (residual * share).sum(axis=1),
        state.at.copy(),
        member,
        members,
        np.bincount(state.at[keeps], minlength=nodes),
        *counts,
        np.zeros(count, np.bool_),
        np.zeros(nodes, np.bool_),
        np.zeros((2 * count, 2), np.int64),  # a pod that changes places moves twice
        np.zeros(1, np.int64),
    )
    return pods, now


def _weights(loads: int, resources: int) -> Float:
    """(K,) how much each dimension counts where the fullness of nodes and the size of pods is one number: load over the
    day as much as requests, and the number of pods nothing."""
    return np.concatenate([np.full(loads, 0.5 / loads), np.full(resources, 0.5 / resources), [0.0]])


def _terms(state: ClusterState) -> tuple[Int, Int, Int, tuple[Int, Int]]:
    """Terms of each pod, what it is to them, and how many pods there are of each kind in each domain."""
    most = max((int(one.domain.max(initial=-1)) + 1 for one in state.terms), default=1)
    matched, carriers = (np.zeros((len(state.terms), max(most, 1)), np.int64) for _ in range(2))
    rows: list[tuple[int, int, int]] = []
    for t, one in enumerate(state.terms):
        role = np.zeros(len(state), np.int64)
        role[one.carriers] |= CARRIES
        role[one.matched] |= IS_MATCHED
        rows += [(i, t, int(role[i])) for i in np.flatnonzero(role).tolist()]
        for which, counts in ((one.matched, matched), (one.carriers, carriers)):
            where = one.domain[state.at[which]]
            np.add.at(counts[t], where[where >= 0], 1)
    rows.sort()
    table = np.array(rows, np.int64).reshape(len(rows), 3)
    start = np.searchsorted(table[:, 0], np.arange(len(state) + 1)).astype(np.int64)
    return start, table[:, 1].copy(), table[:, 2].copy(), (matched, carriers)


def _beside(beside: Beside | None, count: int) -> tuple[Int, Int, Int, Int, Int, Int, Int]:
    """The application of each pod, and limits beside others and of others beside it."""
    limits = Affinity.of(1) if beside is None else beside.affinity
    application = np.zeros(count, np.int64) if beside is None else beside.application
    rows = (limits.start, limits.to, limits.limit, limits.into_start, limits.into, limits.into_limit)
    return (application.astype(np.int64), *(values.astype(np.int64) for values in rows))  # type: ignore[return-value]
