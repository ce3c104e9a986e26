"""What a Prometheus server knows of a Kubernetes cluster, each thing once however often it was scraped.

Queries of usage (cAdvisor), of nodes and their pools, pods, owners and requests (kube-state-metrics, kube-scheduler)
stand here. A series may be there several times: a container that
restarted has a new `id` while its old series lingers, two jobs or two replicas scrape one target, a target moves to
another address. So series are reduced before they are summed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.deferring import deferred
from tvwrl.traces.loaders.prometheus_server import (
    CPU,
    INIT_INFO,
    INIT_REQUESTS,
    MEMORY,
    NODE_LABELS,
    NODE_ROLE,
    NODE_TAINT,
    OVERHEAD,
    OWNER,
    PHASE,
    POD_INFO,
    REQUESTS,
    RESTARTS,
    SCHEDULER_REQUESTS,
    SIZES,
    WHOLE_POD,
    Selector,
    Server,
)
from tvwrl.traces.pod_requests import Requested
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")

REPLICA_SET_HASH = re.compile("-[bcdfghjklmnpqrstvwxz2456789]{6,10}$")  # suffix that a Deployment appends to a name


def owner_of(namespace: str, pod: str, kind: str, owner: str) -> str:
    """What replicas have in common: the controller of a pod, or the pod itself where it has none.

    A ReplicaSet counts as the Deployment that made it; pods that a node runs for itself have no controller.

    >>> owner_of("shop", "cart-5d9c7b6f4-x2x9q", "ReplicaSet", "cart-5d9c7b6f4")
    'shop/deployment/cart'
    """
    if kind in ("", "<none>", "Node"):
        return f"{namespace}/pod/{pod}"
    if kind == "ReplicaSet" and REPLICA_SET_HASH.search(owner):
        return f"{namespace}/deployment/{REPLICA_SET_HASH.sub('', owner)}"
    return f"{namespace}/{kind.lower()}/{owner}"


POD = ("namespace", "pod")
KINDS = {"cpu": "cpu", "mem": "memory"}  # our name of a resource -> that of Kubernetes
LOOKBACK = 300  # seconds that a server holds an old sample to be current
MICRO = 1_000_000
SIDECAR = 'restart_policy="Always"'
MOST_USAGE = {"cpu": 1e6, "mem": 1e6 * 2**40}  # cores, bytes of one pod; more is a broken counter
RESIZED = 1.05  # times its least size that a node must have had for it to count as another machine


class NodesUnknown(InputError):
    """The size of no node is recorded."""


Span = tuple[int, int]  # first and last moment, seconds since 1970


@dataclass(frozen=True)
class ClusterMetrics:
    """What a server knows of one cluster, that of the `selector`.

    >>> server = Server("http://prometheus:9090", RetryPolicy(1, 10.0))  # doctest: +SKIP
    >>> ClusterMetrics(server, Selector('cluster="a"')).node_sizes((now, now), 1)  # doctest: +SKIP
    """

    server: Server
    selector: Selector

    def usage(self, span: Span, step: int, window: int) -> pl.DataFrame:
        """Columns namespace, pod, time (microseconds), cpu (cores) and mem (bytes): means over `window` seconds that
        end at each moment; null where there is none."""
        memory = f"{self.selector.series(MEMORY)}[{window * 1000 - 1}ms]"  # the sample that ends the window before
        whole = f"{self.selector.series(MEMORY, WHOLE_POD)}[{window * 1000 - 1}ms]"
        # How often the pod was sampled: its containers may have run one after the other, or not all the time.
        samples = _each(f"count_over_time({memory})")
        often = (
            f"max by (namespace, pod, job, known) (sum by (namespace, pod, container, job, known) ({samples}) or "
            f"max by (namespace, pod, container, job, known) ({_each(f'count_over_time({whole})')}))"
        )
        queries = {
            "cpu": _by_job(f"rate({self.selector.series(CPU)}[{window}s])"),
            "mem": f"{_by_job(f'sum_over_time({memory})')} / on (namespace, pod, job, known) {often}",
        }
        # Where several jobs scrape a pod, perhaps with other labels left, the one that saw the most of it counts.
        queries = {name: f"max by (namespace, pod) ({query})" for name, query in queries.items()}
        cpu, mem = (self.server.table(query, span, step, POD, name) for name, query in queries.items())
        return cpu.join(mem, on=[*POD, "time"], how="full", coalesce=True).sort(*POD, "time")

    def half_recorded(self, span: Span, step: int) -> pl.DataFrame:
        """Columns namespace, pod, time: pods of which CPU is recorded and memory is not, or the other way round."""
        cpu, mem = (f"count by (namespace, pod) ({self.selector.series(metric)})" for metric in (CPU, MEMORY))
        return self.server.table(f"{cpu} unless {mem} or {mem} unless {cpu}", span, step, POD, "n").drop("n")

    def requests(self, span: Span, step: int, window: int | None = None) -> pl.DataFrame:
        """Columns namespace, pod, time, request_cpu (cores) and request_mem (bytes), null: none: see `pod_requests`.

        At each moment, or the most in `window` seconds before it, in which a pod may have come and gone. A pod that has
        ended but is still listed does not count beside one of the same name that has not.

        What kube-scheduler itself counted comes first. Where only kube-state-metrics is scraped, the order of init
        containers is not known: sidecars count as before all others. Resources of pods (`spec.resources`) are not in
        its metrics.
        """
        labels = (*POD, "resource", "part")
        found = self.server.table(self._request_parts(window), span, step, labels, "value")
        found = found.filter(pl.col("value").is_finite() & (pl.col("value") >= 0))
        keys = [*POD, "resource", "time"]
        wide = found.pivot("part", index=keys, values="value", aggregate_function="max", maintain_order=True)
        part = {
            name: wide[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
            if name in wide
            else np.full(len(wide), np.nan)
            for name in ("containers", "sidecars", "steps", "overhead", "scheduler")
        }
        none = np.full(len(wide), np.nan)
        with_sidecars = np.where(np.isnan(part["steps"]), np.nan, part["steps"] + np.nan_to_num(part["sidecars"]))
        total = Requested(part["containers"], part["sidecars"], with_sidecars, part["overhead"], none).total
        counted = np.where(np.isnan(part["scheduler"]), total, part["scheduler"])
        long = wide.select(keys).with_columns(pl.Series("request", counted, pl.Float64).fill_nan(None))
        columns = [
            pl.col("request").filter(pl.col("resource") == kind).max().alias(f"request_{name}")
            for name, kind in KINDS.items()
        ]
        return long.group_by(*POD, "time", maintain_order=True).agg(columns)

    def _request_parts(self, window: int | None) -> str:
        """One query for all parts of what pods request, told apart by the label `part`."""
        uid, ended, info = "on (namespace, pod, uid)", f"({self.selector.series(PHASE)} == 1)", POD_INFO
        alive = f"on (namespace, pod) ({self.selector.series(info)} unless {uid} {ended})"

        def series(metric: str, where: str | None = None) -> str:
            one = self.selector.series(metric, where)
            one = one if window is None else f"max_over_time({one}[{window}s])"
            return one if metric == SCHEDULER_REQUESTS else f"({one} unless {uid} ({ended} and {alive}))"

        init = f"max by (namespace, pod, container, resource) ({series(INIT_REQUESTS)})"
        always = f"on (namespace, pod, container) {series(INIT_INFO, SIDECAR)}"
        containers = f"max by (namespace, pod, container, resource) ({series(REQUESTS)})"
        overhead = " or ".join(
            f'label_replace(max by (namespace, pod) ({series(metric)}), "resource", "{kind}", "", "")'
            for kind, metric in OVERHEAD.items()
        )
        parts = {
            "containers": f"sum by (namespace, pod, resource) ({containers})",
            "sidecars": f"sum by (namespace, pod, resource) ({init} and {always})",
            "steps": f"max by (namespace, pod, resource) ({init} unless {always})",
            "overhead": f"({overhead})",
            "scheduler": f"max by (namespace, pod, resource) ({series(SCHEDULER_REQUESTS)})",
        }
        return " or ".join(f'label_replace({query}, "part", "{part}", "", "")' for part, query in parts.items())

    def owners(self, begin: int, end: int) -> pl.DataFrame:
        """Columns namespace, pod, owner (see `owner_of`) and owners: how many a pod had in a stretch of time.

        Of several the newest counts: the one whose samples go on for the longest.
        """
        labels = (*POD, "owner_kind", "owner_name")
        by = ", ".join(labels)
        window, series = end - begin + LOOKBACK, self.selector.series(OWNER)
        found = self.server.table(
            f"max by ({by}) (last_over_time({series}[{window}s]))", (end, end), 1, labels, "value"
        )
        owner = [owner_of(*row) for row in found.select(labels).iter_rows()]
        found = found.select(*labels, pl.Series("owner", owner, pl.String)).unique([*POD, "owner"], maintain_order=True)
        found = found.with_columns(pl.len().over(POD).alias("owners"), pl.lit(0.0).alias("newest"))
        if (found["owners"] > 1).any():
            newest = f"max by ({by}) (max_over_time(timestamp({series})[{window}s:60s]))"
            known = self.server.table(newest, (end, end), 1, labels, "moment").select(*labels, "moment")
            found = found.join(known, on=labels, how="left").with_columns(
                pl.col("moment").fill_null(0.0).alias("newest")
            )
        found = found.sort(*POD, "newest", "owner").unique(list(POD), keep="last", maintain_order=True)
        return found.select(*POD, "owner", "owners")

    def node_sizes(self, span: Span, step: int) -> pl.DataFrame:
        """Columns node, cpu (cores), mem (bytes): the most that pods could use of each node in a stretch of time; and
        resized: whether it had several sizes, as when another machine took over its name.

        Raises NodesUnknown if no node has both.
        """
        for metric in SIZES:
            found = []
            for name, kind in KINDS.items():
                query = f"max by (node) ({self.selector.series(metric, _resource(kind))})"
                size, least = pl.col(name).max(), pl.col(name).min()
                all_of_it = self.server.table(query, span, step, ("node",), name).group_by("node")
                found.append(all_of_it.agg(size, (size > least * RESIZED).alias(f"resized_{name}")))
            sizes = reduce(lambda one, other: one.join(other, on="node"), found).sort("node")
            good = pl.all_horizontal(pl.col(KINDS).is_finite() & (pl.col(KINDS) > 0)) & (pl.col("node") != "")
            if len(usable := sizes.filter(good)):
                return usable.select("node", *KINDS, pl.any_horizontal(r"^resized_.*$").alias("resized"))
        asked = self.selector.series(SIZES[0])
        raise NodesUnknown(
            f"{self.server.url}: neither {' nor '.join(SIZES)} is recorded, so the size of the nodes is unknown: let "
            "Prometheus scrape kube-state-metrics" + (f"; asked for {asked}" if "{" in asked else "")
        )

    def largest_node(self, metric: str, resource: str, span: Span, step: int) -> float:
        """The largest value that a metric of nodes had; NaN if it is not recorded."""
        where = _resource(KINDS[resource]) if metric in SIZES else None
        query = f"max({self.selector.series(metric, where)})"
        found = self.server.table(query, span, step, (), resource)[resource].max()
        return found if isinstance(found, float) else np.nan

    def pod_nodes(self, span: Span, step: int, window: int | None = None) -> pl.DataFrame:
        """Columns namespace, pod, node, uid, time and newest: where pods were at every moment of a stretch of time, and
        when that was sampled (seconds since 1970); `one_node_each` decides where a pod is on several.

        With `window` also where they were in so many seconds before, if not any more: `newest` is 0 there.
        """
        labels, series = (*POD, "node", "uid"), self.selector.series(POD_INFO)
        query = f"max by ({', '.join(labels)}) (timestamp({series}))"
        if window is not None:
            query += f" or max by ({', '.join(labels)}) (0 * last_over_time({series}[{window}s]))"
        return self.server.table(query, span, step, labels, "newest")

    def first_seen(self, now: int) -> pl.DataFrame:
        """Columns namespace, pod, node, uid and first: when pods that are on several nodes now were first sampled on
        each, in the last hour (seconds since 1970)."""
        labels, series = (*POD, "node", "uid"), self.selector.series(POD_INFO)
        several = f"count by (namespace, pod) (count by (namespace, pod, node) ({series})) > 1"
        first = f"min by ({', '.join(labels)}) (min_over_time(timestamp({series})[1h:60s]))"
        query = f"{first} and on (namespace, pod) ({several})"
        return self.server.table(query, (now, now), 1, labels, "first").drop("time")

    def finished(self, span: Span, step: int) -> pl.DataFrame:
        """Columns namespace, pod, uid, time: those that have ended but are still listed."""
        query = f"max by (namespace, pod, uid) ({self.selector.series(PHASE)}) == 1"
        return self.server.table(query, span, step, (*POD, "uid"), "phase").drop("phase")

    def running(self, span: Span, step: int) -> pl.DataFrame:
        """Columns namespace, pod, time, node: where pods ran that had not ended."""
        nodes, _ = one_node_each(self.pod_nodes(span, step))
        ended = self.finished(span, step)
        return nodes.join(ended, on=[*POD, "uid", "time"], how="anti").select(*POD, "time", "node")

    def most_pods(self, span: Span, step: int) -> int:
        """How many pods used memory at a time, at least 1."""
        query = f"count(count by (namespace, pod) ({self.selector.series(MEMORY)}))"
        return int(max(self.server.table(query, span, step, (), "pods")["pods"].to_list(), default=1))

    def container_restarts(self, span: Span) -> int | None:
        """How often containers were started anew; None if kube-state-metrics does not say."""
        grown = f"increase({self.selector.series(RESTARTS)}[{span[1] - span[0]}s])"
        query = f"sum(max by (namespace, pod, container, uid) ({grown}))"
        found = self.server.table(query, (span[1], span[1]), 1, (), "restarts")["restarts"].to_list()
        return round(found[0]) if found and 0 <= found[0] < 1e12 else None

    def sample_age(self, now: int) -> float | None:
        """Seconds between now and the newest sample of usage, >= 0; None if there is none."""
        found = self.server.table(f"max(timestamp({self.selector.series(MEMORY)}))", (now, now), 1, (), "moment")
        return abs(now - found["moment"][0]) if len(found) else None  # a clock that is ahead is as doubtful


def one_node_each(found: pl.DataFrame, *at: str) -> tuple[pl.DataFrame, int]:
    """One row for each pod and `at` (default: moment), and how many pods were on several nodes at one of them.

    Of several, the one sampled last counts; of those sampled at once, the one that was seen first the latest.

    `found`: as from `ClusterMetrics.pod_nodes`, perhaps with the column first; default: the first moment in it
    """
    keys = [*POD, *(at or ("time",))]
    if "first" not in found.columns:
        found = found.with_columns(pl.col("time").min().over([*POD, "node", "uid"]).alias("first"))
    ordered = found.sort(*keys, "newest", "first", "node", "uid")
    now = ordered.filter(pl.col("newest") > 0)
    twice = now.filter(pl.col("node").n_unique().over(keys) > 1).select(POD).n_unique() if len(now) else 0
    return ordered.unique(keys, keep="last", maintain_order=True).drop("first"), twice


def good_usage(frame: pl.DataFrame) -> pl.DataFrame:
    """Usage with null in place of what is negative or absurd."""
    return frame.with_columns(
        pl.when(pl.col(name).is_between(0, most)).then(pl.col(name)).alias(name) for name, most in MOST_USAGE.items()
    )


def _each(expression: str) -> str:
    """Once for each time that a container was started, however many replicas watched it, by job.

    A container that was started again has another `name`, or, where that label is missing, another `id`. One that runs
    containers inside has several `id`. Series without both (`known` is empty), such as those of the kubelet's
    /metrics/resource, are another view of the same containers: never added to the others. Where CPU is recorded core by
    core (`cpu`), cores are added up.
    """
    by_id = f'label_replace({expression}, "start", "$1", "id", "(.*)")'
    by_name = f'label_replace({by_id}, "start", "$1", "name", "(.+)")'
    known = f'label_replace({by_name}, "known", "yes", "start", ".+")'
    return f"max by (namespace, pod, container, job, known, start, cpu) ({known})"


def _by_job(expression: str) -> str:
    """The sum over the containers of a pod, and the times that each was started, by job."""
    return f"sum by (namespace, pod, job, known) ({_each(expression)})"


def _resource(kind: str) -> str:
    return f'resource="{kind}"'


KIND_LABELS = ("label_node_kubernetes_io_instance_type", "label_beta_kubernetes_io_instance_type")  # the first there is
POOL_LABELS = (
    "label_cloud_google_com_gke_nodepool", "label_eks_amazonaws_com_nodegroup", "label_kubernetes_azure_com_agentpool",
    "label_agentpool", "label_karpenter_sh_nodepool",
)  # fmt: skip  # of any cloud
CONTROL_PLANE = "control-plane"
IS_CONTROL_PLANE = "(.*/)?(control-plane|master)"  # a role, or the key of a taint
GPUS = 'resource=~".*_com_gpu"'  # as kube-state-metrics spells nvidia.com/gpu


def node_pools(server: Server, selector: Selector, span: tuple[int, int], step: int) -> pl.DataFrame:
    """Columns node, kind ("": unknown) and pools (names: a cloud's node pool, control-plane, gpu), for those nodes
    of which anything is known; of several kinds the latest counts.

    kube-state-metrics exports labels only with --metric-labels-allowlist=nodes=[...].
    """
    labels = ("node", *KIND_LABELS, *POOL_LABELS)
    found = server.table(f"max by ({', '.join(labels)}) ({selector.series(NODE_LABELS)})", span, step, labels, "value")
    names = [pl.col(name).replace("", None) for name in labels]
    labelled = found.sort("time").select(
        pl.col("node"),
        pl.coalesce(names[1 : 1 + len(KIND_LABELS)]).fill_null("").alias("kind"),
        pl.coalesce(names[1 + len(KIND_LABELS) :]).alias("pool"),
    )
    kinds = labelled.group_by("node").agg(pl.col("kind").last())
    series = selector.series
    special = {
        CONTROL_PLANE: f"{series(NODE_ROLE, _matching('role'))} or {series(NODE_TAINT, _matching('key'))}",
        "gpu": " or ".join(f"{series(metric, GPUS)} > 0" for metric in SIZES),
    }
    pools = [labelled.select("node", "pool")] + [
        server.table(f"max by (node) ({query})", span, step, ("node",), "value").select(
            "node", pl.lit(name).alias("pool")
        )
        for name, query in special.items()
    ]
    of_node = pl.concat(pools).drop_nulls().unique().sort("node", "pool").group_by("node").agg("pool")
    joined = kinds.join(of_node.rename({"pool": "pools"}), on="node", how="full", coalesce=True).sort("node")
    return joined.with_columns(pl.col("kind").fill_null(""), pl.col("pools").fill_null([]))


def _matching(label: str) -> str:
    """The matcher of what says that a node belongs to the control plane."""
    return f'{label}=~"{IS_CONTROL_PLANE}"'
