"""Addresses of Prometheus servers, and the headers that they may ask for."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from tvwrl.traces.http_requests import is_address
from tvwrl.types import InputError

HEADER = "TVWRL_PROMETHEUS_HEADER"  # environment variable


def secret_headers() -> list[tuple[str, str]]:
    """Names and values of the headers that a server asks for. Raises InputError for lines that are none."""
    lines = [line.partition(":") for line in os.environ.get(HEADER, "").splitlines() if line.strip()]
    for i, (name, colon, value) in enumerate(lines, 1):
        if not colon or not re.fullmatch(r"[\w-]+", name.strip(), re.ASCII) or not re.fullmatch(r"[ -~]+", value):
            raise InputError(f"{HEADER}: line {i}: needed: 'Name: value', in ASCII (not shown: it may be secret)")
    return [(name.strip(), value.strip()) for name, _, value in lines]


def address(source: str | Path) -> str:
    """The URL without a slash at its end, also from a path that has lost one of its two slashes."""
    url = re.sub(r"^(https?):/+", r"\1://", str(source).strip()).rstrip("/")
    shown = url.rpartition("@")[2]  # what is before it may be secret
    if not is_address(url) or "?" in url or "#" in url:
        raise InputError(f"{shown}: not the address of a Prometheus server; give one like http://host:9090")
    if urlsplit(url).username is not None:
        raise InputError(f"{shown}: no user and password in the address: put a header into {HEADER}")
    return url
