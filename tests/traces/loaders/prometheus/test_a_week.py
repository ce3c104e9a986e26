"""What lasts for a few hours or minutes of a week, between the moments at which what changes slowly is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.traces.loaders.prometheus.conftest import DAY, HOUR, T0, prometheus_with, run
from tests.traces.loaders.prometheus.scenes import Scene
from tvwrl.traces.loaders.prometheus import Prometheus
from tvwrl.types import InputError
from tvwrl.what_if.from_prometheus import Asked, read_prometheus_record

SCRAPE, WEEK = 120, 7 * DAY
TWINS = {"hours": 6 * HOUR, "minutes": 11 * 60, "remade": 0}  # seconds for which the other cluster is sampled
FROM = 10 * WEEK // 24 + HOUR // 2  # between two of the 25 moments at which what changes slowly is looked at


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """For each of TWINS a cluster with a pod of 9 GiB, and another one with its names and 11 GiB for a while; and a
    cluster whose node of 32 GiB is full for an hour."""

    def lines() -> Iterator[str]:
        for name, length in TWINS.items():
            scene = Scene(name, SCRAPE)
            scene.node("n1", last=WEEK, shop="a")
            scene.pod("db-0", "n1", last=WEEK, shop="a")
            scene.uses("db-0", 1, 9, last=WEEK, shop="a")
            during = {"first": FROM, "last": FROM + length}
            scene.node("n1", shop="b", **during)
            scene.pod("db-0", "n1", uid="other", shop="b", **during)
            scene.uses("db-0", 1, 11, shop="b", **during)
            yield from scene.lines
        scene = Scene("crowded", SCRAPE)
        scene.node("n1", cores=8, gib=32, last=WEEK)
        for pod, gib, first, last in (("db-0", 9, 0, WEEK), ("big", 31, FROM, FROM + HOUR)):
            scene.pod(pod, "n1", first, last)
            scene.uses(pod, 1, gib, first, last)
            scene.requests(pod, 1, gib + 2, first, last, shop="a")
        yield from scene.lines

    with prometheus_with(lines(), tmp_path_factory.mktemp("week")) as address:
        yield address


@pytest.mark.parametrize("name", ["hours", "minutes"])
def test_a_cluster_that_shares_names_for_a_while_is_refused(week: str, tmp_path: Path, name: str) -> None:
    mine, match = f'cluster="{name}-{SCRAPE}"', r"pod prod/db-0 .*\(uid differs\).*: --selector 'shop=\"a\"'"
    with pytest.raises(InputError, match=match):
        Prometheus(start=str(T0), end=str(T0 + WEEK), selector=mine).at(week)
    with pytest.raises(InputError, match=match):
        read_prometheus_record(Asked(week, 7, str(T0 + WEEK), selector=mine, folder=tmp_path, retries=0))
    Prometheus(start=str(T0), end=str(T0 + WEEK), selector=f'{mine},shop="a"').at(week)


def test_what_lingers_for_as_long_as_a_server_looks_back_is_no_other_cluster(week: str) -> None:
    Prometheus(start=str(T0), end=str(T0 + WEEK), selector=f'cluster="remade-{SCRAPE}"').at(week)


def test_a_node_that_is_too_full_for_an_hour_is_said(week: str, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="more than there is") as said:
        run(
            week,
            tmp_path / "out",
            Prometheus(start=str(T0), end=str(T0 + WEEK), selector=f'cluster="crowded-{SCRAPE}"'),
        )
    texts = sorted(str(one.message).partition(": are series")[0] for one in said)
    assert texts == [
        f"{week}: 1 node is asked for more than there is, node n1 138%",
        f"{week}: 1 node uses more than there is, node n1 125%",
    ]
