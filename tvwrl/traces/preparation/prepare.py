"""Prepares a published trace: its files become the canonical folder, with a report of what was read and dropped."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tqdm import tqdm

from tvwrl.checks import at_least, within
from tvwrl.parallel import Call, run_calls
from tvwrl.runs import check_new_folder, locked, provenance, whole_file, whole_folder, write_json
from tvwrl.traces.canonical import HEADER, USAGE, WORKLOADS
from tvwrl.traces.catalogue import data_folder
from tvwrl.traces.large_usage import large_usage
from tvwrl.traces.overfull_nodes import fullest, said
from tvwrl.traces.preparation.files import as_given, files_of, unpack
from tvwrl.traces.preparation.loader import EXAMPLES, Loader, Rows
from tvwrl.traces.preparation.report import LEVELS, describe, report_text
from tvwrl.traces.preparation.series import MICRO, SeriesRules
from tvwrl.traces.preparation.shares import (
    counts_of,
    finished,
    full_disk_explained,
    make_share,
    names_file,
    read_part,
    refuse_spelt_apart,
)
from tvwrl.types import InputError


def working_path(out: Path) -> Path:
    """The working folder of the trace `out`."""
    return out.parent / f".{out.name}.work"


@contextlib.contextmanager
def working_folder(out: Path, settings: dict[str, Any]) -> Iterator[Path]:
    """The folder of finished pieces, for this process alone; what was made with other settings is thrown away first.

    It is removed in the end, and after an error too if nothing in it is worth keeping. Raises InputError while another
    process writes `out`, and if `out` holds something.
    """
    work, done = working_path(out), False
    with locked(out):
        try:
            check_new_folder(out)
            note = work / "settings.json"
            if note.exists() and json.loads(note.read_text()) != settings:
                shutil.rmtree(work)
            write_json(note, settings)
            for leftover in work.glob(".*.partial"):  # of a run that was killed while it put the trace together
                shutil.rmtree(leftover, ignore_errors=True)
            yield work
            done = True
        finally:
            if done or not any(work.glob("*-shares-*/*.json")):
                shutil.rmtree(work, ignore_errors=True)


DONE = "extras.json"


def read_extras(loader: Loader, source: str, folder: Path) -> list[dict[str, Any]]:
    """Write the tables stored beside the trace into `folder`; returns the row counts of each table that was read."""
    stamp = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files_of(source, ["*"])]
    if (before := finished(folder / DONE, stamp)) is not None:
        return list(before["found"])
    extras = loader.extras(source)
    found = [counts_of(table, rows) for table, rows in extras.read.items()]
    if extras.tables:
        for name, table in extras.tables.items():
            with whole_file(folder / f"{name}.extra.parquet") as partial:
                table.write_parquet(partial)
        write_json(folder / DONE, {"stamp": stamp, "names": list(extras.tables), "found": found})
    return found


def copy_extras(folder: Path, out: Path) -> dict[str, int]:
    """Copy them beside the trace; returns the number of rows of each by name."""
    import polars as pl

    names = json.loads((folder / DONE).read_text())["names"] if (folder / DONE).exists() else []
    for name in names:
        shutil.copyfile(folder / f"{name}.extra.parquet", out / f"{name}.parquet")
    files = {name: pl.scan_parquet(out / f"{name}.parquet", glob=False) for name in sorted(names)}
    return {name: int(file.select(pl.len()).collect().item()) for name, file in files.items()}


SHARE_BYTES = 48 << 20  # bytes of input per share: about a million rows of a compressed trace
SPARSE = 0.05  # coverage below which the input must be faulty
CHANGED = "workloads of which facts changed or contradict each other: the newest count"
MOST_SHARES = 256  # each share is looked for in every part


def prepare(
    loader: Loader,
    source: str,
    out: Path,
    rules: SeriesRules,
    max_bad_fraction: float = 0.01,
    readers: int | None = None,
    ray: str | None = None,
    plots: bool = True,
    name: str | None = None,
) -> dict[str, Any]:
    """Write the trace at `source` as a canonical folder `out`, called `name` (None: as its loader); returns its report.

    Finished parts of an interrupted run are kept in a folder beside `out` and used again. Raises InputError for input
    that cannot be used, if more than `max_bad_fraction` (0..1) of the rows are bad, and if no workload is left.

    >>> report = prepare(Csv(), "usage.csv", Path("my-trace"), SeriesRules(slot_seconds=300))  # doctest: +SKIP
    >>> trace = read_trace("my-trace")  # doctest: +SKIP
    """
    within(0, 1, max_bad_fraction=max_bad_fraction)
    at_least(1, readers=readers)
    given: dict[str, str] = {}  # names of unpacked files
    with (
        working_folder(out, {"loader": repr(loader), "source": source}) as work,
        full_disk_explained(out.parent),
        _named_as_given(given),
    ):
        folder, names = unpack(source, work)
        given.update(names)
        loader = loader.at(folder)
        parts = loader.parts(folder)
        size = sum(part.size for part in parts if part.usage)
        steps = np.ceil(np.log(max(size / SHARE_BYTES, 1)) / np.log(1.1))  # of 10 %: a changed file seldom changes it
        shares = int(min(MOST_SHARES, np.ceil(1.1**steps)))
        options = hashlib.sha256(f"{loader!r} {loader.version}".encode()).hexdigest()  # pieces are of these alone
        pieces = work / f"{shares}-shares-{options[:12]}"

        def run(what: str, sizes: list[int], calls: Sequence[Call]) -> list[dict[str, Any]]:
            ordered: list[dict[str, Any]] = [{}] * len(sizes)
            with tqdm(total=sum(sizes), desc=what, unit="B", unit_scale=True, disable=None, leave=False) as bar:
                for position, result in run_calls(calls, readers or os.cpu_count() or 1, ray):
                    ordered[position] = result
                    bar.update(sizes[position])
            return ordered

        beside = read_extras(loader, folder, pieces)
        _sum_up(beside, max_bad_fraction)
        read = run("reading", [p.size for p in parts], [(read_part, (loader, p, pieces, shares)) for p in parts])
        found = _sum_up([*beside, *read], max_bad_fraction)
        named = {names_file(pieces, part): part.source for part in parts}
        refuse_spelt_apart({file: source for file, source in named.items() if file.exists()})
        for file in found["empty"]:
            warnings.warn(f"{as_given(file, given)}: empty: it holds no rows; the other files are used", stacklevel=2)
        for what, taken in found["overfull"]:
            warnings.warn(f"{source}: {said(taken, what)}", stacklevel=2)
        if not found["spans"]:
            raise InputError(f"{source}: empty: no usable row of usage; dropped: {_listed(found['rows']['dropped'])}")
        origin = min(begin for begin, _ in found["spans"]) // (rules.slot_seconds * MICRO)  # slot of the first record
        calls = [(make_share, (loader, rules, parts, pieces, share, origin)) for share in range(shares)]
        made = run("making series", [1] * shares, calls)
        found["examples"] = [as_given(example, given) for example in found["examples"]]
        report = _report(loader, source, rules, found, made)
        report |= {"name": name or loader.name, "max_bad_fraction": max_bad_fraction}
        with whole_folder(out, work) as partial:
            _assemble(report["name"], loader, rules, pieces, shares, partial)
            report["beside"] = copy_extras(pieces, partial)
            if report["coverage"] < SPARSE:
                recorded = f"{report['coverage']:.2%} of the slots between a workload's first and last"
                warnings.warn(f"{source}: records in only {recorded}{_time_unit_hint(loader)}", stacklevel=2)
            report |= describe(partial, plots) | provenance()
            _warn_of_large_usage(loader, report)
            write_json(partial / "report.json", report)
            (partial / "report.md").write_text(report_text(report), encoding="utf-8")
    return report


@contextlib.contextmanager
def _named_as_given(names: Mapping[str, str]) -> Iterator[None]:
    """Errors name the user's files, not what was unpacked."""
    try:
        yield
    except InputError as error:
        raise InputError(as_given(str(error), names)) from None


