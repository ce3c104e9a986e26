"""The Kubernetes API as the controller needs it: a few requests, each with a limit in time and errors that have names.

The official client reads kubeconfig files and service accounts and keeps tokens fresh; what is asked and answered stays
JSON. The rights that it needs are in `deploy/rebalance` and `deploy/rebalance-evicts`.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from tvwrl.checks import positive
from tvwrl.rebalance.kubernetes_objects import Objects
from tvwrl.types import InputError

Json = dict[str, Any]
PAGE = 500  # objects in an answer
MOST_BYTES = 256 * 2**20  # of an answer
PIECE = 2**16  # bytes that are read at a time
TRIES = 4  # of a request that changes nothing
LONGEST_WAIT = 30.0  # seconds between two of them, whatever the server asks for
COMPONENT = "tvwrl-rebalance"  # what events name as their source
LEASES = "/apis/coordination.k8s.io/v1/namespaces"

FORBIDDEN, GONE, CONFLICT, REFUSED, THROTTLED = "forbidden", "gone", "conflict", "refused by a budget", "throttled"
BROKEN, SILENT, ABSENT, OTHER = "server error", "no answer", "not found", "other"
PASSING = (THROTTLED, BROKEN, SILENT)  # a later try may succeed


class Kind(NamedTuple):
    """A kind of object that is read."""

    name: str
    path: str  # of the collection
    group: str  # of the API, "" for the core
    resource: str


KINDS = (
    Kind("Node", "/api/v1/nodes", "", "nodes"),
    Kind("Pod", "/api/v1/pods", "", "pods"),
    Kind("ReplicaSet", "/apis/apps/v1/replicasets", "apps", "replicasets"),
    Kind("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets", "policy", "poddisruptionbudgets"),
    Kind("PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses", "scheduling.k8s.io", "priorityclasses"),
    Kind("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims", "", "persistentvolumeclaims"),
    Kind("PersistentVolume", "/api/v1/persistentvolumes", "", "persistentvolumes"),
    Kind("Namespace", "/api/v1/namespaces", "", "namespaces"),
)
NEEDED = ("Node", "Pod")  # without these nothing is known


@dataclass(frozen=True)
class ApiOptions:
    """How the API server is reached."""

    heading = "API server of Kubernetes"
    kubeconfig: Path | None = None
    """File that says where the API server is; default: in a cluster the pod's service account, elsewhere KUBECONFIG or
    ~/.kube/config."""
    context: str | None = None
    """Context of the kubeconfig; default: its current one."""
    api_timeout: float = 10.0
    """Seconds within which the API server has to answer a request."""

    def check(self) -> None:
        """Raise InputError for values out of range."""
        positive(api_timeout=self.api_timeout)


class ApiError(Exception):
    """What the API server did not do, and why: `name` is one of the constants above.

    `wait`: seconds that the server asks to wait, 0 where it does not say
    """

    def __init__(self, name: str, message: str, wait: float = 0.0) -> None:
        super().__init__(f"{name}: {message}")
        self.name, self.wait = name, wait


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class Transport(Protocol):
    """Sends one request: OSError where there is no answer in time."""

    def __call__(self, method: str, path: str, body: bytes | None, seconds: float) -> Answer: ...


def boottime() -> float:
    """Seconds that go on while the machine sleeps or the process is stopped, where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass
