"""A plan played at run time, recorded like an evaluation, so that `tvwrl.metrics.replay_run` recomputes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvwrl.experiments.episode_rows import table_of, write_rows
from tvwrl.experiments.episode_tables import demand_table, episode_table
from tvwrl.metrics import score_episode
from tvwrl.penalties import PenaltyWeights
from tvwrl.planning import Fleet, Instance, Plan, play
from tvwrl.runs import provenance, whole_folder, write_json
from tvwrl.types import Trace


def write_hand_over(trace: Trace, instance: Instance, fleet: Fleet, plan: Plan, out: Path) -> dict[str, Any]:
    """Play and write `episodes.parquet`, `demand.parquet`, `rows.csv`, `run.json`; returns the row of metrics."""
    weights = PenaltyWeights()
    with whole_folder(out) as folder:
        episode, sequences, machines = play(trace, instance, fleet, plan)
        row = score_episode(episode, machines, weights)
        episode_table(episode).write_parquet(folder / "episodes.parquet")
        demand_table(sequences).write_parquet(folder / "demand.parquet")
        write_rows(table_of([row]), folder / "rows.csv")
        facts = {
            "trace": {"name": trace.name, "source": trace.source, "workloads": len(trace)},
            "plan": plan.algorithm,
            "resources": list(trace.resources),
            "capacities": machines.as_dicts(),
            "step_seconds": trace.slot_seconds,
            "penalty_weights": {name: getattr(weights, name) for name in ("K_c", "K_u", "K_o", "K_w")},
            "overshoot_per": "workload",
            "background": 0,
        }
        write_json(folder / "run.json", provenance() | facts)
    return row
