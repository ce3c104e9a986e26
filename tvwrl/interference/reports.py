"""What machines of the simulation report each minute: all of them, or all but some that stay silent for a while."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvwrl.interference.machines import Machines
from tvwrl.types import InputError, Int

SILENCE = 30.0  # minutes that a machine stays silent, on average


class Reports:
    """Composition and time of the last report of each machine, written where scorers read them.

    A silent machine runs on, but what it runs stays, for the scorer, what its last report said; within a minute the
    scheduler adds what it places there itself, and what ends there it does not hear of. CPU and memory in use are
    always known, since instances that find no room are refused by the machine itself. `silent`: share of the machines,
    which fall silent and recover at random; the generator is not touched for 0. Raises InputError for a share outside
    [0, 1).
    """

    def __init__(self, machines: Machines, silent: float, rng: np.random.Generator) -> None:
        if not 0 <= silent < 1:
            raise InputError(f"silent is {silent:g}: must be a share of machines, at least 0 and below 1")
        self._silent, self._rng = silent, rng
        self._mute = rng.random(len(machines.cores)) < silent if silent else np.zeros(len(machines.cores), bool)
        self._shown = machines.composition.copy()

    def come(self, machines: Machines, now: float, running: Callable[[], Int]) -> None:
        """Reports of second `now`, into `composition` and `heard`; `running` counts (M, 60) what really runs."""
        if not self._silent:
            machines.heard[:] = now
            return
        chance = np.where(self._mute, 1.0, self._silent / (1.0 - self._silent)) / SILENCE
        self._mute ^= self._rng.random(len(self._mute)) < chance
        told = ~self._mute
        machines.heard[told] = now
        self._shown[told] = running()[told]
        machines.composition[:] = self._shown
