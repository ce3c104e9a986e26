"""What an application is to reach, in its own units: `p99 <= 20 ms`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tvwrl.lrasched.profiles import Bool
from tvwrl.types import Float, InputError

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
FORM = re.compile(
    rf"\s*(?:(?P<name>[A-Za-z_]\w*)?\s*(?P<sign><=|>=|<|>)\s*)?(?P<limit>{NUMBER})\s*(?P<unit>[A-Za-z%µ][^<>=]*)?"
)
TOLERANCE = 1e-12  # relative, of sums of floats


@dataclass(frozen=True)
class Target:
    """A limit that performance has to keep.

    Parameters
    ----------
    limit : float
        In the units in which performance was measured.
    higher_is_better : bool
        False where the limit is the most there may be, as of a latency.
    name : str
        What is measured: the column of the tables.
    unit : str
        Of the limit, as it is printed; nothing is converted.

    Raises
    ------
    InputError
        The limit is not finite.

    Examples
    --------
    >>> str(Target.parse("p99 <= 20 ms")), Target.parse("0.8").higher_is_better
    ('p99 <= 20 ms', True)
    """

    limit: float
    higher_is_better: bool = True
    name: str = "performance"
    unit: str = ""

    def __post_init__(self) -> None:
        if not math.isfinite(self.limit):
            raise InputError(f"goal is {self.limit}: must be a finite number")

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read one such as `p99 <= 20 ms`, `throughput >= 900`, or `0.8`, which is performance >= 0.8.

        Parameters
        ----------
        text : str
            Name of a column, <= or >=, a number and a unit; all but the number may be left out.

        Raises
        ------
        InputError
            It is no such text.
        """
        found = FORM.fullmatch(text)
        if found is None:
            raise InputError(f"goal is {text!r}: must be like 'p99 <= 20 ms', 'throughput >= 900' or 0.8")
        limit = float(found["limit"])
        higher = (found["sign"] or ">=").startswith(">")
        return cls(limit, higher, found["name"] or "performance", (found["unit"] or "").strip())

    def met(self, performance: Float) -> Bool:
        """Tell which performances keep the limit.

        Parameters
        ----------
        performance : Float
            (...) in the units of the limit.
        """
        slack = TOLERANCE * max(abs(self.limit), 1.0)
        return performance >= self.limit - slack if self.higher_is_better else performance <= self.limit + slack

    def __str__(self) -> str:
        return f"{self.name} {'>=' if self.higher_is_better else '<='} {self.said(self.limit)}"

    def said(self, performance: float) -> str:
        """A value with the unit.

        Parameters
        ----------
        performance : float
            In the units of the limit.
        """
        return f"{performance:.4g} {self.unit}".rstrip()
