"""Applications of which no two can share a machine: heavy cliques in the graph of conflicts."""

from __future__ import annotations

import math
import time

import numpy as np
import numpy.typing as npt

from tvwrl.planning.bounds.counting import largest, machines_if_alone
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.types import Float, Int

SEEDS = 50  # cliques that are grown, from the applications that need most machines
NUMBERS = 20_000_000  # most demand values compared at once


def by_exclusion(instance: Instance, fleet: Fleet, deadline: float = math.inf) -> tuple[int, Int, bool]:
    """Machines that the heaviest clique found needs, its members, and whether all seeds were tried before `deadline`.

    Cliques are grown greedily: to each seed the application that needs most machines and conflicts with all members.
    """
    weight = machines_if_alone(instance, fleet)
    heaviest = np.argsort(-weight, kind="stable")
    conflicts = _Conflicts(instance, fleet)
    best, apart = 0, heaviest[:1]
    for number, seed in enumerate(heaviest[:SEEDS]):
        if number and time.monotonic() > deadline:
            return best, apart, False
        members, rest = [seed], heaviest[conflicts.among(seed, heaviest)]
        while len(rest):
            members.append(rest[0])
            rest = rest[1:][conflicts.among(rest[0], rest[1:])]
        if (total := int(weight[members].sum())) > best:
            best, apart = total, np.array(members)
    return best, apart, True


class _Conflicts:
    """Which applications cannot share a machine."""

    def __init__(self, instance: Instance, fleet: Fleet) -> None:
        self._affinity = instance.affinity
        self._share: Float = instance.demand / largest(fleet)
        self._peak: Float = self._share.max(axis=1)
        self._step = max(1, NUMBERS // self._share[0].size)

    def among(self, i: int, others: Int) -> npt.NDArray[np.bool_]:
        """(n,) which of `others` conflict with i; i itself does not."""
        excluded = np.zeros(len(self._share), np.bool_)
        a = self._affinity
        for start, ends, limits in ((a.start, a.to, a.limit), (a.into_start, a.into, a.into_limit)):
            row = slice(start[i], start[i + 1])
            excluded[ends[row][limits[row] == 0]] = True
        found = excluded[others]
        open_ = np.flatnonzero(~found & ((self._peak[others] + self._peak[i]) > 1).any(axis=1))
        for begin in range(0, len(open_), self._step):
            some = open_[begin : begin + self._step]
            found[some] = ((self._share[others[some]] + self._share[i]) > 1).any(axis=(1, 2))
        result: npt.NDArray[np.bool_] = found & (others != i)
        return result
