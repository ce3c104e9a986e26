"""What long work says on stderr, in a terminal and elsewhere."""

import sys
import threading
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


def test_elsewhere_a_line_now_and_then_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)
    said, told = threading.Event(), list[str]()

    def report(text: str) -> None:
        told.append(text)
        said.set()

    with progress.ticking("clustering", report, total=3) as bar:
        assert said.wait(60)
        bar.update(2)
        while "2 of 3" not in told[-1]:
            time.sleep(0.005)
    assert told[0].startswith("clustering: 0 of 3, 00:0")
    assert told[-1].startswith("clustering: 2 of 3, ")


def test_what_is_being_done_is_told_soon_with_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SOON", 0.01)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    told = list[str]()
    with progress.ticking("mine", told.append, lambda: "slot 7", total=4) as bar:
        while not told:
            time.sleep(0.005)
        bar.update(2)
        while "left" not in told[-1]:
            time.sleep(0.005)
    assert told[0] == "mine: 0 of 4, slot 7, 00:00"
    assert told[-1] == "mine: 2 of 4, slot 7, 00:00, about 00:00 left"


def test_who_wants_no_report_sees_no_bar_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.phase("preparing", progress.nothing):
        pass
    assert capsys.readouterr() == ("", "")
