"""What is said while kernels are compiled, by a clock of our own; signals in the middle of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tvwrl import compiled
from tvwrl.compiling import Progress, seconds_of_kernels
from tvwrl.machine_code import PACKAGE


class Clock:
    """Seconds that pass when we say so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def compile_all(progress: Progress, clock: Clock, **seconds: float) -> None:
    for kernel, taken in seconds.items():
        progress.begin()
        clock.now += taken
        progress.end(kernel)


def test_nothing_is_said_of_what_takes_two_seconds_at_most(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    compile_all(Progress({"a": 0.5, "b": 1.0}, clock), clock, a=0.6, b=1.3)
    assert not caplog.messages


def test_without_a_terminal_one_line_at_the_beginning_says_how_long_it_takes(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    compile_all(Progress({"a": 4.0, "b": 8.0}, clock), clock, a=4, b=8)
    assert caplog.messages == ["compiling kernels, only on first use: about 12 s (tvwrl warm-up does this in advance)"]
    assert caplog.records[0].name == "tvwrl"


def test_where_the_time_is_not_known_the_line_comes_after_two_seconds(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    progress = Progress({}, clock)
    compile_all(progress, clock, a=1.5)
    assert not caplog.messages
    clock.now += 100  # of other work
    compile_all(progress, clock, b=1.0)
    assert caplog.messages == ["compiling kernels, only on first use (tvwrl warm-up does this in advance)"]


def test_a_terminal_shows_what_is_left_at_the_pace_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    clock = Clock()
    progress = Progress({"a": 2.0, "b": 3.0, "inside": 1.0}, clock)
    progress.begin()
    progress.begin()
    clock.now += 4.0  # three times as long as expected, as it will turn out
    progress.end("inside")
    clock.now += 5.0
    progress.end("a")
    shown = capsys.readouterr().err
    assert "0 of 3, about 6 s left" in shown
    assert "2 of 3, about 9 s left" in shown
    progress.begin()
    progress.end("one that nobody expected")
    assert "3 of 4" in capsys.readouterr().err
    assert not caplog.messages


def test_the_table_names_kernels_that_there_are() -> None:
    table = seconds_of_kernels()
    assert {"environment", "train", "evaluate", "provision", "place"} <= set(table)
    assert "tvwrl.simulation.clock_kernels.drive" in table["environment"]
    for kernel in {kernel for kernels in table.values() for kernel in kernels}:
        module, _, name = kernel.rpartition(".")
        file = PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
        assert f"\ndef {name}(" in file.read_text("utf-8"), f"{kernel} is gone: python benchmarks/compile.py --write"


def compile_in(folder: Path, code: str, **environment: str) -> str:
    """What a process prints that has a cache of its own."""
    settings = os.environ | {"NUMBA_CACHE_DIR": str(folder)} | environment
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=settings, check=True, text=True, capture_output=True).stdout


def test_a_kernel_is_kept_once_it_is_compiled(tmp_path: Path) -> None:
    code = """
import numpy as np
from tvwrl.machine_code import is_kept
name = "tvwrl.packing.booking.book"
print(is_kept(name))
from tvwrl.packing.booking import book
load = np.zeros((4, 1))
book(load, 1, np.ones((2, 1)), 2)
print(is_kept(name), is_kept(name + "_from_python"), is_kept("tvwrl.packing.booking.nothing"), load.sum())
"""
    assert compile_in(tmp_path, code).split() == ["False", "False", "True", "False", "2.0"]


def test_python_may_call_an_inner_kernel_before_and_after_other_kernels_do() -> None:
    @compiled.inner(cache=False)
    def double(x: float) -> float:
        return 2 * x

    @compiled.njit(cache=False)
    def four_times(x: float) -> float:
        doubled: float = double(double(x))
        return doubled

    assert (double(3), four_times(3), double(3), double(0.5), four_times(0.5)) == (6, 12, 6, 1.0, 2.0)


def test_ctrl_c_in_a_users_own_python_has_a_short_traceback(tmp_path: Path) -> None:
    code = """
import os, signal
from numba.core import event
from tvwrl.compiled import njit

class Interruption(event.Listener):
    def on_start(self, event):
        os.kill(os.getpid(), signal.SIGINT)

    def on_end(self, event):
        pass

@njit(cache=False)
def double(x):
    return 2 * x

event.register("numba:compile", Interruption())
double(1.0)
"""
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert "numba" not in done.stderr
    assert done.stderr.count("  File ") == 2  # the user's line, and that of the kernel


INTERRUPTED = """
import os
import sys
from numba.core import event
from tvwrl.cli.door import run

class Interruption(event.Listener):
    depth = 0

    def on_start(self, event):
        self.depth += 1
        if self.depth == int(sys.argv[3]):
            os.kill(os.getpid(), int(sys.argv[1]))

    def on_end(self, event):
        self.depth -= 1

def work():
    from tvwrl.compiled import inner, njit

    @inner(cache=False)
    def double(x):
        return 2 * x

    @njit(cache=False)
    def four_times(x):
        return double(double(x))

    event.register(sys.argv[2], Interruption())
    four_times(1.0)
    print("went on")

run(work)
"""


@pytest.mark.parametrize(
    ("kind", "depth"),
    [("numba:compile", 1), ("numba:compile", 2), ("numba:llvm_lock", 1)],
    ids=["before its types are known", "while they are", "while it becomes machine code"],
)
@pytest.mark.parametrize(
    ("number", "code", "line"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]
)
def test_a_signal_while_a_kernel_is_compiled_ends_in_one_line(
    number: int, code: int, line: str, kind: str, depth: int
) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(int(number)), kind, str(depth)]
    done = subprocess.run(command, text=True, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", line + "\n")
