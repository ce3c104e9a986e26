"""How `tvwrl serve` learns where the replacement of an evicted pod should run."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

from tvwrl.traces import is_address
from tvwrl.types import InputError

TIMEOUT = 3.0  # seconds
LONGEST = 3600.0  # seconds for which it keeps a target at most


@dataclass(frozen=True)
class ExtenderOptions:
    """Where `tvwrl serve` answers, if it schedules the cluster."""

    heading = "tvwrl serve, where it schedules the cluster"
    extender: str | None = None
    """Address of tvwrl serve, such as http://tvwrl.tvwrl.svc:8888: it is told where replacements should run. Without it
    kube-scheduler alone decides."""
    extender_token_file: Path | None = None
    """File with the token that it wants (its --token-file)."""
    extender_ca: Path | None = None
    """Certificate authority (PEM) of its certificate."""
    extender_certificate: Path | None = None
    """Certificate (PEM) to show it, where it wants one (its --tls-client-ca)."""
    extender_key: Path | None = None
    """Key of --extender-certificate (PEM)."""

    def check(self) -> None:
        """Raise InputError for values that cannot be used."""
        if self.extender is not None and not is_address(self.extender):
            raise InputError(f"extender is {self.extender}: needed: an address like http://host:8888")
        if (self.extender_certificate is None) != (self.extender_key is None):
            raise InputError("extender_certificate and extender_key go together: give both, or neither")
        given = (self.extender_token_file, self.extender_ca, self.extender_certificate)
        if self.extender is None and any(one is not None for one in given):
            raise InputError("extender_token_file, extender_ca and extender_certificate need extender")


class Extender:
    """Hands targets over to `tvwrl serve`.

    `failed`: called with why it could not be told; pods are evicted all the same. Raises InputError for files that
    cannot be used.
    """

    def __init__(self, options: ExtenderOptions, failed: Callable[[str], object]) -> None:
        options.check()
        assert options.extender is not None
        self._url, self._failed, self._token = (
            options.extender.rstrip("/") + "/targets",
            failed,
            options.extender_token_file,
        )
        self._context = None
        if self._url.startswith("https"):
            try:
                self._context = ssl.create_default_context(
                    cafile=None if options.extender_ca is None else str(options.extender_ca)
                )
                if options.extender_certificate is not None and options.extender_key is not None:
                    self._context.load_cert_chain(options.extender_certificate, options.extender_key)
            except (OSError, ssl.SSLError) as error:
                raise InputError(f"extender_ca, extender_certificate or extender_key cannot be used: {error}") from None

    def __call__(self, controller: str, node: str, avoid: Sequence[str], seconds: float) -> None:
        """See `HandOver`."""
        body = {"controller": controller, "node": node, "avoid": list(avoid), "seconds": min(seconds, LONGEST)}
        headers = {"Content-Type": "application/json"}
        try:
            if self._token is not None:
                headers["Authorization"] = f"Bearer {self._token.read_text().strip()}"
            request = Request(self._url, json.dumps(body).encode(), headers)
            with urlopen(request, timeout=TIMEOUT, context=self._context) as answer:
                answer.read()
        except (OSError, HTTPException, ValueError) as error:
            self._failed(f"{self._url}: {error}")
