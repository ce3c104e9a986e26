"""What is measured for the figures: functions with their arguments, each a cell that is made once and kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

from tvwrl.experiments.engine import Rows, RowsCell
from tvwrl.papers.lrasched import learning, placement
from tvwrl.provisioning.sources.drawn import Drawn


@dataclass(frozen=True)
class Measurement(RowsCell):
    """The rows that a function returns for its arguments, which become columns too."""

    path: str  # cells with the same parent run in one process and share what is drawn and planned for them
    function: Callable[..., Rows]
    arguments: tuple[tuple[str, Any], ...]

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


def prediction(data: str, predictor: str, seed: int, **source: Any) -> Measurement:
    """Table 2: errors of a predictor on one data set; `source`: earlier and arriving, or the folder of real data."""
    path = f"predictions/{_slug(data)}-seed{seed}/{_slug(predictor)}"
    return _cell(path, learning.prediction_errors, data=data, seed=seed, predictor=predictor, **source)


def degrees(seed: int) -> Measurement:
    """Figure 2: performance by degree of collocation."""
    return _cell(f"degrees/seed{seed}", learning.performance_by_degree, seed=seed)


def arrivals(predictor: str, seed: int, arriving: int) -> Measurement:
    """Figure 5: errors of a predictor as applications arrive."""
    path = f"arrivals/seed{seed}/{_slug(predictor)}"
    return _cell(path, learning.errors_by_tenth, predictor=predictor, seed=seed, arriving=arriving)


def on_testbed(function: Callable[..., Rows], seed: int, margin: float, scheme: str, seconds: float) -> Measurement:
    """Figures 6 and 7: a function of `testbed` with one scheme."""
    path = f"testbed/margin{margin:g}-seed{seed}/{_slug(function.__name__)}-{scheme}"
    return _cell(path, function, seed=seed, scheme=scheme, margin=margin, milp_seconds=seconds)


def batch(drawn: Drawn, seed: int, scheme: str, seconds: float) -> Measurement:
    """Figures 8 to 10: one drawn batch placed by one scheme."""
    sizes = f"{drawn.applications}-{drawn.machines}-{drawn.dimensions}-{'to'.join(map(str, drawn.replicas))}"
    path = f"batches/{sizes}-{drawn.largest:g}-seed{seed}/{scheme}"
    return _cell(path, placement.measure_placement, drawn=drawn, seed=seed, scheme=scheme, milp_seconds=seconds)


def planning_time(drawn: Drawn, seed: int, scheme: str, seconds: float) -> Measurement:
    """Figures 11 and 12: how long one scheme takes to place a batch."""
    path = f"planning-times/{drawn.dimensions}-{drawn.machines}-seed{seed}/{scheme}"
    return _cell(path, placement.measure_planning_time, drawn=drawn, seed=seed, scheme=scheme, milp_seconds=seconds)


def _cell(path: str, function: Callable[..., Rows], **arguments: Any) -> Measurement:
    return Measurement(path, function, tuple(arguments.items()))


def _slug(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text).strip("-")
