"""Decisions that a server in shadow mode would have taken, from the lines that it has written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tvwrl.serve import read_lines
from tvwrl.types import Float, InputError
from tvwrl.what_if.recorded import AGAIN, turn_of
from tvwrl.what_if.replay import Placed, Replay

CLOSE = 600.0  # seconds after the start of a pod at which a decision on it may be dated: samples are apart
LONGEST_WAIT = 1800.0  # seconds before; half of all pods do not wait longer than that
SOME = 10  # decisions that cannot all be wrong by chance


@dataclass(frozen=True, eq=False)
class Shadow:
    """What became of the lines of a file."""

    placed: Placed
    decided: int  # pods of the record that have a decision
    held: int  # of these, that would have waited: they are placed where they were
    unknown_pods: int  # decisions for pods that are not in the record, or may not be moved
    unknown_nodes: int  # decisions for nodes that are not in the record: such pods stay where they were
    early: float = 0.0  # seconds from a decision to the start of its pod, median; much, or below 0: clocks differ

    @property
    def clocks_differ(self) -> bool:
        """Whether decisions come so long before, or after, pods start that they may be for other runs of them."""
        return not -CLOSE <= self.early <= LONGEST_WAIT


def shadow_placements(file: Path, replay: Replay) -> Shadow:
    """Find where pods would run if the decisions of a server in shadow mode had counted; all others stay.

    A decision is for the next run of its pod, which may have begun an interval before; the last one for a run counts.
    Decisions from before the record are only used for pods that still run. A last line without an end, which somebody
    may still be writing, is left out.

    Parameters
    ----------
    file : Path
        Lines of JSON with "time" (seconds since 1970), "pod" ("namespace/name") and "node" (null: hold).
    replay : Replay
        The pods, in its order.

    Returns
    -------
    Shadow
        The placements, and counts of decisions.

    Raises
    ------
    InputError
        With file and line, anything else in the file; and if there are many decisions in the time of the record, and
        none of them is for one of its pods.

    Examples
    --------
    >>> shadow_placements(Path("decisions.jsonl"), Replay(recorded)).decided  # doctest: +SKIP
    """
    recorded, pods = replay.recorded, replay.pods
    places = {name: place for place, name in enumerate(recorded.node_name)}
    by_name: dict[str, list[int]] = {}
    for row, i in enumerate(pods):
        name = recorded.pod[i]
        by_name.setdefault(name.rpartition(AGAIN)[0] if turn_of(name) > 1 else name, []).append(row)
    start = np.array([recorded.at(int(recorded.start[i])) for i in pods])
    chosen: dict[int, str | None] = {}
    strangers: set[str] = set()
    lines = _lines(file)
    early = _early(lines, {name: start[rows][start[rows] > recorded.origin] for name, rows in by_name.items()})
    for time, pod, node in lines:
        runs = [row for row in by_name.get(pod, ()) if start[row] >= time - recorded.interval]
        if runs:
            chosen[min(runs, key=start.__getitem__)] = node
        elif recorded.origin <= time < recorded.at(recorded.slots):
            strangers.add(pod)
    if not chosen and len(strangers) >= SOME:
        _refuse(file, early, strangers, by_name)
    machine = recorded.node[pods].copy()
    nowhere = 0
    for row, node in chosen.items():
        nowhere += node is not None and node not in places
        machine[row] = places.get(node or "", machine[row])
    placed = Placed("shadow", machine, recorded.start[pods])
    held = sum(node is None for node in chosen.values())
    return Shadow(placed, len(chosen), held, len(strangers), nowhere, early)


def _early(lines: Sequence[tuple[float, str, str | None]], starts: Mapping[str, Float]) -> float:
    """Median of the seconds from the nearest decision to the start of a pod; 0 if there is none.

    `starts`: of the runs of each pod that began while recorded, seconds since 1970
    """
    moments: dict[str, list[float]] = {}
    for time, pod, _ in lines:
        moments.setdefault(pod, []).append(time)
    gaps = [
        min((begin - time for time in moments[pod]), key=abs)
        for pod, begins in starts.items()
        if pod in moments
        for begin in begins.tolist()
    ]
    return float(np.median(gaps)) if gaps else 0.0


def _refuse(file: Path, early: float, strangers: set[str], known: Mapping[str, Any]) -> NoReturn:
    """Raise InputError for decisions none of which is for a pod of the record."""
    if strangers & set(known):
        when = f"{abs(early) / 60:.0f} min {'before' if early > 0 else 'after'}"
        raise InputError(
            f"{file}: decisions are dated {when} the start of their pods: the clocks of the server that wrote them and "
            "of the record differ"
        )
    example = min(known, default="none")
    raise InputError(
        f"{file}: none of the {len(strangers):,} pods with decisions in the time of the record is in it: names differ, "
        f"such as '{min(strangers)}' here and '{example}' there"
    )


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
