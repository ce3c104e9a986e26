"""The Prometheus loader against a real server of a recorded cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from tests.traces.conftest import series
from tests.traces.loaders.prometheus.conftest import DAY, GIB, HOUR, MIB, T0, facts, prometheus_with, run
from tvwrl.traces.loaders import prometheus_server
from tvwrl.traces.loaders.prometheus import Prometheus
from tvwrl.traces.loaders.prometheus_server import CPU, MEMORY, REQUESTS
from tvwrl.types import InputError

MINUTE = 60
MAX_SAMPLES = 2000  # of a query, for the real server: more than 6 hours of these few pods, less than a day


@dataclass
class Recorded:
    """A synthetic pod: when its samples are (seconds after T0, both included) and who owns it."""

    namespace: str
    name: str
    kind: str
    owner: str
    first: int = 0
    last: int = 2 * DAY


PODS = [
    Recorded("prod", "web-5d4f8c7b9d-aaaaa", "ReplicaSet", "web-5d4f8c7b9d", last=DAY),
    Recorded("prod", "web-7c9f6b8d54-bbbbb", "ReplicaSet", "web-7c9f6b8d54", first=DAY + 600),
    Recorded("prod", "web-7c9f6b8d54-ccccc", "ReplicaSet", "web-7c9f6b8d54", first=DAY // 2),
    Recorded("prod", "db-0", "StatefulSet", "db"),
    Recorded("dev", "toolbox", "<none>", "<none>"),
]


RESTART = 20 * HOUR + 7 * MINUTE  # of the containers of db-0: their counters begin again


def cores(hour: int) -> float:
    """Of the container "app"; "sidecar" has 0.1 always."""
    return 0.5 + 0.25 * (hour % 2)


def memory(hour: int) -> int:
    """MiB of "app"; "sidecar" has 32 always."""
    return 256 + 64 * (hour % 4)


def open_metrics() -> Iterator[str]:
    """What cAdvisor and kube-state-metrics would have exported of PODS and two nodes, one sample a line."""
    for node, size in (("n1", 8), ("n2", 16)):
        for t in range(T0, T0 + 2 * DAY + 1, 2 * MINUTE):
            yield f'kube_node_status_capacity{{node="{node}",resource="cpu",unit="core"}} {size} {t}'
            yield f'kube_node_status_capacity{{node="{node}",resource="memory",unit="byte"}} {4 * size * GIB} {t}'
    for pod in PODS:
        labels = f'namespace="{pod.namespace}",pod="{pod.name}"'
        owner = f'{labels},owner_kind="{pod.kind}",owner_name="{pod.owner}",owner_is_controller="true"'
        for t in range(pod.first, pod.last + 1, 2 * MINUTE):
            yield f"kube_pod_owner{{{owner}}} 1 {T0 + t}"
            app = 1 if pod.name == "db-0" and t > DAY else 0.5  # db-0 was made larger
            for container, request, mib in (("app", app, 512), ("sidecar", 0.25, 64)):
                where = f'{{{labels},container="{container}",resource='
                yield f'{REQUESTS}{where}"cpu",unit="core"}} {request} {T0 + t}'
                yield f'{REQUESTS}{where}"memory",unit="byte"}} {mib * MIB} {T0 + t}'
        yield from cadvisor(pod, labels)


def cadvisor(pod: Recorded, labels: str) -> Iterator[str]:
    used = 0.0
    for t in range(pod.first, pod.last + 1, MINUTE):
        hour = (t - 1) // HOUR  # the interval (t - 60, t] is in it
        used += cores(hour) * MINUTE if t > pod.first else 0.0
        if pod.name == "db-0" and t == RESTART:
            used = cores(hour) * MINUTE
        other = 0.1 * (t - pod.first)
        seconds = {"app": used, "sidecar": other, "POD": 7 * used, "": 8 * used + other}
        mib = {"app": memory(hour), "sidecar": 32, "POD": 1, "": memory(hour) + 33}
        for container in seconds:
            named = f'{{{labels},container="{container}"}}' if container else f"{{{labels}}}"
            yield f"{CPU}{named} {seconds[container]!r} {T0 + t}"
            yield f"{MEMORY}{named} {mib[container] * MIB} {T0 + t}"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Prometheus server that holds `open_metrics`."""
    with prometheus_with(open_metrics(), tmp_path_factory.mktemp("prometheus"), MAX_SAMPLES) as address:
        yield address


TWO_DAYS = {"start": "2026-01-05", "end": "2026-01-07"}