def _sum_up(read: list[dict[str, Any]], max_bad_fraction: float) -> dict[str, Any]:
    """The sum of the counts of all parts. Raises InputError if a table is empty or too many of its rows are bad."""
    tables: dict[str, Rows] = {}
    for piece in read:
        tables.setdefault(piece["table"], Rows()).count(Rows(**piece["rows"]))
    for table, found in tables.items():  # each by itself: a large one must not hide the faults of another
        if found.empty:
            if not found.read:
                raise InputError(f"{found.empty[0]}: empty: it holds no rows of {table}")
            found.dropped[f"files without rows of {table}"] = len(found.empty)
        bad = found.bad.total()
        if bad > max_bad_fraction * found.read:
            raise InputError(
                f"{bad} of {found.read} rows of {table} are bad ({bad / found.read:.2%}), more than "
                f"--max-bad-fraction {max_bad_fraction:g}: {_listed(found.bad)}; first: {'; '.join(found.examples)}"
            )
    rows = {
        "read": Counter({table: found.read for table, found in tables.items()}),
        "bad": Counter({f"{table}: {rule}": n for table, found in tables.items() for rule, n in found.bad.items()}),
        "dropped": sum((found.dropped for found in tables.values()), Counter()),
    }
    return {
        "rows": rows,
        "examples": [example for found in tables.values() for example in found.examples][:EXAMPLES],
        "empty": [file for found in tables.values() for file in found.empty],
        "spans": [piece["span"] for piece in read if piece["span"]],
        "overfull": [(what, fullest(shares)) for found in tables.values() for what, shares in found.overfull.items()],
    }


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} x {rule}" for rule, count in counts.most_common()) or "nothing"


