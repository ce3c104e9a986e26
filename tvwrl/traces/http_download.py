"""Downloads one file over HTTP: resumes, checks disk space and checksums. Which files a trace has: `fetch_trace`."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import http.client
import json
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tvwrl.traces.http_requests import MayPass, RetryPolicy, T, passing, readable
from tvwrl.types import InputError

CHUNK = 1 << 18  # bytes


class Refused(InputError):
    """An answer of the server that will stay the same."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Client:
    """Fetches from one server after another, file by file."""

    report: Callable[[str], None]
    retries: RetryPolicy

    def read_sums(self, url: str) -> dict[str, str]:
        """Published SHA-256 sums by path, from lines of sha256sum or from what GitHub's API says of a release."""

        def attempt() -> bytes:
            with self.open(url) as response:
                text = b"".join(iter(lambda: _read(response), b""))
                _check_whole(len(text), _length(response))
            return text

        try:
            text = self.retry(url, attempt).decode(errors="replace")
        except Refused as error:
            self.report(f"{url}: no checksums there (HTTP {error.status}): only sizes are checked")
            return {}
        if text.startswith("{"):
            with contextlib.suppress(ValueError):
                assets = json.loads(text).get("assets", [])
                digests = {asset["name"]: (asset.get("digest") or "").partition(":") for asset in assets}
                return {name: stated for name, (kind, _, stated) in digests.items() if kind == "sha256"}
        lines = (line.split(maxsplit=1) for line in text.splitlines())
        return {line[1].strip().lstrip("*").removeprefix("./"): line[0].lower() for line in lines if len(line) == 2}

    def fetch_file(self, url: str, path: Path, sha256: str | None, title: str) -> None:
        """Leave the whole file at `path`, unless it is there."""
        part = path.with_name(path.name + ".part")
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            if self.is_finished(url, path, sha256):
                self.report(f"{path}: already there")
                return
            self.report(f"{path}: differs from {url}: downloaded again")
        for _ in range(2):
            self.download(url, part, title)
            kind, stated = ("sha256", sha256) if sha256 else ("md5", _origin(part).get("md5"))
            found = _digest(part, kind) if stated else None
            if found == stated:
                size = size_of(part)
                os.replace(part, path)
                _discard(part)
                self.report(f"{path}: {readable(size)}" + (f", {kind} as published" if stated else ""))
                return
            _discard(part)
            self.report(f"{url}: {kind} is {found}, but {stated} is published")
        raise InputError(
            f"{url}: {kind} is {found}, but {stated} is published; two attempts failed, and the download was removed: "
            "try again later, or give another mirror with --base-url"
        )

    def is_finished(self, url: str, path: Path, sha256: str | None) -> bool:
        """Whether the file has the published sum or, where there is none, the size that the server gives."""
        return _digest(path, "sha256") == sha256 if sha256 else self.length(url) in (None, size_of(path))

    def exists(self, url: str) -> bool:
        """Whether the server has such a file."""
        try:
            self.length(url)
        except Refused as error:
            if error.status != 404:
                raise
            return False
        return True

    def length(self, url: str) -> int | None:
        """Bytes of the file, where the server states it."""

        def attempt() -> int | None:
            with self.open(url) as response:
                return _length(response)

        return self.retry(url, attempt)

    def download(self, url: str, part: Path, title: str) -> None:
        """Complete the file `part`, from where it ends if the server's file is still the same."""
        with tqdm(desc=title, unit="B", unit_scale=True, leave=False, disable=None) as bar:
            self.retry(url, lambda: self.resume(url, part, bar), lambda: size_of(part))

    def resume(self, url: str, part: Path, bar: tqdm[Any]) -> None:
        """One attempt to complete `part`."""
        offset, origin = size_of(part), _origin(part)
        validator = origin.get("ETag") or origin.get("Last-Modified")
        headers = {"Range": f"bytes={offset}-", "If-Range": validator} if offset and validator else {}
        try:
            response = self.open(url, headers)
        except Refused as error:
            if error.status != 416:
                raise
            _discard(part)
            raise MayPass("the server's file has become shorter, begun anew", wait=0.0) from None
        with response:
            total = _length(response)
            if response.status != 206:
                offset = 0
                with _writing(part):
                    _begin(part, response)
            elif not _goes_on(response, offset, origin):
                _discard(part)
                raise MayPass("the server's file has changed, begun anew", wait=0.0)
            _check_space(url, part, offset, total)
            bar.reset(total)
            bar.update(offset)
            with _writing(part, total), part.open("ab") as file:
                while chunk := _read(response):
                    file.write(chunk)
                    bar.update(len(chunk))
        _check_whole(size_of(part), total)

    def open(self, url: str, headers: Mapping[str, str] | None = None) -> http.client.HTTPResponse:
        """The answer to a GET request; its body is still to be read."""
        # Google Storage unpacks what it has stored as gzip for clients that do not say that they take it
        encoding = "gzip" if url.endswith(".gz") else "identity"
        request = urllib.request.Request(
            url, headers={"User-Agent": "tvwrl", "Accept-Encoding": encoding, **(headers or {})}
        )
        try:
            response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=self.retries.timeout)
        except urllib.error.HTTPError as error:
            error.close()
            status = f"HTTP {error.code} {error.reason}"
            moved = f"{url}: {status}; if the file has moved, give its new address with --base-url"
            raise passing(error, status) or Refused(moved, error.code) from None
        except (OSError, http.client.HTTPException) as error:
            raise MayPass(_reason(error)) from None
        return response

    def retry(self, url: str, attempt: Callable[[], T], progress: Callable[[], int] = lambda: 0) -> T:
        """What `attempt` returns, once it succeeds."""
        advice = "try again later, or give a mirror with --base-url"
        return self.retries.call(url, attempt, advice, self.report, progress)


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise MayPass(_reason(error)) from None


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return "timed out" if isinstance(reason, TimeoutError) else str(reason) or type(reason).__name__


