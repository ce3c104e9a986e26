"""Finds the trace that a `--trace` value means: a name of the catalogue, a folder or a CSV file."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tvwrl import SUPERSEDED_TASKS, TASK_NAMES
from tvwrl.checks import at_least, hint
from tvwrl.names import numbers, read_name, written
from tvwrl.traces.canonical import HEADER, read_trace, trace_hash
from tvwrl.traces.large_usage import large_usage_in_table
from tvwrl.types import InputError, Trace

SUBFOLDERS = {  # of TVWRL_DATA: where a recorded trace of that name is looked for, in this order
    "google": ("google", "google2011", "google2019"),
    "alibaba": ("alibaba", "alibaba2018", "tianchi"),
}

SYNTHETIC = "synthetic:"  # before the name or file of a population: that one, whatever was prepared
POPULATIONS = ("alibaba", "google", "google-v2")  # that come with the package
OPTIONS = {"workloads": int, "seed": int, "replicas": int}  # in brackets behind a population


def data_folder() -> Path:
    """Name the folder of the prepared traces: that in the environment variable TVWRL_DATA, else ~/.cache/tvwrl.

    Returns
    -------
    Path
        The folder, which need not exist.

    Examples
    --------
    >>> data_folder().is_absolute()
    True
    """
    return Path(os.environ.get("TVWRL_DATA") or "~/.cache/tvwrl").expanduser()


def find_trace(name_or_path: str) -> Path | None:
    """Find the folder or file that a name or path stands for.

    Parameters
    ----------
    name_or_path : str
        As of `open_trace`. A name goes before a file or folder of that name in the current folder: write ./name for
        the latter.

    Returns
    -------
    Path or None
        Where the trace is read from; None for a synthetic population.

    Raises
    ------
    InputError
        If it is neither a name nor a file or folder.

    Examples
    --------
    >>> find_trace("synthetic:alibaba") is None
    True
    """
    data, prepared = data_folder(), set()  # names of its subfolders that hold a trace
    with contextlib.suppress(OSError):
        prepared = {folder.name for folder in data.iterdir() if (folder / HEADER).is_file()}
    for name in SUBFOLDERS.get(name_or_path, (name_or_path,)):
        if name in prepared:
            return data / name
    if name_or_path in SUBFOLDERS or (name_or_path.startswith(SYNTHETIC) and _population(name_or_path)[0]):
        return None
    path = Path(name_or_path).expanduser()
    if name_or_path and os.path.exists(path):
        return path
    if name_or_path.removeprefix("tvwrl/") in (*TASK_NAMES, *SUPERSEDED_TASKS):
        own = name_or_path.removeprefix("tvwrl/").partition("-")[0]
        own = f"{SYNTHETIC}{own}" if own in SUBFOLDERS else own  # tasks never use the recorded google
        raise InputError(f"unknown trace {name_or_path!r}: this is a task of the benchmark; name its trace, {own}")
    known = sorted({*SUBFOLDERS, *(f"{SYNTHETIC}{name}" for name in POPULATIONS), *prepared})
    possible = (
        f"a trace is a name ({', '.join(known)}), or the path of a folder that tvwrl prepare made, or of a "
        f"CSV file; names are looked up in TVWRL_DATA ({data})"
    )
    raise InputError(
        f"unknown trace {name_or_path!r}: no such file, folder or name; {hint(name_or_path, known, listed_by=possible)}"
    )


def _population(name: str) -> tuple[str, dict[str, Any]]:
    """Name or file of the population of `name`, and the options in its brackets; both empty if there is none."""
    read = read_name(name.removeprefix(SYNTHETIC), "trace")
    if read.head not in POPULATIONS and not read.head.endswith(".json"):
        return "", {}
    return read.head, numbers(name, ([read.of] if read.of else []) + list(read.options), OPTIONS)


def open_trace(name_or_path: str | Path, slot_seconds: int | None = None, seed: int = 0) -> Trace:
    """Open a trace by name or path.

    Parameters
    ----------
    name_or_path : str or path
        google and alibaba are the recorded trace if one was prepared in TVWRL_DATA, else a synthetic population, which
        synthetic:google, synthetic:google-v2 and synthetic:alibaba always are, and synthetic:FILE.json by a file that
        `tvwrl population` wrote; in brackets, how many workloads and the seed, as in
        synthetic:google-v2(workloads=10000,seed=1); with replicas=4 they are the pods of applications that have so many
        replicas on average (`deployments_trace`). A folder of TVWRL_DATA goes by its name; all else is the path of a
        folder or a CSV.
    slot_seconds : int, optional
        Length of a slot, seconds, which a CSV lacks.
    seed : int
        Seed of a synthetic population, >= 0, unless its brackets have one.

    Returns
    -------
    Trace
        The trace.

    Raises
    ------
    InputError
        For an unknown name (with those that are near), a file with a bad value (with row and column), and a
        `slot_seconds` that contradicts the trace.

    Warns
    -----
    UserWarning
        If the usage in a CSV seems to be in percent or bytes, not fractions of a machine.

    Examples
    --------
    >>> trace = open_trace("google")
    >>> trace.series(0).shape  # slots, resources; fractions of the reference machine
    (864, 2)
    >>> trace = open_trace("my-usage.csv", slot_seconds=300)  # doctest: +SKIP
    """
    if not isinstance(name_or_path, str | Path):
        raise InputError(f"trace is {name_or_path!r}: must be a name or a path, as in 'google' or 'usage-folder'")
    name_or_path = str(name_or_path)
    path = find_trace(name_or_path)
    if path is not None:
        trace = read_trace(path, slot_seconds)
        if path.is_file():  # `prepare` has looked at folders
            for odd in large_usage_in_table(trace, path):
                warnings.warn(odd, stacklevel=2)
        return trace

    population, given = _population(name_or_path)
    at_least(0, seed=(options := {"seed": seed} | given)["seed"])
    if "replicas" in given:
        from tvwrl.traces.deployments import deployments_trace

        trace = deployments_trace(population, **options)
    else:
        from tvwrl.traces.synthetic import synthetic_trace

        trace = synthetic_trace(population, **options)
    if slot_seconds not in (None, trace.slot_seconds):
        raise InputError(
            f"synthetic trace {trace.name!r}: slot_seconds is {trace.slot_seconds}: must not be given as {slot_seconds}"
        )
    return trace


def trace_identity(trace: Trace, name_or_path: str | None, slot_seconds: int | None = None) -> dict[str, Any]:
    """What a run keeps of its trace, to open it again with `open_trace` and to know whether it has changed.

    `name_or_path`: what `open_trace` was given; None for a trace that a program made, which cannot be opened again
    """
    path = None if name_or_path is None else find_trace(name_or_path)
    return {
        "argument": name_or_path and (_synthetic(name_or_path) if path is None else str(path.resolve())),
        "slot_seconds": slot_seconds,
        "name": trace.name,
        "source": trace.source,
        "hash": trace_hash(trace),
    }


def _synthetic(name: str) -> str:
    """The name of a population that opens it from any folder, whatever was prepared since."""
    population, options = _population(name)
    head = str(Path(population).expanduser().resolve()) if population.endswith(".json") else population
    return f"{SYNTHETIC}{written(head, options=options)}"


def how_to_open(identity: Mapping[str, Any]) -> tuple[str, int | None]:
    """The arguments of `open_trace` that open the trace of a `trace_identity` again.

    Raises InputError for a trace that a program made.
    """
    if identity["argument"] is None:
        raise InputError(
            f"trace '{identity['name']}' was passed in by a program, so it cannot be opened again: name the trace"
        )
    return identity["argument"], identity["slot_seconds"]


def describe_source(trace: Trace, name_or_path: str | None = None) -> str:
    """Describe a trace in one sentence: recorded or synthetic, how many workloads, how long a slot.

    Parameters
    ----------
    trace : Trace
        The trace.
    name_or_path : str, optional
        What `open_trace` was given: a recorded trace's folder or file is then named too.

    Returns
    -------
    str
        The sentence, for the first lines of a run.

    Examples
    --------
    >>> describe_source(open_trace("synthetic:alibaba"), "synthetic:alibaba")
    "Synthetic population 'alibaba', no recorded usage: 400 workloads, slots of 900 s."
    """
    size = f"{len(trace)} workloads, slots of {trace.slot_seconds} s"
    path = find_trace(name_or_path) if name_or_path is not None else None
    place = f" from {path}" if path is not None else ""
    if trace.source == "real":
        instead = f" ({SYNTHETIC}{name_or_path} would be generated)" if name_or_path in SUBFOLDERS else ""
        return f"Real trace {trace.name!r}, recorded usage{place}{instead}: {size}."
    if path is not None:
        return f"Synthetic trace {trace.name!r}, generated usage{place}: {size}."
    missing = f" (tvwrl prepare makes the real one, in {data_folder()})" if name_or_path in SUBFOLDERS else ""
    return f"Synthetic population {trace.name!r}, no recorded usage{missing}: {size}."


def open_and_describe(name_or_path: str, slot_seconds: int | None, report: Callable[[str], object]) -> Trace:
    """Open a trace as `open_trace` does, and report where it comes from.

    Parameters
    ----------
    name_or_path : str
        As of `open_trace`.
    slot_seconds : int or None
        As of `open_trace`.
    report : callable
        Is passed one line of text.

    Returns
    -------
    Trace
        The trace.

    Examples
    --------
    >>> trace = open_and_describe("synthetic:alibaba", None, print)
    trace: Synthetic population 'alibaba', no recorded usage: 400 workloads, slots of 900 s.
    """
    trace = open_trace(name_or_path, slot_seconds)
    report(f"trace: {describe_source(trace, name_or_path)}")
    return trace
