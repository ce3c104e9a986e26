"""What a cluster looks like now and looked like in the last slots, as Prometheus has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from tvwrl.serve.observed import RESOURCES, Observed
from tvwrl.traces.http_requests import RetryPolicy
from tvwrl.traces.loaders.prometheus import CPU, MEMORY, REQUESTS, Prometheus
from tvwrl.traces.loaders.prometheus_api import Server
from tvwrl.traces.loaders.prometheus_cluster import KINDS, node_sizes, pod_nodes
from tvwrl.traces.prometheus_address import address
from tvwrl.types import Float, InputError

POD = ["namespace", "pod"]
SLOTS_AT_A_TIME = 6  # in a query: an answer on 10,000 pods takes memory that is never given back
FINISHED = 'kube_pod_status_phase{phase=~"Succeeded|Failed"} == 1'
MOST_USAGE = 1e6  # cores or machines' worth of bytes: more is a broken counter


@dataclass
class Watcher:
    """Reads a cluster from Prometheus again and again; keeps the slots that have passed.

    `slots`: how many slots to remember, the current one included
    `window`: seconds over which the current usage of CPU is averaged; at least twice the scrape interval
    """

    url: str
    slot_seconds: int
    slots: int
    window: int = 300
    timeout: float = 10.0
    clock: Callable[[], float] = time.time
    _past: dict[int, pl.DataFrame] = field(default_factory=dict)  # slot -> namespace, pod, cpu, mem
    _where: dict[tuple[str, str], str] = field(default_factory=dict)  # pod -> node

    def read(self) -> Observed:
        """The cluster now. Raises InputError if Prometheus cannot be read or does not know the nodes."""
        begin = time.monotonic()
        server = Server(address(self.url), RetryPolicy(1, self.timeout), "it is read again at the next poll")
        # Prometheus' own clock: that of this machine may be wrong, and a query of the future finds nothing.
        now = server.clock()
        slot = now // self.slot_seconds
        self._remember(server, slot)
        at = (now, now)
        sizes = node_sizes(server, at, 1)
        finished = server.table(f"max by (namespace, pod) ({FINISHED})", at, 1, tuple(POD), "phase")
        placed = pod_nodes(server, at, 1).join(finished, on=POD, how="anti").unique(POD, keep="last").sort(POD)
        usage = self._usage(server, now, self.window)
        if usage["mem"].count() and not usage["cpu"].count():
            raise InputError(
                f"{self.url}: usage of memory is recorded, but no rate of {CPU} over {self.window} s: make --window at "
                "least twice the scrape interval"
            )
        requests = self._requests(server, now)
        owners = Prometheus().owners(server, now - self.window, now)
        pods = placed.select(*POD, "node", "uid").join(owners, on=POD, how="left").join(requests, on=POD, how="left")
        for *pod, node in placed.select(*POD, "node").iter_rows():
            self._where[pod[0], pod[1]] = node
        age = self._sample_age(server, now, len(pods))
        found = self._observed(now, slot, sizes, pods.sort(POD), usage, age)
        return replace(found, sample_age=age + time.monotonic() - begin)  # reading took its time

    def _remember(self, server: Server, slot: int) -> None:
        """Read the slots that have passed and are not known yet; forget the old ones."""
        first = slot - self.slots + 1
        self._past = {known: frame for known, frame in self._past.items() if known >= first}
        missing = [past for past in range(first, slot) if past not in self._past]
        for begin in range(0, len(missing), SLOTS_AT_A_TIME):
            self._remember_some(server, missing[begin : begin + SLOTS_AT_A_TIME])

    def _remember_some(self, server: Server, missing: list[int]) -> None:
        ends = ((missing[0] + 1) * self.slot_seconds, (missing[-1] + 1) * self.slot_seconds)
        frame = self._usage_between(server, ends, self.slot_seconds)
        number = (pl.col("time") // 1_000_000 // self.slot_seconds - 1).alias("slot")
        found = {key[0]: one for key, one in frame.with_columns(number).partition_by("slot", as_dict=True).items()}
        for past in missing:
            self._past[past] = found.get(past, frame.head(0)).select(*POD, *RESOURCES)
        for *pod, node in pod_nodes(server, ends, self.slot_seconds).select(*POD, "node").iter_rows():
            self._where.setdefault((pod[0], pod[1]), node)

    def _usage(self, server: Server, now: int, window: int) -> pl.DataFrame:
        return self._usage_between(server, (now, now), window).select(*POD, *RESOURCES)

    def _usage_between(self, server: Server, span: tuple[int, int], window: int) -> pl.DataFrame:
        """Columns namespace, pod, time, cpu (cores) and mem (bytes), each averaged over `window` seconds; what is not
        finite, negative or absurd is left out."""
        every = Prometheus()
        queries = {
            "cpu": f"sum by (namespace, pod) (rate({every.series_of(CPU)}[{window}s]))",
            "mem": f"sum by (namespace, pod) (avg_over_time({every.series_of(MEMORY)}[{window}s]))",
        }
        step = max(window, 1) if span[0] != span[1] else 1
        cpu, mem = (server.table(query, span, step, tuple(POD), name) for name, query in queries.items())
        frame = cpu.join(mem, on=[*POD, "time"], how="full", coalesce=True)
        most = {"cpu": MOST_USAGE, "mem": MOST_USAGE * 2**40}
        good = [
            pl.when(pl.col(name).is_between(0, most[name]) & pl.col(name).is_finite()).then(pl.col(name)).alias(name)
            for name in RESOURCES
        ]
        return frame.with_columns(good)

    def _sample_age(self, server: Server, now: int, running: int) -> float:
        """Seconds since the newest sample of usage. Raises InputError if pods run and none has any."""
        newest = f"max(timestamp({Prometheus().series_of(MEMORY)}))"
        found = server.table(newest, (now, now), 1, (), "moment")["moment"].to_list()
        if not found and running:
            raise InputError(
                f"{server.url}: {running} pods run, but {MEMORY} has no recent sample: check cAdvisor's job"
            )
        return abs(now - found[0]) if found else 0.0  # a clock that is ahead is as doubtful

    def _requests(self, server: Server, now: int) -> pl.DataFrame:
        query = f"sum by (namespace, pod, resource) ({Prometheus().series_of(REQUESTS)})"
        found = server.table(query, (now, now), 1, (*POD, "resource"), "value")
        usable = found.filter(pl.col("value").is_finite() & (pl.col("value") >= 0))
        columns = [
            pl.col("value").filter(pl.col("resource") == kind).first().alias(f"request_{name}")
            for name, kind in KINDS.items()
        ]
        return usable.group_by(POD).agg(columns)

    def _observed(
        self, now: int, slot: int, sizes: pl.DataFrame, pods: pl.DataFrame, usage: pl.DataFrame, age: float
    ) -> Observed:
        """What was read, in arrays: the pods that run, then those that ended in the last slots."""
        running = list(pods.select(POD).iter_rows())
        place = {pod: i for i, pod in enumerate(running)}
        frames = [self._past.get(past) for past in range(slot - self.slots + 1, slot)]
        for frame in frames:
            for pod in [] if frame is None else frame.select(POD).iter_rows():
                if pod in self._where:
                    place.setdefault(pod, len(place))
        self._where = {pod: node for pod, node in self._where.items() if pod in place}
        values: Float = np.full((len(place), self.slots, len(RESOURCES)), np.nan)
        for column, frame in enumerate([*frames, usage]):
            if frame is None or not len(frame):
                continue
            rows = np.array([place.get(pod, -1) for pod in frame.select(POD).iter_rows()])
            known = frame.select(RESOURCES).to_numpy()[rows >= 0]
            values[rows[rows >= 0], column] = known
        values[len(running) :, -1] = np.nan  # what has ended uses nothing, whatever its last samples say
        node_of = {name: m for m, name in enumerate(sizes["node"])}
        owner = pods["owner"].fill_null("").to_list()
        request = np.full((len(place), len(RESOURCES)), np.nan)
        request[: len(running)] = pods.select([f"request_{name}" for name in RESOURCES]).to_numpy()
        return Observed(
            time=float(now),
            sample_age=age,
            slot=int(slot),
            nodes=tuple(sizes["node"]),
            capacity=np.ascontiguousarray(sizes.select(RESOURCES).to_numpy(), np.float64),
            pods=tuple("/".join(pod) for pod in place),
            uid=(*pods["uid"], *[""] * (len(place) - len(running))),
            running=len(running),
            node=np.array([node_of.get(self._where.get(pod, ""), -1) for pod in place], np.int64),
            owner=(*owner, *[""] * (len(place) - len(running))),
            request=request,
            usage=values,
        )
