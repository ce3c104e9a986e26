"""What is asked of an API server over HTTP, and what is made of its answers."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import pytest

from tests.rebalance.fake_cluster import Answer, kubeconfig, over_http, scattered
from tvwrl.rebalance import kube_api
from tvwrl.rebalance.kube_api import ApiError, ApiOptions, KubeApi, connect
from tvwrl.rebalance.kubernetes_objects import NAMESPACED
from tvwrl.rebalance.kubernetes_state import state_of
from tvwrl.types import InputError

pytest.importorskip("kubernetes")

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def cluster():
    made = scattered(4, 3, 5)
    made.protect("app-00", 2)
    return made


@pytest.fixture
def api(cluster, tmp_path):
    file = tmp_path / "config"
    with over_http(cluster) as address:
        file.write_text(kubeconfig(address))
        made = connect(ApiOptions(kubeconfig=file, api_timeout=1.0))
        made.sleep = lambda seconds: None
        yield made


def first(cluster):
    pod = next(iter(cluster.pods.values()))
    return pod["metadata"]["namespace"], pod["metadata"]["name"], pod["metadata"]["uid"]


def test_all_objects_are_read_in_pages(cluster, api, monkeypatch):
    monkeypatch.setattr(kube_api, "PAGE", 5)
    objects = api.objects()
    assert len(objects.by_kind["Pod"]) == 12
    assert sum("/pods?limit=5" in path for _, path in cluster.requests) == 3
    assert {one["kind"] for one in objects.by_kind["Pod"]} == {"Pod"}
    assert objects.by_kind.keys() == NAMESPACED.keys()
    assert state_of(objects).time == pytest.approx(cluster.time, abs=2)


def test_a_page_that_comes_too_late_is_read_anew(cluster, api, monkeypatch):
    monkeypatch.setattr(kube_api, "PAGE", 5)
    left = [1]

    def trouble(method, path):
        if "continue=5" in path and left and left.pop():
            return Answer(410, {}, b'{"reason": "Expired"}')
        return None

    cluster.trouble = trouble
    assert len(api.objects().by_kind["Pod"]) == 12


def test_a_kind_that_may_not_be_listed_is_noted(cluster, api):
    cluster.trouble = lambda method, path: Answer(403, {}, b'{"message": "no"}') if "persistent" in path else None
    objects = api.objects()
    assert objects.unreadable.keys() == {"PersistentVolume", "PersistentVolumeClaim"}
    assert "PersistentVolume" not in objects.by_kind
    assert len(state_of(objects)) == 12
    cluster.trouble = lambda method, path: Answer(403, {}, b"") if path.startswith("/api/v1/pods") else None
    with pytest.raises(ApiError, match="forbidden"):
        api.objects()


def test_an_old_server_has_older_budgets(cluster, api):
    cluster.minor = "20+"
    cluster.budgets["shop/all"] = {
        "metadata": {"name": "all", "namespace": "shop"}, "spec": {"selector": {}, "minAvailable": 0}, "status": {},
    }  # fmt: skip
    assert [one["metadata"]["name"] for one in api.objects().by_kind["PodDisruptionBudget"]] == ["app-00"]
    assert any(path.startswith("/apis/policy/v1beta1/") for _, path in cluster.requests)
    sent = list[dict]()
    cluster._evict = lambda key, body: sent.append(body) or (201, {})
    api.evict(*first(cluster))
    assert sent[0]["apiVersion"] == "policy/v1beta1"
    assert sent[0]["deleteOptions"]["preconditions"]["uid"] == first(cluster)[2]


@pytest.mark.parametrize(
    ("status", "body", "name"),
    [
        (401, b"", "forbidden"),
        (403, b"", "forbidden"),
        (404, b'{"message": "not found"}', "not found"),
        (409, b'{"message": "Precondition failed: UID"}', "conflict"),
        (429, b'{"details": {"causes": [{"reason": "DisruptionBudget"}]}}', "refused by a budget"),
        (429, b'{"message": "Too many requests, please try again later."}', "throttled"),
        (500, b'{"message": "This pod has more than one PodDisruptionBudget, which ..."}', "refused by a budget"),
        (500, b"<html>", "server error"),
        (503, b"", "server error"),
        (201, b"[]", "server error"),
        (200, b"{", "server error"),
        (302, b"", "other"),
    ],
)
def test_answers_have_names(cluster, api, status, body, name):
    api.minor()
    cluster.trouble = lambda method, path: Answer(status, {"retry-after": "7"}, body)
    with pytest.raises(ApiError) as refused:
        api.evict(*first(cluster))
    assert refused.value.name == name
    assert refused.value.wait == (7 if status >= 300 else 0)
    assert len([path for _, path in cluster.requests if path.endswith("/eviction")]) == 1  # it is asked once


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("refused", "refused by a budget"),
        ("two-budgets", "refused by a budget"),
        ("not-found", "not found"),
        ("another-uid", "conflict"),
        ("evicted", None),
    ],
)
def test_what_a_real_server_says_to_evictions(cluster, api, file, name):
    """As recorded by `make e2e`."""
    golden = json.loads((GOLDEN / f"{file}.json").read_text())
    api.minor()
    cluster.trouble = lambda method, path: Answer(
        golden["status"],
        {key.lower(): text for key, text in golden["headers"].items()},
        json.dumps(golden["answer"]).encode(),
    )
    if name is None:
        api.evict(*first(cluster))
        return
    with pytest.raises(ApiError) as refused:
        api.evict(*first(cluster))
    assert refused.value.name == name


@pytest.mark.parametrize("file", ["refused", "two-budgets", "not-found", "another-uid"])
def test_the_fake_server_says_what_a_real_one_does(cluster, file):
    golden = json.loads((GOLDEN / f"{file}.json").read_text())
    cluster.protect("app-01", 3)
    cluster.protect("app-02", 0)
    cluster.budgets["shop/second"] = cluster.budgets["shop/app-02"]
    owner = {"refused": "app-01", "two-budgets": "app-02"}.get(file, "app-03")
    name = "nobody" if file == "not-found" else cluster.of(owner)[0]["metadata"]["name"]
    body = {"deleteOptions": {"preconditions": {"uid": "another"}}} if file == "another-uid" else {}
    path = f"/api/v1/namespaces/shop/pods/{name}/eviction"
    answer = cluster.transport("POST", path, json.dumps(body).encode(), 1.0)
    said, real = json.loads(answer.body), golden["answer"]
    assert answer.status == golden["status"]
    assert said["message"].split()[:3] == real["message"].split()[:3]
    causes = [[cause["reason"] for cause in one.get("details", {}).get("causes", [])] for one in (said, real)]
    assert causes[0] == causes[1]


def test_a_server_that_hangs_is_not_waited_for(cluster, api):
    api.minor()
    cluster.trouble = lambda method, path: OSError("hangs")
    begin = time.monotonic()
    with pytest.raises(ApiError, match="no answer"):
        api.evict(*first(cluster))
    assert time.monotonic() - begin < 5


def test_what_changes_nothing_is_asked_again(cluster, api):
    waits, left = [], [503, 429, 500]
    api.sleep = waits.append
    cluster.trouble = lambda method, path: Answer(left.pop(0), {"retry-after": "9"}, b"") if left else None
    assert api.minor() == 25
    assert waits == [9, 9, 9]
    left += [503] * 9
    with pytest.raises(ApiError, match="server error"):
        api.objects()


def test_the_time_is_the_servers(cluster, api):
    assert api.now() == pytest.approx(cluster.time, abs=2)
    assert abs(time.time() - api.now()) > 3600


def test_a_pod_by_its_name(cluster, api):
    namespace, name, uid = first(cluster)
    assert api.pod(namespace, name)["metadata"]["uid"] == uid
    assert api.pod(namespace, "nobody") is None


def test_an_event(cluster, api):
    namespace, name, uid = first(cluster)
    api.event({"namespace": namespace, "name": name, "uid": uid}, "Rebalanced", "x" * 9000, "me")
    (event,) = cluster.events
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": namespace,
        "name": name,
        "uid": uid,
    }
    assert len(event["message"]) == 1024


def test_bad_kubeconfigs_are_refused(tmp_path):
    with pytest.raises(InputError, match="kubeconfig"):
        connect(ApiOptions(kubeconfig=tmp_path / "none"))
    file = tmp_path / "config"
    file.write_text(kubeconfig("http://127.0.0.1:1"))
    with pytest.raises(InputError, match="kubeconfig"):
        connect(ApiOptions(kubeconfig=file, context="another"))
    with pytest.raises(InputError, match="api_timeout is 0"):
        connect(ApiOptions(kubeconfig=file, api_timeout=0))
    with pytest.raises(ApiError, match="no answer"):
        KubeApi(connect(ApiOptions(kubeconfig=file)).transport, sleep=lambda seconds: None).minor()


def test_without_the_client_it_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(InputError, match=r"pip install 'tvwrl\[kubernetes\]'"):
        connect(ApiOptions(kubeconfig=tmp_path / "none"))


def test_a_kubeconfig_that_verifies_nothing_is_not_complained_of_at_every_request(tmp_path):
    from urllib3.exceptions import InsecureRequestWarning

    content = json.loads(kubeconfig("https://127.0.0.1:1"))
    content["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    (tmp_path / "config").write_text(json.dumps(content))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        connect(ApiOptions(kubeconfig=tmp_path / "config"))
        warnings.warn("unverified", InsecureRequestWarning, stacklevel=1)
    assert not told
