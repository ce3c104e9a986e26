"""Client of the HTTP API of a Prometheus server: addresses, authorization, retries, and readable errors."""

from __future__ import annotations

import email.utils
import gzip
import json
import os
import re
import threading
import time
import warnings
import zlib
from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

import numpy as np

from tvwrl.deferring import deferred
from tvwrl.traces.preparation.series import MICRO
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")

HEADER = "TVWRL_PROMETHEUS_HEADER"  # environment variable
LONGEST_WAIT, LONGEST_ASKED = 64.0, 600.0  # seconds: of our own accord, and because the server asks for it
AT_ONCE = threading.BoundedSemaphore(4)  # queries in parallel: the server has a cluster to watch
MOST_BYTES = 512 * 2**20  # of an answer, unpacked
TOO_MUCH = re.compile("too many samples|maximum resolution", re.IGNORECASE)


def is_address(url: str) -> bool:
    """Whether something can be asked for at a URL: http or https, a host, printable ASCII without blanks."""
    try:
        split = urlsplit(url)
        host = (split.hostname or "").encode("idna")
        graphic = all("!" <= letter <= "~" for letter in url)
        return split.scheme in ("http", "https") and bool(host) and split.port != 0 and graphic
    except ValueError:  # a port that is no number, a name that no host can have
        return False


def address(source: str | Path) -> str:
    """The URL without a slash at its end, also from a path that has lost one of its two slashes."""
    url = re.sub(r"^(https?):/+", r"\1://", str(source).strip()).rstrip("/")
    shown = url.rpartition("@")[2]  # what is before it may be secret
    if not is_address(url) or "?" in url or "#" in url:
        raise InputError(f"{shown}: not the address of a Prometheus server; give one like http://host:9090")
    if urlsplit(url).username is not None:
        raise InputError(f"{shown}: no user and password in the address: put a header into {HEADER}")
    return url


def secret_headers() -> list[tuple[str, str]]:
    """Names and values of the headers that a server asks for. Raises InputError for lines that are none."""
    lines = [line.partition(":") for line in os.environ.get(HEADER, "").splitlines() if line.strip()]
    for i, (name, colon, value) in enumerate(lines, 1):
        if not colon or not re.fullmatch(r"[\w-]+", name.strip(), re.ASCII) or not re.fullmatch(r"[ -~]+", value):
            raise InputError(f"{HEADER}: line {i}: needed: 'Name: value', in ASCII (not shown: it may be secret)")
    return [(name.strip(), value.strip()) for name, _, value in lines]


