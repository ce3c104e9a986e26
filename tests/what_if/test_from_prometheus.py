"""The record of a Prometheus server that has what it should, lacks something, or lies."""

from __future__ import annotations

import pytest

from tests.traces.conftest import serve  # noqa: F401  # a fixture
from tests.traces.loaders.prometheus.conftest import (  # noqa: F401  # fixtures
    DAY,
    GIB,
    HOUR,
    POD,
    T0,
    site,
    surroundings,
)
from tvwrl.traces.loaders.prometheus_server import CPU, MEMORY
from tvwrl.types import InputError
from tvwrl.what_if.from_prometheus import Asked, read_prometheus_record

INFO, SIZE = "kube_pod_info", 'kube_node_status_allocatable{resource="'


@pytest.fixture
def cluster(site):  # noqa: F811
    """The one pod of `site` for the last two hours of a day, on the first of two nodes; the second takes over."""
    site.metrics[CPU] = [(POD, lambda t: 1.0 if t > T0 + 22 * HOUR else None)]
    site.metrics[MEMORY] = [(POD, lambda t: 2 * GIB if t > T0 + 22 * HOUR else None)]
    site.metrics[INFO] = [
        (POD | {"node": "a"}, lambda t: 1 if t <= T0 + 23 * HOUR else None),
        (POD | {"node": "b"}, lambda t: 1 if t > T0 + 23 * HOUR else None),
    ]
    both = (("a", 4, 16), ("b", 8, 32))
    site.metrics[f'{SIZE}cpu"'] = [({"node": node}, lambda t, size=cpu: size) for node, cpu, _ in both]
    site.metrics[f'{SIZE}memory"'] = [({"node": node}, lambda t, size=mem: size * GIB) for node, _, mem in both]
    return site


def read(site, folder, **more):  # noqa: F811
    return read_prometheus_record(Asked(site.url, 1, str(T0 + DAY), folder=folder / "kept", retries=1, **more))


def test_a_pod_by_hand(cluster, tmp_path):
    found = read(cluster, tmp_path)
    assert (found.origin, found.slots) == (T0 + 22 * HOUR, 24)
    assert found.pod.tolist() == ["prod/web-5d4f8c7b9d-aaaaa", "prod/web-5d4f8c7b9d-aaaaa#2"]
    assert (found.node.tolist(), found.start.tolist(), found.length.tolist()) == ([0, 1], [0, 12], [12, 12])
    assert (found.usage[0] * found.reference).tolist() == [[1, 2]] * 12
    assert (found.size * found.reference).tolist() == [[4, 16], [8, 32]]
    assert (found.request * found.reference)[:, 0].tolist() == [2, 2]
    assert set(found.owner) == {"prod/deployment/web"}


def test_what_was_read_is_not_read_again(cluster, tmp_path):
    first = read(cluster, tmp_path)
    cluster.requests.clear()
    again = read(cluster, tmp_path)
    assert not cluster.asked(CPU)
    (asked,) = cluster.asked("timestamp(kube_pod_info")
    assert asked["start"] == asked["end"]  # only which cluster it is
    assert [a.tolist() for a in again.usage] == [a.tolist() for a in first.usage]


def test_more_patience_does_not_read_again(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("TVWRL_DATA", str(tmp_path))
    read_prometheus_record(Asked(cluster.url, 1, str(T0 + DAY)))
    cluster.requests.clear()
    read_prometheus_record(Asked(cluster.url, 1, str(T0 + DAY), timeout=90, retries=9))
    assert not cluster.asked(CPU)


def test_a_stopped_run_goes_on(cluster, tmp_path):
    def refuse(path, query):
        late = int(query.get("start", 0)) > T0 + 12 * HOUR
        return (403, b"{}") if "last_over_time(kube_pod_info" in query.get("query", "") and late else None

    cluster.fault = refuse
    with pytest.raises(InputError, match="403"):
        read(cluster, tmp_path)
    cluster.fault = lambda path, query: None
    cluster.requests.clear()
    read(cluster, tmp_path)
    assert not cluster.asked(CPU)
    spans = [query for query in cluster.asked("timestamp(kube_pod_info") if query["start"] != query["end"]]
    assert sorted(int(query["start"]) - T0 for query in spans) == [12 * HOUR + 300, 18 * HOUR + 300]


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        (INFO, "kube_pod_info is not recorded"),
        (CPU, "empty: nothing recorded of container_cpu_usage"),
        (SIZE, "neither kube_node_status_allocatable nor kube_node_status_capacity is recorded"),
    ],
)
def test_what_is_missing_is_named(cluster, tmp_path, gone, message):
    kept = {name: series for name, series in cluster.metrics.items() if gone not in name}
    cluster.metrics = {name: [] if "node_status_capacity" in name else series for name, series in kept.items()}
    with pytest.raises(InputError, match=message):
        read(cluster, tmp_path)


@pytest.mark.parametrize("gap", ["NaN", "+Inf"])
def test_what_is_not_finite_is_a_gap(cluster, tmp_path, gap):
    cluster.metrics[CPU] = [
        (POD, lambda t: (gap if t == T0 + 22 * HOUR + 1800 else 1.0) if t > T0 + 22 * HOUR else None)
    ]
    found = read(cluster, tmp_path)
    assert (found.trust.bad_rows, found.slots) == (0, 24)
    assert found.trust.filled == pytest.approx(1 / 24)


@pytest.mark.parametrize("lie", ["-1", "1e300"])
def test_lies_are_left_out_and_counted(cluster, tmp_path, lie):
    cluster.metrics[CPU] = [(POD, lambda t: (lie if t == T0 + DAY else 1.0) if t > T0 + 22 * HOUR else None)]
    found = read(cluster, tmp_path)
    assert found.trust.bad_rows == 1
    assert found.slots == 23
    cluster.metrics[CPU] = [(POD, lambda t: lie if t > T0 + 22 * HOUR else None)]
    with pytest.raises(InputError, match="rows of cadvisor are bad"):
        read_prometheus_record(Asked(cluster.url, 1, str(T0 + DAY), folder=tmp_path / "other", retries=1))


def test_no_server(tmp_path):
    with pytest.raises(InputError, match=r"http://127.0.0.1:9/.*connection is refused"):
        read_prometheus_record(Asked("http://127.0.0.1:9", end=str(T0), folder=tmp_path / "kept", retries=0))
    with pytest.raises(InputError, match="days is 0: must be a number > 0"):
        read_prometheus_record(Asked("http://127.0.0.1:9", days=0))


def test_the_future_is_refused(cluster, tmp_path):
    with pytest.raises(InputError, match="must not be in the future"):
        read_prometheus_record(Asked(cluster.url, 1, "2126-01-01", folder=tmp_path / "kept"))
