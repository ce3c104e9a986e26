"""Episodes as a trace for the viewer at ui.perfetto.dev, in the Trace Event Format (JSON): a process for each of them,
with its machines, their loads, the queue and every decision on one clock.

Why lanes: a machine runs many workloads at a time, and slices of one thread must nest or they are drawn wrong. The
format's asynchronous events may overlap, but the viewer names a track of them after the event, so that each workload
would lie in a track of its own, far from its machine. So a machine is as many threads as it has workloads at a time,
"machine 3", "machine 3 / 2", ..., and each workload a complete event ("X") of the first that is free.

Why every thread has a number of its own in the whole file: the viewer names threads by number, whatever their process.
"""

from __future__ import annotations

import gzip
import heapq
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.explorer.derived import machine_loads, only, slots_of, waiting_counts
from tvwrl.explorer.recording import WAIT, Recording
from tvwrl.explorer.words import (
    LONGEST_NAME,
    TERM_WORDS,
    alternative_in_words,
    decision_in_words,
    shortened,
    workload_in_words,
)
from tvwrl.runs import whole_file
from tvwrl.types import Episode, Float, Machines

Event = dict[str, Any]
MICROSECONDS = 1_000_000  # per second; the format's times are whole microseconds


def perfetto_trace(recordings: Sequence[Recording], machines: Machines, slot_seconds: int) -> bytes:
    """The JSON text of a trace of these episodes; slot t begins at t x `slot_seconds` on the viewer's clock.

    Raises InputError if a slot is no longer than 0 seconds.
    """
    at_least(1, slot_seconds=slot_seconds)
    slot = slot_seconds * MICROSECONDS
    tids = itertools.count(len(recordings) + 1)  # a thread with its process' number would be its "main thread"
    events = itertools.chain.from_iterable(
        _Process(recording, machines, slot, pid, tids).events() for pid, recording in enumerate(recordings, start=1)
    )
    text = json.dumps({"displayTimeUnit": "ms", "traceEvents": list(events)}, allow_nan=False, separators=(",", ":"))
    return text.encode()


def write_perfetto(file: Path, recordings: Sequence[Recording], machines: Machines, slot_seconds: int) -> None:
    """Write `perfetto_trace` of some recordings on these `machines` to a file, compressed if its name ends in .gz.

    `recordings`: any number, each of them a process in the viewer
    `slot_seconds`: length of a slot, > 0
    """
    content = perfetto_trace(recordings, machines, slot_seconds)
    if file.suffix == ".gz":
        content = gzip.compress(content, 6, mtime=0)  # no time of writing: same episodes, same bytes
    with whole_file(file) as partial:
        partial.write_bytes(content)


def lanes(begin: Sequence[int], end: Sequence[int]) -> list[int]:
    """For each interval [begin, end) the first lane, from 0, that is free then; few lanes, none with an overlap.

    >>> lanes([0, 1, 3], [3, 4, 5])
    [0, 1, 0]
    """
    free: list[int] = []  # numbers of lanes that were used and are free
    busy: list[tuple[int, int]] = []  # end and number of those in use
    found = [0] * len(begin)
    for i in sorted(range(len(begin)), key=lambda i: (begin[i], end[i])):
        while busy and busy[0][0] <= begin[i]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        found[i] = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end[i], found[i]))
    return found


