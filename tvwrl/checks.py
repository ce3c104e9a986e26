"""Whether values are within their limits; if not, an error that names the value and the limit.

Each function takes values by name and raises InputError for the first one out of range. A value of None was not given
and passes; of a sequence, every element is checked. NaN and infinity are out of every range.

>>> at_least(1, machines=10, workers=None)
>>> positive(loads=(0.5, 0.0))
Traceback (most recent call last):
tvwrl.types.InputError: loads is 0.0: must be a number > 0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from tvwrl.types import InputError

Class = TypeVar("Class", bound=type)
MOST_NAMED = 9  # choices that an error lists; of more it names those that are near


def at_least(least: float, /, **values: Any) -> None:
    """Numbers >= `least`."""
    _check(values, lambda x: least <= x < math.inf, f"at least {least}")


def positive(**values: Any) -> None:
    """Numbers > 0."""
    _check(values, lambda x: 0 < x < math.inf, "a number > 0")


def below(limit: float, /, **values: Any) -> None:
    """Numbers >= 0 and < `limit`."""
    _check(values, lambda x: 0 <= x < limit, f"at least 0 and below {limit}")


def within(low: float, high: float, /, **values: Any) -> None:
    """Numbers from `low` to `high`, both included."""
    _check(values, lambda x: low <= x <= high, f"{low} to {high}")


def whole(**values: Any) -> None:
    """Whole numbers, also as 2.0."""
    _check(values, lambda x: math.isfinite(x) and x == int(x), "a whole number")


def fraction(**values: Any) -> None:
    """Shares of a whole, above 0 and at most 1; who gives 70 probably means percent."""
    _check(values, lambda x: 0 < x <= 1, "a fraction above 0 and at most 1 (0.7 is 70 %)")


def percent(**values: Any) -> None:
    """Percentages from 1 to 100; who gives 0.7 probably means a fraction."""
    _check(values, lambda x: 1 <= x <= 100, "a percentage, 1 to 100 (70 is 70 %)")


def one_of(allowed: Collection[Any], listed_by: str = "", /, **values: Any) -> None:
    """Elements of `allowed`; the error names those that are near, and all if there are no more than `MOST_NAMED`.

    `listed_by`: what to do to see all, said in place of a list that is too long to read
    """
    texts = [str(one) for one in allowed]
    limit = f"one of {', '.join(texts)}"
    if len(texts) > MOST_NAMED and not listed_by:
        limit = f"one of {len(texts)}, such as {', '.join(texts[:3])}"
    _check(values, lambda x: x in allowed, limit, allowed, listed_by if len(texts) > MOST_NAMED else "")


def different(**values: Sequence[Any]) -> None:
    """Sequences of at least one element, none of them repeated."""
    for name, value in values.items():
        if not value or len(set(value)) < len(value):
            given = ", ".join(map(str, value)) or "empty"
            raise InputError(f"{name} is {given}: must be different values, at least one")


def hint(name: str, known: Iterable[str], list_all: bool = False, listed_by: str = "") -> str:
    """What an unknown name may have been meant to be: up to four that are near; all, with `list_all` or if none is.

    `listed_by`: what to do to see all, said in place of a list that is too long to read

    >>> hint("best-fti", ["best-fit", "spread"])
    'did you mean best-fit?'
    >>> hint("best-fti", ["best-fit", "spread"], list_all=True)
    'did you mean best-fit? It must be one of best-fit, spread'
    >>> hint("x", ["best-fit", "spread"])
    'must be one of best-fit, spread'
    >>> hint("Best-Fti", ["best-fit", "spread"], listed_by="tvwrl evaluate --list-schedulers lists all")
    'did you mean best-fit? tvwrl evaluate --list-schedulers lists all'
    """
    known = list(known)
    near, every = _meant(name, known), f"must be one of {', '.join(known)}"
    if listed_by:
        return f"{near} {listed_by}".strip()
    if not near:
        return every
    return near + (f" It {every}" if list_all else "")


def _meant(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    small = {one.casefold(): one for one in known}
    near = [small[one] for one in get_close_matches(name.casefold(), small, 4, cutoff)]
    return f"did you mean {either(near)}?" if near else ""


def either(names: Sequence[str]) -> str:
    """Names in a sentence that asks for one of them.

    >>> either(["FF", "WFD", "NCD"])
    'FF, WFD or NCD'
    """
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def with_known_fields(cls: Class) -> Class:
    """Decorates a dataclass: unknown arguments raise an InputError that names fields that are near."""
    make = cls.__init__  # type: ignore[misc]

    @wraps(make)
    def made(self: Any, *args: Any, **given: Any) -> None:
        known = [one.name for one in fields(cls)]
        for name in given:
            if name not in known:
                raise InputError(f"{cls.__name__} has no field '{name}': {hint(name, known)}")
        make(self, *args, **given)

    cls.__init__ = made  # type: ignore[misc]
    return cls


def _check(
    values: Mapping[str, Any],
    good: Callable[[Any], bool],
    limit: str,
    allowed: Collection[Any] = (),
    listed_by: str = "",
) -> None:
    for name, value in values.items():
        several = isinstance(value, Iterable) and not isinstance(value, str)
        for x in value if several else () if value is None else (value,):
            try:
                passes = good(x)
            except TypeError:  # of another type: text has no order among numbers
                passes = False
            if not passes:
                shown = f"'{x}'" if isinstance(x, str) else x
                texts = [one for one in allowed if isinstance(one, str)]
                meant = _meant(x, texts, 0.7) if isinstance(x, str) else ""  # of values, nearer ones than of names
                if listed_by or (meant and len(allowed) > MOST_NAMED):
                    said = f"{meant} {listed_by}".strip()
                else:
                    said = f"{meant and f'{meant} It '}must be {limit}"
                raise InputError(f"{name} is {shown}: {said}")
