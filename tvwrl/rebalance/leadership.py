"""Which of several controllers may act: the holder of a Lease, which also carries what must outlive every process.

Each eviction is preceded by a write of the Lease that succeeds only if nobody else has written it since. So a process
that slept while its Lease ran out learns of it before it evicts, and what it is about to do is already written down
where its successor reads it.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from tvwrl.checks import at_least
from tvwrl.rebalance.kube_api import ABSENT, CONFLICT, ApiError, Json, KubeApi
from tvwrl.types import InputError

NOTE = "tvwrl.io/evictions"  # annotation


@dataclass(frozen=True)
class LeaseOptions:
    """Which controllers elect one of them to act."""

    heading = "lease, by which one controller acts"
    lease: str = "tvwrl-rebalance"
    """Name of the Lease whose holder may evict; in an annotation it keeps what was evicted, for budgets."""
    lease_namespace: str = "tvwrl"
    """Its namespace."""
    lease_seconds: int = 15
    """Seconds after which another controller may act if the holder is silent."""

    def check(self) -> None:
        """Raise InputError for values out of range."""
        at_least(5, lease_seconds=self.lease_seconds)


class NotLeading(Exception):
    """Another controller leads now, or may."""


class Leadership:
    """Holds a Lease, or waits for it.

    Parameters
    ----------
    api : KubeApi
        Where the Lease is.
    options : LeaseOptions
        Which one.
    identity : str
        Of this process, different from all others.
    """

    def __init__(self, api: KubeApi, options: LeaseOptions, identity: str) -> None:
        self._api, self._options, self.identity = api, options, identity
        self._lock = threading.RLock()
        self._lease: Json | None = None
        self._until = float("-inf")  # on the API's clock of seconds
        self._seen = ("", 0.0)  # version of another's Lease, and since when it has not changed
        self.note = ""
        self.terms = 0  # how often it was taken: each time another may have written the note since

    def leads(self, ahead: float = 0.0) -> bool:
        """Whether the Lease is ours now and for so many seconds."""
        return self._api.clock() + ahead < self._until

    def acquire(self) -> bool:
        """Take the Lease if it is free or has run out; whether it is ours. Raises ApiError, and InputError where its
        namespace does not exist."""
        with self._lock:
            if self.leads():
                return True
            found = self._api.lease(self._options.lease_namespace, self._options.lease)
            if found is not None and not self._free(found):
                return False
            self._lease = found
            self.note = str(((found or {}).get("metadata", {}).get("annotations") or {}).get(NOTE, ""))
            try:
                self._put(self.note, taken=True)
            except ApiError as error:
                if error.name == CONFLICT:  # another was faster
                    return False
                if error.name == ABSENT and found is None:
                    raise InputError(
                        f"lease_namespace is {self._options.lease_namespace}: there is no such namespace for the Lease "
                        f"of the controller; name another, or: kubectl create namespace {self._options.lease_namespace}"
                    ) from None
                raise
            self.terms += 1
            return True

    def write(self, note: str) -> None:
        """Replace what the Lease carries, and renew it. Raises NotLeading, and ApiError where it is not known whether
        that happened."""
        with self._lock:
            for last in (False, True):
                if self._lease is None:
                    raise NotLeading("the Lease is not held")
                try:
                    self._put(note)
                    return
                except ApiError as error:
                    if error.name not in (CONFLICT, ABSENT):
                        raise
                found = self._api.lease(self._options.lease_namespace, self._options.lease)
                holder = ((found or {}).get("spec") or {}).get("holderIdentity")
                if holder != self.identity or last:  # it is ours if an earlier write arrived without an answer to us
                    self._lease, self._until = None, float("-inf")
                    raise NotLeading(f"the Lease is held by {holder or 'nobody'}")
                self._lease = found

    def renew(self) -> None:
        """Hold it for longer. Raises NotLeading and ApiError."""
        with self._lock:
            self.write(self.note)

    def release(self) -> None:
        """Let another controller take it at once."""
        with self._lock:
            if self._lease is not None and self.leads():
                with suppress(ApiError, NotLeading):
                    self.identity, ours = "", self.identity
                    try:
                        self._put(self.note)
                    finally:
                        self.identity = ours
            self._lease, self._until = None, float("-inf")

    def keep(self, stopped: threading.Event) -> threading.Thread:
        """Renew it in a thread of its own until `stopped`, while it is ours."""

        def work() -> None:
            while not stopped.wait(self._options.lease_seconds / 3):
                if self._lease is not None:
                    with suppress(ApiError, NotLeading):
                        self.renew()

        thread = threading.Thread(target=work, name="lease", daemon=True)
        thread.start()
        return thread

    def _free(self, lease: Json) -> bool:
        """Whether nobody holds it, by its own word or as it has not changed for as long as it lasts.

        Clocks of machines differ, so that the time in the Lease is not compared with ours.
        """
        spec, version = lease.get("spec") or {}, str(lease["metadata"].get("resourceVersion"))
        if spec.get("holderIdentity") in (None, "", self.identity):
            return True
        now = self._api.clock()
        if self._seen[0] != version:
            self._seen = (version, now)
        return now - self._seen[1] >= float(spec.get("leaseDurationSeconds") or self._options.lease_seconds)

    def _put(self, note: str, taken: bool = False) -> None:
        """Write the Lease as ours. Raises ApiError."""
        begin, before = self._api.clock(), self._lease or {}
        about, spec = before.get("metadata") or {}, before.get("spec") or {}
        now = _micro(self._api.now())
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                **{key: about[key] for key in ("resourceVersion", "uid", "labels") if key in about},
                "name": self._options.lease,
                "namespace": self._options.lease_namespace,
                "annotations": {**(about.get("annotations") or {}), NOTE: note},
            },
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": self._options.lease_seconds,
                "acquireTime": now if taken else spec.get("acquireTime") or now,
                "renewTime": now,
                "leaseTransitions": int(spec.get("leaseTransitions") or 0) + int(taken),
            },
        }
        self._lease = self._api.write_lease(lease)
        self._until, self.note = begin + self._options.lease_seconds, note


def _micro(seconds: float) -> str:
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((seconds - whole) * 1e6):06d}Z"
