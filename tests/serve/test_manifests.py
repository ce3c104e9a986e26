"""What is in deploy/ agrees with the server, with itself, and with what is promised about rights."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from tests.serve.manifests import CONFIGURATIONS, DEPLOY, ROOT, arguments, documents, only, pod_of, settings
from tvwrl.serve.options import ServeSettings

yaml = pytest.importorskip("yaml")
WORKING = ("extender.yaml", "rebalance/rebalance.yaml")
monitoring = pytest.importorskip("tvwrl.serve.monitoring")
moving = pytest.importorskip("tvwrl.rebalance.monitoring")


def metrics() -> set[str]:
    """Names of all metrics that the server and the controller show, labels included where they have values."""
    made = monitoring.Monitoring("rule", False, lambda: 1.0)
    made.requests.labels("/filter", "200").inc()
    made.latency.labels("/filter").observe(0.1)
    made.polls.labels("ok").inc()
    text = made.text() + moving.Monitoring(False, lambda: 1.0, lambda: 1.0).text()
    return set(re.findall(r"^(\w+)(?:\{| )", text.decode(), re.MULTILINE))


def expressions() -> list[str]:
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
    drawn = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    (alerts,) = documents("alerts.yaml")
    return drawn + [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]


def seconds(duration: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(ms|s)", duration).groups()  # type: ignore[union-attr]
    return int(number) / (1000 if unit == "ms" else 1)


def test_everything_is_yaml_with_a_kind():
    files = [path.relative_to(DEPLOY) for path in DEPLOY.rglob("*.yaml")]
    assert len(files) >= 7
    assert all("kind" in one or "groups" in one for file in files for one in documents(str(file)))


def test_arguments_are_options_with_values_that_the_server_accepts():
    assert set(arguments()) <= {one.name.replace("_", "-") for one in fields(ServeSettings)}
    settings().check()


def test_it_begins_as_a_shadow():
    assert settings().shadow


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_scheduler_asks_where_the_extender_listens(name):
    (extender,) = documents(name)[0]["extenders"]
    service = only("extender.yaml", "Service")
    (port,) = service["spec"]["ports"]
    place = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert extender["urlPrefix"] == f"http://{place}:{port['port']}"
    assert (extender["filterVerb"], extender["prioritizeVerb"]) == ("filter", "prioritize")


def test_ports_agree():
    container = pod_of("extender.yaml")["containers"][0]
    (port,) = container["ports"]
    assert settings().address == ("0.0.0.0", port["containerPort"])
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": port["name"]}
    service, policy = only("extender.yaml", "Service"), only("extender.yaml", "NetworkPolicy")
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    listening = [{"protocol": "TCP", "port": port["containerPort"]}]
    assert [rule["ports"] for rule in policy["spec"]["ingress"]] == [listening, listening]
    template = only("extender.yaml", "Deployment")["spec"]["template"]["metadata"]
    assert template["annotations"]["prometheus.io/port"] == str(port["containerPort"])
    assert service["spec"]["selector"].items() <= template["labels"].items()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_scheduler_without_an_answer_goes_on_and_sees_every_node(name):
    (content,) = documents(name)
    (extender,) = content["extenders"]
    assert content["percentageOfNodesToScore"] == 100
    assert extender["ignorable"] is True
    assert extender["nodeCacheCapable"] is True
    assert extender["weight"] == 1  # 0 is refused together with prioritizeVerb
    assert seconds(extender["httpTimeout"]) > settings().deadline_ms / 1000
    assert [profile["schedulerName"] for profile in content["profiles"]] == ["tvwrl"]


def test_both_configurations_say_the_same():
    new, old = (documents(name)[0] for name in CONFIGURATIONS)
    assert new.pop("apiVersion") == "kubescheduler.config.k8s.io/v1"
    assert old.pop("apiVersion") == "kubescheduler.config.k8s.io/v1beta1"
    assert new == old


@pytest.mark.parametrize("name", ["extender.yaml", "scheduler.yaml"])
def test_nothing_runs_as_root_or_writes_to_its_image(name):
    pod = pod_of(name)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} <= set(container["resources"])


def test_what_the_extender_writes_is_mounted():
    container = pod_of("extender.yaml")["containers"][0]
    mounted = [Path(one["mountPath"]) for one in container["volumeMounts"]]
    written = [Path(one["value"]) for one in container["env"] if one["name"] == "NUMBA_CACHE_DIR"]
    record = settings().record
    assert record is not None
    assert {*written, Path(record).parent} <= set(mounted)
    assert len(written) == 1


def test_the_extender_has_no_rights_unless_it_binds():
    assert pod_of("extender.yaml")["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod_of("extender.yaml")
    assert not {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"} & {
        one["kind"] for one in documents("extender.yaml")
    }
    assert only("bind/rights.yaml", "ClusterRole")["rules"] == [
        {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
    ]


def test_the_second_scheduler_has_the_rights_of_the_first_and_no_others():
    given = {one["roleRef"]["name"] for one in documents("scheduler.yaml") if one["kind"].endswith("RoleBinding")}
    first = {"system:kube-scheduler", "system:volume-scheduler", "extension-apiserver-authentication-reader"}
    (lease,) = [one for one in documents("scheduler.yaml") if one["kind"] in ("Role", "ClusterRole")]
    assert given == first | {lease["metadata"]["name"]}
    assert {resource for rule in lease["rules"] for resource in rule["resources"]} == {"leases"}
    (configuration,) = documents("scheduler-config.yaml")
    election = configuration["leaderElection"]
    assert election["leaderElect"] is True
    assert election["resourceNamespace"] == lease["metadata"]["namespace"]
    assert [rule.get("resourceNames") for rule in lease["rules"]] == [None, [election["resourceName"]]]


def test_prometheus_is_one_of_its_own_namespace():
    """A namespace and a pod in one peer; as two peers, any pod of that namespace, or with that label, would pass."""
    prometheus = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
    }
    policy = only("extender.yaml", "NetworkPolicy")["spec"]
    scheduler, scraping = policy["ingress"]
    assert scheduler["from"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "tvwrl-scheduler"}}}]
    assert scraping["from"] == [prometheus]
    reading = policy["egress"][0]
    assert reading["to"] == [prometheus]
    (port,) = reading["ports"]
    assert arguments()["prometheus"] == f"http://prometheus-operated.monitoring.svc:{port['port']}"
    name = only("scheduler.yaml", "Deployment")["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
    assert name == "tvwrl-scheduler"


def test_there_is_one_extender_and_a_spare_scheduler():
    extender, scheduler = (only(name, "Deployment")["spec"] for name in ("extender.yaml", "scheduler.yaml"))
    assert (extender["replicas"], extender["strategy"], scheduler["replicas"]) == (1, {"type": "Recreate"}, 2)
    assert not [one for one in documents("extender.yaml") if one["kind"] == "PodDisruptionBudget"]
    classes = {
        one["metadata"]["name"]: one["value"] for one in documents("extender.yaml") if one["kind"] == "PriorityClass"
    }
    assert pod_of("extender.yaml")["priorityClassName"] in classes
    assert pod_of("scheduler.yaml")["priorityClassName"] in classes
    assert max(classes.values()) <= 1_000_000_000  # what is above belongs to Kubernetes


def test_the_record_is_smaller_than_its_volume():
    volume = next(one for one in pod_of("extender.yaml")["volumes"] if one["name"] == "record")
    assert settings().record_mib < int(volume["emptyDir"]["sizeLimit"].removesuffix("Mi"))


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in DEPLOY.glob("*/kustomization.yaml")))
def test_components_are_offered_and_change_what_is_there(folder):
    (content,) = documents(f"{folder}/kustomization.yaml")
    assert content["kind"] == "Component"
    assert f"# - {folder} " in (DEPLOY / "kustomization.yaml").read_text(encoding="utf-8")
    assert all((DEPLOY / folder / name).exists() for name in content.get("resources", []))
    pod = pod_of("extender.yaml")
    there = [(one["kind"], one["metadata"]["name"]) for file in WORKING for one in documents(file)]
    for patch in content.get("patches", []):
        merged = yaml.safe_load(patch["patch"])
        target = patch.get("target") or {"kind": merged["kind"], "name": merged["metadata"]["name"]}
        assert there.count((target["kind"], target["name"])) == 1
        if isinstance(merged, dict):
            spec = merged["spec"]["template"]["spec"]
            names = {one["name"] for one in spec.get("containers", [])}
            assert names <= {one["name"] for one in pod["containers"]}


def test_every_metric_that_is_drawn_or_watched_exists():
    named = {name for text in expressions() for name in re.findall(r"\btvwrl_\w+", text)}
    assert named >= {"tvwrl_decisions_total", "tvwrl_fallbacks_total", "tvwrl_metrics_age_seconds"}
    assert named <= metrics()


def test_expressions_are_promql(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    drawn = [{"record": "tried", "expr": text.replace("$__rate_interval", "5m")} for text in expressions()]
    rules = tmp_path / "drawn.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": f"g{i}", "rules": [one]} for i, one in enumerate(drawn)]}))
    done = subprocess.run([promtool, "check", "rules", rules, DEPLOY / "alerts.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_image_serves_as_the_deployment_does():
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    user = pod_of("extender.yaml")["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in text
    assert "[serve,kubernetes]" in text
    assert "torch" not in text.lower().replace("pytorch", "")
    (copied,) = pod_of("extender.yaml")["initContainers"]
    assert "COPY --from=installed /opt/kernels /opt/kernels" in text
    assert copied["command"][2] == "/opt/kernels/."


def test_kustomize_puts_it_together():
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run([kubectl, "kustomize", DEPLOY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = [one for one in yaml.safe_load_all(done.stdout) if one]
    (configuration,) = [one for one in made if one["kind"] == "ConfigMap"]
    (scheduler,) = [one for one in made if one["kind"] == "Deployment" and one["metadata"]["name"] == "tvwrl-scheduler"]
    mounted = scheduler["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"]
    assert configuration["metadata"]["name"] == mounted
    assert "scheduler-config.yaml" in configuration["data"]
