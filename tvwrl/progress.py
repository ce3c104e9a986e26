"""What long work says while it goes on, all of it on stderr, as standard output is for tables: lines, and clocks."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from tqdm import tqdm

Report = Callable[[str], object]  # gets a line now and then

TICK = 1.0  # seconds between two looks at the clock
EVERY = 30.0  # seconds between two lines where there is no terminal for a bar


class Bar(tqdm):  # type: ignore[misc]
    """A bar that counts even where it is not shown."""

    def update(self, n: float = 1) -> None:
        """Count `n` more."""
        if self.disable:
            self.n += n
        super().update(n)


def say(text: str) -> None:
    """A line for the user, above what bars there are."""
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()


def nothing(text: str) -> None:
    """A report for those who want none: no line, and no bar either."""


def hidden(report: Report) -> bool | None:
    """`disable` of a tqdm bar beside what `report` gets: bars are for terminals."""
    return True if report is nothing else None


@contextlib.contextmanager
def ticking(desc: str, report: Report = say, **options: Any) -> Iterator[Bar]:
    """A bar of tqdm with these options that is drawn anew every second, so that work of which nothing is reported
    shows its time; if stderr is no terminal, a line every half minute; nothing if nobody wants a report."""
    ended, begun = threading.Event(), time.monotonic()

    def tick() -> None:
        while not ended.wait(EVERY if bar.disable else TICK):
            if bar.disable:
                done = f"{bar.n} of {bar.total}, " if bar.total else ""
                report(f"{desc}: {done}{tqdm.format_interval(time.monotonic() - begun)}")
            else:
                bar.refresh()

    with Bar(desc=desc, disable=hidden(report), leave=False, **options) as bar:
        clock = threading.Thread(target=tick, daemon=True)
        if report is not nothing:
            clock.start()
        try:
            yield bar
        finally:
            ended.set()
            if clock.is_alive():
                clock.join()


@contextlib.contextmanager
def phase(what: str, report: Report = say) -> Iterator[None]:
    """Report what is done in the block, and show how long it has taken so far."""
    report(what)
    with ticking(what, report, bar_format="{desc}: {elapsed}"):
        yield
