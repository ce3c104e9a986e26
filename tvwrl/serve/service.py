"""The parts of the server, put together: what polls, what decides, what answers, and what is recorded."""

from __future__ import annotations

import gc
import ssl
import sys
import time
from pathlib import Path

import numpy as np

from tvwrl.progress import phase, say
from tvwrl.serve.application import Application, Limits
from tvwrl.serve.binding import api_address, binder
from tvwrl.serve.deciding import Decider
from tvwrl.serve.http_server import Tls, make_server
from tvwrl.serve.kubernetes import Pod
from tvwrl.serve.monitoring import Log, Monitoring
from tvwrl.serve.observed import Observed
from tvwrl.serve.options import ServeSettings
from tvwrl.serve.policies import open_policy, rehearsal, slots_to_remember
from tvwrl.serve.polling import Polling
from tvwrl.serve.record import Record
from tvwrl.serve.shadow_reports import ShadowReports
from tvwrl.traces import address, secret_headers
from tvwrl.types import InputError

SWITCH = 0.0005  # seconds after which a thread lets another one run: decisions must not delay answers by Python's 5 ms
RECORD = Path("decisions.jsonl")  # of the shadow, in the working directory


class Service:
    """A server that is ready to run. Raises InputError for what cannot be served."""

    def __init__(self, settings: ServeSettings) -> None:
        prometheus = _prometheus(settings.prometheus)
        token, tls, bind = _token(settings.token_file), _tls(settings), None
        if settings.bind:
            bind = binder(api_address(settings.kubernetes), settings.kubernetes_token_file, settings.kubernetes_ca)
        self._settings, self._log = settings, Log()
        self._decider, slots = _ready_decider(settings)
        name, step = self._decider.scheduler.name, self._decider.sight.scenario.step_seconds
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
        watcher = {
            "url": prometheus,
            "slot_seconds": step,
            "slots": slots,
            "window": settings.window,
            "timeout": max(settings.poll_seconds, 5.0),
            "selector": settings.selector,
        }
        self._polling = Polling(watcher, settings.poll_seconds, self._arrived, self._failed)
        limits = Limits(body=settings.max_body_mib * 2**20, deadline=settings.deadline_ms / 1000)
        self._application = Application(
            self._decider, self._monitoring, self._record, self._log, limits, bind=bind, token=token
        )
        self._server = make_server(self._application, *settings.address, tls)

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C. Raises InputError if the address cannot be used."""
        sys.setswitchinterval(SWITCH)
        gc.collect()
        gc.freeze()  # what is here now stays: the collector need not look at it again while somebody waits
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

    def _arrived(self, observed: Observed) -> None:
        begin = time.perf_counter()
        try:
            self._decider.renew(observed)
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


def _prometheus(given: str) -> str:
    """The server's address. Raises InputError for what is none, and for a header that is none."""
    try:
        found = address(given)
    except InputError as error:
        raise InputError(f"prometheus: {error}") from None
    secret_headers()
    return found


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