class KubeApi:
    """The requests of the controller.

    Parameters
    ----------
    transport : Transport
        Sends a request.
    timeout : float
        Seconds for each.
    source : str
        Where it is, for messages.
    clock : callable
        Seconds that pass, from any beginning.
    sleep : callable
        Waits so many seconds.

    Examples
    --------
    >>> api = connect(ApiOptions(context="staging"))  # doctest: +SKIP
    >>> api.objects().unreadable  # doctest: +SKIP
    {'PersistentVolume': 'HTTP 403 persistentvolumes is forbidden'}
    """

    transport: Transport
    timeout: float = 10.0
    clock: Callable[[], float] = boottime
    sleep: Callable[[float], None] = time.sleep
    source: str = "the Kubernetes API"
    _date: tuple[float, float] | None = None  # the server's time, and ours when it came
    _minor: int | None = None  # of the server's version 1.x
    _jitter: random.Random = field(default_factory=random.Random)

    def now(self) -> float:
        """Seconds since 1970 on the server's clock, by the Date of its last answer. Raises ApiError without any."""
        if self._date is None:
            self.minor()
        if self._date is None:
            raise ApiError(OTHER, "answers have no Date, so that the server's time is not known")
        return self._date[0] + self.clock() - self._date[1]

    def minor(self) -> int:
        """x of the server's version 1.x. Raises ApiError."""
        if self._minor is None:
            found = re.match(r"\d+", str(self._read("/version").get("minor", "")))
            if found is None:
                raise ApiError(OTHER, "the server says no version")
            self._minor = int(found[0])
        return self._minor

    def objects(self) -> Objects:
        """All objects that say what may run where. Raises ApiError; a kind that may not be listed is left out."""
        found, unreadable = dict[str, list[Json]](), dict[str, str]()
        self.minor()
        begin = self.now()
        for kind in KINDS:
            try:
                found[kind.name] = list(self._listed(kind))
            except ApiError as error:
                if error.name not in (FORBIDDEN, ABSENT) or kind.name in NEEDED:
                    raise
                unreadable[kind.name] = str(error)
        return Objects(found, self.source, begin, unreadable)

    def pods(self, namespace: str) -> list[Json]:
        """Pods of a namespace. Raises ApiError."""
        return list(self._pages(f"/api/v1/namespaces/{quote(namespace)}/pods", "Pod", "v1"))

    def pod(self, namespace: str, name: str) -> Json | None:
        """A pod, None where there is none. Raises ApiError."""
        query = urlencode({"fieldSelector": f"metadata.name={name}"})
        found = self._read(f"/api/v1/namespaces/{quote(namespace)}/pods?{query}").get("items") or []
        return found[0] if found else None

    def evict(self, namespace: str, name: str, uid: str) -> None:
        """Evict the pod with this uid, once. Raises ApiError; after `SILENT` or `BROKEN` it may have happened."""
        version = "policy/v1" if self.minor() >= 22 else "policy/v1beta1"
        body = {
            "apiVersion": version,
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        self._send("POST", f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}/eviction", body)

    def event(self, pod: Mapping[str, str], reason: str, message: str, reporter: str) -> None:
        """Leave an event on a pod (namespace, name, uid), which may be gone. Raises ApiError."""
        at = _rfc3339(self.now())
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{pod['name'][:220]}.{self._jitter.getrandbits(64):016x}",
                "namespace": pod["namespace"],
            },
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", **pod},
            "reason": reason,
            "message": message[:1024],
            "type": "Normal",
            "count": 1,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": reporter[:128],
        }
        self._send("POST", f"/api/v1/namespaces/{quote(pod['namespace'])}/events", body)

    def lease(self, namespace: str, name: str) -> Json | None:
        """A Lease, None where there is none. Raises ApiError."""
        try:
            return self._read(f"{LEASES}/{quote(namespace)}/leases/{quote(name)}")
        except ApiError as error:
            if error.name == ABSENT:
                return None
            raise

    def write_lease(self, lease: Json) -> Json:
        """Create the Lease, or replace the version of it that `lease` names. Raises ApiError: `CONFLICT` if it is there
        already, or has changed since."""
        about = lease["metadata"]
        path = f"{LEASES}/{quote(about['namespace'])}/leases"
        if about.get("resourceVersion"):
            return self._send("PUT", f"{path}/{quote(about['name'])}", lease)
        return self._send("POST", path, lease)

    def _listed(self, kind: Kind) -> Iterator[Json]:
        """Objects of a kind, each with its kind and version, which lists leave out."""
        path, version = kind.path, "v1" if not kind.group else f"{kind.group}/v1"
        if kind.group == "policy" and self.minor() < 21:
            path, version = path.replace("/v1/", "/v1beta1/"), "policy/v1beta1"
        for one in self._pages(path, kind.name, version):
            if version != "policy/v1beta1" or (one.get("spec") or {}).get("selector"):
                yield one  # an empty selector matches no pod in v1beta1, and every one in v1

    def _pages(self, path: str, kind: str, version: str) -> Iterator[Json]:
        """Objects of a collection, asked for in pages; anew where a page comes too late for the server."""
        for attempt in range(TRIES):
            found, following = list[Json](), ""
            try:
                while True:
                    query = {"limit": str(PAGE)} | ({"continue": following} if following else {})
                    answer = self._read(f"{path}?{urlencode(query)}")
                    found += [{"apiVersion": version, "kind": kind, **one} for one in answer.get("items") or []]
                    following = str((answer.get("metadata") or {}).get("continue") or "")
                    if not following:
                        yield from found
                        return
            except ApiError as error:
                if error.name != GONE or attempt + 1 == TRIES:
                    raise

    def _read(self, path: str) -> Json:
        """An answer to a request that changes nothing, tried again where that may help."""
        for attempt in range(TRIES):
            try:
                return self._send("GET", path)
            except ApiError as error:
                if error.name not in PASSING or attempt + 1 == TRIES:
                    raise
                self.sleep(min(max(error.wait, 0.5 * 2**attempt * self._jitter.uniform(0.8, 1.2)), LONGEST_WAIT))
        raise AssertionError

    def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        """The answer to one request. Raises ApiError."""
        try:
            answer = self.transport(method, path, None if body is None else json.dumps(body).encode(), self.timeout)
        except OSError as error:
            raise ApiError(SILENT, f"{method} {path}: {error}") from None
        with contextlib.suppress(KeyError, ValueError):
            date, clock = parsedate_to_datetime(answer.headers["date"]).timestamp(), self.clock()
            if self._date is not None:  # a server whose clock is ahead must not make hours pass faster than they do
                date = min(date, self._date[0] + clock - self._date[1])
            self._date = date, clock
        try:
            content = json.loads(answer.body) if answer.body else {}
        except (ValueError, RecursionError):
            content = None
        if 200 <= answer.status < 300:
            if not isinstance(content, dict):
                raise ApiError(BROKEN, f"{method} {path}: the answer is not a JSON object")
            return content
        raise _error(method, path, answer, content if isinstance(content, dict) else {})


