"""What the moves that `tvwrl rebalance` carried out were worth: the recorded time, against the same without them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.plotting import Point
from tvwrl.runs import whole_file, write_json
from tvwrl.serve import read_lines
from tvwrl.types import InputError
from tvwrl.what_if import words
from tvwrl.what_if.compared import Compared, compare
from tvwrl.what_if.recorded import AGAIN, turn_of
from tvwrl.what_if.replay import Placed, Replay
from tvwrl.what_if.report import FIGURES, PAGE, bullets, facts

NAME = "without-moves"
TEXTS = ("pod", "replacement", "source", "node")
RESOLUTION = 300.0  # seconds by which samples of a pod may begin before or after what a controller saw


@dataclass(frozen=True, eq=False)
class WithoutMoves:
    """Where pods would have run without moves."""

    placed: Placed
    moved: int  # replacements of the record that run again where the evicted pod had run
    strangers: int  # replacements in the time of the record that are not in it, or may not be moved
    nowhere: int  # whose old node is not in the record: they stay where they were


def without_moves(file: Path, replay: Replay) -> WithoutMoves:
    """Put each replacement of an evicted pod back to the node on which that had run; all others stay.

    Parameters
    ----------
    file : Path
        The record of `tvwrl rebalance --watch`. Only what was replaced counts, and nothing of dry runs.
    replay : Replay
        The pods, in its order.

    Returns
    -------
    WithoutMoves
        The placements, and counts of moves.

    Raises
    ------
    InputError
        With file and line, for what is no such record, and for one without moves.

    Examples
    --------
    >>> without_moves(Path("moves.jsonl"), Replay(recorded)).moved  # doctest: +SKIP
    38
    """
    recorded, pods = replay.recorded, replay.pods
    places = {name: place for place, name in enumerate(recorded.node_name.tolist())}
    runs: dict[str, list[int]] = {}
    for row, i in enumerate(pods.tolist()):
        name = str(recorded.pod[i])
        runs.setdefault(name.rpartition(AGAIN)[0] if turn_of(name) > 1 else name, []).append(row)
    start = np.array([recorded.at(int(recorded.start[i])) for i in pods])
    machine = recorded.node[pods].copy()
    home: dict[str, tuple[str, str]] = {}  # replacement -> where it ran, and where it would have
    moved, strangers, nowhere = 0, 0, 0
    for line in _moves(file):
        old = home.get(line["pod"], ("", ""))
        kept = old[1] if old[0] == line["source"] else line["source"]
        home[line["replacement"]] = (line["node"], kept)
        latest = line["time"] + max(RESOLUTION, recorded.interval)
        known = [row for row in runs.get(line["replacement"], ()) if start[row] <= latest]
        if not known:
            strangers += recorded.origin <= line["time"] < recorded.at(recorded.slots)
        elif kept not in places:
            nowhere += 1
        else:
            machine[max(known, key=start.__getitem__)] = places[kept]
            moved += 1
    return WithoutMoves(Placed(NAME, machine, recorded.start[pods]), moved, strangers, nowhere)


def _moves(file: Path) -> list[dict[str, Any]]:
    """The lines of a record about pods that were moved, by time."""
    found = []
    try:
        for part, number, text in read_lines(file):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                raise InputError(f"{part}: line {number}: is not JSON") from None
            if not isinstance(line, dict):
                raise InputError(f"{part}: line {number}: is not an object")
            if line.get("event") != "replaced" or line.get("dry_run"):
                continue
            time = line.get("time")
            if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time < 2**53:
                raise InputError(f"{part}: line {number}: time must be seconds since 1970")
            for name in TEXTS:
                if not isinstance(line.get(name), str) or not line[name]:
                    raise InputError(f"{part}: line {number}: {name} must be a text")
            found.append(line)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None
    if not found:
        raise InputError(f"{file}: no pod was moved: needed are lines with the event 'replaced', not of a dry run")
    return sorted(found, key=lambda line: float(line["time"]))


def worth_of(file: Path, replay: Replay, limit: float = 1.0, currency: str = "") -> tuple[WithoutMoves, Compared]:
    """Compare what happened with what would have happened without the moves of a record.

    Raises InputError as `without_moves` does.

    Examples
    --------
    >>> found, compared = worth_of(Path("moves.jsonl"), Replay(recorded))  # doctest: +SKIP
    >>> compared.change(compared.others[0], "machine_hours")  # saved a day by the moves  # doctest: +SKIP
    """
    found = without_moves(file, replay)
    return found, compare(replay, [found.placed], limit, currency)


def page(found: WithoutMoves, compared: Compared) -> str:
    """The report in Markdown."""
    without = compared.others[0]
    lines = [
        f"machine-hours saved a day: {_said(compared.change(without, 'machine_hours'))}",
        f"nodes in use, mean: {without.mean('in_use').value:.1f} without moves, "
        f"{compared.actual.mean('in_use').value:.1f} as it was",
        f"hours a day in which nodes were overloaded in CPU or memory, less than without moves: "
        f"{_said(compared.difference(without, compared.actual, 'cpu_over', 'memory_over'))}",
    ]
    if compared.priced:
        lines.insert(
            1, f"money saved in 30 days: {_said(_turned(compared.money(without)))} {compared.currency}".rstrip()
        )
    caveats = [
        "Each replacement is taken to have used at the old node what it used at the new one; between the end of an "
        "evicted pod and the first sample of its replacement nothing is counted.",
        "Pods that came while moves were made would perhaps have been placed otherwise without them; here they stay.",
    ]
    if found.strangers:
        caveats.append(f"{found.strangers:,} replacements are not in the record: they count for nothing.")
    if found.nowhere:
        caveats.append(f"{found.nowhere:,} replacements came from nodes that are not in the record: they stay.")
    parts = [
        f"# What were these {found.moved:,} moves worth?",
        bullets(lines),
        "## What this means",
        bullets(caveats),
        "## How far the record can be trusted",
        bullets(words.trust(compared.recorded)),
    ]
    return "\n\n".join(map(str, parts)) + "\n"


def write(out: Path, found: WithoutMoves, compared: Compared, replay: Replay) -> str:
    """Write the page and its figures to the folder; returns the page."""
    text = page(found, compared)
    out.mkdir(parents=True, exist_ok=True)
    counts = {"moved": found.moved, "not_in_the_record": found.strangers, "from_unknown_nodes": found.nowhere}
    write_json(out / FIGURES, facts(compared, replay) | counts | {"outcomes": compared.as_dict()})
    with whole_file(out / PAGE) as partial:
        partial.write_text(text, "utf-8")
    return text


def _said(point: Point) -> str:
    interval = "" if np.isnan(point.low) else f" (95 % interval {point.low:.1f} to {point.high:.1f})"
    return f"{point.value:.1f}{interval}"


def _turned(point: Point) -> Point:
    return Point(-point.value, -point.high, -point.low)
