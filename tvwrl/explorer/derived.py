"""What traces and pictures compute from a recording: loads, queues, the costliest decisions, where two episodes part.

Letters: K decisions, T slots, N workloads, M machines, D resources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tvwrl.explorer.recording import Recording
from tvwrl.types import Episode, Float, InputError, Int, Machines

ROUNDING = 1e-9  # share of a cost: sums of the same penalties in another order differ by less


def slots_of(recording: Recording) -> int:
    """T: slots until the last placed workload has finished, or for which there are penalties."""
    return max(len(recording.penalties), int(recording.episode.finish.max(initial=0)))


def machine_loads(episode: Episode, machines: Machines, slots: int) -> Float:
    """(T, M, D) units on every machine in slots 0..`slots` - 1, background load included."""
    loads: Float = np.zeros((slots, *machines.capacity.shape))
    if episode.background is not None and slots:
        loads += episode.background[np.arange(slots) % len(episode.background)]
    for i in np.flatnonzero(episode.start >= 0):
        loads[episode.start[i] : episode.finish[i], episode.machine[i]] += episode.demand[i]
    return loads


def waiting_counts(episode: Episode, slots: int) -> Int:
    """(T,) workloads that have arrived and do not run yet, in slots 0..`slots` - 1."""
    until = np.where(episode.start >= 0, episode.start, slots)
    changes = np.zeros(slots + 1, np.int64)
    np.add.at(changes, np.minimum(episode.arrival, slots), 1)
    np.add.at(changes, np.minimum(np.maximum(until, episode.arrival), slots), -1)
    counts: Int = changes.cumsum()[:slots]
    return counts


def costliest_decisions(recording: Recording, most: int) -> list[int]:
    """At most `most` decisions with a cheaper alternative, by falling regret; none whose alternatives are unknown."""
    if len(recording) == 0:
        return []
    regret, rows = recording.regret, np.arange(len(recording))
    known = np.nan_to_num(recording.totals[rows, recording.own])
    worth = np.nan_to_num(regret) > ROUNDING * np.maximum(1.0, known)
    order = np.argsort(-np.nan_to_num(regret), kind="stable")
    return [int(k) for k in order if worth[k]][:most]


def only(recording: Recording, k: int) -> Recording:
    """The recording with decision `k` alone: what is derived from it is not worked out for all K each time."""
    by_decision = ("slot", "workload", "chosen", "waiting", "machines", "costs", "scores", "possible")
    return replace(recording, **{name: getattr(recording, name)[k : k + 1] for name in by_decision})


def first_parting(one: Recording, other: Recording) -> int | None:
    """First slot in which two episodes of the same arrivals place a workload differently; None if they never do."""
    first, second = one.episode, other.episode
    differ = (first.start != second.start) | (first.machine != second.machine)
    if not differ.any():
        return None
    starts = np.concatenate([first.start[differ], second.start[differ]])
    return int(starts[starts >= 0].min())


def check_same_arrivals(recordings: Sequence[Recording]) -> None:
    """Raise InputError if the recordings are not episodes of the same workloads, arriving at the same slots."""
    first = recordings[0].episode
    for recording in recordings[1:]:
        episode = recording.episode
        if not (
            np.array_equal(first.workload_id, episode.workload_id) and np.array_equal(first.arrival, episode.arrival)
        ):
            raise InputError(
                f"'{first.scheduler}' and '{episode.scheduler}' were recorded on different arrivals: "
                "a report compares schedulers on the same sequence only"
            )
