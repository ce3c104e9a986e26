"""Says that kernels are being compiled, which happens at their first use, and about how long it will take.

The commands switch it on, and so do environments, whose first `reset` compiles; nothing else of the library says a
word. In a terminal it is a bar that disappears, elsewhere one line through `logging` (logger `tvwrl`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

PATIENCE = 2.0  # seconds of compiling that pass without a word
ALIKE = {  # commands that need the kernels of another one, more or less
    "tune": "train",
    "learn-online": "train",
    "compare": "evaluate",
    "benchmark": "evaluate",
    "reproduce": "evaluate",
}
SAID = "compiling kernels, only on first use"


@cache
def seconds_of_kernels() -> dict[str, dict[str, float]]:
    """What the usual work compiles: use -> kernel -> seconds. Measured, and written, by benchmarks/compile.py."""
    table: dict[str, dict[str, float]] = json.loads(Path(__file__).with_name("kernels.json").read_text("utf-8"))
    return table


class Progress:
    """What a process has compiled, and what is left of what its work needs.

    `needed`: kernel -> seconds, of those that will have to be compiled
    """

    def __init__(self, needed: dict[str, float], clock: Callable[[], float] = time.perf_counter) -> None:
        self._left, self._total, self._clock = dict(needed), len(needed), clock
        self._depth = self._compiled = 0
        self._began = self._spent = self._expected = 0.0
        self._bar: Any = None
        self._told = False

    def begin(self) -> None:
        """A kernel is being compiled, perhaps inside of another one."""
        if self._depth == 0:
            self._began = self._clock()
        self._depth += 1
        self._tell()

    def end(self, kernel: str) -> None:
        """It is done."""
        expected = self._left.pop(kernel, None)
        self._compiled += 1
        self._total += expected is None
        self._expected += expected or 0.0
        self._tell()
        self._depth -= 1
        if self._depth == 0:
            self._spent += self._clock() - self._began
            if self._bar is not None:
                self._bar.clear()

    def _tell(self) -> None:
        spent = self._spent + self._clock() - self._began
        pace = spent / self._expected if self._expected > 1.0 else 1.0  # of this machine, by what it has done so far
        left = sum(self._left.values()) * pace
        if spent + left <= PATIENCE:
            return
        left = round(left)
        with contextlib.suppress(OSError, ValueError):  # nobody can be told: the terminal has gone
            if sys.stderr.isatty():
                self._bar = self._bar or _bar()
                self._bar.total, self._bar.n = self._total, self._compiled
                self._bar.set_postfix_str(f"about {left} s left" if left else "", refresh=True)
            elif not self._told:
                self._told = True
                takes = f": about {left} s" if left else ""
                logging.getLogger("tvwrl").warning(f"{SAID}{takes} (tvwrl warm-up does this in advance)")


def _bar() -> Any:
    from tqdm import tqdm

    layout = "{desc}: |{bar:20}| {n_fmt} of {total_fmt}{postfix}"
    return tqdm(desc=SAID, total=1, bar_format=layout, leave=False, file=sys.stderr, mininterval=0, miniters=1)


_use: str | None = None


def announce(use: str) -> None:
    """Say from now on that kernels are being compiled for `use`, unless it was announced for another one before.

    Worker processes say nothing: they share the terminal of the process that started them.
    """
    global _use
    if _use is None and multiprocessing.parent_process() is None:
        _use = use


def announced_kernels() -> dict[str, float] | None:
    """Kernel -> seconds, of what was announced, as far as it is known; None if nothing was."""
    return None if _use is None else seconds_of_kernels().get(ALIKE.get(_use, _use), {})
