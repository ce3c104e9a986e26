"""Moves that a rule would make now, in place of the search."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tvwrl.forecasting import shipped_forecaster
from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.forecast import Forecast
from tvwrl.rebalance.from_record import plain_name
from tvwrl.rebalance.search import Found, Goal, admitted
from tvwrl.schedulers import PLUS, MoveRule, Moving, make_scheduler
from tvwrl.simulation import Cluster
from tvwrl.types import InputError, Int, Move
from tvwrl.what_if import Recorded, Replay

SLOT = 1800  # seconds: the slots of forecasts
PROFILE = "kube-default"  # places what a rule only evicts
ROUNDS = 12  # slots before the last one in which a rule may count what it sees


def rule_called(name: str) -> Moving:
    """The rule of a name like `karpenter(after=1)` or `most-allocated + karpenter`. Raises InputError."""
    made = make_scheduler(name if PLUS.strip() in name else f"{PROFILE}{PLUS}{name}")
    if not isinstance(made, Moving):
        raise InputError(f"rule is '{name}': must be a rule that moves, see tvwrl evaluate --list-schedulers")
    return made


def moves_of_rule(
    name: str, recorded: Recorded, state: ClusterState, forecast: Forecast, goal: Goal, most_nodes: int | None = None
) -> Found:
    """What a rule would move at the end of a record, without what Kubernetes or the forecast forbids.

    `name`: of a rule that moves, perhaps behind a profile of kube-scheduler
    `most_nodes`: for the search alone

    Raises InputError for a rule that means nothing in this cluster.
    """
    moving = rule_called(name)
    last = _Last(moving.rule, recorded.slots * recorded.interval // SLOT - 1)
    replay = Replay(recorded, SLOT)
    forecaster = shipped_forecaster() if moving.needs_forecasts else None
    replay.play_moves(Moving(moving.placing, last), 2 * max(goal.moves(state), 1), forecaster)
    row = {name: i for i, name in enumerate(state.pod)}
    node = {name: m for m, name in enumerate(state.node)}
    pairs = [
        (row[plain_name(str(recorded.pod[i]))], node[recorded.node_name[m]])
        for i, m in last.chosen
        if plain_name(str(recorded.pod[i])) in row and recorded.node_name[m] in node
    ]
    table = np.array(pairs, np.int64).reshape(len(pairs), 2)
    load = forecast.at_moments(goal.step_seconds)
    return admitted(state, load, goal, table[:, 0], table[:, 1])


class _Last(MoveRule):
    """Lets a rule move in one slot only, and notes what it moves."""

    def __init__(self, rule: MoveRule, slot: int) -> None:
        self.name, self.knowledge, self.needs_forecasts = rule.name, rule.knowledge, rule.needs_forecasts
        self._rule, self._slot = rule, slot
        self.misfit, self.placing_too = rule.misfit, rule.placing_too  # type: ignore[method-assign]
        self.chosen = list[tuple[int, int]]()  # pods and nodes of the record

    def watch(self, recorded: Recorded, rows: Int, nodes: Int, ratio: int) -> None:
        """See `MoveRule.watch`."""
        self._rows, self._nodes = rows, nodes
        self._rule.watch(recorded, rows, nodes, ratio)

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """See `MoveRule.reset`."""
        self._rule.placing = self.placing
        self._rule.reset(cluster, rng)

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `MoveRule.moves`."""
        if cluster.slot == self._slot:
            for move in self._rule.moves(cluster):
                self.chosen.append((int(self._rows[move.workload]), int(self._nodes[move.machine])))
                yield move
        elif cluster.slot > self._slot - ROUNDS:
            next(iter(self._rule.moves(cluster)), None)  # it may count in how many slots a machine was too full
