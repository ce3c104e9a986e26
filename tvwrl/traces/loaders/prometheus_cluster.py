"""The nodes of a Kubernetes cluster and the pods on them, as a Prometheus server has recorded them."""

from __future__ import annotations

from functools import reduce

import polars as pl

from tvwrl.traces.loaders.prometheus_api import Server
from tvwrl.types import InputError

POD_INFO = 'kube_pod_info{node!=""}'
SIZES = ("kube_node_status_allocatable", "kube_node_status_capacity")  # the first that is recorded
KINDS = {"cpu": "cpu", "mem": "memory"}  # our name of a resource -> that of Kubernetes

Span = tuple[int, int]  # first and last moment, seconds since 1970


def node_sizes(server: Server, span: Span, step: int) -> pl.DataFrame:
    """Columns node, cpu (cores) and mem (bytes): the most that pods could use of each node in a stretch of time.

    Raises InputError if no node has both.
    """
    for metric in SIZES:
        found = [
            server.table(f'max by (node) ({metric}{{resource="{kind}"}})', span, step, ("node",), name)
            .group_by("node")
            .agg(pl.col(name).max())
            for name, kind in KINDS.items()
        ]
        sizes = reduce(lambda one, other: one.join(other, on="node"), found).sort("node")
        usable = sizes.filter(pl.all_horizontal(pl.col(KINDS).is_finite() & (pl.col(KINDS) > 0)), pl.col("node") != "")
        if len(usable):
            return usable
    raise InputError(
        f"{server.url}: neither {' nor '.join(SIZES)} is recorded, so the size of the nodes is unknown: let "
        "Prometheus scrape kube-state-metrics"
    )


def pod_nodes(server: Server, span: Span, step: int, selector: str = "") -> pl.DataFrame:
    """Columns namespace, pod, node, uid and time (microseconds): where pods were at every moment of a stretch of time.

    `selector`: label matchers, as of the Prometheus loader
    """
    labels = ("namespace", "pod", "node", "uid")
    matchers = POD_INFO.removesuffix("}") + "".join(f",{part}" for part in [selector.strip(" {},")] if part) + "}"
    return server.table(f"max by ({', '.join(labels)}) ({matchers})", span, step, labels, "value").drop("value")