class _MayPass(Exception):
    """A failure after which another attempt may succeed; `wait` in seconds where it is known how long to wait."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class _TooMuch(InputError):
    """The server refuses a query for its size."""


@dataclass(frozen=True)
class RetryPolicy:
    """When a failed request is tried again, and when it is given up; times in seconds."""

    attempts: int = 8  # in a row
    timeout: float = 60.0  # to connect, and between two packets
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Server:
    """The HTTP API of a Prometheus server at `url`."""

    url: str
    retries: RetryPolicy
    advice: str = "try more --retries, a longer --timeout or a smaller --chunk"  # where all attempts failed
    answered: set[str] = field(default_factory=set, repr=False, compare=False)  # addresses that have answered

    def get(self, path: str, arguments: dict[str, Any]) -> Any:
        """The data of an answer.

        A failure that may pass is followed by another attempt, after 1, 2, 4, ... seconds or when the server says.
        Raises InputError, with the URL, for a refusal, after too many failures, and for too long a wait.
        """
        url, failures = f"{self.url}/api/v1/{path}?{urlencode(arguments)}", 0
        while True:
            try:
                with AT_ONCE:
                    body = self._fetch(url)
                return self._data(url, body)
            except _MayPass as failure:
                failures += 1
                if failures >= self.retries.attempts:
                    often = f", {failures} times in a row" if failures > 1 else ""
                    raise InputError(f"{url}: {failure}{often}; {self.advice}") from None
                wait = failure.wait
                if wait is None:
                    wait = min(2.0 ** min(failures - 1, 10), LONGEST_WAIT)
                if wait > LONGEST_ASKED:
                    raise InputError(f"{url}: {failure}; the server asks to try again in {wait:.0f} s") from None
                self.retries.sleep(wait)

    def clock(self) -> int:
        """The server's time, seconds since 1970."""
        data = self.get("query", {"query": "time()"})
        try:
            return int(float(data["result"][1]))
        except (TypeError, KeyError, IndexError, ValueError, OverflowError):
            raise _foreign(f"{self.url}/api/v1/query", "no answer to time()") from None

    def table(self, query: str, span: tuple[int, int], step: int, labels: tuple[str, ...], name: str) -> pl.DataFrame:
        """Values of a query at first, first + step, ..., last: `labels`, `time` (microseconds) and the value `name`.

        What is not finite is left out: it stands for "no sample", as of VictoriaMetrics, or for what nobody can use.
        """
        found = self._matrix(query, *span, step)
        try:
            samples = [np.frombuffer(one["values"]).reshape(-1, 2) for one in found]
            series = np.repeat(np.arange(len(found)), [len(one) for one in samples])
            columns: dict[str, Any] = {
                label: pl.Series([one["metric"].get(label, "") for one in found], dtype=pl.String).gather(series)
                for label in labels
            }
            time, value = np.concatenate([np.empty((0, 2)), *samples]).T
            columns["time"] = np.round(time * MICRO).astype(np.int64)
        except (TypeError, KeyError, AttributeError, ValueError):
            raise _foreign(f"{self.url}/api/v1/query_range", "the answer is no matrix of numbers") from None
        frame = pl.DataFrame(columns | {name: value.copy()})
        return frame.filter(pl.col(name).is_finite()).sort(*labels, "time")

    def _matrix(self, query: str, first: int, last: int, step: int) -> list[Any]:
        arguments = {"query": query, "start": first, "end": last, "step": step}
        try:
            data = self.get("query_range", arguments)
        except _TooMuch:
            if last - first < step:
                raise
            middle = first + (last - first) // step // 2 * step
            return self._matrix(query, first, middle, step) + self._matrix(query, middle + step, last, step)
        result = data.get("result") if isinstance(data, dict) and data.get("resultType") == "matrix" else None
        if not isinstance(result, list):
            raise _foreign(f"{self.url}/api/v1/query_range", "the answer is no matrix")
        return result

    def _fetch(self, url: str) -> bytes:
        request = Request(url, headers={"Accept-Encoding": "gzip"})
        for name, value in secret_headers():
            request.add_unredirected_header(name, value)  # not for whoever it may be redirected to
        try:
            with urlopen(request, timeout=self.retries.timeout) as response:
                self.answered.add(self.url)
                return _body(response)
        except HTTPError as error:
            self.answered.add(self.url)
            raise _refusal(url, error) from None
        except (HTTPException, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _MayPass(f"the answer is truncated or damaged: {error!r}") from None
        except TimeoutError:
            raise _MayPass(f"no answer within {self.retries.timeout:g} seconds") from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ConnectionRefusedError) and not self.answered:  # otherwise it may be starting anew
                raise InputError(f"{url}: the connection is refused: is the server running, on this port?") from None
            raise _MayPass(f"cannot be reached: {reason}") from None

    def _data(self, url: str, body: bytes) -> Any:
        try:
            answer = json.loads(body, object_hook=_Small())
        except ValueError as error:
            if body.lstrip()[:1] in (b"", b"{"):
                raise _MayPass(f"the answer is truncated: {len(body)} bytes, {error}") from None
            raise _foreign(url, "the answer is not JSON") from None
        if not isinstance(answer, dict) or answer.get("status") != "success" or "data" not in answer:
            raise _foreign(url, "the answer has no status 'success' with data")
        if answer.get("isPartial"):  # as VictoriaMetrics says where one of its parts did not answer
            raise _MayPass("the answer is partial")
        for text in answer.get("warnings") or ():
            warnings.warn(f"{self.url}: {text}", stacklevel=2)
        return answer["data"]


class _Small:
    """Makes what is read of an answer small while it is read, as all of it at once takes many times its text.

    Equal labels become one text, and the samples of a series an array: time, value, time, value, ...
    """

    def __init__(self) -> None:
        self._texts: dict[Any, Any] = {}

    def __call__(self, one: dict[str, Any]) -> dict[str, Any]:
        """The same object of JSON; what is no series stays as it is, for whoever refuses it."""
        with suppress(TypeError, ValueError, OverflowError):
            if "values" in one:
                one["values"] = array("d", (number for t, value in one["values"] for number in (t, float(value))))
            else:
                return {label: self._texts.setdefault(text, text) for label, text in one.items()}
        return one


def _body(response: Any) -> bytes:
    known = response.length is not None and response.length <= MOST_BYTES  # then a truncated answer is noticed
    body: bytes = response.read() if known else response.read(MOST_BYTES + 1)
    if response.headers["Content-Encoding"] == "gzip":
        unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
        body = unpack.decompress(body, MOST_BYTES + 1)
        if not unpack.eof and len(body) <= MOST_BYTES:
            raise EOFError("the end is missing")
    if len(body) > MOST_BYTES:
        raise _TooMuch(f"{response.url}: the answer is larger than {MOST_BYTES // 2**20} MiB; narrow it down")
    return body


def _foreign(url: str, why: str) -> InputError:
    return InputError(f"{url}: not a Prometheus server: {why}; give its address, e.g. http://host:9090")


