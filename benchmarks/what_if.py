"""How long `tvwrl what-if` takes for a week of a generated cluster behind a Prometheus-compatible server.

OMP_NUM_THREADS=1 python benchmarks/what_if.py. The server runs in a process of its own and answers as Prometheus would;
what it needs to make its answers is part of the wall time, not of the processor time.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import tyro
from timing import measure, peak

from tvwrl.experiments.scheduler_names import scheduler_of
from tvwrl.markdown import markdown_table
from tvwrl.types import Float
from tvwrl.what_if.command import DEFAULT, WhatIfSettings, replayed
from tvwrl.what_if.from_prometheus import Asked, read_prometheus_record

T0, DAY, GIB = 1767571200, 86400, 2**30  # 2026-01-05T00:00:00Z


@dataclass
class Site:
    """A generated cluster: pods with daily patterns and noise, some of which come and go."""

    pods: int
    days: int
    interval: int = 300

    @cached_property
    def lives(self) -> tuple[Any, Any]:
        """(pods,) first and last slot of each."""
        rng, slots = np.random.default_rng(0), self.days * DAY // self.interval
        whole = rng.random(self.pods) < 0.5
        first = np.where(whole, 0, rng.integers(0, slots - 12, self.pods))
        last = np.where(whole, slots - 1, np.minimum(first + rng.integers(12, 600, self.pods), slots - 1))
        return first, last

    @cached_property
    def usage(self) -> Float:
        """(2, pods, slots) cores and bytes."""
        rng, slots = np.random.default_rng(1), self.days * DAY // self.interval
        angle = 2 * np.pi * (np.arange(slots) * self.interval / DAY + rng.random((self.pods, 1)))
        level = rng.lognormal(-0.5, 1.0, (2, self.pods, 1)).clip(0.02, 6.0)
        level[1] *= 2.0 * GIB
        noise = rng.gamma(20.0, 0.05, (2, self.pods, slots))
        found: Float = level * (1 + 0.5 * np.array([[[1.0]], [[0.2]]]) * np.sin(angle)) * noise
        return found

    @property
    def nodes(self) -> int:
        """Nodes of 32 cores and 128 GiB that the pods are spread over."""
        return max(self.pods // 12, 1)

    def pod(self, i: int) -> dict[str, str]:
        """Labels of a pod."""
        return {"namespace": "prod", "pod": f"app-{i % 50}-5d4f8c7b9d-{i:05d}"}

    def series(self, query: str, times: Any) -> Iterator[dict[str, Any]]:
        """What the query has at these moments (seconds)."""
        if any(name in query for name in ("kube_node_labels", "kube_node_role", "_com_gpu")):
            return  # nodes without labels, roles and GPUs
        if "kube_node_status" in query:
            value = "32" if '"cpu"' in query else str(128 * GIB)
            for node in range(self.nodes):
                yield {"metric": {"node": f"node-{node}"}, "values": [[int(t), value] for t in times]}
            return
        if "exported_pod!=" in query or query.startswith("count by"):
            return  # every name stands for one pod or node
        if query.startswith("count("):
            yield {"metric": {}, "values": [[int(times[0]), str(self.pods)]]}
            return
        first, last = self.lives
        slots = (times - T0) // self.interval - 1
        for i in range(self.pods):
            alive = (first[i] <= slots) & (slots <= last[i])
            owned = "kube_pod_owner" in query
            if not alive.any() and not owned:
                continue
            moments = times[alive | owned]
            yield from self._of_pod(query, i, moments.tolist(), slots[alive])

    def _of_pod(self, query: str, i: int, moments: list[int], slots: Any) -> Iterator[dict[str, Any]]:
        labels = self.pod(i)
        if '"part"' in query:
            for kind, most in zip(("cpu", "memory"), self.usage[:, i].max(axis=1), strict=True):
                part = {"resource": kind, "part": "containers"}
                yield {"metric": labels | part, "values": [[t, str(most)] for t in moments]}
        elif "kube_pod_owner" in query:
            owner = {"owner_kind": "ReplicaSet", "owner_name": labels["pod"][:-6]}
            yield {"metric": labels | owner, "values": [[t, "1"] for t in moments]}
        elif "kube_pod_info" in query:
            yield {"metric": labels | {"node": f"node-{i % self.nodes}"}, "values": [[t, str(t)] for t in moments]}
        else:
            used = self.usage[0 if "rate(" in query else 1, i, slots].tolist()
            yield {"metric": labels, "values": [[t, str(value)] for t, value in zip(moments, used, strict=True)]}


class Handler(BaseHTTPRequestHandler):
    """The part of Prometheus' HTTP API that is asked for."""

    site: Site

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer a query."""
        split = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        data: Any = {"resultType": "scalar", "result": [T0, str(T0 + self.site.days * DAY)]}
        if split.path.endswith("/values"):
            data = ["recorded"]
        elif split.path.endswith(("/labels", "/series")):
            data = []
        elif split.path.endswith("query_range"):
            times = np.arange(int(query["start"]), int(query["end"]) + 1, int(query["step"]))
            data = {"resultType": "matrix", "result": list(self.site.series(query["query"], times))}
        body = gzip.compress(json.dumps({"status": "success", "data": data}).encode(), 1)
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(site: Site, address: Queue[str]) -> None:
    """Answer until the process is ended."""
    handler = type("OfSite", (Handler,), {"site": site})
    _ = site.usage, site.lives
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    address.put(f"http://127.0.0.1:{server.server_port}")
    server.serve_forever()


def main(pods: int = 1000, days: int = 7) -> None:
    """Print the table.

    Args:
        pods: of the cluster.
        days: that are read and replayed.
    """
    context = get_context("spawn")
    address: Queue[str] = context.Queue()
    server = context.Process(target=serve, args=(Site(pods, days), address), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory() as folder:
        try:
            asked = Asked(address.get(timeout=120), days, folder=Path(folder) / "kept")
            read = measure(read_prometheus_record, asked)
        finally:
            server.terminate()
        settings = WhatIfSettings(prometheus=asked.url, out=Path(folder) / "out")
        played = measure(replayed, settings, read.result, [scheduler_of(name, "cpu") for name in DEFAULT], [])
    rows = [
        [name, f"{one.wall:.1f}", f"{one.cpu:.1f}"]
        for name, one in (("read the server", read), (f"replay {len(DEFAULT)} rules, judge, write", played))
    ]
    rows.append(["all", f"{read.wall + played.wall:.1f}", f"{read.cpu + played.cpu:.1f}"])
    print(markdown_table([f"{pods:,} pods, {days} days", "wall, s", "CPU, s"], rows))
    print(f"peak of memory: {peak():.2f} GiB")


if __name__ == "__main__":
    tyro.cli(main)
