"""Rollouts of moves: what sets of moves cost in the same futures if a rule goes on placing and nothing else moves.

The branches are those of `replay`: sets that leave a machine alone share what it holds, and it is computed once.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inlined, njit
from tvwrl.penalties import TERMS
from tvwrl.schedulers.planning.replay import (
    BEYOND,
    CHARGED,
    COUNT,
    FREE,
    LEAVES,
    NEVER,
    NOWHERE,
    SINCE,
    TOP,
    USES,
    WHICH,
    Branches,
    Replay,
    Rule,
    begin_branches,
    begin_slot,
    book,
    charge_slot,
    check_costs,
    choose,
    copy_content,
    put,
)
from tvwrl.simulation import (
    ARRIVED,
    LENGTH,
    MACHINE,
    MOVE_OVERLAP,
    MOVE_SLOTS,
    MOVES_PER_SLOT,
    PLACEMENTS_PER_SLOT,
    SEQUENCE,
    SLOT,
    USAGE_DELAY,
    State,
)
from tvwrl.types import Bool, Float, Int


@njit(_nrt=False)
def replay_moves(s: State, r: Rule, x: Branches, played: Int, plans: Int, left: int, horizon: int, out: Float) -> None:
    """See `MoveReplay.costs`.

    `played`: (n, A) 0, or NOWHERE for branches that are not played
    `left`: moves that may be decided in the current slot still
    `out`: (n, A, 5) zeros
    """
    branches, limit = len(x.content), s.rules[PLACEMENTS_PER_SLOT]
    for b in range(len(played)):
        sequence, now, arrived = s.counters[b, SEQUENCE], s.counters[b, SLOT], s.counters[b, ARRIVED]
        begin_branches(s, x, b, played, b)
        for k in range(horizon):
            slot = now + k
            arrived = begin_slot(s, x, sequence, arrived, k, slot)
            for a in range(branches):
                if played[b, a] == NOWHERE:
                    continue
                for i in range(plans.shape[1]):
                    w, m = plans[a, i, 0], plans[a, i, 1]
                    if w == NOWHERE:
                        break
                    later = 0 if i < left else 1 + (i - left) // s.rules[MOVES_PER_SLOT]
                    since, source = s.rules[MOVE_SLOTS] + later, s.workloads[b, w, MACHINE]
                    if k == since:
                        _arrive(s, x, a, w, source, m, sequence, k, slot)
                    if k == since + s.rules[MOVE_OVERLAP]:
                        _depart(s, x, a, w, source, sequence, k, slot)
                x.placed[a] = 0
                while k > 0 and x.waiting[a] > 0 and (limit == 0 or x.placed[a] < limit):
                    q, m = choose(s, r, x, a, sequence, k, slot)
                    if m == NOWHERE:
                        break
                    put(s, x, a, q, m, sequence, k, slot)
            charge_slot(s, x, played, b, k, slot, out)


@njit(inline="always", _nrt=False)
def _own_content(x: Branches, a: int, m: int, k: int) -> int:
    """The content of machine m in branch a, which no other branch has from now on."""
    p: int = x.content[a, m]
    if x.facts[p, USES] > 1:
        x.counts[FREE] -= 1
        new = x.free[x.counts[FREE]]
        x.counts[TOP] = max(x.counts[TOP], new + 1)
        copy_content(x, p, new, k)
        x.content[a, m] = p = new
    x.facts[p, CHARGED] = -1
    x.asked[p] = 0
    return p


@njit(inline="always", _nrt=False)
def _find(x: Branches, p: int, w: int) -> int:
    """Where workload w is in the list of content p; NOWHERE if it is not."""
    for i in range(x.facts[p, COUNT]):
        if x.who[p, i, WHICH] == w:
            return i
    return NOWHERE


@inlined(_nrt=False)
def _arrive(s: State, x: Branches, a: int, w: int, source: int, m: int, sequence: int, k: int, slot: int) -> None:
    """Let workload w, if it runs still, run on machine m too in branch a."""
    i = _find(x, x.content[a, source], w)
    if i == NOWHERE:
        return
    p, old = _own_content(x, a, m, k), x.content[a, source]
    count, since = x.facts[p, COUNT], x.who[old, i, SINCE]
    x.who[p, count, WHICH], x.who[p, count, SINCE], x.who[p, count, BEYOND] = w, since, x.who[old, i, BEYOND]
    x.facts[p, COUNT] = count + 1
    x.facts[p, LEAVES] = min(x.facts[p, LEAVES], since + s.timing[sequence, w, LENGTH])
    book(s, x, p, sequence, w, slot - since, k)


@inlined(_nrt=False)
def _depart(s: State, x: Branches, a: int, w: int, source: int, sequence: int, k: int, slot: int) -> None:
    """Take workload w, if it runs still, from its old machine in branch a."""
    if _find(x, x.content[a, source], w) == NOWHERE:
        return
    p = _own_content(x, a, source, k)
    kept, leaves, gone = 0, NEVER, _find(x, p, w)
    age, first = slot - x.who[p, gone, SINCE], k + s.rules[USAGE_DELAY]
    for j in range(min(s.timing[sequence, w, LENGTH] - age, x.load.shape[1] - first)):
        for d in range(x.load.shape[2]):
            demand = float(s.demand[sequence, w, age + j, d])
            x.load[p, first + j, d] -= demand
            x.square[p, first + j, d] -= demand * demand
    for i in range(x.facts[p, COUNT]):
        if i != gone:
            leaves = min(leaves, x.who[p, i, SINCE] + s.timing[sequence, x.who[p, i, WHICH], LENGTH])
            for part in range(3):
                x.who[p, kept, part] = x.who[p, i, part]
            kept += 1
    x.facts[p, COUNT], x.facts[p, LEAVES] = kept, leaves


class MoveReplay(Replay):
    """Rolls out sets of moves of states of a simulation, in which all placements of the current slot are made.

    The base goes on placing from the next slot on; after the moves of a set nothing moves. The moves of a set that the
    current slot has no room for are made in the slots after it.
    """

    def move_costs(self, count: int, plans: Int, left: int, alive: Bool) -> Float:
        """(n, A) penalties from the current slot on, prices of moves left out, by set of moves; NaN: not played.

        `count`: n, the first environments
        `plans`: (A, P, 2) running workload, as the environments number them, and machine; -1: no more
        `left`: moves that may be decided in the current slot still
        `alive`: (A,) which sets to play

        Raises InputError if a cost is not a number.
        """
        sets = len(self._branches.content)
        played = np.full((count, sets), NOWHERE)
        played[:, : len(plans)][:, alive] = 0
        padded = np.full((sets, *plans.shape[1:]), NOWHERE)
        padded[: len(plans)] = plans
        out = np.zeros((count, sets, len(TERMS)))
        replay_moves(self._simulation.state, self._rule, self._branches, played, padded, left, self._horizon, out)
        check_costs(out)
        costs: Float = np.where(played == NOWHERE, np.nan, out.sum(axis=2))[:, : len(plans)]
        return costs
