"""Checks the content of a population's file, field by field, before workloads are generated from it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tvwrl.traces.held_series import SHARES
from tvwrl.traces.statistics import DAY_SECONDS, SHAPE_LEVELS, lags
from tvwrl.types import InputError

FIELDS = (
    "name", "resources", "slot_seconds", "reference_machine", "days", "floor", "kinds", "profiles", "parameters",
    "tables", "copula",
)  # fmt: skip
MOST_SLOTS = 500_000  # of a workload: more than four years of slots of 5 minutes
MOST_ENTRIES = 100_000  # of a table
LARGEST = 1e6  # of usage and of what is measured in its multiples
SHAPES = tuple(f"shape{k}" for k in range(len(SHAPE_LEVELS) - 1))
LIMITS = {  # of a table's entries, by the ending of its name; else LARGEST on both sides
    "_level": (0.0, LARGEST),
    "_variation": (0.0, LARGEST),
    "_ratio": (0.0, LARGEST),
    "_length": (0.0, 14.0),  # a logarithm of slots
    "duration": (1.0, MOST_SLOTS),
    "correlation": (-1.0, 1.0),
    **{f"_{name}": (-30.0, 30.0) for name in SHAPES},  # logarithms of gaps
}


def check_population(content: Any, path: Path) -> dict[str, Any]:
    """The content of a population's file, if workloads can be generated from it.

    Parameters
    ----------
    content : object
        What the file has, read as JSON.
    path : Path
        The file, for messages.

    Raises
    ------
    InputError
        With file, field, value and limit, for the first field that is missing, of another type, length or order, or out
        of its limits.
    """
    if not isinstance(content, dict) or (missing := [name for name in FIELDS if name not in content]):
        what = f"lacks {', '.join(missing)}" if isinstance(content, dict) else "is no object"
        raise InputError(f"{path}: holds no population that tvwrl population wrote, because it {what}")
    check = _Checks(path)
    check.text("name", content["name"])
    machine = content["reference_machine"]  # as in a trace: unknown, in words, or an object of what it has
    if machine is not None and not isinstance(machine, dict):
        check.text("reference_machine", machine)
    check.entries("resources", content["resources"], 1, 2)
    for i, name in enumerate(content["resources"]):
        check.text(f"resources[{i}]", name)
    resources = content["resources"]
    if len(set(resources)) < len(resources):
        check.refuse("resources", resources, "must be different names")
    check.number("slot_seconds", content["slot_seconds"], 1, DAY_SECONDS, whole=True)
    check.number("days", content["days"], 0, MOST_SLOTS * content["slot_seconds"] / DAY_SECONDS)
    check.numbers("floor", content["floor"], 0, LARGEST, len(resources))
    _check_kinds(content["kinds"], check)
    check.entries("profiles", content["profiles"], len(resources))
    for d, rows in enumerate(content["profiles"]):
        check.entries(f"profiles[{d}]", rows, 1, 24)
        for i, row in enumerate(rows):
            check.numbers(f"profiles[{d}][{i}]", row, -LARGEST, LARGEST, 24)
    if "groups" not in content:
        check.number("window", content.get("window"), 1, DAY_SECONDS // content["slot_seconds"], whole=True)
    _check_parameters(content, check)
    if "within_request" in content:
        check.entries("within_request", content["within_request"], len(resources))
        for d, within in enumerate(content["within_request"]):
            if not isinstance(within, bool):
                check.refuse(f"within_request[{d}]", within, "must be true or false")
    if "sizes" in content:
        check.entries("sizes", content["sizes"], len(resources))
        for d, sizes in enumerate(content["sizes"]):
            check.numbers(f"sizes[{d}]", sizes, 0, LARGEST, 0, MOST_ENTRIES)
    return content


def _check_kinds(kinds: Any, check: _Checks) -> None:
    check.entries("kinds", kinds, 1, MOST_ENTRIES)
    for i, row in enumerate(kinds):
        check.entries(f"kinds[{i}]", row, 4)
        for k, value in enumerate(row[:2]):
            if value is not None:
                check.number(f"kinds[{i}][{k}]", value, -LARGEST, LARGEST)
        if row[2] not in (0, 1):
            check.refuse(f"kinds[{i}][2]", row[2], "must be 1 if requests are known, else 0")
        check.number(f"kinds[{i}][3]", row[3], 0, 1)
    if not 0.9 <= (total := sum(row[3] for row in kinds)) <= 1.1:
        check.refuse("kinds", total, "as the sum of all shares (the fourth entries) must be about 1")


def _check_parameters(content: dict[str, Any], check: _Checks) -> None:
    """The parameters that are drawn, their tables, and how they belong together."""
    resources, parameters, tables = content["resources"], content["parameters"], content["tables"]
    own = SHARES if "groups" in content else tuple(lags(content["slot_seconds"]))
    needed = {f"{r}_{name}" for r in resources for name in ("level", "variation", "request_ratio", *SHAPES, *own)}
    needed |= {"correlation", "duration", "kind"}
    possible = needed | {f"{r}_{name}" for r in resources for name in ("peak_ratio", "peak_length")}
    check.entries("parameters", parameters, len(needed), len(possible))
    for i, name in enumerate(parameters):
        if not isinstance(name, str) or name not in possible or name in parameters[:i]:
            check.refuse(f"parameters[{i}]", name, "must be the name of a parameter, once")
    if absent := sorted(needed - set(parameters)):
        check.refuse("parameters", f"without {', '.join(absent)}", "must have it")
    if not isinstance(tables, dict):
        check.refuse("tables", tables, "must be an object")
    for name in ("duration", *(f"{r}_{name}" for r in resources for name in ("level", "variation"))):
        if name not in tables:
            check.refuse("tables", f"without {name}", "must have it")
    for name, table in tables.items():
        field = f"tables.{name}"
        if name not in parameters or name == "kind":
            check.refuse(field, table, "must be a table of a parameter")
        unlisted = (0.0, 1.0) if name.endswith(SHARES) and "groups" in content else (-LARGEST, LARGEST)
        low, high = next((limits for end, limits in LIMITS.items() if name.endswith(end)), unlisted)
        check.numbers(field, table, low, high, 2, MOST_ENTRIES)
        for i, (a, b) in enumerate(pairwise(table), 1):
            if b < a:
                check.refuse(f"{field}[{i}]", b, f"must be at least the entry before it, {a}")
    count = len(parameters)
    check.numbers("copula", content["copula"], -1, 1, count * (count - 1) // 2)
    if "groups" in content:
        _check_groups(content["groups"], count, check)


def _check_groups(groups: Any, parameters: int, check: _Checks) -> None:
    if not isinstance(groups, dict):
        check.refuse("groups", groups, "must be an object")
    for name in ("share", "centre", "spread"):
        if name not in groups:
            check.refuse("groups", f"without {name}", "must have it")
    check.numbers("groups.share", groups["share"], 0, 1e9, 1, MOST_ENTRIES)
    if not sum(groups["share"]) > 0:
        check.refuse("groups.share", sum(groups["share"]), "as the sum of all must be above 0")
    check.entries("groups.centre", groups["centre"], len(groups["share"]))
    for g, row in enumerate(groups["centre"]):
        check.numbers(f"groups.centre[{g}]", row, -100, 100, parameters)
    check.numbers("groups.spread", groups["spread"], 0, 100, parameters)


class _Checks:
    """Refusals that name a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def refuse(self, field: str, value: Any, limit: str) -> None:
        shown = value if isinstance(value, str) and value.startswith("without ") else repr(value)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        raise InputError(f"{self.path}: {field} is {shown}: {limit}")

    def text(self, field: str, value: Any) -> None:
        if not isinstance(value, str) or not value.strip():
            self.refuse(field, value, "must be a text that is not empty")

    def entries(self, field: str, value: Any, least: int, most: int | None = None) -> None:
        most = least if most is None else most
        wanted = f"{least}" if least == most else f"{least} to {most}"
        if not isinstance(value, list):
            self.refuse(field, value, f"must be a list of {wanted} entries")
        if not least <= len(value) <= most:
            raise InputError(f"{self.path}: {field} has {len(value)} entries: must have {wanted}")

    def number(self, field: str, value: Any, low: float, high: float, whole: bool = False) -> None:
        kind = "a whole number" if whole else "a number"
        number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not number or not low <= value <= high:
            self.refuse(field, value, f"must be {kind} from {low:g} to {high:g}")

    def numbers(
        self, field: str, values: Sequence[Any], low: float, high: float, least: int, most: int | None = None
    ) -> None:
        self.entries(field, values, least, most)
        for i, value in enumerate(values):
            self.number(f"{field}[{i}]", value, low, high)
