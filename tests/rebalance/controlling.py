"""Controllers of fake clusters, and plans for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.rebalance.fake_cluster import FakeCluster
from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.controller import Controller, ControllerOptions, WatchOptions
from tvwrl.rebalance.eviction_budgets import EvictionBudgets
from tvwrl.rebalance.execution import ExecutionOptions
from tvwrl.rebalance.leadership import LeaseOptions
from tvwrl.rebalance.plan_of_moves import MovePlan, PodMove

LARGE = EvictionBudgets(hourly=10_000, hourly_per_node=10_000, hourly_per_namespace=10_000, hourly_per_owner=10_000)


def plan_of(
    state: ClusterState, moves: Sequence[tuple[str, str]], drained: Sequence[str] = (), **more: Any
) -> MovePlan:
    """Moves of pods (namespace/name, target), each a batch of its own; `batches`: their numbers."""
    batches, made = more.get("batches", range(len(moves))), []
    for (pod, target), batch in zip(moves, batches, strict=True):
        row = state.pod.tolist().index(pod)
        source = str(state.node[state.at[row]])
        made.append(PodMove(batch, pod, str(state.uid[row]), str(state.owner[row]), source, target, "test", 1.0, ""))
    return MovePlan(more.get("made", state.time), "test", "machines", tuple(made), tuple(drained), {}, {})


def controller(
    cluster: FakeCluster,
    folder: Path,
    make_plan: Callable[[ClusterState], MovePlan],
    *,
    dry_run: bool = False,
    budgets: EvictionBudgets = LARGE,
    execution: ExecutionOptions | None = None,
    record: str = "moves.jsonl",
    hand_over: bool = True,
    **more: Any,
) -> Controller:
    """A controller of a fake cluster, in which waiting lets the cluster's time pass."""
    options = ControllerOptions(
        watch=WatchOptions(dry_run=dry_run, record_of_moves=folder / record),
        budgets=budgets,
        execution=execution or ExecutionOptions(),
        lease=LeaseOptions(),
    )
    made = Controller(
        make_plan, options, api=cluster.api(), log=lambda *_, **__: None,
        sleep=cluster.sleep, **more,
    )  # fmt: skip
    if hand_over and not dry_run:
        made._hand_over = cluster.hand_over
    return made


def lead(cluster: FakeCluster, one: Controller) -> bool:
    """A turn of a controller, after as long as it takes for a Lease to run out."""
    for _ in range(20):
        if one.turn():
            return True
        cluster.sleep(2.0)
    return False
