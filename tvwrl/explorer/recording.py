"""What the explorer shows of an episode: every decision, what the scheduler saw, and what each alternative would have
cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.penalties import TERMS
from tvwrl.runs import whole_file
from tvwrl.schedulers import NONE, WAIT
from tvwrl.types import Episode, Float, Int, Machines, SequenceSet

__all__ = ["NONE", "WAIT", "Recording"]


@dataclass(frozen=True, eq=False)
class Recording:
    """An episode of one scheduler, with its decisions in order. A decision places one workload, or none in a slot.

    K decisions, A alternatives of each, T slots, N workloads, M machines.

    Parameters
    ----------
    episode : Episode
        What was placed where and when.
    penalties : array of float, (T, 4) or (T, 5)
        Penalties of each slot, by `penalties.TERMS`, the last where workloads may be moved; they add up to minus the
        reward, if all was placed.
    slot : array of int, (K,)
        When the decision was taken.
    workload : array of int, (K,)
        The workload that was placed, 0..N-1, or, if none was, the head of the queue.
    chosen : array of int, (K,)
        The machine, 0..M-1, or `WAIT`.
    waiting : array of int, (K,)
        Workloads that waited, this one included.
    machines : array of int, (K, A)
        The alternatives, with the choice: machines, `WAIT`, or `NONE`.
    costs : array of float, (K, A, 4) or (K, A, 5)
        Penalties from this decision on if that is done; NaN where it was not played on.
    scores : array of float32, (K, A)
        What the scheduler thought of it (`meaning`); NaN: nothing.
    possible : array of bool, (K, A)
        False where the scheduler's own filter rules the machine out.
    meaning : str
        What `scores` are: score (higher is better), probability or expected cost; empty if there are none.
    continued_by : str
        The scheduler that takes all decisions after an alternative.
    repeats : bool
        False if playing the first choice again cost something else, so that its costs are one draw.

    Examples
    --------
    >>> recording = record(runner, make_scheduler("spread"), 0)  # doctest: +SKIP
    >>> recording.regret.argmax()  # the costliest decision  # doctest: +SKIP
    """

    episode: Episode
    penalties: Float
    slot: Int
    workload: Int
    chosen: Int
    waiting: Int
    machines: Int
    costs: Float
    scores: npt.NDArray[np.float32]
    possible: npt.NDArray[np.bool_]
    meaning: str
    continued_by: str
    repeats: bool = True

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def simulated(self) -> npt.NDArray[np.bool_]:
        """Decisions whose alternatives were played on, (K,)."""
        return np.asarray(np.isfinite(self.totals).any(axis=1))

    @property
    def terms(self) -> list[str]:
        """(4,) or (5,) what people call the penalties."""
        return list(TERM_WORDS.values())[: self.costs.shape[2]]

    @property
    def totals(self) -> Float:
        """Cost of each alternative from the decision on, (K, A); NaN where it is not known."""
        total: Float = self.costs.sum(axis=2)
        return total

    @property
    def own(self) -> Int:
        """Number of the alternative that was taken, (K,)."""
        taken: Int = (self.machines == self.chosen[:, None]).argmax(axis=1)
        return taken

    @property
    def best(self) -> Int:
        """Number of the cheapest alternative, (K,); of the one taken if no other is cheaper."""
        total = np.where(np.isnan(self.totals), np.inf, self.totals)
        rows, own = np.arange(len(self)), self.own
        first = total.argmin(axis=1) if len(self) else own
        best: Int = np.where(total[rows, first] < total[rows, own], first, own)
        return best

    @property
    def regret(self) -> Float:
        """Cost of the choice beyond the cheapest alternative, (K,), >= 0; NaN where alternatives were not played on."""
        rows = np.arange(len(self))
        beyond: Float = self.totals[rows, self.own] - self.totals[rows, self.best]
        return beyond


ROUNDING = 1e-9  # share of a cost: sums of the same penalties in another order differ by less


def machine_loads(episode: Episode, machines: Machines, slots: int) -> Float:
    """(T, M, D) units on every machine in slots 0..`slots` - 1, background load included."""
    loads: Float = np.zeros((slots, *machines.capacity.shape))
    if episode.background is not None and slots:
        loads += episode.background[np.arange(slots) % len(episode.background)]
    for i, machine, begin, end in zip(*episode.stays(), strict=True):
        loads[begin:end, machine] += episode.demand[i][begin - episode.start[i] : end - episode.start[i]]
    return loads


def costliest_decisions(recording: Recording, most: int) -> list[int]:
    """At most `most` decisions with a cheaper alternative, by falling regret; none whose alternatives are unknown."""
    if len(recording) == 0:
        return []
    regret, rows = recording.regret, np.arange(len(recording))
    known = np.nan_to_num(recording.totals[rows, recording.own])
    worth = np.nan_to_num(regret) > ROUNDING * np.maximum(1.0, known)
    order = np.argsort(-np.nan_to_num(regret), kind="stable")
    return [int(k) for k in order if worth[k]][:most]


TERM_WORDS = dict(zip(TERMS, ("contention", "under-utilisation", "overshoot", "waiting", "moves"), strict=True))
LONGEST_NAME = 100  # letters of a workload's name; traces may have any, a megabyte too
WAITING = "waiting one slot"  # what the alternative WAIT is called


def shortened(text: object, letters: int = LONGEST_NAME) -> str:
    """A name in one line of at most `letters` letters; what cannot be printed becomes a space.

    >>> shortened("web" + chr(10) + "server", 6)
    'web s…'
    """
    line = "".join(letter if letter.isprintable() else " " for letter in str(text)[: letters + 1])
    return line if len(line) <= letters else line[: letters - 1] + "…"


def why_none_is_costly(recording: Recording) -> str:
    """Why `costliest_decisions` finds none in this recording, as the end of a sentence."""
    if len(recording) == 0:
        return "nothing was decided"
    return "no decision had a cheaper alternative" if recording.simulated.any() else "no alternative was simulated"


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
