"""The options of `tvwrl learn-online`; what they ask for is in `learn_online_command`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from tvwrl.agents import OnlineConfig
from tvwrl.command_line import TRACE, SlotSeconds, described


@dataclass(frozen=True)
class OnlineSettings:
    """Let a trained policy keep learning while workloads arrive (Algorithm 1), and compare it with a frozen copy.

    Every episode is a new arrival sequence that is played once. With --shift-to or --shift-load the stream changes
    after --before episodes and continues for --after more. The run folder holds run.json, progress.csv,
    checkpoints/start.pt and last.pt, rows.csv, table.md and rewards.png. Ctrl-C saves a checkpoint; --resume continues
    from it exactly.
    """

    checkpoint: Path | None = None
    """Training run (its folder or a .pt file) whose policy continues to learn."""
    trace: Annotated[str | None, described(TRACE, "the checkpoint's")] = None
    slot_seconds: SlotSeconds = None
    shift_to: str | None = None
    """Trace after the shift, as --trace; its units are fitted on its own training series."""
    shift_load: float | None = None
    """Offered load after the shift."""
    schedulers: tuple[str, ...] = ("best-fit-peak", "forecast-fit")
    """Schedulers to compare; the error for an unknown name lists all."""
    out: Path | None = None
    """Output folder; default: runs/online-<trace>-<timestamp>."""
    resume: Path | None = None
    """Continue the run in this folder to its end; only --stop-after can be combined with it."""
    stop_after: int | None = None
    """Stop after this number of updates; --resume continues."""
    config: tyro.conf.OmitArgPrefixes[OnlineConfig] = field(default_factory=OnlineConfig)
