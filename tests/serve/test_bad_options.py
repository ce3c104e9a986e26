"""Options that cannot be served: each ends at the start, in one line that names it and says what is needed."""

import os
import re

import pytest

from tvwrl.serve.options import ServeSettings, serve
from tvwrl.types import InputError

URL = "http://127.0.0.1:9"
MISSING = "/nowhere/at/all"


class _Began(Exception):
    """The server would run now."""


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch, tmp_path):
    from tvwrl.serve.service import Service

    def run(self):
        raise _Began

    monkeypatch.setattr(Service, "run", run)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "text").write_text("no certificate")


def start(**changes):
    serve(ServeSettings(**{"policy": "best-fit", "prometheus": URL, **changes}))


def test_good_options_begin():
    with pytest.raises(_Began):
        start()


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"policy": "best-fitt"}, "did you mean best-fit"),
        ({"policy": ""}, "no checkpoint in this run"),
        ({"policy": "nothing.onnx"}, "nothing.onnx"),
        ({"policy": "text"}, "text"),
        ({"policy": "."}, r"\."),
        ({"policy": "expected-cost(opening=200)-backfill"}, "leave out opening"),
        ({"policy": "rollout"}, "serve its base instead|did you mean|no such"),
        ({"prometheus": "localhost"}, "one like http://host:9090"),
        ({"prometheus": "ftp://host"}, "one like http://host:9090"),
        ({"prometheus": "http://host:port"}, "one like http://host:9090"),
        ({"listen": "8888"}, "needed: HOST:PORT"),
        ({"listen": ":8888"}, "needed: HOST:PORT"),
        ({"listen": "127.0.0.1:"}, "needed: HOST:PORT"),
        ({"listen": "127.0.0.1:65536"}, "needed: HOST:PORT"),
        ({"listen": "127.0.0.1:-1"}, "needed: HOST:PORT"),
        ({"poll_seconds": 0.0}, "poll_seconds is 0.0: must be a number > 0"),
        ({"poll_seconds": float("nan")}, "poll_seconds is nan"),
        ({"stale_seconds": 15.0}, "must be more than poll_seconds"),
        ({"assume_seconds": -1.0}, "assume_seconds"),
        ({"longest_hold": float("nan")}, "longest_hold"),
        ({"deadline_ms": 0.0}, "deadline_ms"),
        ({"max_body_mib": 0}, "max_body_mib is 0: must be 1 to 1024"),
        ({"window": 0}, "window"),
        ({"slot_length": 0}, "slot_length"),
        ({"report_hours": -1.0}, "report_hours"),
        ({"token_file": MISSING}, f"token_file {MISSING}: No such file"),
        ({"token_file": "empty"}, "it is empty"),
        ({"token_file": "."}, "Is a directory"),
        ({"tls_certificate": "text"}, "give both, or neither"),
        ({"tls_key": "text"}, "give both, or neither"),
        ({"tls_client_ca": "text"}, "needs tls_certificate and tls_key"),
        ({"tls_certificate": "text", "tls_key": "text"}, "cannot be used"),
        ({"tls_certificate": MISSING, "tls_key": MISSING}, "cannot be used: .*No such file"),
        ({"bind": True}, "give the address of the API server"),
    ],
)
def test_bad_options(options, needed):
    from pathlib import Path

    files = {name: Path(value) for name, value in options.items() if name.startswith(("token", "tls"))}
    with pytest.raises(InputError, match=needed) as caught:
        start(**{**options, **files})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_metrics_that_never_get_old(seconds):
    with pytest.raises(InputError, match="stale_seconds"):
        start(stale_seconds=seconds)


@pytest.mark.parametrize("url", ["http://me:secret@host:9090", "http://host:9090?x=1", "http://host:9090#x"])
def test_addresses_that_are_never_read(url):
    with pytest.raises(InputError, match="prometheus") as caught:
        start(prometheus=url)
    assert "secret" not in str(caught.value)


def test_passwords_in_addresses_are_not_shown():
    with pytest.raises(InputError, match="prometheus") as caught:
        start(prometheus="http://me:secret@host:port")
    assert "secret" not in str(caught.value)


def test_a_header_that_is_none(monkeypatch):
    monkeypatch.setenv("TVWRL_PROMETHEUS_HEADER", "password-without-a-name")
    with pytest.raises(InputError, match="TVWRL_PROMETHEUS_HEADER") as caught:
        start()
    assert "password" not in str(caught.value)


@pytest.mark.parametrize("url", ["file:///etc", "ftp://host", "host:6443", "nonsense"])
def test_addresses_of_no_api_server(url):
    with pytest.raises(InputError, match="kubernetes"):
        start(bind=True, kubernetes=url)


@pytest.mark.parametrize(
    "files", [{"kubernetes_ca": MISSING}, {"kubernetes_ca": "text"}, {"kubernetes_token_file": MISSING}]
)
def test_files_for_the_api_server(files):
    from pathlib import Path

    with pytest.raises(InputError, match=next(iter(files))):
        start(bind=True, kubernetes="https://host:6443", **{name: Path(file) for name, file in files.items()})


def test_record_that_cannot_be_written():
    """The door of the command makes one line of it."""
    from pathlib import Path

    with pytest.raises(OSError, match=re.escape(os.sep)):
        start(record=Path("/dev/null/decisions.jsonl"))
