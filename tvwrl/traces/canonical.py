"""The canonical trace on disk: reads it, refuses what cannot be used, writes it and hashes it."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tvwrl.input_tables import LISTED, csv_text, no_column, refuse_spelt_twice
from tvwrl.runs import whole_folder
from tvwrl.types import Float, InputError, Int, Trace

if TYPE_CHECKING:
    import polars as pl

USAGE, WORKLOADS, HEADER = "usage.parquet", "workloads.parquet", "trace.json"
RESERVED = ("workload_id", "slot", "load", "sequence")  # other columns where resources are columns too
LARGEST_USAGE = 1e6  # reference machines; what is above it must be in another unit, and sums of it could overflow
LARGEST_SLOT = 2**53  # above it a slot that passed through a float (pandas, CSV) is no longer exact
FEW_STEPS = 10  # from slot to slot; with fewer, they do not tell what is counted
OTHER_SEPARATORS = {";": "';'", "\t": r"$'\t'", "|": "'|'"}  # as they are written in a shell
PREPARE = "`tvwrl prepare csv` reads other tables (--workload-column, --time-column, --time-unit, --application-column)"


def read_trace(path: str | os.PathLike[str], slot_seconds: int | None = None) -> Trace:
    """Read a trace from a folder or one CSV file; the format is in docs/reference/trace-format.md.

    Parameters
    ----------
    path : str or path
        A folder, or a .csv or .csv.gz file.
    slot_seconds : int, optional
        Length of a slot, seconds: needed for a CSV; for a folder it must equal that of trace.json.

    Returns
    -------
    Trace
        The trace, with workloads in the order of their first row.

    Raises
    ------
    InputError
        For what cannot be read or breaks a rule of the format: names file, row (of a CSV: line, the header is line 1),
        column, value and limit.

    Examples
    --------
    >>> trace = read_trace("usage.csv", slot_seconds=300)  # doctest: +SKIP
    """
    path = Path(path)
    if slot_seconds is not None:
        slot_seconds = _seconds(slot_seconds, f"{path}: slot_seconds")
    if os.path.isdir(path):
        for name in (HEADER, USAGE):
            if not (path / name).is_file():
                raise InputError(f"{path}: no {name} here; a trace has {HEADER}, {USAGE} and optionally {WORKLOADS}")
        header = _read_header(path / HEADER)
        if slot_seconds not in (None, own := header["slot_seconds"]):
            raise InputError(f"{path / HEADER}: slot_seconds is {own}: must not be given as {slot_seconds}")
        workloads = _read_parquet(path / WORKLOADS) if (path / WORKLOADS).exists() else None
        return _trace(_read_parquet(path / USAGE), workloads, header)
    if not os.path.exists(path):
        raise InputError(f"{path}: no such file or folder")
    if not path.name.lower().endswith((".csv", ".csv.gz")):
        other = "; `tvwrl prepare parquet` makes a trace of it" if path.suffix.lower() == ".parquet" else ""
        raise InputError(f"{path}: neither a folder nor a .csv or .csv.gz file{other}")
    usage = _read_csv(path)
    if slot_seconds is None:
        usage.need(("workload_id", "slot"))
        raise InputError(
            f"{path}: the length of a slot is unknown: give the interval of the CSV in seconds, as --slot-seconds 300 "
            "in commands or slot_seconds=300 in Python"
        )
    resources = tuple(name for name in usage.frame.columns if name not in ("workload_id", "slot", "application"))
    name = path.name[: path.name.lower().rindex(".csv")]
    header = {"name": name, "resources": resources, "slot_seconds": slot_seconds}
    return _trace(usage, _applications(usage), header)


def write_trace(trace: Trace, folder: str | os.PathLike[str]) -> None:
    """Write a trace as a canonical folder that `read_trace` accepts: whole, or not at all.

    Parameters
    ----------
    trace : Trace
        The trace.
    folder : str or path
        A folder that is empty or does not exist.

    Raises
    ------
    InputError
        If the folder holds something, or the trace breaks a rule of the format.

    Examples
    --------
    >>> write_trace(open_trace("google").select(range(24)), "runs/small-trace")  # doctest: +SKIP
    """
    import polars as pl

    target, rows = Path(folder).resolve(), np.diff(trace.offsets)
    if not rows.all():
        raise InputError(f"{target}: workload {trace.workload_id[np.argmin(rows)]!r} is empty: it has no usage rows")
    fields = ("name", "resources", "slot_seconds", "reference_machine", "source")
    header = json.dumps({field: getattr(trace, field) for field in fields}, indent=2) + "\n"
    columns = dict(zip(trace.resources, trace.usage.T, strict=True))
    usage = {"workload_id": np.repeat(trace.workload_id, rows), "slot": trace.slot, **columns}
    workloads = {"workload_id": trace.workload_id, "application": trace.application, "arrival": trace.arrival}
    workloads |= {"priority": trace.priority, "class": trace.scheduling_class}
    workloads |= {f"request_{name}": column for name, column in zip(trace.resources, trace.request.T, strict=True)}
    text = {"workload_id": pl.String, "application": pl.String}
    with whole_folder(target) as partial:
        pl.DataFrame(usage, schema_overrides={"workload_id": pl.String}).write_parquet(partial / USAGE)
        pl.DataFrame(workloads, schema_overrides=text).fill_nan(None).write_parquet(partial / WORKLOADS)
        (partial / HEADER).write_text(header, encoding="utf-8")
        try:
            again = read_trace(partial)
            for field in ("workload_id", "application"):
                if (lost := (names := getattr(trace, field)) != getattr(again, field)).any():
                    raise InputError(f"{target}: {field} {names[lost][0]!r}: blanks around a name are no part of it")
        except InputError as error:
            raise InputError(f"nothing was written: {str(error).replace(str(partial), str(target))}") from None


def read_sample(folder: Path, most_rows: int) -> tuple[Trace, int]:
    """The trace in a folder, and how many workloads it has.

    With more than `most_rows` rows of usage it is the usage of every n-th workload only, and nothing else is known.
    """
    import polars as pl

    usage = pl.scan_parquet(folder / USAGE, glob=False)
    ids = pl.read_parquet(folder / WORKLOADS, columns=["workload_id"], glob=False)["workload_id"]
    every = -(-usage.select(pl.len()).collect().item() // most_rows)
    if every == 1:
        return read_trace(folder), len(ids)
    chosen = ids.gather_every(every)  # spread over all: neighbours may be alike
    sample = usage.filter(pl.col("workload_id").is_in(chosen.implode())).collect()
    return _trace(_Table(folder / USAGE, sample), None, _read_header(folder / HEADER)), len(ids)


def trace_hash(trace: Trace) -> str:
    """Compute the digest of everything that a trace holds.

    Parameters
    ----------
    trace : Trace
        The trace. The order of its workloads and the format that it was read from make no difference.

    Returns
    -------
    str
        SHA-256 in hexadecimal.

    Examples
    --------
    >>> from tvwrl.traces import synthetic_trace
    >>> trace = synthetic_trace(workloads=3, days=1)
    >>> trace_hash(trace) == trace_hash(trace.select([2, 0, 1]))
    True
    """
    trace = trace.select(np.argsort(trace.workload_id))
    fields = (trace.name, trace.resources, trace.slot_seconds, trace.reference_machine, trace.source)
    digest = hashlib.sha256()
    for part in (fields, trace.workload_id.tolist(), trace.application.tolist()):
        digest.update(json.dumps(part, sort_keys=True).encode() + b"\n")
    rows, known = (trace.offsets, trace.slot, trace.usage), (trace.arrival, trace.priority, trace.scheduling_class)
    for array in (*rows, *known, trace.request):
        # as float64, exact for slots; one bit pattern for every NaN, and 0.0 for -0.0
        digest.update(np.where(np.isnan(array), np.nan, array + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class _Table:
    """A table as it was read, and how to name one of its rows to the user."""

    file: Path
    frame: pl.DataFrame
    is_csv: bool = False  # a row of it is a line of the file

    def place(self, row: int) -> str:
        return f"line {row + 2}" if self.is_csv else f"row {row + 1}"

    def refuse(self, row: int, column: str, problem: str) -> NoReturn:
        value = self.frame[column][row]
        shown = "null" if value is None else repr(value)
        raise InputError(f"{self.file}: {self.place(row)}, column {column}: {shown}{problem}")

    def need(self, columns: Sequence[str]) -> None:
        for name in columns:
            if name not in self.frame.columns:
                raise no_column(self.file, name, self.frame.columns, self._hint(name))

    def _hint(self, missing: str) -> str:
        """What may be wrong with a CSV that lacks a column."""
        there = self.frame.columns
        if not self.is_csv or missing not in ("workload_id", "slot"):
            return ""
        if len(there) == 1 and (found := [shown for mark, shown in OTHER_SEPARATORS.items() if mark in there[0]]):
            return f"; needed: commas between fields; `tvwrl prepare csv --separator {found[0]}` reads others"
        if len(there) > LISTED:
            return "; needed: one row per workload and moment, not one column per workload (pandas: melt)"
        return f"; {PREPARE}"


def _read_header(file: Path) -> dict[str, Any]:
    """The fields of trace.json, checked, with the defaults filled in; null is the same as missing."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: cannot be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{file}: needed: a JSON object {{...}} with the fields resources and slot_seconds")
    given: dict[str, Any] = {field: value for field, value in content.items() if value is not None}
    resources, seconds = given.get("resources"), given.get("slot_seconds")
    name, source = given.get("name", file.resolve().parent.name), given.get("source", "real")

    def need(field: str, good: bool, needed: str) -> None:
        if not good:
            shown = repr(given[field]) if field in given else f"missing among {', '.join(given) or 'none'}"
            raise InputError(f"{file}: field {field}: {shown}; needed: {needed}")

    texts = isinstance(resources, list) and all(isinstance(text, str) and text.strip() for text in resources)
    need("resources", resources is not None and texts and len(resources) > 0, "a list of one or more names of columns")
    names = list(resources or ())
    different = len({*names, *RESERVED}) == len(names) + len(RESERVED)
    need("resources", different, f"names that differ from each other and from {', '.join(RESERVED)}")
    need("slot_seconds", seconds is not None, "a whole number of seconds > 0")
    need("name", isinstance(name, str), "text")
    need("source", source in ("real", "synthetic"), "'real' or 'synthetic'")
    header = {"name": name, "resources": tuple(names), "slot_seconds": _seconds(seconds, f"{file}: slot_seconds")}
    return header | {"source": source, "reference_machine": given.get("reference_machine")}


