"""A cluster's past from the Prometheus server that watched it; what was read is kept, so that nothing is read twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np

from tvwrl.checks import positive
from tvwrl.progress import Report, nothing
from tvwrl.runs import locked, whole_file
from tvwrl.traces import POD_INFO, Selector, address, data_folder, read_trace
from tvwrl.types import InputError
from tvwrl.what_if.recorded import DAY, Recorded, record_of

if TYPE_CHECKING:
    import polars as pl

    from tvwrl.traces import ClusterMetrics, Prometheus

GIB, MICRO = 2**30, 1_000_000
BAD_SHARE = 0.2  # of all samples that may be unusable: they are counted and left out


@dataclass(frozen=True)
class Asked:
    """What to read of a server."""

    url: str
    days: float = 7.0
    end: str | None = None  # 2026-01-31T12:00:00Z or seconds since 1970; None: the last midnight UTC
    interval: int = 300  # seconds
    selector: str = ""  # label matchers of the cluster, or of namespace and pod: see `Selector`
    chunk: float = 6.0  # hours per query
    timeout: float = 60.0  # of a request, seconds
    retries: int = 4
    folder: Path | None = None  # where to keep what was read; None: in the data folder


def read_prometheus_record(asked: Asked, report: Report = nothing) -> Recorded:
    """Read a cluster's past from the Prometheus server that watched it.

    It is read in chunks, which a stopped call leaves for the next one.

    Parameters
    ----------
    asked : Asked
        The server, and what to read of it.
    report : callable
        Gets a line as each step begins.

    Returns
    -------
    Recorded
        The record.

    Raises
    ------
    InputError
        With the URL, a server that cannot be reached, that has no usage, no `kube_pod_info` or no size of any node, or
        whose samples are mostly unusable.

    Examples
    --------
    >>> read_prometheus_record(Asked("http://prometheus:9090", days=1))  # doctest: +SKIP
    """
    from tvwrl.traces import ClusterMetrics, RetryPolicy, Server, node_pools

    positive(days=asked.days)
    url = address(asked.url)
    cluster = ClusterMetrics(Server(url, RetryPolicy(asked.retries + 1, asked.timeout)), Selector(asked.selector))
    loader = _settled(asked)
    span = int(loader.start or 0), int(loader.end or 0)
    coarse = max((span[1] - span[0]) // 24 // asked.interval, 1) * asked.interval
    moments = span[1] - (span[1] - span[0]) // coarse * coarse, span[1]
    sizes = cluster.node_sizes(moments, coarse)
    sizes = sizes.join(
        node_pools(cluster.server, cluster.selector, moments, coarse), on="node", how="left", maintain_order="left"
    )
    loader = replace(
        loader,
        reference_cores=float(np.max(sizes["cpu"].to_numpy())),
        reference_memory=float(np.max(sizes["mem"].to_numpy())) / GIB,
    )
    folder = asked.folder or data_folder() / "what-if" / _name(url, loader)
    folder /= _cluster(cluster, sizes, span[1])
    with locked(folder):
        report(f"reading usage from {url}; what was read is kept in {folder}")
        trace = _usage(loader, url, folder / "usage")
        missed = _half_recorded(cluster, span, asked, folder / "half-recorded").join(trace, on="pod", how="anti")
        report("reading where each pod ran")
        nodes, twice = _nodes(cluster, span, asked, folder / "nodes")
    recorded = _record(url, asked, trace, nodes, sizes, folder / "usage")
    resized, crashes = int(sizes["resized"].sum()), cluster.container_restarts(span)
    trust = replace(
        recorded.trust,
        container_restarts=crashes,
        on_two_nodes=twice,
        half_recorded=missed["pod"].n_unique(),
        half_rows=len(missed),
        resized_nodes=resized,
    )
    return replace(recorded, trust=trust)


def _settled(asked: Asked) -> Prometheus:
    """The loader with start and end as numbers."""
    from tvwrl.traces import Prometheus

    loader = Prometheus(
        end=asked.end,
        interval=asked.interval,
        selector=asked.selector,
        chunk=asked.chunk,
        timeout=asked.timeout,
        retries=asked.retries,
        reference_cores=1.0,
        reference_memory=1.0,
    )
    end = loader.last_moment(asked.url)
    return replace(loader, start=str(end - round(asked.days * DAY)), end=str(end)).at(asked.url)


def _name(url: str, loader: Prometheus) -> str:
    """A folder's name for what is read: the same for the same request."""
    digest = hashlib.sha256(
        f"{url} {loader.version} {replace(loader, timeout=60.0, retries=4)!r}".encode()
    ).hexdigest()[:12]
    return f"{urlsplit(url).hostname}-{loader.start}-{loader.end}-{digest}"