class _Process:
    """The events of one episode."""

    def __init__(self, recording: Recording, machines: Machines, slot: int, pid: int, tids: Iterator[int]) -> None:
        self._recording, self._episode, self._machines = recording, recording.episode, machines
        self._slot, self._pid, self._tids = slot, pid, tids  # microseconds per slot; numbers of the format
        self._slots = slots_of(recording)
        # What is never placed waits to the end of the record, which may lie after the last placed workload's.
        self._end = max(
            self._slots, 1 + int(recording.slot.max(initial=-1)), 1 + int(self._episode.arrival.max(initial=-1))
        )

    def events(self) -> Iterator[Event]:
        """Names first, then threads in the order that the viewer shows them, then counters."""
        episode = self._episode
        name = f"{shortened(episode.scheduler, 60)}, load {episode.load:g}, sequence {episode.sequence}"
        yield self._name("process_name", name=name)
        yield self._name("process_sort_index", sort_index=self._pid)
        yield from self._decisions()
        yield from self._queue()
        for machine in range(len(self._machines)):
            inside = np.flatnonzero((episode.machine == machine) & (episode.start >= 0))
            yield from self._lanes(f"machine {machine}", inside, episode.start, episode.finish)
        yield from self._counters()

    def _name(self, kind: str, tid: int | None = None, **what: Any) -> Event:
        return {"ph": "M", "name": kind, "pid": self._pid, "tid": self._pid if tid is None else tid, "args": what}

    def _thread(self, name: str) -> tuple[int, list[Event]]:
        """Number of a new thread below those before, and the events that name it."""
        tid = next(self._tids)
        return tid, [self._name("thread_name", tid, name=name), self._name("thread_sort_index", tid, sort_index=tid)]

    def _lanes(self, name: str, inside: Any, begin: Any, end: Any) -> Iterator[Event]:
        """Slices [`begin`, `end`) of the workloads `inside` in as many threads as they need, one at least."""
        lane = lanes(begin[inside].tolist(), end[inside].tolist())
        tids = []
        for number in range(max(lane, default=0) + 1):
            tid, names = self._thread(name if number == 0 else f"{name} / {number + 1}")
            tids.append(tid)
            yield from names
        for i, number in zip(inside.tolist(), lane, strict=True):
            yield {
                "ph": "X",
                "name": shortened(self._episode.workload_id[i]) or "(no name)",
                "cat": "workload",
                "pid": self._pid,
                "tid": tids[number],
                "ts": int(begin[i]) * self._slot,
                "dur": int(end[i] - begin[i]) * self._slot,
                "args": _facts(self._episode, i),
            }

    def _queue(self) -> Iterator[Event]:
        """A slice for every workload that had to wait, from its arrival on."""
        until = np.where(self._episode.start >= 0, self._episode.start, self._end)
        yield from self._lanes("queue", np.flatnonzero(until > self._episode.arrival), self._episode.arrival, until)

    def _decisions(self) -> Iterator[Event]:
        """An instant for each. Those of one slot stand evenly in it, in order: at one instant they would hide each
        other."""
        tid, names = self._thread("decisions")
        yield from names
        _, first, inverse, count = np.unique(
            self._recording.slot, return_index=True, return_inverse=True, return_counts=True
        )
        for k, slot in enumerate(self._recording.slot.tolist()):
            turn, turns = k - int(first[inverse[k]]), int(count[inverse[k]])
            chosen = int(self._recording.chosen[k])
            did = "waits" if chosen == WAIT else f"to machine {chosen}"
            yield {
                "ph": "i",
                "s": "t",
                "name": shortened(f"{workload_in_words(self._recording, k, LONGEST_NAME - 20)} {did}"),
                "cat": "decision",
                "pid": self._pid,
                "tid": tid,
                "ts": slot * self._slot + turn * self._slot // turns,
                "args": _reasons(self._recording, k),
            }

    def _counters(self) -> Iterator[Event]:
        loads = machine_loads(self._episode, self._machines, self._slots)
        yield from self._counter("waiting", "workloads", waiting_counts(self._episode, self._slots))
        for term, values in zip(TERM_WORDS.values(), self._recording.penalties.T, strict=True):
            yield from self._counter("penalty", term, values)
        for (machine, d), capacity in np.ndenumerate(self._machines.capacity):
            name = f"machine {machine} {shortened(self._machines.resources[d], 40)}"
            yield from self._counter(name, "load", loads[:, machine, d])
            yield self._sample(name, "capacity", 0, capacity)

    def _counter(self, name: str, what: str, values: Any) -> Iterator[Event]:
        """Values (T,) where they change, and 0 at the end: the viewer draws the last value on to the trace's end."""
        changed = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)
        for t, value in zip(changed.tolist(), values[changed].tolist(), strict=True):
            yield self._sample(name, what, t, value)
        yield self._sample(name, what, len(values), 0)

    def _sample(self, name: str, what: str, t: int, value: float) -> Event:
        return {"ph": "C", "name": name, "pid": self._pid, "ts": t * self._slot, "args": {what: float(value)}}


def _facts(episode: Episode, i: int) -> dict[str, Any]:
    """What the viewer shows of a workload when its slice is selected; slots and units."""
    start, arrival = int(episode.start[i]), int(episode.arrival[i])
    facts: dict[str, Any] = {
        "source series": shortened(episode.source_workload[i]),
        "arrival, slot": arrival,
        "waited, slots": start - arrival if start >= 0 else "never placed",
        "length, slots": len(episode.demand[i]),
    }
    peaks = episode.demand[i].max(axis=0, initial=0.0)
    for resource, peak in zip(episode.resources, peaks.tolist(), strict=True):
        facts[f"peak {shortened(resource, 40)}, units"] = peak
    return facts


def _reasons(recording: Recording, k: int) -> dict[str, Any]:
    """What the viewer shows of a decision: the choice and, if alternatives were played on, what each term cost."""
    decision = only(recording, k)
    own, best = int(decision.own[0]), int(decision.best[0])
    reasons: dict[str, Any] = {
        "in words": decision_in_words(recording, k),
        "workload": workload_in_words(recording, k),
        "chosen": alternative_in_words(int(decision.chosen[0])),
        "waiting workloads": int(decision.waiting[0]),
    }
    if np.isfinite(decision.regret[0]):
        reasons["cheapest"] = alternative_in_words(int(decision.machines[0, best]))
        reasons["regret"] = float(decision.regret[0])
        reasons["cost of the choice"] = _by_term(decision.costs[0, own])
        reasons["cost of the cheapest"] = _by_term(decision.costs[0, best])
    return reasons


def _by_term(costs: Float) -> dict[str, float]:
    return dict(zip(TERM_WORDS.values(), costs.tolist(), strict=True))
