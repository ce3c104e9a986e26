"""What the hyper-parameters of both models have to be."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np

from tvwrl.types import InputError


def check_parameters(model: Any, positive: tuple[str, ...]) -> None:
    """Of a dataclass: every field is a finite number >= 0, or > 0 if in `positive`; one declared an int is whole.

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
