"""Does the command `tvwrl rebalance` plan, and act, as its plans say: from days in Prometheus and a real Kubernetes?"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e import load
from e2e.kubelets import PODS
from e2e.monitoring import Monitoring
from e2e.processes import Process, free_port, wait_for
from e2e.rebalance import BUDGETS, LEASE, REPLICASETS, Rebalancing, give_rights, returns
from e2e.report import Report, share
from e2e.setting import NODES, ROOT, Setting

Json = dict[str, Any]
DAY, HOUR, STEP = 86400, 3600, 150  # seconds; two samples for each interval of 300
DAYS = 7
USED = 16  # nodes; the others are closed
OWNERS = 18
KINDS = (("500m", 0.5), ("1", 1.0), ("1500m", 1.5))  # request of CPU, and cores
MOVES = 12  # of a plan: enough for two nodes or more
LARGE = ("--hourly", "500", "--hourly-per-node", "100", "--hourly-per-namespace", "500", "--hourly-per-owner", "100")
ALONE = 2  # evictions that are wasted at most where nothing leads replacements to their targets
QUIET_TURNS = 5  # without an eviction, after which nothing more is left to do
ROUNDS = 6  # within which that has to be so
BEFORE_THE_HOUR = 240  # seconds: what was read is another after it
LISTS = (
    NODES, PODS, REPLICASETS, BUDGETS, "/api/v1/events", "/api/v1/namespaces",
    "/apis/coordination.k8s.io/v1/leases",
)  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """A plan.json as a reader of it sees it, by no code of tvwrl."""

    content: Json

    @property
    def pods(self) -> list[str]:
        """namespace/name, in order."""
        return [move["pod"] for move in self.content["moves"]]

    @property
    def moves(self) -> list[tuple[str, str, str]]:
        """Pod, source and target, in order."""
        return [(move["pod"], move["source"], move["target"]) for move in self.content["moves"]]


class Cluster:
    """Nodes with pods that have run for days; how the command is called."""

    def __init__(self, setting: Setting, world: Rebalancing):
        self.setting, self.world, self.api = setting, world, setting.plane.api
        self.nodes = sorted(setting.node_objects)[:USED]
        self.fixed: set[str] = set()
        self._count = 0
        self.monitoring: Monitoring | None = None

    def build(self) -> None:
        """Owners with daily courses of their own, spread over the nodes as kube-scheduler likes it, and pods that must
        stay."""
        self.setting.cordon(sorted(self.setting.node_objects)[USED:])
        self.setting.schedule(None)
        draw = random.Random(0)
        for i in range(OWNERS):
            cpu, cores = draw.choice(KINDS)
            usage = load.Usage(
                0.5 * cores, draw.uniform(0.3, 1.2) * load.GIB, draw.uniform(0.2, 0.8), DAY, draw.random()
            )
            self.world.owner(f"app-{i:02d}", draw.choice((3, 4, 5)), cpu, usage, "1500Mi")
        self.world.protect("app-00", 100)  # allows none
        self.world.protect("app-01", 2)
        self.fixed |= {self.name(pod) for pod in self.world.ready("app-00")}
        usage = load.Usage(0.2, load.GIB / 4, 0.5, DAY)
        for name, more in {
            "marked": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
            "local": {"volumes": [{"name": "data", "emptyDir": {}}]},
        }.items():
            self.fixed |= set(self.world.owner(name, 1, "250m", usage, "256Mi", **more))
        alone = load.pod("alone", usage, {"cpu": "250m", "memory": "256Mi"})
        self.setting.bound(self.setting.create([alone]), 30)
        self.fixed.add("default/alone")
        self.setting.schedule()
        self.setting.settle()

    def remember(self) -> None:
        """A new Prometheus, which knows the pods that run now as if they had run on their nodes for days."""
        self.forget()
        self._count += 1
        folder = self.setting.folder / f"history-{self._count}"
        folder.mkdir()
        until = int(time.time())
        until -= until % STEP
        nodes = [self.setting.node_objects[name] for name in self.nodes]
        self.monitoring = Monitoring(self.setting.exporter.port, folder)
        self.monitoring.remember(self.setting.exporter.history(nodes, until - DAYS * DAY - HOUR, until, STEP))
        self.monitoring.start()
        query = "count(max_over_time(kube_pod_info[30s]))"
        wait_for("Prometheus scrapes", lambda: self.monitoring and self.monitoring.value(query) > 0, 60)

    def forget(self) -> None:
        """No Prometheus."""
        if self.monitoring:
            self.monitoring.stop()

    def arguments(self, *options: str, url: str | None = None) -> list[str]:
        """`tvwrl rebalance`, with the rights of `deploy/`."""
        assert self.monitoring is not None
        where = ["--prometheus", url or self.monitoring.url, "--kubeconfig", str(self.world.token)]
        return [sys.executable, "-m", "tvwrl", "rebalance", *where, *options]

    def surroundings(self) -> dict[str, str]:
        """What is read goes where the test's files are."""
        return {"OMP_NUM_THREADS": "1", "TVWRL_DATA": str(self.setting.folder / "data")}

    def call(self, *options: str, seconds: float = 300) -> tuple[int, str]:
        """Its exit code and all it says, once it has ended."""
        done = subprocess.run(
            self.arguments(*options), cwd=self.setting.folder, env=os.environ | self.surroundings(), timeout=seconds,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        with (self.setting.folder / "rebalance.log").open("a") as log:
            log.write(f"{options}\n{done.stdout}\n")
        return done.returncode, done.stdout

    def planned(self, name: str, *options: str) -> Planned:
        """The plan of a dry run, in the folder `name`."""
        out = self.setting.folder / name
        code, said = self.call("--most-moves", str(MOVES), "--out", str(out), *options)
        if code:
            raise OSError(f"tvwrl rebalance ended with {code}: {said[-500:]}")
        return Planned(json.loads((out / "plan.json").read_text()))

    def seen(self) -> Json:
        """Everything that could have been changed."""
        return {
            f"{path}/{one['metadata'].get('namespace', '')}/{one['metadata']['name']}": one
            for path in LISTS
            for one in self.api.get(path)["items"]
        }

    def where(self) -> dict[str, str]:
        """Node of each pod."""
        return {self.name(pod): pod["spec"].get("nodeName", "") for pod in self.api.get(PODS)["items"]}

    def in_use(self) -> set[str]:
        """Nodes with pods."""
        return set(self.where().values())

    def uncounted(self) -> None:
        """Nothing was evicted before."""
        self.api.delete(LEASE)
        (self.setting.folder / "moves.jsonl").unlink(missing_ok=True)

    @staticmethod
    def name(pod: Json) -> str:
        """namespace/name."""
        return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def run(setting: Setting, report: Report) -> None:
    """All questions, one after another in one cluster."""
    give_rights(setting)
    world = Rebalancing(setting)
    cluster = Cluster(setting, world)
    try:
        world.clear()
        cluster.build()
        begin = time.monotonic()
        cluster.remember()
        report.measure("plans: Prometheus has a past", f"{DAYS} days in {time.monotonic() - begin:.0f} s")
        plan = _dry(cluster, report)
        _refused(cluster, report, plan)
        _watched(cluster, report, plan)
        _executed(cluster, report, plan)
        _at_once(cluster, report)
        _alone(cluster, report)
        _converges(cluster, report)
    finally:
        cluster.forget()
        world.stop()


def _extended(cluster: Cluster) -> tuple[str, ...]:
    return ("--extender", cluster.setting.extender.url, *LARGE)


def within_the_hour() -> None:
    """Wait until so much is left of the hour that what is read stays the same."""
    left = HOUR - time.time() % HOUR
    if left < BEFORE_THE_HOUR:
        time.sleep(left + 5)


def _dry(cluster: Cluster, report: Report) -> Planned:
    """A dry run changes nothing, and plans to move what may move."""
    within_the_hour()
    before, begin = cluster.seen(), time.monotonic()
    plan = cluster.planned("dry")
    took = time.monotonic() - begin
    after, places = cluster.seen(), cluster.where()
    changed = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    report.check(
        "plans: a dry run changes nothing",
        not changed,
        f"{len(changed)} of {len(before)} objects; {took:.0f} s, with {DAYS} days read",
    )
    wrong = [pod for pod, source, _ in plan.moves if places.get(pod) != source or pod in cluster.fixed]
    targets = {target for _, _, target in plan.moves}
    report.check(
        "plans: only pods move that may, between open nodes",
        bool(plan.moves) and not wrong and targets <= set(cluster.nodes),
        f"{len(plan.moves)} of {len(places)} pods, {len(plan.content['drained'])} nodes emptied; "
        f"{len(cluster.fixed)} must stay",
    )
    report.measure("plans: what stays, and why", json.dumps(plan.content["stays"]))
    return plan


def _refused(cluster: Cluster, report: Report, plan: Planned) -> None:
    """A plan of yesterday, and usage that is old or cannot be read."""
    file = cluster.setting.folder / "yesterday.json"
    file.write_text(json.dumps(plan.content | {"made": plan.content["made"] - DAY}))
    _nothing(cluster, report, "a plan of yesterday", "min old", "--execute", str(file))
    assert cluster.monitoring is not None
    ready = str(cluster.setting.folder / "dry" / "plan.json")
    admin = ("--kubeconfig", str(cluster.setting.plane.kubeconfig()), "--lease-namespace", "nowhere")
    _nothing(cluster, report, "a namespace that is not there", "lease_namespace is nowhere", "--execute", ready, *admin)
    cluster.setting.exporter.silent = True
    time.sleep(8)
    _nothing(cluster, report, "usage of some seconds ago", "newest usage", "--execute", ready, "--stale-seconds", "5")
    cluster.setting.exporter.silent = False
    cluster.monitoring.stop()
    _nothing(cluster, report, "no Prometheus, a plan ready", "", "--execute", ready)
    _nothing(cluster, report, "no Prometheus, none ready", "", "--retries", "1")
    before, name = len(cluster.world.evicted()), "watch-blind"
    with _watching(cluster, name, "--no-dry-run", "--retries", "0", *_extended(cluster)):
        wait_for("two turns", lambda: len(logged(cluster, name, "turn failed")) >= 2, 120)
    count, why = len(cluster.world.evicted()) - before, logged(cluster, name, "turn failed")[0]["error"]
    report.check("plans: no Prometheus, watching", not count and "refused" in why, f"{count} evicted, {why}")
    cluster.monitoring.start()
    wait_for("usage is new", lambda: cluster.monitoring and cluster.monitoring.value("count(kube_pod_info)"), 60)


def _nothing(cluster: Cluster, report: Report, what: str, why: str, *options: str) -> None:
    before = len(cluster.world.evicted())
    code, said = cluster.call(*options, "--no-dry-run", *_extended(cluster))
    last = said.strip().splitlines()[-1]
    count = len(cluster.world.evicted()) - before
    report.check(f"plans: {what}", code == 2 and not count and why in said, f"{count} evicted, {last}")
    cluster.uncounted()


@contextmanager
def _watching(cluster: Cluster, name: str, *options: str) -> Iterator[Process]:
    """The controller as the Deployment of `deploy/` starts it, but for addresses and files."""
    import yaml

    deployment = next(yaml.safe_load_all((ROOT / "deploy" / "rebalance" / "rebalance.yaml").read_text()))
    given = deployment["spec"]["template"]["spec"]["containers"][0]["args"][1:]
    own = ("--prometheus=", "--listen=", "--record-of-moves=", "--dry-run")
    kept = [word for word in given if not word.startswith(own)]
    listen = f"--listen=127.0.0.1:{free_port()}"
    record = f"--record-of-moves={cluster.setting.folder / name}.jsonl"
    words = cluster.arguments(*kept, listen, record, "--every", "0.05", *options)
    process = Process(name, words, cluster.setting.folder, cluster.surroundings())
    try:
        yield process
    finally:
        process.stop()


def logged(cluster: Cluster, name: str, *events: str) -> list[Json]:
    """Lines of a controller's log."""
    found = []
    file = cluster.setting.folder / f"{name}.log"
    for line in file.read_text().splitlines() if file.exists() else []:
        if line.startswith("{"):
            content = json.loads(line)
            if content.get("event") in events:
                found.append(content)
    return found


def _watched(cluster: Cluster, report: Report, plan: Planned) -> None:
    """Turns of a dry run, as the Deployment makes them, against the plan of the command."""
    within_the_hour()
    before = len(cluster.world.evicted())
    most = ("--most-moves", str(MOVES))
    with _watching(cluster, "watch-dry", "--dry-run", *most, *LARGE):
        wait_for("two plans", lambda: len(logged(cluster, "watch-dry", "plan")) >= 2, 180)
    named = [(one["pod"], one["source"], one["target"]) for one in cluster.world.lines("watch-dry.jsonl", "planned")]
    first, count = named[: len(plan.moves)], len(cluster.world.evicted()) - before
    report.check(
        "plans: a dry run that watches plans the same, turn after turn",
        first == plan.moves and named[len(first) :][: len(first)] == first and not count,
        f"{len(first)} moves, {count} evicted",
    )


def _executed(cluster: Cluster, report: Report, plan: Planned) -> None:
    """The plan is carried out."""
    used, begin, before = cluster.in_use(), time.monotonic(), len(cluster.world.evicted())
    places = cluster.where()
    # The first plan may be too old by now; the same is made again.
    again = cluster.planned("again")
    report.check("plans: the same plan again", again.moves == plan.moves, f"{len(again.moves)} moves")
    file = str(cluster.setting.folder / "again" / "plan.json")
    code, _ = cluster.call("--execute", file, "--no-dry-run", *_extended(cluster))
    took, after = time.monotonic() - begin, cluster.in_use()
    gone = [f"default/{one.pod}" for one in cluster.world.evicted()[before:]]
    report.check(
        "plans: --execute evicts the pods of the plan, in its order",
        code == 0 and gone == again.pods,
        f"{share(len(set(gone) & set(again.pods)), len(again.pods))} in {took:.0f} s",
    )
    new = {pod: node for pod, node in cluster.where().items() if pod not in places}
    wanted = Counter((pod.rpartition("-")[0], target) for pod, _, target in again.moves)
    got = Counter((pod.rpartition("-")[0], node) for pod, node in new.items())
    report.check("plans: replacements run on their targets", got == wanted, share((got & wanted).total(), len(gone)))
    drained = again.content["drained"]
    left = [node for node in drained if node in after]
    report.check("plans: drained nodes are empty", not left, share(len(drained) - len(left), len(drained)))
    claimed = again.content["expected"]["machine_hours"]["value"]
    saved = len(used) - len(after)
    late = 24.0 * saved - claimed  # claimed from when a node is empty on: within the first hour
    report.check("plans: machine-hours", 0 < late < saved, f"{claimed:g} claimed, {24 * saved} by the nodes with pods")


def _at_once(cluster: Cluster, report: Report) -> None:
    """Plan and act in one call."""
    cluster.remember()
    cluster.uncounted()
    within_the_hour()
    before, used = len(cluster.world.evicted()), cluster.in_use()
    dry = cluster.planned("at-once-dry")
    out = cluster.setting.folder / "at-once"
    code, _ = cluster.call("--most-moves", str(MOVES), "--out", str(out), "--no-dry-run", *_extended(cluster))
    gone = [f"default/{one.pod}" for one in cluster.world.evicted()[before:]]
    report.check(
        "plans: --no-dry-run evicts what the dry run named, once",
        code == 0 and gone == dry.pods and (out / "report.md").exists(),
        f"{len(gone)} evicted, {len(used)} nodes in use before, {len(cluster.in_use())} after",
    )


def _alone(cluster: Cluster, report: Report) -> None:
    """Without our extender Kubernetes chooses the nodes: what happens is said, and it stops."""
    cluster.remember()
    cluster.uncounted()
    cluster.setting.schedule(None)
    before, used = len(cluster.world.evicted()), len(cluster.in_use())
    out = str(cluster.setting.folder / "alone")
    _, said = cluster.call("--most-moves", str(MOVES), "--out", out, "--no-dry-run", *LARGE)
    count = len(cluster.world.evicted()) - before
    told = [line for line in said.splitlines() if line.startswith("stopped: ") or " pods evicted: " in line]
    report.check(
        "plans: without the extender it stops, and says why",
        "evictions do not help" in said and count <= ALONE,
        f"{count} of {MOVES}; {used} nodes in use before, {len(cluster.in_use())} after; {'; '.join(told)}",
    )
    cluster.setting.schedule()
    cluster.setting.settle()


def _converges(cluster: Cluster, report: Report) -> None:
    """The controller acts, is killed, goes on, and finds nothing more to do; even as if days had passed."""
    cluster.uncounted()
    begin, used = len(cluster.world.evicted()), len(cluster.in_use())
    counts = list[int]()
    for number in range(ROUNDS):
        cluster.remember()
        before = len(cluster.world.evicted())

        def count(before: int = before) -> int:
            return len(cluster.world.evicted()) - before

        name = f"watch-{number}"
        options = ("--no-dry-run", "--most-moves", "40", *_extended(cluster))
        if number == 0:
            with _watching(cluster, name, *options) as one:
                wait_for("some evictions", lambda: count() >= 3, 180, every=0.05)
                one.kill()
            killed = count()
        with _watching(cluster, name, *options):
            _turns(cluster, name, QUIET_TURNS, count)
        counts.append(count())
        if number == 0:
            lines = cluster.world.lines(f"{name}.jsonl", "evicted", "replaced")
            settled = {line["uid"] for line in lines if line["event"] == "replaced"}
            gone = {line["uid"] for line in lines if line["event"] == "evicted"}
            report.check(
                "plans: killed while it acted, the next one goes on",
                counts[0] > killed and gone <= settled,
                f"{killed} evicted before, {counts[0] - killed} after; {len(gone - settled)} never replaced",
            )
        if not counts[-1]:
            break
    report.check(
        "plans: as if days had passed after each, it comes to rest",
        not counts[-1],
        f"evictions {counts}; {used} nodes in use before, {len(cluster.in_use())} after",
    )
    back = returns(
        {life.name: life for life in cluster.setting.kubelets.lives.values()}, cluster.world.evicted()[begin:]
    )
    report.check("plans: none is back on a node that its owner had left", not back, f"{len(back)}")


def _turns(cluster: Cluster, name: str, quiet: int, count: Callable[[], int]) -> None:
    """Wait for so many plans in a row after which nothing was evicted."""
    begin = len(logged(cluster, name, "plan"))
    last, since = count(), begin

    def rests() -> bool:
        nonlocal last, since
        now, made = count(), len(logged(cluster, name, "plan"))
        if now != last:
            last, since = now, made
        return made - since >= quiet

    wait_for(f"{name} rests", rests, 400, every=0.5)
    failed = logged(cluster, name, "turn failed")
    if failed:
        raise OSError(f"{name}: {failed[0]}")
