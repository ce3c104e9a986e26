"""What kube-scheduler sends to an extender, and what it expects back: k8s.io/kube-scheduler/extender/v1.

These types have no JSON tags: Go writes `Pod`, `Nodes`, `NodeNames` and reads any casing. Pods and nodes inside have
tags: `metadata`, `spec`. Here the names of the outer fields are read in any casing, as Go does.
"""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from itertools import compress
from operator import not_
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import orjson

from tvwrl.traces import as_list, as_object, is_address, owner_of, request_of
from tvwrl.types import Float, InputError

MOST_VALUES = 2_000_000  # of a body: 1,000 whole nodes have about 300,000
MOST_NAME = 253  # characters of a name in Kubernetes
LONGEST_WISH = 3600.0  # seconds for which a wish may hold
BEST = 10  # MaxExtenderPriority: the highest score that an extender may give
NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
MOST_NODES = 100_000  # names that are remembered
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # where every pod finds its own token and authority
TIMEOUT = 5.0  # seconds


@dataclass(frozen=True)
class Pod:
    """A pod that waits for a node."""

    namespace: str
    name: str
    uid: str
    owner: str  # "namespace/deployment/name": its replicas have the same
    request: Float  # (2,) cores and bytes; NaN: it requests none
    controller: str = ""  # uid of what made it, such as a ReplicaSet

    @property
    def key(self) -> str:
        """Its name in metrics: namespace/name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Arguments:
    """ExtenderArgs: a pod, and the nodes that may take it."""

    pod: Pod
    names: Sequence[str]  # of the nodes
    nodes: Sequence[Any] | None  # whole nodes, where the extender has no cache of them (nodeCacheCapable: false)


@dataclass(frozen=True)
class Binding:
    """ExtenderBindingArgs."""

    pod: str
    namespace: str
    uid: str
    node: str


@dataclass(frozen=True)
class Wish:
    """What `tvwrl rebalance` says of a pod that it has just evicted."""

    controller: str  # uid of the ReplicaSet or its like that makes its replacement
    node: str  # where that should run
    avoid: Sequence[str]  # nodes to which no pod of its owner should return
    seconds: float  # for which it holds; 0: it holds no longer


def read_arguments(body: bytes) -> Arguments:
    """ExtenderArgs in JSON. Raises InputError, naming the field, for anything else."""
    fields = _fields(body, "ExtenderArgs")
    pod, listed, nodes = _pod(fields.get("pod")), fields.get("nodes"), None
    if listed is not None:
        nodes, field = as_list(as_object(listed, "Nodes").get("items") or [], "Nodes.items"), "Nodes.items.metadata"
        names: list[Any] = [
            as_object(as_object(node, "Nodes.items").get("metadata"), field).get("name") for node in nodes
        ]
        field = f"{field}.name"
    elif fields.get("nodenames") is not None:
        names, field = as_list(fields["nodenames"], "NodeNames"), "NodeNames"
    else:
        raise InputError("ExtenderArgs: neither Nodes nor NodeNames is given")
    return Arguments(pod, _checked(names, field), nodes)


_good: set[str] = set()  # names that were checked before: those of a cluster seldom change


def _checked(names: list[Any], field: str) -> list[str]:
    """The names. Raises InputError for what is none."""
    with suppress(TypeError):  # a list, say, which `_name` refuses
        if _good.issuperset(names):
            return names
    checked = [_name(name, field) for name in names]
    if len(_good) > MOST_NODES:
        _good.clear()
    _good.update(checked)
    return checked


def read_binding(body: bytes) -> Binding:
    """ExtenderBindingArgs in JSON. Raises InputError, naming the field, for anything else."""
    fields = _fields(body, "ExtenderBindingArgs")
    pod, namespace, node = (_name(fields.get(name.lower()), name) for name in ("PodName", "PodNamespace", "Node"))
    return Binding(pod, namespace, _text(fields.get("poduid"), "PodUID"), node)


def read_wish(body: bytes) -> Wish:
    """A `Wish` in JSON. Raises InputError, naming the field, for anything else."""
    fields = _fields(body, "Target")
    controller, node = _text(fields.get("controller"), "controller"), _name(fields.get("node"), "node")
    avoid = [_name(one, "avoid") for one in as_list(fields.get("avoid") or [], "avoid")]
    seconds = fields.get("seconds")
    if not controller:
        raise InputError("controller: the uid of a ReplicaSet or its like is needed")
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds <= LONGEST_WISH:
        raise InputError(f"seconds: a number from 0 to {LONGEST_WISH:g} is needed")
    return Wish(controller, node, avoid, float(seconds))


def filtered(arguments: Arguments, passed: Sequence[bool], reason: str, *, final: bool) -> bytes:
    """ExtenderFilterResult: the nodes that passed, in the form in which they came, and why the others did not.

    `final`: whether no preemption would help: kube-scheduler then evicts nobody for this pod (from 1.22 on)

    Raises InputError for nodes that cannot be written again.
    """
    failed = dict.fromkeys(compress(arguments.names, map(not_, passed)), reason)
    nodes, names = None, None
    if arguments.nodes is None:
        names = list(compress(arguments.names, passed))
    else:
        nodes = {"items": list(compress(arguments.nodes, passed))}
    result = {
        "Nodes": nodes,
        "NodeNames": names,
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": failed if final else {},
        "Error": "",
    }
    try:
        return orjson.dumps(result)
    except orjson.JSONEncodeError:
        raise InputError("Nodes: a node is nested too deeply to be sent back") from None


def prioritized(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """HostPriorityList: a score of 0 to `BEST` for every node."""
    return f"[{','.join(map(_host_priority, names, scores))}]".encode()


@lru_cache(MOST_NODES)
def _host_priority(name: str, score: int) -> str:
    """HostPriority in JSON; nothing in the name of a node has to be quoted."""
    return f'{{"Host":"{name}","Score":{score}}}'


def bound(error: str = "") -> bytes:
    """ExtenderBindingResult; `error`: why the pod was not bound."""
    return orjson.dumps({"Error": error})


def _pod(content: object) -> Pod:
    pod = as_object(content, "Pod")
    metadata = as_object(pod.get("metadata"), "Pod.metadata")
    name, namespace = (_name(metadata.get(field), f"Pod.metadata.{field}") for field in ("name", "namespace"))
    owners = [
        as_object(one, "ownerReferences") for one in as_list(metadata.get("ownerReferences") or [], "ownerReferences")
    ]
    leading = next((one for one in owners if one.get("controller")), owners[0] if owners else {})
    kind, owner = (_text(leading.get(field), f"ownerReferences.{field}") for field in ("kind", "name"))
    uid = _text(metadata.get("uid"), "Pod.metadata.uid") or f"{namespace}/{name}"
    controller = _text(leading.get("uid"), "ownerReferences.uid")
    request = request_of(pod.get("spec") or {})
    return Pod(namespace, name, uid, owner_of(namespace, name, kind, owner), request, controller)


def _fields(body: bytes, what: str) -> dict[str, Any]:
    """Fields of the outermost object by their names in lower case."""
    if body.count(b",") > MOST_VALUES:  # each takes twenty times its text
        raise InputError(f"{what}: more than {MOST_VALUES} values")
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise InputError(f"{what}: the body is not JSON") from None
    return {str(name).lower(): value for name, value in as_object(content, what).items()}


def _text(value: object, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MOST_NAME or not value.isprintable():
        raise InputError(f"{field}: a printable text of at most {MOST_NAME} characters is needed")
    return value


def _name(value: object, field: str) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise InputError(f"{field}: a name of Kubernetes is needed: lower case letters, digits, '-' and '.'")
    return value


def api_address(given: str | None) -> str:
    """The API server: `given`, or the one of the cluster that this runs in. Raises InputError for no address, and
    outside of a cluster."""
    if given and not is_address(given):
        raise InputError(f"kubernetes is {given}: needed is an address like https://host:6443")
    if given:
        return given.rstrip("/")
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise InputError("kubernetes: not running in a cluster: give the address of the API server")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def binder(address: str, token_file: Path | None, authority: Path | None) -> Callable[[Binding], None]:
    """A function that binds a pod, or raises InputError with what the API server answered.

    `token_file`: read anew each time, as Kubernetes renews it
    `authority`: certificate of whoever signed the API server's

    Raises InputError for files that cannot be used.
    """
    if token_file is not None and not token_file.is_file():
        raise InputError(f"kubernetes_token_file {token_file}: no such file")
    token_file = token_file or ACCOUNT / "token"
    authority = authority or (ACCOUNT / "ca.crt" if (ACCOUNT / "ca.crt").exists() else None)
    try:
        context = ssl.create_default_context(cafile=None if authority is None else str(authority))
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"kubernetes_ca {authority}: cannot be used: {error}") from None

    def bind(binding: Binding) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": binding.pod, "namespace": binding.namespace, "uid": binding.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }
        url = f"{address}/api/v1/namespaces/{binding.namespace}/pods/{binding.pod}/binding"
        headers = {"Content-Type": "application/json"}
        try:
            if token_file.exists():
                headers["Authorization"] = f"Bearer {token_file.read_text().strip()}"
            request = Request(url, json.dumps(body).encode(), headers)
            with urlopen(request, timeout=TIMEOUT, context=context if url.startswith("https") else None) as answer:
                answer.read()
        except HTTPError as error:
            raise InputError(f"the API server refused the binding: HTTP {error.code} {error.reason}") from None
        except (OSError, HTTPException) as error:
            raise InputError(f"the API server cannot be reached: {getattr(error, 'reason', error)}") from None

    return bind
