"""Which nodes are left out and what each costs, from tables and servers."""

from __future__ import annotations

import json

import pytest

from tests.traces.conftest import serve  # noqa: F401  # a fixture
from tests.traces.loaders.prometheus.conftest import (  # noqa: F401  # fixtures
    T0,
    prometheus_with,
    site,
    surroundings,
)
from tvwrl.traces.loaders.prometheus_metrics import node_pools
from tvwrl.traces.loaders.prometheus_server import RetryPolicy, Selector, Server
from tvwrl.types import InputError
from tvwrl.what_if.command import WhatIfSettings, what_if
from tvwrl.what_if.compared import compare
from tvwrl.what_if.from_csv import USUAL, prices_of, read_csv_record, with_prices, without_pools
from tvwrl.what_if.replay import Replay
from tvwrl.what_if.words import trust

NODES = (
    "node,cpu,memory,kind,price,pool,role,gpus\n"
    "a,4,16,m5.xlarge,0.2,web,worker,\n"
    "b,8,32,m5.2xlarge,,web,,0\n"
    "c,4,16,m5.xlarge,,db,,\n"
    "master,2,8,m5.large,,,control-plane,\n"
    "gpu,8,64,g4dn,,,,1\n"
)
USAGE = "pod,time,cpu,memory,node,owner\n" + "".join(
    f"x/{node},{300 * slot},1,1,{node},x/{kind}/{node}\n"
    for node in ("a", "b", "c", "master", "gpu")
    for slot in range(24)
    for kind in ("daemonset" if node == "c" else "deployment",)
)


@pytest.fixture
def recorded(tables):
    return read_csv_record(*tables(USAGE, NODES), 300)


def test_the_control_plane_and_gpus_are_left_out_and_counted(recorded):
    left = without_pools(recorded, USUAL)
    assert left.node_name.tolist() == ["a", "b", "c"]
    assert (left.pod.tolist(), left.node.tolist()) == (["x/a", "x/b", "x/c"], [0, 1, 2])
    assert left.trust.pools == (("control-plane", 1, 1), ("gpu", 1, 1))
    assert (left.trust.pods, left.trust.bound, left.trust.at_start) == (2, 1, 2)
    assert any("1 node (control-plane) and the 1 pod on it" in line for line in trust(left))
    assert compare(Replay(left, 300), []).actual.mean("needed").value == 2


@pytest.mark.parametrize(
    ("names", "nodes"),
    [
        (("none",), ["a", "b", "c", "gpu", "master"]),
        (("web",), ["c", "gpu", "master"]),
        (("m5.*",), ["gpu"]),
        (("gpu", "b"), ["a", "c", "master"]),
    ],
)
def test_pools_kinds_and_names(recorded, names, nodes):
    assert without_pools(recorded, names).node_name.tolist() == nodes


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ("wbe",),
            "excluded_nodes is 'wbe': no node has such a name, kind or pool; kinds and pools of this record: .*web",
        ),
        (("none", "web"), "'none' stands alone"),
        (("*",), r"no pod is left to replay without \*"),
        (("web", "gpu", "control-plane"), "no pod is left to replay without web, gpu, control-plane"),
    ],
)
def test_what_cannot_be_left_out(recorded, names, message):
    with pytest.raises(InputError, match=message):
        without_pools(recorded, names)


def test_the_usual_pools_need_not_be_there(tables):
    plain = read_csv_record(*tables("pod,time,cpu,memory,node\nx,0,1,1,a\n"), 300)
    assert without_pools(plain, USUAL) is plain


def test_a_price_is_that_of_the_kind_or_else_of_the_node_or_else_of_all(recorded):
    workers = without_pools(recorded, USUAL)
    assert with_prices(workers, {"m5.2xlarge": 0.4}, 0.1).price.tolist() == [0.2, 0.4, 0.1]
    assert with_prices(workers, {"m5.xlarge": 0.3}, 0.1).price.tolist() == [0.3, 0.1, 0.3]
    with pytest.raises(InputError, match=r"node 'b' of kind 'm5.2xlarge' has no price, but others have"):
        with_prices(workers, {}, None)
    with pytest.raises(InputError, match=r"prices has 'm6': no node is of this kind; kinds.*: m5.2xlarge, m5.xlarge"):
        with_prices(workers, {"m6": 1.0}, None)


def test_prices_as_options_and_as_a_file(tmp_path):
    assert prices_of(()) == {}
    assert prices_of(("a=0.5", "b=c=2")) == {"a": 0.5, "b=c": 2.0}
    (tmp_path / "prices.csv").write_text("kind,price\nm5.xlarge,0.192\nm5.large,0.096\n")
    assert prices_of((str(tmp_path / "prices.csv"),)) == {"m5.xlarge": 0.192, "m5.large": 0.096}
    for wrong in (("a=dear",), ("=1",), ("a=-1",), ("a=nan",), ("a=1", "b")):
        with pytest.raises(InputError, match="needed: KIND=PRICE"):
            prices_of(wrong)
    with pytest.raises(InputError, match="prices: kind is 'a', as before"):
        prices_of(("a=1", "a=2"))
    (tmp_path / "prices.csv").write_text("kind,price\nm5.xlarge,-1\n")
    with pytest.raises(InputError, match=r"prices.csv: row 1: price is -1"):
        prices_of((str(tmp_path / "prices.csv"),))


