"""What a table of affinity limits means."""

from __future__ import annotations

import numpy as np

from tvwrl.input_tables import InputTable
from tvwrl.planning.instance import NO_LIMIT, Affinity
from tvwrl.types import Strings


def affinity_of(applications: Strings, table: InputTable) -> Affinity:
    """Limits of columns `app_a`, `app_b` and either `limit` or `k`, for the applications of these names.

    `limit` is a_ij itself. `k` is the Tianchi contest's: the same, but for app_a = app_b it counts those beside an
    instance, so the self limit is k + 1. No rows are no limits. Raises InputError with source and row.
    """
    value = next((name for name in ("limit", "k") if name in table.columns), "limit")
    table.need("app_a", "app_b", value)
    position = {name: i for i, name in enumerate(applications.tolist())}
    i, j = (table.positions(name, position, "application") for name in ("app_a", "app_b"))
    limit = table.whole_numbers(value, 0, NO_LIMIT - 1)
    if value == "k":
        limit = np.where(i == j, limit + 1, limit)
    return Affinity.of(len(applications), i, j, limit, lambda row: f"{table.source}: row {row + 1}")
