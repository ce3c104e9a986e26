"""Profiles, the measured performance of applications in configurations, and their features (LRASched, Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tvwrl.checks import at_least, hint, positive
from tvwrl.input_tables import InputTable
from tvwrl.lrasched.factorization import Rows
from tvwrl.types import Float, InputError, Int, summary

Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Configuration:
    """The size of an application's replicas, and how many of them share a machine.

    Parameters
    ----------
    name : str
        What files call it.
    cpu : float
        Cores of a replica, > 0.
    mem : float
        GiB of a replica, > 0.
    collocation : int
        Replicas on a machine, >= 1.

    Raises
    ------
    InputError
        A number is out of range.

    Examples
    --------
    >>> Configuration("2c-4g-x8", 2.0, 4.0, 8).size
    (2.0, 4.0)
    """

    name: str
    cpu: float
    mem: float
    collocation: int = 1

    def __post_init__(self) -> None:
        prefix = f"configuration {self.name!r}: "
        positive(**{f"{prefix}cpu": self.cpu, f"{prefix}mem": self.mem})
        at_least(1, **{f"{prefix}collocation": self.collocation})
        if self.collocation != int(self.collocation):
            raise InputError(f"{prefix}collocation is {self.collocation}: must be a whole number")

    @property
    def size(self) -> tuple[float, float]:
        """CPU and memory."""
        return self.cpu, self.mem


@dataclass(frozen=True)
class Profiles:
    """A table of n measurements, at most one for each pair of application and configuration.

    Parameters
    ----------
    applications : tuple of str
        Their names.
    configurations : tuple of str
        Their names.
    application : Int
        (n,) Index into `applications`.
    configuration : Int
        (n,) Index into `configurations`.
    performance : Float
        (n,) in any unit; what learns performance from 0 to 1 needs that.
    higher_is_better : bool
        False for performance such as a latency.
    repeated : int
        Pairs that were measured several times, of which the mean counts.
    scatter : float
        Largest measurement of such a pair over the smallest, of the pair in which they differ most; 1 if none was, and
        NaN if they do not have one sign.

    Examples
    --------
    >>> Profiles.of_grid(["a", "b"], ["small", "large"], np.array([[0.5, 0.9], [np.nan, 0.8]]))
    <Profiles measurements=3, applications=2, configurations=2, higher_is_better=True>
    """

    applications: tuple[str, ...]
    configurations: tuple[str, ...]
    application: Int
    configuration: Int
    performance: Float
    higher_is_better: bool = True
    repeated: int = 0
    scatter: float = 1.0

    def __len__(self) -> int:
        return len(self.performance)

    def __repr__(self) -> str:
        sizes = {"applications": len(self.applications), "configurations": len(self.configurations)}
        return summary(self, measurements=len(self), **sizes, higher_is_better=self.higher_is_better)

    @property
    def pairs(self) -> Int:
        """(n, 2) application and configuration."""
        return np.stack([self.application, self.configuration], axis=1)

    def grid(self) -> Float:
        """(applications, configurations) performance, NaN where nothing was measured."""
        grid = np.full((len(self.applications), len(self.configurations)), np.nan)
        grid[self.application, self.configuration] = self.performance
        return grid

    def of_application(self, application: str) -> dict[str, float]:
        """What was measured of one application: configuration -> performance.

        Parameters
        ----------
        application : str
            Its name.
        """
        own = self.application == self.applications.index(application)
        names = [self.configurations[c] for c in self.configuration[own]]
        return dict(zip(names, self.performance[own].tolist(), strict=True))

    def measured(self) -> list[str]:
        """The configurations that some application was measured in, in their order."""
        return [self.configurations[c] for c in np.unique(self.configuration)]

    def select(self, applications: Int | Bool) -> Profiles:
        """Keep the profiles of some of the applications.

        Parameters
        ----------
        applications : Int or array of bool
            Their numbers, a slice, or a mask.
        """
        names = np.array(self.applications, dtype=object)[applications].tolist()
        return Profiles.of_grid(names, self.configurations, self.grid()[applications], self.higher_is_better)

    @classmethod
    def of_grid(
        cls,
        applications: Sequence[str],
        configurations: Sequence[str],
        grid: Float,
        higher_is_better: bool = True,
    ) -> Profiles:
        """Make a table from a grid.

        Parameters
        ----------
        applications, configurations : sequence of str
            Names of rows and columns.
        grid : Float
            (applications, configurations) Performance, NaN where nothing was measured.
        higher_is_better : bool
            As of the class.
        """
        a, c = np.nonzero(~np.isnan(grid))
        return cls(tuple(applications), tuple(configurations), a, c, grid[a, c], higher_is_better)


def check_configurations(numbers: Int, configurations: int) -> None:
    """Raise InputError unless all numbers are in 0..configurations - 1."""
    outside = numbers[(numbers < 0) | (numbers >= configurations)]
    if len(outside):
        raise InputError(f"configuration is {outside[0]}: must be a number from 0 to {configurations - 1}")


def feature_rows(application: int, configuration: Int, profiled: Int, configurations: int) -> Rows:
    """Feature vectors (Figure 4) of one application in `configuration` (k,), some of the m `configurations`.

    `profiled` (j,), ascending: the configurations that it has been profiled on. Columns: the configuration one-hot (m),
    "profiled on" with a sum of 1 (m), the application one-hot. Paper: applications first. Here: last, so that a new
    application adds a column and renumbers none. Raises InputError for a configuration outside 0..m - 1, which would
    set a column of another group.
    """
    check_configurations(configuration, configurations)
    width = len(profiled) + 2
    index, value = np.empty((len(configuration), width), np.int64), np.ones((len(configuration), width))
    index[:, 0] = configuration
    index[:, 1:-1] = configurations + profiled
    index[:, -1] = 2 * configurations + application
    value[:, 1:-1] = 1.0 / max(len(profiled), 1)
    start = np.arange(0, index.size + 1, width)
    return Rows(start, index.ravel(), value.ravel(), 2 * configurations + application + 1)


def read_profiles(
    path: Path,
    configurations: Sequence[str] | None = None,
    higher_is_better: bool = True,
    performance: str = "performance",
) -> Profiles:
    """Read profiles from a table.

    Parameters
    ----------
    path : Path
        A CSV or Parquet file with columns application, configuration and `performance`; a pair that has several rows
        counts with their mean.
    configurations : sequence of str or None
        All that are allowed, in order; default: those of the file.
    higher_is_better : bool
        False for latencies.
    performance : str
        Name of the column that holds it.

    Returns
    -------
    Profiles
        Applications in order of their first row.

    Raises
    ------
    InputError
        A bad value, or a configuration that is not allowed; with file, row and field.

    Examples
    --------
    >>> read_profiles(Path("profiles.csv")).applications  # doctest: +SKIP
    """
    table = _table(path, "application", "configuration", performance)
    applications, configuration = (table.names(name).tolist() for name in ("application", "configuration"))
    if (empty := table.frame[performance].is_null().to_numpy()).any():
        table.refuse(int(np.argmax(empty)), f"{performance} is empty: leave the row out if nothing was measured there")
    values = table.numbers(performance)
    known = list(dict.fromkeys(configuration)) if configurations is None else list(configurations)
    names = list(dict.fromkeys(applications))
    place_a, place_c = ({name: i for i, name in enumerate(of)} for of in (names, known))
    for row, name in enumerate(configuration):
        if name not in place_c:
            table.refuse(row, f"configuration is {name!r}: {hint(name, place_c)}")
    pair = np.array([place_a[name] for name in applications], np.int64) * len(known)
    pair += np.array([place_c[name] for name in configuration], np.int64)
    found, cell = np.unique(pair, return_inverse=True)
    times = np.bincount(cell)
    mean, repeated = np.bincount(cell, values) / times, int((times > 1).sum())
    low, high = np.full(len(found), np.inf), np.full(len(found), -np.inf)
    np.minimum.at(low, cell, values)
    np.maximum.at(high, cell, values)
    apart = np.where(times > 1, np.divide(high, low, out=np.full_like(low, np.nan), where=low * high > 0.0), 1.0)
    at = found // len(known), found % len(known)
    scatter = float(np.maximum(apart, 1.0 / apart).max())
    return Profiles(tuple(names), tuple(known), *at, mean, higher_is_better, repeated, scatter)


def read_configurations(path: Path) -> tuple[Configuration, ...]:
    """Read configurations from a table, in which one may occur in several rows if they agree.

    Parameters
    ----------
    path : Path
        A CSV or Parquet file with columns configuration, cpu (cores), mem (GiB) and, optionally, collocation.

    Returns
    -------
    tuple of Configuration
        In order of their first row.

    Raises
    ------
    InputError
        A bad value, or rows that do not agree; with file and row.

    Examples
    --------
    >>> read_configurations(Path("profiles.csv"))[0].cpu  # doctest: +SKIP
    """
    table = _table(path, "configuration", "cpu", "mem")
    cpu, mem = (table.numbers(name).tolist() for name in ("cpu", "mem"))
    degree = table.whole_numbers("collocation", 1).tolist() if "collocation" in table.columns else [1] * len(table)
    found: dict[str, Configuration] = {}
    for row, given in enumerate(zip(table.names("configuration"), cpu, mem, degree, strict=True)):
        try:
            one = Configuration(*given)
        except InputError as error:
            table.refuse(row, str(error))
        if found.setdefault(one.name, one) != one:
            table.refuse(row, f"configuration {one.name!r} is {one} here, but was {found[one.name]} above")
    return tuple(found.values())


def _table(path: Path, *columns: str) -> InputTable:
    table = InputTable.read(path)
    table.need(*columns)
    table.need_rows()
    return table