def _seconds(value: Any, where: str) -> int:
    whole = isinstance(value, (int, np.integer)) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or value <= 0:
        raise InputError(f"{where}: {value!r}; needed: a whole number of seconds > 0")
    return int(value)


def _read_parquet(file: Path) -> _Table:
    import polars as pl

    try:
        # A file is one file: no patterns, and no columns taken from the names of its folders.
        return _Table(file, pl.read_parquet(file, glob=False, hive_partitioning=False))
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"{file}: empty or not a parquet file: {str(error).partition(chr(10))[0]}") from None


def _read_csv(file: Path) -> _Table:
    """The CSV with every column as text, so that a refusal shows a value as it stands in the file."""
    import polars as pl

    try:
        text = csv_text(file).rstrip("\r\n")
        if not text.strip():
            raise InputError(f"{file}: the trace is empty: the file has no content")
        header, _, body = text.partition("\n")
        names = [name.strip() for name in next(csv.reader([header]), [])]
        if not all(names) or len(set(names)) < len(names):
            needed = "each column needs a name of its own (pandas: to_csv(..., index=False))"
            raise InputError(f"{file}: line 1: the columns are {names}; {needed}")
        # One column more than the header has catches a line that is too long, which polars could not place.
        numbered = ",".join(str(column) for column in range(len(names) + 1))
        frame = pl.read_csv(f"{numbered}\n{body}".encode(), infer_schema=False, truncate_ragged_lines=True)
    except (csv.Error, pl.exceptions.PolarsError) as error:
        raise InputError(f"{file}: cannot be read as CSV: {str(error).partition(chr(10))[0]}") from None
    beyond = f"{len(names) + 1} (beyond the header)"
    frame.columns = [*names, beyond]
    table = _Table(file, frame.drop(beyond), is_csv=True)
    if len(long := frame[beyond].is_not_null().arg_true()):
        _Table(file, frame, is_csv=True).refuse(long[0], beyond, f"; needed: the {len(names)} fields of the header")
    return table


