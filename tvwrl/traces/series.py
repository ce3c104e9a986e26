"""Series of usage that come from outside, checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tvwrl.types import Float, InputError


def checked_series(
    series: Sequence[npt.ArrayLike], resources: int | None = None, what: str = "workload", least: float = -np.inf
) -> list[Float]:
    """The series as float arrays (length, D) of finite values >= `least`, with lengths >= 1 and one D (`resources`).

    Raises InputError naming the first series, slot and resource for which that does not hold.
    """
    if len(series) == 0:
        raise InputError(f"no series: at least one {what} is needed")
    result: list[Float] = []
    for i, one in enumerate(series):
        try:
            values = np.asarray(one, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{what} {i}: its series is not an array of numbers ({error})") from None
        if resources is None and values.ndim == 2:
            resources = values.shape[1]
        if values.ndim != 2 or values.size == 0 or values.shape[1] != resources:
            wanted = "D" if resources is None else resources
            raise InputError(f"{what} {i}: its series has shape {values.shape}, must be (length, {wanted}), neither 0")
        bad = ~(np.isfinite(values) & (values >= least))
        if bad.any():
            slot, resource = np.argwhere(bad)[0]
            limit = "finite" if least == -np.inf else f"finite and >= {least:g}"
            raise InputError(
                f"{what} {i}, slot {slot}, resource {resource}: usage is {values[slot, resource]}, must be {limit}; "
                "fill or cut gaps first"
            )
        result.append(values)
    return result
