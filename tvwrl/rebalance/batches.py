"""In which order moves are made, and which may be on their way together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.checks import at_least
from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.search import Found
from tvwrl.types import Int

NEVER = -1


@dataclass(frozen=True)
class BatchLimits:
    """How many pods may be on their way at a time.

    Parameters
    ----------
    pods : int
        In all, >= 1.
    per_owner : int
        Of one owner, >= 1.
    per_namespace : int
        Of one namespace, >= 1.
    per_node : int
        That leave one node, >= 1.

    Raises
    ------
    InputError
        A number below 1.

    Examples
    --------
    >>> BatchLimits(pods=3).per_owner
    1
    """

    pods: int = 10
    per_owner: int = 1
    per_namespace: int = 5
    per_node: int = 5

    def __post_init__(self) -> None:
        at_least(1, pods=self.pods, per_owner=self.per_owner, per_namespace=self.per_namespace, per_node=self.per_node)


def batches_of(state: ClusterState, found: Found, limits: BatchLimits | None = None) -> Int:
    """Divide moves into batches, of which each begins when the pods of the one before run.

    Within a batch no budget is exceeded, and every pod has room where it goes while all pods of the batch are still
    where they were. Moves that need another to be made first come in a later batch: those to a node that a pod leaves
    before, and those of pods that share a rule about their neighbours. A move that no batch can take, as a budget
    allows no disruption, is left out, with all that need it.

    Parameters
    ----------
    state : ClusterState
        The cluster.
    found : Found
        n moves, in an order in which each is possible after those before it.
    limits : BatchLimits or None
        How many at a time; None: as by default.

    Returns
    -------
    Int
        (n,) the batch of each move, from 0; -1: left out.

    Examples
    --------
    >>> batches_of(state, found)  # doctest: +SKIP
    array([0, 0, 1])
    """
    limits = limits or BatchLimits()
    needs = needed_before(state, found)
    budgets = _budgets_of(state)
    batch = np.full(len(found.pod), NEVER)
    waiting, number = list(range(len(found.pod))), 0
    while waiting:
        down: dict[object, int] = {}
        taken: list[int] = []
        for j in waiting:
            if len(taken) == limits.pods:
                break
            if any(batch[i] in (NEVER, number) for i in needs[j]):
                continue
            i = int(found.pod[j])
            counted = [
                (("owner", state.owner[i] or state.pod[i]), limits.per_owner),
                (("namespace", str(state.pod[i]).partition("/")[0]), limits.per_namespace),
                (("node", int(found.source[j])), limits.per_node),
                *((("budget", b), state.budgets[b].allowed) for b in budgets.get(i, ())),
            ]
            if any(down.get(what, 0) >= most for what, most in counted):
                continue
            for what, _ in counted:
                down[what] = down.get(what, 0) + 1
            taken.append(j)
            batch[j] = number
        if not taken:
            break
        waiting = [j for j in waiting if batch[j] == NEVER]
        number += 1
    return batch


def _budgets_of(state: ClusterState) -> dict[int, list[int]]:
    """The budgets that cover a pod, by its row."""
    found: dict[int, list[int]] = {}
    for b, budget in enumerate(state.budgets):
        for i in budget.pods.tolist():
            found.setdefault(i, []).append(b)
    return found


def needed_before(state: ClusterState, found: Found) -> list[list[int]]:
    """The moves before each one that have to be made first."""
    left: dict[int, list[int]] = {}
    rules: dict[int, list[int]] = {}  # of a pod
    for t, term in enumerate(state.terms):
        for i in np.union1d(term.carriers, term.matched).tolist():
            rules.setdefault(i, []).append(t)
    last: dict[int, list[int]] = {}
    moved: dict[int, list[int]] = {}
    needs = []
    for j, (i, source, target) in enumerate(np.column_stack([found.pod, found.source, found.target]).tolist()):
        mine = set(left.get(target, ())) | set(moved.get(i, ()))
        moved.setdefault(i, []).append(j)
        for t in rules.get(i, ()):
            mine.update(last.get(t, ()))
            last.setdefault(t, []).append(j)
        needs.append(sorted(mine))
        left.setdefault(source, []).append(j)
    return needs
