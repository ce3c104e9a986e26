"""Debian's Prometheus on loopback, and a door in front of it that can be slow, broken or shut."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from e2e.processes import Failure, Process, free_port
from e2e.reference_extender import Server

SCRAPE_SECONDS = 2
LONGEST_BLOCK = "96h"  # few blocks: promtool reads all samples for each


class Monitoring:
    """A Prometheus server that scrapes one exporter; its data lives in ``folder``."""

    def __init__(self, exporter: int, folder: Path):
        self.exporter, self.folder = exporter, folder
        self.port = free_port()
        self.process: Process | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def remember(self, lines: Iterable[str]) -> None:
        """Before it starts: give it a past, samples in the OpenMetrics format, a line each."""
        samples = self.folder / "samples"
        with samples.open("w") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.write("# EOF\n")
        blocks = ["promtool", "tsdb", "create-blocks-from", f"--max-block-duration={LONGEST_BLOCK}", "openmetrics"]
        done = subprocess.run([*blocks, samples, self.folder / "prometheus"], capture_output=True, text=True)
        samples.unlink()
        if done.returncode:
            raise Failure(f"promtool made no blocks: {done.stderr[-500:]}")

    def start(self) -> None:
        """Start it and wait until it answers."""
        times = {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"}
        job = {"job_name": "cluster", "honor_labels": True, "static_configs": [{"targets": [self._target]}]}
        config = self.folder / "prometheus.json"  # JSON is YAML
        config.write_text(json.dumps({"global": times, "scrape_configs": [job]}))
        command: list[str | Path] = [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn",
        ]  # fmt: skip
        self.process = Process("prometheus", command, self.folder)
        self.process.wait_until(self._ready)

    def value(self, query: str) -> float:
        """Value of a query that gives one number now; 0 where there is none."""
        request = f"{self.url}/api/v1/query"
        with urlopen(Request(request, f"query={query}".encode()), timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
        return float(found[0]["value"][1]) if found else 0.0

    def stop(self) -> None:
        """End it."""
        if self.process:
            self.process.stop()

    @property
    def _target(self) -> str:
        return f"127.0.0.1:{self.exporter}"

    def _ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


class Door:
    """Passes requests on to Prometheus at ``port``; ``trouble`` makes it misbehave until it is None again."""

    def __init__(self, port: int):
        self.trouble: Callable[[bytes], tuple[int, bytes] | None] | None = None
        door = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._pass_on()

            def do_POST(self) -> None:
                self._pass_on()

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
                kind = {"Content-Type": self.headers.get("Content-Type", "text/plain")}
                try:
                    with urlopen(Request(f"http://127.0.0.1:{port}{self.path}", body, kind), timeout=30) as answer:
                        status, text = answer.status, answer.read()
                except HTTPError as error:
                    status, text = error.code, error.read()
                except OSError:
                    self.close_connection = True  # Prometheus is gone: nobody answers here either
                    return
                if door.trouble:
                    changed = door.trouble(text)
                    if changed is None:
                        self.close_connection = True
                        return
                    status, text = changed
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                with contextlib.suppress(OSError):  # who asked may be tired of waiting
                    self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = Server(("127.0.0.1", 0), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where the extender finds its metrics."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        """Listen no longer."""
        self._server.shutdown()
        self._server.server_close()


def slow(text: bytes) -> tuple[int, bytes]:
    """An answer that comes after a minute."""
    time.sleep(60)
    return 200, text


def failing(text: bytes) -> tuple[int, bytes]:
    """An error instead of an answer."""
    return 500, b"internal error"


def nonsense(text: bytes) -> tuple[int, bytes]:
    """A page of something else."""
    return 200, b"<html>log in first</html>"


def shut(text: bytes) -> None:
    """No answer: the connection is closed."""
    return None


def not_a_number(text: bytes) -> tuple[int, bytes]:
    """Every value is NaN."""
    answer = json.loads(text)
    for series in answer.get("data", {}).get("result", ()) if isinstance(answer.get("data"), dict) else ():
        if "value" in series:
            series["value"][1] = "NaN"
        for value in series.get("values", ()):
            value[1] = "NaN"
    return 200, json.dumps(answer).encode()
