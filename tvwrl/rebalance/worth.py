"""What moves are expected to be worth over the next day: computed from usage alone, by no code of the search.

Each past day is played as if it were the next one, with the pods that run now where they are and where they would go.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tvwrl.experiments import estimate_of_one
from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.forecast import DAY, HOUR, Forecast
from tvwrl.rebalance.plan_of_moves import Point
from tvwrl.types import Bool, Float, Int
from tvwrl.what_if import Recorded

FILLED = 0.9  # of the room that is left, in total, can be filled by pods that come
TOLERANCE = 1e-9  # share of the capacity; rounding of sums is no overload


def expected_worth(
    state: ClusterState, at: Int, forecast: Forecast, recorded: Recorded | None = None, limit: float = 1.0
) -> dict[str, Point]:
    """Say what the next day would be like with pods elsewhere.

    Parameters
    ----------
    state : ClusterState
        N pods on M nodes.
    at : Int
        (N,) where the pods would be.
    forecast : Forecast
        What they use.
    recorded : Recorded or None
        The past, for what else comes over a day: pods of jobs, and replicas that an autoscaler adds. They need some of
        the nodes that were emptied. None: nothing comes.
    limit : float
        Share of a node above which load is overload.

    Returns
    -------
    dict of str to Point
        Means and 95 % intervals over the days that were seen: `machine_hours` that are saved, less those for which
        nodes are needed again; `money`, at the price of each node, NaN where one is unknown; and how many hours more
        nodes are overloaded, `overload_hours`; `nodes` that are emptied.

    Examples
    --------
    >>> expected_worth(state, at, forecast, recorded)["machine_hours"]  # doctest: +SKIP
    Point(value=46.1, low=44.0, high=48.0)
    """
    before, after = state.in_use, _in_use(state, at)
    hours = np.full(forecast.days, 24.0 * (before.sum() - after.sum()))
    if recorded is not None:
        coming, _ = _coming(state, recorded, forecast.days)
        room = [_room(state, where, used) for where, used in ((state.at, before), (at, after))]
        again = [_nodes_for(coming, left, state.size[before].mean(axis=0)) for left in room]
        hours = hours - (again[1] - again[0]).sum(axis=1) * recorded.interval / HOUR
    price = float(state.price[before & ~after].mean()) if (before & ~after).any() else 0.0
    touched = np.union1d(at[at != state.at], state.at[at != state.at])
    more = _overload(state, at, forecast, limit, touched) - _overload(state, state.at, forecast, limit, touched)
    return {
        "nodes": Point(*(float(before.sum() - after.sum()),) * 3),
        "machine_hours": _over_days(hours),
        "money": _over_days(hours * price),
        "overload_hours": _over_days(more),
    }


def _in_use(state: ClusterState, at: Int) -> Bool:
    used = np.zeros(len(state.node), np.bool_)
    used[at[~state.bound]] = True
    return used


def _over_days(values: Float) -> Point:
    if np.isnan(values).any():
        return Point(float("nan"), float("nan"), float("nan"))
    found = estimate_of_one(values[None])
    return Point(float(values.mean()), *map(float, found.interval))


def _overload(state: ClusterState, at: Int, forecast: Forecast, limit: float, nodes: Int) -> Float:
    """(Y,) hours times nodes, of these, and resources with load above the limit."""
    over = np.zeros(forecast.days)
    for m in nodes.tolist():
        load = forecast.use[at == m].sum(axis=0, dtype=np.float64)
        over += (load > state.size[m] * (limit + TOLERANCE)).sum(axis=(1, 2))
    return over * forecast.step_seconds / HOUR


def nodes_to_spare(state: ClusterState, forecast: Forecast, recorded: Recorded, limit: float) -> int:
    """Tell how many nodes can do without pods while load, with what else comes over a day, stays below a limit.

    Kubernetes opens a node again for requests that find no room, but not for load: so this looks at load alone.

    Parameters
    ----------
    state : ClusterState
        N pods on M nodes.
    forecast : Forecast
        What they use.
    recorded : Recorded
        The past, for what comes over a day.
    limit : float
        Share of a node that load may take.

    Returns
    -------
    int
        At the fullest moment of all days that were seen; 0 or more.

    Examples
    --------
    >>> nodes_to_spare(state, forecast, recorded, 0.9)  # doctest: +SKIP
    23
    """
    used = state.in_use & state.open
    size = state.size[used]
    if not len(size):
        return 0
    load = forecast.use[used[state.at]].sum(axis=0, dtype=np.float64)
    left = limit * FILLED * size.sum(axis=0) - load - _coming(state, recorded, forecast.days)[1]
    spare = left / np.where(size.mean(axis=0) > 0, limit * FILLED * size.mean(axis=0), 1.0)
    return max(int(np.floor(spare.min())), 0)


def _coming(state: ClusterState, recorded: Recorded, days: int) -> tuple[Float, Float]:
    """(Y, P, D) cores and GiB that are requested and used by pods beyond those that run now: those of an owner beyond
    as many as it runs now, at their mean."""
    steps = DAY // recorded.interval
    begin = recorded.slots - days * steps
    first = np.maximum(recorded.start - begin, 0)
    last = recorded.start + recorded.length - begin
    rows = np.flatnonzero(~recorded.bound & (last > 0))
    names = [str(recorded.owner[i]) or str(recorded.pod[i]) for i in rows.tolist()]
    kinds, owner = np.unique(np.array(names, object), return_inverse=True)
    change = np.zeros((len(kinds), days * steps + 1))
    np.add.at(change, (owner, first[rows]), 1.0)
    np.add.at(change, (owner, last[rows]), -1.0)
    now = Counter(state.owner[~state.bound])
    more = np.maximum(change[:, :-1].cumsum(axis=1) - np.array([[now[name]] for name in kinds]).reshape(-1, 1), 0.0)
    total = np.zeros((2, days * steps, 2))
    for o in np.flatnonzero(more.any(axis=1)).tolist():
        mine = rows[owner == o]
        requests = np.nan_to_num(recorded.request[mine]).mean(axis=0)
        use = np.mean([recorded.usage[i].mean(axis=0) for i in mine.tolist()], axis=0)
        total[0] += more[o][:, None] * requests * recorded.reference
        total[1] += more[o][:, None] * use * recorded.reference
    requests, use = total.reshape(2, days, steps, 2)
    return requests, use


def _room(state: ClusterState, at: Int, used: Bool) -> Float:
    """(D,) cores and GiB that requests leave on nodes in use that take pods."""
    left = state.size.copy()
    np.subtract.at(left, at, state.request)
    room: Float = np.maximum(left[used & state.open], 0.0).sum(axis=0)
    return room


def _nodes_for(coming: Float, room: Float, size: Float) -> Float:
    """(Y, P) nodes that pods need beyond the room that there is."""
    short = np.maximum(coming - FILLED * room, 0.0) / (FILLED * np.maximum(size, TOLERANCE))
    nodes: Float = np.ceil(short.max(axis=2))
    return nodes
