"""Recognises usage in percent or bytes that was read as fractions of a reference machine."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np

from tvwrl.types import Trace

PERCENTAGE = re.compile(r"percent|pct|%", re.IGNORECASE)  # in the name of a column
LARGE = 1.5  # mean usage of a workload, as a fraction of the reference machine, above which it is probably none


def large_usage(resource: str, median: float, high: float, column: str | None = None, scaled: bool = False) -> str:
    """What is odd about the usage of a resource, in words; "" if nothing is.

    The median workload shows it, and in a user's own table any large one or a column that is called a percentage: most
    workloads may be idle. In published traces a job of many tasks may use several machines.

    `median`, `high`: median and 95th percentile of the workloads' mean usage, fractions of the reference machine
    `column`: of a user's own table; None: a published trace
    `scaled`: whether the user said what a unit of the column stands for
    """
    place = f" (column '{column}')" if column else ""
    if median > LARGE:
        return f"the median workload uses {median:,.3g} reference machines of {resource}{place}"
    if column and high > LARGE:
        return f"one in twenty workloads uses {high:,.3g} reference machines of {resource}{place} or more"
    if column and not scaled and PERCENTAGE.search(column):
        return f"column '{column}' is read as fractions of the reference machine, though it is called a percentage"
    return ""


def large_usage_in_table(trace: Trace, file: Path) -> list[str]:
    """For each column of a table read as it is that seems to hold no fractions, a sentence on that and what to do."""
    level = np.add.reduceat(trace.usage, trace.offsets[:-1]) / np.diff(trace.offsets)[:, None]
    columns = shlex.join(name for resource in trace.resources for name in (resource, resource))
    command = f"tvwrl prepare csv --source {shlex.quote(str(file))} --time-column slot --time-unit slot "
    command += f"--interval {trace.slot_seconds} --columns {columns}"
    if (trace.application != "").any():
        command += " --application-column application"
    found = []
    for name, of_workloads in zip(trace.resources, level.T, strict=True):
        median, high = np.quantile(of_workloads, (0.5, 0.95))
        if odd := large_usage(name, float(median), float(high), name):
            scale = f"--scale {shlex.quote(name)} 0.01"
            found.append(f"{file}: {odd}; needed: fractions. If it is percent, make a trace with: {command} {scale}")
    return found