def _length(response: http.client.HTTPResponse) -> int | None:
    """Bytes of the whole file, where the server states it."""
    if response.status == 206:
        text = (response.headers["Content-Range"] or "").rpartition("/")[2]
    else:
        text = response.headers["Content-Length"] or ""
    return int(text) if text.isdecimal() else None


def _check_whole(size: int, total: int | None) -> None:
    if total is not None and size < total:
        raise MayPass(f"connection closed after {size} of {total} bytes")


def _check_space(url: str, part: Path, offset: int, total: int | None) -> None:
    free = shutil.disk_usage(part.parent).free
    if total is not None and total - offset > free:
        raise InputError(
            f"{part.parent}: {url} needs {readable(total - offset)}, but {readable(free)} are free: "
            f"make room for {readable(total - offset - free)}, or give --out another folder"
        )


@contextlib.contextmanager
def _writing(path: Path, total: int | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(f"{path}: {error.strerror}; give --out another folder") from None
        missing = "" if total is None else f", {readable(total - size_of(path))} of {readable(total)} are missing"
        raise InputError(f"{path}: disk full{missing}; make room and run the same command again") from None


def _begin(part: Path, response: http.client.HTTPResponse) -> None:
    """Discard what was fetched; note what identifies the file on the server, to detect later that it changed."""
    _discard(part)
    headers = response.headers
    etag = headers["ETag"] or ""
    origin = {"Last-Modified": headers["Last-Modified"], "ETag": "" if etag.startswith("W/") else etag}
    sums = [f"md5={headers['Content-MD5'] or ''}", *(headers.get_all("x-goog-hash") or [])]
    for stated in (item.strip() for line in sums for item in line.split(",")):
        with contextlib.suppress(ValueError):
            if stated.startswith("md5=") and len(md5 := base64.b64decode(stated[4:], validate=True)) == 16:
                origin["md5"] = md5.hex()
    _origin_path(part).write_text(json.dumps({name: value for name, value in origin.items() if value}))
    part.touch()


def _origin_path(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _origin(part: Path) -> dict[str, str]:
    try:
        origin: dict[str, str] = json.loads(_origin_path(part).read_text())
        return origin
    except (OSError, ValueError):
        return {}


def _goes_on(response: http.client.HTTPResponse, offset: int, origin: Mapping[str, str]) -> bool:
    """Whether a partial answer begins at `offset` of the same file; some servers do not heed If-Range."""
    headers = response.headers
    same = all(headers[name] in (None, origin[name]) for name in ("ETag", "Last-Modified") if name in origin)
    return same and (headers["Content-Range"] or "").startswith(f"bytes {offset}-")


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _origin_path(part).unlink(missing_ok=True)


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()
