"""The extender under test as a process: started, killed and started again on one port, with one log of decisions."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from e2e.processes import Process, free_port

REFERENCE = (sys.executable, "-m", "e2e.reference_extender")


class Running:
    """An extender that listens on ``port``; ``command`` lacks only --listen."""

    def __init__(self, command: Sequence[str | Path], folder: Path, name: str = "extender"):
        self.command, self.folder, self.name = list(command), folder, name
        self.port = free_port()
        self.log = folder / f"{name}.log"
        self.process: Process | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, patience: float = 120, path: str = "/readyz") -> float:
        """Start it; seconds until ``path`` answers 200."""
        return self.launch().wait_until(lambda: self.status(path) == 200, patience)

    def launch(self) -> Process:
        """Start it, and do not wait."""
        command = [*self.command, "--listen", f"127.0.0.1:{self.port}"]
        self.process = Process(self.name, command, self.folder, {"OMP_NUM_THREADS": "1"})
        return self.process

    def memory(self) -> int:
        """Largest resident memory of the process that answers, in bytes."""
        return self.process.memory() if self.process else 0

    def status(self, path: str) -> int:
        """HTTP status of a page; 0 where nobody answers."""
        try:
            with urlopen(self.url + path, timeout=5) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code
        except OSError:
            return 0

    def kill(self) -> None:
        """SIGKILL."""
        if self.process:
            self.process.kill()

    def stop(self) -> None:
        """End it."""
        if self.process:
            self.process.stop()

    def counters(self, name: str, label: str = "") -> float:
        """Sum of a counter of /metrics over its labels; ``label``: only where this is among them, as ``path="/x"``."""
        with urlopen(self.url + "/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        values = [line.rpartition(" ") for line in lines if line.split("{")[0].split(" ")[0] == name]
        return sum(float(value) for series, _, value in values if label in series)

    def position(self) -> int:
        """End of the log now, to read on from later."""
        return self.log.stat().st_size if self.log.exists() else 0

    def events(self, since: int = 0) -> list[dict[str, Any]]:
        """Lines of JSON in the log from position ``since`` on, in order."""
        with self.log.open("rb") as log:
            log.seek(since)
            lines = log.read().splitlines()
        found = []
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and "event" in event:
                found.append(event)
        return found

    def decisions(self, since: int = 0) -> dict[str, list[dict[str, Any]]]:
        """Decisions and fallbacks by pod, ``namespace/name``, in order."""
        found: dict[str, list[dict[str, Any]]] = {}
        for event in self.events(since):
            if event["event"] in ("decision", "fallback"):
                found.setdefault(event["pod"], []).append(event)
        return found


def tvwrl(policy: str, prometheus: str, *options: str) -> list[str | Path]:
    """Command that serves a policy with the metrics of ``prometheus``."""
    command: list[str | Path] = [sys.executable, "-m", "tvwrl", "serve", "--policy", policy, "--prometheus", prometheus]
    return [*command, "--poll-seconds", "2", "--window", "10", "--stale-seconds", "10", *options]
