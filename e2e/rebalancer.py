"""The controller of `tvwrl rebalance --watch` as a process, with plans of a test instead of forecasts.

python -m e2e.rebalancer FILE

FILE is JSON: `moves`, a list of [pod, target, batch], or `random`, how many moves of a plan are drawn; `watch`, `api`,
`lease`, `budgets`, `execution` and `extender`, the fields of the controller's options.
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.controller import Controller, ControllerOptions, WatchOptions
from tvwrl.rebalance.eviction_budgets import EvictionBudgets
from tvwrl.rebalance.execution import ExecutionOptions
from tvwrl.rebalance.handing_over import ExtenderOptions
from tvwrl.rebalance.kube_api import ApiOptions
from tvwrl.rebalance.leadership import LeaseOptions
from tvwrl.rebalance.plan_of_moves import MovePlan, PodMove

PARTS: dict[str, Callable[..., Any]] = {
    "watch": WatchOptions, "api": ApiOptions, "lease": LeaseOptions, "budgets": EvictionBudgets,
    "execution": ExecutionOptions, "extender": ExtenderOptions,
}  # fmt: skip
PATHS = ("record_of_moves", "kubeconfig")
BACK = 0.1  # share of drawn moves that would return to a node that their owner left


class Planner:
    """Makes the plans that a test wants."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content
        self._draw = random.Random(content.get("seed", 0))
        self._left: dict[str, set[str]] = defaultdict(set)

    def __call__(self, state: ClusterState) -> MovePlan:
        """A plan for the cluster as it is."""
        row_of = {str(pod): row for row, pod in enumerate(state.pod)}
        if "random" in self._content:
            wanted = self._drawn(state, self._content["random"])
        else:
            wanted = [(pod, target, batch) for pod, target, batch in self._content["moves"] if pod in row_of]
        moves = []
        for pod, target, batch in wanted:
            row = row_of[pod]
            source, owner = str(state.node[state.at[row]]), str(state.owner[row])
            if source != target:
                self._left[owner].add(source)
                moves.append(PodMove(batch, pod, str(state.uid[row]), owner, source, target, "e2e", 1.0, ""))
        made = state.time - self._content.get("age", 0.0)
        return MovePlan(made, "e2e", "machines", tuple(moves), (), {}, {})

    def _drawn(self, state: ClusterState, count: int) -> list[tuple[str, str, int]]:
        rows = [row for row in range(len(state)) if not state.stays[row]]
        found = []
        for i, row in enumerate(self._draw.sample(rows, min(count, len(rows)))):
            names = [str(name) for name, is_open in zip(state.node, state.open, strict=True) if is_open]
            left = sorted(self._left[str(state.owner[row])] & set(names))
            target = self._draw.choice(left if left and self._draw.random() < BACK else names)
            found.append((str(state.pod[row]), target, i // 20))
        return found


def main() -> None:
    """Run until SIGTERM."""
    content = json.loads(Path(sys.argv[1]).read_text())
    parts = {}
    for name, options in PARTS.items():
        given = content.get(name, {})
        parts[name] = options(**{key: Path(value) if key in PATHS else value for key, value in given.items()})
    Controller(Planner(content), ControllerOptions(**parts)).run()


if __name__ == "__main__":
    main()
