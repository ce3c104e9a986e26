"""What all requests over HTTP share: which addresses are valid, which failures may pass, and when to try again."""

from __future__ import annotations

import contextlib
import email.utils
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import TypeVar
from urllib.error import HTTPError
from urllib.parse import urlsplit

from tqdm import tqdm

from tvwrl.types import InputError

T = TypeVar("T")
LONGEST_WAIT, LONGEST_ASKED = 64.0, 600.0  # seconds: of our own accord, and because the server asks for it


class MayPass(Exception):
    """A failure after which another attempt may succeed; `wait` in seconds where it is known how long to wait."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


@dataclass(frozen=True)
class RetryPolicy:
    """When a failed request is tried again, and when it is given up; times in seconds."""

    attempts: int = 8  # in a row that bring no new byte
    timeout: float = 60.0  # to connect, and between two packets
    first_wait: float = 1.0  # doubled after each failure, up to LONGEST_WAIT
    sleep: Callable[[float], None] = time.sleep

    def call(
        self,
        url: str,
        attempt: Callable[[], T],
        advice: str,
        report: Callable[[str], object] = lambda line: None,
        progress: Callable[[], int] = lambda: 0,
    ) -> T:
        """What `attempt` returns, once it does not raise MayPass.

        `progress` in bytes tells failures in a row from slow success. Raises InputError with the URL and the `advice`
        after too many failures, and where the server asks for too long a wait.
        """
        failures, furthest = 0, progress()
        while True:
            try:
                return attempt()
            except MayPass as failure:
                reached = progress()
                failures, furthest = (1 if reached > furthest else failures + 1), max(reached, furthest)
                wait = failure.wait
                if wait is None:
                    wait = min(self.first_wait * 2 ** min(failures - 1, 10), LONGEST_WAIT)
                kept = f"; {readable(reached)} are kept: run the same command again to continue" if reached else ""
                if failures >= self.attempts:
                    often = f", {failures} times in a row" if failures > 1 else ""
                    raise InputError(f"{url}: {failure}{often}; {advice}{kept}") from None
                if wait > LONGEST_ASKED:
                    raise InputError(f"{url}: {failure}; the server asks to try again in {wait:.0f} s{kept}") from None
                report(f"{url}: {failure}; trying again in {wait:.0f} s")
                self.sleep(wait)


def passing(error: HTTPError, status: str) -> MayPass | None:
    """The failure for an answer with an error code and the `status` to report, if it may pass."""
    if error.code in (408, 429) or error.code >= 500:
        return MayPass(status, _retry_after(error.headers))
    return None


def _retry_after(headers: Message) -> float | None:
    """Seconds to wait, which the server gives as such or as a date."""
    text = headers["Retry-After"] or ""
    if text.isdecimal():
        return float(text)
    with contextlib.suppress(ValueError):
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    return None


def is_address(url: str) -> bool:
    """Whether something can be asked for at a URL: http or https, a host, printable ASCII without blanks."""
    try:
        split = urlsplit(url)
        host = (split.hostname or "").encode("idna")
        graphic = all("!" <= letter <= "~" for letter in url)
        return split.scheme in ("http", "https") and bool(host) and split.port != 0 and graphic
    except ValueError:  # a port that is no number, a name that no host can have
        return False


def readable(size: int) -> str:
    """A number of bytes, such as 1.05MB."""
    return str(tqdm.format_sizeof(size, "B"))


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
