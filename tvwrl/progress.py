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
SOON = 2.0  # seconds to the first of them, where what is done in the meantime can be told


class Bar(tqdm):  # type: ignore[misc]
    """A bar that counts even where it is not shown."""

    monitor_interval = 0  # no thread that outlives it, to draw it anew: `ticking` does

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
def ticking(desc: str, report: Report = say, doing: Callable[[], str] | None = None, **options: Any) -> Iterator[Bar]:
    """A bar of tqdm with these options that is drawn anew every second, so that work of which nothing is reported
    shows its time; if stderr is no terminal, a line every half minute; nothing if nobody wants a report.

    `doing`: what is being done, in words; then the first line comes after `SOON`, and says how long the rest may take
    """
    ended, begun = threading.Event(), time.monotonic()

    def tick() -> None:
        pause = SOON if doing is not None and bar.disable else EVERY
        while not ended.wait(pause if bar.disable else TICK):
            pause = EVERY
            if not bar.disable:
                if doing is not None:
                    bar.set_postfix_str(doing(), refresh=False)
                bar.refresh()
                continue
            seconds = time.monotonic() - begun
            parts = [f"{bar.n} of {bar.total}"] if bar.total else []
            parts += [] if doing is None else [doing()]
            parts.append(tqdm.format_interval(seconds))
            if doing is not None and bar.total and bar.n:
                parts.append(f"about {tqdm.format_interval(seconds / bar.n * (bar.total - bar.n))} left")
            report(f"{desc}: {', '.join(parts)}")

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
