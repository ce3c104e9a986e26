"""What the explorer shows of an episode: every decision, what the scheduler saw, and what each alternative would have
cost.

Letters: K decisions, A alternatives of a decision, T slots, N workloads, M machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.runs import whole_file
from tvwrl.schedulers import NONE, WAIT
from tvwrl.types import Episode, Float, InputError, Int, Machines, SequenceSet

__all__ = ["NONE", "WAIT", "Recording"]


@dataclass(frozen=True, eq=False)
class Recording:
    """An episode of one scheduler, with its decisions in order. A decision places one workload, or none in a slot."""

    episode: Episode
    penalties: Float  # (T, 4) in each slot, by `penalties.TERMS`; add up to minus the reward, if all was placed
    slot: Int  # (K,) when it was taken
    workload: Int  # (K,) 0..N-1 what was placed or, if nothing was, the head of the queue
    chosen: Int  # (K,) machine, or WAIT
    waiting: Int  # (K,) workloads that waited, this one included
    machines: Int  # (K, A) the alternatives, with the choice: machines, WAIT, or NONE
    costs: Float  # (K, A, 4) penalties from this decision on if that is done; NaN where it was not played on
    scores: npt.NDArray[np.float32]  # (K, A) what the scheduler thought of it (`meaning`), NaN = nothing
    possible: npt.NDArray[np.bool_]  # (K, A) False where the scheduler's own filter rules the machine out
    meaning: str  # what `scores` are: "score" (higher is better), "probability", "expected cost"; "" = there are none
    continued_by: str  # the scheduler that takes all decisions after an alternative
    repeats: bool = True  # False: playing the first choice again cost something else, so its costs are one draw

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def simulated(self) -> npt.NDArray[np.bool_]:
        """(K,) whether the alternatives were played on."""
        return np.asarray(np.isfinite(self.totals).any(axis=1))

    @property
    def totals(self) -> Float:
        """(K, A) cost of each alternative from the decision on, NaN where it is not known."""
        total: Float = self.costs.sum(axis=2)
        return total

    @property
    def own(self) -> Int:
        """(K,) which alternative was taken."""
        taken: Int = (self.machines == self.chosen[:, None]).argmax(axis=1)
        return taken

    @property
    def best(self) -> Int:
        """(K,) the cheapest alternative, the one taken if no other is cheaper."""
        total = np.where(np.isnan(self.totals), np.inf, self.totals)
        rows, own = np.arange(len(self)), self.own
        first = total.argmin(axis=1) if len(self) else own
        best: Int = np.where(total[rows, first] < total[rows, own], first, own)
        return best

    @property
    def regret(self) -> Float:
        """(K,) >= 0 what the choice cost beyond the cheapest alternative; NaN where alternatives were not played on."""
        rows = np.arange(len(self))
        beyond: Float = self.totals[rows, self.own] - self.totals[rows, self.best]
        return beyond


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
