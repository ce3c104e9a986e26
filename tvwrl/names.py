"""The grammar of names with options: NAME(OPTION=VALUE,...), as in n-sigma(n=3) and rollout(spread,horizon=8).

In an entry such as `deeprm=runs/mine`, what it is read from stands behind an equals sign outside of brackets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tvwrl.types import InputError


class Name(NamedTuple):
    """A name as it was read."""

    head: str
    of: str  # what stands first in the brackets, if it is no option; empty if there is none
    options: tuple[str, ...]  # as they were written: "horizon=8"


def read_name(text: str, what: str) -> Name:
    """The parts of a name. Raises InputError, which begins with `what` the name is of, unless brackets match.

    >>> read_name("rollout(spread, horizon=8)", "scheduler")
    Name(head='rollout', of='spread', options=('horizon=8',))
    """
    head, opened, rest = text.partition("(")
    if not opened and ")" not in text:
        return Name(text, "", ())
    inside = rest.removesuffix(")")
    if inside == rest or "(" in inside or ")" in inside:
        raise InputError(f"{what} is '{text}': brackets do not match; write NAME(OPTION=NUMBER)")
    items = [item for part in inside.split(",") if (item := part.strip())]
    of = items.pop(0) if items and "=" not in items[0] else ""
    return Name(head, of, tuple(items))


def numbers(entry: str, options: Sequence[str], allowed: Mapping[str, type]) -> dict[str, Any]:
    """Option -> value, of options whose values are numbers.

    `entry`: what the errors begin with
    `allowed`: option -> its type, int or float

    Raises InputError for options that are unknown or given twice, and for what is no number.

    >>> numbers("rollout(spread,horizon=8)", ["horizon=8"], {"horizon": int})
    {'horizon': 8}
    """
    given: dict[str, Any] = {}
    for item in options:
        name, _, value = (part.strip() for part in item.partition("="))
        if name not in allowed or name in given:
            wrong = "is given twice" if name in given else "is not an option"
            raise InputError(f"{entry}: '{name}' {wrong}; write OPTION=NUMBER, with any of {', '.join(allowed)}")
        try:
            given[name] = allowed[name](value)
        except ValueError:
            meant = "a whole number" if allowed[name] is int else "a number"
            raise InputError(f"{entry}: {name} is '{value}': must be {meant}") from None
    return given


def written(head: str, of: str = "", options: Mapping[str, float] | None = None) -> str:
    """The name as it is written, the same for all ways to spell its numbers.

    >>> written("rollout", "spread", {"horizon": 8}), written("spread")
    ('rollout(spread,horizon=8)', 'spread')
    """
    inside = [*filter(None, [of]), *(f"{name}={value:.12g}" for name, value in (options or {}).items())]
    return f"{head}({','.join(inside)})" if inside else head


def name_and_source(entry: str) -> tuple[str, str]:
    """The two sides of the first equals sign outside of brackets; the second is empty if there is none.

    >>> name_and_source("rollout(spread+policy,horizon=8)=runs/mine")
    ('rollout(spread+policy,horizon=8)', 'runs/mine')
    """
    depth = 0
    for place, character in enumerate(entry):
        depth += (character == "(") - (character == ")")
        if character == "=" and depth == 0:
            return entry[:place], entry[place + 1 :]
    return entry, ""