def _trace(usage: _Table, workloads: _Table | None, header: dict[str, Any]) -> Trace:
    """The Trace of two tables as read; `header` holds the fields of trace.json."""
    import polars as pl

    resources = header["resources"]
    if taken := [name for name in resources if name in RESERVED]:
        raise InputError(f"{usage.file}: column {taken[0]}: a resource cannot have that name; rename the column")
    usage.need(("workload_id", "slot", *(resources or ["<resource>"])))
    if not len(usage.frame):
        raise InputError(f"{usage.file}: the trace is empty: no rows of usage")
    ids = _texts(usage, "workload_id")
    names = ids.unique(maintain_order=True)
    owner = ids.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64)
    slot = _numbers(usage, "slot", highest=LARGEST_SLOT, whole=True).astype(np.int64)
    order = np.argsort(owner, kind="stable")
    late = (owner[order][1:] == owner[order][:-1]) & (slot[order][1:] <= slot[order][:-1])
    if late.any():
        row = int(order[1:][late].min())
        above = np.flatnonzero(owner[:row] == owner[row])
        same = above[slot[above] == slot[row]]
        fault, other = ("overlapping", same[0]) if len(same) else ("unsorted", above[-1])
        other = f"workload {ids[row]!r} has slot {slot[other]} in {usage.place(other)}"
        usage.refuse(row, "slot", f" is {fault}: {other}; needed: slots that rise from row to row of a workload")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner))]).astype(np.int64)
    slot = slot[order]
    steps = np.diff(slot)[np.diff(owner[order]) == 0]
    if len(steps) >= FEW_STEPS and (apart := int(np.median(steps))) > 1 and (steps == apart).mean() > 0.5:
        raise InputError(
            f"{usage.file}: column slot: the slots of a workload are mostly {apart} apart; needed: the number of each "
            "interval, which rises by 1. Are these times? `tvwrl prepare csv --time-column slot --time-unit s` makes "
            "slots of seconds"
        )
    used = np.column_stack([_numbers(usage, name) for name in resources])[order]
    workloads = workloads or _Table(usage.file, pl.DataFrame({"workload_id": names}))
    known = _metadata(workloads, names.to_list(), slot[offsets[:-1]], resources)
    workload_id = np.array(names.to_list(), dtype=object)
    return Trace(**header, **known, workload_id=workload_id, offsets=offsets, slot=slot, usage=used)


