"""The tab-separated instances that were published with the provisioning paper.

One row per application, under a header: `app_id` (a whole number), `nb_instances` (replicas), `core` and `memory` of
one replica (cores and GiB: one number each, or bracketed lists of one number per time), `inter_degree` (how many pairs
follow) and `inter_aff`: pairs (j, a_ij), at most a_ij replicas of application j on a machine that holds this one.
Pairs of an application with itself are not in the published files; they are read as self limits.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np

from tvwrl.planning.instance import LARGEST, Affinity, Instance
from tvwrl.types import Float, InputError, Int, Int32, Strings

COLUMNS = ("app_id", "nb_instances", "core", "memory", "inter_degree", "inter_aff")
HEADER = "\t".join(COLUMNS).encode()
RESOURCES = ("cpu", "mem")


def read_published(path: Path) -> Instance:
    """The instance in a .csv or .csv.gz file, applications in order of rows.

    Raises InputError with file and line for whatever is not as it should be, application larger than a machine left
    aside (`check_fits`, which knows the machines).
    """
    rows = _Rows(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            if file.readline().rstrip(b"\r\n") != HEADER:
                raise InputError(f"{path}: line 1: the columns must be {', '.join(COLUMNS)}, separated by tabs")
            for text in file:
                rows.add(text.rstrip(b"\r\n"))
    except (OSError, EOFError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise InputError(f"{path}: line {rows.line}: cannot be read past it, truncated or damaged: {error}") from None
    return rows.instance()


class _Rows:
    """The rows of a file, as far as they were read."""

    def __init__(self, path: Path) -> None:
        from tvwrl.planning.instance import pairs

        self._path, self.line = path, 1
        self._pairs: Callable[..., tuple[Int32, bool]] = pairs
        self._names: list[int] = []
        self._replicas: list[int] = []
        self._sizes: tuple[list[str], list[str]] = ([], [])
        self._arcs: list[Int32] = []

    def add(self, text: bytes) -> None:
        """Read one row."""
        self.line += 1
        fields = text.split(b"\t")
        if len(fields) != len(COLUMNS):
            self._refuse(self.line, f"{len(fields)} columns: must be {len(COLUMNS)}, separated by tabs")
        self._names.append(self._whole(0, fields[0], 0))
        self._replicas.append(self._whole(1, fields[1], 1))
        for sizes, field in zip(self._sizes, fields[2:4], strict=True):
            sizes.append(field.decode(errors="replace"))
        degree = self._whole(4, fields[4], 0)
        found, good = self._pairs(np.frombuffer(fields[5], np.uint8), min(degree, len(fields[5])))
        if not good or len(found) != degree:
            self._refuse(self.line, f"inter_aff is not a list of {degree} pairs (app_id, limit): {_start(fields[5])}")
        self._arcs.append(found)

    def instance(self) -> Instance:
        """What the rows say together."""
        if not self._names:
            raise InputError(f"{self._path}: empty: it has no applications")
        names = np.array(self._names, np.int64)
        order = np.argsort(names, kind="stable")
        again = np.flatnonzero(np.diff(names[order]) == 0)
        if again.size:
            row = int(order[again[0] + 1])
            self._refuse(row + 2, f"app_id {names[row]} is in line {int(order[again[0]]) + 2} already")
        demand = np.stack([self._series(d) for d in range(2)], axis=2)
        if (bad := ~((demand >= 0) & (demand <= LARGEST))).any():
            row, time, d = np.argwhere(bad)[0]
            value = demand[row, time, d] if demand[row, time, d] == demand[row, time, d] else "not a number"
            self._refuse(row + 2, f"{COLUMNS[2 + d]} is {value}: must be 0 to {LARGEST:g}")
        label: Strings = names.astype(str).astype(object)
        name = self._path.name.removesuffix(".gz").removesuffix(".csv")
        return Instance(name, label, np.array(self._replicas), demand, RESOURCES, self._affinity(names))

    def _series(self, d: int) -> Float:
        """(A, H) of one resource."""
        import polars as pl

        text = pl.Series(self._sizes[d])
        listed = text.str.starts_with("[") & text.str.ends_with("]")
        if (listed != listed[0]).any():
            row = (listed != listed[0]).arg_max()
            self._refuse(
                (row or 0) + 2, f"{COLUMNS[2 + d]} is {'no list' if listed[0] else 'a list'}, unlike in line 2"
            )
        values = text.str.strip_chars("[]").str.split(",")
        count = values.list.len()
        times = count[0] if d == 0 else max(1, self._sizes[0][0].count(",") + 1)
        if (count != times).any():
            row = (count != times).arg_max() or 0
            self._refuse(row + 2, f"{COLUMNS[2 + d]} has {count[row]} numbers: must be {times}, as core has in line 2")
        numbers = values.explode().str.strip_chars().cast(pl.Float64, strict=False).fill_null(math.nan)
        return numbers.to_numpy().reshape(-1, times)

    def _affinity(self, names: Int) -> Affinity:
        count = np.array([len(arcs) for arcs in self._arcs])
        arcs = np.concatenate(self._arcs)
        self._arcs.clear()
        i = np.repeat(np.arange(len(names), dtype=np.int32), count)
        if (names == np.arange(1, len(names) + 1)).all():
            j = arcs[:, 0] - np.int32(1)
            unknown = (j < 0) | (j >= len(names))
        else:
            order = np.argsort(names)
            j = order[np.minimum(np.searchsorted(names[order], arcs[:, 0]), len(names) - 1)].astype(np.int32)
            unknown = names[j] != arcs[:, 0]
        if unknown.any():
            arc = int(np.argmax(unknown))
            self._refuse(i[arc] + 2, f"affinity to application {arcs[arc, 0]}, which is not in the file")
        return Affinity.of(
            len(names), i, j, np.ascontiguousarray(arcs[:, 1]), lambda arc: f"{self._path}: line {i[arc] + 2}"
        )

    def _whole(self, column: int, text: bytes, least: int) -> int:
        """A whole number of a row."""
        if text.isdigit() and len(text) < 10 and int(text) >= least:
            return int(text)
        limit = f"from {least} to {10**9 - 1}"
        self._refuse(self.line, f"{COLUMNS[column]} is {_start(text)}: must be a whole number {limit}")

    def _refuse(self, line: int, problem: str) -> NoReturn:
        raise InputError(f"{self._path}: line {line}: {problem}")


def _start(text: bytes) -> str:
    """Enough of a field to find it."""
    return repr(text[:40].decode(errors="replace")) + ("..." if len(text) > 40 else "")
