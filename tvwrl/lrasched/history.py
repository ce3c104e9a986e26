"""What was measured of earlier applications, and what one has to know of it before one relies on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tvwrl.checks import different, hint
from tvwrl.lrasched.profiles import Bool, Configuration, Profiles
from tvwrl.types import Float, InputError, Int

HUGE = 1e100  # whose squares are still numbers
FOREIGN = 10.0  # times beyond everything that was measured before: another unit
MIXED = 2.0  # powers of ten between an application and the others: another unit
FEWEST = 8  # earlier applications that were measured like the new one; with fewer, others are asked too
SLACK = 0.01  # share of all there is between the best and the worst, by which a better configuration may do worse


class History:
    """Measurements of earlier applications in the configurations that count.

    `grid` (A, C) holds them, NaN where nobody measured, `known` (A, C) where somebody did, and `values` all of them,
    ascending. Raises InputError for fewer than two applications, a configuration in which none was measured, or numbers
    beyond `HUGE`.
    """

    def __init__(self, profiles: Profiles, configurations: Sequence[Configuration], higher_is_better: bool) -> None:
        names = [one.name for one in configurations]
        different(configurations=names)
        place, whole = {name: i for i, name in enumerate(profiles.configurations)}, profiles.grid()
        columns = [whole[:, place[name]] if name in place else np.full(len(whole), np.nan) for name in names]
        grid = np.stack(columns, axis=1)
        if nowhere := [name for name, own in zip(names, columns, strict=True) if len(own) and np.isnan(own).all()]:
            raise InputError(f"no earlier application was measured in {', '.join(nowhere)}: leave these out")
        by_name = np.argsort(np.array(profiles.applications, dtype=str), kind="stable")  # whatever the order of a file
        some = by_name[~np.isnan(grid).all(axis=1)[by_name]]
        self.grid = grid[some]
        if (np.abs(self.grid) > HUGE).any():
            raise InputError(f"the history holds a performance beyond {HUGE:g}: is it a number that was measured?")
        if len(self.grid) < 2:
            raise InputError(f"applications in the history: {len(self.grid)}; at least 2 are needed")
        self.applications = [profiles.applications[row] for row in some]
        self.known: Bool = ~np.isnan(self.grid)
        self.values: Float = np.sort(self.grid[self.known])
        self.column = {name: i for i, name in enumerate(names)}
        self._better, self._higher = not_worse(configurations), higher_is_better

    def rank(self, performance: Float) -> Float:
        """Ranks of performances among all measurements, 0 to 1; NaN stays."""
        return np.asarray(np.interp(performance, self.values, np.linspace(0.0, 1.0, len(self.values))))

    def asked(self, measured: Mapping[str, float]) -> tuple[Int, Float]:
        """Columns (m,) and values (m,) of what was measured. Raises InputError for what is no measurement."""
        for name, value in measured.items():
            if name not in self.column:
                raise InputError(f"unknown configuration {name!r}: {hint(name, self.column)}")
            if not isinstance(value, int | float | np.number) or not np.isfinite(value):
                raise InputError(f"performance in {name!r} is {value!r}: must be a finite number")
        columns = np.array([self.column[name] for name in measured], np.int64)
        return columns, np.array(list(measured.values()), np.float64)

    def check(self, application: str, measured: Mapping[str, float]) -> None:
        """Raise InputError for what is no measurement, and for what is in another unit: more than `FOREIGN` times
        beyond all of the history there, or not above 0 where all of it is."""
        try:
            self.asked(measured)
        except InputError as error:
            raise InputError(f"application {application!r}: {error}") from None
        for name, value in measured.items():
            low, high = self.seen(name)
            if low <= 0.0 or (value == 0.0 and self._higher):
                continue
            about = (
                f"application {application!r} in {name!r}: {value:g} was measured, but {low:g} to {high:g} of earlier"
            )
            if value <= 0.0:
                raise InputError(f"{about} applications: must be above 0")
            if not low / FOREIGN <= value <= high * FOREIGN:
                raise InputError(
                    f"{about} earlier applications, more than {FOREIGN:g} times as far off: is it in another unit?"
                )

    def seen(self, configuration: str) -> tuple[float, float]:
        """The lowest and the highest performance in a configuration."""
        values = self.grid[:, self.column[configuration]]
        return float(np.nanmin(values)), float(np.nanmax(values))

    def worst_and_best(self) -> tuple[float, float]:
        """Of any application in any configuration."""
        low, high = float(self.values[0]), float(self.values[-1])
        return (low, high) if self._higher else (high, low)

    def rarely_measured(self) -> list[str]:
        """Configurations in which fewer than `FEWEST` applications were measured."""
        counts = self.known.sum(axis=0)
        return [name for name, column in self.column.items() if counts[column] < FEWEST]

    def repeated(self) -> int:
        """How many applications have the very measurements of one before, in at least two configurations."""
        rows = self.grid[self.known.sum(axis=1) > 1]
        return len(rows) - len(np.unique(np.nan_to_num(rows, nan=np.inf), axis=0)) if len(rows) else 0

    def not_positive(self) -> int:
        """How many measurements are not above 0 where at least 19 of 20 are."""
        below = int((self.values <= 0.0).sum())
        return below if below <= len(self.values) / 20 else 0

    def of_another_unit(self) -> list[str]:
        """The few applications, a third at most, that are more than `MIXED` powers of ten above or below the middle of
        all in the same configurations."""
        if self.values[0] <= 0.0:
            return []
        apart = np.log10(self.grid) - np.nanmedian(np.log10(self.grid), axis=0)
        far = np.abs(np.nanmedian(apart, axis=1)) > MIXED
        found = [name for name, one in zip(self.applications, far.tolist(), strict=True) if one]
        return found if 3 * len(found) <= len(far) else []

    def against_order(self) -> float:
        """Share of all pairs, of a better and a worse configuration of an application, in which the better did worse by
        more than `SLACK`; 0 to 1."""
        better, worse = np.nonzero(self._better & ~self._better.T)
        gain = (1.0 if self._higher else -1.0) * (self.grid[:, better] - self.grid[:, worse])
        known = ~np.isnan(gain)
        slack = SLACK * float(self.values[-1] - self.values[0])
        return float((gain[known] < -slack).mean()) if known.any() else 0.0


def not_worse(configurations: Sequence[Configuration]) -> Bool:
    """(C, C) where the first is at least as good as the second in a monotone world: as much CPU and memory, or more,
    and no more neighbours."""
    cpu, mem, degree = (
        np.array([getattr(one, name) for one in configurations]) for name in ("cpu", "mem", "collocation")
    )
    return np.asarray((cpu[:, None] >= cpu) & (mem[:, None] >= mem) & (degree[:, None] <= degree))
