"""Which machines of the simulated cluster report each minute; some may stay silent for a while."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvwrl.interference.machines import MonitoredMachines
from tvwrl.types import InputError, Int

SILENCE = 30.0  # mean minutes that a machine stays silent


class Reports:
    """Keeps `composition` and `last_report` of the machines as a scheduler knows them from their reports.

    A silent machine keeps running. The scheduler still sees its last reported composition: within a minute it adds what
    it places there itself, but does not learn what ends there. CPU and memory in use are always known, because a
    machine itself refuses instances that do not fit. `silent`: mean share of silent machines, which fall silent and
    recover at random; 0 draws no random numbers. Raises InputError for a share outside [0, 1).
    """

    def __init__(self, machines: MonitoredMachines, silent: float, rng: np.random.Generator) -> None:
        if not 0 <= silent < 1:
            raise InputError(f"silent is {silent:g}: must be a share of machines, at least 0 and below 1")
        self._silent, self._rng = silent, rng
        count = len(machines.cores)
        self._is_silent = rng.random(count) < silent if silent else np.zeros(count, bool)
        self._reported = machines.composition.copy()

    def deliver(self, machines: MonitoredMachines, now: float, count_running: Callable[[], Int]) -> None:
        """Update the machines with the reports of second `now`; `count_running` gives the true composition (M, 60)."""
        if not self._silent:
            machines.last_report[:] = now
            return
        probability = np.where(self._is_silent, 1.0, self._silent / (1.0 - self._silent)) / SILENCE
        self._is_silent ^= self._rng.random(len(self._is_silent)) < probability
        reporting = ~self._is_silent
        machines.last_report[reporting] = now
        self._reported[reporting] = count_running()[reporting]
        machines.composition[:] = self._reported
