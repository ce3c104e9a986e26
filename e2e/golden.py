"""Record what the real scheduler asks and what the extender answers, as tests/serve/golden/*.json.

    python -m e2e.golden [--extender reference]

A few nodes and pods of different kinds; names of nodes and whole nodes (nodeCacheCapable true and false). The files
hold what was sent, byte by byte.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from e2e import load
from e2e.control_plane import Extender
from e2e.kubelets import PODS
from e2e.processes import wait_for
from e2e.record import Exchange, Recorder
from e2e.setting import EXTENDERS, Setting

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "serve" / "golden"
Json = dict[str, Any]
SETTLING = 15.0


def kinds() -> dict[str, Json]:
    """Pods that differ in what a parser has to cope with, by what is special about them."""
    requests = {"cpu": "500m", "memory": "1Gi"}
    several = load.pod("several-containers", None, {"cpu": "250m", "memory": "128Mi"}, owner="web-7d4f9c6b5")
    several["spec"]["containers"] += [
        {"name": "sidecar", "image": "none", "resources": {"requests": {"cpu": "0.1", "memory": "64M"}}},
        {"name": "best-effort", "image": "none"},
    ]
    several["spec"]["initContainers"] = [
        {"name": "first", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1e9"}}}
    ]
    limits = load.pod("limits-only", None, None)
    limits["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2", "memory": "1536Mi"}}
    return {
        "requests": load.pod("requests", None, requests),
        "owner": load.pod("owner", None, requests, owner="web-7d4f9c6b5"),
        "nothing-requested": load.pod("nothing-requested", None, None),
        "several-containers": several,
        "limits-only": limits,
        "two-nodes": load.pod("two-nodes", None, requests, nodeSelector={"disk": "fast"}),
    }


def small_cluster() -> list[Json]:
    """Three nodes of two sizes."""
    return [
        load.node("node-a", 0, {"disk": "fast"}),
        load.node("node-b", 1, {"disk": "fast", "topology.kubernetes.io/zone": "one"}),
        load.node("node-c", 0),
    ]


def record(setting: Setting) -> dict[str, Exchange]:
    """Exchanges by file name, of one pod after the other."""
    found = {}
    setting.plane.schedule(None)
    _fill(setting, {"node-a": 4.0})
    for form, capable in (("names", True), ("nodes", False)):
        recorder = Recorder(setting.extender.port)
        setting.plane.schedule(Extender(url=recorder.url, node_cache_capable=capable, timeout=10))
        for kind, pod in kinds().items():
            recorder.exchanges.clear()
            setting.bound(setting.create([pod]), 30)
            for exchange in recorder.exchanges:
                found[f"{kind}.{exchange.path.strip('/')}.{form}.json"] = exchange
            setting.plane.api.delete(f"{PODS}/{pod['metadata']['name']}")
        recorder.stop()
    if setting.kind == "tvwrl":
        found["bind.json"] = _binding(setting)
        found |= _hold(setting)
    return found


def _fill(setting: Setting, cores: dict[str, float]) -> None:
    """Pods that use so many cores of these nodes, and time for the metrics to show it."""
    where = {node: {"kubernetes.io/hostname": node} for node in cores}
    pods = [
        load.pod(f"resident-{node}-{used:g}", load.Usage(used, load.GIB), None, nodeSelector=where[node])
        for node, used in cores.items()
    ]
    setting.bound(setting.create(pods), 30)
    time.sleep(SETTLING)


def _binding(setting: Setting) -> Exchange:
    """A request to bind."""
    recorder = Recorder(setting.serve_binding().port)
    setting.plane.schedule(Extender(url=recorder.url, bind=True, timeout=10))
    setting.bound(setting.create([kinds()["owner"]]), 30)
    recorder.stop()
    return next(exchange for exchange in recorder.exchanges if exchange.path == "/bind")


def _hold(setting: Setting) -> dict[str, Exchange]:
    """A pod for which no node has room, in both forms."""
    found = {}
    setting.plane.schedule(None)
    _fill(setting, {"node-a": 3.7, "node-b": 15.7, "node-c": 7.7})
    for form, capable in (("names", True), ("nodes", False)):
        recorder = Recorder(setting.extender.port)
        setting.plane.schedule(Extender(url=recorder.url, node_cache_capable=capable, timeout=10))
        setting.create([kinds()["requests"]])
        wait_for("the scheduler asks", lambda recorder=recorder: recorder.exchanges, 30)  # type: ignore[misc]
        found[f"held.filter.{form}.json"] = recorder.exchanges[0]
        setting.plane.api.delete(f"{PODS}/requests")
        recorder.stop()
    return found


def text(exchange: Exchange) -> str:
    """Content of a file: one line per field."""
    kept = {name: exchange.headers[name] for name in ("Content-Type", "User-Agent") if name in exchange.headers}
    fields = {
        "scheduler": json.dumps("kube-scheduler 1.20.2"),
        "path": json.dumps(exchange.path),
        "headers": json.dumps(kept),
        "request": exchange.request.decode().strip(),
        "status": json.dumps(exchange.status),
        "answer": exchange.answer.decode().strip(),
    }
    lines = ",\n".join(f' "{name}": {value}' for name, value in fields.items())
    return f"{{\n{lines}\n}}\n"


def main() -> int:
    """Record, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extender", choices=EXTENDERS, default="tvwrl")
    with Setting(small_cluster(), extender=parser.parse_args().extender) as setting:
        found = record(setting)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name, exchange in found.items():
        (FOLDER / name).write_text(text(exchange))
    print(f"{len(found)} exchanges in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
