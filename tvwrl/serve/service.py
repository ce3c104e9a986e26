"""The parts of the server, put together: what polls, what decides, what answers, and what is recorded."""

from __future__ import annotations

import gc
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from tvwrl.progress import phase, say
from tvwrl.serve.deciding import Decider
from tvwrl.serve.extender import Application, Limits
from tvwrl.serve.extender_messages import Pod, api_address, binder
from tvwrl.serve.http_server import Tls, make_server
from tvwrl.serve.monitoring import Log, Monitoring
from tvwrl.serve.options import ServeSettings
from tvwrl.serve.policies import open_policy, rehearsal, slots_to_remember
from tvwrl.serve.record import Record
from tvwrl.serve.sharing import NICE, return_memory
from tvwrl.serve.snapshot import Prepared, prepare
from tvwrl.serve.watching import Polling
from tvwrl.traces import address, secret_headers
from tvwrl.types import InputError

LONGEST = 3600.0  # seconds that a report may take
SWITCH = 0.0005  # seconds after which a thread lets another one run: decisions must not delay answers by Python's 5 ms
RECORD = Path("decisions.jsonl")  # of the shadow, in the working directory


class ShadowReports:
    """Writes a report every `hours` into a folder of its own beside the record, in a process of its own.

    `log`: called with an event and its facts
    `selector`: label matchers of the cluster on the Prometheus server, "": it has one only
    """

    def __init__(
        self, record: Path, prometheus: str, hours: float, log: Callable[..., None], selector: str = ""
    ) -> None:
        self._record, self._prometheus, self._hours, self._log = record, prometheus, hours, log
        self._selector = selector
        self._stopped = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name="shadow reports", daemon=True)

    def start(self) -> None:
        """Begin to wait for the first report."""
        self._thread.start()

    def stop(self) -> None:
        """End; a report that is being made is given up."""
        self._stopped.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join(timeout=2.0)

    def command(self, folder: Path, end: datetime) -> Sequence[str]:
        """What makes a report of the hours before `end`."""
        options = {
            "--prometheus": self._prometheus,
            "--days": f"{self._hours / 24:g}",
            "--end": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "--record": str(self._record),
            "--out": str(folder),
        }
        if self._selector:
            options["--selector"] = self._selector
        return [sys.executable, "-m", "tvwrl", "what-if", *(part for pair in options.items() for part in pair)]

    def _run(self) -> None:
        while not self._stopped.wait(self._hours * 3600):
            if self._record.exists():
                self._make(datetime.now(UTC))

    def _make(self, end: datetime) -> None:
        folder = self._record.parent / f"shadow-{end:%Y-%m-%dT%H%M}"
        command = ["nice", "-n", str(NICE), *self.command(folder, end)]
        try:
            # What is read for a report is of no use to the next one, and nothing else may be writable here.
            with tempfile.TemporaryDirectory(dir=self._record.parent, prefix=".report-") as work:
                places = os.environ | {"TVWRL_DATA": work, "MPLCONFIGDIR": work, "TMPDIR": work}
                self._process = subprocess.Popen(
                    command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=places
                )
                _, said = self._process.communicate(timeout=LONGEST)
        except (OSError, subprocess.TimeoutExpired) as error:
            if self._process is not None:
                self._process.kill()
            self._log("report failed", error=repr(error))
            return
        if self._process.returncode:
            self._log("report failed", error=said.strip().splitlines()[-1] if said.strip() else "no message")
        else:
            self._log("report", folder=str(folder))


