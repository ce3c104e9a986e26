"""What a user may ask of a preparation, and the one call that does it: prepare and report."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tvwrl.checks import at_least, within
from tvwrl.runs import check_new_folder
from tvwrl.traces.catalogue import data_folder
from tvwrl.traces.preparation.prepare import prepare
from tvwrl.traces.preparation.report import report_text
from tvwrl.traces.preparation.series import SeriesRules
from tvwrl.traces.preparation.working import working_path
from tvwrl.types import InputError

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
    name = _name(options, loader)
    out = options.out or data_folder() / name
    source = options.source
    check_new_folder(out)
    within(0, 1, max_bad_fraction=options.max_bad_fraction)
    at_least(1, readers=options.readers)
    if "://" in source and loader.name != "prometheus":
        raise InputError(f"--source {source}: {loader.name} only reads files: download them first, and give their path")
    limits = options.max_bad_fraction, options.readers, options.ray, options.plots
    with _interruption_explained(working_path(out)):
        found = prepare(loader, source, out, rules, *limits, name=name)
    report(report_text(found))
    trace = shlex.quote(str(options.out or name))
    report(f"written to {out}; train on it with: tvwrl train --trace {trace}")
    return out


@contextlib.contextmanager
def _interruption_explained(folder: Path) -> Iterator[None]:
    """After an interruption, explain on stderr how to resume with what is in the folder."""
    try:
        yield
    except KeyboardInterrupt:
        if folder.exists():
            sys.stderr.write(f"run the same command again to continue; finished parts are in {folder}\n")
        raise


def _name(options: PrepareOptions, loader: Any) -> str:
    """Name of the trace in its records, and of its folder by default."""
    if options.name is not None:
        if not options.name.strip() or "/" in options.name or options.name.startswith("."):
            raise InputError(f"--name {options.name!r}: must be a name that has no / and does not begin with a dot")
        return options.name
    if loader.name not in OWN_TABLES:
        return str(loader.name)
    name = Path(options.source).resolve().name
    for ending in (".gz", ".csv", ".parquet"):
        name = name.removesuffix(ending)
    return name.lstrip(".") or str(loader.name)
