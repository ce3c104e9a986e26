"""What operators see of the server: metrics for Prometheus, and one line of JSON per event."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds
TOGETHER = 0.05  # seconds between writes of the log
LINES = 10_000  # of the log that may wait to be written
FALLBACKS = (
    "no_metrics", "stale_metrics", "unknown_nodes", "too_many_placements", "held_for_too_long", "late", "busy",
    "failed",
)  # fmt: skip


class Monitoring:
    """Counters of one server, in a registry of their own."""

    def __init__(self, policy: str, shadow: bool, age: Callable[[], float]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry}
        self.decisions = Counter("tvwrl_decisions", "Decisions by outcome: placed or held", ["outcome"], **made)
        self.fallbacks = Counter("tvwrl_fallbacks", "Answers 'every node, equal scores' by reason", ["reason"], **made)
        self.requests = Counter("tvwrl_requests", "HTTP requests by path and status", ["path", "status"], **made)
        self.latency = Histogram("tvwrl_request_seconds", "Seconds to answer", ["path"], buckets=BUCKETS, **made)
        self.deciding = Histogram("tvwrl_decision_seconds", "Seconds to decide, without HTTP", buckets=BUCKETS, **made)
        self.outcomes = Counter(
            "tvwrl_pods_seen_placed", "Placed pods that have appeared in the metrics, by node: as_decided or other",
            ["node"], **made,
        )  # fmt: skip
        self.polls = Counter("tvwrl_polls", "Reads from Prometheus, by result", ["result"], **made)
        Gauge("tvwrl_metrics_age_seconds", "Age of the newest sample of usage", **made).set_function(age)
        self.nodes = Gauge("tvwrl_nodes", "Nodes in the newest metrics", **made)
        self.pods = Gauge("tvwrl_pods", "Running pods in the newest metrics", **made)
        self.doubts = Gauge(
            "tvwrl_metrics_doubts", "Sentences in the log about what cannot be true of the newest metrics",
            **made,
        )  # fmt: skip
        Info("tvwrl_policy", "What decides", **made).info({"name": policy, "shadow": str(shadow).lower()})
        for outcome in ("placed", "held"):
            self.decisions.labels(outcome)
        for reason in FALLBACKS:
            self.fallbacks.labels(reason)
        for node in ("as_decided", "other"):
            self.outcomes.labels(node)

    def text(self) -> bytes:
        """All metrics in the format of Prometheus."""
        return generate_latest(self.registry)


class Log:
    """Writes events as lines of JSON, in a thread of its own: who reads the log, or does not, delays no answer.

    Lines that wait for too long are left out, and the next line says how many.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream: TextIO | None = stream or sys.stderr
        self._lines: queue.Queue[str | None] = queue.Queue(LINES)
        self._lost = 0
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def __call__(self, event: str, **facts: object) -> None:
        """Write one event with its facts."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lost = {"lines_lost": self._lost} if self._lost else {}
        try:
            self._lines.put_nowait(orjson.dumps({"time": now, "event": event, **facts, **lost}, default=str).decode())
            self._lost = 0
        except queue.Full:
            self._lost += 1

    def close(self, seconds: float = 1.0) -> None:
        """Write what waits, for at most so long."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=seconds)
            self._thread.join(timeout=seconds)

    def _write(self) -> None:
        last = False
        while not last:
            lines = [self._lines.get()]
            time.sleep(TOGETHER)  # what comes meanwhile is written at once: threads that wake up delay decisions
            with suppress(queue.Empty):
                while lines[-1] is not None:
                    lines.append(self._lines.get_nowait())
            last = lines[-1] is None
            if self._stream is None:  # so it is without a console
                continue
            with suppress(OSError, ValueError):  # a closed pipe must not stop pods from being scheduled
                self._stream.write("".join(f"{line}\n" for line in lines if line is not None))
                self._stream.flush()