class Service:
    """A server that is ready to run. Raises InputError for what cannot be served."""

    def __init__(self, settings: ServeSettings) -> None:
        return_memory()
        try:
            prometheus = address(settings.prometheus)
        except InputError as error:
            raise InputError(f"prometheus: {error}") from None
        secret_headers()  # refuses a header that is none
        token, tls, bind = _token(settings.token_file), _tls(settings), None
        if settings.bind:
            bind = binder(api_address(settings.kubernetes), settings.kubernetes_token_file, settings.kubernetes_ca)
        self._settings = settings
        self._decider, slots = _ready_decider(settings)
        name, step = self._decider.scheduler.name, self._decider.sight.scenario.step_seconds
        watcher = {
            "url": prometheus,
            "slot_seconds": step,
            "slots": slots,
            "window": settings.window,
            "timeout": max(settings.poll_seconds, 5.0),
            "selector": settings.selector,
        }
        gc.collect()
        gc.freeze()  # what is here now stays: the collector need not look at it again while somebody waits
        see = partial(prepare, sight=self._decider.sight)
        self._polling = Polling(watcher, see, settings.poll_seconds, self._arrived, self._failed)  # no thread before it
        self._log = Log()
        self._monitoring = Monitoring(name, settings.shadow, lambda: self._decider.age)
        file = settings.record or (RECORD if settings.shadow else None)
        self._record = Record(
            file,
            lambda where: self._monitoring.outcomes.labels(where).inc(),
            lambda why: self._log("record failed", error=why),
            size=settings.record_mib * 2**20,
        )
        self._reports = None
        if settings.shadow and settings.report_hours and file is not None:
            self._reports = ShadowReports(file, prometheus, settings.report_hours, self._log, settings.selector)
        limits = Limits(body=settings.max_body_mib * 2**20, deadline=settings.deadline_ms / 1000)
        self._application = Application(
            self._decider, self._monitoring, self._record, self._log, limits, bind=bind, token=token
        )
        self._server = make_server(self._application, *settings.address, tls)

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C. Raises InputError if the address cannot be used."""
        sys.setswitchinterval(SWITCH)
        self._polling.start()
        if self._reports is not None:
            self._reports.start()
        facts = {"policy": self._decider.scheduler.name, "shadow": self._settings.shadow}
        self._log("serving", listen=self._settings.listen, **facts)
        try:
            self._server.run()
        except SystemExit:  # uvicorn's, where it cannot listen
            raise InputError(f"listen is {self._settings.listen}: the address cannot be used") from None
        finally:
            self._polling.stop()
            if self._reports is not None:
                self._reports.stop()
            self._application.close()
            self._record.close()
            self._log("stopped")
            self._log.close()

    def _arrived(self, found: Prepared) -> None:
        begin, observed = time.perf_counter(), found.observed
        try:
            self._decider.renew(found)
        except Exception as error:  # a cluster that the policy cannot work in, say: go on answering
            self._failed(f"{type(error).__name__}: {error}")
            return
        self._record.observed(observed)
        self._monitoring.polls.labels("ok").inc()
        self._monitoring.nodes.set(len(observed.nodes))
        self._monitoring.pods.set(observed.running)
        seconds = round(time.perf_counter() - begin, 3)
        doubts = {"doubts": list(observed.doubts)} if observed.doubts else {}
        self._log("metrics", nodes=len(observed.nodes), pods=observed.running, seconds=seconds, **doubts)
        self._monitoring.doubts.set(len(observed.doubts))

    def _failed(self, why: str) -> None:
        self._monitoring.polls.labels("failed").inc()
        self._log("no metrics", error=why)


def _ready_decider(settings: ServeSettings) -> tuple[Decider, int]:
    """A decider that can decide at once, as it has done so in a made-up cluster; and the slots that it remembers."""
    scheduler, sight = open_policy(settings.policy, settings.slot_length)
    slots = slots_to_remember(sight)
    times = (settings.stale_seconds, settings.assume_seconds, settings.longest_hold)
    with phase(f"preparing {scheduler.name}", say):
        trial, observed = Decider(scheduler, sight, *times), rehearsal(slots)
        try:
            trial.renew(observed)
        except InputError as error:
            raise InputError(f"policy is {settings.policy}: it cannot be served: {error}") from None
        for i in range(len(observed.nodes)):  # kernels differ with all nodes and with some
            trial.decide(Pod("rehearsal", f"new-{i}", f"{i}", "", np.array([0.1, 2.0**27])), observed.nodes[i:])
    return Decider(scheduler, sight, *times, shadow=settings.shadow), slots


def _token(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        token = file.read_bytes().strip()
    except OSError as error:
        raise InputError(f"token_file {file}: {error.strerror}") from None
    if not token:
        raise InputError(f"token_file {file}: it is empty")
    return token


def _tls(settings: ServeSettings) -> Tls | None:
    """The files of certificates, tried. Raises InputError if they cannot be used."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.tls_certificate, settings.tls_key)
        if settings.tls_client_ca is not None:
            context.load_verify_locations(settings.tls_client_ca)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"tls_certificate, tls_key or tls_client_ca cannot be used: {error}") from None
    return Tls(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
