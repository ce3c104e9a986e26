"""What is said while kernels are compiled, by a clock of our own; signals in the middle of it."""

import signal
import subprocess
import sys

import pytest

from tvwrl import compiled
from tvwrl.compiling import SAID, Notice


class Clock:
    """Seconds that pass when we say so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def compile_all(notice: Notice, clock: Clock, **seconds: float) -> None:
    for taken in seconds.values():
        notice.begin()
        clock.now += taken
        notice.end()


def test_one_line_after_two_seconds_of_compiling(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    notice = Notice(clock)
    compile_all(notice, clock, a=1.9)
    clock.now += 100  # of other work
    compile_all(notice, clock, b=0.1)
    assert not caplog.messages
    compile_all(notice, clock, c=1.0, d=9.0)
    assert caplog.messages == [SAID]
    assert caplog.records[0].name == "tvwrl"


def test_kernels_inside_of_others_count_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    notice = Notice(clock)
    notice.begin()
    clock.now += 1.0
    compile_all(notice, clock, inside=0.9)
    notice.end()
    compile_all(notice, clock, after=0.05)
    assert not caplog.messages
    compile_all(notice, clock, a=1.0, b=1.0)
    assert caplog.messages == [SAID]


def test_python_may_call_an_inner_kernel_before_and_after_other_kernels_do() -> None:
    @compiled.inner(cache=False)
    def double(x: float) -> float:
        return 2 * x

    @compiled.njit(cache=False)
    def four_times(x: float) -> float:
        doubled: float = double(double(x))
        return doubled

    assert (double(3), four_times(3), double(3), double(0.5), four_times(0.5)) == (6, 12, 6, 1.0, 2.0)


def test_ctrl_c_in_a_users_own_python_has_a_short_traceback() -> None:
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
