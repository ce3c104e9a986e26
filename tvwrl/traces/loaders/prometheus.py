"""A Kubernetes cluster as its Prometheus server (2.40 or later) has recorded it: cAdvisor and kube-state-metrics."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal
from urllib.parse import urlencode

from tvwrl.checks import at_least, positive
from tvwrl.deferring import deferred
from tvwrl.traces.loaders.prometheus_metrics import (
    KINDS,
    LOOKBACK,
    MICRO,
    POD,
    ClusterMetrics,
    NodesUnknown,
    Span,
    good_usage,
)
from tvwrl.traces.loaders.prometheus_server import (
    CPU,
    MEMORY,
    NODE_INFO,
    OWNER,
    PHASE,
    POD_INFO,
    REQUESTS,
    SIZES,
    WHERE,
    RetryPolicy,
    Selector,
    Server,
    address,
)
from tvwrl.traces.overfull_nodes import overfull
from tvwrl.traces.preparation.layout import YEAR_10000, Table, good_rows, usage_column
from tvwrl.traces.preparation.loader import CONTRADICTS, Loader, Part, Rows, newest_facts
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")

NODE = ("node",)
DAY = 86400  # seconds that are looked at in one query
APART = LOOKBACK + 1  # seconds between looks at names: what was sampled once is never seen at two looks in a row
PLACES = (
    "env",
    "environment",
    "region",
    "datacenter",
    "dc",
    "stage",
    "site",
    "tenant",
)  # labels that clusters get, too
DESCRIPTIVE = {  # labels of kube_node_info and kube_pod_info that say what the node or pod is like
    *("__name__", "node", "namespace", "pod", "uid", "system_uuid", "provider_id", "internal_ip", "kernel_version"),
    *("os_image", "container_runtime_version", "kubelet_version", "kubeproxy_version", "pod_cidr", "host_ip", "pod_ip"),
    *("created_by_kind", "created_by_name", "priority_class", "host_network", "resource", "unit"),
}
OF_SCRAPING = {"job", "instance", "endpoint", "service", "container"}  # a selector of these would hide other exporters


@dataclass(frozen=True)
class Checks:
    """Of a cluster, that of the `selector`, in a stretch of time; metrics as such, which come and go with the
    configuration of the server, only at moments `step` seconds apart."""

    server: Server
    selector: Selector
    span: Span
    step: int

    def one_cluster(self) -> None:
        """Refuse names of nodes or pods that stand for several at a time, pods that carry the name of the exporter,
        and selectors that hide metrics. Warn of several clusters whose names differ.

        Raises InputError, with the label that tells clusters apart.
        """
        renamed = [self.selector.series(POD_INFO, f'exported_{label}!=""') for label in ("namespace", "pod", "node")]
        if len(self._table(f"count({' or '.join(renamed)})", (), "n")):
            raise InputError(
                f"{self.server.url}: {POD_INFO} has its pods or nodes in labels that begin with exported_, as the job "
                "that scrapes kube-state-metrics sets such labels itself: set honor_labels: true in that job"
            )
        self._refuse_hidden()
        found = set()
        for metric in SIZES:
            asked = {"match[]": self.selector.series(metric), "start": self.span[0], "end": self.span[1]}
            found |= {name for name in self.server.get("labels", asked) if isinstance(name, str)}
        labels = sorted(name for name in found if "cluster" in name.lower() or name.lower() in PLACES)
        for label in labels:
            for metric, name in (*((metric, NODE) for metric in SIZES), (POD_INFO, POD)):
                self._refuse_namesakes(metric, name, label)
        for metric, name, identity in (
            (NODE_INFO, NODE, "system_uuid"),
            (POD_INFO, POD, "uid"),
            (POD_INFO, POD, "node"),
        ):
            self._refuse_namesakes(metric, name, identity)
        for label in labels:
            values: set[str] = set()
            for metric in SIZES:
                seen = self._table(f"count by ({label}) ({self.selector.series(metric)})", (label,), "n")
                values |= {value for value in seen[label].to_list() if value}
            if len(values) > 1:
                listed = sorted(values)
                warnings.warn(
                    f"{self.server.url}: nodes of {len(values)} values of {label} are read as one cluster: "
                    f"{_listed(listed)}; --selector '{label}=\"{listed[0]}\"' reads one of them",
                    stacklevel=3,
                )

    def _table(self, query: str, labels: Sequence[str], name: str) -> pl.DataFrame:
        """Values `APART` seconds from each other, up to the end, asked for day by day: a week of all pods at once would
        take a server much memory."""
        first, last = self.span[1] - (self.span[1] - self.span[0]) // APART * APART, self.span[1]
        length = DAY // APART * APART
        days = [(begin, min(begin + length - APART, last)) for begin in range(first, last + 1, length)]
        return pl.concat([self.server.table(query, day, APART, tuple(labels), name) for day in days])

    def _is_there(self, query: str) -> bool:
        """Whether there was any at the moments `step` seconds apart."""
        return len(self.server.table(f"count({query})", self.span, self.step, (), "n")) > 0

    def _refuse_hidden(self) -> None:
        """Refuse a selector by a label that some of the metrics lack: those would look as if not recorded."""
        for label in self.selector.cluster_labels:
            for metric in (CPU, POD_INFO, OWNER, REQUESTS, PHASE, SIZES[0]):
                if self._is_there(metric) and not self._is_there(f'{metric}{{{label}!=""}}'):
                    raise InputError(
                        f"{self.server.url}: selector is {self.selector.text!r}: {metric} has no label {label}, so it "
                        "would be hidden; needed: a label that all metrics have, such as an external label"
                    )

    def _refuse_namesakes(self, metric: str, name: Sequence[str], identity: str) -> None:
        """Refuse names that have several identities at two looks in a row: for longer than a server looks back."""
        by, there = ", ".join(name), f'{identity}!=""'
        own = ",".join(filter(None, (WHERE.get(metric, ""), there)))
        query = f"count by ({by}) (count by ({by}, {identity}) ({self.selector.series(metric, own)})) > 1"
        found = self._table(query, name, "identities")
        before = pl.col("time").shift().over(name)
        several = found.sort(*name, "time").filter(pl.col("time") - before == APART * MICRO)
        if several.is_empty():
            return
        first = several.select(name).row(0)
        exact = ",".join(f'{label}="{value}"' for label, value in zip(name, first, strict=True))
        where = ",".join(filter(None, (own, exact)))
        arguments = {"match[]": self.selector.series(metric, where), "start": self.span[0], "end": self.span[1]}
        label, values = _telling(self.server.get("series", arguments), identity)
        advice = (
            f"""choose one by its label: --selector '{label}="{values[0]}"' (there are {_listed(values)})"""
            if label
            else "no label tells them apart: give each cluster a label of its own, such as an external label"
        )
        others = several.select(name).n_unique() - 1
        raise InputError(
            f"{self.server.url}: {name[-1]} {'/'.join(first)} and {others} more stand for several at a time "
            f"({identity} differs), as with several clusters on one server: {advice}"
        )


def _telling(series: object, identity: str) -> tuple[str, list[str]]:
    """The label, and its values, that tells things of one name but of several `identity` apart; "" if none does."""
    of: dict[str, dict[str, set[str]]] = {}  # label -> identity -> values
    known = [one for one in series if isinstance(one, dict)] if isinstance(series, list) else []
    for label in {label for one in known for label in one} - DESCRIPTIVE - OF_SCRAPING:
        for one in known:
            of.setdefault(label, {}).setdefault(one.get(identity, ""), set()).add(str(one.get(label, "")))
    # A label tells them apart if none of its values occurs with two of them.
    telling = [
        label
        for label, values in of.items()
        if len(values) > 1 and sum(map(len, values.values())) == len(set().union(*values.values()))
    ]
    telling.sort(key=lambda label: ("cluster" not in label.lower(), label.lower() not in PLACES, label))
    return (telling[0], sorted(set().union(*of[telling[0]].values()) - {""})) if telling else ("", [])


def _listed(values: Sequence[str], most: int = 5) -> str:
    return ", ".join(values[:most]) + (f" and {len(values) - most} more" if len(values) > most else "")


GIB = 2**30  # bytes
POINT_BYTES = 50  # size in a response of one sample of one pod, cpu and memory
CAPACITY = {
    "cpu": [*reversed(SIZES), "machine_cpu_cores"],
    "mem": [*reversed(SIZES), "machine_memory_bytes"],
}


def _moment(option: str, text: str) -> int:
    """Seconds since 1970 of an ISO time (UTC, unless it says otherwise) or a number."""
    wrong = InputError(f"--{option} {text}: needed: 2026-01-31T12:00:00Z, or seconds since 1970")
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise wrong from None
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not 0 <= seconds < YEAR_10000:  # nor NaN; milliseconds are beyond it
        raise wrong
    return int(seconds)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Prometheus(Loader):
    """A Prometheus server, e.g. http://host:9090: usage from cAdvisor, requests and owners from kube-state-metrics.

    Workloads are pods, or the owners of pods: a ReplicaSet counts as the Deployment that made it. A header that the
    server asks for goes into the environment variable TVWRL_PROMETHEUS_HEADER ("Authorization: Bearer ...", one per
    line), so that no record holds it. A stopped run continues where it was if its range is the same: without
    --end until the next midnight UTC, otherwise always.
    """

    start: str | None = None
    """Start of the trace: 2026-01-31T12:00:00Z or seconds since 1970, rounded down to --interval; default: 7 days
    before the end."""
    end: str | None = None
    """End of the trace; default: the last midnight UTC on the server's clock."""
    interval: int = 300
    """Interval of the records, seconds, at least twice the scrape interval; also the default slot."""
    chunk: float = 6.0
    """Hours per query; halved if the server refuses a query for too many samples."""
    per: Literal["pod", "owner"] = "pod"
    """A workload is a pod, or an owner: the sum of its pods."""
    selector: str = ""
    """Label matchers of the cluster, e.g. 'cluster="a"'. Those of namespace and pod choose pods, which serve refuses;
    all others hold for nodes too."""
    reference_cores: float | None = None
    """Cores of the reference machine; default: the largest node's."""
    reference_memory: float | None = None
    """Memory of the reference machine, GiB; default: the largest node's."""
    timeout: float = 60.0
    """Timeout of a request, seconds."""
    retries: int = 4
    """Number of retries after a failed request, with growing waits between them."""

    name: ClassVar[str] = "prometheus"
    version: ClassVar[int] = 3
    keys: ClassVar[tuple[str, ...]] = ("workload",)  # "namespace/pod": with "-" between them two could be the same

    def __post_init__(self) -> None:
        at_least(1, interval=self.interval)
        at_least(0, retries=self.retries)
        positive(chunk=self.chunk, timeout=self.timeout)
        Selector(self.selector).check()
        positive(reference_cores=self.reference_cores, reference_memory=self.reference_memory)

    @property
    def slot_seconds(self) -> int:
        """Default length of a slot."""
        return self.interval

    @property
    def members(self) -> tuple[str, ...]:
        """Columns of what is summed."""
        return ("pod",) if self.per == "owner" else ()

    @property
    def reference_machine(self) -> dict[str, float | None]:
        """What 1.0 means."""
        return {"cpu_cores": self.reference_cores, "mem_gib": self.reference_memory}

    def at(self, source: str | Path) -> Prometheus:
        """With start, end and the reference machine settled, from the server's clock and nodes where not given.

        Raises InputError if a metric that is needed was not recorded in that range, or if one name stands for several
        pods or nodes, as with several clusters on one server.
        """
        server, end = self._server(source), self.last_moment(source)
        start = end - 7 * DAY if self.start is None else _moment("start", self.start)
        start -= start % self.interval
        if not 0 <= start < end:
            raise InputError(f"--start {_iso(start)}: must be in 1970 or later, and before --end {_iso(end)}")
        fixed = replace(self, start=str(start), end=str(end))
        for metric in (CPU, MEMORY, *([OWNER] if self.per == "owner" else [])):
            series = Selector(self.selector).series(metric)
            if not server.get("label/__name__/values", {"match[]": series, "start": start, "end": end}):
                check = urlencode({"query": f"count({series})", "time": end})
                raise InputError(
                    f"{server.url}: empty: nothing recorded of {series} from {_iso(start)} to {_iso(end)}; "
                    f"to check it, open {server.url}/api/v1/query?{check}"
                )
        Checks(server, Selector(self.selector), *fixed._coarse).one_cluster()
        cpu = self.reference_cores or fixed._largest(server, "cpu")
        return replace(
            fixed, reference_cores=cpu, reference_memory=self.reference_memory or fixed._largest(server, "mem")
        )

    def last_moment(self, source: str | Path) -> int:
        """Seconds since 1970 at which the trace ends: as given, or the last midnight UTC on the server's clock."""
        end = self._server(source).clock() // DAY * DAY if self.end is None else _moment("end", self.end)
        if self.end is not None and end > time.time():  # its chunks would count as finished before they are over
            raise InputError(f"--end {self.end}: must not be in the future")
        return end - end % self.interval

    def parts(self, source: str | Path) -> list[Part]:
        """Chunks of time, of usage and of facts."""
        if self.start is None or self.end is None:
            return self.at(source).parts(source)
        server = self._server(source)
        start, end = int(self.start), int(self.end)
        most = self._cluster(server).most_pods(*self._coarse)
        # A power of two, lest data that expire while a run is stopped change what is finished.
        size = 2 ** math.ceil(math.log2(most)) * POINT_BYTES
        length = max(int(self.chunk * 3600) // self.interval, 1) * self.interval
        spans = [(begin, min(begin + length, end)) for begin in range(start, end, length)]
        return [
            Part(table, f"{table}-{i:05d}", server.url, size * (span[1] - span[0]) // self.interval, usage, span)
            for table, usage in (("cadvisor", True), ("kube_state", False))
            for i, span in enumerate(spans)
        ]

    def read(self, part: Part) -> Rows:
        """One chunk: usage of pods, or application and requests of workloads."""
        server = self._server(part.source)
        begin, end = part.detail
        return self._usage(server, begin, end) if part.usage else self._facts(server, begin, end)

    def workloads(self, facts: dict[str, pl.DataFrame]) -> pl.DataFrame | None:
        """The last application, the largest request."""
        requests = [pl.col(f"request_{name}").max() for name in self.resources]
        known = facts["kube_state"].sort("workload", maintain_order=True).group_by("workload", maintain_order=True)
        return known.agg(*newest_facts(facts["kube_state"], ("workload",), ("application",)), *requests)

    def _cluster(self, server: Server) -> ClusterMetrics:
        return ClusterMetrics(server, Selector(self.selector))

    def _server(self, source: str | Path) -> Server:
        return Server(address(source), RetryPolicy(self.retries + 1, self.timeout))

    @property
    def _coarse(self) -> tuple[tuple[int, int], int]:
        """First and last of some moments of the range, and the step between them, for what changes slowly."""
        start, end = int(self.start or 0), int(self.end or 0)
        step = max((end - start) // 24, self.interval)
        return (end - (end - start) // step * step, end), step

    def _largest(self, server: Server, resource: str) -> float:
        """Capacity of the largest node, cores or GiB."""
        for metric in CAPACITY[resource]:
            largest = self._cluster(server).largest_node(metric, resource, *self._coarse)
            if 0 < largest < math.inf:
                return largest if resource == "cpu" else largest / GIB
        raise InputError(
            f"{server.url}: neither {' nor '.join(CAPACITY[resource])} is recorded, so the size of a node is unknown: "
            "give --reference-cores CORES and --reference-memory GIB"
        )

    def _unit(self, resource: str) -> float:
        """Cores or bytes of the reference machine."""
        return (self.reference_cores or math.nan) if resource == "cpu" else (self.reference_memory or math.nan) * GIB

    def _usage(self, server: Server, begin: int, end: int) -> Rows:
        span, cluster, length = (begin + self.interval, end), self._cluster(server), self.interval * MICRO
        frame = cluster.usage(span, self.interval, self.interval)
        rows = Rows(frame, len(frame), overfull=self._overfull(cluster, good_usage(frame), "use", span))
        if not len(frame):
            rows.dropped[f"chunks without {CPU} and {MEMORY}"] += 1
        rows.drop(f"rows without a rate of {CPU} over --interval", pl.col("cpu").is_not_null())
        rows.drop(f"rows without {MEMORY}", pl.col("mem").is_not_null())
        given = rows.frame

        def place(row: int) -> str:
            namespace, pod, time = given.select("namespace", "pod", "time").row(row)
            return f"pod {namespace}/{pod} at {_iso(time / MICRO)}"

        table = Table(self.resources, tuple(usage_column(name, self._unit(name)) for name in self.resources))
        rows.frame = good_rows(rows, server.url, table, given, given, place)
        workload = pl.concat_str(POD, separator="/")
        if self.per == "owner":
            rows.frame = rows.frame.join(cluster.owners(begin, end), on=POD, how="left", maintain_order="left")
            rows.drop(f"rows of pods without {OWNER}", pl.col("owner").is_not_null())
            workload = pl.col("owner")
        usage = [pl.col(name) / self._unit(name) for name in self.resources]
        moment = pl.col("time")
        rows.frame = rows.frame.select(
            workload.alias("workload"), *self.members, (moment - length).alias("begin"), moment.alias("end"), *usage
        )
        return rows

    def _facts(self, server: Server, begin: int, end: int) -> Rows:
        """Application of every workload, and the most that it requested at a time, of the reference machine."""
        cluster, requests = self._cluster(server), [f"request_{name}" for name in self.resources]
        span = (begin + self.interval, end)
        asked = cluster.requests(span, self.interval, self.interval)
        taken = asked.rename({f"request_{name}": name for name in KINDS})
        owners = cluster.owners(begin, end).with_columns((pl.col("owners") > 1).alias(CONTRADICTS))
        frame = asked.join(owners, on=POD, how="full", coalesce=True, maintain_order="left_right")
        workload = pl.col("owner") if self.per == "owner" else pl.concat_str(POD, separator="/")
        frame = frame.with_columns(workload.alias("workload")).drop_nulls("workload")
        together = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in requests]
        sums = frame.group_by("workload", "time", maintain_order=True).agg(
            pl.col("owner").last(), pl.col(CONTRADICTS).any(), *together
        )
        found = sums.group_by("workload", maintain_order=True).agg(
            pl.col("owner").drop_nulls().last().alias("application"),
            pl.col(CONTRADICTS).any(),
            *(pl.col(f"request_{name}").max() / self._unit(name) for name in self.resources),
        )
        return Rows(found, len(found), overfull=self._overfull(cluster, taken, "are asked for", span))

    def _overfull(
        self, cluster: ClusterMetrics, taken: pl.DataFrame, what: str, span: Span
    ) -> dict[str, dict[str, float]]:
        """Nodes of which pods take more than there is, see `Rows`; `taken`: namespace, pod, time, cpu and mem."""
        try:
            sizes = cluster.node_sizes(*self._coarse)
        except NodesUnknown:
            return {}
        found = overfull(taken.join(cluster.running(span, self.interval), on=[*POD, "time"]), sizes)
        return {what: dict(found.iter_rows())} if len(found) else {}
