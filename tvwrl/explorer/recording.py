"""What the explorer shows of an episode: every decision, what the scheduler saw, and what each alternative would have
cost.

Letters: K decisions, A alternatives of a decision, T slots, N workloads, M machines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvwrl.schedulers import NONE, WAIT
from tvwrl.types import Episode, Float, Int

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