def _applications(usage: _Table) -> _Table | None:
    """The table of workloads with the applications that a CSV names in its rows of usage, if it does.

    Raises InputError for a row that names another application than an earlier row of its workload; an empty one names
    none.
    """
    import polars as pl

    if not {"application", "workload_id"} <= set(usage.frame.columns):
        return None
    application = _texts(usage, "application", optional=True)
    named = usage.frame.select("workload_id", application.alias("application")).with_row_index("row")
    named = named.filter(pl.col("workload_id").is_not_null() & (pl.col("application") != ""))
    first = named.unique("workload_id", keep="first", maintain_order=True)
    other = named.join(first, on="workload_id", suffix="_first").filter(
        pl.col("application_first") != pl.col("application")
    )
    if len(other):
        row, name, _, at, known = other.sort("row").row(0)
        fault = f" is another application: workload {name!r} has {known!r} in {usage.place(at)}"
        usage.refuse(row, "application", f"{fault}; needed: one for all rows of a workload")
    return _Table(usage.file, first.drop("row"))


def _texts(table: _Table, column: str, *, optional: bool = False) -> pl.Series:
    """(rows,) names of a column without blanks around them; `optional`: null is unknown and becomes ""."""
    import polars as pl

    given = table.frame[column]
    if len(given) and not (given.dtype.is_integer() or given.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)):
        table.refuse(0, column, f" is of type {given.dtype}; needed: text or whole numbers")
    raw = given.cast(pl.String).fill_null("")
    refuse_spelt_twice(raw.alias(column).to_frame(), table.place, f"{table.file}: ")
    texts = raw.str.strip_chars()
    if not optional and len(blank := (texts == "").arg_true()):
        table.refuse(blank[0], column, " is empty; needed: the name of a workload")
    return texts