def _report(
    loader: Loader, source: str, rules: SeriesRules, found: dict[str, Any], made: list[dict[str, Any]]
) -> dict[str, Any]:
    """Figures of the whole. Raises InputError if no workload is left."""
    for share in made:
        found["rows"]["dropped"].update(share["dropped"])
    contradicted = sum(share["contradicted"] for share in made)
    found["rows"]["noted"] = Counter({CHANGED: contradicted} if contradicted else {})
    kept = sum(share["kept"] for share in made)
    if not kept:
        limits = f"--min-records {rules.min_records}, --gaps {rules.gaps}, --longest-gap {rules.longest_gap}"
        longest = max((share["longest"] for share in made), default=0)
        limits += f"; the longest stretch has {longest} records"
        limits += _time_unit_hint(loader)
        gaps = "--gaps hold" if rules.gaps == "drop" else "a larger --longest-gap"
        advice = f"; try --min-records {longest} or fewer, {gaps}, or longer --slot-seconds" if longest else ""
        dropped = _listed(found["rows"]["dropped"])
        raise InputError(f"{source}: no workload remains ({limits}){advice}; dropped: {dropped}")
    return {
        "loader": loader.name,
        "options": repr(loader),
        "source": source,
        "rules": asdict(rules),
        "rows": found["rows"],
        "examples": found["examples"],
        "above": _above(loader.resources, [share["above"] for share in made]),
        "workloads": {"seen": sum(share["seen"] for share in made), "kept": kept},
        "slots": sum(share["slots"] for share in made),
        "coverage": sum(share["recorded"] for share in made) / sum(share["span"] for share in made),
        "time": {"first": min(s[0] for s in found["spans"]), "last": max(s[1] for s in found["spans"])},
    }


