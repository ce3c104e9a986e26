"""Rows of finished cells: those with given values, and a field of each as an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvwrl.experiments.engine import Rows
from tvwrl.types import Float


def select(rows: Rows, **where: Any) -> Rows:
    """The rows that have all these values."""
    return [row for row in rows if where.items() <= row.items()]


def column(rows: Rows, name: str, **where: Any) -> Float:
    """(rows,) values of a field in the rows that have all these values; NaN for None."""
    return np.array([row[name] for row in select(rows, **where)], np.float64)


def distinct(rows: Rows, name: str) -> list[Any]:
    """The different values of a field, in order of appearance."""
    return list(dict.fromkeys(row[name] for row in rows))
