"""What is measured for the figures: functions with their arguments, each a cell that is made once and kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.experiments import Rows, RowsCell
from tvwrl.input_tables import read_table
from tvwrl.lrasched import Profiles
from tvwrl.types import Float

ERMS_COLUMNS = ("app", "success", "inflection", "a1", "b1", "a2", "b2", "tag", "cpuInter", "memInter")
NGINX_COLUMNS = ("campaign", "Replicas", "Interference_Name", "Interference_ID", "Given_RPS", "P99_Latency")
LAST_PURE = 34  # scenarios up to this number have one kind of interference; the names of mixed ones are ambiguous


def read_erms(path: Path) -> Profiles:
    """Read microservices of the Erms benchmarks (erms_inflection.csv.gz) at levels of CPU and memory interference.

    A row of the file fits latency (us) to load r: a1 r + b1 up to an inflection, a2 r + b2 beyond. An application is a
    microservice, a configuration a pair of levels, and its latency that at one load: the inflection of the
    microservice's least disturbed row. Rows whose fit failed, or is not positive at this load, are left out.
    """
    import polars as pl

    table = read_table(path, ERMS_COLUMNS).filter(pl.col("success") & pl.col("inflection").is_not_null())
    latency: dict[tuple[str, str], float] = {}
    for (tag,), fits in table.sort("tag", "cpuInter", "memInter").group_by(["tag"], maintain_order=True):
        load = fits["inflection"][0]
        for fit in fits.iter_rows(named=True):
            segment = "1" if load <= fit["inflection"] else "2"
            us = fit["a" + segment] * load + fit["b" + segment]
            if us > 0:
                latency[str(tag), f"cpu {fit['cpuInter']:.2f} mem {fit['memInter']:.0f}"] = us
    return _profiles(latency)


def read_nginx(path: Path) -> Profiles:
    """Read 99th percentiles of nginx's response time under iBench and stress-ng (ntua_nginx_ibench.csv.gz).

    An application is a campaign's number of replicas at one offered load, a configuration a scenario with one kind of
    interference (numbers up to 34). Applications that lack one of the 15 scenarios are left out.
    """
    import polars as pl

    table = read_table(path, NGINX_COLUMNS).filter(pl.col("Interference_ID") <= LAST_PURE)
    parts = [pl.col("campaign"), pl.col("Replicas"), pl.col("Given_RPS")]
    table = table.with_columns(pl.concat_str(parts, separator=" ").alias("application"))
    table = table.sort("application", "Interference_ID")
    scenarios = table["Interference_ID"].n_unique()
    table = table.filter(pl.col("Interference_ID").n_unique().over("application") == scenarios)
    rows = table.select("application", "Interference_Name", "P99_Latency").iter_rows()
    return _profiles({(application, scenario): ms for application, scenario, ms in rows})


def _profiles(latency: dict[tuple[str, str], float]) -> Profiles:
    applications, configurations = (list(dict.fromkeys(pair[side] for pair in latency)) for side in (0, 1))
    grid: Float = np.full((len(applications), len(configurations)), np.nan)
    for (application, configuration), value in latency.items():
        grid[applications.index(application), configurations.index(configuration)] = np.log(value)
    span = np.nanmax(grid) - np.nanmin(grid)
    return Profiles.of_grid(applications, configurations, 1.0 - (grid - np.nanmin(grid)) / span)


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