def _cluster(cluster: ClusterMetrics, sizes: pl.DataFrame, end: int) -> str:
    """A folder's name for the cluster that is behind an address now: another may have been there before, as with
    `kubectl port-forward`, or where a header says whose metrics are asked for.

    Of the pods, one at the end is enough, as uids are unique; others would differ where servers take turns to answer.
    """
    nodes = sizes.sort("node").select("node", "cpu", "mem").rows()
    one = cluster.pod_nodes((end, end), 1).select("uid", "namespace", "pod").sort("uid", "namespace", "pod").head(1)
    return hashlib.sha256(repr((nodes, one.rows())).encode()).hexdigest()[:12]


def _usage(loader: Prometheus, url: str, folder: Path) -> pl.DataFrame:
    """Rows pod, slot (since 1970), cpu (cores), mem (GiB) and facts pod, owner, request_cpu, request_mem of them."""
    from tvwrl.traces import SeriesRules, prepare

    if not folder.exists():
        rules = SeriesRules(loader.interval, gaps="drop", min_records=1)
        prepare(loader, url, folder, rules, BAD_SHARE, readers=2, plots=False, name="usage")
    import polars as pl

    trace, units = read_trace(folder), np.array([loader.reference_cores, loader.reference_memory], np.float64)
    origin = json.loads((folder / "report.json").read_text())["time"]["first"] // (loader.interval * MICRO)
    usage, request = trace.usage * units, trace.request * units
    facts = {
        "pod": trace.workload_id,
        "owner": trace.application,
        "request_cpu": request[:, 0],
        "request_mem": request[:, 1],
    }
    text = {"pod": pl.String, "owner": pl.String}
    pods = pl.DataFrame(facts, schema_overrides=text).fill_nan(None)
    rows = np.repeat(trace.workload_id, np.diff(trace.offsets))
    found = {"pod": rows, "slot": trace.slot + origin, "cpu": usage[:, 0], "mem": usage[:, 1]}
    return pl.DataFrame(found, schema_overrides={"pod": pl.String}).join(pods, on="pod", how="left")


def _nodes(cluster: ClusterMetrics, span: tuple[int, int], asked: Asked, folder: Path) -> tuple[pl.DataFrame, int]:
    """Rows pod, slot (since 1970) and node, and how many pods were on two nodes at a time."""
    import polars as pl

    from tvwrl.traces import POD, one_node_each

    found = _by_chunk(lambda chunk: cluster.pod_nodes(chunk, asked.interval, asked.interval), span, asked, folder)
    if found.is_empty():
        raise InputError(
            f"{cluster.server.url}: {POD_INFO} is not recorded, so it is unknown where pods ran: let Prometheus scrape "
            "kube-state-metrics"
        )
    each, twice = one_node_each(found)
    slot = pl.col("time") // (asked.interval * MICRO) - 1  # a sample ends its interval
    return each.select(pl.concat_str(POD, separator="/").alias("pod"), slot.alias("slot"), "node"), twice


def _half_recorded(cluster: ClusterMetrics, span: tuple[int, int], asked: Asked, folder: Path) -> pl.DataFrame:
    """The column pod, once for each sample of which CPU or memory is missing: prepared usage has both."""
    import polars as pl

    from tvwrl.traces import POD

    found = _by_chunk(lambda chunk: cluster.half_recorded(chunk, asked.interval), span, asked, folder)
    return found.select(pl.concat_str(POD, separator="/").alias("pod"))


def _by_chunk(
    read: Callable[[tuple[int, int]], pl.DataFrame], span: tuple[int, int], asked: Asked, folder: Path
) -> pl.DataFrame:
    """What `read` finds, chunk by chunk; finished chunks stay in `folder`."""
    import polars as pl

    parts = []
    for number, chunk in enumerate(_chunks(span, asked)):
        file = folder / f"{number:05d}.parquet"
        if not file.exists():
            with whole_file(file) as partial:
                read(chunk).write_parquet(partial)
        parts.append(pl.read_parquet(file))
    return pl.concat(parts)


def _chunks(span: tuple[int, int], asked: Asked) -> Iterator[tuple[int, int]]:
    """First and last moment of stretches that are asked for at once."""
    length = max(int(asked.chunk * 3600) // asked.interval, 1) * asked.interval
    for begin in range(span[0], span[1], length):
        yield begin + asked.interval, min(begin + length, span[1])


def _record(
    url: str, asked: Asked, usage: pl.DataFrame, nodes: pl.DataFrame, sizes: pl.DataFrame, folder: Path
) -> Recorded:
    import polars as pl

    rows = usage.join(nodes, on=["pod", "slot"], how="left")
    pods = usage.select("pod", "owner", "request_cpu", "request_mem").unique("pod")
    bad = sum(json.loads((folder / "report.json").read_text())["rows"]["bad"].values())
    sizes = sizes.select("node", "cpu", pl.col("mem") / GIB, "kind", pl.col("pools").fill_null([]))
    return record_of(url, rows.select("pod", "slot", "cpu", "mem", "node"), pods, sizes, asked.interval, bad)
