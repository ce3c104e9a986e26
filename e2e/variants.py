"""The herd, a restarted extender against one that never stopped, whole nodes, shadow mode, and binding itself."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any
from urllib.request import Request, urlopen

from e2e import load
from e2e.extender import Running
from e2e.judging import check_decided, check_once
from e2e.processes import wait_for
from e2e.report import Report, share
from e2e.setting import Setting

HERD, BATCH, RESIDENTS, PROBES = 50, 20, 60, 20
CORES = 2.0
"""that a pod of the herd uses, twenty times its request"""


def herd(setting: Setting, report: Report) -> None:
    """Fifty replicas at once, none of which shows up in the metrics before all are placed."""
    report.say(f"{HERD} pods at once")
    usage, requests = load.Usage(CORES, load.GIB), {"cpu": "100m", "memory": "128Mi"}
    first = [load.pod(f"herd-first-{i}", usage, requests, owner="herd") for i in range(2)]
    setting.bound(setting.create(first), 30)
    setting.settle()
    time.sleep(12)  # until the window is full of what they use
    since = setting.extender.position()
    rest = [load.pod(f"herd-{i}", usage, requests, owner="herd") for i in range(HERD)]
    lives = setting.bound(setting.create(rest), 30)
    check_decided(report, "herd", lives, setting.extender.decisions(since))
    counts = Counter(life.node for life in setting.kubelets.alive() if life.name.startswith("herd"))
    room = {name: float(node["status"]["allocatable"]["cpu"]) for name, node in setting.node_objects.items()}
    over = [node for node, count in counts.items() if node and count * CORES > room[node]]
    figure = f"on {len(counts)} nodes, at most {max(counts.values())} on one; {len(over)} nodes over their capacity"
    report.check("herd: spread by what they will use", not over and len(counts) > 1, figure)


def rebuilt(setting: Setting, report: Report) -> None:
    """An extender that has just started answers like one that was there all the time."""
    report.say("one that was there all the time against one that has just started")
    steady = [load.Usage(cores, cores * load.GIB) for cores in (0.3, 0.7, 1.1, 1.9, 3.1)]
    pods = [load.pod(f"steady-{i}", steady[i % 5], {"cpu": "1"}, owner=f"steady-{i % 5}") for i in range(RESIDENTS)]
    setting.bound(setting.create(pods), 30)
    setting.settle()
    time.sleep(12)  # until usage over the whole window is steady
    fresh = setting.serve(name="extender-fresh")
    setting.closing(fresh)
    took = fresh.start()
    report.measure("a fresh extender: seconds to be ready", f"{took:.1f}")
    time.sleep(5)
    equal = 0
    names = sorted(setting.node_objects)
    for i in range(PROBES):
        pod = load.pod(f"probe-{i}", None, {"cpu": "1", "memory": "1Gi"}, owner="probe")
        pod["metadata"] |= {"namespace": "default", "uid": f"probe-{i}"}
        answers = [
            _best(extender, {"Pod": pod, "Nodes": None, "NodeNames": names}) for extender in (setting.extender, fresh)
        ]
        equal += answers[0] == answers[1]
    fresh.stop()
    setting.extender.stop()  # it believes that the probes are on their nodes
    setting.extender.start()
    report.check(
        "restart: the state is rebuilt from Prometheus", equal == PROBES, f"{share(equal, PROBES)} decisions the same"
    )


def _best(extender: Running, arguments: dict[str, Any]) -> str | None:
    """Node with the best score among those that pass."""
    passed = _post(extender.url + "/filter", arguments)["NodeNames"]
    if not passed:
        return None
    scores = _post(extender.url + "/prioritize", {**arguments, "NodeNames": passed})
    return str(max(scores, key=lambda score: score["Score"])["Host"])


def _post(url: str, body: dict[str, Any]) -> Any:
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=10) as answer:
        return json.load(answer)


def whole_nodes(setting: Setting, report: Report) -> None:
    """nodeCacheCapable false: the scheduler sends Node objects."""
    report.say("nodeCacheCapable false")
    setting.schedule(node_cache_capable=False)
    since = setting.extender.position()
    uids = setting.create(load.population(BATCH, seed=2, prefix="whole"))
    lives = setting.bound(uids, 60)
    check_decided(report, "nodeCacheCapable false", lives, setting.extender.decisions(since))


def shadow(setting: Setting, report: Report) -> None:
    """--shadow: the scheduler goes its own way, and the record says what both did."""
    report.say("shadow mode")
    file = setting.folder / "decisions.jsonl"
    watching = setting.serve("--shadow", "--record", str(file), name="extender-shadow")
    setting.closing(watching)
    watching.start()
    setting.schedule(watching)
    lives = setting.bound(setting.create(load.population(BATCH, seed=5, prefix="shadow")), 60)
    names = {f"default/{life.name}": life.node for life in lives}

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in file.read_text().splitlines()]

    wait_for("the record has all pods", lambda: sum("placed" in line for line in lines()) >= BATCH, 30)
    decided = {line["pod"] for line in lines() if "placed" not in line and line["node"]}
    placed = {line["pod"]: line["placed"] for line in lines() if "placed" in line}
    other = sum(
        life.node != event[-1]["node"] for life in lives for event in [watching.decisions()[f"default/{life.name}"]]
    )
    figure = f"{share(len(decided), BATCH)} decisions recorded, {other} pods went elsewhere"
    report.check("shadow: decisions recorded", decided == set(names), figure)
    true = sum(placed.get(name) == node for name, node in names.items())
    report.check("shadow: recorded where pods ran", true == BATCH, share(true, BATCH))


def binding(setting: Setting, report: Report) -> None:
    """The extender binds the pods itself, and is killed while it does."""
    report.say("bindVerb: the extender binds")
    binder = setting.serve_binding()
    setting.schedule(binder, bind=True)
    uids = setting.create(load.population(BATCH, seed=3, prefix="bind"))
    lives = setting.bound(uids, 60)
    check_decided(report, "bindVerb", lives, binder.decisions())
    more = setting.create(load.population(5 * BATCH, seed=4, prefix="bind-killed"))
    binder.kill()
    binder.start()
    setting.kubelets.wait_bound(more, 120)
    check_once(report, "bindVerb, extender killed", uids + more, setting.kubelets.lives, setting.plane.audit)
    binder.stop()
