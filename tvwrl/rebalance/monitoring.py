"""What operators see of the controller: metrics for Prometheus, and whether it is alive and of use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Info, disable_created_metrics, generate_latest

from tvwrl.rebalance.execution import OUTCOMES

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Monitoring:
    """Counters of one controller, in a registry of their own.

    `plan_age`: seconds since the cluster was seen for the newest plan; `left`: evictions that the hour allows
    """

    def __init__(self, dry_run: bool, plan_age: Callable[[], float], left: Callable[[], float]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry}
        self.evictions = Counter("tvwrl_rebalance_evictions", "Moves by what became of them", ["outcome"], **made)
        self.imagined = Counter(
            "tvwrl_rebalance_imagined_evictions", "The same of a dry run, which evicts nothing", ["outcome"], **made
        )
        self.turns = Counter("tvwrl_rebalance_turns", "Looks at the cluster, by result", ["result"], **made)
        self.stops = Counter("tvwrl_rebalance_stops", "Runs that ended before their plan did", **made)
        self.errors = Counter("tvwrl_rebalance_api_errors", "Requests that the API server failed", **made)
        self.unheard = Counter("tvwrl_rebalance_hand_over_failures", "Targets that tvwrl serve was not told", **made)
        self.moves = Gauge("tvwrl_rebalance_planned_moves", "Moves of the newest plan", **made)
        self.saving = Gauge(
            "tvwrl_rebalance_expected_saving", "Of the newest plan over the next day, in what its goal counts", **made
        )
        self.leads = Gauge("tvwrl_rebalance_leads", "1: this one may evict", **made)
        Gauge("tvwrl_rebalance_plan_age_seconds", "Age of the newest plan", **made).set_function(plan_age)
        Gauge("tvwrl_rebalance_budget_left", "Evictions that this hour still allows", **made).set_function(left)
        Info("tvwrl_rebalance_mode", "Whether it only records what it would do", **made).info(
            {"dry_run": str(dry_run).lower()}
        )
        for outcome in OUTCOMES:
            self.evictions.labels(outcome)
            self.imagined.labels(outcome)
        for result in ("done", "nothing_to_do", "failed", "not_leading"):
            self.turns.labels(result)

    def text(self) -> bytes:
        """All metrics in the format of Prometheus."""
        return generate_latest(self.registry)


class Pages:
    """An ASGI application with /metrics, /healthz and /readyz.

    `alive`, `ready`: whether it is; if not, a restart may help, or nothing can be planned
    """

    def __init__(self, monitoring: Monitoring, alive: Callable[[], bool], ready: Callable[[], bool]) -> None:
        self._monitoring, self._alive, self._ready = monitoring, alive, ready

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """See ASGI 3.0."""
        while scope["type"] == "lifespan":
            event = (await receive())["type"]
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return
        if scope["type"] != "http":
            return
        status, kind, body = self._answer(scope["method"], scope["path"])
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, method: str, path: str) -> tuple[int, str, bytes]:
        plain = "text/plain; charset=utf-8"
        if path not in ("/metrics", "/healthz", "/readyz"):
            return 404, plain, b"no such path; there are /metrics, /healthz, /readyz"
        if method not in ("GET", "HEAD"):
            return 405, plain, b"only GET"
        if path == "/metrics":
            return 200, METRICS, self._monitoring.text()
        good = self._alive() if path == "/healthz" else self._ready()
        return (200, plain, b"ok") if good else (503, plain, b"the last look at the cluster failed, or was long ago")