def _above(resources: Sequence[str], shares: Sequence[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """By resource, how many records of all shares use more than one reference machine, and the largest."""
    total = {}
    for name in resources:
        if found := [share[name] for share in shares if name in share]:
            largest = max(found, key=lambda one: (one["usage"], one["workload"]))
            total[name] = largest | {"records": sum(one["records"] for one in found)}
    return total


def _time_unit_hint(loader: Loader) -> str:
    return f"; is --time-unit {unit} right?" if (unit := getattr(loader, "time_unit", None)) else ""


def _warn_of_large_usage(loader: Loader, report: dict[str, Any]) -> None:
    """Warn where percents or bytes were probably read as fractions of a machine."""
    columns, scale = getattr(loader, "columns", {}), getattr(loader, "scale", {})
    for name in loader.resources:
        level = dict(zip(LEVELS, report["quantiles"][f"{name}_level"], strict=True))
        if odd := large_usage(name, level[0.5], level[0.95], columns.get(name), name in scale):
            given = f"is --scale {name} {scale[name]:g} right?" if name in scale else f"is --scale {name} missing?"
            hint = given if columns else "is the reference machine right?"
            warnings.warn(f"{report['source']}: {odd}: {hint}", stacklevel=2)


def _assemble(name: str, loader: Loader, rules: SeriesRules, work: Path, shares: int, folder: Path) -> None:
    """Put the shares together in their order, streaming; the trace is called `name`."""
    import polars as pl

    for stem, file in (("usage", USAGE), ("workloads", WORKLOADS)):
        files = [work / f"{stem}-{share:04d}.arrow" for share in range(shares)]
        pl.scan_ipc(files, glob=False).sink_parquet(folder / file, maintain_order=True, compression="lz4")
    header = {"name": name, "resources": list(loader.resources), "slot_seconds": rules.slot_seconds}
    header |= {"reference_machine": loader.reference_machine, "source": "real"}
    write_json(folder / HEADER, header)


OWN_TABLES = ("csv", "parquet")


@dataclass(frozen=True)
class PrepareOptions:
    """The options of every loader."""

    source: str
    """Folder or file of the published data; for prometheus the address of the server."""
    name: str | None = None
    """Name of the trace; default: the loader's name, or for csv and parquet the name of the source."""
    out: Path | None = None
    """Output folder; default: <name> in TVWRL_DATA (~/.cache/tvwrl), where --trace <name> finds it."""
    slot_seconds: int | None = None
    """Length of a slot of the trace, seconds; default: the interval of the published records."""
    gaps: Literal["drop", "hold", "interpolate"] = "hold"
    """How to fill up to --longest-gap slots in a row without a record: with the last value (hold) or linearly
    (interpolate); with drop, every empty slot divides a series, and --longest-gap has no effect."""
    longest_gap: int = 3
    """Longest gap that is filled, slots; a longer gap divides a series into stretches, each of which needs
    --min-records."""
    min_records: int | None = None
    """Smallest number of records of a stretch that is kept; default: 288 (tianchi: 98)."""
    paper_filter: bool = False
    """Require as many records as the paper: google 6000, alibaba 2000."""
    max_bad_fraction: float = 0.01
    """Stop if more than this share of the rows is invalid."""
    plots: bool = True
    """Draw the page of plots."""
    readers: int | None = None
    """Files that are read at the same time; default: the number of cores."""
    ray: str | None = None
    """Ray cluster to run on: HOST:PORT, auto or local; all its machines must share --out."""


def prepare_and_report(options: PrepareOptions, loader: Any, report: Callable[[str], object]) -> Path:
    """Prepare the trace that the options ask for; passes its report to `report` and returns the folder written.

    Raises InputError for options or input that cannot be used.
    """
    records = loader.min_records if options.min_records is None else options.min_records
    if options.paper_filter:
        if loader.paper_records is None:
            raise InputError(f"--paper-filter: the paper does not use {loader.name}; give --min-records")
        if options.min_records is not None:
            raise InputError("--paper-filter sets --min-records: give one of the two")
        records = loader.paper_records
    seconds = loader.slot_seconds if options.slot_seconds is None else options.slot_seconds
    rules = SeriesRules(seconds, options.gaps, options.longest_gap, records)
    source, name = options.source, str(loader.name)
    if options.name is not None:
        name = options.name
        if not name.strip() or "/" in name or name.startswith("."):
            raise InputError(f"--name {name!r}: must be a name that has no / and does not begin with a dot")
    elif name in OWN_TABLES:
        stem = Path(source).resolve().name
        for ending in (".gz", ".csv", ".parquet"):
            stem = stem.removesuffix(ending)
        name = stem.lstrip(".") or name
    out = options.out or data_folder() / name
    check_new_folder(out)
    within(0, 1, max_bad_fraction=options.max_bad_fraction)
    at_least(1, readers=options.readers)
    if "://" in source and loader.name != "prometheus":
        raise InputError(f"--source {source}: {loader.name} only reads files: download them first, and give their path")
    limits = options.max_bad_fraction, options.readers, options.ray, options.plots
    try:
        found = prepare(loader, source, out, rules, *limits, name=name)
    except KeyboardInterrupt:
        if (kept := working_path(out)).exists():
            sys.stderr.write(f"run the same command again to continue; finished parts are in {kept}\n")
        raise
    report(report_text(found))
    trace = shlex.quote(str(options.out or name))
    report(f"written to {out}; train on it with: tvwrl train --trace {trace}")
    return out
