"""Reads the cluster in a process of its own, so that parsing metrics never delays an answer."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from tvwrl.serve.observed import Observed
from tvwrl.types import InputError

RESTART_SECONDS = 5.0  # before a reader that died is started again


class Polling:
    """Calls `arrived` with what was observed every `seconds` and `failed` with why it could not be, in a thread."""

    def __init__(
        self,
        watcher: dict[str, object],
        seconds: float,
        arrived: Callable[[Observed], None],
        failed: Callable[[str], None],
    ) -> None:
        self._options, self._seconds, self._arrived, self._failed = watcher, seconds, arrived, failed
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="polling", daemon=True)

    def start(self) -> None:
        """Begin to poll."""
        self._thread.start()

    def stop(self) -> None:
        """End the polling process; waits at most a second for it."""
        self._stopped.set()
        self._thread.join(timeout=1.0)

    def _listen(self) -> None:
        context = multiprocessing.get_context("spawn")
        while not self._stopped.is_set():
            ours, theirs = context.Pipe(duplex=False)
            process, started = (
                context.Process(target=poll, args=(self._options, self._seconds, theirs), daemon=True),
                False,
            )
            try:
                process.start()
                started = True
                theirs.close()
                self._receive(ours)
            except Exception as error:  # it did not start, or ended, perhaps in the middle of what it sent
                if not self._stopped.is_set():
                    self._failed(f"the process that reads metrics ended: {error!r}")
            finally:
                if started:
                    process.kill()
                    process.join()
                ours.close()
            self._stopped.wait(RESTART_SECONDS)

    def _receive(self, pipe: Connection) -> None:
        while not self._stopped.is_set():
            if not pipe.poll(0.2):
                continue
            found = pipe.recv()
            if isinstance(found, Observed):
                self._arrived(found)
            else:
                self._failed(str(found))


def poll(options: dict[str, object], seconds: float, pipe: Connection) -> None:
    """Send what is observed, or why nothing was, down `pipe`, until nobody reads it."""
    from tvwrl.serve.watching import Watcher

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    watcher = Watcher(**options)  # type: ignore[arg-type]
    while True:
        begin = time.monotonic()
        try:
            found: Observed | str = watcher.read()
        except InputError as error:
            found = str(error)
        except Exception as error:  # whatever a broken server leads to: the next attempt may succeed
            found = f"{type(error).__name__}: {error}"
        try:
            pipe.send(found)
        except OSError:
            return
        time.sleep(max(0.0, seconds - (time.monotonic() - begin)))
