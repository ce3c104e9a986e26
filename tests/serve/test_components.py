"""What comes out of deploy/, put together by kustomize, with and without its components."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from tests.serve.manifests import DEPLOY, ROOT, pod_of

yaml = pytest.importorskip("yaml")


ALL = sorted(path.parent.name for path in DEPLOY.glob("*/kustomization.yaml"))


def put_together(tmp_path: Path, components: bool | str) -> list[dict[str, Any]]:
    """All objects; with all components, with none, or with one."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    folder = tmp_path / "deploy"
    shutil.copytree(DEPLOY, folder)
    if components:
        file = folder / "kustomization.yaml"
        names = components if isinstance(components, str) else "[a-z-]+"
        text, count = re.subn(rf"^  # - ({names}) .*$", r"  - \1", file.read_text(), flags=re.MULTILINE)
        assert count == (1 if isinstance(components, str) else len(ALL))
        file.write_text(text)
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def one_of(made: list[dict[str, Any]], kind: str, name: str = "tvwrl") -> dict[str, Any]:
    (found,) = [one for one in made if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def selects(selector: dict[str, Any] | None, labels: dict[str, str]) -> bool:
    """Whether a label selector matches; None and {} match everything."""
    assert set(selector or {}) <= {"matchLabels"}
    return (selector or {}).get("matchLabels", {}).items() <= labels.items()


@dataclass(frozen=True)
class Peer:
    """A pod, or a host where it has no labels."""

    labels: dict[str, str] | None = None
    namespace: str = ""
    address: str = "10.244.1.7"

    def matches(self, given: dict[str, Any], home: str) -> bool:
        """By the rules of NetworkPolicyPeer: without a namespaceSelector, pods of the policy's own namespace."""
        if "ipBlock" in given:
            return ip_address(self.address) in ip_network(given["ipBlock"]["cidr"])
        if self.labels is None:
            return False
        own = {"kubernetes.io/metadata.name": self.namespace}
        inside = selects(given["namespaceSelector"], own) if "namespaceSelector" in given else self.namespace == home
        return inside and selects(given.get("podSelector"), self.labels)


def passes(policy: dict[str, Any], direction: str, peer: Peer, port: int, protocol: str = "TCP") -> bool:
    side = {"ingress": "from", "egress": "to"}[direction]
    return any(
        {"protocol": protocol, "port": port} in rule["ports"]
        and (not rule.get(side) or any(peer.matches(one, policy["metadata"]["namespace"]) for one in rule[side]))
        for rule in policy["spec"][direction]
    )


OPERATED = {  # a pod of the chart kube-prometheus-stack
    "app.kubernetes.io/name": "prometheus", "app.kubernetes.io/managed-by": "prometheus-operator",
    "app.kubernetes.io/instance": "kps-kube-prometheus-stack-prometheus", "operator.prometheus.io/shard": "0",
    "operator.prometheus.io/name": "kps-kube-prometheus-stack-prometheus",
    "prometheus": "kps-kube-prometheus-stack-prometheus",
}  # fmt: skip
PLAIN = {  # one of the chart prometheus
    "app.kubernetes.io/name": "prometheus", "app.kubernetes.io/component": "server",
    "app.kubernetes.io/instance": "prometheus",
}  # fmt: skip
SCHEDULER = {"app.kubernetes.io/name": "tvwrl-scheduler", "pod-template-hash": "5d9c7b6f4"}
HOST = Peer(address="10.0.0.3")


@pytest.mark.parametrize("components", [False, True])
def test_who_may_connect(tmp_path, components):
    policy = one_of(put_together(tmp_path, components), "NetworkPolicy")
    for labels in (OPERATED, PLAIN):
        prometheus = Peer(labels, "monitoring")
        assert passes(policy, "ingress", prometheus, 8888)
        assert passes(policy, "egress", prometheus, 9090)
        for port in (80, 443, 8080, 9090):
            assert not passes(policy, "ingress", prometheus, port)
        for port in (80, 8888, 9091):
            assert not passes(policy, "egress", prometheus, port)
        for namespace in ("default", "tvwrl", "kube-system", "monitoring-2"):
            assert not passes(policy, "ingress", Peer(labels, namespace), 8888)
            assert not passes(policy, "egress", Peer(labels, namespace), 9090)
    for labels in ({}, {"app.kubernetes.io/name": "grafana"}, {"app.kubernetes.io/name": "prometheus-node-exporter"}):
        assert not passes(policy, "ingress", Peer(labels, "monitoring"), 8888)
    assert passes(policy, "ingress", Peer(SCHEDULER, "tvwrl"), 8888)
    assert not passes(policy, "ingress", Peer(SCHEDULER, "default"), 8888)
    assert passes(policy, "ingress", HOST, 8888) == components
    assert not passes(policy, "ingress", Peer(address="10.244.0.1"), 8888)
    for protocol in ("UDP", "TCP"):
        assert passes(policy, "egress", Peer({"k8s-app": "kube-dns"}, "kube-system"), 53, protocol)
        assert passes(policy, "egress", Peer(address="169.254.20.10"), 53, protocol)
        assert not passes(policy, "egress", Peer({}, "default"), 53, protocol)
    assert not passes(policy, "egress", Peer({"component": "kube-apiserver"}, "kube-system"), 22)
    assert passes(policy, "egress", HOST, 6443) == components  # to bind


@pytest.mark.parametrize("components", [False, True])
def test_every_selector_and_port_finds_its_pods(tmp_path, components):
    made = put_together(tmp_path, components)
    templates = [one["spec"]["template"] for one in made if one["kind"] == "Deployment"]
    selecting = [one for one in made if one["kind"] in ("Deployment", "PodDisruptionBudget", "PodMonitor")]
    for selector in [one["spec"]["selector"] for one in selecting] + [
        {"matchLabels": one_of(made, "Service")["spec"]["selector"]},
        *(one["spec"]["podSelector"] for one in made if one["kind"] == "NetworkPolicy"),
    ]:
        assert len([one for one in templates if selects(selector, one["metadata"]["labels"])]) == 1
    for template in templates:
        (container,) = template["spec"]["containers"]
        ports = {port["name"] for port in container["ports"]}
        probes = [probe for name, probe in container.items() if name.endswith("Probe")]
        assert probes
        assert {probe["httpGet"]["port"] for probe in probes} <= ports
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        assert mounts.keys() == {one["name"] for one in template["spec"]["volumes"]}
        assert len(set(mounts.values())) == len(mounts)
    if components:
        (endpoint,) = one_of(made, "PodMonitor")["spec"]["podMetricsEndpoints"]
        (port,) = one_of(made, "Deployment")["spec"]["template"]["spec"]["containers"][0]["ports"]
        assert endpoint == {"port": port["name"], "path": "/metrics"}


@pytest.mark.parametrize("name", ALL)
def test_each_component_goes_alone(tmp_path, name):
    """It changes something, and the extender keeps what every pod must have."""
    (tmp_path / "without").mkdir()
    made, without = put_together(tmp_path, name), put_together(tmp_path / "without", False)
    assert made != without
    secured = [
        one_of(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["securityContext"]
        for objects in (made, without)
    ]
    assert secured[0] == secured[1]


def test_the_schedulers_keep_apart(tmp_path):
    template = one_of(put_together(tmp_path, False), "Deployment", "tvwrl-scheduler")["spec"]["template"]
    (apart,) = template["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert selects(apart["podAffinityTerm"]["labelSelector"], template["metadata"]["labels"])


def test_components_do_what_they_say(tmp_path):
    made = put_together(tmp_path, components=True)
    pod = one_of(made, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {one["name"]: Path(one["mountPath"]) for one in container["volumeMounts"]}
    variables = {one["name"]: one for one in container["env"]}
    given = dict(option.removeprefix("--").partition("=")[::2] for option in container["args"][1:])  # the last counts
    assert Path(given["policy"]).parent == mounts["policy"]
    assert Path(given["record"]).parent == mounts["record"]
    assert "bind" in given
    assert Path(variables["SSL_CERT_FILE"]["value"]).parent == mounts["prometheus-ca"]
    assert variables["TVWRL_PROMETHEUS_HEADER"]["valueFrom"]["secretKeyRef"]["key"] == "header"
    volumes = {one["name"]: one for one in pod["volumes"]}
    claim = one_of(made, "PersistentVolumeClaim", "tvwrl-record")
    assert volumes["record"] == {"name": "record", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
    assert mebibytes(claim["spec"]["resources"]["requests"]["storage"]) > int(given["record-mib"])
    told = "".join(path.read_text(encoding="utf-8") for path in DEPLOY.glob("*/kustomization.yaml"))
    for volume in volumes.values():
        if "configMap" in volume:
            assert f"create configmap {volume['configMap']['name']} " in told
    assert f"create secret generic {variables['TVWRL_PROMETHEUS_HEADER']['valueFrom']['secretKeyRef']['name']} " in told


def mebibytes(quantity: str) -> float:
    return float(quantity[:-2]) * {"Mi": 1, "Gi": 1024}[quantity[-2:]]


def test_memory_is_what_was_measured(tmp_path):
    """Requests are no less than the largest of the measured policies of their kind, limits have room for answers."""
    text = (ROOT / "docs" / "results" / "speed.md").read_text(encoding="utf-8").partition("## Serving")[2]
    text = text.partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z -]+) \|(?: [\d., ]+ \|){5} (\d+) \| (\d+) \|$", text, re.MULTILINE)
    measured = {name: int(server) + int(reader) for name, server, reader in rows}
    assert len(measured) >= 5
    resources = pod_of("extender.yaml")["containers"][0]["resources"]
    rules = [size for name, size in measured.items() if name != "exported policy"]
    assert max(rules) <= mebibytes(resources["requests"]["memory"])
    assert 1.5 * max(measured.values()) <= mebibytes(resources["limits"]["memory"])
    with_policy = one_of(put_together(tmp_path, components=True), "Deployment")["spec"]["template"]["spec"]
    assert max(measured.values()) <= mebibytes(with_policy["containers"][0]["resources"]["requests"]["memory"])
