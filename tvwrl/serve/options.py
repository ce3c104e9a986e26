"""Options of `tvwrl serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvwrl.checks import at_least, positive, within
from tvwrl.traces import Selector
from tvwrl.types import InputError


@dataclass(frozen=True)
class ServeSettings:
    """Schedule the pods of a Kubernetes cluster: a scheduler extender over HTTP.

    kube-scheduler asks it which nodes may take a pod and which is best (docs/cluster.md). Where it cannot say, because
    it is late or has no fresh metrics, it answers "every node, equal scores", so that it never blocks scheduling.
    """

    policy: str
    """What decides: a rule (tvwrl evaluate --list-schedulers), the folder of a training run, an exported FILE.onnx, or
    shipped:NAME, an agent that comes with the package; the last two need no PyTorch."""
    prometheus: str
    """Prometheus server with the metrics of cAdvisor and kube-state-metrics, e.g. http://host:9090. Set the
    environment variable TVWRL_PROMETHEUS_HEADER to a header that it requires ("Authorization: Bearer ...")."""
    selector: str = ""
    """Label matchers of the cluster, e.g. 'cluster="a"'. Those of namespace and pod choose pods, which serve refuses;
    all others hold for nodes too."""
    listen: str = "127.0.0.1:8888"
    """Address and port; 0.0.0.0:8888 for all interfaces."""
    shadow: bool = False
    """Answer "every node, equal scores", and only record what it would have done."""
    record: Path | None = None
    """File to append every decision to, and the node on which the pod then ran; default with --shadow: decisions.jsonl.
    tvwrl what-if --record FILE reports what the decisions were worth."""
    record_mib: int = 256
    """Most space that the record takes, MiB: eight files, FILE and FILE.1, FILE.2, ..., of which the oldest goes when a
    new one begins. tvwrl what-if reads them all. 256 MiB are some 600,000 pods."""
    report_hours: float = 24.0
    """With --shadow: hours between reports, which tvwrl what-if writes beside the record; 0: none."""
    slot_length: int | None = None
    """Length of a slot, seconds; default: the policy's own, for rules 1800."""
    poll_seconds: float = 15.0
    """Seconds between reads from Prometheus."""
    window: int = 300
    """Seconds over which current usage is averaged: at least twice the scrape interval."""
    stale_seconds: float = 180.0
    """Age of the newest sample, seconds, from which on it answers "every node, equal scores"."""
    assume_seconds: float = 120.0
    """Seconds for which a pod counts on its chosen node until it appears in the metrics; at least twice the scrape
    interval."""
    longest_hold: float = 900.0
    """Seconds for which the policy may hold a pod; then Kubernetes decides alone."""
    deadline_ms: float = 1000.0
    """Milliseconds within which it answers; set it below httpTimeout of the scheduler's configuration."""
    max_body_mib: int = 32
    """Largest body of a request, MiB: 1,000 whole nodes are about 10."""
    token_file: Path | None = None
    """File with a token that clients need, as a bearer token or as the password in the scheduler's urlPrefix
    (https://any:TOKEN@host:8888)."""
    tls_certificate: Path | None = None
    """Certificate (PEM), to serve HTTPS."""
    tls_key: Path | None = None
    """Key of --tls-certificate (PEM)."""
    tls_client_ca: Path | None = None
    """Certificate authority (PEM): only clients with its certificates are served."""
    bind: bool = False
    """Offer /bind: let the extender bind pods (bindVerb of the scheduler's configuration)."""
    kubernetes: str | None = None
    """API server, for --bind; default: that of the cluster this runs in."""
    kubernetes_token_file: Path | None = None
    """File with the token for --kubernetes; default: the pod's service account."""
    kubernetes_ca: Path | None = None
    """Certificate authority (PEM) of --kubernetes; default: the pod's service account."""

    def check(self) -> None:
        """Raise InputError for values out of range, or that do not go together."""
        at_least(1, slot_length=self.slot_length, window=self.window)
        within(1, 1024, max_body_mib=self.max_body_mib)
        within(1, 2**20, record_mib=self.record_mib)
        if of_pods := Selector(self.selector).pod_labels:
            raise InputError(
                f"selector is {self.selector}: {of_pods[0]} would hide pods that use the nodes; needed: labels of the "
                'cluster, such as cluster="a"'
            )
        positive(
            poll_seconds=self.poll_seconds,
            stale_seconds=self.stale_seconds,
            assume_seconds=self.assume_seconds,
            deadline_ms=self.deadline_ms,
        )
        at_least(0, longest_hold=self.longest_hold, report_hours=self.report_hours)
        if self.stale_seconds <= self.poll_seconds:
            raise InputError(
                f"stale_seconds is {self.stale_seconds:g}: must be more than poll_seconds, {self.poll_seconds:g}"
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise InputError("tls_certificate and tls_key go together: give both, or neither")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise InputError("tls_client_ca needs tls_certificate and tls_key")
        self.address  # noqa: B018 raises

    @property
    def address(self) -> tuple[str, int]:
        """Host and port. Raises InputError."""
        host, colon, port = self.listen.rpartition(":")
        if not colon or not port.isdigit() or not 0 <= int(port) < 65536 or not host.strip("[]"):
            raise InputError(f"listen is {self.listen}: needed: HOST:PORT, such as 127.0.0.1:8888")
        return host.strip("[]"), int(port)


def serve(settings: ServeSettings) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises InputError for what cannot be served."""
    settings.check()
    try:
        from tvwrl.serve.service import Service
    except ImportError as error:
        if error.name is None or error.name.startswith("tvwrl"):
            raise
        raise InputError(f"tvwrl serve needs {error.name}: pip install 'tvwrl[serve]'") from None
    Service(settings).run()
