"""The Prometheus loader by hand: what it asks, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.traces.conftest import series
from tests.traces.loaders.prometheus.conftest import DAY, GIB, HOUR, POD, T0, facts, hours, run
from tvwrl.traces.loaders.prometheus import Prometheus
from tvwrl.traces.loaders.prometheus_server import CPU, MEMORY, OWNER, REQUESTS
from tvwrl.types import InputError


def test_one_pod_by_hand(site: Any, tmp_path: Path) -> None:
    trace, report = run(site.url, tmp_path / "out", hours(0.25))
    quarter = [0.25, 0.125]  # 1 of 4 cores, 2 of 16 GiB
    assert series(trace) == {"prod/web-5d4f8c7b9d-aaaaa": ([0, 1, 2], [quarter] * 3)}
    assert trace.application.tolist() == ["prod/deployment/web"]
    np.testing.assert_array_equal(trace.request, [[0.5, np.nan]])
    assert trace.reference_machine == {"cpu_cores": 4.0, "mem_gib": 16.0}
    assert report["time"] == {"first": T0 * 10**6, "last": (T0 + 900) * 10**6}
    assert report["rows"]["read"]["cadvisor"] == 3


def test_what_is_asked(site: Any, tmp_path: Path) -> None:
    run(site.url, tmp_path / "out", hours(1, interval=600, chunk=0.5, selector='{namespace="prod"}'))
    rates = [query for query in site.asked(CPU) if query["step"] == "600"]
    assert [(int(q["start"]) - T0, int(q["end"]) - T0, q["step"]) for q in rates] == [
        (600, 1800, "600"),
        (2400, 3600, "600"),
    ]
    containers = 'namespace!="",pod!="",container!="",container!="POD",namespace="prod"'
    assert f"rate({CPU}{{{containers}}}[600s])" in rates[0]["query"]
    assert f"sum_over_time({MEMORY}{{{containers}}}[599999ms])" in site.asked(MEMORY)[-1]["query"]


@pytest.mark.parametrize("mangle", [str, Path, lambda url: f"{url}/"])
def test_address_that_went_through_a_path(site: Any, tmp_path: Path, mangle: Callable[[str], Any]) -> None:
    parts = hours(1).at(mangle(site.url)).parts(mangle(site.url))
    assert {part.source for part in parts} == {site.url}


def test_default_range_ends_at_midnight_and_resumes(site: Any) -> None:
    first = Prometheus().at(site.url)
    site.now += 3 * HOUR
    assert Prometheus().at(site.url) == first
    assert (first.start, first.end) == (str(T0 + 3 * DAY), str(T0 + 10 * DAY))
    stamps = [part.stamp for part in first.parts(site.url)]
    assert len(stamps) == 2 * 7 * 4
    assert stamps == [part.stamp for part in first.parts(site.url)]


def test_times_may_be_iso(site: Any) -> None:
    loader = Prometheus(start="2026-01-05T01:02:03+01:00", end="2026-01-06").at(site.url)
    assert (loader.start, loader.end) == (str(T0), str(T0 + DAY))  # in whole steps


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"end": "9999-01-01"}, "--end 9999-01-01: must not be in the future"),
        (
            {"start": str(T0 + 2 * HOUR), "end": str(T0)},
            "--start 2026-01-05T02:00:00Z: must be in 1970 or later, and before --end",
        ),
        ({"start": "yesterday"}, "--start yesterday: needed: 2026"),
        ({"start": "nan"}, "--start nan: needed: 2026"),
        ({"start": f"{T0}000"}, f"--start {T0}000: needed: .* seconds since 1970"),  # milliseconds
        ({"start": "0001-01-01T00:00+23:00"}, "needed: 2026"),  # in the year 0 of UTC
        ({"interval": 0}, "interval is 0: must be at least 1"),
    ],
)
def test_options_refused(site: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hours(1, **options).at(site.url)


@pytest.mark.parametrize(
    "source",
    [
        *("host:9090", "ftp://host", "http://", "http://host:x", "http://h/graph?g0.expr=up"),
        *("http://a..b:9090", "http://h o", "http://h/ä"),
    ],
)
def test_not_an_address(source: str) -> None:
    with pytest.raises(InputError, match=r"not the address of a Prometheus server; give one like http://host:9090"):
        Prometheus().at(source)


def test_reference_machine_from_options_or_nodes(site: Any, tmp_path: Path) -> None:
    site.metrics |= {"machine_cpu_cores": [({}, lambda t: 8)], "machine_memory_bytes": [({}, lambda t: 32 * GIB)]}
    for name in [name for name in site.metrics if name.startswith("kube_node")]:
        del site.metrics[name]
    assert hours(1).at(site.url).reference_machine == {"cpu_cores": 8.0, "mem_gib": 32.0}
    del site.metrics["machine_memory_bytes"]
    with pytest.raises(InputError, match=r"neither kube_node_status_capacity.*machine_memory_bytes.*--reference-cores"):
        hours(1).at(site.url)
    trace, _ = run(site.url, tmp_path / "out", hours(1, reference_memory=2.0))
    assert trace.series(0)[0].tolist() == [0.125, 1.0]


def test_rows_without_one_of_the_two_and_bad_rows_are_counted(site: Any, tmp_path: Path) -> None:
    cpu = {T0 + 300: None, T0 + 600: "NaN", T0 + 900: "+Inf", T0 + 1200: -0.5}
    site.metrics[CPU] = [(POD, lambda t: cpu.get(t, 1.0))]
    site.metrics[MEMORY] = [(POD, lambda t: None if t in (T0 + 1500, T0 + 1800) else GIB)]
    trace, report = run(site.url, tmp_path / "out", hours(1), max_bad_fraction=0.3)
    assert trace.slot.tolist() == list(range(6))  # slots 6 to 11 of the hour
    assert report["rows"]["dropped"] == {
        f"rows without a rate of {CPU} over --interval": 3,  # what is not finite stands for no sample
        f"rows without {MEMORY}": 2,
    }
    assert report["rows"]["bad"] == {"cadvisor: cpu is negative": 1}
    pod = "prod/web-5d4f8c7b9d-aaaaa"
    assert f"{site.url}: pod {pod} at 2026-01-05T00:20:00Z: cpu is negative: -0.5" in report["examples"]
    with pytest.raises(InputError, match=r"1 of 12 rows of cadvisor are bad .* more than --max-bad-fraction 0.01"):
        run(site.url, tmp_path / "again", hours(1))
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("kind", "name", "owner"),
    [
        ("ReplicaSet", "web-5d4f8c7b9d", "deployment/web"),
        ("ReplicaSet", "my-back-end", "replicaset/my-back-end"),  # not a hash: made by hand
        ("StatefulSet", "db", "statefulset/db"),
        ("<none>", "<none>", "pod/web-5d4f8c7b9d-aaaaa"),
        ("Node", "n1", "pod/web-5d4f8c7b9d-aaaaa"),  # a static pod
    ],
)
def test_owners(site: Any, tmp_path: Path, kind: str, name: str, owner: str) -> None:
    site.metrics[OWNER] = [(POD | {"owner_kind": kind, "owner_name": name}, lambda t: 1)]
    trace, _ = run(site.url, tmp_path / "out", hours(1, per="owner"))
    assert facts(trace)[f"prod/{owner}"][0] == f"prod/{owner}"


def test_pods_without_an_owner_row(site: Any, tmp_path: Path) -> None:
    other = {"namespace": "prod", "pod": "other"}
    site.metrics[CPU].append((other, lambda t: 1.0))
    site.metrics[MEMORY].append((other, lambda t: GIB))
    trace, report = run(site.url, tmp_path / "owner", hours(1, per="owner"))
    assert trace.workload_id.tolist() == ["prod/deployment/web"]
    assert report["rows"]["dropped"] == {f"rows of pods without {OWNER}": 12}
    trace, _ = run(site.url, tmp_path / "pod", hours(1))
    assert sorted(trace.application) == ["", "prod/deployment/web"]


@pytest.mark.parametrize("metric", [CPU, MEMORY, OWNER])
def test_metric_that_was_never_recorded(site: Any, tmp_path: Path, metric: str) -> None:
    del site.metrics[metric]
    with pytest.raises(
        InputError, match=f"empty: nothing recorded of {metric}.* from 2026-01-05T00:00:00Z to"
    ) as error:
        run(site.url, tmp_path / "out", hours(1, per="owner"))
    assert f"to check it, open {site.url}/api/v1/query?query=count" in str(error.value)


def test_metric_with_nothing_in_the_range(site: Any, tmp_path: Path) -> None:
    site.metrics[CPU] = [(POD, lambda t: None)]
    with pytest.raises(InputError, match=f"no usable row of usage.*rows without a rate of {CPU}"):
        run(site.url, tmp_path / "cpu", hours(1))
    site.metrics[MEMORY] = [(POD, lambda t: None)]
    with pytest.raises(InputError, match=f"no usable row of usage.*chunks without {CPU} and {MEMORY}"):
        run(site.url, tmp_path / "both", hours(1))


def test_requests_may_be_unknown(site: Any, tmp_path: Path) -> None:
    del site.metrics[REQUESTS], site.metrics[OWNER]
    trace, _ = run(site.url, tmp_path / "out", hours(1))
    assert np.isnan(trace.request).all()
    assert trace.application.tolist() == [""]
