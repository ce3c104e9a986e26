"""What is in deploy/ for the controller agrees with what it asks of the API server, and begins with a dry run."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from tests.rebalance.controlling import controller, plan_of
from tests.rebalance.fake_cluster import scattered
from tests.serve.manifests import documents, only, pod_of
from tvwrl.rebalance.command import RebalanceSettings
from tvwrl.rebalance.controller import ControllerOptions, WatchOptions
from tvwrl.rebalance.leadership import LeaseOptions

VERBS = {"GET": "list", "POST": "create", "PUT": "update"}
READS, EVICTS = "rebalance/rights.yaml", "rebalance-evicts/rights.yaml"


def asked(cluster):
    """(group, resource, verb) of all requests."""
    found = set()
    for method, path in cluster.requests:
        path = path.partition("?")[0]
        if path == "/version":  # which everybody may see
            continue
        parts = re.fullmatch(
            r"/(?:api/v1|apis/([^/]+)/[^/]+)(?:/namespaces/[^/]+(?=/))?/([a-z]+)(?:/([^/]+)(/[a-z]+)?)?", path
        )
        assert parts, path
        resource = parts[2] + (parts[4] or "")
        verb = "get" if method == "GET" and parts[3] else VERBS[method]
        found.add((parts[1] or "", resource, verb))
    return found


def granted(file):
    return {
        (group, resource, verb)
        for one in documents(file)
        if one["kind"] in ("Role", "ClusterRole")
        for rule in one["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def moves(state):
    names = state.node.tolist()
    return plan_of(state, [(str(pod), names[at - 1]) for pod, at in zip(state.pod, state.at, strict=True)][:3])


def test_it_may_do_what_it_does_and_nothing_else(tmp_path):
    cluster = scattered(4, 2, 4)
    failing = []

    def trouble(method, path):
        if path.endswith("/eviction") and not failing:
            failing.append(path)
            return OSError("hangs")
        return None

    cluster.trouble = trouble
    one = controller(cluster, tmp_path, moves)
    one.turn()
    one._leadership.release()
    assert asked(cluster) == granted(READS) | granted(EVICTS)


def test_a_dry_run_only_lists(tmp_path):
    cluster = scattered(4, 2, 4)
    controller(cluster, tmp_path, moves, dry_run=True).turn()
    assert asked(cluster) == granted(READS)
    assert {verb for *_, verb in granted(READS)} == {"list"}


def test_the_lease_is_its_own():
    role = only(EVICTS, "Role")
    default = LeaseOptions()
    assert role["metadata"]["namespace"] == default.lease_namespace
    create, rest = role["rules"]
    assert create["verbs"] == ["create"]
    assert rest["resourceNames"] == [default.lease]


@pytest.mark.parametrize("file", [READS, EVICTS])
def test_rights_go_to_its_account(file):
    account = {"kind": "ServiceAccount", "name": "tvwrl-rebalance", "namespace": "tvwrl"}
    bindings = [one for one in documents(file) if one["kind"].endswith("Binding")]
    roles = {
        (one["kind"], one["metadata"]["name"]) for one in documents(file) if one["kind"] in ("Role", "ClusterRole")
    }
    assert {(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in bindings} == roles
    assert all(one["subjects"] == [account] for one in bindings)
    assert pod_of("rebalance/rebalance.yaml")["serviceAccountName"] == account["name"]


def test_it_begins_with_a_dry_run_and_with_options_that_there_are():
    command, watch, dry_run, *rest = pod_of("rebalance/rebalance.yaml")["containers"][0]["args"]
    assert (command, watch, dry_run) == ("rebalance", "--watch", "--dry-run")
    given = dict(option.removeprefix("--").split("=", 1) for option in rest)
    known = {one.name.replace("_", "-") for one in fields(RebalanceSettings)}
    assert given.keys() | {"watch", "dry-run"} <= known
    (patch,) = [
        one["patch"] for one in documents("rebalance-evicts/kustomization.yaml")[0]["patches"]
        if one["target"]["kind"] == "Deployment"
    ]  # fmt: skip
    added = re.findall(r"value: --([a-z-]+)", patch)
    assert added == ["dry-run", "no-dry-run", "extender"]
    assert "extender" in known
    assert WatchOptions().dry_run


def test_options_have_names_of_their_own():
    """So that they can be merged into one command."""
    names = [one.name for part in fields(ControllerOptions) for one in fields(getattr(ControllerOptions(), part.name))]
    assert len(names) == len(set(names))


def test_ports_and_volumes_agree():
    (container,) = pod_of("rebalance/rebalance.yaml")["containers"]
    (port,) = container["ports"]
    assert f"--listen=0.0.0.0:{port['containerPort']}" in container["args"]
    policy = only("rebalance/rebalance.yaml", "NetworkPolicy")["spec"]
    assert policy["ingress"][0]["ports"] == [{"protocol": "TCP", "port": port["containerPort"]}]
    written = [one["value"] for one in container["env"] if one["name"].startswith("TVWRL")]
    mounts = [one["mountPath"] for one in container["volumeMounts"]]
    assert all(any(path.startswith(mount) for mount in mounts) for path in written)
