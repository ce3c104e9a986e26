"""What is known of a cluster's past: its nodes, its pods, what they used, and how far that can be trusted.

Letters: N pods, M nodes, T slots of the record, D = 2 resources (cpu, mem). A share is one of the reference machine,
which has the CPU and the memory of the largest node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tvwrl.traces import overfull, said
from tvwrl.types import Float, InputError, Int, Strings

if TYPE_CHECKING:
    import polars as pl

RESOURCES = ("cpu", "mem")
DAY, HOUR = 86400, 3600  # seconds
AGAIN = "#"  # between the name of a pod that came back and its turn
LONGEST_GAP = 3600  # seconds without a sample after which a pod counts as a new one


@dataclass(frozen=True)
class Trust:
    """How far a record can be trusted: counts of pods, unless a field says otherwise.

    Parameters
    ----------
    pods : int
        Pods that are replayed.
    bound : int
        Pods of a DaemonSet, or static: they stay on their nodes.
    without_owner : int
        Pods whose owner is unknown.
    without_cpu_request, without_memory_request : int
        Replayed pods that declare none.
    restarts : int
        Pods that had run before, on another node or more than an hour earlier.
    at_start, at_end : int
        Pods that ran when the record began, and when it ended.
    unknown_node, unsized_node : int
        Pods that are left out, as their node, or its size, is unknown.
    left_out_share : float
        Share of all CPU used, 0 to 1, by pods that are left out.
    hole : int
        Slots in which nothing was recorded of any pod.
    filled : float
        Share of the slots of pods without a sample, 0 to 1; they have the value before.
    bad_rows : int
        Samples that could not be used.
    idle_nodes : int
        Nodes on which no pod ever ran.
    unsized_nodes : int
        Nodes whose size is unknown.
    container_restarts : int or None
        Restarts of containers of all pods: crashes, and kills for lack of memory; None: unknown.
    on_two_nodes : int
        Pods that were on two nodes at a time: the node that was sampled last counts.
    half_recorded, half_rows : int
        Pods that are left out, as either CPU or memory was never recorded, and their samples.
    resized_nodes : int
        Nodes that had several sizes, as where a machine was replaced: the largest counts.
    unsized : str
        Names of nodes whose size is unknown, the first few.
    overused, overasked : str
        A sentence about nodes that used, or were asked for, more than they have; "" for none.
    pools : tuple of (str, int, int)
        What was left out on purpose: its name, and numbers of nodes and of pods on them.

    Examples
    --------
    >>> read_csv_record(Path("usage.csv"), Path("nodes.csv"), 300).trust.idle_nodes  # doctest: +SKIP
    0
    """

    pods: int
    bound: int
    without_owner: int
    without_cpu_request: int
    without_memory_request: int
    restarts: int
    at_start: int
    at_end: int
    unknown_node: int
    unsized_node: int
    left_out_share: float
    hole: int
    filled: float
    bad_rows: int
    idle_nodes: int
    unsized_nodes: int
    container_restarts: int | None = None
    on_two_nodes: int = 0
    half_recorded: int = 0
    half_rows: int = 0
    resized_nodes: int = 0
    unsized: str = ""
    overused: str = ""
    overasked: str = ""
    pools: tuple[tuple[str, int, int], ...] = ()


_NO_TRUST = Trust(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0.0, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class Recorded:
    """A cluster's past: N pods on M nodes over T slots, with D = 2 resources.

    `read_csv_record` and `read_prometheus_record` make one. A share is one of the reference machine.

    Parameters
    ----------
    source : str
        A file or an address.
    origin : int
        Seconds since 1970 at which slot 0 begins.
    interval : int
        Length of a slot, seconds.
    slots : int
        T.
    reference : Float
        (D,) Cores and GiB of the reference machine, which has the CPU and the memory of the largest node.
    pod, owner : Strings
        (N,) Different names, with `#2` where a pod came back; and owners, "" where unknown.
    node : Int
        (N,) Where each pod ran, 0..M-1.
    start : Int
        (N,) Its first slot, 0..T-1.
    usage : tuple of Float
        N arrays (length, D) of shares, >= 0.
    request : Float
        (N, D) Shares, NaN where not declared.
    bound : array of bool
        (N,) True for a pod that belongs to its node, as those of a DaemonSet do.
    node_name : Strings
        (M,) Different names.
    size : Float
        (M, D) Shares, > 0.
    kind : Strings
        (M,) Such as m5.xlarge, "" where unknown.
    price : Float
        (M,) Of an hour, NaN where unknown.
    pools : tuple of tuples of str
        M, what a node can be left out by besides its name and kind.
    trust : Trust
        How far all this can be trusted.

    Examples
    --------
    >>> recorded = read_csv_record(Path("usage.csv"), Path("nodes.csv"), 300)  # doctest: +SKIP
    >>> recorded.size * recorded.reference  # cores, GiB  # doctest: +SKIP
    """

    source: str
    origin: int
    interval: int
    slots: int
    reference: Float
    pod: Strings
    owner: Strings
    node: Int
    start: Int
    usage: tuple[Float, ...]
    request: Float
    bound: npt.NDArray[np.bool_]
    node_name: Strings
    size: Float
    kind: Strings
    price: Float
    pools: tuple[tuple[str, ...], ...]
    trust: Trust

    def __len__(self) -> int:
        return len(self.pod)

    @property
    def length(self) -> Int:
        """(N,) slots that each pod ran."""
        return np.array([len(used) for used in self.usage], np.int64)

    @property
    def utilisation(self) -> Float:
        """(D,) mean share of all nodes that the pods used."""
        used: Float = np.sum([one.sum(axis=0) for one in self.usage], axis=0) / self.slots / self.size.sum(axis=0)
        return used

    @cached_property
    def background(self) -> Float:
        """(T, M, D) shares: load of the pods that stay on their nodes."""
        load = np.zeros((self.slots, *self.size.shape))
        for i in np.flatnonzero(self.bound):
            load[self.start[i] : self.start[i] + len(self.usage[i]), self.node[i]] += self.usage[i]
        return load

    def at(self, slot: int) -> int:
        """Tell when a slot begins.

        Parameters
        ----------
        slot : int
            From 0; T is the end of the record.

        Returns
        -------
        int
            Seconds since 1970.
        """
        return self.origin + slot * self.interval


def record_of(
    source: str, rows: pl.DataFrame, pods: pl.DataFrame, nodes: pl.DataFrame, interval: int, bad_rows: int = 0
) -> Recorded:
    """The record in three tables.

    `rows`: pod, slot (since 1970), cpu (cores), mem (GiB), node (null: unknown), one or more per pod and slot, in the
    order of time; of several nodes in a slot the last counts; where requests are known by time, request_cpu and
    request_mem, instead of those of `pods`: each run of a pod has the largest of its own
    `pods`: pod, owner ("": unknown), and unless `rows` have them request_cpu (cores) and request_mem (GiB), null where
    not declared
    `nodes`: node, cpu (cores), mem (GiB), and where known kind, price (of an hour) and pools (a list of names)
    `interval`: length of a slot, seconds

    Raises InputError if nothing is left to replay.
    """
    import polars as pl

    if rows.is_empty():
        raise InputError(f"{source}: no usage: nothing to replay")
    if "request_cpu" not in rows.columns:
        rows = rows.join(pods.select("pod", "request_cpu", "request_mem"), on="pod", how="left", maintain_order="left")
    runs = _runs(rows, max(LONGEST_GAP // interval, 1))
    ends = runs.group_by("run", maintain_order=True).agg(
        pl.col("pod", "node", "slot", "turn", "request_cpu", "request_mem").first(),
        pl.col("cpu").sum().alias("used"),
        pl.len().alias("samples"),
    )
    known = ends["node"].is_not_null().to_numpy()
    sized = known & ends["node"].is_in(nodes["node"].implode()).fill_null(False).to_numpy()
    if not sized.any():
        raise InputError(
            f"{source}: no pod is on a node whose size is known: the nodes of the pods and those with a size must have "
            f"the same names; of pods: {_some(rows['node'])}; with a size: {_some(nodes['node'])}"
        )
    kept = np.flatnonzero(sized)
    usage, filled = _filled(runs, ends, kept)
    mine = ends.join(pods.select("pod", "owner"), on="pod", how="left", maintain_order="left")[kept]
    recorded = _assembled(source, mine, usage, nodes.unique("node").sort("node"), (runs["slot"], interval))
    total = float(ends["used"].sum())
    facts: dict[str, Any] = {
        "restarts": int(((mine["turn"] > 1).to_numpy() & ~recorded.bound).sum()),
        "unknown_node": int((~known).sum()),
        "unsized_node": int((known & ~sized).sum()),
        "left_out_share": float(ends["used"].filter(~sized).sum()) / total if total > 0 else 0.0,
        "hole": recorded.slots - rows["slot"].n_unique(),
        "unsized_nodes": len(unsized := sorted(set(ends["node"].drop_nulls()) - set(nodes["node"]))),
        "unsized": _some(pl.Series(unsized, dtype=pl.String)) if unsized else "",
    }
    facts |= {"filled": filled, "bad_rows": bad_rows, "on_two_nodes": _on_two_nodes(rows)}
    return replace(recorded, trust=_trusted(recorded, facts | _overfull(rows, runs, nodes)))


def _on_two_nodes(rows: pl.DataFrame) -> int:
    """How many pods were on several nodes in one slot."""
    import polars as pl

    nodes = rows.drop_nulls("node").group_by("pod", "slot").agg(pl.col("node").n_unique())
    return int(nodes.filter(pl.col("node") > 1)["pod"].n_unique())


def _overfull(rows: pl.DataFrame, runs: pl.DataFrame, nodes: pl.DataFrame) -> dict[str, str]:
    """Sentences about nodes of which more is used, or requested, than they have."""
    import polars as pl

    here = rows.drop_nulls("node").group_by("pod", "slot", "node").agg(pl.col("cpu", "mem").mean())
    requests = runs.select("pod", "slot", cpu="request_cpu", mem="request_mem")
    asked = here.drop("cpu", "mem").join(requests, on=["pod", "slot"])
    return {
        "overused": said(overfull(here, nodes, "slot"), "use"),
        "overasked": said(overfull(asked, nodes, "slot"), "are asked for"),
    }


def _assembled(
    source: str, mine: pl.DataFrame, usage: list[Float], nodes: pl.DataFrame, clock: tuple[pl.Series, int]
) -> Recorded:
    """The record of runs of pods, a row of `mine` each, on `nodes` in the order of their names.

    `clock`: slots since 1970 of all samples, and the length of a slot in seconds
    """
    import polars as pl

    slots, interval = clock
    first, last = int(slots.min()), int(slots.max())  # type: ignore[arg-type]
    names, size = nodes["node"].to_numpy().astype(str), nodes.select("cpu", "mem").to_numpy()
    node, reference = np.searchsorted(names, mine["node"].to_numpy().astype(str)), size.max(axis=0)
    owners = mine["owner"].fill_null("")
    bound = [_is_bound(*one) for one in zip(mine["pod"], owners, names[node].tolist(), strict=True)]
    if all(bound):
        raise InputError(f"{source}: every pod belongs to its node (a DaemonSet, or static): nothing to replay")
    return Recorded(
        source,
        first * interval,
        interval,
        last - first + 1,
        reference,
        np.array(
            [name if turn == 1 else f"{name}{AGAIN}{turn}" for name, turn in mine.select("pod", "turn").rows()], object
        ),
        owners.to_numpy().astype(object),
        node.astype(np.int64),
        mine["slot"].to_numpy().astype(np.int64) - first,
        tuple(used / reference for used in usage),
        mine.select("request_cpu", "request_mem").cast(pl.Float64).to_numpy() / reference,
        np.array(bound, np.bool_),
        names.astype(object),
        size / reference,
        _optional(nodes, "kind", "").astype(object),
        _optional(nodes, "price", np.nan).astype(np.float64),
        tuple(tuple(names) for names in nodes["pools"].to_list()) if "pools" in nodes.columns else ((),) * len(nodes),
        _NO_TRUST,
    )


def _optional(nodes: pl.DataFrame, column: str, default: Any) -> npt.NDArray[Any]:
    """A column of a table of nodes that may be absent or have gaps."""
    if column not in nodes.columns:
        return np.full(len(nodes), default)
    return np.asarray(nodes[column].fill_null(default).to_numpy())


_COUNTED = (
    "pods", "bound", "without_owner", "without_cpu_request", "without_memory_request", "at_start", "at_end",
    "idle_nodes", "restarts",
)  # fmt: skip  # what `_trusted` finds in the record itself, and how many came back


def _trusted(recorded: Recorded, facts: Mapping[str, Any]) -> Trust:
    """How far a record can be trusted: what it shows itself, and `facts` of what is no longer in it."""
    free = ~recorded.bound
    start, missing = recorded.start[free], np.isnan(recorded.request[free]).sum(axis=0)
    return replace(
        _NO_TRUST,
        pods=int(free.sum()),
        bound=int(recorded.bound.sum()),
        without_owner=int((recorded.owner == "").sum()),
        without_cpu_request=int(missing[0]),
        without_memory_request=int(missing[1]),
        at_start=int((start == 0).sum()),
        at_end=int((start + recorded.length[free] == recorded.slots).sum()),
        idle_nodes=len(recorded.size) - len(np.unique(recorded.node)),
        **facts,
    )


def turn_of(pod: str) -> int:
    """Which run of a pod this is, from 1."""
    turn = pod.rpartition(AGAIN)[2]
    return int(turn) if AGAIN in pod and turn.isdecimal() else 1


def without_nodes(recorded: Recorded, gone: npt.NDArray[np.bool_], pools: Sequence[tuple[str, int, int]]) -> Recorded:
    """The record without some nodes (M,) and the pods on them; `pools`: as of `Trust`.

    Raises InputError if nothing is left to replay.
    """
    pods = np.flatnonzero(~gone[recorded.node])
    if recorded.bound[pods].all():
        raise InputError(
            f"{recorded.source}: no pod is left to replay without {', '.join(name for name, _, _ in pools)}: "
            "give fewer --excluded-nodes, or none"
        )
    kept = np.flatnonzero(~gone)
    left = replace(
        recorded,
        pod=recorded.pod[pods],
        owner=recorded.owner[pods],
        node=np.searchsorted(kept, recorded.node[pods]),
        start=recorded.start[pods],
        usage=tuple(recorded.usage[i] for i in pods),
        request=recorded.request[pods],
        bound=recorded.bound[pods],
        node_name=recorded.node_name[kept],
        size=recorded.size[kept],
        kind=recorded.kind[kept],
        price=recorded.price[kept],
        pools=tuple(recorded.pools[m] for m in kept),
    )
    before = asdict(recorded.trust)
    facts = {name: before[name] for name in before if before[name] and name not in _COUNTED}
    returned = [turn > 1 for turn in map(turn_of, left.pod)] & ~left.bound
    return replace(left, trust=_trusted(left, facts | {"restarts": int(returned.sum()), "pools": tuple(pools)}))


def trust_of(recorded: Recorded) -> Mapping[str, Any]:
    """`Trust` as plain numbers."""
    return asdict(recorded.trust)


def _runs(rows: pl.DataFrame, longest_gap: int) -> pl.DataFrame:
    """Rows by pod and slot with `run`, which counts on where a pod is on another node or was away, its `turn`, and the
    largest requests of the run."""
    import polars as pl

    requests = pl.col("request_cpu", "request_mem")
    one = rows.group_by("pod", "slot").agg(
        pl.col("cpu", "mem").mean(), pl.col("node").drop_nulls().last(), requests.max()
    )
    # Slots in which nothing was recorded of any pod are a hole in the record, and no pod was away in them.
    one = one.with_columns(pl.col("slot").rank("dense").cast(pl.Int64).alias("seen"))
    one = one.sort("pod", "slot").with_columns(pl.col("node").forward_fill().backward_fill().over("pod"))
    new = pl.col("pod") != pl.col("pod").shift()
    moved = pl.col("node").ne_missing(pl.col("node").shift())
    away = pl.col("seen") - pl.col("seen").shift() > 1 + longest_gap
    begins = (new | moved | away).fill_null(True)
    one = one.with_columns(begins.cum_sum().alias("run"), begins.cum_sum().over("pod").alias("turn"))
    return one.with_columns(requests.max().over("run"))


def _filled(runs: pl.DataFrame, ends: pl.DataFrame, kept: Int) -> tuple[list[Float], float]:
    """Usage (cores, GiB) of the runs at places `kept`; slots without a sample have the value before; their share."""
    run, slot = (runs[name].to_numpy().astype(np.int64) for name in ("run", "slot"))
    following = np.append(np.where(run[1:] == run[:-1], slot[1:] - slot[:-1], 1), 1)
    offsets = np.append(0, np.cumsum(ends["samples"].to_numpy().astype(np.int64)))
    used = runs.select("cpu", "mem").to_numpy()
    usage = [np.repeat(used[offsets[i] : offsets[i + 1]], following[offsets[i] : offsets[i + 1]], axis=0) for i in kept]
    slots = sum(len(one) for one in usage)
    samples = int((offsets[kept + 1] - offsets[kept]).sum())
    return usage, 1 - samples / slots


def _is_bound(pod: str, owner: str, node: str) -> bool:
    """Whether a pod belongs to its node: of a DaemonSet, or static, whose name ends with that of its node."""
    kinds = owner.casefold().split("/")
    return "daemonset" in kinds or ("pod" in kinds and pod.endswith(f"-{node}"))


def _some(names: pl.Series) -> str:
    listed = names.drop_nulls().unique().sort().to_list()
    return ", ".join(map(str, listed[:3])) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "") or "none"
