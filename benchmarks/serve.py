"""How fast `tvwrl serve` answers: a made-up cluster of 1,000 nodes and 10,000 pods, polled from a made-up Prometheus.

Clients ask as kube-scheduler does, /filter and then /prioritize with the names of all nodes, each as soon as it has its
answer. They, the server and Prometheus share the machine, so the figures are upper bounds.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import tyro

from tvwrl.markdown import markdown_table

GIB = 2**30
READY_SECONDS = 120
SAMPLED_SECONDS = 0.4  # between two looks at the memory


class MadeUp(BaseHTTPRequestHandler):
    """Answers the queries of the server: nodes of 8 cores and 32 GiB, pods whose usage rises and falls with the day."""

    protocol_version = "HTTP/1.1"
    nodes, pods = 0, 0

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """See the API of Prometheus: query for the time, query_range for all else."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        if "query" not in asked:  # labels and series: there is nothing to tell apart
            data: Any = []
        elif asked["query"] == "time()":
            data = {"resultType": "scalar", "result": [time.time(), str(time.time())]}
        else:
            times = range(int(asked["start"]), int(asked["end"]) + 1, int(asked["step"]))
            result = [
                {"metric": labels, "values": [[t, str(value * (1 + 0.3 * daily * math.sin(t / 13750)))] for t in times]}
                for labels, value, daily in self._series(asked["query"])
            ]
            data = {"resultType": "matrix", "result": result}
        body = json.dumps({"status": "success", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _series(self, query: str) -> list[tuple[dict[str, str], float, bool]]:
        """Labels, value, and whether it changes with the day."""
        if query.startswith("count"):
            return []  # every name stands for one pod or node
        pods = [({"namespace": f"n{i % 7}", "pod": f"app{i // 5}-{i % 5}"}, 0.05 + i * 37 % 100 / 400)
                for i in range(self.pods)]  # fmt: skip
        if '"part"' in query:
            both = (("cpu", 2.0), ("memory", 8 * GIB))
            part = {"part": "containers"}
            return [
                (pod | part | {"resource": kind}, size * times, False) for pod, size in pods for kind, times in both
            ]
        if "allocatable" in query:
            return [({"node": f"node-{m}"}, 8 if '"cpu"' in query else 32 * GIB, False) for m in range(self.nodes)]
        if "kube_pod_info" in query:
            return [(pod | {"node": f"node-{i % self.nodes}"}, 1, False) for i, (pod, _) in enumerate(pods)]
        if "kube_pod_owner" in query:
            kind = {"owner_kind": "StatefulSet"}
            return [(pod | kind | {"owner_name": pod["pod"].split("-")[0]}, 1, False) for pod, _ in pods]
        if "timestamp" in query:
            return [({}, time.time(), False)]
        if "cpu_usage" in query:
            return [(pod, size, True) for pod, size in pods]
        return [(pod, 4 * size * GIB, False) for pod, size in pods] if "working_set" in query else []


def made_up_prometheus(nodes: int, pods: int, pipe: Any) -> None:
    """Serve on a free port, which goes into the pipe."""
    MadeUp.nodes, MadeUp.pods = nodes, pods
    server = ThreadingHTTPServer(("127.0.0.1", 0), MadeUp)
    pipe.send(server.server_port)
    server.serve_forever()


async def client(port: int, bodies: list[bytes], seconds: dict[str, list[float]]) -> None:
    """Ask about pods one after the other on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for body in bodies:
        for path, found in seconds.items():
            began = time.perf_counter()
            writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))
            found.append(time.perf_counter() - began)
            assert head.startswith(b"HTTP/1.1 200"), head
    writer.close()


def ask(port: int, nodes: int, clients: int, pods: int, name: str) -> tuple[dict[str, list[float]], float]:
    """Seconds of every answer by path, and pods per second."""
    names, seconds = [f"node-{m}" for m in range(nodes)], {"/filter": [], "/prioritize": []}
    bodies = []
    for i in range(pods):
        owner = {"kind": "StatefulSet", "name": f"app{i % 500}", "controller": True}
        metadata = {"name": f"{name}-{i}", "namespace": "n0", "uid": f"{name}-{i}", "ownerReferences": [owner]}
        spec = {"containers": [{"resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]}
        pod = {"metadata": metadata, "spec": spec}
        bodies.append(json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode())

    async def together() -> None:
        await asyncio.gather(*(client(port, bodies[first::clients], seconds) for first in range(clients)))

    began = time.perf_counter()
    asyncio.run(together())
    return seconds, pods / (time.perf_counter() - began)


def processor(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """MiB that a process holds, memory shared with others by its share."""
    return int(re.search(r"^Pss: *(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)[1]) / 1024


def measure(policy: str, prometheus: int, nodes: int, clients: int, pods: int, watched: float) -> list[str]:
    """A row of the table."""
    port = 20000 + os.getpid() % 20000
    command = [sys.executable, "-m", "tvwrl", "serve", "--policy", policy, "--listen", f"127.0.0.1:{port}"]
    log = subprocess.DEVNULL
    server = subprocess.Popen([*command, "--prometheus", f"http://127.0.0.1:{prometheus}"], stdout=log, stderr=log)
    try:
        until = time.monotonic() + READY_SECONDS
        while True:
            try:
                probe = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                probe.request("GET", "/readyz")
                if probe.getresponse().status == 200:
                    break
            except OSError:
                pass
            if time.monotonic() > until:
                raise SystemExit(f"{policy} is not ready after {READY_SECONDS} s")
            time.sleep(0.2)
        ask(port, nodes, clients, 100, "warm-up")
        before = processor(server.pid)
        seconds, rate = ask(port, nodes, clients, pods, "new")
        used = 1000 * (processor(server.pid) - before) / pods
        probe = http.client.HTTPConnection("127.0.0.1", port)
        probe.request("GET", "/metrics")
        counted = re.findall(r"tvwrl_fallbacks_total\{.*\} ([\d.]+)", probe.getresponse().read().decode())
        listed = [file.read_text().split() for file in Path(f"/proc/{server.pid}/task").glob("*/children")]
        until, samples = time.monotonic() + watched, []
        while not samples or time.monotonic() < until:
            samples.append((memory(server.pid), sum(memory(int(pid)) for pids in listed for pid in pids)))
            time.sleep(SAMPLED_SECONDS)
        sizes = [*np.median(samples, axis=0), np.sum(samples, axis=1).max()]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    times = [f"{1000 * np.percentile(found, share):.1f}" for found in seconds.values() for share in (50, 99)]
    return [
        policy,
        *times,
        f"{rate:.0f}",
        f"{used:.2f}",
        f"{sum(map(float, counted)):.0f}",
        *(f"{size:.0f}" for size in sizes),
    ]


def main(
    policies: tuple[str, ...] = ("best-fit", "kube-default", "n-sigma", "forecast-fit", "expected-cost"),
    nodes: int = 1000,
    pods_per_node: int = 10,
    clients: int = 4,
    pods: int = 2000,
    watched: float = 35.0,
) -> None:
    """Print the table.

    Args:
        policies: what decides: names, training runs or exported files.
        nodes: of the cluster.
        pods_per_node: that run already.
        clients: that ask at a time.
        pods: that are asked about.
        watched: seconds for which memory is looked at afterwards; metrics are read every 15.
    """
    ours, theirs = multiprocessing.Pipe()
    prometheus = multiprocessing.Process(
        target=made_up_prometheus, args=(nodes, nodes * pods_per_node, theirs), daemon=True
    )
    prometheus.start()
    port = ours.recv()
    head = [
        "policy", "filter p50, ms", "p99", "prioritize p50, ms", "p99", "pods/s", "CPU, ms a pod", "fallbacks", "MiB",
        "reader, MiB", "both at most, MiB",
    ]  # fmt: skip
    print(markdown_table(head, [measure(policy, port, nodes, clients, pods, watched) for policy in policies]))
    prometheus.kill()


if __name__ == "__main__":
    tyro.cli(main)
