"""Decisions that a server in shadow mode would have taken, from the lines that it has written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.serve.rotation import read_lines
from tvwrl.types import InputError
from tvwrl.what_if.replay import Placed, Replay


@dataclass(frozen=True, eq=False)
class Shadow:
    """What became of the lines of a file."""

    placed: Placed
    decided: int  # pods of the record that have a decision
    held: int  # of these, that would have waited: they are placed where they were
    unknown_pods: int  # decisions for pods that are not in the record, or may not be moved
    unknown_nodes: int  # decisions for nodes that are not in the record: such pods stay where they were


def shadow_placements(file: Path, replay: Replay) -> Shadow:
    """Where pods of a `replay` would run if the decisions in `file` had counted; all others stay where they were.

    Each line is JSON with "time" (seconds since 1970), "pod" ("namespace/name") and "node" (null: hold). A decision is
    for the next run of its pod, which may have begun an interval before; the last one for a run counts. Decisions from
    before the record are only used for pods that still run. Raises InputError with file and line for anything else,
    except a last line without an end, which somebody may still be writing.
    """
    recorded, pods = replay.recorded, replay.pods
    places = {name: place for place, name in enumerate(recorded.node_name)}
    by_name: dict[str, list[int]] = {}
    for row, i in enumerate(pods):
        by_name.setdefault(recorded.pod[i].partition("#")[0], []).append(row)
    start = np.array([recorded.at(int(recorded.start[i])) for i in pods])
    chosen: dict[int, str | None] = {}
    strangers: set[str] = set()
    for time, pod, node in _lines(file):
        runs = [row for row in by_name.get(pod, ()) if start[row] >= time - recorded.interval]
        if runs:
            chosen[min(runs, key=start.__getitem__)] = node
        elif recorded.origin <= time < recorded.at(recorded.slots):
            strangers.add(pod)
    machine = recorded.node[pods].copy()
    nowhere = 0
    for row, node in chosen.items():
        nowhere += node is not None and node not in places
        machine[row] = places.get(node or "", machine[row])
    placed = Placed("shadow", machine, recorded.start[pods])
    held = sum(node is None for node in chosen.values())
    return Shadow(placed, len(chosen), held, len(strangers), nowhere)


def _lines(file: Path) -> list[tuple[float, str, str | None]]:
    """(time, pod, node) of every line of a record and its older parts, by time."""
    found: list[tuple[float, str, str | None]] = []
    try:
        for part, number, line in read_lines(file):
            if line.strip():
                found += _decision(part, number, line)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None
    if not found:
        raise InputError(f"{file}: empty: no decisions")
    return sorted(found, key=lambda one: one[0])


def _decision(file: Path, number: int, line: str) -> list[tuple[float, str, str | None]]:
    """A line's decision; none for one that says where a pod was seen."""
    try:
        content: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{file}: line {number}: not JSON") from None
    if not isinstance(content, dict):
        raise InputError(f'{file}: line {number}: needed: {{"time": ..., "pod": ..., "node": ...}}')
    if "placed" in content:
        return []
    if missing := [name for name in ("time", "pod", "node") if name not in content]:
        raise InputError(f"{file}: line {number}: '{missing[0]}' is missing")
    time, pod, node = (content[name] for name in ("time", "pod", "node"))
    if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time < 2**53:
        raise InputError(f"{file}: line {number}: time is {json.dumps(time)[:40]}: must be seconds since 1970")
    if not isinstance(pod, str) or not pod:
        raise InputError(f"{file}: line {number}: pod is {json.dumps(pod)[:40]}: must be namespace/name")
    if node is not None and not isinstance(node, str):
        raise InputError(f"{file}: line {number}: node is {json.dumps(node)[:40]}: must be a name, or null to hold")
    return [(float(time), pod, node)]
