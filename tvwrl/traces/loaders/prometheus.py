"""A Kubernetes cluster as its Prometheus server (2.40 or later) has recorded it: cAdvisor and kube-state-metrics."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import urlencode

import polars as pl

from tvwrl.checks import at_least, positive
from tvwrl.traces.http_requests import RetryPolicy
from tvwrl.traces.loaders.prometheus_api import Server
from tvwrl.traces.pod_owners import owner_of
from tvwrl.traces.preparation.layout import YEAR_10000, Table, good_rows, usage_column
from tvwrl.traces.preparation.loader import Loader, Part, Rows
from tvwrl.traces.preparation.series import MICRO
from tvwrl.traces.prometheus_address import address
from tvwrl.types import InputError

DAY, GIB, LOOKBACK = 86400, 2**30, 300  # seconds, bytes, seconds that a server holds an old sample to be current
POINT_BYTES = 50  # size in a response of one sample of one pod, cpu and memory

CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
REQUESTS, OWNER = "kube_pod_container_resource_requests", "kube_pod_owner"
CONTAINERS = 'namespace!="",pod!="",container!="",container!="POD"'  # not the sum over a pod, nor its pause container
WHERE = {CPU: CONTAINERS, MEMORY: CONTAINERS, REQUESTS: 'resource=~"cpu|memory"', OWNER: 'owner_is_controller!="false"'}
CAPACITY = {
    "cpu": ['kube_node_status_capacity{resource="cpu"}', "machine_cpu_cores"],
    "mem": ['kube_node_status_capacity{resource="memory"}', "machine_memory_bytes"],
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
    """Label matchers for all metrics of pods, e.g. 'namespace="prod"'."""
    reference_cores: float | None = None
    """Cores of the reference machine; default: the largest node's."""
    reference_memory: float | None = None
    """Memory of the reference machine, GiB; default: the largest node's."""
    timeout: float = 60.0
    """Timeout of a request, seconds."""
    retries: int = 4
    """Number of retries after a failed request, with growing waits between them."""

    name: ClassVar[str] = "prometheus"
    keys: ClassVar[tuple[str, ...]] = ("workload",)  # "namespace/pod": with "-" between them two could be the same

    def __post_init__(self) -> None:
        at_least(1, interval=self.interval)
        at_least(0, retries=self.retries)
        positive(chunk=self.chunk, timeout=self.timeout)
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

        Raises InputError if a metric that is needed was not recorded in that range.
        """
        server = self._server(source)
        end = server.clock() // DAY * DAY if self.end is None else _moment("end", self.end)
        if self.end is not None and end > time.time():  # its chunks would count as finished before they are over
            raise InputError(f"--end {self.end}: must not be in the future")
        end -= end % self.interval
        start = end - 7 * DAY if self.start is None else _moment("start", self.start)
        start -= start % self.interval
        if not 0 <= start < end:
            raise InputError(f"--start {_iso(start)}: must be in 1970 or later, and before --end {_iso(end)}")
        fixed = replace(self, start=str(start), end=str(end))
        for metric in (CPU, MEMORY, *([OWNER] if self.per == "owner" else [])):
            fixed._check_recorded(server, metric)
        cpu = self.reference_cores or fixed._largest(server, "cpu")
        return replace(
            fixed, reference_cores=cpu, reference_memory=self.reference_memory or fixed._largest(server, "mem")
        )

    def parts(self, source: str | Path) -> list[Part]:
        """Chunks of time, of usage and of facts."""
        if self.start is None or self.end is None:
            return self.at(source).parts(source)
        server = self._server(source)
        start, end = int(self.start), int(self.end)
        pods = server.table(f"count(count by (namespace, pod) ({self.series_of(MEMORY)}))", *self._coarse, (), "pods")
        most = max(pods["pods"].to_list(), default=1)
        # A power of two, lest data that expire while a run is stopped change what is finished.
        size = 2 ** math.ceil(math.log2(max(most, 1))) * POINT_BYTES
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
        return facts["kube_state"].group_by("workload").agg(pl.col("application").drop_nulls().last(), *requests)

    def _server(self, source: str | Path) -> Server:
        return Server(address(source), RetryPolicy(self.retries + 1, self.timeout))

    @property
    def _coarse(self) -> tuple[tuple[int, int], int]:
        """First and last of some moments of the range, and the step between them, for what changes slowly."""
        start, end = int(self.start or 0), int(self.end or 0)
        step = max((end - start) // 24, self.interval)
        return (end - (end - start) // step * step, end), step

    def series_of(self, metric: str) -> str:
        """The selector of a metric's series."""
        return f"{metric}{{{','.join(filter(None, (WHERE[metric], self.selector.strip(' {},'))))}}}"

    def _check_recorded(self, server: Server, metric: str) -> None:
        start, end = int(self.start or 0), int(self.end or 0)
        arguments = {"match[]": self.series_of(metric), "start": start, "end": end}
        if not server.get("label/__name__/values", arguments):
            check = urlencode({"query": f"count({self.series_of(metric)})", "time": end})
            raise InputError(
                f"{server.url}: empty: nothing recorded of {self.series_of(metric)} from {_iso(start)} to {_iso(end)}; "
                f"to check it, open {server.url}/api/v1/query?{check}"
            )

    def _largest(self, server: Server, resource: str) -> float:
        """Capacity of the largest node, cores or GiB."""
        for query in CAPACITY[resource]:
            largest = server.table(f"max({query})", *self._coarse, (), resource)[resource].max()
            if isinstance(largest, float) and 0 < largest < math.inf:
                return largest if resource == "cpu" else largest / GIB
        raise InputError(
            f"{server.url}: neither {' nor '.join(CAPACITY[resource])} is recorded, so the size of a node is unknown: "
            "give --reference-cores CORES and --reference-memory GIB"
        )

    def _unit(self, resource: str) -> float:
        """Cores or bytes of the reference machine."""
        return (self.reference_cores or math.nan) if resource == "cpu" else (self.reference_memory or math.nan) * GIB

    def _usage(self, server: Server, begin: int, end: int) -> Rows:
        span, pod, length = (begin + self.interval, end), ("namespace", "pod"), self.interval * MICRO
        sums = {"cpu": f"rate({self.series_of(CPU)}[{self.interval}s])", "mem": self.series_of(MEMORY)}
        cpu, mem = (
            server.table(f"sum by (namespace, pod) ({query})", span, self.interval, pod, name)
            for name, query in sums.items()
        )
        frame = cpu.join(mem, on=[*pod, "time"], how="full", coalesce=True).sort(*pod, "time")
        rows = Rows(frame, len(frame))
        if not len(frame):
            rows.dropped[f"chunks without {CPU} and {MEMORY}"] += 1
        rows.drop(f"rows without a rate of {CPU} over --interval", pl.col("cpu").is_not_null())
        rows.drop(f"rows without {MEMORY}", pl.col("mem").is_not_null())
        _drop_bad(rows, server.url, {name: self._unit(name) for name in self.resources})
        workload = pl.concat_str(pod, separator="/")
        if self.per == "owner":
            rows.frame = rows.frame.join(self.owners(server, begin, end), on=pod, how="left", maintain_order="left")
            rows.drop(f"rows of pods without {OWNER}", pl.col("owner").is_not_null())
            workload = pl.col("owner")
        usage = [pl.col(name) / self._unit(name) for name in self.resources]
        moment = pl.col("time")
        rows.frame = rows.frame.select(
            workload.alias("workload"), *self.members, (moment - length).alias("begin"), moment.alias("end"), *usage
        )
        return rows

    def owners(self, server: Server, begin: int, end: int) -> pl.DataFrame:
        """Columns namespace, pod, owner (see `owner_of`): whoever owned a pod in a stretch of time."""
        labels = ("namespace", "pod", "owner_kind", "owner_name")
        window = f"last_over_time({self.series_of(OWNER)}[{end - begin + LOOKBACK}s])"
        found = server.table(f"max by ({', '.join(labels)}) ({window})", (end, end), self.interval, labels, "value")
        owner = [owner_of(*row) for row in found.select(labels).iter_rows()]
        found = found.with_columns(pl.Series("owner", owner, pl.String))
        return found.unique(["namespace", "pod"], keep="last", maintain_order=True).select("namespace", "pod", "owner")

    def _facts(self, server: Server, begin: int, end: int) -> Rows:
        """Application of every workload, and the most that it requested at a time, of the reference machine."""
        labels = ("namespace", "pod", "resource")
        query = f"sum by ({', '.join(labels)}) ({self.series_of(REQUESTS)})"
        requests = server.table(query, (begin + self.interval, end), self.interval, labels, "request")
        owners = self.owners(server, begin, end)
        frame = requests.join(owners, on=["namespace", "pod"], how="full", coalesce=True, maintain_order="left_right")
        workload = pl.col("owner") if self.per == "owner" else pl.concat_str("namespace", "pod", separator="/")
        frame = frame.with_columns(workload.alias("workload")).drop_nulls("workload")
        sums = frame.group_by("workload", "resource", "time", maintain_order=True).agg(
            pl.col("owner").last(), pl.col("request").sum()
        )
        most = {
            f"request_{name}": pl.col("request").filter(pl.col("resource") == kind).max() / self._unit(name)
            for name, kind in (("cpu", "cpu"), ("mem", "memory"))
        }
        application = pl.col("owner").drop_nulls().last().alias("application")
        found = sums.group_by("workload", maintain_order=True).agg(application, **most)
        return Rows(found, len(found))


def _drop_bad(rows: Rows, url: str, units: Mapping[str, float]) -> None:
    """Leave out usage that is not finite, negative or too large, count and name it; `units`: of one machine."""
    table = Table(tuple(units), tuple(usage_column(name, unit) for name, unit in units.items()))
    frame = rows.frame

    def place(row: int) -> str:
        namespace, pod, time = frame.select("namespace", "pod", "time").row(row)
        return f"pod {namespace}/{pod} at {_iso(time / MICRO)}"

    rows.frame = good_rows(rows, url, table, frame, frame, place)
