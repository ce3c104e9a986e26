"""Tables that record an evaluation: what was placed where and when, and the demand and background load behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tvwrl.types import Episode, SequenceSet

if TYPE_CHECKING:
    import polars as pl


def episode_table(episode: Episode) -> pl.DataFrame:
    """Rows of episodes.parquet: one per workload."""
    import polars as pl

    count = len(episode.workload_id)
    return pl.DataFrame(
        {
            "scheduler": [episode.scheduler] * count,
            "load": [float(episode.load)] * count,
            "sequence": np.full(count, episode.sequence),
            "workload_id": episode.workload_id.tolist(),
            "source_workload": episode.source_workload.tolist(),
            "source_slot": episode.source_slot,
            "arrival": episode.arrival,
            "start": episode.start,
            "finish": episode.finish,
            "machine": episode.machine,
        }
    )


def demand_table(drawn: SequenceSet) -> pl.DataFrame:
    """Rows of demand.parquet: one per sequence, workload and slot of its life."""
    import polars as pl

    runs = np.arange(drawn.demand.shape[2]) < drawn.length[..., None]  # (S, N, L)
    sequence, workload, slot = np.nonzero(runs)
    columns = {name: drawn.demand[..., d][runs] for d, name in enumerate(drawn.resources)}
    return pl.DataFrame(
        {
            "load": np.full(len(slot), float(drawn.load)),
            "sequence": sequence,
            "workload_id": drawn.workload_id[sequence, workload].tolist(),
            "slot": slot,
            **columns,
        }
    )


def background_table(drawn: SequenceSet, background: npt.NDArray[np.uint8]) -> pl.DataFrame:
    """Rows of background.parquet: one per sequence, slot of the period and machine."""
    import polars as pl

    sequence, slot, machine = (index.ravel() for index in np.indices(background.shape[:3]))
    columns = {name: background[..., d].ravel() for d, name in enumerate(drawn.resources)}
    load = np.full(len(slot), float(drawn.load))
    return pl.DataFrame({"load": load, "sequence": sequence, "slot": slot, "machine": machine, **columns})
