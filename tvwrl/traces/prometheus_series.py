"""Names of the metrics that describe a Kubernetes cluster, and which of their series are looked at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tvwrl.types import InputError

CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
REQUESTS, INIT_REQUESTS = "kube_pod_container_resource_requests", "kube_pod_init_container_resource_requests"
INIT_INFO, SCHEDULER_REQUESTS = "kube_pod_init_container_info", "kube_pod_resource_request"
OVERHEAD = {"cpu": "kube_pod_overhead_cpu_cores", "memory": "kube_pod_overhead_memory_bytes"}
OWNER, POD_INFO, NODE_INFO, PHASE = "kube_pod_owner", "kube_pod_info", "kube_node_info", "kube_pod_status_phase"
RESTARTS = "kube_pod_container_status_restarts_total"
SIZES = ("kube_node_status_allocatable", "kube_node_status_capacity")  # the first that is recorded
OF_POOLS = NODE_LABELS, NODE_ROLE, NODE_TAINT = "kube_node_labels", "kube_node_role", "kube_node_spec_taint"


_RESOURCES = 'resource=~"cpu|memory"'
_CONTAINERS = 'namespace!="",pod!="",container!="",container!="POD"'  # not the sum over a pod, nor its pause container
WHOLE_POD = 'namespace!="",pod!="",container=~"|POD"'  # the others: they are there as long as the pod is
WHERE = {
    **dict.fromkeys((CPU, MEMORY), _CONTAINERS),
    **dict.fromkeys((REQUESTS, INIT_REQUESTS), _RESOURCES),
    SCHEDULER_REQUESTS: f'{_RESOURCES},exported_pod=""',
    OWNER: 'owner_is_controller!="false"',
    POD_INFO: 'node!=""',
    PHASE: 'phase=~"Succeeded|Failed"',
}
_OF_NODES = {*SIZES, *OF_POOLS, NODE_INFO, "machine_cpu_cores", "machine_memory_bytes"}  # without namespace and pod

_MATCHER = re.compile(
    r"""\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)\s*(?:,|$)"""
)


@dataclass(frozen=True)
class Selector:
    """Which series belong to a cluster: label matchers in PromQL, such as `cluster="a",namespace=~"shop.*"`."""

    text: str = ""
    of_pods: ClassVar[tuple[str, ...]] = ("namespace", "pod")  # labels that series of nodes do not have

    @cached_property
    def _matchers(self) -> list[tuple[str, str]]:
        """Label and matcher. Raises InputError for a text that has no matchers."""
        text, found, at = self.text.strip().removeprefix("{").removesuffix("}").strip(), [], 0
        while at < len(text):
            match = _MATCHER.match(text, at)
            if match is None:
                raise InputError(
                    f"selector is {self.text!r}: wrong from {text[at : at + 40]!r} on; needed: label matchers such as "
                    """cluster="a",namespace=~"shop.*", quoted for the shell: --selector 'cluster="a"'"""
                )
            if match[1] == "container":
                raise InputError(
                    f"selector is {self.text!r}: container chooses parts of pods; needed: labels of whole pods, "
                    "or of the cluster"
                )
            found.append((match[1], match[0].strip().rstrip(",").strip()))
            at = match.end()
        return found

    def check(self) -> None:
        """Raise InputError for a text that has no matchers."""
        self._matchers  # noqa: B018 raises

    @property
    def pod_labels(self) -> list[str]:
        """Matchers of labels that only series of pods have."""
        return [matcher for label, matcher in self._matchers if label in self.of_pods]

    @property
    def cluster_labels(self) -> list[str]:
        """Labels, of which all metrics need one, by which the cluster is chosen."""
        positive = [
            label for label, matcher in self._matchers if not matcher.removeprefix(label).lstrip().startswith("!")
        ]
        return [label for label in dict.fromkeys(positive) if label not in self.of_pods]

    def series(self, metric: str, where: str | None = None) -> str:
        """The selector of a metric's series; `where`: its own matchers, default: those that it always has."""
        mine = [m for label, m in self._matchers if metric not in _OF_NODES or label not in self.of_pods]
        listed = ",".join(filter(None, (WHERE.get(metric, "") if where is None else where, *mine)))
        return f"{metric}{{{listed}}}" if listed else metric