def connect(options: ApiOptions) -> KubeApi:
    """The API server of a kubeconfig, or of the cluster that this runs in. Raises InputError."""
    options.check()
    transport, host = _official(options)
    return KubeApi(transport, options.api_timeout, source=host)


def _official(options: ApiOptions) -> tuple[Transport, str]:
    """Requests over the connections that the official client sets up, and to where."""
    try:
        import urllib3
        from kubernetes import client, config
    except ImportError as error:
        raise InputError(f"the Kubernetes API needs {error.name}: pip install 'tvwrl[kubernetes]'") from None
    made = client.Configuration()
    try:
        if options.kubeconfig is None and options.context is None and _in_cluster():
            config.load_incluster_config(client_configuration=made)  # type: ignore[no-untyped-call]
        else:
            file = None if options.kubeconfig is None else str(options.kubeconfig)
            config.load_kube_config(  # type: ignore[no-untyped-call]
                file, options.context, client_configuration=made, persist_config=False
            )
    except (config.ConfigException, OSError, ValueError) as error:
        raise InputError(f"kubeconfig {options.kubeconfig or '(default)'}: {error}") from None
    if not made.verify_ssl:  # the kubeconfig says so: that need not be repeated at every request
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    pool = client.ApiClient(made).rest_client.pool_manager

    def send(method: str, path: str, body: bytes | None, seconds: float) -> Answer:
        headers = {"Accept": "application/json", "User-Agent": COMPONENT}
        headers |= {"Content-Type": "application/json"} if body is not None else {}
        settings: Any = made.auth_settings()  # a token is read anew where it expires
        headers |= {one["key"]: one["value"] for one in settings.values() if one["value"]}
        end = time.monotonic() + seconds
        try:
            answer = pool.request(
                method,
                made.host + path,
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(total=seconds),
                retries=False,
                preload_content=False,
                redirect=False,
            )
            parts, size = [], 0
            for part in answer.stream(PIECE):
                parts.append(part)
                size += len(part)
                if time.monotonic() > end or size > MOST_BYTES:  # a timeout holds for each part alone
                    answer.close()
                    raise TimeoutError(f"the answer did not end within {seconds:g} s and {MOST_BYTES} bytes")
            answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise OSError(str(error)) from None
        return Answer(answer.status, {name.lower(): value for name, value in answer.headers.items()}, b"".join(parts))

    return send, str(made.host)


def _in_cluster() -> bool:
    return Path("/var/run/secrets/kubernetes.io/serviceaccount/token").exists()


def _error(method: str, path: str, answer: Answer, content: Json) -> ApiError:
    """By status, and for evictions by what the server says of budgets."""
    details = content.get("details") or {}
    causes = [str(cause.get("reason", "")) for cause in details.get("causes") or []]
    message = f"{method} {path.partition('?')[0]}: HTTP {answer.status} {content.get('message') or ''}".rstrip()
    asked = answer.headers.get("retry-after") or str(details.get("retryAfterSeconds") or "")
    wait = min(float(asked), 3600.0) if re.fullmatch(r"\d{1,6}", asked) else 0.0
    by_budget = path.endswith("/eviction") and (
        "DisruptionBudget" in causes
        or (answer.status == 429 and "disruption budget" in str(content.get("message")))
        or (answer.status == 500 and "more than one PodDisruptionBudget" in str(content.get("message")))
    )
    names = {401: FORBIDDEN, 403: FORBIDDEN, 404: ABSENT, 409: CONFLICT, 410: GONE, 429: THROTTLED}
    name = REFUSED if by_budget else names.get(answer.status, BROKEN if answer.status >= 500 else OTHER)
    return ApiError(name, message, wait)


def _rfc3339(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
