"""How a control plane comes up on loopback: etcd, kube-apiserver, kube-scheduler and, where a test needs it,
kube-controller-manager, in a temporary folder."""

from __future__ import annotations

import http.client
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from e2e.api import Api
from e2e.processes import Failure, Process, free_port

TOKEN = "e2e"  # of a server that lives for minutes on loopback
REBALANCER = "rebalancer"  # another, of the service account of `deploy/rebalance`
WEIGHT = 1000  # of the extender's score, 0 to 10, against some ten scores of 0 to 100 of the scheduler's own


@dataclass(frozen=True, kw_only=True)
class Extender:
    """What kube-scheduler is told about an extender."""

    url: str
    """where it listens, such as http://127.0.0.1:8888"""
    node_cache_capable: bool = True
    """send names of nodes instead of whole Node objects"""
    timeout: float = 2.0
    """seconds after which the scheduler goes on without it"""
    bind: bool = False
    """let the extender bind the pods it placed"""

    def section(self) -> dict[str, Any]:
        """Entry under ``extenders`` of KubeSchedulerConfiguration."""
        verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize"} | ({"bindVerb": "bind"} if self.bind else {})
        return verbs | {
            "urlPrefix": self.url,
            "weight": WEIGHT,
            "nodeCacheCapable": self.node_cache_capable,
            "ignorable": True,
            "httpTimeout": f"{self.timeout:g}s",
        }


class ControlPlane:
    """etcd, API server and scheduler; ``stop()`` ends them all."""

    def __init__(self, programs: Path, folder: Path):
        self.programs, self.folder = programs, folder
        self.api_port = free_port()
        self.api = Api(self.api_port, TOKEN)
        self.audit = folder / "audit.log"
        self._running: list[Process] = []
        self.scheduler: Process | None = None

    @property
    def url(self) -> str:
        """Address of the API server."""
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def certificate(self) -> Path:
        """Certificate that the API server signed for itself."""
        return self.folder / "certificates" / "apiserver.crt"

    def start(self) -> None:
        """Start etcd and the API server, and wait until they are ready."""
        port, peers = free_port(), free_port()
        etcd: list[str | Path] = [
            "etcd", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync", "--log-level=warn",
            f"--listen-client-urls=http://127.0.0.1:{port}", f"--advertise-client-urls=http://127.0.0.1:{port}",
            f"--listen-peer-urls=http://127.0.0.1:{peers}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}",
            f"--initial-cluster=default=http://127.0.0.1:{peers}",
        ]  # fmt: skip
        self._start("etcd", etcd).wait_until(lambda: _healthy(f"http://127.0.0.1:{port}/health"))
        self._start("kube-apiserver", self._apiserver(port)).wait_until(self._api_ready, 120)

    def schedule(self, extender: Extender | None) -> None:
        """Start the scheduler with this extender, or with none; one that runs already is stopped first."""
        self.pause()
        health = free_port()
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.kubeconfig()), "qps": 5000, "burst": 5000},
            "percentageOfNodesToScore": 100,
            "healthzBindAddress": f"127.0.0.1:{health}",
            "metricsBindAddress": f"127.0.0.1:{health}",
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 3,
            "extenders": [extender.section()] if extender else [],
        }
        path = self.folder / "scheduler.json"  # JSON is YAML
        path.write_text(json.dumps(configuration, indent=1))
        command: list[str | Path] = [self.programs / "kube-scheduler", f"--config={path}", "--bind-address=127.0.0.1"]
        command += [f"--secure-port={free_port()}", f"--cert-dir={self.folder / 'certificates-scheduler'}"]
        self.scheduler = self._start("kube-scheduler", command)
        self.scheduler.wait_until(lambda: _healthy(f"http://127.0.0.1:{health}/healthz"))

    def pause(self) -> None:
        """Stop the scheduler, if it runs."""
        if self.scheduler:
            self.scheduler.stop()
            self._running.remove(self.scheduler)
            self.scheduler = None

    def manage(self) -> Process:
        """Start the controllers of ReplicaSets and of PodDisruptionBudgets; the caller stops them."""
        command: list[str | Path] = [
            self.programs / "kube-controller-manager", f"--kubeconfig={self.kubeconfig()}",
            "--controllers=replicaset,disruption", "--leader-elect=false", "--bind-address=127.0.0.1", "--port=0",
            f"--secure-port={free_port()}", f"--cert-dir={self.folder / 'certificates-manager'}",
            "--kube-api-qps=1000", "--kube-api-burst=1000", "--concurrent-replicaset-syncs=10",
        ]  # fmt: skip
        return Process("kube-controller-manager", command, self.folder)

    def stop(self) -> None:
        """End everything, the last started first."""
        while self._running:
            self._running.pop().stop()

    def _start(self, name: str, command: list[str | Path]) -> Process:
        process = Process(name, command, self.folder)
        self._running.append(process)
        return process

    def _apiserver(self, etcd: int) -> list[str | Path]:
        key, tokens, policy = (self.folder / name for name in ("service-accounts.key", "tokens.csv", "audit.json"))
        done = subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"openssl made no key: {done.stderr}")
        account = "system:serviceaccount:tvwrl:tvwrl-rebalance"
        tokens.write_text(f'{TOKEN},admin,1,"system:masters"\n{REBALANCER},{account},2\n')
        # Every request to bind or evict a pod is written down with its answer: what was bound where, and how often.
        asked = ["pods/binding", "pods/eviction"]
        bindings = {"level": "Request", "resources": [{"group": "", "resources": asked}]}
        rules = [bindings | {"omitStages": ["RequestReceived"]}, {"level": "None"}]
        policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
        return [
            self.programs / "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd}",
            "--bind-address=127.0.0.1", f"--secure-port={self.api_port}", f"--cert-dir={self.folder / 'certificates'}",
            f"--token-auth-file={tokens}", "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={key}", "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            f"--audit-policy-file={policy}", f"--audit-log-path={self.audit}", "--audit-log-mode=blocking",
            "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
        ]  # fmt: skip

    def _api_ready(self) -> bool:
        try:
            self.api.get("/readyz")
            self.api.get("/api/v1/namespaces/default")
        except Exception:
            return False
        return True

    def kubeconfig(self) -> Path:
        """File with which a client reaches the API server."""
        path = self.folder / "kubeconfig"
        cluster = {"server": self.url, "insecure-skip-tls-verify": True}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": "e2e", "user": {"token": TOKEN}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            "current-context": "e2e",
        }
        path.write_text(json.dumps(config))
        return path


def _healthy(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException):
        return False
