"""What operators see of the server: metrics for Prometheus, and one line of JSON per event."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

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
        self.deciding = Histogram("tvwrl_decision_seconds", "Seconds of a decision alone", buckets=BUCKETS, **made)
        self.outcomes = Counter(
            "tvwrl_pods_seen_placed", "Decided pods that appeared in the metrics, by node: as decided or other",
            ["node"], **made,
        )  # fmt: skip
        self.polls = Counter("tvwrl_polls", "Looks at the metrics, by result", ["result"], **made)
        Gauge("tvwrl_metrics_age_seconds", "Age of the newest sample of usage", **made).set_function(age)
        self.nodes = Gauge("tvwrl_nodes", "Nodes in the newest metrics", **made)
        self.pods = Gauge("tvwrl_pods", "Running pods in the newest metrics", **made)
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
    """Writes events as lines of JSON, whole even from several threads."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream: TextIO | None = stream or sys.stderr
        self._lock = threading.Lock()

    def __call__(self, event: str, **facts: object) -> None:
        """Write one event with its facts."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"time": now, "event": event, **facts}, default=str)
        with self._lock:
            if self._stream is None:  # so it is without a console
                return
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):  # a closed pipe must not stop pods from being scheduled
                return