def test_money_and_machines_by_kind_add_up(tables, tmp_path, capsys):
    """Three pods of a core on nodes of two kinds: packed onto one, what is empty is worth its own price."""
    rows = [f"x/{i},{300 * slot},1,1,{node},1,1\n" for i, node in enumerate("abc") for slot in range(576)]
    nodes = "node,cpu,memory,kind,price\na,4,16,big,2\nb,4,16,big,2\nc,4,16,small,1\n"
    usage, sizes = tables("pod,time,cpu,memory,node,request_cpu,request_memory\n" + "".join(rows), nodes)
    what_if(WhatIfSettings(usage=usage, nodes=sizes, out=tmp_path / "out", currency="EUR", schedulers=("best-fit",)))
    found = json.loads((tmp_path / "out" / "what-if.json").read_text())["outcomes"]["best-fit"]
    compared = compare(replay := Replay(with_prices(read_csv_record(usage, sizes, 300), {}), 300), [replay.as_placed()])
    assert compared.by_kind(compared.actual) == [("big", 2, 2.0, 2.0, 0.0), ("small", 1, 1.0, 1.0, 0.0)]
    assert found["in_use_change"]["mean"] == -2
    # Of two machines that become empty, one is always big; in some orders both are.
    assert 3 * 24 * 30 <= found["saved_a_month"]["mean"] <= 4 * 24 * 30
    page = " ".join(capsys.readouterr().out.split())
    assert "its 2.0 [2.0, 2.0] fewer machines in use on average save" in page
    assert "| big | 2 | 2.0 |" in page


def test_currency_without_any_price(tables, tmp_path):
    usage, nodes = tables("pod,time,cpu,memory,node\nx,0,1,1,a\n")
    with pytest.raises(InputError, match="currency is EUR, but there is no price: give --price-per-machine-hour"):
        what_if(WhatIfSettings(usage=usage, nodes=nodes, out=tmp_path / "out", currency="EUR", schedulers=()))


def test_a_misspelt_column_of_nodes(tables):
    with pytest.raises(InputError, match=r"column 'prize' is no column of this table.*did you mean 'price'"):
        read_csv_record(*tables(USAGE, "node,cpu,memory,prize\na,4,16,1\n"), 300)


def test_a_server_says_what_nodes_are(site):  # noqa: F811
    kind, pool = "label_node_kubernetes_io_instance_type", "label_cloud_google_com_gke_nodepool"
    site.metrics = {
        "kube_node_labels": [
            ({"node": "a", kind: "m5.xlarge", pool: "web"}, lambda t: 1),
            ({"node": "b", kind: "m5.large"}, lambda t: 1 if t < T0 + 1800 else None),
            ({"node": "b", kind: "m5.xlarge"}, lambda t: 1 if t >= T0 + 1800 else None),
        ],
        "kube_node_role": [({"node": "m", "role": "control-plane"}, lambda t: 1)],
        "_com_gpu": [({"node": "a"}, lambda t: 2)],
    }
    cluster = Server(site.url, RetryPolicy(1, 10.0)), Selector('cluster="a",namespace="prod"')
    found = node_pools(*cluster, (T0, T0 + 3600), 300)
    assert found.rows() == [("a", "m5.xlarge", ["gpu", "web"]), ("b", "m5.xlarge", []), ("m", "", ["control-plane"])]
    asked = site.asked("kube_node_taint") + site.asked("kube_node_spec_taint")
    assert all('cluster="a"' in query["query"] and "namespace" not in query["query"] for query in asked)
    site.metrics = {}
    assert node_pools(*cluster, (T0, T0 + 3600), 300).is_empty()


def test_a_real_server_says_what_nodes_are(tmp_path, monkeypatch):
    """Two clusters on one server, scraped twice; a node without any of these metrics is in no pool."""
    size, taint = "kube_node_status_allocatable", "kube_node_spec_taint"
    series = [
        'kube_node_labels{node="a",label_node_kubernetes_io_instance_type="m5.xlarge",label_agentpool="web"} 1',
        'kube_node_labels{node="m",label_beta_kubernetes_io_instance_type="m5.large"} 1',
        f'{taint}{{node="m",key="node-role.kubernetes.io/control-plane",effect="NoSchedule"}} 1',
        f'{taint}{{node="b",key="node-role.kubernetes.io/control-plane-lookalike",effect="NoSchedule"}} 1',
        'kube_node_role{node="old",role="master"} 1',
        f'{size}{{node="g",resource="nvidia_com_gpu",unit="integer"}} 8',
        f'{size}{{node="b",resource="nvidia_com_gpu",unit="integer"}} 0',
    ]
    other = ['kube_node_labels{node="a",label_node_kubernetes_io_instance_type="other"} 1']
    lines = [
        one.replace("{", f'{{cluster="{cluster}",job="{job}",') + f" {T0 + 60 * minute}"
        for cluster, mine in (("one", series), ("two", other))
        for one in mine
        for job in ("first", "second")
        for minute in range(30)
    ]
    with prometheus_with(sorted(lines), tmp_path) as url:
        cluster = Server(url, RetryPolicy(1, 10.0)), Selector('cluster="one",namespace="prod"')
        found = node_pools(*cluster, (T0, T0 + 1500), 300)
    assert found.rows() == [
        ("a", "m5.xlarge", ["web"]),
        ("g", "", ["gpu"]),
        ("m", "m5.large", ["control-plane"]),
        ("old", "", ["control-plane"]),
    ]
