"""The record of what was decided and where pods really went: lines of JSON, for `tvwrl what-if --record`."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from tvwrl.serve.deciding import Decision
from tvwrl.serve.observed import Observed
from tvwrl.serve.rotation import RotatingLines

AWAITED = 20_000  # decisions that wait for their pod to appear in the metrics


class Record:
    """Remembers decisions until their pods appear in the metrics; appends both to `file` where there is one.

    `size`: bytes of the record that are kept at most: see `RotatingLines`
    `seen`: called with "as_decided" or "other" for every decided pod that appears on a node
    `failed`: called with why a line could not be written; pods are scheduled all the same
    """

    def __init__(
        self,
        file: Path | None,
        seen: Callable[[str], object],
        failed: Callable[[str], object] = str,
        clock: Callable[[], float] = time.time,
        size: int = 256 * 2**20,
    ) -> None:
        self._seen, self._clock = seen, clock
        self._awaited: OrderedDict[str, tuple[str, str | None]] = OrderedDict()  # uid -> pod, node
        self._lock = threading.Lock()
        self._lines = None if file is None else RotatingLines(file, size, failed)

    def decided(self, decision: Decision) -> None:
        """Keep a decision; of a pod that asks again, the last one counts."""
        with self._lock:
            pod, decided = decision.pod, (decision.pod.key, decision.node)
            known = self._awaited.pop(pod.uid, None)
            self._awaited[pod.uid] = decided
            while len(self._awaited) > AWAITED:
                self._awaited.popitem(last=False)
            if known != decided:
                self._write(pod.uid, *decided)

    def observed(self, observed: Observed) -> None:
        """Say of every awaited pod that runs now whether it is where it was to go."""
        with self._lock:
            running = observed.runs({uid: key for uid, (key, _) in self._awaited.items()})
            for uid, row in running.items():
                if observed.node[row] < 0:
                    continue
                key, node = self._awaited.pop(uid)
                placed = observed.nodes[observed.node[row]]
                if node is not None:
                    self._seen("as_decided" if node == placed else "other")
                self._write(uid, key, node, placed=placed)

    def close(self) -> None:
        """Close the file."""
        if self._lines is not None:
            self._lines.close()

    def _write(self, uid: str, pod: str, node: str | None, **facts: str) -> None:
        if self._lines is not None:
            line = {"time": round(self._clock(), 3), "pod": pod, "uid": uid, "node": node, **facts}
            self._lines.write(json.dumps(line).encode())
