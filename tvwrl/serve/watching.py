"""What a cluster looks like now and looked like in the last slots, as Prometheus has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from tvwrl.serve.observed import RESOURCES, Observed
from tvwrl.traces import (
    CPU,
    MEMORY,
    MICRO,
    POD,
    Checks,
    ClusterMetrics,
    RetryPolicy,
    Selector,
    Server,
    address,
    good_usage,
    one_node_each,
    overfull,
    said,
)
from tvwrl.types import Float, InputError

SLOTS_AT_A_TIME = 6  # in a query: an answer on 10,000 pods takes memory that is never given back
MOMENTS = 24  # slots looked at to see whether names stand for several pods or nodes


@dataclass
class Watcher:
    """Reads a cluster from Prometheus again and again; keeps the slots that have passed.

    `slots`: how many slots to remember, the current one included
    `window`: seconds over which current usage is averaged; at least twice the scrape interval
    `selector`: label matchers of the cluster, see `Selector`
    """

    url: str
    slot_seconds: int
    slots: int
    window: int = 300
    timeout: float = 10.0
    selector: str = ""
    clock: Callable[[], float] = time.time
    _past: dict[int, pl.DataFrame] = field(default_factory=dict)  # slot -> namespace, pod, cpu, mem
    _where: dict[tuple[str, str], str] = field(default_factory=dict)  # pod -> node

    def read(self) -> Observed:
        """The cluster now. Raises InputError if Prometheus cannot be read or does not know the nodes, or if names stand
        for several pods or nodes."""
        begin = time.monotonic()
        server = Server(address(self.url), RetryPolicy(1, self.timeout), "it is read again at the next poll")
        cluster = ClusterMetrics(server, Selector(self.selector))
        # Prometheus' own clock: that of this machine may be wrong, and a query of the future finds nothing.
        now = server.clock()
        slot = now // self.slot_seconds
        if slot - 1 not in self._past:  # at first, and once a slot
            past = (now - MOMENTS * self.slot_seconds, now)
            Checks(server, cluster.selector, past, self.slot_seconds).one_cluster()
        self._remember(cluster, slot)
        at = (now, now)
        sizes = cluster.node_sizes(at, 1)
        listed = cluster.pod_nodes(at, 1).join(cluster.finished(at, 1), on=[*POD, "uid"], how="anti")
        placed, twice = one_node_each(listed)
        if twice:  # one moment does not say where a pod was first
            seen = cluster.first_seen(now)
            placed, _ = one_node_each(listed.join(seen, on=[*POD, "node", "uid"], how="left", maintain_order="left"))
        usage = self._usage_between(cluster, at, self.window)
        if usage["mem"].count() and not usage["cpu"].count():
            raise InputError(
                f"{self.url}: usage of memory is recorded, but no rate of {CPU} over {self.window} s: make --window at "
                "least twice the scrape interval"
            )
        requests = cluster.requests(at, 1)
        owners = cluster.owners(now - self.window, now)
        pods = placed.select(*POD, "node", "uid").join(owners, on=POD, how="left").join(requests, on=POD, how="left")
        for *pod, node in placed.select(*POD, "node").iter_rows():
            self._where[pod[0], pod[1]] = node
        age = cluster.sample_age(now)
        if age is None and len(pods):
            raise InputError(
                f"{server.url}: {len(pods)} pods run, but {MEMORY} has no recent sample: check cAdvisor's job"
            )
        found = self._observed(now, slot, sizes, pods.sort(POD), usage, age or 0.0)
        doubts = _doubts(placed, twice, sizes, usage, requests)
        return replace(found, sample_age=found.sample_age + time.monotonic() - begin, doubts=doubts)

    def _remember(self, cluster: ClusterMetrics, slot: int) -> None:
        """Read the slots that have passed and are not known yet; forget the old ones."""
        first = slot - self.slots + 1
        self._past = {known: frame for known, frame in self._past.items() if known >= first}
        missing = [past for past in range(first, slot) if past not in self._past]
        for begin in range(0, len(missing), SLOTS_AT_A_TIME):
            self._remember_some(cluster, missing[begin : begin + SLOTS_AT_A_TIME])

    def _remember_some(self, cluster: ClusterMetrics, missing: list[int]) -> None:
        ends = ((missing[0] + 1) * self.slot_seconds, (missing[-1] + 1) * self.slot_seconds)
        frame = self._usage_between(cluster, ends, self.slot_seconds)
        number = (pl.col("time") // MICRO // self.slot_seconds - 1).alias("slot")
        found = {key[0]: one for key, one in frame.with_columns(number).partition_by("slot", as_dict=True).items()}
        for past in missing:
            self._past[past] = found.get(past, frame.head(0)).select(*POD, *RESOURCES)
        where, _ = one_node_each(cluster.pod_nodes(ends, self.slot_seconds, self.slot_seconds))
        for *pod, node in where.select(*POD, "node").iter_rows():
            self._where.setdefault((pod[0], pod[1]), node)

    def _usage_between(self, cluster: ClusterMetrics, span: tuple[int, int], window: int) -> pl.DataFrame:
        """Columns namespace, pod, time, cpu (cores) and mem (bytes), each averaged over `window` seconds; what is
        negative or absurd is left out."""
        step = max(window, 1) if span[0] != span[1] else 1
        return good_usage(cluster.usage(span, step, window))

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


def _doubts(
    placed: pl.DataFrame, twice: int, sizes: pl.DataFrame, usage: pl.DataFrame, requests: pl.DataFrame
) -> tuple[str, ...]:
    """Sentences about what cannot be true of the nodes now, and of pods, of which `twice` are on several."""
    where = placed.select(*POD, "node")
    asked = requests.rename({f"request_{name}": name for name in RESOURCES})
    found = [
        said(overfull(rows.join(where, on=POD), sizes), what)
        for what, rows in (("use", usage), ("are asked for", asked))
    ]
    if twice:
        pods = "1 pod stands" if twice == 1 else f"{twice} pods stand"
        found.append(f"{pods} on two nodes at a time: the node counts that was sampled last, then the newer one")
    return tuple(sentence for sentence in found if sentence)
