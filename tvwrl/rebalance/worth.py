"""What moves are expected to be worth over the next day: computed from usage alone, by no code of the search.

Each past day is played as if it were the next one, with the pods that run now where they are and where they would go.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from tvwrl.experiments import estimate_of_one
from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.forecast import DAY, HOUR, Forecast
from tvwrl.rebalance.plan_of_moves import Point
from tvwrl.types import Bool, Float, Int
from tvwrl.what_if import Recorded

FILLED = 0.9  # of the room that load leaves in total can be filled
TOLERANCE = 1e-9  # share of the capacity; rounding of sums is no overload


def expected_worth(
    state: ClusterState,
    at: Int,
    forecast: Forecast,
    recorded: Recorded | None = None,
    limit: float = 1.0,
    done: Float | None = None,
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
    done : Float or None
        (M,) hours from now after which no pod leaves or comes to a node any more, 0 or more; nothing is saved on it
        before. None: all moves are made at once.

    Returns
    -------
    dict of str to Point
        Means and 95 % intervals over the days that were seen: `machine_hours` that are saved, less those for which
        nodes are needed again, at once by pods that wait for a node or later in the day; nodes that are removed
        anyway, or never, save nothing; `money`, at the price of each node, NaN where one is unknown; and how many hours
        more nodes are overloaded, `overload_hours`; `nodes` that are emptied.

    Examples
    --------
    >>> expected_worth(state, at, forecast, recorded)["machine_hours"]  # doctest: +SKIP
    Point(value=46.1, low=44.0, high=48.0)
    """
    savable = state.savable
    before, after = state.in_use & savable, _in_use(state, at) & savable
    day = DAY / HOUR
    done = np.zeros(len(state.node)) if done is None else np.minimum(done, day)
    free = np.where(after, 0.0, np.where(before, day - done, day))  # hours for which each node is not in use
    coming = _coming(state, recorded, forecast.days)
    again = [_needed_again(state, *one, coming) for one in ((state.at, before | ~savable), (at, after | ~savable))]
    needed = np.minimum(again[1], free) - again[0]  # (Y, M) hours for which each node is needed again
    gain = free - np.where(before, 0.0, day)
    gain[~savable], needed[:, ~savable] = 0.0, 0.0
    price = np.where((gain != 0) | needed.any(axis=0), state.price, 0.0)
    money = float(gain @ price) - needed @ price
    touched = np.union1d(at[at != state.at], state.at[at != state.at])
    more = _overload(state, at, forecast, limit, touched, done)
    more -= _overload(state, state.at, forecast, limit, touched, done)
    hours = gain.sum() - needed.sum(axis=1)
    return {
        "nodes": Point(*(float(before.sum() - after.sum()),) * 3),
        "machine_hours": _over_days(hours),
        "money": _over_days(money),
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


def _overload(state: ClusterState, at: Int, forecast: Forecast, limit: float, nodes: Int, done: Float) -> Float:
    """(Y,) hours times nodes, of these, and resources with load above the limit once moves are `done` there."""
    over = np.zeros(forecast.days)
    for m in nodes.tolist():
        load = forecast.use[at == m].sum(axis=0, dtype=np.float64)
        first = int(np.ceil(done[m] * HOUR / forecast.step_seconds))
        over += (load[:, first:] > state.size[m] * (limit + TOLERANCE)).sum(axis=(1, 2))
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
    coming = _coming(state, recorded, forecast.days)
    left = limit * FILLED * size.sum(axis=0) - load - np.einsum("oyp,od->ypd", coming.more, coming.use)
    spare = left / np.where(size.mean(axis=0) > 0, limit * FILLED * size.mean(axis=0), 1.0)
    return max(int(np.floor(spare.min())), 0)


class _Coming(NamedTuple):
    """Pods beyond those that run now or wait, of O owners over Y days of P steps."""

    more: Float  # (O, Y, P) how many
    request: Float  # (O, D) cores and GiB of each
    use: Float  # (O, D) cores and GiB, mean
    step: float  # hours


def _coming(state: ClusterState, recorded: Recorded | None, days: int) -> _Coming:
    """What comes over a day: the pods of an owner beyond as many as it runs now, at their mean request and use."""
    if recorded is None:
        return _Coming(np.zeros((0, days, 1)), np.zeros((0, 2)), np.zeros((0, 2)), DAY / HOUR)
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
    now = Counter(
        str(name) or str(pod) for name, pod in zip(state.owner[~state.bound], state.pod[~state.bound], strict=True)
    ) + Counter(one.owner or one.pod for one in state.waiting)
    more = np.maximum(change[:, :-1].cumsum(axis=1) - np.array([[now[name]] for name in kinds]).reshape(-1, 1), 0.0)
    some = np.flatnonzero(more.any(axis=1))
    request, use = np.zeros((2, len(some), 2))
    for row, o in enumerate(some.tolist()):
        mine = rows[owner == o]
        request[row] = np.nan_to_num(recorded.request[mine]).mean(axis=0) * recorded.reference
        use[row] = np.mean([recorded.usage[i].mean(axis=0) for i in mine.tolist()], axis=0) * recorded.reference
    return _Coming(more[some].reshape(len(some), days, steps), request, use, recorded.interval / HOUR)


def _needed_again(state: ClusterState, at: Int, used: Bool, coming: _Coming) -> Float:
    """(Y, M) hours for which each node that is not in use has to be, as pods that wait, or come, find no room on those
    that are.

    As kube-scheduler spreads pods, each goes to the node in use with the most room; one that is opened stays open until
    the last pod has left it. A node that has room for a pod for which a scheduler found none takes it once pods have
    left.
    """
    hours = np.zeros((coming.more.shape[1], len(state.node)))
    left = state.size.copy()
    np.subtract.at(left, at, state.request)
    size = np.where(state.size > 0, state.size, np.inf)
    now = state.size.copy()
    np.subtract.at(now, state.at, state.request)
    stays = np.ones(len(state.node), np.bool_)  # no pod leaves
    stays[state.at[at != state.at]] = False
    taken = np.zeros(len(state.node), np.int64)  # by pods that wait now
    for one in state.waiting:
        refusing = stays & (now >= one.request).all(axis=1) if one.tried else np.zeros(len(stays), np.bool_)
        m = _place(left, one.request, state.open & one.allowed & ~refusing, used | (taken > 0), size)
        if m >= 0:
            left[m] -= one.request
            taken[m] += not used[m]
    change = np.diff(coming.more, axis=2, prepend=0.0).astype(np.int64)
    for day in range(len(hours)):
        free, opened = left.copy(), taken.copy()  # pods on nodes that were opened
        placed: dict[int, list[int]] = {}
        before = 0
        owners, times = np.nonzero(change[:, day])
        for e in np.lexsort((change[owners, day, times], times)).tolist():  # those that end first
            o, time = int(owners[e]), int(times[e])
            hours[day] += (opened > 0) * (time - before) * coming.step
            before = time
            for _ in range(-int(change[o, day, time])):
                m = placed[o].pop()
                if m >= 0:
                    free[m] += coming.request[o]
                    opened[m] -= opened[m] > 0
            for _ in range(int(change[o, day, time])):
                m = _place(free, coming.request[o], state.open, used | (opened > 0), size)
                placed.setdefault(o, []).append(m)
                if m >= 0:
                    free[m] -= coming.request[o]
                    opened[m] += not used[m]
        hours[day] += (opened > 0) * (coming.more.shape[2] - before) * coming.step
    return hours


def _place(free: Float, request: Float, open_: Bool, used: Bool, size: Float) -> int:
    """The node with the most room among those in use, else another; -1: none has room."""
    room = open_ & (free >= request).all(axis=1)
    among = room & used if (room & used).any() else room
    if not among.any():
        return -1
    return int(np.where(among, (free / size).mean(axis=1), -np.inf).argmax())
