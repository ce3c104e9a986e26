"""The grammar of names with options: NAME(OPTION=VALUE,...), as in n-sigma(n=3) and rollout(spread,horizon=8).

In an entry such as `deeprm=runs/mine`, what it is read from stands behind an equals sign outside of brackets. Planners
keep the names that papers gave them, such as `SpreadWFD-Avg-Decr4`: a `Form` says what the parts of such a name are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
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
    head, has = entry.partition("(")[0], ", ".join(allowed)
    for item in options:
        name, equals, value = (part.strip() for part in item.partition("="))
        if name in given:
            raise InputError(f"{entry}: '{name}' is given twice")
        if not equals:
            raise InputError(f"{entry}: '{name}' is not OPTION=NUMBER; the options are: {has}")
        if name not in allowed:
            raise InputError(f"{head} has no option '{name}'; it has: {has}")
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
    inside = [*filter(None, [of]), *(f"{name}={_number(value)}" for name, value in (options or {}).items())]
    return f"{head}({','.join(inside)})" if inside else head


def _number(value: float) -> str:
    """The shortest text that reads back as the same number."""
    short = f"{value:.12g}"
    return short if float(short) == value and not (isinstance(value, int) and "e" in short) else repr(value)


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


_SHARE = r"0(?:\.\d+)?|1(?:\.0+)?"


class Part(NamedTuple):
    """What can stand for a part of a published name."""

    pattern: str  # regular expression of its texts
    value: Callable[[str], Any]  # what a text means
    words: Callable[[str], str]  # what people say for a text; for an empty one, where the part is left out
    listed: Sequence[str]  # those of which names are listed; if there are none, the name is listed without the part
    told: str  # all its texts, in words


def choice(
    values: Mapping[str, Any], words: Mapping[str, str] | None = None, listed: Sequence[str] = (), told: str = ""
) -> Part:
    """A part that is one of the texts of `values`; those of `listed` are listed. `told`: where they are too many."""
    said, pattern = words or {}, "|".join(map(re.escape, values))
    told = told or ", ".join(text or "nothing" for text in values)
    return Part(pattern, values.__getitem__, lambda text: said.get(text, text), listed, told)


def whole(unit: str = "", *listed: int, least: int = 1) -> Part:
    """A part that is a whole number from `least` on; people say it with its unit, as in "2 groups"."""

    def words(text: str) -> str:
        return f"{text} {unit}{'s' * (text != '1')}" if unit else text

    pattern = r"[1-9]\d*" if least else r"\d+"
    return Part(pattern, int, words, [str(number) for number in listed], f"a whole number from {least}")


def share(*listed: str) -> Part:
    """A part that is a number from 0 to 1."""
    return Part(_SHARE, float, str, listed, "a number from 0 to 1")


def shares(count: int, *listed: str) -> Part:
    """A part that is so many numbers from 0 to 1, with commas between them."""

    def values(text: str) -> tuple[float, ...]:
        return tuple(map(float, text.split(",")))

    pattern = ",".join([f"(?:{_SHARE})"] * count)
    return Part(pattern, values, lambda text: text.replace(",", ", "), listed, f"{count} numbers from 0 to 1")


def word(words: Callable[[str], str], *listed: str) -> Part:
    """A part that is any word."""
    return Part(r"\w+", str, words, listed, "any name")


@dataclass(frozen=True)
class Form:
    """How names of one kind are written: {part} stands for a part, and what is in square brackets can be left out.

    >>> flow = Form("Flow.{groups}[({order})]", {"groups": whole("group", 2, 4), "order": choice({"LRF": 1})})
    >>> flow.read("Flow.3(LRF)"), flow.read("Flow.0"), flow.names
    ({'groups': '3', 'order': 'LRF'}, None, ['Flow.2', 'Flow.4'])
    """

    text: str
    parts: Mapping[str, Part]

    def read(self, name: str) -> dict[str, str] | None:
        """Part -> its text, of parts that are not left out; None for a name of another form."""
        signs = {"[": "(?:", "]": ")?"} | {
            f"{{{one}}}": f"(?P<{one}>{part.pattern})" for one, part in self.parts.items()
        }
        pieces = re.split(r"(\{\w+\}|[\[\]])", self.text)
        found = re.fullmatch("".join(signs.get(piece) or re.escape(piece) for piece in pieces), name)
        return None if found is None else {one: text for one, text in found.groupdict().items() if text is not None}

    def values(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Part -> what it means, of what `read` returns."""
        return {one: self.parts[one].value(text) for one, text in texts.items()}

    def say(self, title: str, texts: Mapping[str, str]) -> str | None:
        """The `title` with words for its {parts}; None if it does not say all parts of what `read` returns."""
        if any(f"{{{one}}}" not in title for one in texts):
            return None
        return title.format(**{one: part.words(texts.get(one, "")) for one, part in self.parts.items()})

    @property
    def names(self) -> list[str]:
        """Names with all combinations of the parts that are listed."""

        def kept(bracket: re.Match[str]) -> str:
            return bracket[1] if all(self.parts[one].listed for one in re.findall(r"\{(\w+)\}", bracket[1])) else ""

        text = re.sub(r"\[(.*?)\]", kept, self.text)
        used = re.findall(r"\{(\w+)\}", text)
        listed = product(*(self.parts[one].listed for one in used))
        return [text.format(**dict(zip(used, texts, strict=True))) for texts in listed]
