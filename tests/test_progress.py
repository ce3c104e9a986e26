"""What long work says on stderr, in a terminal and elsewhere."""

import sys
import time

import pytest

from tvwrl import progress


def test_standard_output_is_for_tables(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.phase("preparing"):
        pass
    assert capsys.readouterr() == ("", "preparing\n")


def test_in_a_terminal_the_clock_goes_on_while_nothing_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "TICK", 0.01)
    with progress.ticking("cells", total=3) as bar:
        shown = capsys.readouterr().err
        while bar.format_dict["elapsed"] < 1.2 or "00:01" not in shown:
            time.sleep(0.02)
            shown += capsys.readouterr().err
    assert "cells:   0%" in shown
    assert capsys.readouterr().err.rstrip(" ").endswith("\r")  # it leaves no trace


def test_who_wants_no_report_sees_no_bar_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.phase("preparing", progress.nothing):
        pass
    assert capsys.readouterr() == ("", "")
