"""What happens in real clusters, as a real Prometheus server has recorded it: everything counts once.

Each case is a cluster of its own on one server, told apart by the label `cluster`, and is there at two scrape
intervals. It is read as `tvwrl prepare`, `what-if` and `serve` read it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.traces.loaders.prometheus.conftest import GIB, HOUR, T0, facts, prometheus_with, run
from tvwrl.serve.kubernetes import read_arguments
from tvwrl.serve.options import ServeSettings
from tvwrl.serve.watching import Watcher
from tvwrl.traces.loaders import prometheus_api
from tvwrl.traces.loaders.prometheus import Prometheus
from tvwrl.traces.prometheus_series import CPU, INIT_INFO, INIT_REQUESTS, MEMORY, OVERHEAD, OWNER, REQUESTS, SIZES
from tvwrl.types import InputError
from tvwrl.what_if import Recorded
from tvwrl.what_if.from_prometheus import Asked, read_prometheus_record

SCRAPES = (15, 60)  # seconds
SPAN = 2 * HOUR
RESTART = HOUR + 2 * 60 + 7  # seconds after T0
Lines = Iterator[str]


def line(metric: str, value: Any, t: float, **labels: Any) -> str:
    listed = ",".join(f'{name}="{text}"' for name, text in labels.items() if text is not None)
    return f"{metric}{{{listed}}} {value} {T0 + t}"


class Scene:
    """Samples of one cluster, scraped every `step` seconds."""

    def __init__(self, cluster: str, step: int) -> None:
        self.cluster, self.step, self.lines = f"{cluster}-{step}", step, list[str]()

    def gauge(self, metric: str, value: Any, first: float = 0, last: float = SPAN, **labels: Any) -> None:
        for t in range(int(first), int(last) + 1, self.step):
            self.lines.append(line(metric, value, t, **{"cluster": self.cluster, **labels}))

    def node(
        self, name: str, cores: float = 8, gib: float = 32, first: float = 0, last: float = SPAN, **more: Any
    ) -> None:
        for kind, size in (("cpu", cores), ("memory", gib * GIB)):
            self.gauge(SIZES[0], size, first, last, node=name, resource=kind, **more)

    def pod(self, name: str, node: str, first: float = 0, last: float = SPAN, **more: Any) -> None:
        """What kube-state-metrics says of a pod of a StatefulSet, but for requests."""
        known = {"namespace": "prod", "pod": name, "job": "ksm", "uid": f"u-{name}", **more}
        self.gauge("kube_pod_info", 1, first, last, node=node, **known)
        owner = {"owner_kind": "StatefulSet", "owner_name": "db", "owner_is_controller": "true"}
        self.gauge(OWNER, 1, first, last, **known, **owner)

    def uses(self, pod: str, cores: float, gib: float, first: float = 0, last: float = SPAN, **labels: Any) -> None:
        """What cAdvisor says of a container, and nothing of the pod as a whole."""
        named = {"namespace": "prod", "pod": pod, "container": "app", "job": "cadvisor", "cluster": self.cluster}
        named |= {"id": f"/kubepods/{pod}/1", **labels}
        for t in range(int(first), int(last) + 1, self.step):
            self.lines.append(line(CPU, repr(cores * (t - first)), t, **named))
            self.lines.append(line(MEMORY, int(gib * GIB), t, **named))

    def requests(self, pod: str, cores: float, gib: float, first: float = 0, last: float = SPAN, **labels: Any) -> None:
        named = {"namespace": "prod", "pod": pod, "container": "app", "job": "ksm", **labels}
        self.gauge(REQUESTS, cores, first, last, resource="cpu", **named)
        self.gauge(REQUESTS, int(gib * GIB), first, last, resource="memory", **named)


ALL = 'cluster!~"foreign.*"'
CASES: dict[str, Callable[[Scene], None]] = {}


def case(make: Callable[[Scene], None]) -> Callable[[Scene], None]:
    CASES[make.__name__.strip("_")] = make
    return make


def plain(scene: Scene, pod: str = "db-0") -> None:
    """Two nodes, and a pod that requests 2 cores and 10 GiB."""
    scene.node("n1")
    scene.node("n2")
    scene.pod(pod, "n1")
    scene.requests(pod, 2, 10)


@case
def restarted(scene: Scene) -> None:
    plain(scene)
    scene.uses("db-0", 1, 9, last=RESTART)
    scene.uses("db-0", 1, 9, first=RESTART + 5, id="/kubepods/db-0/2")


@case
def restarted_beside_a_sidecar(scene: Scene) -> None:
    restarted(scene)
    scene.uses("db-0", 0.5, 1, container="proxy", id="/kubepods/db-0/3")


@case
def crashing(scene: Scene) -> None:
    """Started anew every 90 s from RESTART on: each time it grows to 2 GiB."""
    plain(scene)
    scene.uses("db-0", 1, 2, last=RESTART)
    for number in range(30):
        begin = RESTART + 5 + 90 * number
        scene.uses("db-0", 1, 2, first=begin, last=begin + 80, id=f"/kubepods/db-0/{number + 2}")


@case
def two_jobs(scene: Scene) -> None:
    """Everything is scraped by two jobs; the second drops the ids of containers. The container restarts, too."""
    scene.pod("db-0", "n1", job="ksm-2")
    scene.requests("db-0", 2, 10, job="ksm-2")
    for node in ("n1", "n2"):
        scene.node(node, job="ksm-2")
    restarted(scene)
    scene.uses("db-0", 1, 9, job="cadvisor-2", id=None, instance="n1:10250")


@case
def two_replicas(scene: Scene) -> None:
    """Two Prometheus servers with labels of their own, side by side, as an undeduplicated Thanos shows them."""
    for replica in ("a", "b"):
        mine = Scene("", scene.step)
        mine.cluster = scene.cluster
        restarted(mine)
        scene.lines += [one.replace("{", f'{{prometheus_replica="{replica}",', 1) for one in mine.lines]


@case
def moved_exporter(scene: Scene) -> None:
    """kube-state-metrics has another address for one moment, and its old series linger."""
    plain(scene)
    scene.pod("db-0", "n1", first=HOUR, last=HOUR + 60, instance="10.0.0.2:8080")
    scene.requests("db-0", 2, 10, first=HOUR, last=HOUR + 60, instance="10.0.0.2:8080")
    scene.uses("db-0", 1, 9)


@case
def init_container(scene: Scene) -> None:
    """An init container uses 9 GiB for ten minutes, then the container does. The pod as a whole is sampled, too."""
    plain(scene)
    scene.uses("db-0", 1, 9, last=600, container="prepare", id="/kubepods/db-0/0")
    scene.uses("db-0", 1, 9, first=600 + scene.step)
    scene.uses("db-0", 1, 9, container=None, id="/kubepods/db-0")
    scene.uses("db-0", 0, 0.001, container="POD", id="/kubepods/db-0/pause")


@case
def two_nodes(scene: Scene) -> None:
    """The pod was deleted on n1 and made anew on n2, while what is known of n1 lingers for two minutes."""
    for node in ("n1", "n2"):
        scene.node(node)
    scene.pod("db-0", "n1", last=HOUR + 120, uid="old", instance="old:8080")
    scene.pod("db-0", "n2", first=HOUR + scene.step, uid="new")
    scene.requests("db-0", 2, 10)
    scene.uses("db-0", 1, 9, last=HOUR)
    scene.uses("db-0", 1, 9, first=HOUR + 5, id="/kubepods/db-0/2")


@case
def gaps(scene: Scene) -> None:
    """NaN and +Inf for a while, as other servers give where there is no sample."""
    plain(scene)
    scene.uses("db-0", 1, 9, last=HOUR)
    for value, first in (("NaN", HOUR), ("+Inf", HOUR + 600)):
        named = {"namespace": "prod", "pod": "db-0", "container": "app", "job": "cadvisor", "id": "/kubepods/db-0/1"}
        scene.gauge(MEMORY, value, first + scene.step, first + 599, **named)
    scene.uses("db-0", 1, 9, first=HOUR + 1200)


@case
def too_much(scene: Scene) -> None:
    """The same container under two names: nobody can know that it is one."""
    scene.node("n1", cores=8, gib=32)
    scene.pod("db-0", "n1")
    for name in ("app", "app-again"):
        scene.uses("db-0", 1, 20, container=name)
        scene.requests("db-0", 5, 20, container=name)


@case
def resized(scene: Scene) -> None:
    """Another, larger machine under the name of n2."""
    scene.node("n1")
    scene.node("n2", last=HOUR)
    scene.node("n2", cores=16, first=HOUR + scene.step)
    scene.pod("db-0", "n1")
    scene.requests("db-0", 2, 10)
    scene.uses("db-0", 1, 9)


def foreign(scene: Scene) -> None:
    """kube-state-metrics was scraped without honor_labels."""
    scene.node("n1")
    known = {"namespace": "monitoring", "pod": "ksm-0", "exported_namespace": "prod", "exported_pod": "db-0"}
    scene.gauge("kube_pod_info", 1, node="n1", **known)
    scene.uses("db-0", 1, 9)


SPECS: dict[str, dict[str, Any]] = {  # pods as their makers wrote them: containers, init containers, overhead
    "plain": {"containers": [("500m", "1Gi"), ("250m", None)]},
    "sidecar": {"containers": [("1", "1Gi")], "initContainers": [("500m", "2Gi", "Always")]},
    "step": {"containers": [("1", "1Gi")], "initContainers": [("3", "512Mi", None)]},
    "both": {"containers": [("1", "1Gi")], "initContainers": [("500m", "1Gi", "Always"), ("2", "4Gi", None)]},
    "overhead": {"containers": [("1", None)], "overhead": {"cpu": "250m", "memory": "120Mi"}},
    "only-overhead": {"containers": [(None, None)], "overhead": {"cpu": "250m"}},
    "nothing": {"containers": [(None, None)]},
    "whole": {"containers": [("1", "1Gi")], "resources": {"requests": {"cpu": "3"}}},
}
UNITS = {"m": 1e-3, "Mi": 2**20, "Gi": 2**30}


def amount(text: str) -> float:
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    return float(text.removesuffix(unit)) * UNITS.get(unit, 1)


def spec_of(short: dict[str, Any]) -> dict[str, Any]:
    """`spec` of the pod."""

    def container(cpu: str | None, memory: str | None, policy: str | None = None) -> dict[str, Any]:
        asked = {kind: text for kind, text in (("cpu", cpu), ("memory", memory)) if text}
        return {"resources": {"requests": asked}} | ({"restartPolicy": policy} if policy else {})

    lists = {name: [container(*one) for one in short.get(name, ())] for name in ("containers", "initContainers")}
    return short | lists


@case
def requested(scene: Scene) -> None:
    """The pods of SPECS, as kube-state-metrics and kube-scheduler show them."""
    scene.node("n1", cores=64, gib=256)
    for name, short in SPECS.items():
        scene.pod(name, "n1")
        scene.uses(name, 0.1, 0.1)
        for kind, metric in (("containers", REQUESTS), ("initContainers", INIT_REQUESTS)):
            for number, (cpu, memory, *policy) in enumerate(short.get(kind, ())):
                named = {"namespace": "prod", "pod": name, "container": f"{kind}-{number}".lower()}
                for resource, text in (("cpu", cpu), ("memory", memory)):
                    if text:
                        scene.gauge(metric, amount(text), resource=resource, **named)
                if policy:
                    scene.gauge(INIT_INFO, 1, restart_policy=policy[0] or "", **named)
        for resource, text in short.get("overhead", {}).items():
            scene.gauge(OVERHEAD[resource], amount(text), namespace="prod", pod=name)
    # Only the scheduler knows the resources of a whole pod. Scraped without honor_labels, it says nothing of a pod.
    scene.gauge("kube_pod_resource_request", 3, namespace="prod", pod="whole", resource="cpu", unit="cores")
    other = {"namespace": "prod", "pod": "plain", "exported_namespace": "kube-system", "exported_pod": "x"}
    scene.gauge("kube_pod_resource_request", 50, resource="cpu", **other)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    def lines() -> Lines:
        for step in SCRAPES:
            for name, make in (CASES | {"foreign": foreign}).items():
                scene = Scene(name.replace("_", "-"), step)
                make(scene)
                yield from scene.lines

    with prometheus_with(lines(), tmp_path_factory.mktemp("clusters")) as address:
        yield address


@pytest.fixture(params=SCRAPES)
def scrape(request: pytest.FixtureRequest) -> int:
    return int(request.param)


class Reader:
    """Reads one of the clusters in the three ways."""

    def __init__(self, url: str, cluster: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url, self.selector, self.folder, self._patch = url, f'cluster="{cluster}"', folder, monkeypatch

    def trace(self, **more: Any) -> tuple[Any, Any]:
        loader = Prometheus(start=str(T0), end=str(T0 + SPAN), **{"selector": self.selector, **more})
        return run(self.url, self.folder / "trace", loader)

    def record(self, **more: Any) -> Recorded:
        asked = {"days": SPAN / 86400, "end": str(T0 + SPAN), "folder": self.folder / "kept", "retries": 0}
        return read_prometheus_record(Asked(self.url, **{"selector": self.selector, **asked, **more}))

    def observed(self, at: int) -> Any:
        """What serve sees `at` seconds after T0."""
        self._patch.setattr(prometheus_api.Server, "clock", lambda server: T0 + at)
        return Watcher(self.url, 1800, 2, selector=self.selector).read()

    def usage(self, **more: Any) -> np.ndarray:
        """(slots, 2) cores and GiB of the one pod, as prepare reads it."""
        trace, _ = self.trace(**more)
        return np.asarray(trace.series(0) * [trace.reference_machine["cpu_cores"], trace.reference_machine["mem_gib"]])


@pytest.fixture
def read(real: str, scrape: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Reader]:
    return lambda name: Reader(real, f"{name.replace('_', '-')}-{scrape}", tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ["restarted", "two_jobs", "two_replicas", "moved_exporter", "init_container"])
def test_a_container_counts_once(read: Callable[[str], Reader], name: str) -> None:
    """9 GiB and 1 core all the time, of which a request of 2 cores and 10 GiB; a restart costs a sample or two."""
    reader = read(name)
    usage = reader.usage()
    np.testing.assert_allclose(usage[:, 1], 9, rtol=1e-6)
    assert len(usage) == SPAN // 300
    np.testing.assert_allclose(usage[:, 0], 1, atol=0.25)
    np.testing.assert_allclose(np.median(usage[:, 0]), 1, atol=1e-6)
    found = reader.record()
    np.testing.assert_allclose(found.usage[0] * found.reference, usage, rtol=1e-6)
    np.testing.assert_allclose(found.request * found.reference, [[2, 10]], rtol=1e-6)
    assert (found.trust.overused, found.trust.overasked, found.trust.on_two_nodes) == ("", "", 0)
    for at in (RESTART + 60, RESTART + 100, RESTART + 290):
        seen = reader.observed(at)
        np.testing.assert_allclose(seen.usage[0, :, 1], 9 * GIB, rtol=1e-6)
        np.testing.assert_allclose(seen.usage[0, :, 0], 1, atol=0.25)
        np.testing.assert_allclose(seen.request, [[2, 10 * GIB]])
        assert (seen.pods, seen.doubts) == (("prod/db-0",), ())


def test_a_restart_beside_a_sidecar(read: Callable[[str], Reader]) -> None:
    usage = read("restarted_beside_a_sidecar").usage()
    np.testing.assert_allclose(usage[:, 1], 10, rtol=1e-6)
    np.testing.assert_allclose(np.median(usage[:, 0]), 1.5, atol=1e-6)


def test_a_crash_loop_is_one_container(read: Callable[[str], Reader]) -> None:
    reader = read("crashing")
    np.testing.assert_allclose(reader.usage()[:, 1], 2, rtol=1e-6)
    np.testing.assert_allclose(reader.observed(RESTART + 1000).usage[0, :, 1], 2 * GIB, rtol=1e-6)


def test_a_pod_on_two_nodes_is_where_it_was_sampled_last(read: Callable[[str], Reader]) -> None:
    reader = read("two_nodes")
    found = reader.record()
    assert found.node_name[found.node].tolist() == ["n1", "n2"]
    assert found.start.tolist() == [0, HOUR // 300]
    assert found.trust.on_two_nodes == 1
    seen = reader.observed(HOUR + 90)
    assert (seen.uid, [seen.nodes[node] for node in seen.node]) == (("new",), ["n2"])


def test_what_is_no_sample_is_a_gap(read: Callable[[str], Reader]) -> None:
    reader = read("gaps")
    trace, report = reader.trace()
    assert report["rows"]["bad"] == {}
    assert set(range(2)) <= set(trace.slot.tolist())
    missing = set(range(SPAN // 300)) - set(trace.slot.tolist())
    assert {HOUR // 300 + 1, HOUR // 300 + 3} <= missing <= set(range(HOUR // 300, HOUR // 300 + 5))
    seen = reader.observed(HOUR + 900)
    assert np.isfinite(seen.sample_age)
    assert np.isnan(seen.usage[0, -1]).all()


def test_what_cannot_be_is_said(read: Callable[[str], Reader]) -> None:
    reader = read("too_much")
    with pytest.warns(UserWarning, match="1 node uses more than there is, node n1 125%") as said:
        reader.trace()
    assert any("1 node is asked for more than there is, node n1 125%" in str(one.message) for one in said)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = reader.record()
    assert "node n1 125%" in found.trust.overused
    assert "node n1 125%" in found.trust.overasked
    assert len(reader.observed(HOUR).doubts) == 2


def test_a_node_that_was_replaced_is_counted(read: Callable[[str], Reader]) -> None:
    found = read("resized").record()
    assert (found.trust.resized_nodes, found.reference[0]) == (1, 16)


def test_a_request_is_what_kubernetes_counts(read: Callable[[str], Reader]) -> None:
    """The same from metrics as from the pod itself when it asks for a node."""
    reader = read("requested")

    def asked(name: str) -> list[float]:
        pod = {"metadata": {"name": name, "namespace": "prod"}, "spec": spec_of(SPECS[name])}
        body = json.dumps({"Pod": pod, "NodeNames": ["n1"]}).encode()
        return [float(value) for value in read_arguments(body).pod.request]

    expected = {f"prod/{name}": asked(name) for name in SPECS}
    assert expected["prod/both"] == [2.5, 5 * GIB]
    seen = reader.observed(HOUR)
    np.testing.assert_allclose(seen.request, [expected[pod] for pod in seen.pods])
    found = reader.record()
    np.testing.assert_allclose(found.request * found.reference * [1, GIB], [expected[pod] for pod in found.pod])
    trace, _ = reader.trace()
    known = {name: np.multiply(request, [64, 256 * GIB]) for name, (_, request) in facts(trace).items()}
    for pod, request in expected.items():
        np.testing.assert_allclose(known[pod], request, rtol=1e-6)


def test_clusters_with_the_same_names_are_refused_with_their_label(real: str, tmp_path: Path) -> None:
    match = (
        r"""node n1 .* stand for several at a time \(cluster differs\).*: --selector 'cluster="\S+-15"' \(there are"""
    )
    with pytest.raises(InputError, match=match):
        Prometheus(start=str(T0), end=str(T0 + SPAN), selector=ALL).at(real)
    with pytest.raises(InputError, match=match):
        read_prometheus_record(Asked(real, SPAN / 86400, str(T0 + SPAN), selector=ALL, folder=tmp_path, retries=0))


def test_serve_sees_one_cluster(read: Callable[[str], Reader]) -> None:
    reader = read("restarted")
    assert reader.observed(HOUR).nodes == ("n1", "n2")
    reader.selector = ALL
    with pytest.raises(InputError, match="stand for several at a time"):
        reader.observed(HOUR)
    with pytest.raises(InputError, match='namespace="prod" would hide pods that use the nodes'):
        ServeSettings("best-fit", "http://host:9090", selector='cluster="a",namespace="prod"').check()


def test_pods_can_be_chosen_and_nodes_stay(read: Callable[[str], Reader]) -> None:
    reader = read("restarted")
    found = reader.record(selector=f'{reader.selector},namespace=~"pr.*"')
    assert found.node_name.tolist() == ["n1", "n2"]
    with pytest.raises(InputError, match=r'empty: nothing recorded of .*namespace="none"'):
        reader.record(selector=f'{reader.selector},namespace="none"')


def test_exporters_that_rename_pods_are_refused(read: Callable[[str], Reader]) -> None:
    with pytest.raises(InputError, match="set honor_labels: true"):
        read("foreign").trace()
