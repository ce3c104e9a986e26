"""Compiled: affinity arcs as they are read, tens of millions of them, in linear time and without keys to sort."""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import njit


@njit
def first_twice(start, to):  # type: ignore[no-untyped-def]
    """First arc that points where another one of its row did before, or -1."""
    seen = np.full(len(start) - 1, -1, np.int32)
    for i in range(len(start) - 1):
        for arc in range(start[i], start[i + 1]):
            if seen[to[arc]] == i:
                return arc
            seen[to[arc]] = i
    return -1


@njit
def pairs(text, count):  # type: ignore[no-untyped-def]
    """(count, 2) whole numbers of "[(8, 2), (13, 0)]", and whether `text` (bytes) is exactly that; blanks do not count.

    Numbers of more than 9 digits are not read.
    """
    found = np.zeros((count, 2), np.int32)
    at, pair, side, digits, good = 0, 0, -1, 0, True  # side: -1 outside of brackets, 0 and 1 in a pair
    separated = True  # by a comma from the pair before
    for byte in text:
        if byte == 32:
            good = good and digits == 0
        elif 48 <= byte <= 57:  # a digit
            good = good and side >= 0 and pair < count and digits < 9
            if not good:
                break
            found[pair, side] = found[pair, side] * 10 + (byte - 48)
            digits += 1
        elif byte == 91:  # [
            good = good and at == 0
            at = 1
        elif byte == 40:  # (
            good = good and at == 1 and side == -1 and separated
            side, digits = 0, 0
        elif byte == 44 and side == -1:  # a comma between pairs
            good = good and not separated
            separated = True
        elif byte == 44:  # one inside of a pair
            good = good and side == 0 and digits > 0
            side, digits = 1, 0
        elif byte == 41:  # )
            good = good and side == 1 and digits > 0
            pair, side, digits, separated = pair + 1, -1, 0, False
        elif byte == 93:  # ]
            good = good and at == 1 and side == -1 and (not separated or pair == 0)
            at = 2
        else:
            good = False
        if not good:
            break
    return found, good and at == 2 and pair == count
