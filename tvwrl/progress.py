"""What long work says while it goes on, all of it on stderr, as standard output is for tables: lines, and clocks."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tqdm import tqdm

Report = Callable[[str], object]  # gets a line now and then

TICK = 1.0  # seconds between two looks at the clock


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
def ticking(desc: str, report: Report = say, **options: Any) -> Iterator[tqdm[Any]]:
    """A bar of tqdm with these options that is drawn anew every second, so that work of which nothing is reported
    shows its time; if stderr is no terminal, or nobody wants a report, nothing is shown."""
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(TICK):
            bar.refresh()

    with tqdm(desc=desc, disable=hidden(report), leave=False, **options) as bar:
        clock = threading.Thread(target=tick, daemon=True)
        if not bar.disable:
            clock.start()
        try:
            yield bar
        finally:
            ended.set()
            if not bar.disable:
                clock.join()


@contextlib.contextmanager
def phase(what: str, report: Report = say) -> Iterator[None]:
    """Report what is done in the block, and show how long it has taken so far."""
    report(what)
    with ticking(what, report, bar_format="{desc}: {elapsed}"):
        yield
