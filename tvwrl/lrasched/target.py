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
MULTIPLE = re.compile("[kKMG]")
SIZES = ("cpu", "mem", "collocation")
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
        limit, unit = float(found["limit"]), (found["unit"] or "").strip()
        if MULTIPLE.fullmatch(unit.partition(" ")[0]):
            raise InputError(f"goal is {text!r}: write out the number, {unit[0]} is not taken for a multiple of it")
        if found["name"] in SIZES:
            raise InputError(f"goal is {text!r}: {found['name']} is part of a configuration; name what was measured")
        higher = (found["sign"] or ">=").startswith(">")
        return cls(limit, higher, found["name"] or "performance", unit)

    def met(self, performance: Float) -> Bool:
        """Tell which performances keep the limit.

        Parameters
        ----------
        performance : Float
            (...) in the units of the limit.
        """
        slack = TOLERANCE * abs(self.limit)
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
        return f"{plain(performance)} {self.unit}".rstrip()


def plain(value: float) -> str:
    """A number with four digits, and without an exponent unless it is tiny or huge.

    >>> plain(20000.0), plain(0.123456), plain(1.5e9)
    ('20000', '0.1235', '1.5e+09')
    """
    short = f"{value:.4g}"
    return f"{float(short):.0f}" if "e" in short and 1.0 <= abs(value) < 1e9 else short
