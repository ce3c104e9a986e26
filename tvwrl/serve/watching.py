"""What a cluster looks like now and looked like in the last slots, as Prometheus has it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.serve.sharing import go_last, receive, return_memory, send
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
from tvwrl.types import Float, InputError, Int

if TYPE_CHECKING:
    import polars as pl

RESOURCES = ("cpu", "mem")  # cores, bytes
SLOTS_AT_A_TIME = 6  # in a query: an answer on 10,000 pods takes memory that is never given back
MOMENTS = 24  # slots looked at to see whether names stand for several pods or nodes
MOST_FORGOTTEN = 10_000  # pods that have a number and are not known any more, beside as many as are
RESTART_SECONDS = 5.0  # before a process that reads metrics and died is started again


@dataclass(frozen=True, eq=False)
class Observed:
    """What was seen of a cluster: M nodes, N pods of which the first `running` still run, H slots."""

    time: float  # seconds since 1970, by the clock of Prometheus
    sample_age: float  # seconds since the newest sample of usage, >= 0
    slot: int  # number of the current slot since 1970
    nodes: tuple[str, ...]  # (M,)
    capacity: Float  # (M, 2) cores and bytes that pods can use, > 0
    pods: tuple[str, ...]  # (N,) "namespace/name"
    uid: tuple[str, ...]  # (N,) of those that run, as Kubernetes has it; "": not known
    running: int  # 0..N
    node: Int  # (N,) 0..M - 1, -1: not known
    owner: tuple[str, ...]  # (N,) see `owner_of`; "": not known
    request: Float  # (N, 2) cores and bytes, NaN: none
    usage: Float  # (N, H, 2) cores and bytes in each slot, the current one last; NaN: not recorded
    doubts: tuple[str, ...] = ()  # sentences about what cannot be true of nodes and pods

    def runs(self, pods: Mapping[str, str]) -> dict[str, int]:
        """Which of some pods (uid -> "namespace/name") run: uid -> row. A namesake with another uid is another pod."""
        rows = {self.pods[i]: i for i in range(self.running)}
        found = {uid: rows.get(name, -1) for uid, name in pods.items()}
        return {uid: i for uid, i in found.items() if i >= 0 and self.uid[i] in ("", uid)}


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
    _past: dict[int, tuple[Int, Float]] = field(default_factory=dict)  # slot -> numbers of pods (n,), usage (n, 2)
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)  # pod -> 0, 1, ... in the order of the dict
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
        where = placed.select(*POD, "node")
        asked = requests.rename({f"request_{name}": name for name in RESOURCES})
        doubts = [
            said(overfull(rows.join(where, on=POD), sizes), what)
            for what, rows in (("use", usage), ("are asked for", asked))
        ]
        if twice:
            several = "1 pod stands" if twice == 1 else f"{twice} pods stand"
            doubts.append(
                f"{several} on two nodes at a time: the node counts that was sampled last, then the newer one"
            )
        age = found.sample_age + time.monotonic() - begin
        return replace(found, sample_age=age, doubts=tuple(filter(None, doubts)))

    def _remember(self, cluster: ClusterMetrics, slot: int) -> None:
        """Read the slots that have passed and are not known yet; forget the old ones."""
        import polars as pl

        first = slot - self.slots + 1
        self._past = {known: frame for known, frame in self._past.items() if known >= first}
        missing = [past for past in range(first, slot) if past not in self._past]
        for begin in range(0, len(missing), SLOTS_AT_A_TIME):
            some = missing[begin : begin + SLOTS_AT_A_TIME]
            ends = ((some[0] + 1) * self.slot_seconds, (some[-1] + 1) * self.slot_seconds)
            frame = self._usage_between(cluster, ends, self.slot_seconds)
            number = (pl.col("time") // MICRO // self.slot_seconds - 1).alias("slot")
            found = {key[0]: one for key, one in frame.with_columns(number).partition_by("slot", as_dict=True).items()}
            for past in some:
                self._past[past] = self._numbered(found.get(past, frame.head(0)))
            where, _ = one_node_each(cluster.pod_nodes(ends, self.slot_seconds, self.slot_seconds))
            for *pod, node in where.select(*POD, "node").iter_rows():
                self._where.setdefault((pod[0], pod[1]), node)

    def _numbers_of(self, table: pl.DataFrame) -> Int:
        """(n,) numbers of the pods of a table; new ones get theirs."""
        numbers, pods = self._numbers, table.select(POD).iter_rows()
        return np.fromiter((numbers.setdefault(pod, len(numbers)) for pod in pods), np.int64, len(table))

    def _numbered(self, usage: pl.DataFrame) -> tuple[Int, Float]:
        """The pods of a table, and what they use: smaller than the table, as names are kept once."""
        return self._numbers_of(usage), usage.select(RESOURCES).to_numpy()

    def _forget_numbers(self) -> None:
        """Number anew the pods that are still known, once most are not."""
        known = np.unique(np.concatenate([np.zeros(0, np.int64), *(numbers for numbers, _ in self._past.values())]))
        if len(self._numbers) <= 2 * len(known) + MOST_FORGOTTEN:
            return
        pod_of = list(self._numbers)
        self._numbers = {pod_of[number]: i for i, number in enumerate(known.tolist())}
        self._past = {slot: (np.searchsorted(known, numbers), usage) for slot, (numbers, usage) in self._past.items()}

    def _usage_between(self, cluster: ClusterMetrics, span: tuple[int, int], window: int) -> pl.DataFrame:
        """Columns namespace, pod, time, cpu (cores) and mem (bytes), each averaged over `window` seconds; what is
        negative or absurd is left out."""
        step = max(window, 1) if span[0] != span[1] else 1
        return good_usage(cluster.usage(span, step, window))

    def _observed(
        self, now: int, slot: int, sizes: pl.DataFrame, pods: pl.DataFrame, usage: pl.DataFrame, age: float
    ) -> Observed:
        """What was read, in arrays: the pods that run, then those that ended in the last slots."""
        columns = [self._past[past] for past in range(slot - self.slots + 1, slot)] + [self._numbered(usage)]
        running = self._numbers_of(pods)
        pod_of = list(self._numbers)
        known = np.fromiter((pod in self._where for pod in pod_of), np.bool_, len(pod_of))
        row = np.full(len(pod_of), -1)
        order = [running, *(numbers[known[numbers]] for numbers, _ in columns[:-1])]
        numbers, first = np.unique(np.concatenate(order), return_index=True)
        row[numbers[np.argsort(first)]] = np.arange(len(numbers))  # those that run, then others by when they were seen
        place = [pod_of[number] for number in np.concatenate(order)[np.sort(first)].tolist()]
        self._where = {pod: self._where[pod] for pod in place if pod in self._where}
        values: Float = np.full((len(place), self.slots, len(RESOURCES)), np.nan)
        for column, (numbers, amounts) in enumerate(columns):
            there = row[numbers] >= 0
            values[row[numbers[there]], column] = amounts[there]
        values[len(running) :, -1] = np.nan  # what has ended uses nothing, whatever its last samples say
        self._forget_numbers()
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


class Polling:
    """Looks at the cluster in a process of its own, so that parsing metrics never delays an answer.

    Calls `arrived` with what `prepare` made of what was observed, every `seconds`, and `failed` with why there is
    nothing, in a thread. The process begins at once: see `_begin`."""

    def __init__(
        self,
        watcher: dict[str, object],
        prepare: Callable[[Observed], Any],
        seconds: float,
        arrived: Callable[[Any], None],
        failed: Callable[[str], None],
    ) -> None:
        self._looking = watcher, prepare, seconds
        self._arrived, self._failed = arrived, failed
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="polling", daemon=True)
        self._reader: tuple[BaseProcess, Connection] | None = self._begin()

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """End the polling process; waits at most a second for it."""
        self._stopped.set()
        self._thread.join(timeout=1.0)

    def _begin(self) -> tuple[BaseProcess, Connection]:
        """Start a process and connect with it.

        A fork shares all memory that is in use now and does not change. It copies no threads, so locks that they hold
        would never be released: after there are some, the process starts from nothing.
        """
        alone = threading.active_count() == 1 and "polars" not in sys.modules  # which has threads of its own
        kind = "fork" if alone and hasattr(os, "fork") else "spawn"
        context: Any = multiprocessing.get_context(kind)
        ours, theirs = context.Pipe(duplex=False)
        inherited = ours if kind == "fork" else None
        process = context.Process(target=poll, args=(*self._looking, theirs, inherited), daemon=True)
        try:
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return process, ours

    def _listen(self) -> None:
        while not self._stopped.is_set():
            try:
                process, ours = self._reader or self._begin()
            except Exception as error:
                self._failed(f"the process that reads metrics did not start: {error!r}")
                self._stopped.wait(RESTART_SECONDS)
                continue
            try:
                while not self._stopped.is_set():
                    if not ours.poll(0.2):
                        continue
                    found = receive(ours)
                    if isinstance(found, str):
                        self._failed(found)
                    else:
                        self._arrived(found)
            except Exception as error:  # it ended, perhaps in the middle of what it sent
                if not self._stopped.is_set():
                    self._failed(f"the process that reads metrics ended: {error!r}")
            finally:
                process.kill()
                process.join()
                ours.close()
                self._reader = None
            self._stopped.wait(RESTART_SECONDS)


def poll(
    options: dict[str, object],
    prepare: Callable[[Observed], object],
    seconds: float,
    pipe: Connection,
    inherited: Connection | None,
) -> None:
    """Send what `prepare` makes of what is observed, or why nothing was, down `pipe`, until nobody reads it.

    `inherited`: the other end of the pipe in a forked process, which would seem to be read as long as it is open
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if inherited is not None:
        inherited.close()
    return_memory()
    go_last()
    watcher = Watcher(**options)  # type: ignore[arg-type]
    while True:
        begin = time.monotonic()
        found: Any
        try:
            found = prepare(watcher.read())
        except InputError as error:
            found = str(error)
        except Exception as error:  # whatever a broken server leads to: the next attempt may succeed
            found = f"{type(error).__name__}: {error}"
        try:
            send(pipe, found)
        except OSError:
            return
        del found
        time.sleep(max(0.0, seconds - (time.monotonic() - begin)))
