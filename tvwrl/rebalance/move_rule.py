"""Our plans as a rule that moves what runs, to be replayed beside others: `tvwrl what-if --moves rebalance`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least, positive, within
from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.forecast import DAY, HOUR, foresee
from tvwrl.rebalance.from_record import in_slots, state_of_rows, until
from tvwrl.rebalance.search import MACHINES, OVERLOAD, Found, Goal, find_moves
from tvwrl.rebalance.worth import nodes_to_spare
from tvwrl.schedulers import REQUESTS, MoveRule, move_rule
from tvwrl.simulation import Cluster
from tvwrl.types import Float, Float32, InputError, Int, Move
from tvwrl.what_if import Recorded, WhatIfSettings
from tvwrl.what_if import what_if as replay_cluster

STEP = 1800  # seconds: load is compared in steps of that length
ROUNDS = 4  # orders of nodes that are tried
FEWEST = 5  # moves of a plan, however few pods there are, as of `Goal`


@move_rule("Plans by the day (tvwrl rebalance)")
class Rebalance(MoveRule):
    """Plans every hour, as `tvwrl rebalance` does, from what was recorded until then; moves as the plan says.

    It first relieves nodes whose load would exceed their size, then empties nodes. In the first day, of which nothing
    was known before, pods are taken to use what they request, and may fill nodes, as in Kubernetes.

    Parameters
    ----------
    price : float, default 2.4
        Machine-hours that each move has to save over the next day, >= 0: 2.4 empties nodes of nine pods or fewer.
    limit : float, default 0.8
        Share of a node that forecast load may take, above 0; there is no forecast on the first day.
    every : float, default 1
        Hours between plans, above 0.
    share : float, default 0.1
        Of the pods that one plan may move, 0 to 1; above 0 they are five or more.

    Examples
    --------
    >>> Rebalance(price=3)
    <Rebalance name='rebalance', knows='declared requests'>
    """

    name, knowledge = "rebalance", REQUESTS.and_also("what pods and their owners used on the days before")
    options: ClassVar = {
        "price": (1.5, 2.0, 2.4, 2.7, 3.0),
        "limit": (0.7, 0.8, 0.9, 1.0),
        "every": (1, 2, 4, 6, 12, 24),
        "share": (0.02, 0.05, 0.1, 0.2),
    }

    def __init__(self, price: float = 2.4, limit: float = 0.8, every: float = 1.0, share: float = 0.1) -> None:
        at_least(0, price=price)
        within(0, 1, share=share)
        positive(limit=limit, every=every)
        within(0, 2, limit=limit)
        self.price, self.limit, self.every, self.share = price, limit, every, share
        self._recorded: Recorded | None = None

    def watch(self, recorded: Recorded, rows: Int, nodes: Int, ratio: int) -> None:
        """Learn which record is replayed.

        Parameters
        ----------
        recorded : Recorded
            Of which only what lies in the past is looked at.
        rows : Int
            (n,) the pod of the record that each workload is.
        nodes : Int
            (M,) the node of the record that each machine is.
        ratio : int
            Slots of the record in one of the replay.
        """
        self._recorded = in_slots(recorded, ratio)
        row = {name: i for i, name in enumerate(self._recorded.pod)}
        self._rows, self._nodes = np.array([row.get(name, -1) for name in recorded.pod[rows]], np.int64), nodes
        self._bound = np.flatnonzero(self._recorded.bound)

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget the last plan."""
        self._next, self._waiting = 0, list[Move]()

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `MoveRule.moves`."""
        if self._recorded is None:
            raise InputError(f"{self.name} plans from the record of a cluster: replay one with tvwrl what-if --moves")
        seconds, now = cluster.scenario.step_seconds, cluster.slot
        if now > 0 and now >= self._next:
            self._next = now + max(round(self.every * HOUR / seconds), 1)
            self._waiting = list(self._planned(cluster))
        movable = dict(zip(cluster.running.workload.tolist(), cluster.running.movable.tolist(), strict=True))
        self._waiting = [move for move in self._waiting if movable.get(move.workload, False)]
        now_moving = set[int]()
        while self._waiting and cluster.moves_left and self._waiting[0].workload not in now_moving:
            now_moving.add(self._waiting[0].workload)
            yield self._waiting.pop(0)

    def _planned(self, cluster: Cluster) -> Iterator[Move]:
        assert self._recorded is not None
        running, past = cluster.running, until(self._recorded, cluster.slot)
        bound = self._bound[self._recorded.start[self._bound] < past.slots]
        bound = bound[self._recorded.start[bound] + self._recorded.length[bound] >= past.slots]
        rows = np.concatenate([self._rows[running.workload], bound])
        at = np.concatenate([self._nodes[running.machine], self._recorded.node[bound]])
        state = state_of_rows(self._recorded, rows, at, past.slots)
        may_move = np.concatenate([running.movable, np.zeros(len(bound), np.bool_)])
        state = replace(state, stays=np.where(may_move, "", "may not move"))
        known = past.slots * past.interval >= DAY
        load: Float | Float32 = state.request[:, None, :]
        limit, spare = max(self.limit, 1.0), None
        if known:
            forecast, limit = foresee(past, state), self.limit
            load = forecast.at_moments(STEP)
            spare = nodes_to_spare(state, forecast, past, limit)
        most = max(int(self.share * may_move.sum()), FEWEST if self.share else 0)
        machine = np.argsort(self._nodes)  # of each node
        for name, most_load in ((OVERLOAD, max(limit, 1.0)), (MACHINES, limit)):
            goal = Goal(name, most, self.price, limit=most_load, rounds=ROUNDS)
            found = find_moves(state, load, goal, most_nodes=spare)
            for i, target in zip(found.pod.tolist(), found.target.tolist(), strict=True):
                yield Move(int(running.workload[i]), int(machine[target]))
            state, most = _after(state, found), most - len(found.pod)


def _after(state: ClusterState, found: Found) -> ClusterState:
    """The cluster after moves; what moved stays."""
    stays = state.stays.copy()
    stays[found.pod] = "was just moved"
    return replace(state, at=found.places(state), stays=stays)


def what_if(settings: WhatIfSettings) -> None:
    """`tvwrl what-if` where this rule is among those that move pods."""
    replay_cluster(settings)
