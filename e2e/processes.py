"""Which programs of a test are running: each has a log, and none outlives the test."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class Failure(Exception):
    """Something that the test needs did not happen; the text says what, and where to look."""


def free_port() -> int:
    """Port on loopback that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(what: str, true: Callable[[], object], seconds: float, every: float = 0.1) -> float:
    """Seconds until ``true()`` holds; Failure after ``seconds``."""
    start = time.monotonic()
    while not true():
        if time.monotonic() - start > seconds:
            raise Failure(f"{what}: not within {seconds:g} s")
        time.sleep(every)
    return time.monotonic() - start


class Process:
    """One program in a process group of its own, writing to ``folder/name.log``."""

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None):
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(env or {})},
            )

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its group."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the program has not ended."""
        return self._child.poll() is None

    def cpu_seconds(self) -> float:
        """Processor time used so far, in seconds; 0 once it has ended."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Largest resident memory so far, in bytes; 0 once it has ended."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0
        return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)

    def wait_until(self, ready: Callable[[], object], seconds: float = 60) -> float:
        """Seconds until ``ready()`` holds; Failure, naming the log, if the program ends or the time passes first."""

        def ready_or_ended() -> bool:
            return not self.running or bool(ready())

        try:
            waited = wait_for(f"{self.name} is ready", ready_or_ended, seconds)
        except Failure as failure:
            raise Failure(f"{failure}; see {self.log}") from None
        if not self.running:
            raise Failure(f"{self.name} ended with status {self._child.returncode}; see {self.log}")
        return waited

    def kill(self) -> None:
        """Kill the group at once (SIGKILL), as a crash or the kernel would."""
        self._signal(signal.SIGKILL)
        self._child.wait()

    def stop(self, patience: float = 5) -> None:
        """Ask the group to end; after ``patience`` seconds kill it."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(patience)
        self.kill()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
