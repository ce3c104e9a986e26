"""What is measured for the figures: functions with their arguments, each a cell that is made once and kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from tvwrl.experiments import Rows, RowsCell


@dataclass(frozen=True)
class Measurement(RowsCell):
    """The rows that a function returns for its arguments, which become columns too."""

    path: str  # cells with the same parent run in one process and share what is drawn and planned for them
    function: Callable[..., Rows]
    arguments: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, path: str, function: Callable[..., Rows], *arguments: Any, **others: Any) -> Measurement:
        """The cell of a call of a function, below a path whose parts may hold any text."""
        parts = (re.sub(r"[^\w.]+", "-", part).strip("-") for part in path.split("/"))
        given = signature(function).bind(*arguments, **others).arguments
        return cls("/".join(parts), function, tuple(given.items()))

    @property
    def name(self) -> str:
        return self.path

    @property
    def group(self) -> str:
        return self.path.rpartition("/")[0]

    def request(self) -> dict[str, Any]:
        paths = {name: value for name, value in self.arguments if isinstance(value, Path)}  # by their content
        return {"function": self.function.__name__} | self._columns() | paths

    def measure(self) -> Rows:
        return [self._columns() | row for row in self.function(**dict(self.arguments))]

    def _columns(self) -> dict[str, Any]:
        """The arguments as columns: the fields of dataclasses, a range as 1-3, paths as text."""
        flat: dict[str, Any] = {}
        for name, value in self.arguments:
            flat |= asdict(value) if is_dataclass(value) and not isinstance(value, type) else {name: value}
        flat = {name: "-".join(map(str, value)) if isinstance(value, tuple) else value for name, value in flat.items()}
        return {name: value if isinstance(value, int | float) else str(value) for name, value in flat.items()}
