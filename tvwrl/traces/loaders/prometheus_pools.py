"""Kinds and pools of the nodes of a Kubernetes cluster, as a Prometheus server has recorded them."""

from __future__ import annotations

import polars as pl

from tvwrl.traces.loaders.prometheus_api import Server
from tvwrl.traces.prometheus_series import NODE_LABELS, NODE_ROLE, NODE_TAINT, SIZES, Selector

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
