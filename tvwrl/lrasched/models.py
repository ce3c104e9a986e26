"""What both learnt models share: checks of hyper-parameters and targets, and the factors that they start from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np

from tvwrl.types import Float, InputError


def check_parameters(model: Any, positive: tuple[str, ...]) -> None:
    """Check that every field of a dataclass is a finite number >= 0, or > 0 if in `positive`, and whole if an int.

    Raises InputError with field, value and limit.
    """
    for field in fields(model):
        value: Any = getattr(model, field.name)
        whole = field.type in ("int", int)
        kinds = (int, np.integer) if whole else (int, float, np.number)
        good = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
        if not good or (field.name in positive and value == 0):
            limit = f"must be a {'whole ' * whole}number {'> 0' if field.name in positive else '>= 0'}"
            raise InputError(f"{field.name} is {value!r}: {limit}")


def check_targets(y: Any, rows: int) -> Float:
    """`y` as an array (rows,). Raises InputError for another shape, NaN or infinity."""
    target = np.asarray(y, np.float64)
    if target.shape != (rows,):
        raise InputError(f"y has shape {target.shape}: must be ({rows},), one target per row of X")
    if not np.isfinite(target).all():
        row = int(np.argmin(np.isfinite(target)))
        raise InputError(f"y: row {row} is {target[row]}: must be finite")
    return target


def draw_factors(seeds: Iterable[tuple[int, ...]], sigma: float, factors: int) -> Float:
    """(seeds, factors) drawn from N(0, sigma), each row from its own seed, so that it does not depend on the others."""
    rows = [np.random.default_rng(seed).normal(0.0, sigma, factors) for seed in seeds]
    return np.array(rows).reshape(len(rows), factors)
