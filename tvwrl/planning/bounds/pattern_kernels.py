"""Compiled: the most valuable pattern, by dynamic programming over whole units of two resources."""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import njit


@njit
def best_pattern(value, size, start, room):  # type: ignore[no-untyped-def]
    """Largest total value of options that fit `room` (2,), at most one of each group, and (n,) options that reach it.

    Options of group g are `start[g] .. start[g + 1] - 1`, with `value` (O,) and `size` (O, 2), whole units >= 0.
    """
    groups, wide, high = len(start) - 1, room[0] + 1, room[1] + 1
    best = np.zeros((wide, high))
    before = np.zeros((wide, high))
    choice = np.full((groups, wide, high), -1, np.int32)
    for g in range(groups):
        before[:] = best
        for option in range(start[g], start[g + 1]):
            a, b, worth = size[option, 0], size[option, 1], value[option]
            if worth <= 0:
                continue
            for x in range(a, wide):
                for y in range(b, high):
                    reached = before[x - a, y - b] + worth
                    if reached > best[x, y]:
                        best[x, y], choice[g, x, y] = reached, option
    x, y, taken = room[0], room[1], np.zeros(groups, np.int64)
    count = 0
    for back in range(groups):
        option = choice[groups - 1 - back, x, y]
        if option >= 0:
            taken[count] = option
            count += 1
            x -= size[option, 0]
            y -= size[option, 1]
    return best[room[0], room[1]], taken[:count]
