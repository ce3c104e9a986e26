"""A plan of moves for a cluster: searched for, put in order, and judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from tvwrl.rebalance.batches import NEVER, BatchLimits, batches_of, needed_before
from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.eviction_budgets import EvictionBudgets
from tvwrl.rebalance.forecast import Forecast
from tvwrl.rebalance.plan_of_moves import MovePlan, PodMove, Point
from tvwrl.rebalance.search import HOURS, OVERLOAD, Found, Goal, find_moves, movable_now, on_nodes, worth_of
from tvwrl.rebalance.worth import expected_worth, nodes_to_spare
from tvwrl.types import Bool, Float, Int
from tvwrl.what_if import Recorded

PROTECTED = "covered by a PodDisruptionBudget that allows no disruption now"
BEGIN, BATCH = 0.1, 1 / 30  # hours until the first eviction, and that a batch is taken to last
Finds = Callable[[ClusterState, Forecast, Goal, int | None], Found]


def search(state: ClusterState, forecast: Forecast, goal: Goal, most_nodes: int | None) -> Found:
    """Find moves by the search: see `find_moves`."""
    return find_moves(state, forecast.at_moments(goal.step_seconds), goal, most_nodes=most_nodes)


def make_plan(
    state: ClusterState,
    forecast: Forecast,
    goal: Goal | None = None,
    recorded: Recorded | None = None,
    limits: BatchLimits | None = None,
    finds: Finds = search,
    hourly: EvictionBudgets | None = None,
) -> MovePlan:
    """Plan which pods to move where, and in which order.

    Parameters
    ----------
    state : ClusterState
        The cluster.
    forecast : Forecast
        What its pods will use.
    goal : Goal or None
        What to reach; None: to empty nodes with 2 % of the pods.
    recorded : Recorded or None
        The past, for what comes over a day: see `expected_worth` and `nodes_to_spare`.
    limits : BatchLimits or None
        How many pods may be on their way at a time.
    finds : callable
        Finds the moves.
    hourly : EvictionBudgets or None
        How many pods may be evicted in an hour: nodes are saved from the moment at which they are empty, where moves
        begin six minutes from now and batches last two minutes. None: all moves are made now.

    Returns
    -------
    MovePlan
        The plan; without moves if none is worth its price.

    Raises
    ------
    InputError
        Goal `cost` where the price of a node in use is unknown.

    Examples
    --------
    >>> from tvwrl.rebalance import foresee, generated_cluster
    >>> cluster = generated_cluster(12)
    >>> plan = make_plan(cluster.state, foresee(cluster.past, cluster.state), Goal(most_moves=20))
    >>> len(plan.moves) <= 20
    True
    """
    goal = goal or Goal()
    spare = None if recorded is None else nodes_to_spare(state, forecast, recorded, goal.limit)
    found = finds(state, forecast, goal, spare)
    drops, wanted = finds is search and goal.name != OVERLOAD, state.savable
    every = found, batches_of(state, found, limits)
    while True:
        found, batch = _worth_making(state, *every, wanted if drops else None)
        order = np.argsort(batch, kind="stable")
        at = found.places(state)
        emptied = np.setdiff1d(np.flatnonzero(state.in_use & state.savable), np.unique(at[~state.bound]))
        made = _made(state, found, batch, order, hourly)
        done = np.zeros(len(state.node))
        np.maximum.at(done, np.concatenate([found.source, found.target]), np.concatenate([made, made]))
        late = _too_late(state, found, emptied[wanted[emptied]], done, goal) if drops else -1
        if late < 0:
            break
        wanted = wanted & (np.arange(len(wanted)) != late)
    over = goal.limit if goal.name == OVERLOAD else 1.0
    expected = expected_worth(state, at, forecast, recorded, over, done)
    expected["hours"] = Point(*(float(made.max(initial=0.0)),) * 3)
    relief = max(0.0, -expected["overload_hours"].value) / max(len(order), 1)
    leaving, filled = Counter(found.source.tolist()), set(found.target.tolist())
    gained = np.isin(np.arange(len(state.node)), emptied)
    risk = _risks(state, forecast)
    used, asked = _fullest(state, at, forecast, goal)
    full_before, _ = _fullest(state, state.at, forecast, goal)
    moves, seen = list[PodMove](), set[int]()
    for j in order.tolist():
        i, source, target = int(found.pod[j]), int(found.source[j]), int(found.target[j])
        again = i in seen
        seen.add(i)
        if again:
            reason = "back from a node where it waited, in exchange"
        elif gained[source]:
            others = leaving[source] - 1
            reason = f"empties {state.node[source]}" + (f", with {others} other{'s' * (others > 1)}" if others else "")
        elif goal.name == OVERLOAD and full_before[source] > goal.limit:
            reason = f"{state.node[source]} would exceed {goal.limit:.0%}"
        elif source in filled:
            reason = "makes room for another"
        else:
            reason = f"leaves {state.node[source]}, which is not emptied"
        full = f"target then {asked[target]:.0%} requested, {used[target]:.0%} used at most"
        saving = (
            max(HOURS - done[source], 0.0) / leaving[source]
            if gained[source]
            else relief
            if goal.name == OVERLOAD
            else 0.0
        )
        words = "; ".join(filter(None, (full, risk[i])))
        moves.append(
            PodMove(
                int(batch[j]),
                str(state.pod[i]),
                "" if again else str(state.uid[i]),  # nobody knows the next one
                str(state.owner[i]),
                str(state.node[source]),
                str(state.node[target]),
                reason,
                saving,
                words,
            )
        )
    return MovePlan(
        state.time,
        state.source,
        goal.name,
        tuple(moves),
        tuple(str(state.node[m]) for m in emptied),
        expected,
        _staying(state),
        state.unknown,
    )


def _worth_making(state: ClusterState, found: Found, batch: Int, wanted: Bool | None) -> tuple[Found, Int]:
    """Without moves that no batch takes, and with (M,) nodes that are `wanted` those that then help to empty none of
    them."""
    made, needs = batch != NEVER, needed_before(state, found)
    while wanted is not None:
        gone: Bool = np.ones(len(state.node), np.bool_)
        gone[found.places(state, made)[~state.bound]] = False
        gone &= wanted
        useful = made & gone[found.source]
        for j in range(len(useful) - 1, -1, -1):  # what a move needs is made before it
            if useful[j]:
                useful[needs[j]] = True
        if (useful == made).all():
            break
        made = useful
    kept = Found(found.pod[made], found.source[made], found.target[made], found.emptied)
    return kept, batch[made]


def _too_late(state: ClusterState, found: Found, emptied: Int, done: Float, goal: Goal) -> int:
    """The node that is emptied so late that the moves which leave it are not worth their price, the worst of several;
    -1: there is none. The search, which knows no hours, takes nodes to be saved for a whole day."""
    if goal.price_per_move == 0 or not len(emptied):
        return -1
    saved = worth_of(state, goal)[emptied] * np.maximum(HOURS - done[emptied], 0.0) / HOURS
    each = saved / np.maximum(np.bincount(found.source, minlength=len(state.node))[emptied], 1)
    worst = int(each.argmin())
    return int(emptied[worst]) if each[worst] < goal.price_per_move else -1


def _made(state: ClusterState, found: Found, batch: Int, order: Int, hourly: EvictionBudgets | None) -> Float:
    """(n,) hours from now at which each move is made, each in the first hour in which the budgets allow it and what it
    needs has been made; infinite if that never comes."""
    made = np.zeros(len(batch))
    if hourly is None:
        return made
    needs, hours = needed_before(state, found), np.zeros(len(batch), np.int64)
    spent = Counter[tuple[int, str, object]]()
    for j in order.tolist():
        i = int(found.pod[j])
        counted: list[tuple[str, object, int]] = [
            ("all", "", hourly.hourly),
            ("node", int(found.source[j]), hourly.hourly_per_node),
            ("namespace", str(state.pod[i]).partition("/")[0], hourly.hourly_per_namespace),
            ("owner", state.owner[i] or state.pod[i], hourly.hourly_per_owner),
        ]
        hour = max((int(hours[i]) for i in needs[j]), default=0)
        while hour < HOURS and any(spent[hour, what, which] >= most for what, which, most in counted):
            hour += 1
        spent.update((hour, what, which) for what, which, _ in counted)
        hours[j] = hour
        made[j] = BEGIN + max(hour, (batch[j] + 1) * BATCH) if hour < HOURS else np.inf
    return made


def _staying(state: ClusterState) -> dict[str, int]:
    """How many pods must not be moved, by reason, but for those that belong to their nodes."""
    found = Counter(str(words) for words in state.stays[~state.bound] if words)
    covered = int((~movable_now(state) & (state.stays == "") & ~state.bound).sum())
    return dict(found.most_common()) | ({PROTECTED: covered} if covered else {})


def _risks(state: ClusterState, forecast: Forecast) -> list[str]:
    """(N,) what may go wrong with a pod that is moved, in words."""
    alone = Counter(name for name in state.owner if name)
    words = []
    for i in range(len(state)):
        found = [f"priority {state.priority[i]}"] if state.priority[i] > 0 else []
        if alone[state.owner[i]] == 1:
            found.append("only pod of its owner: none serves until the new one is ready")
        if forecast.seen[i] * forecast.step_seconds < 86400:
            hours = forecast.seen[i] * forecast.step_seconds / 3600
            found.append(f"seen for {hours:.1f} h only")
        words.append("; ".join(found))
    return words


def _fullest(state: ClusterState, at: Int, forecast: Forecast, goal: Goal) -> tuple[Float, Float]:
    """(M,) the largest share of each node that is used at any time, and that is requested, of any resource."""
    nodes, size = len(state.node), np.where(state.size > 0, state.size, np.inf)
    each = forecast.at_moments(goal.step_seconds)
    _, moments, resources = each.shape
    load = on_nodes(each.reshape(len(each), moments * resources), at, nodes).reshape(nodes, moments, resources)
    used: Float = (load.max(axis=1) / size).max(axis=1)
    asked: Float = (on_nodes(state.request, at, nodes) / size).max(axis=1)
    return used, asked
