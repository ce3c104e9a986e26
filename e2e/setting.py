"""Everything that a test of the extender needs, up and running: control plane, kubelets, usage, metrics, extender."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Literal, Self

from e2e.api import ApiError
from e2e.control_plane import TOKEN, ControlPlane, Extender
from e2e.extender import REFERENCE, Running, tvwrl
from e2e.kubelets import PODS, Kubelets, Life
from e2e.monitoring import Door, Monitoring
from e2e.processes import Failure, wait_for
from e2e.usage import Exporter

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[1]
NODES = "/api/v1/nodes"
EXTENDERS = ("tvwrl", "reference")
DEFAULT_POLICY = "best-fit"


def programs() -> Path:
    """Folder with kube-apiserver and kube-scheduler, built if they are not there yet."""
    done = subprocess.run([ROOT / "e2e" / "build-kubernetes"], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failure("e2e/build-kubernetes failed; see above")
    for program in ("etcd", "prometheus", "openssl"):
        if shutil.which(program) is None:
            raise Failure(f"{program} is not installed: apt-get install etcd-server prometheus openssl")
    return Path(done.stdout.strip())


class Setting:
    """A cluster of ``nodes``, in a ``with`` statement; the folder with the logs stays if something failed."""

    def __init__(self, nodes: list[Json], extender: str = "tvwrl", policy: str = DEFAULT_POLICY):
        self.node_objects = {node["metadata"]["name"]: node for node in nodes}
        self.kind, self.policy = extender, policy
        self.folder = Path(tempfile.mkdtemp(prefix="tvwrl-e2e-"))
        self._open: list[Any] = []
        self._extra: list[Running] = []

    def __enter__(self) -> Self:
        signal.signal(signal.SIGTERM, _interrupted)
        try:
            self._start()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def _start(self) -> None:
        self.plane = ControlPlane(programs(), self.folder)
        self._open.append(self.plane)
        self.plane.start()
        self.plane.api.at_once(lambda node: self.plane.api.create(NODES, node), list(self.node_objects.values()))
        self.kubelets = Kubelets(self.plane.api)
        self._open.append(self.kubelets)
        self.exporter = Exporter(self.kubelets, lambda: list(self.node_objects.values()))
        self._open.append(self.exporter)
        self.monitoring = Monitoring(self.exporter.port, self.folder)
        self._open.append(self.monitoring)
        self.monitoring.start()
        self.door = Door(self.monitoring.port)
        self._open.append(self.door)
        count = len(self.node_objects)
        query = 'count(kube_node_status_allocatable{resource="cpu"})'
        wait_for("Prometheus has the nodes", lambda: self.monitoring.value(query) == count, 30)
        self.reference = Running(REFERENCE, self.folder, "reference")
        self.extender = self.reference if self.kind == "reference" else self.serve()
        self._open.append(self.extender)
        self.extender.start()

    def serve(self, *options: str, name: str = "extender") -> Running:
        """`tvwrl serve`, not started yet, with more options."""
        return Running(tvwrl(self.policy, self.door.url, *options), self.folder, name)

    def serve_binding(self) -> Running:
        """`tvwrl serve` that offers /bind, started; it stops at the end of the part."""
        token = self.folder / "token"
        token.write_text(TOKEN)
        api = ("--kubernetes", self.plane.url, "--kubernetes-token-file", str(token))
        binder = self.serve("--bind", *api, "--kubernetes-ca", str(self.plane.certificate), name="extender-binds")
        self.closing(binder)
        binder.start()
        return binder

    def schedule(self, extender: Running | Literal["tvwrl"] | None = "tvwrl", **section: Any) -> None:
        """Start the scheduler with this extender (default: the one under test), or with none."""
        running = self.extender if extender == "tvwrl" else extender
        self.plane.schedule(Extender(url=running.url, **section) if running else None)

    def settle(self, seconds: float = 60) -> None:
        """Wait until the extender has seen in the metrics all pods that there are now."""

        def seen() -> bool:
            metrics = [event for event in self.extender.events(since) if event["event"] == "metrics"]
            # Pods may come and go meanwhile; two scrapes and two looks at them have seen whatever was there.
            return bool(metrics) and (metrics[-1]["pods"] == len(self.kubelets.alive()) or len(metrics) > 4)

        since = self.extender.position()
        wait_for("the extender sees all pods", seen, seconds)

    def closing(self, extender: Running) -> None:
        """Stop this one too at the end of the part."""
        self._extra.append(extender)

    def closed(self) -> None:
        """End of a part: stop what it started, let the extender run and the door be open."""
        while self._extra:
            self._extra.pop().stop()
        self.door.trouble = self.exporter.twist = None
        self.kubelets.start_pods = True
        self.cordon(sorted(self.node_objects), shut=False)

    def create(self, pods: list[Json]) -> list[str]:
        """Create the pods, as fast as the API takes them; their uids."""
        return [
            made["metadata"]["uid"]
            for made in self.plane.api.at_once(lambda pod: self.plane.api.create(PODS, pod), pods)
        ]

    def bound(self, uids: list[str], seconds: float) -> list[Life]:
        """The pods, once all are bound. Failure after ``seconds``."""
        found = self.kubelets.wait_bound(uids, seconds)
        if len(found) < len(uids):
            raise Failure(f"{len(uids) - len(found)} of {len(uids)} pods not bound within {seconds:g} s")
        return found

    def remove_node(self, name: str) -> None:
        """A node vanishes with its pods, as if it burnt down and the controllers had noticed."""
        self.node_objects.pop(name)
        self.plane.api.delete(f"{NODES}/{name}")
        for life in self.kubelets.alive():
            if life.node == name:
                self.plane.api.delete(f"{PODS}/{life.name}")

    def cordon(self, names: list[str], shut: bool = True) -> None:
        """Offer these nodes to no new pod, or offer them again."""
        self.plane.api.at_once(
            lambda name: self.plane.api.merge(f"{NODES}/{name}", {"spec": {"unschedulable": shut}}), names
        )

    def empty(self) -> None:
        """Delete all pods, and wait until they have left the metrics too."""
        for _ in range(3):
            try:
                self.plane.api.delete(PODS)
            except ApiError as error:
                if error.status not in (409, 500):
                    raise
        wait_for("no pod is left", lambda: not self.kubelets.alive(), 60)
        wait_for("no pod is left in Prometheus", lambda: self.monitoring.value("count(kube_pod_info)") == 0, 60)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        while self._extra:
            self._extra.pop().stop()
        while self._open:
            self._open.pop().stop()
        if kind is None and "TVWRL_E2E_KEEP" not in os.environ:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"logs of all programs: {self.folder}")


def _interrupted(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
