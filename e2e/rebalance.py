"""Does the controller of `tvwrl rebalance` evict what it should, and never more, in a real Kubernetes?"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from e2e import load
from e2e.api import ApiError
from e2e.control_plane import REBALANCER
from e2e.kubelets import PODS
from e2e.processes import Process, free_port, wait_for
from e2e.report import Report, share
from e2e.setting import ROOT, Setting

Json = dict[str, Any]
REPLICASETS = "/apis/apps/v1/namespaces/default/replicasets"
BUDGETS = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/tvwrl/leases/tvwrl-rebalance"
GOLDEN = ROOT / "tests" / "rebalance" / "golden"
OWNERS, REPLICAS, EVICTIONS, KILL_AT = 30, 5, 1000, 400
HOUR = {
    "hourly": EVICTIONS,
    "hourly_per_node": 40,
    "hourly_per_namespace": 10_000,
    "hourly_per_owner": 60,
    "on_their_way": 20,
}
IDLE = load.Usage(0.05, load.GIB / 16)
RIGHTS = ("rebalance", "rebalance-evicts")  # components of deploy/


@dataclass(frozen=True)
class Evicted:
    """An eviction that the API server granted, by its audit log."""

    pod: str
    time: float


class Rebalancing:
    """The controller manager, and controllers under test."""

    def __init__(self, setting: Setting):
        self.setting, self.api, self.folder = setting, setting.plane.api, setting.folder
        self.manager = setting.plane.manage()
        self.token = setting.folder / "kubeconfig-rebalancer"
        config = json.loads(setting.plane.kubeconfig().read_text())
        config["users"][0]["user"]["token"] = REBALANCER
        self.token.write_text(json.dumps(config))
        self._running: list[Process] = []
        self._listen: dict[int, str] = {}
        self._count = 0

    def stop(self) -> None:
        """End everything."""
        for one in self._running:
            one.stop()
        self.clear()
        self.manager.stop()

    def clear(self) -> None:
        """No owners, no pods, no budgets, nothing remembered."""
        for one in self.api.get(REPLICASETS)["items"]:
            self.api.delete(f"{REPLICASETS}/{one['metadata']['name']}")
        for one in self.api.get(BUDGETS)["items"]:
            self.api.delete(f"{BUDGETS}/{one['metadata']['name']}")
        self.api.delete(LEASE)
        self.setting.kubelets.start_pods = True
        wait_for("no pod is left", self._empty, 60)

    def _empty(self) -> bool:
        self.api.delete(PODS)
        return not self.setting.kubelets.alive()

    def owner(
        self, name: str, replicas: int, cpu: str = "100m", usage: load.Usage = IDLE, memory: str = "64Mi", **more: Any
    ) -> list[str]:
        """A ReplicaSet; namespace/name of its pods, once they run. `more`: annotations, and fields of their spec."""
        annotations = more.pop("annotations", {})
        pod = load.pod(name, usage, {"cpu": cpu, "memory": memory}, **more)
        template = {
            "metadata": {"labels": {"app": name}, "annotations": pod["metadata"]["annotations"] | annotations},
            "spec": pod["spec"],
        }
        self.api.create(
            REPLICASETS,
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": name},
                "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
            },
        )
        wait_for(f"{name} runs", lambda: len(self.ready(name)) == replicas, 60)
        return [f"default/{pod['metadata']['name']}" for pod in self.ready(name)]

    def ready(self, name: str) -> list[Json]:
        """Ready pods of an owner."""
        found = self.api.get(f"{PODS}?labelSelector=app%3D{name}")["items"]
        return [
            pod
            for pod in found
            if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
        ]

    def protect(self, name: str, least: int, budget: str = "") -> None:
        """A PodDisruptionBudget, once the controller manager has looked at it."""
        budget = budget or name
        body = {
            "apiVersion": "policy/v1beta1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": budget},
            "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": name}}},
        }
        self.api.create(BUDGETS, body)
        wait_for(
            f"{budget} is counted",
            lambda: self.api.get(f"{BUDGETS}/{budget}").get("status", {}).get("currentHealthy", 0) > 0,
            60,
        )

    def start(self, record: str, *, extender: bool = True, **content: Any) -> Process:
        """A controller; `record`: the name of its file."""
        self._count += 1
        file = self.folder / f"rebalancer-{self._count}.json"
        watch = {
            "every": 0.02,
            "dry_run": False,
            "record_of_moves": str(self.folder / record),
            "listen": f"127.0.0.1:{free_port()}",
        }
        full = {
            "api": {"kubeconfig": str(self.token)},
            "budgets": HOUR,
            "execution": {"retry_seconds": 1.0, "eviction_tries": 3, "replacement_timeout": 60.0},
            "extender": {"extender": self.setting.extender.url} if extender else {},
            **content,
        }
        full["watch"] = watch | content.get("watch", {})
        file.write_text(json.dumps(full))
        command: list[str | Path] = [sys.executable, "-m", "e2e.rebalancer", file]
        process = Process(f"rebalancer-{self._count}", command, self.folder, {"OMP_NUM_THREADS": "1"})
        self._running.append(process)
        self._listen[process.pid] = full["watch"]["listen"]
        return process

    def metrics(self, process: Process) -> str:
        """What a controller shows to Prometheus."""
        with urlopen(f"http://{self._listen[process.pid]}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    def lines(self, record: str, *events: str) -> list[Json]:
        """Lines of a record, of these events only."""
        file = self.folder / record
        text = file.read_text().splitlines() if file.exists() else []
        return [line for line in map(json.loads, text) if not events or line["event"] in events]

    def until(self, record: str, event: str, count: int = 1, seconds: float = 60) -> None:
        """Wait for lines of a record."""
        wait_for(f"{record}: {count} x {event}", lambda: len(self.lines(record, event)) >= count, seconds)

    def evicted(self) -> list[Evicted]:
        """All evictions that the API server granted, in order."""
        found = []
        for text in self.setting.plane.audit.read_text().splitlines():
            try:
                event = json.loads(text)
                if event["objectRef"]["subresource"] == "eviction" and event["responseStatus"]["code"] == 201:
                    at = datetime.fromisoformat(event["stageTimestamp"]).timestamp()
                    found.append(Evicted(event["objectRef"]["name"], at))
            except (ValueError, KeyError):
                continue
        return found


def run(setting: Setting, report: Report) -> None:
    """All questions, one after another in an empty cluster."""
    give_rights(setting)
    world = Rebalancing(setting)
    try:
        for part in (_golden, _refused, _vanishes, _killed, _two_budgets_of_time, _dry_is_real, _thousand):
            world.clear()
            part(world, report)
    finally:
        world.stop()


def give_rights(setting: Setting) -> None:
    """Give the user of the controller what deploy/ gives its service account, and nothing else."""
    import yaml

    api = setting.plane.api
    _create(api, "/api/v1/namespaces", {"metadata": {"name": "tvwrl"}})
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    for component in RIGHTS:
        for one in yaml.safe_load_all((ROOT / "deploy" / component / "rights.yaml").read_text()):
            kind, namespace = one["kind"], one["metadata"].get("namespace")
            if kind != "ServiceAccount":
                within = f"/namespaces/{namespace}" if namespace else ""
                _create(api, f"{rbac}{within}/{kind.lower()}s", one)


def _create(api: Any, path: str, body: Json) -> None:
    try:
        api.create(path, body)
    except ApiError as error:
        if error.status != 409:
            raise


def _golden(world: Rebalancing, report: Report) -> None:
    """What the real server says to evictions of every kind, kept for tests without one."""
    pods = world.owner("protected", 2)
    world.protect("protected", 2)
    twice = world.owner("twice", 1)
    world.protect("twice", 0, "first")
    world.protect("twice", 0, "second")
    free = world.owner("free", 1)
    uid = world.ready("free")[0]["metadata"]["uid"]
    version = world.api.get("/version")["gitVersion"]
    found: dict[str, Json] = {}
    for name, pod, precondition in (
        ("refused", pods[0], None), ("two-budgets", twice[0], None), ("not-found", "default/nobody", None),
        ("another-uid", free[0], "another"), ("evicted", free[0], uid),
    ):  # fmt: skip
        pod = pod.partition("/")[2]
        body: Json = {
            "apiVersion": "policy/v1beta1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": "default"},
        }
        if precondition:
            body["deleteOptions"] = {"preconditions": {"uid": precondition}}
        status, headers, answer = world.api.raw("POST", f"{PODS}/{pod}/eviction", body)
        found[name] = {"server": version, "status": status, "headers": headers, "answer": answer}
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, one in found.items():
        file = GOLDEN / f"{name}.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        if any(known.get(key) != one[key] for key in ("server", "status", "headers")):  # names differ each time
            file.write_text(json.dumps(one, indent=1) + "\n")
    expected = {"refused": 429, "two-budgets": 500, "not-found": 404, "another-uid": 409, "evicted": 201}
    statuses = {name: one["status"] for name, one in found.items()}
    report.check(f"rebalance: what {version} says to evictions", statuses == expected, json.dumps(statuses))


def _refused(world: Rebalancing, report: Report) -> None:
    """A PodDisruptionBudget allows nothing, then one at a time."""
    pods = world.owner("web", 3)
    world.protect("web", 3)
    before = len(world.evicted())
    targets = [[pod, f"node-{i:03d}", 0] for i, pod in enumerate(pods, 100)]
    one = world.start("refused.jsonl", moves=targets)
    world.until("refused.jsonl", "refused", 3)
    tries = len(world.lines("refused.jsonl", "disruption_budget"))
    report.check(
        "rebalance: a PodDisruptionBudget that allows nothing",
        len(world.evicted()) == before,
        f"0 evicted, {tries} tries",
    )
    world.setting.kubelets.start_pods = False
    world.api.merge(f"{BUDGETS}/web", {"spec": {"minAvailable": 2}})
    world.until("refused.jsonl", "evicted")
    time.sleep(5)  # while the replacement is not ready, no other may go
    alone = len(world.evicted()) - before
    world.setting.kubelets.start_pods = True
    for pod in world.api.get(f"{PODS}?labelSelector=app%3Dweb")["items"]:  # the kubelets look at what changes
        world.api.merge(f"{PODS}/{pod['metadata']['name']}", {"metadata": {"labels": {"seen": "again"}}})
    world.until("refused.jsonl", "replaced", 3)
    one.stop()
    where = {pod["spec"]["nodeName"] for pod in world.ready("web")}
    count = len(world.evicted()) - before
    held = alone == 1 and count == 3 and where == {target for _, target, _ in targets}
    report.check(
        "rebalance: one that allows one at a time", held, f"{alone} evicted while one was down, {count} in all"
    )


def _vanishes(world: Rebalancing, report: Report) -> None:
    """The target of a move vanishes before its pod is evicted, and while the replacement has no node yet."""
    first, second = world.owner("gone-a", 1)[0], world.owner("gone-b", 1)[0]
    before = len(world.evicted())
    world.setting.plane.pause()
    one = world.start("vanishes.jsonl", moves=[[first, "node-150", 0], [second, "node-151", 1]])
    world.until("vanishes.jsonl", "evicted")
    for node in ("node-150", "node-151"):
        world.setting.remove_node(node)
    world.setting.schedule()
    world.until("vanishes.jsonl", "replaced")
    world.until("vanishes.jsonl", "refused")
    one.stop()
    (replaced,) = world.lines("vanishes.jsonl", "replaced")
    refused = world.lines("vanishes.jsonl", "refused")[0]
    held = replaced["outcome"] == "elsewhere" and refused["pod"] == second and len(world.evicted()) - before == 1
    figure = f"replacement {replaced['outcome']}; the next: {refused['reason']}"
    report.check("rebalance: target nodes vanish", held, figure)


def _killed(world: Rebalancing, report: Report) -> None:
    """Killed between eviction and replacement; the next one has the record, or only the Lease."""
    for disk in (True, False):
        world.clear()
        pods = [world.owner(f"killed-{i}", 1)[0] for i in range(3)]
        before = len(world.evicted())
        world.setting.plane.pause()
        moves = [[pod, f"node-{120 + i}", i] for i, pod in enumerate(pods)]
        budgets = HOUR | {"hourly": 2}
        name, other = f"killed-{disk}.jsonl", f"killed-{disk}{'' if disk else '-another'}.jsonl"
        one = world.start(name, moves=moves, budgets=budgets)
        world.until(name, "evicted")
        one.kill()
        two = world.start(other, moves=moves, budgets=budgets)
        time.sleep(20)  # until the Lease has run out, and it could have evicted another
        alone = len(world.evicted()) - before
        world.setting.schedule()
        world.until(other, "replaced", 2)
        time.sleep(5)
        two.stop()
        lines = world.lines(other, "replaced")
        count = len(world.evicted()) - before
        held = alone == 1 and count == 2 and lines[0]["pod"] == pods[0]
        what = "with its record" if disk else "with the Lease alone"
        figure = f"waited for {lines[0]['pod']} first; {count} evictions of a budget of 2"
        report.check(f"rebalance: killed before the replacement, {what}", held, figure)


def _two_budgets_of_time(world: Rebalancing, report: Report) -> None:
    """A plan from yesterday, and a budget of an hour that is spent."""
    pods = world.owner("old", 2)
    before = len(world.evicted())
    one = world.start("old.jsonl", moves=[[pod, "node-130", 0] for pod in pods], age=86_400.0)
    world.until("old.jsonl", "stopped")
    one.stop()
    reason = world.lines("old.jsonl", "stopped")[0]["reason"]
    report.check("rebalance: a plan from yesterday", len(world.evicted()) == before, reason)


def _dry_is_real(world: Rebalancing, report: Report) -> None:
    """What a dry run says, against what is evicted then."""
    for i in range(8):
        world.owner(f"dry-{i}", 3)
    world.protect("dry-0", 3)
    world.protect("dry-1", 2)
    pods = sorted(f"default/{pod['metadata']['name']}" for i in range(8) for pod in world.ready(f"dry-{i}"))
    moves = [[pod, f"node-{160 + i % 7}", i // 5] for i, pod in enumerate(pods)]
    budgets = HOUR | {"hourly": 15, "hourly_per_owner": 2}
    before = len(world.evicted())
    dry = world.start("dry.jsonl", extender=False, moves=moves, budgets=budgets, watch={"dry_run": True})
    world.until("dry.jsonl", "refused")
    wait_for("a whole rehearsal", lambda: len(world.lines("dry.jsonl", "planned")) > len(moves), 60)
    dry.stop()
    unchanged = len(world.evicted()) == before
    said = [line["uid"] for line in world.lines("dry.jsonl", "evicted")]
    said = list(dict.fromkeys(said))
    real = world.start("real.jsonl", moves=moves, budgets=budgets)
    world.until("real.jsonl", "replaced", len(said), 120)
    time.sleep(3)
    real.stop()
    done = [line["uid"] for line in world.lines("real.jsonl", "evicted")]
    held = unchanged and said == done and len(world.evicted()) - before == len(done)
    report.check(
        "rebalance: the rehearsal names what is evicted", held, f"{len(said)} named, {len(done)} evicted, in this order"
    )


def _thousand(world: Rebalancing, report: Report) -> None:
    """A thousand evictions by two controllers, one of which is killed; never beyond a budget, never back."""
    for i in range(OWNERS):
        world.owner(f"many-{i:02d}", REPLICAS)
    for i in range(0, OWNERS, 3):
        world.protect(f"many-{i:02d}", REPLICAS - 1)
    report.say(f"{EVICTIONS} evictions of {OWNERS * REPLICAS} pods, two controllers")
    before, begin = len(world.evicted()), time.monotonic()
    execution = {"retry_seconds": 0.5, "eviction_tries": 2, "replacement_timeout": 60.0, "batches_without_help": 1000}
    content: Json = {"random": 100, "execution": execution}
    names = ("many-0.jsonl", "many-1.jsonl", "many-2.jsonl")
    controllers = [world.start(name, **content, seed=i) for i, name in enumerate(names[:2])]

    def count() -> int:
        return len(world.evicted()) - before

    wait_for(f"{KILL_AT} evictions", lambda: count() >= KILL_AT, 900, every=1.0)
    leader = max(controllers, key=lambda one: len(world.lines(names[controllers.index(one)])))
    leader.kill()
    controllers.append(world.start(names[2], **content, seed=2))
    wait_for(f"{EVICTIONS} evictions", lambda: count() >= EVICTIONS, 900, every=1.0)
    time.sleep(20)  # more would come now, if any did
    alive = [world.metrics(one) for one in controllers if one.running]
    leading = [text for text in alive if "tvwrl_rebalance_leads 1.0" in text]
    shown = leading[0] if len(leading) == 1 else ""
    for one in controllers:
        one.stop()
    _judge(
        world, report, before, time.monotonic() - begin, [line for name in names for line in world.lines(name)], shown
    )


def _judge(world: Rebalancing, report: Report, before: int, took: float, lines: list[Json], shown: str) -> None:
    evictions = world.evicted()[before:]
    lives = {life.name: life for life in world.setting.kubelets.lives.values()}
    spent: Counter[str] = Counter()
    for one in evictions:
        owner = one.pod.rpartition("-")[0]
        spent.update(["all", f"node {lives[one.pod].node}", f"owner {owner}"])
    most = {"all": HOUR["hourly"], "node": HOUR["hourly_per_node"], "owner": HOUR["hourly_per_owner"]}
    beyond = {key: count for key, count in spent.items() if count > most[key.partition(" ")[0]]}
    report.check(
        "rebalance: evictions beyond a budget",
        not beyond and len(evictions) == EVICTIONS,
        f"{len(beyond)} of {len(evictions)} in {took:.0f} s; most of a node "
        f"{max(n for key, n in spent.items() if key.startswith('node'))}, of an owner "
        f"{max(n for key, n in spent.items() if key.startswith('owner'))}",
    )
    back, refused = returns(lives, evictions), sum(line.get("reason", "").startswith("no return") for line in lines)
    report.check(
        "rebalance: replacements on a node that their owner had left",
        not back,
        f"{len(back)}; {refused} such moves refused",
    )
    # A successor may see a replacement again that the one that was killed has seen.
    outcomes = Counter({line["uid"]: line["outcome"] for line in lines if line["event"] == "replaced"}.values())
    total = sum(outcomes.values())
    figure = f"{share(outcomes['as_planned'], total)}; {json.dumps(outcomes)}"
    report.check("rebalance: replacements where planned", outcomes["as_planned"] >= 0.99 * total, figure)
    told = sum(
        one["involvedObject"]["name"] in {eviction.pod for eviction in evictions}
        for one in world.api.get("/api/v1/namespaces/default/events?fieldSelector=reason%3DRebalanced")["items"]
    )
    report.check("rebalance: evictions with an event", told >= len(evictions) - 1, share(told, len(evictions)))
    report.check(
        "rebalance: one leads, and its metrics say that the budget is spent",
        "tvwrl_rebalance_budget_left 0.0" in shown,
        "0 left",
    )


def returns(lives: dict[str, Any], evictions: list[Evicted]) -> list[str]:
    """Pods that were made since a pod of their owner was evicted from a node, and bound to that node."""
    left: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for one in evictions:
        left[one.pod.rpartition("-")[0]].append((one.time, lives[one.pod].node))
    return [
        name
        for name, life in lives.items()
        for at, node in left.get(name.rpartition("-")[0], ())
        if node == life.node and at <= life.created + 0.05
    ]