def expected(first: int, last: int) -> tuple[list[int], list[list[float]]]:
    """Slots and usage of a pod with samples from `first` to `last`, on nodes of 16 cores and 64 GiB."""
    slots = list(range(first // 300, last // 300))
    used = [(cores(s // 12) + 0.1, memory(s // 12) + 32) for s in slots]
    return slots, [[round(cpu / 16, 9), round(mem / 65536, 9)] for cpu, mem in used]


@pytest.mark.parametrize("chunk", [6, 48])
def test_real_server_per_pod(real: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    asked = watch(monkeypatch)
    trace, report = run(real, tmp_path / "out", Prometheus(chunk=chunk, **TWO_DAYS))
    lengths = {int(query["end"]) - int(query["start"]) for query in asked if is_part(query)}
    assert max(lengths) == chunk * HOUR - 300
    assert (min(lengths) < max(lengths)) == (chunk == 48)  # which was refused, and halved until it was not
    assert series(trace) == {f"{pod.namespace}/{pod.name}": expected(pod.first, pod.last) for pod in PODS}
    web, memory_request = ("prod/deployment/web", [0.75 / 16, 576 / 65536])
    assert facts(trace) == {
        **{f"prod/{pod.name}": (web, pytest.approx(memory_request)) for pod in PODS[:3]},
        "prod/db-0": ("prod/statefulset/db", pytest.approx([1.25 / 16, 576 / 65536])),  # the largest of two
        "dev/toolbox": ("dev/pod/toolbox", pytest.approx(memory_request)),
    }
    assert trace.reference_machine == {"cpu_cores": 16.0, "mem_gib": 64.0}
    assert report["time"] == {"first": T0 * 10**6, "last": (T0 + 2 * DAY) * 10**6}
    assert report["rows"]["bad"] == {}


def test_real_server_per_owner(real: str, tmp_path: Path) -> None:
    trace, _ = run(real, tmp_path / "out", Prometheus(per="owner", selector='namespace="prod"', **TWO_DAYS))
    got = series(trace)
    assert set(got) == {"prod/deployment/web", "prod/statefulset/db"}
    assert got["prod/statefulset/db"] == expected(0, 2 * DAY)
    slots, one = expected(0, 2 * DAY)
    replicas = [1] * 144 + [2] * 144 + [1] * 2 + [2] * 286  # aaaaa; with ccccc; ccccc alone for 10 minutes; with bbbbb
    assert got["prod/deployment/web"][0] == slots
    np.testing.assert_allclose(got["prod/deployment/web"][1], np.multiply(one, np.array(replicas)[:, None]), atol=1e-8)
    web = facts(trace)["prod/deployment/web"]
    assert web == ("prod/deployment/web", pytest.approx([1.5 / 16, 1152 / 65536]))  # two at a time, three in all


def test_real_server_run_that_was_stopped_goes_on(real: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = Prometheus(per="owner", **TWO_DAYS)
    run(real, tmp_path / "undisturbed", loader)
    with monkeypatch.context() as patch:
        watch(patch, fail_from=T0 + 6 * HOUR)
        with pytest.raises(KeyboardInterrupt):
            run(real, tmp_path / "out", loader)
    asked = watch(monkeypatch)
    run(real, tmp_path / "out", loader)
    starts = sorted(int(query["start"]) - T0 for query in asked if is_part(query))
    assert starts == [hour * HOUR + 300 for hour in range(6, 48, 6)]  # not the first six hours again
    for name in ("usage.parquet", "workloads.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()


def is_part(query: dict[str, str]) -> bool:
    """Whether a chunk of usage is asked for, and not what is looked at now and then."""
    return CPU in query.get("query", "") and query.get("step") == "300"


def watch(monkeypatch: pytest.MonkeyPatch, fail_from: int | None = None) -> list[dict[str, str]]:
    """The queries asked from now on; those for a rate that start from `fail_from` on are interrupted."""
    asked: list[dict[str, str]] = []
    fetch = prometheus_server.Server._fetch

    def watched(server: prometheus_server.Server, url: str) -> bytes:
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        asked.append(query)
        if fail_from is not None and is_part(query) and int(query["start"]) >= fail_from:
            raise KeyboardInterrupt
        return fetch(server, url)

    monkeypatch.setattr(prometheus_server.Server, "_fetch", watched)
    return asked


def test_real_server_explains_a_wrong_selector(real: str) -> None:
    with pytest.raises(InputError, match=r"selector is 'namespace=prod': wrong from 'namespace=prod' on"):
        Prometheus(selector="namespace=prod", **TWO_DAYS)
    with pytest.raises(InputError, match=r"HTTP 400 Bad Request: .*parse error"):
        Prometheus(selector='namespace=~"("', **TWO_DAYS).at(real)
    with pytest.raises(InputError, match=f'empty: nothing recorded of {CPU}.*namespace="none"'):
        Prometheus(selector='namespace="none"', **TWO_DAYS).at(real)
    with pytest.raises(InputError, match=f"empty: nothing recorded of {CPU}"):  # rather than of nodes
        Prometheus(start="2026-02-01", end="2026-02-02").at(real)
