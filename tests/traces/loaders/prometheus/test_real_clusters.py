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
from tests.traces.loaders.prometheus.scenes import CASES, RESTART, SCRAPES, SPAN, SPECS, Scene, foreign, spec_of
from tvwrl.serve.extender_messages import read_arguments
from tvwrl.serve.options import ServeSettings
from tvwrl.serve.watching import Watcher
from tvwrl.traces.loaders import prometheus_server
from tvwrl.traces.loaders.prometheus import Prometheus
from tvwrl.types import InputError
from tvwrl.what_if import Recorded
from tvwrl.what_if.from_prometheus import Asked, read_prometheus_record
from tvwrl.what_if.words import trust

ALL = 'cluster!~"foreign.*"'


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    def lines() -> Iterator[str]:
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
        self._patch.setattr(prometheus_server.Server, "clock", lambda server: T0 + at)
        return Watcher(self.url, 1800, 2, selector=self.selector).read()

    def usage(self, **more: Any) -> np.ndarray:
        """(slots, 2) cores and GiB of the one pod, as prepare reads it."""
        trace, _ = self.trace(**more)
        return np.asarray(trace.series(0) * [trace.reference_machine["cpu_cores"], trace.reference_machine["mem_gib"]])


@pytest.fixture
def read(real: str, scrape: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Reader]:
    return lambda name: Reader(real, f"{name.replace('_', '-')}-{scrape}", tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "name",
    [
        *("restarted", "two_jobs", "two_replicas", "moved_exporter", "init_container", "split_jobs", "nested"),
        *("two_views", "core_by_core"),
    ],
)
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
    assert (found.trust.overused, found.trust.overasked) == ("", "")
    assert (found.trust.on_two_nodes, found.trust.half_recorded) == (0, 0)
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


@pytest.mark.parametrize(("name", "nodes"), [("two_nodes", ["n1", "n2"]), ("two_nodes_and_back", ["n2", "n1"])])
def test_a_pod_on_two_nodes_is_where_it_appeared_last(
    read: Callable[[str], Reader], name: str, nodes: list[str]
) -> None:
    """For `serve` too, which asks while the pod is sampled on both at once."""
    reader = read(name)
    found = reader.record()
    assert found.node_name[found.node].tolist() == nodes
    assert found.start.tolist() == [0, HOUR // 300]
    assert found.trust.on_two_nodes == 1
    seen = reader.observed(HOUR + 90)
    assert (seen.uid, [seen.nodes[node] for node in seen.node]) == (("new",), nodes[1:])
    assert [sentence.partition(":")[0] for sentence in seen.doubts] == ["1 pod stands on two nodes at a time"]
    assert reader.observed(2 * HOUR).doubts == ()


def test_a_pod_runs_although_a_namesake_was_evicted(read: Callable[[str], Reader]) -> None:
    reader = read("evicted")
    seen = reader.observed(HOUR)
    assert (seen.running, seen.uid) == (1, ("u-db-0",))
    np.testing.assert_allclose(seen.request, [[2, 10 * GIB]])
    found = reader.record()
    np.testing.assert_allclose(found.request * found.reference, [[2, 10]], rtol=1e-6)


def test_what_comes_and_goes_within_an_interval_has_its_request_and_node(read: Callable[[str], Reader]) -> None:
    reader = read("short")
    trace, _ = reader.trace(interval=3600)
    assert facts(trace)["prod/job-0"] == ("prod/statefulset/db", pytest.approx([3 / 8, 6 / 32]))
    found = reader.record(interval=3600)
    assert dict(zip(found.pod, found.node_name[found.node], strict=True)) == {"prod/db-0": "n1", "prod/job-0": "n2"}
    assert found.trust.unknown_node == 0


def test_a_twin_that_comes_late_is_refused(read: Callable[[str], Reader]) -> None:
    reader = read("late_twin")
    with pytest.raises(InputError, match=r"pod prod/db-0 .*\(uid differs\).*: --selector 'shop=\"b\"'"):
        reader.trace()


def test_a_selector_that_hides_a_metric_is_refused(read: Callable[[str], Reader]) -> None:
    reader = read("core_by_core")  # where cAdvisor knows the node, as kube_pod_info does
    with pytest.raises(InputError, match=r"kube_pod_owner has no label node, so it would be hidden"):
        reader.trace(selector=f'{reader.selector},node=~"n.*"')
    with pytest.raises(InputError, match="container chooses parts of pods"):
        reader.trace(selector=f'{reader.selector},container="app"')


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


def test_pods_without_cpu_or_memory_are_left_out_and_said(read: Callable[[str], Reader]) -> None:
    """`serve` takes them as they are: what is missing is a gap."""
    reader = read("half_recorded")
    trace, report = reader.trace()
    assert trace.workload_id.tolist() == ["prod/db-0"]
    assert len(report["rows"]["dropped"]) == 2
    found = reader.record()
    assert found.pod.tolist() == ["prod/db-0"]
    assert (found.trust.half_recorded, found.trust.half_rows) == (2, 2 * SPAN // 300)
    assert any("Left out: 2 pods of which only CPU or only memory is recorded, in 48" in one for one in trust(found))
    seen = reader.observed(HOUR)
    assert (seen.pods, np.isnan(seen.usage[:, 1]).tolist()) == (
        ("prod/db-0", "prod/no-cpu", "prod/no-memory"),
        [[False, False], [True, False], [False, True]],
    )


def test_a_node_that_was_replaced_is_counted(read: Callable[[str], Reader]) -> None:
    found = read("resized").record()
    assert (found.trust.resized_nodes, found.reference[0]) == (1, 16)


def test_a_request_is_what_kubernetes_counts(read: Callable[[str], Reader]) -> None:
    """The same from metrics as from the pod itself when it asks for a node; without kube-scheduler's metric, sidecars
    count as before all other init containers."""
    reader = read("requested")

    def asked(name: str) -> list[float]:
        pod = {"metadata": {"name": name, "namespace": "prod"}, "spec": spec_of(SPECS[name])}
        body = json.dumps({"Pod": pod, "NodeNames": ["n1"]}).encode()
        return [float(value) for value in read_arguments(body).pod.request]

    expected = {f"prod/{name}": asked(name) for name in SPECS}
    assert expected["prod/both"] == [2.5, 5 * GIB]
    assert expected["prod/step-first"] == expected["prod/step-first-unscheduled"] == [5, 2 * GIB]
    expected["prod/step-first-unscheduled"] = [7, 2 * GIB]
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
