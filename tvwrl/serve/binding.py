"""Binds pods to nodes through the API of Kubernetes, for schedulers that leave that to the extender."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tvwrl.serve.kubernetes import Binding
from tvwrl.traces import is_address
from tvwrl.types import InputError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # where every pod finds its own token and authority
TIMEOUT = 5.0  # seconds


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
