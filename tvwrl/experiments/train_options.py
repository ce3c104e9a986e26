"""The options of `tvwrl train`; what they ask for is in `train_command`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tyro

from tvwrl.agents import TrainConfig, preset_of
from tvwrl.command_line import ForecasterFile, SlotSeconds, TraceName


@dataclass(frozen=True)
class TrainingSettings:
    """Train a placement policy on a trace, then compare it with heuristics on unseen workloads.

    The run folder holds run.json, progress.csv, tensorboard/, checkpoints/last.pt and best.pt, and evaluation/.
    Ctrl-C saves a checkpoint; --resume continues from it exactly.
    """

    trace: TraceName = "google"
    slot_seconds: SlotSeconds = None
    ec: str = "temporal"
    """Equivalence classes: a file of tvwrl classes; or temporal, aggregate or dtw to make --classes classes now; or
    none."""
    forecaster: ForecasterFile = None
    preset: Literal["smoke", "counterfactual", "medium", "paper", "deeprm"] = "counterfactual"
    """Defaults of the hyper-parameters: smoke (a trial, seconds), counterfactual (minutes), medium (minutes; the
    default with another algorithm), paper (the paper's values), deeprm (the default of --policy deeprm)."""
    deeprm: bool = True
    """Train DeepRM too, the paper's learnt baseline, on the same training sequences, so that the comparison at the end
    has it."""
    out: Path | None = None
    """Output folder; default: runs/<trace>-<timestamp>."""
    resume: Path | None = None
    """Continue the run in this folder to its original number of iterations; only --stop-after can be combined with
    it."""
    stop_after: int | None = None
    """Stop after this number of updates; --resume continues."""
    config: tyro.conf.OmitArgPrefixes[TrainConfig] = field(default_factory=lambda: preset_of([]))

    @classmethod
    def default_for(cls, options: Sequence[str]) -> TrainingSettings:
        """The settings that a command line changes: those of the preset that its options name."""
        return cls(config=preset_of(options))