def _numbers(
    table: _Table,
    column: str,
    lowest: float = 0.0,
    highest: float = LARGEST_USAGE,
    *,
    whole: bool = False,
    optional: bool = False,
) -> Float:
    """(rows,) numbers of a column, every one checked; `optional`: null and NaN are unknown and come back as NaN."""
    import polars as pl

    given = table.frame[column]
    number = given.str.strip_chars() if given.dtype == pl.String else given
    if not (given.dtype.is_numeric() or given.dtype in (pl.String, pl.Null)):  # a true or a date is no number
        number = pl.repeat(None, len(given), eager=True)
    number = number.cast(pl.Float64, strict=False)
    values: Float = number.fill_null(np.nan).to_numpy()
    good = np.isfinite(values) & (values >= lowest) & (values <= highest)
    if whole:
        good &= np.floor(values) == values
    if optional:
        good |= (given.is_null() | number.is_nan().fill_null(False)).to_numpy()
    if not good.all():
        row = int(np.argmin(good))
        value = values[row]
        fault = "missing" if given[row] is None else "not a number" if np.isnan(value) else "not allowed"
        limit = f"whole number from 0 to {highest}" if whole else f"finite number >= {lowest:g}"
        limit += f" and <= {highest:g}" if not whole and highest < np.inf else ""
        time = table.is_csv and column == "slot" and fault == "not a number"
        other = f"; {PREPARE}: --time-unit iso for times as text" if time else ""
        table.refuse(row, column, f" is {'negative' if value < lowest else fault}; needed: a {limit}{other}")
    return values


def _metadata(table: _Table, names: list[str], first_slot: Int, resources: Sequence[str]) -> dict[str, Any]:
    """The facts of workloads.parquet for the workloads `names` of the usage; missing ones are unknown."""
    import polars as pl

    table.need(["workload_id"])
    requests = [f"request_{name}" for name in resources]
    row_of: dict[str, int] = {}
    for row, name in enumerate(_texts(table, "workload_id").to_list()):
        if row_of.setdefault(name, row) != row:
            table.refuse(row, "workload_id", f" is a duplicate of row {row_of[name] + 1}; needed: one row each")
    if strange := row_of.keys() - set(names):
        first = f"first: row {min(row_of[name] for name in strange) + 1}"
        warnings.warn(f"{table.file}: {len(strange)} rows without usage ignored, {first}", stacklevel=2)
    expected = ("application", "arrival", "priority", "class", *requests)
    if unused := set(table.frame.columns) - {"workload_id", *expected}:
        warnings.warn(f"{table.file}: columns ignored: {', '.join(sorted(unused))}", stacklevel=2)
    missing = [pl.lit(None).alias(column) for column in expected if column not in table.frame.columns]
    table = _Table(table.file, table.frame.with_columns(missing))
    rows = [row_of.get(name, -1) for name in names]  # -1 finds the unknown that is put behind the last row

    def known(column: str, lowest: float = -np.inf, highest: float = np.inf, whole: bool = False) -> Float:
        return np.append(_numbers(table, column, lowest, highest, whole=whole, optional=True), np.nan)[rows]

    arrival = known("arrival", 0.0, LARGEST_SLOT, whole=True)
    return {
        "application": np.array([*_texts(table, "application", optional=True), ""], dtype=object)[rows],
        "arrival": np.where(np.isnan(arrival), first_slot, arrival).astype(np.int64),
        "priority": known("priority"),
        "scheduling_class": known("class"),
        "request": np.column_stack([known(name, 0.0, LARGEST_USAGE) for name in requests]),
    }
