"""Nodes are full by what pods use, not by what they request: do newcomers wait, with a reason, and go on later?"""

from __future__ import annotations

import time

from e2e import load
from e2e.judging import check_decided
from e2e.kubelets import PODS, Life
from e2e.report import Report, share
from e2e.setting import Setting

OPEN = 3
"""nodes that stay open"""
HELD = 5
"""pods that find no room"""
QUIET_SECONDS = 8.0
PATIENCE = 150.0
"""seconds within which held pods are bound once there is room: Kubernetes asks again after at most 90"""


def run(setting: Setting, report: Report) -> None:
    """Fill three nodes, let five pods wait, make room."""
    report.say(f"{OPEN} nodes full of load, {HELD} pods that request little")
    names = sorted(setting.node_objects)
    setting.cordon(names[OPEN:])
    hot = []
    for name in names[:OPEN]:
        cores = float(setting.node_objects[name]["status"]["allocatable"]["cpu"])
        where = {"kubernetes.io/hostname": name}
        hot.append(load.pod(f"hot-{name}", load.Usage(0.97 * cores, load.GIB), {"cpu": "100m"}, nodeSelector=where))
    setting.schedule(None)  # whether the policy would fill them is not the question
    setting.bound(setting.create(hot), 30)
    setting.schedule()
    setting.settle()
    time.sleep(12)  # until usage over the whole window is that of the hot pods
    since = setting.extender.position()
    waiting = [load.pod(f"held-{i}", load.Usage(0.5, load.GIB), {"cpu": "1"}, owner="held") for i in range(HELD)]
    uids = setting.create(waiting)
    time.sleep(QUIET_SECONDS)
    bound = setting.kubelets.wait_bound(uids, 0)
    report.check("hold: pods kept waiting", not bound, share(HELD - len(bound), HELD))
    _check_reasons(setting, report, uids, since)
    begin = time.monotonic()
    for pod in hot:
        setting.plane.api.delete(f"{PODS}/{pod['metadata']['name']}")
    bound = setting.kubelets.wait_bound(uids, PATIENCE)
    took = time.monotonic() - begin
    report.check("hold: bound once there is room", len(bound) == HELD, f"{share(len(bound), HELD)}, after {took:.0f} s")
    check_decided(report, "hold", bound, setting.extender.decisions(since))
    setting.cordon(names[OPEN:], shut=False)


def _check_reasons(setting: Setting, report: Report, uids: list[str], since: int) -> None:
    """The log says that the policy held them, and the pod and its event say why."""
    lives = [setting.kubelets.lives[uid] for uid in uids]
    decisions = setting.extender.decisions(since)
    held = [
        events for life in lives if (events := decisions.get(f"default/{life.name}")) and events[-1].get("node") is None
    ]
    report.check("hold: decided by the policy", len(held) == HELD, share(len(held), HELD))
    reasons = {events[-1]["reason"] for events in held}
    shown = [life for life in lives if any(reason in _condition(life) for reason in reasons)]
    report.check(
        "hold: the reason is in the pod's condition",
        len(shown) == HELD,
        f"{share(len(shown), HELD)}: {_condition(lives[0])}",
    )
    events = setting.plane.api.get("/api/v1/namespaces/default/events?fieldSelector=reason%3DFailedScheduling")["items"]
    told = {e["involvedObject"]["uid"] for e in events if any(reason in e.get("message", "") for reason in reasons)}
    report.check("hold: the reason is in an event", told >= set(uids), share(len(told & set(uids)), HELD))


def _condition(life: Life) -> str:
    """Why the pod is not scheduled, as its status says."""
    conditions = life.pod["status"].get("conditions", ())
    return next((str(c.get("message", "")) for c in conditions if c["type"] == "PodScheduled"), "")
