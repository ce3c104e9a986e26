"""Says once, in one line, that kernels are being compiled, which happens at their first use.

The commands switch it on, and so do environments, whose first `reset` compiles; nothing else of the library says a
word. The line goes through `logging` (logger `tvwrl`).
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import time
from collections.abc import Callable

PATIENCE = 2.0  # seconds of compiling that pass without a word
SAID = "compiling code, once after installation (tvwrl warm-up does it ahead)"

_announced = False


def announce() -> None:
    """Say from now on that kernels are being compiled.

    Worker processes say nothing: they share the terminal of the process that started them.
    """
    global _announced
    _announced = multiprocessing.parent_process() is None


def announced() -> bool:
    """Whether this process says that it compiles."""
    return _announced


class Notice:
    """How long a process has compiled; it says so once that has taken `PATIENCE` seconds and goes on."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._depth, self._began, self._spent, self._told = clock, 0, 0.0, 0.0, False

    def begin(self) -> None:
        """A kernel is being compiled, perhaps inside of another one."""
        if self._depth == 0:
            self._began = self._clock()
        self._depth += 1
        if not self._told and self._spent + self._clock() - self._began >= PATIENCE:
            self._told = True
            with contextlib.suppress(OSError, ValueError):  # nobody can be told: the terminal has gone
                logging.getLogger("tvwrl").warning(SAID)

    def end(self) -> None:
        """It is done."""
        self._depth -= 1
        if self._depth == 0:
            self._spent += self._clock() - self._began
