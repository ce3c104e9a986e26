"""How many batch instances of each category run on each machine, kept up to date as they start and end (5.2.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvwrl.interference.observations import CATEGORIES
from tvwrl.types import InputError, Int


class Compositions:
    """M machines' numbers of instances by category, changed as instances start and end; nothing is ever recounted.

    A call that is refused changes nothing.
    """

    def __init__(self, machines: int, counts: Any = None) -> None:
        """`counts`: a C-contiguous (machines, 60) array of whole numbers to keep, e.g. that of `Machines`; else a new
        one of zeros."""
        self.counts = np.zeros((machines, CATEGORIES), np.int32) if counts is None else counts
        if self.counts.shape != (machines, CATEGORIES) or not self.counts.flags.c_contiguous:
            raise InputError(
                f"compositions have shape {self.counts.shape}: must be ({machines}, {CATEGORIES}) and contiguous"
            )
        self._flat = self.counts.reshape(-1)  # a view

    def start(self, machine: Int, category: Int, instances: Int | int = 1) -> None:
        """Instances begin: n of (machine, category), `instances` >= 0 of each; scalars or (n,).

        Raises InputError with the row for a machine, category or number that there cannot be.
        """
        cell, number = self._cells(machine, category, instances)
        self._flat[cell] += number

    def end(self, machine: Int, category: Int, instances: Int | int = 1) -> None:
        """Instances end; as `start`. Raises InputError too where more end than run."""
        cell, number = self._cells(machine, category, instances)
        more = number > self._flat[cell]
        if more.any():
            first = int(np.argmax(more))
            at = divmod(int(cell[first]), CATEGORIES)
            raise InputError(
                f"machine {at[0]}, category {at[1]}: {number[first]} instances end where {self.counts[at]} run"
            )
        self._flat[cell] -= number

    def _cells(self, machine: Int, category: Int, instances: Int | int) -> tuple[Int, Int]:
        """(k,) different flat indices of counts, and the number of instances at each."""
        columns = np.broadcast_arrays(*(np.atleast_1d(value) for value in (machine, category, instances)))
        limits = (len(self.counts), CATEGORIES, np.iinfo(np.int32).max)
        for name, values, limit in zip(("machine", "category", "instances"), columns, limits, strict=True):
            wrong = ~((values >= 0) & (values < limit)) | (values != np.floor(values))
            if wrong.any():
                row = int(np.argmax(wrong))
                raise InputError(f"row {row}: {name} is {values[row]}: must be a whole number from 0 to {limit - 1}")
        cell = columns[0].astype(np.int64) * CATEGORIES + columns[1].astype(np.int64)
        cells, which = np.unique(cell, return_inverse=True)
        return cells, np.bincount(which, columns[2], len(cells)).astype(self.counts.dtype)
