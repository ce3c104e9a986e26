"""How numbers of things are said."""

from __future__ import annotations


def counted(count: int, what: str) -> str:
    """So many of a thing, whose plural ends in s.

    >>> counted(1, "replica"), counted(2000, "replica")
    ('1 replica', '2,000 replicas')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"
