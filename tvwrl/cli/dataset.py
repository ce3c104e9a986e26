"""`tvwrl dataset`: episodes of schedulers and agents as a Minari dataset, for offline learning."""

from __future__ import annotations

from dataclasses import dataclass

import tyro

from tvwrl.cli.compare import observed_of
from tvwrl.types import InputError


@dataclass(frozen=True)
class DatasetSettings:
    """Write a Minari dataset of episodes on training sequences of a benchmark task, for offline learning.

    `minari.load_dataset` reads it. It goes to Minari's own folder: ~/.minari/datasets, or MINARI_DATASETS_PATH.
    """

    task: tyro.conf.Positional[str]
    """Benchmark task; `tvwrl benchmark --list-tasks` shows all."""
    of: tuple[str, ...] = ()
    """Who plays: names of schedulers, training runs (a folder or a .pt file), ONNX and Python files, or expert
    (expected-cost; where workloads may move, with evacuate), medium (spread), random. Several take turns, an episode
    each."""
    episodes: int = 100
    """Number of episodes, each on a training sequence of its own."""
    seed: int = 0
    """Seed of the sequences and of what schedulers draw at random."""
    id: str | None = None
    """Name of the dataset; default: from the names, as tvwrl/google-0-5/expert-v1 (with the version of the task)."""
    observe: tuple[str, ...] = ()
    """What the environment, functions and models observe differently, as FIELD=VALUE,...: observe_forecast=true,
    history=5. hold_action is true unless given, as most rules let workloads wait at times."""
    author: str | None = None
    """Author to name in the dataset."""


def write_dataset(settings: DatasetSettings) -> None:
    """Record the episodes. Raises InputError as `record_dataset` does."""
    if not settings.of:
        raise InputError("nobody plays: give --of NAME, as in --of expert")
    from tvwrl.benchmark import record_dataset
    from tvwrl.progress import say

    observe = observed_of(settings.observe)
    name = record_dataset(
        settings.task, settings.of, settings.episodes, settings.seed, settings.id, observe, settings.author, say
    )
    print(f'written: minari.load_dataset("{name}")')
