"""What a table of affinity limits means."""

from __future__ import annotations

import numpy as np

from tvwrl.input_tables import InputTable
from tvwrl.planning.instance import Affinity
from tvwrl.types import Int, Strings


def affinity_of(applications: Strings, table: InputTable) -> Affinity:
    """Limits of columns `app_a`, `app_b` and either `limit` or `k`, for the applications of these names.

    `limit` is a_ij itself. `k` is the Tianchi contest's: the same, but for app_a = app_b it counts those beside an
    instance, so the self limit is k + 1. No rows are no limits. Raises InputError with source and row.
    """
    value = next((name for name in ("limit", "k") if name in table.columns), "limit")
    table.need("app_a", "app_b", value)
    i, j = (_indices(applications, table, name) for name in ("app_a", "app_b"))
    limit = table.whole_numbers(value, -np.inf)
    if value == "k":
        limit = np.where((i == j) & (limit >= 0), limit + 1, limit)
    return Affinity.of(len(applications), i, j, limit, lambda row: f"{table.source}: row {row + 1}")


def _indices(applications: Strings, table: InputTable, column: str) -> Int:
    """(rows,) positions of the applications that a column names."""
    position = {name: i for i, name in enumerate(applications.tolist())}
    names = table.names(column)
    found = np.array([position.get(name, -1) for name in names], np.int64)
    if (unknown := found < 0).any():
        row = int(np.argmax(unknown))
        table.refuse(row, f"{column} is '{names[row]}', which is no application here")
    return found
