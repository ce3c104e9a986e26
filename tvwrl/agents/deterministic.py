"""Which action a policy takes if none is drawn, from its logits; needs no PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.types import Float, Int

Mask = npt.NDArray[np.bool_]
Seen = dict[str, npt.NDArray[Any]]  # a batched observation; see `PlacementEnv`
Logits = npt.NDArray[np.floating[Any]]  # (n, actions)
LogitsOf = Callable[[Seen, Mask], Logits]  # of observations (n, ...) and their masks (n, actions)

TIE = 1e-5  # logits that differ by less are equal, in absolute terms near 0 and else in relative ones


def probabilities(logits: Logits) -> Float:
    """(n, actions) in double precision, from logits (n, actions)."""
    odds = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    chances: Float = odds / odds.sum(axis=1, keepdims=True)
    return chances


class DeterministicActions:
    """Deterministic actions for B environments: the most probable placement, after the median waiting time.

    Of placements that are equally probable up to rounding, the first is taken: how a matrix product is rounded depends
    on the processor and on how many states are evaluated together.

    A policy decides anew in every slot whether to hold. If it holds with probability 0.6, it waits about two slots when
    actions are drawn, but its most probable action would be to hold for good. Here a workload is held only while the
    probability of having held it for so long is at least one half.

    `batch`: B
    `placements`: actions below this place a workload (`Simulation.placements`)

    Attribute: `held` (B,), the probability of having held what waits for as long as it has been.
    """

    def __init__(self, batch: int, placements: int) -> None:
        self._placements, self.held = placements, np.ones(batch)

    def choose(
        self,
        logits: Logits,
        alive: Mask | Int | None = None,
        placed: Mask | None = None,
    ) -> npt.NDArray[np.int64]:
        """(n,) actions for logits (n, placements), or one more with holding, of environments `alive` (B,) or (n,).

        `placed` (n,): if not these actions were taken but others, whether the last of them placed a workload
        """
        placing = logits[:, : self._placements]
        best = placing.max(axis=1, keepdims=True)
        chosen: npt.NDArray[np.int64] = (placing >= best - TIE * (1 + np.abs(best))).argmax(axis=1)
        if logits.shape[1] == self._placements:
            return chosen
        alive = np.ones(len(self.held), np.bool_) if alive is None else alive
        before = self.held[alive] if placed is None else np.where(placed, 1.0, self.held[alive])
        held = before * probabilities(logits)[:, -1]
        hold = held >= 0.5
        self.held[alive] = np.where(hold, held, 1.0) if placed is None else held
        return np.where(hold, self._placements, chosen)
