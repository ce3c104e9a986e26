"""A recording in a file, without what the evaluation's own files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.explorer.recording import Recording
from tvwrl.runs import whole_file
from tvwrl.types import Episode, Int, SequenceSet

ARRAYS = ("penalties", "slot", "workload", "chosen", "waiting", "machines", "costs", "scores", "possible")
WORDS = ("meaning", "continued_by")


def write_recording(file: Path, recording: Recording, why: str = "") -> None:
    """Write a recording; `why` it has no costs of alternatives."""
    content = {name: getattr(recording, name) for name in (*ARRAYS, *WORDS)}
    with whole_file(file) as partial, partial.open("wb") as out:
        np.savez(out, allow_pickle=False, repeats=recording.repeats, why=why, **content)


def read_recording(
    file: Path, drawn: SequenceSet, sequence: int, scheduler: str, machine: Int, start: Int
) -> tuple[Recording, str]:
    """A recording of `scheduler` on a sequence, with what it placed where and when (N,), and why it has no costs."""
    length = drawn.length[sequence]
    episode = Episode(
        workload_id=drawn.workload_id[sequence],
        source_workload=drawn.source_workload[sequence],
        source_slot=drawn.source_slot[sequence],
        arrival=drawn.arrival[sequence],
        start=start,
        finish=np.where(start >= 0, start + length, -1),
        machine=machine,
        demand=tuple(drawn.demand[sequence, i, :n] for i, n in enumerate(length)),
        scheduler=scheduler,
        load=drawn.load,
        sequence=sequence,
        resources=drawn.resources,
        background=None if drawn.background is None else drawn.background[sequence],
    )
    with np.load(file, allow_pickle=False) as content:
        facts: dict[str, Any] = {name: content[name] for name in ARRAYS} | {name: str(content[name]) for name in WORDS}
        recording = Recording(episode, repeats=bool(content["repeats"]), **facts)
        return recording, str(content["why"])
