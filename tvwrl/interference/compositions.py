"""Counts of batch instances by machine and category, updated as instances start and end (5.2.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvwrl.interference.observations import CATEGORIES
from tvwrl.types import InputError, Int


class Compositions:
    """Instances by category on M machines, updated incrementally. A call that raises changes nothing."""

    def __init__(self, machines: int, counts: Any = None) -> None:
        """`counts`: C-contiguous (machines, 60) integers to update in place, e.g. of `Machines`; default: zeros."""
        self.counts = np.zeros((machines, CATEGORIES), np.int32) if counts is None else counts
        if self.counts.shape != (machines, CATEGORIES) or not self.counts.flags.c_contiguous:
            raise InputError(
                f"compositions have shape {self.counts.shape}: must be ({machines}, {CATEGORIES}) and contiguous"
            )
        self._flat = self.counts.reshape(-1)  # a view

    def start(self, machine: Int, category: Int, instances: Int | int = 1) -> None:
        """Count instances that start: `instances` >= 0 of each (machine, category); scalars or (n,).

        Raises InputError with the row of a machine, category or number out of range.
        """
        entry, number = self._entries(machine, category, instances)
        self._flat[entry] += number

    def end(self, machine: Int, category: Int, instances: Int | int = 1) -> None:
        """Count instances that end, as `start`; raises InputError also where more end than run."""
        entry, number = self._entries(machine, category, instances)
        more = number > self._flat[entry]
        if more.any():
            first = int(np.argmax(more))
            at = divmod(int(entry[first]), CATEGORIES)
            raise InputError(
                f"machine {at[0]}, category {at[1]}: {number[first]} instances end where {self.counts[at]} run"
            )
        self._flat[entry] -= number

    def _entries(self, machine: Int, category: Int, instances: Int | int) -> tuple[Int, Int]:
        """(k,) distinct flat indices of `counts`, and the number of instances at each."""
        columns = np.broadcast_arrays(*(np.atleast_1d(value) for value in (machine, category, instances)))
        limits = (len(self.counts), CATEGORIES, np.iinfo(np.int32).max)
        for name, values, limit in zip(("machine", "category", "instances"), columns, limits, strict=True):
            wrong = ~((values >= 0) & (values < limit)) | (values != np.floor(values))
            if wrong.any():
                row = int(np.argmax(wrong))
                raise InputError(f"row {row}: {name} is {values[row]}: must be a whole number from 0 to {limit - 1}")
        entry = columns[0].astype(np.int64) * CATEGORIES + columns[1].astype(np.int64)
        entries, which = np.unique(entry, return_inverse=True)
        return entries, np.bincount(which, columns[2], len(entries)).astype(self.counts.dtype)
