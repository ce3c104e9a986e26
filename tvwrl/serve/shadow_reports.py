"""Reports of a shadow: from time to time, what its decisions would have been worth, by `tvwrl what-if`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

NICE = 10  # the server's answers go first
LONGEST = 3600.0  # seconds that a report may take


class ShadowReports:
    """Writes a report every `hours` into a folder of its own beside the record, in a process of its own.

    `log`: called with an event and its facts
    `selector`: label matchers of the cluster on the Prometheus server, "": it has one only
    """

    def __init__(
        self, record: Path, prometheus: str, hours: float, log: Callable[..., None], selector: str = ""
    ) -> None:
        self._record, self._prometheus, self._hours, self._log = record, prometheus, hours, log
        self._selector = selector
        self._stopped = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name="shadow reports", daemon=True)

    def start(self) -> None:
        """Begin to wait for the first report."""
        self._thread.start()

    def stop(self) -> None:
        """End; a report that is being made is given up."""
        self._stopped.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join(timeout=2.0)

    def command(self, folder: Path, end: datetime) -> Sequence[str]:
        """What makes a report of the hours before `end`."""
        options = {
            "--prometheus": self._prometheus,
            "--days": f"{self._hours / 24:g}",
            "--end": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "--record": str(self._record),
            "--out": str(folder),
        }
        if self._selector:
            options["--selector"] = self._selector
        return [sys.executable, "-m", "tvwrl", "what-if", *(part for pair in options.items() for part in pair)]

    def _run(self) -> None:
        while not self._stopped.wait(self._hours * 3600):
            end = datetime.now(UTC)
            folder = self._record.parent / f"shadow-{end:%Y-%m-%dT%H%M}"
            if self._record.exists():
                self._make(folder, end)

    def _make(self, folder: Path, end: datetime) -> None:
        command = ["nice", "-n", str(NICE), *self.command(folder, end)]
        try:
            # What is read for a report is of no use to the next one, and nothing else may be writable here.
            with tempfile.TemporaryDirectory(dir=self._record.parent, prefix=".report-") as work:
                places = os.environ | {"TVWRL_DATA": work, "MPLCONFIGDIR": work, "TMPDIR": work}
                self._process = subprocess.Popen(
                    command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=places
                )
                _, said = self._process.communicate(timeout=LONGEST)
        except (OSError, subprocess.TimeoutExpired) as error:
            if self._process is not None:
                self._process.kill()
            self._log("report failed", error=repr(error))
            return
        if self._process.returncode:
            self._log("report failed", error=said.strip().splitlines()[-1] if said.strip() else "no message")
        else:
            self._log("report", folder=str(folder))
