"""Compiled loops of the search for moves: whether a pod may go to a node, and what it takes to empty a node.

Letters: N pods, M nodes, K dimensions in which a pod needs room (each resource at each time that is looked at,
requests, and one place), G groups, T terms, A applications; W: most pods on one node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing import has_room, needed
from tvwrl.types import Bool, Float, Int

IS_AFFINITY, IS_ANTI_AFFINITY, IS_SPREAD = 0, 1, 2
CARRIES, IS_MATCHED = 1, 2  # what a pod is to a term; bits
NOWHERE = -1
MOST_FAILED = 30  # nodes in a row that could not be emptied, after which no others are tried


class Pods(NamedTuple):
    """What does not change while pods move."""

    demand: Float  # (N, K)
    needed: Float  # (N, K) as of `packing.needed`
    size: Float  # (N,) mean share of the largest node
    keeps: Bool  # (N,) whether it keeps a node in use
    movable: Bool  # (N,)
    group: Int  # (N,)
    allowed: Bool  # (G, M)
    open: Bool  # (M,)
    share: Float  # (M, K) 1 / (capacity x K), 0 where there is none
    term_start: Int  # (N + 1,) terms of pod i are `term_start[i] .. term_start[i + 1] - 1` of the next two
    term: Int  # (n,)
    role: Int  # (n,) bits
    term_kind: Int  # (T,)
    skew: Int  # (T,)
    domain: Int  # (T, M)
    domains: Int  # (T,)
    application: Int  # (N,) 0..A-1
    beside_start: Int  # (A + 1,) rows of application a are `beside_start[a] .. beside_start[a + 1] - 1`
    beside: Int  # (n,) another application, or the same
    beside_most: Int  # (n,) of which so many pods may be on a node that runs any of application a
    into_start: Int  # (A + 1,) the same, by the other application
    into: Int  # (n,)
    into_most: Int  # (n,)


class Placing(NamedTuple):
    """Where the pods are; changed in place."""

    residual: Float  # (M, K)
    slack: Float  # (M,) mean share of the capacity that is left
    at: Int  # (N,)
    member: Int  # (M, W) pods on a node, in any order
    members: Int  # (M,) how many
    used: Int  # (M,) pods that keep it in use
    matched: Int  # (T, most domains) matched pods in a domain
    carriers: Int  # (T, most domains) pods in a domain that declare the term
    moved: Bool  # (N,)
    closed: Bool  # (M,) takes no pods, as it was emptied, or may still be
    log: Int  # (N, 2) pod and node that it left, in order
    logged: Int  # (1,)


@inner
def _terms_allow(pods: Pods, now: Placing, i: int, m: int) -> bool:
    for e in range(pods.term_start[i], pods.term_start[i + 1]):
        t = pods.term[e]
        carries, matched = pods.role[e] & CARRIES != 0, pods.role[e] & IS_MATCHED != 0
        old, new, kind = pods.domain[t, now.at[i]], pods.domain[t, m], pods.term_kind[t]
        if new < 0 and carries:
            return False
        same = new == old
        if kind == IS_ANTI_AFFINITY and new >= 0:
            others = now.matched[t, new] - (1 if same and matched else 0)
            against = now.carriers[t, new] - (1 if same and carries else 0)
            if (carries and others > 0) or (matched and against > 0):
                return False
        elif kind == IS_AFFINITY:
            if carries and now.matched[t, new] - (1 if same and matched else 0) == 0:
                return False
            if matched and old >= 0 and not same and now.matched[t, old] == 1:
                needing = now.carriers[t, old] - (1 if carries else 0)
                if needing > 0:  # the last one that they need would leave
                    return False
        elif kind == IS_SPREAD and pods.domains[t] > 0:
            count = now.matched[t, : pods.domains[t]].copy()
            before = count.max() - count.min()
            if matched and old >= 0:
                count[old] -= 1
            if matched and new >= 0:
                count[new] += 1
            after, above = count.max() - count.min(), (count[new] if new >= 0 else 0) - count.min()
            if (matched and after > max(pods.skew[t], before)) or (carries and above > pods.skew[t]):
                return False
    return True


@inner
def _beside(pods: Pods, now: Placing, i: int, m: int) -> bool:
    """Whether the applications on node m bear pod i beside them, and it them."""
    a = pods.application[i]
    if pods.beside_start[a] == pods.beside_start[a + 1] and pods.into_start[a] == pods.into_start[a + 1]:
        return True
    own = 0
    for w in range(now.members[m]):
        own += pods.application[now.member[m, w]] == a
    for w in range(now.members[m]):
        b = pods.application[now.member[m, w]]
        for e in range(pods.beside_start[a], pods.beside_start[a + 1]):
            if pods.beside[e] == b and a != b:
                there = 0
                for v in range(now.members[m]):
                    there += pods.application[now.member[m, v]] == b
                if there > pods.beside_most[e]:
                    return False
        for e in range(pods.into_start[a], pods.into_start[a + 1]):
            if pods.into[e] == b and own + 1 > pods.into_most[e]:
                return False
    return True


@njit
def may_go(pods: Pods, now: Placing, i: int, m: int) -> bool:
    """Whether pod i may run on node m beside what is there: rules, room, and neighbours."""
    if not pods.open[m] or not pods.allowed[pods.group[i], m] or now.members[m] == now.member.shape[1]:
        return False
    return has_room(pods.needed, i, now.residual, m) and _terms_allow(pods, now, i, m) and _beside(pods, now, i, m)


@njit
def shift(pods: Pods, now: Placing, i: int, m: int) -> None:
    """Let pod i be on node m instead of where it is."""
    old = now.at[i]
    for k in range(pods.demand.shape[1]):
        now.residual[old, k] += pods.demand[i, k]
        now.residual[m, k] -= pods.demand[i, k]
        now.slack[old] += pods.demand[i, k] * pods.share[old, k]
        now.slack[m] -= pods.demand[i, k] * pods.share[m, k]
    for w in range(now.members[old]):
        if now.member[old, w] == i:
            now.members[old] -= 1
            now.member[old, w] = now.member[old, now.members[old]]
            break
    now.member[m, now.members[m]] = i
    now.members[m] += 1
    if pods.keeps[i]:
        now.used[old] -= 1
        now.used[m] += 1
    for e in range(pods.term_start[i], pods.term_start[i + 1]):
        t = pods.term[e]
        before, after = pods.domain[t, old], pods.domain[t, m]
        if pods.role[e] & IS_MATCHED:
            if before >= 0:
                now.matched[t, before] -= 1
            if after >= 0:
                now.matched[t, after] += 1
        if pods.role[e] & CARRIES:
            if before >= 0:
                now.carriers[t, before] -= 1
            if after >= 0:
                now.carriers[t, after] += 1
    now.at[i] = m


@inner
def _go(pods: Pods, now: Placing, i: int, m: int) -> None:
    """Move pod i, and remember it."""
    n = now.logged[0]
    now.log[n, 0], now.log[n, 1] = i, now.at[i]
    now.logged[0] = n + 1
    now.moved[i] = True
    shift(pods, now, i, m)


@inner
def _undo(pods: Pods, now: Placing, until: int) -> None:
    while now.logged[0] > until:
        n = now.logged[0] - 1
        i, m = now.log[n, 0], now.log[n, 1]
        shift(pods, now, i, m)
        now.moved[i] = False  # a pod that moves twice does so in the last moves, which are undone together
        now.logged[0] = n


@inner
def _target(pods: Pods, now: Placing, i: int, order: Int, barred: int) -> int:
    """The first node of `order` in use that pod i may go to, other than its own and `barred`; NOWHERE: none."""
    for m in order:
        if m != now.at[i] and m != barred and now.used[m] > 0 and not now.closed[m] and may_go(pods, now, i, m):
            return int(m)
    return NOWHERE


@inner
def _is_asked(pods: Pods, now: Placing, i: int, m: int) -> bool:
    """Whether node m is in use and would take pod i if it had room."""
    return now.used[m] > 0 and not now.closed[m] and pods.open[m] and pods.allowed[pods.group[i], m]


@inner
def _may_yield(pods: Pods, now: Placing, other: int, i: int) -> bool:
    """Whether a pod may be moved to make room for pod i, which is larger."""
    return pods.movable[other] and not now.moved[other] and pods.size[other] < pods.size[i]


@inner
def _make_room(pods: Pods, now: Placing, i: int, order: Int, tries: int) -> bool:
    """Move pod i to a node that another pod leaves for a third one; at most `tries` nodes are looked at."""
    source = now.at[i]
    for m in order:
        if tries == 0:
            return False
        if m == source or not _is_asked(pods, now, i, m):
            continue
        tries -= 1
        for w in range(now.members[m]):
            other = now.member[m, w]
            if not _may_yield(pods, now, other, i):
                continue  # to make room for as much again gains nothing
            third = _target(pods, now, other, order, source)
            if third == NOWHERE:
                continue
            until = now.logged[0]
            _go(pods, now, other, third)
            if may_go(pods, now, i, m):
                _go(pods, now, i, m)
                return True
            _undo(pods, now, until)
    return False


@inner
def _swap(pods: Pods, now: Placing, i: int, order: Int, tries: int) -> bool:
    """Let pod i and a smaller one change places by way of a third node; at most `tries` nodes are looked at."""
    source = now.at[i]
    for m in order:
        if tries == 0:
            return False
        if m == source or not _is_asked(pods, now, i, m):
            continue
        tries -= 1
        for w in range(now.members[m]):
            other = now.member[m, w]
            if not _may_yield(pods, now, other, i):
                continue
            until = now.logged[0]
            spare = NOWHERE
            for third in order:
                if third != m and third != source and not now.closed[third] and may_go(pods, now, other, third):
                    spare = third
                    break
            if spare == NOWHERE:
                continue
            _go(pods, now, other, spare)
            if may_go(pods, now, i, m):
                _go(pods, now, i, m)
                if may_go(pods, now, other, source):
                    _go(pods, now, other, source)
                    return True
            _undo(pods, now, until)
    return False


@inner
def _order_of(now: Placing) -> Int:
    """Nodes in the order in which pods are put there: the fullest first."""
    order: Int = np.argsort(now.slack)
    return order


@inner
def _pods_of(pods: Pods, now: Placing, m: int) -> Int:
    """Pods that keep node m in use, the largest first."""
    count, there = 0, np.empty(now.members[m], np.int64)
    for w in range(now.members[m]):
        if pods.keeps[now.member[m, w]]:
            there[count] = now.member[m, w]
            count += 1
    there = there[:count]
    largest: Int = there[np.argsort(-pods.size[there])]
    return largest


@njit
def empty_node(pods: Pods, now: Placing, m: int, most: int, tries: int) -> bool:
    """Move all pods away that keep node m in use, with at most `most` moves; if that fails, nothing changes."""
    there, until = _pods_of(pods, now, m), now.logged[0]
    if len(there) > most:
        return False
    for i in there:
        if not pods.movable[i] or now.moved[i]:
            return False
    order = _order_of(now)
    closed = now.closed[m]
    now.closed[m] = True
    done = 0
    for i in there:
        target = _target(pods, now, i, order, NOWHERE)
        if target != NOWHERE:
            _go(pods, now, i, target)
        elif not _make_room(pods, now, i, order, tries):
            break
        done += 1
        if now.logged[0] - until + len(there) - done > most:
            done = -1
            break
    if done == len(there):
        return True
    _undo(pods, now, until)
    now.closed[m] = closed
    return False


@njit
def empty_nodes(
    pods: Pods,
    now: Placing,
    candidates: Int,
    worth: Float,
    price: float,
    most: int,
    most_ahead: int,
    most_nodes: int,
    tries: int,
) -> int:
    """Empty up to `most_nodes` of `candidates`, in that order, with at most `most` moves; how many were emptied.

    A node is emptied if its `worth` (M,) exceeds the `price` of the moves that it takes. The first candidates, which
    `most_ahead` moves can empty, take no pods, as these would have to leave again.
    """
    emptied = failed = 0
    ahead, moves = np.zeros(len(now.used), np.bool_), 0
    for m in candidates:  # those that may be emptied with the moves that there are
        moves += now.used[m]
        if moves > most_ahead:
            break
        ahead[m] = True
    now.closed[ahead] = True
    for m in candidates:
        now.closed[m] = ahead[m]
        left = most - now.logged[0]
        if price > 0.0:
            left = min(left, int(np.ceil(worth[m] / price)) - 1)
        if now.used[m] == 0 or now.used[m] > left:
            if ahead[m] and now.used[m] > 0:
                now.closed[m] = False
            continue
        if empty_node(pods, now, m, left, tries):
            emptied += 1
            failed = 0
            if emptied == most_nodes:
                break
        else:
            now.closed[m] = False
            failed += 1
            if failed == MOST_FAILED:  # those that follow have more pods
                break
    return emptied


@inner
def _excess(pods: Pods, now: Placing, m: int, first: int, last: int, i: int) -> float:
    """How much load node m has beyond its limit in dimensions `first` .. `last` - 1 without pod i, as shares of it."""
    total = 0.0
    for k in range(first, last):
        over = -now.residual[m, k] - (pods.demand[i, k] if i >= 0 else 0.0)
        if over > 0.0:
            total += over * pods.share[m, k]
    return total


@njit
def relieve_nodes(
    pods: Pods, now: Placing, first: int, last: int, least: float, most: int, tries: int, openable: Bool
) -> int:
    """Move pods away from nodes with load beyond their limits in some of the dimensions; how many moves were made.

    Each move is the one that lowers the excess of the worst node most, and lowers it by more than `least`. Pods go to
    nodes in use, or if none has room change places with a smaller pod, or go to an empty node that is `openable`.
    """
    begin, given_up = now.logged[0], np.zeros(len(now.used), np.bool_)
    while now.logged[0] - begin < most:
        worst, highest = NOWHERE, least
        for m in range(len(now.used)):
            if not given_up[m] and not now.closed[m]:
                over = _excess(pods, now, m, first, last, NOWHERE)
                if over > highest:
                    worst, highest = m, over
        if worst == NOWHERE:
            break
        there = now.member[worst, : now.members[worst]].copy()
        gain = np.zeros(len(there))
        for w in range(len(there)):
            if pods.movable[there[w]] and not now.moved[there[w]]:
                gain[w] = highest - _excess(pods, now, worst, first, last, there[w])
        order, done = _order_of(now), False
        for w in np.argsort(-gain):
            if gain[w] <= least or done:
                break
            i = there[w]
            target = _target(pods, now, i, order, worst)
            if target != NOWHERE:
                _go(pods, now, i, target)
                done = True
            else:
                left = most - (now.logged[0] - begin)
                done = (left >= 2 and _make_room(pods, now, i, order, tries)) or (
                    left >= 3 and _swap(pods, now, i, order, tries)
                )
            if not done:
                for m in order:
                    if openable[m] and now.used[m] == 0 and not now.closed[m] and may_go(pods, now, i, m):
                        _go(pods, now, i, m)
                        done = True
                        break
        if not done:
            given_up[worst] = True
    return int(now.logged[0] - begin)


def needs_of(demand: Float, capacity: Float) -> Float:
    """(N, K) what a node must have left to take a pod."""
    least = np.where(capacity > 0, capacity, np.inf).min(axis=0)
    return needed(demand, np.where(np.isfinite(least), least, 0.0)[None])