def _refusal(url: str, error: HTTPError) -> Exception:
    """What an answer with an error code becomes."""
    try:
        body = json.loads(_body(error))
        reason = body.get("error") if isinstance(body, dict) else None
    except (OSError, EOFError, zlib.error, HTTPException, ValueError):
        reason = None
    what = f"HTTP {error.code} {error.reason}" + (f": {reason}" if reason else "")
    if reason and TOO_MUCH.search(str(reason)):
        return _TooMuch(
            f"{url}: {what}; a single step is too much for the server, narrow it down with --selector, or --chunk"
        )
    if error.code in (408, 429) or error.code >= 500:
        return _MayPass(what, _asked_wait(error.headers["Retry-After"] or ""))
    if error.code in (401, 403):
        return InputError(f"{url}: {what}; put the header it wants into {HEADER}: 'Authorization: Bearer ...'")
    return InputError(f"{url}: {what}") if reason else _foreign(url, what)


def _asked_wait(text: str) -> float | None:
    """Seconds to wait, which a server gives as such or as a date; None if it does neither."""
    if text.isdecimal():
        return float(text)
    with suppress(ValueError):
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    return None


CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
REQUESTS, INIT_REQUESTS = "kube_pod_container_resource_requests", "kube_pod_init_container_resource_requests"
INIT_INFO, SCHEDULER_REQUESTS = "kube_pod_init_container_info", "kube_pod_resource_request"
OVERHEAD = {"cpu": "kube_pod_overhead_cpu_cores", "memory": "kube_pod_overhead_memory_bytes"}
OWNER, POD_INFO, NODE_INFO, PHASE = "kube_pod_owner", "kube_pod_info", "kube_node_info", "kube_pod_status_phase"
RESTARTS = "kube_pod_container_status_restarts_total"
SIZES = ("kube_node_status_allocatable", "kube_node_status_capacity")  # the first that is recorded
OF_POOLS = NODE_LABELS, NODE_ROLE, NODE_TAINT = "kube_node_labels", "kube_node_role", "kube_node_spec_taint"


_RESOURCES = 'resource=~"cpu|memory"'
_CONTAINERS = 'namespace!="",pod!="",container!="",container!="POD"'  # not the sum over a pod, nor its pause container
WHOLE_POD = 'namespace!="",pod!="",container=~"|POD"'  # the others: they are there as long as the pod is
WHERE = {
    **dict.fromkeys((CPU, MEMORY), _CONTAINERS),
    **dict.fromkeys((REQUESTS, INIT_REQUESTS), _RESOURCES),
    SCHEDULER_REQUESTS: f'{_RESOURCES},exported_pod=""',
    OWNER: 'owner_is_controller!="false"',
    POD_INFO: 'node!=""',
    PHASE: 'phase=~"Succeeded|Failed"',
}
_OF_NODES = {*SIZES, *OF_POOLS, NODE_INFO, "machine_cpu_cores", "machine_memory_bytes"}  # without namespace and pod

_MATCHER = re.compile(
    r"""\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)\s*(?:,|$)"""
)


@dataclass(frozen=True)
class Selector:
    """Which series belong to a cluster: label matchers in PromQL, such as `cluster="a",namespace=~"shop.*"`."""

    text: str = ""
    of_pods: ClassVar[tuple[str, ...]] = ("namespace", "pod")  # labels that series of nodes do not have

    @cached_property
    def _matchers(self) -> list[tuple[str, str]]:
        """Label and matcher. Raises InputError for a text that has no matchers."""
        text, found, at = self.text.strip().removeprefix("{").removesuffix("}").strip(), [], 0
        while at < len(text):
            match = _MATCHER.match(text, at)
            if match is None:
                raise InputError(
                    f"selector is {self.text!r}: wrong from {text[at : at + 40]!r} on; needed: label matchers such as "
                    """cluster="a",namespace=~"shop.*", quoted for the shell: --selector 'cluster="a"'"""
                )
            if match[1] == "container":
                raise InputError(
                    f"selector is {self.text!r}: container chooses parts of pods; needed: labels of whole pods, "
                    "or of the cluster"
                )
            found.append((match[1], match[0].strip().rstrip(",").strip()))
            at = match.end()
        return found

    def check(self) -> None:
        """Raise InputError for a text that has no matchers."""
        self._matchers  # noqa: B018 raises

    @property
    def pod_labels(self) -> list[str]:
        """Matchers of labels that only series of pods have."""
        return [matcher for label, matcher in self._matchers if label in self.of_pods]

    @property
    def cluster_labels(self) -> list[str]:
        """Labels, of which all metrics need one, by which the cluster is chosen."""
        positive = [
            label for label, matcher in self._matchers if not matcher.removeprefix(label).lstrip().startswith("!")
        ]
        return [label for label in dict.fromkeys(positive) if label not in self.of_pods]

    def series(self, metric: str, where: str | None = None) -> str:
        """The selector of a metric's series; `where`: its own matchers, default: those that it always has."""
        mine = [m for label, m in self._matchers if metric not in _OF_NODES or label not in self.of_pods]
        listed = ",".join(filter(None, (WHERE.get(metric, "") if where is None else where, *mine)))
        return f"{metric}{{{listed}}}" if listed else metric
