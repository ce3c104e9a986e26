"""Calls side by side: what ends them, whatever they do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tvwrl import parallel
from tvwrl.parallel import run_calls


def stubborn(file: str) -> dict[str, Any]:
    """Say that it runs, and survive SIGTERM, as numba does while it compiles."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(file).write_text(str(os.getpid()))
    time.sleep(600)
    return {}


def quick(file: str) -> dict[str, Any]:
    while not Path(file).exists() or not Path(file).read_text():
        time.sleep(0.05)
    return {}


def test_a_process_that_survives_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "GRACE", 0.1)
    pid = str(tmp_path / "pid")
    calls = run_calls([(stubborn, (pid,)), (quick, (pid,))], 2, None, processes=True)
    assert next(calls) == (1, {})
    calls.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path(pid).read_text()), 0)
