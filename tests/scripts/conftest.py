"""Runs the scripts as a command line would, and what several tests of them need."""

import contextlib
import io
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from unittest import mock

import pytest

from tvwrl.traces import open_trace, write_trace

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
TINY = [
    "--preset", "smoke", "--workloads", "12", "--history", "6", "--eval-every", "2", "--eval-sequences", "2",
    "--sequences-per-iteration", "2", "--trajectories", "2", "--train-sequences", "4", "--save-every", "2",
    "--comparison-sequences", "2",
]  # fmt: skip


@pytest.fixture(scope="session")
def tiny():
    """Options of a training run of seconds; --iterations is still to be given."""
    return TINY


@pytest.fixture(scope="session")
def call():
    """Runs a script in this process, as imports cost seconds each time: call(script, *arguments)."""
    return _call


def _call(script, *arguments):
    out, err = io.StringIO(), io.StringIO()
    path = str(SCRIPTS / script)
    with (
        mock.patch.object(sys, "argv", [path, *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
        pytest.raises(SystemExit) as exit,
    ):
        runpy.run_path(path, run_name="__main__")
    return subprocess.CompletedProcess(path, exit.value.code or 0, out.getvalue(), err.getvalue())


@pytest.fixture
def refused(call, tmp_path):
    """Checks exit code 2, one clear message with all of `said`, no traceback, nothing half-written."""

    def check(script, *arguments, said):
        out = tmp_path / "out"
        done = call(script, *arguments, *(() if "--resume" in arguments else ("--out", out)))
        assert done.returncode == 2, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        for text in said:
            assert text in done.stderr
        assert not out.exists()
        assert not list(tmp_path.glob(".*partial*"))

    return check


@pytest.fixture(scope="session")
def trace(tmp_path_factory):
    """A small canonical trace on disk."""
    folder = tmp_path_factory.mktemp("trace") / "small"
    write_trace(open_trace("google").select(range(24)), folder)
    return folder


@pytest.fixture(scope="session")
def run(call, tiny, trace, tmp_path_factory):
    """A finished training run."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    done = call("train.py", "--trace", trace, "--out", out, *tiny, "--iterations", 6)
    assert done.returncode == 0, done.stderr
    return out, done.stdout
