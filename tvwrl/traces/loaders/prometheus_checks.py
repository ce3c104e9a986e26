"""Whether what a Prometheus server has can be read as one cluster: what would mix or hide series is refused."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tvwrl.traces.loaders.prometheus_api import Server
from tvwrl.traces.loaders.prometheus_cluster import LOOKBACK, MICRO, POD, Span
from tvwrl.traces.prometheus_series import (
    CPU,
    NODE_INFO,
    OWNER,
    PHASE,
    POD_INFO,
    REQUESTS,
    SIZES,
    WHERE,
    Selector,
)
from tvwrl.types import InputError

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
        self._refuse_renamed()
        self._refuse_hidden()
        labels = sorted({label for metric in SIZES for label in self._cluster_labels(metric)})
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
            self._warn_of_several(label)

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

    def _refuse_renamed(self) -> None:
        renamed = [self.selector.series(POD_INFO, f'exported_{label}!=""') for label in ("namespace", "pod", "node")]
        if len(self._table(f"count({' or '.join(renamed)})", (), "n")):
            raise InputError(
                f"{self.server.url}: {POD_INFO} has its pods or nodes in labels that begin with exported_, as the job "
                "that scrapes kube-state-metrics sets such labels itself: set honor_labels: true in that job"
            )

    def _refuse_hidden(self) -> None:
        """Refuse a selector by a label that some of the metrics lack: those would look as if not recorded."""
        for label in self.selector.cluster_labels:
            for metric in (CPU, POD_INFO, OWNER, REQUESTS, PHASE, SIZES[0]):
                if self._is_there(metric) and not self._is_there(f'{metric}{{{label}!=""}}'):
                    raise InputError(
                        f"{self.server.url}: selector is {self.selector.text!r}: {metric} has no label {label}, so it "
                        "would be hidden; needed: a label that all metrics have, such as an external label"
                    )

    def _cluster_labels(self, metric: str) -> list[str]:
        """Labels of a metric by which clusters are told apart."""
        asked = {"match[]": self.selector.series(metric), "start": self.span[0], "end": self.span[1]}
        names = [name for name in self.server.get("labels", asked) if isinstance(name, str)]
        return [name for name in names if "cluster" in name.lower() or name.lower() in PLACES]

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

    def _warn_of_several(self, label: str) -> None:
        values: set[str] = set()
        for metric in SIZES:
            found = self._table(f"count by ({label}) ({self.selector.series(metric)})", (label,), "n")
            values |= {value for value in found[label].to_list() if value}
        if len(values) > 1:
            listed = sorted(values)
            warnings.warn(
                f"{self.server.url}: nodes of {len(values)} values of {label} are read as one cluster: "
                f"{_listed(listed)}; --selector '{label}=\"{listed[0]}\"' reads one of them",
                stacklevel=4,
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
