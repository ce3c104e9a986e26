"""Reports of a shadow are made by the command that a user would type, and a failing one is only a line of the log."""

import sys
import threading
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tvwrl.serve import service
from tvwrl.serve.options import ServeSettings
from tvwrl.serve.service import ShadowReports
from tvwrl.what_if.command import WhatIfSettings


class Logged(list):
    """Events, and when the first came."""

    def __init__(self):
        super().__init__()
        self.came = threading.Event()

    def __call__(self, event, **facts):
        self.append((event, facts))
        self.came.set()


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def reports(tmp_path, logged, hours=24.0, selector=""):
    return ShadowReports(tmp_path / "decisions.jsonl", "http://host:9090", hours, logged, selector)


def options_of(made, folder):
    command = list(made.command(folder, NOON))
    assert command[:4] == [sys.executable, "-m", "tvwrl", "what-if"]
    return dict(zip(command[4::2], command[5::2], strict=True))


def test_the_command_is_one_of_what_if(tmp_path):
    options = options_of(reports(tmp_path, Logged()), tmp_path / "out")
    assert {name.removeprefix("--") for name in options} <= {field.name for field in fields(WhatIfSettings)}
    made = WhatIfSettings(
        prometheus=options["--prometheus"], days=float(options["--days"]), end=options["--end"],
        record=Path(options["--record"]), out=Path(options["--out"]),
    )  # fmt: skip
    made.check()
    assert (made.days, made.end) == (1.0, "2026-01-31T12:00:00Z")


def test_a_report_is_about_the_cluster_that_is_served(tmp_path, monkeypatch):
    """Without the selector it would be refused, or mix the clusters of the server."""
    made = []
    monkeypatch.setattr(service, "ShadowReports", lambda *given: made.append(ShadowReports(*given)))
    record = tmp_path / "decisions.jsonl"
    service.Service(ServeSettings("best-fit", "http://host:9090", 'cluster="a"', shadow=True, record=record))
    assert options_of(made[0], tmp_path / "out")["--selector"] == 'cluster="a"'
    assert "--selector" not in options_of(reports(tmp_path, Logged()), tmp_path / "out")


@pytest.mark.parametrize(
    ("code", "event"), [("pass", "report"), ("raise SystemExit('no such server')", "report failed")]
)
def test_each_report_is_a_line_of_the_log(tmp_path, monkeypatch, code, event):
    logged = Logged()
    (tmp_path / "decisions.jsonl").touch()
    made = reports(tmp_path, logged, hours=1e-6)
    monkeypatch.setattr(made, "command", lambda folder, end: [sys.executable, "-c", code])
    made.start()
    assert logged.came.wait(60)
    made.stop()
    assert logged[0][0] == event
    if event == "report failed":
        assert logged[0][1] == {"error": "no such server"}


def test_without_a_record_there_is_no_report(tmp_path):
    logged = Logged()
    made = reports(tmp_path, logged, hours=1e-6)
    made.start()
    assert not logged.came.wait(0.3)
    made.stop()
