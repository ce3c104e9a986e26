"""Who has seen what: which series are for training, validation and test, and in which fold a training series is."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from tvwrl.traces.canonical import trace_hash
from tvwrl.types import InputError, Int, Trace

Split = Literal["train", "validation", "test"]

TEST_SHARE = 0.3  # of the workloads (or of each series in time)
VALIDATION_SHARE = 0.2  # of what is not for testing; of all workloads where applications are kept whole
FOLDS = 3
FEWEST_REPLICAS = 3  # of an application of which some are held out: one for each part
UNSEEN = -1  # fold of a series that is in none: not for training, or the only one for training


@dataclass(frozen=True)
class Run:
    """A stretch of one series without a gap: rows `first .. first + rows - 1` of the trace."""

    workload: int
    first: int
    rows: int
    period: int = 0  # rows after which it repeats (whole days); 0 = it does not


@dataclass(frozen=True, eq=False)
class Splits:
    """The runs of a trace by what they are for, and the folds of its training series.

    Whatever is fitted sees the training runs alone; the unit and the lengths of windows are constants of the problem,
    set on more (`SequenceSampler`). Validation runs choose (a policy, a setting), test runs judge.
    No row is both for testing and for anything else. Training and validation share no row either, unless nothing could
    be held out (`holds_out`). By workloads or applications, the same holds of every workload (or application).
    """

    runs: dict[Split, list[Run]]
    not_test: list[Run]  # training and validation together, by time before validation was cut off
    fold: Int  # (n,) of every workload of the trace: 0..FOLDS - 1 for training series, UNSEEN for others

    @property
    def holds_out(self) -> bool:
        """Whether validation has rows of its own; otherwise it uses the training runs."""
        return self.runs["validation"] != self.runs["train"]


def split_trace(trace: Trace, by: str, least_rows: int = 1) -> Splits:
    """Split a trace into training, validation and test, and the training series into folds.

    The split is the same for every seed and order of the workloads, so results compare across runs. Validation and
    folds are stratified by the lengths of series. Where nothing can be held out for validation, it uses the training
    runs; a single training series (or application) has no fold.

    Parameters
    ----------
    trace : Trace
        The trace.
    by : {"workloads", "applications", "time", "placements"}
        What is kept whole: workloads; applications (a workload whose application is unknown is one of its own); or
        nothing, and every run is cut: the last part is for testing, the last part of the rest for validation.
    least_rows : int
        Runs of fewer rows belong to no split.

    Returns
    -------
    Splits
        The runs by what they are for, and the fold of each training series.

    Raises
    ------
    InputError
        For a trace of too few workloads or applications, or without a run of `least_rows`.

    Examples
    --------
    >>> from tvwrl.traces import synthetic_trace
    >>> splits = split_trace(synthetic_trace(workloads=20, days=1), "workloads")
    >>> [len(splits.runs[name]) for name in ("train", "validation", "test")]
    [11, 3, 6]
    """
    if by == "time":
        every = gapless_runs(trace, np.argsort(trace.workload_id, kind="stable"))
        not_test, test = _cut(every, TEST_SHARE)
        train, validation = _cut(not_test, VALIDATION_SHARE)
    elif by == "placements":
        not_test, train, validation, test = _by_placements(trace)
    else:
        parts = _by_applications(trace, least_rows) if by == "applications" else _by_workloads(trace, least_rows)
        not_test, train, validation, test = (gapless_runs(trace, part) for part in parts)
    not_test, train, validation, test = (
        [run for run in part if run.rows >= least_rows] for part in (not_test, train, validation, test)
    )
    for name, runs in (("train", not_test), ("test", test)):
        if not runs:
            slot = least_rows * trace.slot_seconds
            raise InputError(
                f"no {name} series of trace '{trace.name}' is as long as one slot ({slot} s): lower step_seconds"
            )
    if not (train and validation):
        train = validation = not_test
    fold = np.full(len(trace), UNSEEN)
    if len(groups := _groups(trace, train, whole=by == "applications")) > 1:
        for number, part in enumerate(_deal(groups, [1.0] * FOLDS)):
            fold[part] = number
    return Splits({"train": train, "validation": validation, "test": test}, not_test, fold)


def share_workloads(one: Trace, other: Trace) -> bool:
    """Whether two recorded traces have a workload of the same name, and so may be one cluster, prepared in two ways.

    Each has its own split then, so test series of one are training series of the other.
    """
    recorded = {one.source, other.source} == {"real"}  # names of synthetic workloads are numbers
    return recorded and not set(one.workload_id).isdisjoint(other.workload_id)


def check_others(trace: Trace, others: Mapping[str, Trace]) -> None:
    """Refuse traces that nothing may be learnt from beside `trace`: with other resources, with the content of one that
    is there already, and with workloads of the same names, whose training series may be test series of `trace`.

    `others`: by the name that was given for each
    """
    known = {trace_hash(trace): f"trace '{trace.name}'"}
    for name, other in others.items():
        if other.resources != trace.resources:
            raise InputError(
                f"also {name}: it has the resources {', '.join(other.resources)}, but trace '{trace.name}' has "
                f"{', '.join(trace.resources)}"
            )
        if (twin := known.setdefault(trace_hash(other), f"also {name}")) != f"also {name}":
            raise InputError(f"also {name}: it has the same content as {twin}; name every trace once")
        if share_workloads(trace, other):
            raise InputError(
                f"also {name}: it shares names of workloads with trace '{trace.name}', so test series could be learnt: "
                "leave it out, or rename its workloads if they are others"
            )


def gapless_runs(trace: Trace, workloads: Sequence[int] | Int) -> list[Run]:
    """Stretches of consecutive slots of the given workloads."""
    runs = []
    for i in map(int, workloads):
        begin, end = int(trace.offsets[i]), int(trace.offsets[i + 1])
        breaks = np.flatnonzero(np.diff(trace.slot[begin:end]) != 1) + 1
        edges = [0, *breaks.tolist(), end - begin]
        runs += [Run(i, begin + a, b - a) for a, b in pairwise(edges)]
    return runs


def _cut(runs: list[Run], share: float) -> tuple[list[Run], list[Run]]:
    """Every run without its last `share`, and that last part."""
    cuts = [round((1 - share) * run.rows) for run in runs]
    before = [replace(r, rows=cut) for r, cut in zip(runs, cuts, strict=True)]
    return before, [replace(r, first=r.first + cut, rows=r.rows - cut) for r, cut in zip(runs, cuts, strict=True)]


def _by_workloads(trace: Trace, least_rows: int) -> tuple[Int, Int, Int, Int]:
    """Workloads that are not for testing, of these for training and validation, and for testing; each by name."""
    if len(trace) < 2:
        raise InputError(
            f"trace '{trace.name}' has only {len(trace)} workload: at least 2 are needed, "
            "because training and test sequences draw from different ones"
        )
    by_name = np.argsort(trace.workload_id, kind="stable")  # the order of rows in a file makes no difference
    order = np.random.default_rng(0).permutation(len(trace))
    test = max(1, round(TEST_SHARE * len(trace)))
    not_test = by_name[np.sort(order[test:])]
    groups = _groups(trace, [run for run in gapless_runs(trace, not_test) if run.rows >= least_rows])
    train, validation = _deal(groups, [1 - VALIDATION_SHARE, VALIDATION_SHARE])
    return not_test, _named(trace, train), _named(trace, validation), by_name[np.sort(order[:test])]


def _by_placements(trace: Trace) -> tuple[list[Run], list[Run], list[Run], list[Run]]:
    """Of an application with replicas some of them are held out, and of all other workloads the end of the series."""
    parts: tuple[list[int], ...] = ([], [], [])
    alone = []
    applications: dict[str, list[int]] = {}
    for i in np.argsort(trace.workload_id, kind="stable").tolist():
        applications.setdefault(trace.application[i] or f"/{trace.workload_id[i]}", []).append(i)
    for name in sorted(applications):
        group = applications[name]
        if len(group) < FEWEST_REPLICAS:
            alone += group
            continue
        order = np.random.default_rng(zlib.crc32(name.encode())).permutation(group).tolist()
        first = len(group) - max(1, round(TEST_SHARE * len(group)))  # of those for testing
        middle = first - max(1, round(VALIDATION_SHARE * first))
        for part, members in zip(parts, (order[:middle], order[middle:first], order[first:]), strict=True):
            part.extend(members)
    replicas = [gapless_runs(trace, part) for part in parts]
    not_test, test_ends = _cut(gapless_runs(trace, alone), TEST_SHARE)
    begins, ends = _cut(not_test, VALIDATION_SHARE)
    return replicas[0] + replicas[1] + not_test, replicas[0] + begins, replicas[1] + ends, replicas[2] + test_ends


def _by_applications(trace: Trace, least_rows: int) -> tuple[Int, Int, Int, Int]:
    """As `_by_workloads`, with whole applications on each side."""
    runs = [run for run in gapless_runs(trace, range(len(trace))) if run.rows >= least_rows]
    groups = _groups(trace, runs, whole=True)
    if len(groups) < 3:
        raise InputError(
            f"split is applications, but trace '{trace.name}' has {len(groups)} of them: at least 3 are needed, for "
            "training, validation and test; use split workloads or split time"
        )
    train, test, validation = _deal(groups, [1 - TEST_SHARE - VALIDATION_SHARE, TEST_SHARE, VALIDATION_SHARE])
    parts = [_named(trace, part) for part in (train + validation, train, validation, test)]
    return parts[0], parts[1], parts[2], parts[3]


def _named(trace: Trace, workloads: list[int]) -> Int:
    """The workloads in the order of their names."""
    return np.array(sorted(workloads, key=lambda i: trace.workload_id[i]), np.int64)


def _groups(trace: Trace, runs: list[Run], whole: bool = False) -> list[list[int]]:
    """Workloads of the runs: each alone, or those of an application together (`whole`).

    Larger groups come first; among equal ones, those with longer runs; a draw on the names breaks ties.
    """
    longest: dict[int, int] = {}
    for run in runs:
        longest[run.workload] = max(longest.get(run.workload, 0), run.rows)
    groups: dict[tuple[bool, str], list[int]] = {}
    for i in longest:
        known = whole and trace.application[i] != ""
        groups.setdefault((known, trace.application[i] if known else trace.workload_id[i]), []).append(i)
    names = sorted(groups)
    drawn = [groups[names[i]] for i in np.random.default_rng(0).permutation(len(names))]
    return sorted(drawn, key=lambda group: (-len(group), -max(longest[i] for i in group)))


def _deal(groups: list[list[int]], shares: list[float]) -> list[list[int]]:
    """The workloads of each part, about in these shares: group by group to the least filled part.

    Neighbours in the order of the groups go to different parts, so every part has large and small, long and short.
    """
    parts: list[list[int]] = [[] for _ in shares]
    for group in groups:
        part = min(range(len(shares)), key=lambda p: len(parts[p]) / shares[p])
        parts[part] += group
    return parts
