"""What kubelets would do: say that bound pods run, end those whose time is over. Also what happened to every pod."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from e2e.api import Api, ApiError, Json
from e2e.load import Usage, usage_of

PODS = "/api/v1/namespaces/default/pods"


@dataclass
class Life:
    """One pod (one uid), as the API showed it."""

    name: str
    uid: str
    pod: Json
    created: float
    usage: Usage | None = None
    bound: list[str] = field(default_factory=list)
    """nodes that it was seen on: more than one would be a pod bound twice"""
    bound_at: float | None = None
    deleted_at: float | None = None
    started: bool = False

    @property
    def node(self) -> str | None:
        """The node it is on, or was on."""
        return self.bound[-1] if self.bound else None


class Kubelets:
    """Follows all pods; ``lives`` has every pod there ever was, by uid. Times are ``time.time()``."""

    def __init__(self, api: Api):
        self.api = api
        self.lives: dict[str, Life] = {}
        self.start_pods = True
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(4)
        self._changed = threading.Condition()
        for work in (self._follow, self._end_pods):
            threading.Thread(target=work, daemon=True).start()

    def alive(self) -> list[Life]:
        """Pods that exist now."""
        return [life for life in list(self.lives.values()) if life.deleted_at is None]

    def wait_bound(self, uids: list[str], seconds: float) -> list[Life]:
        """Those of ``uids`` that are bound, once all are or after ``seconds``."""
        end = time.monotonic() + seconds
        with self._changed:
            while True:
                bound = [life for uid in uids if (life := self.lives.get(uid)) and life.bound]
                left = end - time.monotonic()
                if len(bound) == len(uids) or left <= 0:
                    return bound
                self._changed.wait(min(left, 1))

    def stop(self) -> None:
        """Follow no longer."""
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _follow(self) -> None:
        while not self._stopped.is_set():
            try:
                listed = self.api.get(PODS)
                present = {pod["metadata"]["uid"] for pod in listed["items"]}
                for pod in listed["items"]:
                    self._see(pod)
                for life in self.alive():
                    if life.uid not in present:
                        life.deleted_at = time.time()
                for change in self.api.watch(PODS, listed["metadata"]["resourceVersion"]):
                    if change["type"] == "ERROR":
                        break
                    self._see(change["object"], gone=change["type"] == "DELETED")
            except (ApiError, OSError, ValueError):
                self._stopped.wait(0.2)

    def _see(self, pod: Json, gone: bool = False) -> None:
        uid, now = pod["metadata"]["uid"], time.time()
        with self._changed:
            life = self.lives.get(uid)
            if life is None:
                life = self.lives[uid] = Life(pod["metadata"]["name"], uid, pod, now, usage_of(pod))
            life.pod = pod
            node = pod["spec"].get("nodeName")
            if node and node not in life.bound:
                life.bound.append(node)
                life.bound_at = life.bound_at or now
            if gone:
                life.deleted_at = now
            self._changed.notify_all()
        if life.bound and not life.started and not gone and self.start_pods:
            life.started = True
            self._pool.submit(self._start, life)

    def _start(self, life: Life) -> None:
        ready = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")]
        status = {"phase": "Running", "conditions": ready, "hostIP": "127.0.0.1"}
        try:
            self.api.merge(f"{PODS}/{life.name}/status", {"status": status})
        except (ApiError, OSError):
            life.started = False

    def _end_pods(self) -> None:
        while not self._stopped.wait(0.5):
            now = time.time()
            for life in self.alive():
                lifetime = life.usage.lifetime if life.usage else None
                if lifetime is not None and life.bound_at is not None and now - life.bound_at > lifetime:
                    with contextlib.suppress(ApiError, OSError):
                        self.api.delete(f"{PODS}/{life.name}")
