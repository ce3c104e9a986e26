"""How long learning goes on: a number of generations, or seconds, which go on counting after an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic

from tvwrl.agents.value_settings import ValueSettings
from tvwrl.runs import write_json
from tvwrl.types import InputError

FILE = "seconds.json"  # seconds that had passed after each generation


class Clock:
    """Says whether another generation begins.

    Parameters
    ----------
    settings : ValueSettings
        Its `seconds`, or `generations`.
    kept : Path, optional
        Folder of the generations; the time before an interruption is kept there.

    Examples
    --------
    >>> Clock(ValueSettings(generations=2)).goes_on(2)
    False
    """

    def __init__(self, settings: ValueSettings, kept: Path | None = None) -> None:
        self._settings, self._began = settings, monotonic()
        self._file = None if kept is None else kept / FILE
        self._passed: list[float] = []
        if self._file is not None and self._file.is_file():
            try:
                self._passed = [float(seconds) for seconds in json.loads(self._file.read_text())]
            except (ValueError, TypeError) as error:
                raise InputError(f"{self._file} is damaged: {error}; give another folder") from error
        self._before = self._passed[-1] if self._passed else 0.0

    def goes_on(self, generation: int) -> bool:
        """Whether another generation follows that one; 0: whether one begins."""
        if self._settings.seconds is None:
            return generation < self._settings.generations
        passed = self._passed[generation - 1] if 0 < generation <= len(self._passed) else self._now()
        return generation == 0 or passed < self._settings.seconds

    def note(self, generation: int) -> None:
        """A generation has ended."""
        missing = generation - 1 - len(self._passed)  # of generations after which learning was killed at once
        self._passed[generation - 1 :] = [self._now()] * (max(missing, 0) + 1)
        if self._file is not None:
            write_json(self._file, self._passed)

    def _now(self) -> float:
        return self._before + monotonic() - self._began
