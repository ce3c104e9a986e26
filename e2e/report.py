"""What was checked, with which figure, and whether all of it held."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Check:
    """One line of the table; ``held`` None: measured, nothing to hold."""

    what: str
    figure: str
    held: bool | None


@dataclass
class Report:
    """All checks of a run, printed as they are made and again as a table at the end."""

    checks: list[Check] = field(default_factory=list)
    _start: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """What is going on now."""
        print(f"e2e {time.monotonic() - self._start:5.0f} s  {text}", file=sys.stderr, flush=True)

    def check(self, what: str, held: bool, figure: str) -> None:
        """One thing that has to hold."""
        self.checks.append(Check(what, figure, held))
        self.say(f"{'ok    ' if held else 'FAILED'}  {what}: {figure}")

    def measure(self, what: str, figure: str) -> None:
        """One thing that is only measured."""
        self.checks.append(Check(what, figure, None))
        self.say(f"        {what}: {figure}")

    @property
    def held(self) -> bool:
        """Whether everything held that had to."""
        return bool(self.checks) and all(check.held is not False for check in self.checks)

    def table(self) -> str:
        """The table, and a last line with the verdict."""
        marks = {True: "ok", False: "FAILED", None: ""}
        width = max((len(check.what) for check in self.checks), default=0)
        lines = [f"{check.what:{width}}  {marks[check.held]:6}  {check.figure}" for check in self.checks]
        failed = sum(check.held is False for check in self.checks)
        verdict = f"{failed} of them failed" if failed else "all that had to hold did"
        took = time.monotonic() - self._start
        return "\n".join([*lines, "", f"{len(self.checks)} lines, {verdict}; {took:.0f} s in all"])


def share(held: int, total: int) -> str:
    """A count of a total."""
    return f"{held:,} of {total:,}"


def percentile(values: list[float], part: float) -> float:
    """Value that ``part`` (0 to 1) of ``values`` do not exceed; NaN of none."""
    return sorted(values)[min(int(part * len(values)), len(values) - 1)] if values else float("nan")
